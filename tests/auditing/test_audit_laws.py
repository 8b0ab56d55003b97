"""What every audit obeys: fair scores pass, unfair ones do not, order and names do not count."""

from itertools import product

import fairlearn.metrics as fl
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, ttest_1samp
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score

from equipoise.auditing import audit
from equipoise.auditing.assess import FAMILIES, TEST
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.inference.certificate import certify
from equipoise.inference.estimate import holm
from equipoise.inference.gap import gap_estimates
from equipoise.inference.permutation import permutation_test
from equipoise.metrics import METRICS, find_metric, measure, prepare
from equipoise.tables import SensitiveTable

FAST = {"draws": 60, "permutations": 99}
TESTED = {name for family in FAMILIES for name in family}


def people(n=1500, seed=0):
    """Scores that depend on age, group and y."""
    rng = np.random.default_rng(seed)
    A = pd.DataFrame(
        {
            "age": rng.normal(45, 10, n),
            "race": rng.choice(["p", "q", "r"], n, p=[0.6, 0.3, 0.1]),
            "sex": rng.choice(["F", "M"], n),
        }
    )
    y = rng.integers(0, 2, n)
    scores = rng.normal(size=n) + y + 0.03 * (A["age"] - 45) + 0.5 * (A["sex"] == "M")
    return scores.to_numpy(), y, A


def about(frame, metric, attribute, group="all rows"):
    rows = frame.query("metric == @metric and attribute == @attribute and group == @group")
    assert len(rows) == 1
    return rows.iloc[0]


@pytest.fixture(scope="module")
def audited():
    scores, y, A = people()
    return audit(scores, y, A, **FAST)


def test_a_score_that_ignores_everything_is_found_fair_exactly():
    # Every score beside every outcome, group and age.
    table = pd.DataFrame(
        product(range(9), (0, 1), "pqr", range(30, 42)), columns=["score", "y", "race", "age"]
    )
    found = audit(
        table["score"],
        table["y"],
        table[["age", "race"]],
        threshold=4,
        sensitive_types={"age": "continuous"},
        **FAST,
    ).to_frame()
    whole = found[(found["group"] == "all rows") & (found["attribute"] != "")]
    for row in whole.itertuples():
        tested = row.metric in TESTED
        assert row.p_value == 1.0 if tested else np.isnan(row.p_value), row.metric
        if row.metric != TEST:
            fair = METRICS[row.metric].fair_value
            assert row.value == pytest.approx(fair, abs=1e-6), row.metric
            assert row.low - 1e-9 <= fair <= row.high + 1e-9, row.metric
    # Comparisons by age and by race, of the latter three under neither notion; gaps, dependence
    # and tests of each and of both.
    assert len(whole) == 4 + 13 + 3 + 3 * (4 + 8 + 2)


#: What an audit tells in units of the scores.
MEANS_IN_UNITS = {"mean score", "mean error", "mean absolute error", "RMSE"}
IN_UNITS = {
    *("MAE", "GDP", "GDP|Y", "error difference", "absolute error difference"),
    *MEANS_IN_UNITS,
    *(f"{name} difference" for name in MEANS_IN_UNITS),
}
NUMBERS = ["value", "low", "high", "p_value", "certificate"]


def predictions(n=150):
    """Predictions of an outcome; the attribute is on a grid, to be exact far from zero."""
    rng = np.random.default_rng(0)
    age, y = np.round(64 * rng.normal(size=n)), 2 + rng.normal(size=n)
    scores = y + rng.normal(size=n) + age / 100
    return scores, y, age, rng.choice(["F", "M"], n)


def audited_as(size, age_size=1.0, age_far=0.0):
    scores, y, age, sex = predictions()
    A = {"age": age_size * age + age_far, "sex": sex}
    return audit(size * scores, size * y, A, draws=10, permutations=9)


@pytest.fixture(scope="module")
def in_ordinary_units():
    return audited_as(1.0).to_frame()


@pytest.mark.parametrize(
    "units", [(1e-300,), (1e-170,), (1e154,), (1e300,), (1, 1e-300), (1, 1e300), (1, 2.0**-20, 1e9)]
)
def test_units_of_scores_outcome_and_attributes_mean_nothing(units, in_ordinary_units):
    found = audited_as(*units)
    assert len(str(found)) < 10_000  # no number takes 300 digits
    found = found.to_frame()
    unit = np.where(found["metric"].isin(IN_UNITS), units[0], 1.0)
    found[["value", "low", "high"]] = found[["value", "low", "high"]].div(unit, axis=0)
    pd.testing.assert_frame_equal(found[NUMBERS], in_ordinary_units[NUMBERS], rtol=1e-9, atol=1e-12)
    # Every group has a name of its own.
    groups = found[found["metric"] == "mean score"]
    assert not groups.duplicated(["attribute", "group"]).any()


def test_scores_drawn_without_a_look_at_anything_are_rarely_accused():
    missed, p_values = [], []
    for seed in range(6):
        _, y, A = people(600, seed=seed)
        scores = np.random.default_rng(seed + 100).normal(size=600)
        found = audit(scores, y, A, **FAST).to_frame()
        whole = found[(found["group"] == "all rows") & (found["attribute"] != "")]
        tests = whole["metric"] == TEST
        p_values.extend(whole.loc[tests, "p_value"])
        whole = whole[whole["value"].notna() & ~tests]
        fair = whole["metric"].map(lambda name: METRICS[name].fair_value)
        missed.extend((fair < whole["low"]) | (whole["high"] < fair))
    # By race x sex, some ratios have no denominator.
    assert len(missed) > 6 * 80 and len(p_values) == 6 * 10
    # 5 % each, and far from independent of each other.
    assert np.mean(missed) < 0.1
    assert np.mean(np.array(p_values) <= 0.05) < 0.15


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_truth_about_the_synthetic_family_is_recovered(task):
    data = make_synthetic(6_000, task=task, random_state=3)
    scores = data.truth.plain_score(data.X)
    frame = audit(scores, data.y, data.A, **FAST).to_frame()
    for attribute in ("age", "group"):
        for metric, truth in (
            ("KS-GSP", data.truth.ks_gsp(attribute)),
            ("KS-GEO", data.truth.ks_geo(attribute)),
        ):
            row = about(frame, metric, attribute)
            assert row["low"] < truth < row["high"], (metric, attribute)
            assert row["value"] < row["certificate"]
            assert truth < row["certificate"]
        for metric in ("gap", "gap given Y"):
            # The smallest that 99 permutations can give.
            assert about(frame, metric, attribute)["p_value"] == 0.01
    utility = about(frame, "AUC" if task == "classification" else "R2", "")
    assert utility["low"] < data.truth.plain_utility < utility["high"]


def test_the_order_of_rows_changes_nothing():
    scores, y, A = people(400)
    scores = scores.round(1)  # with ties
    shuffled = np.random.default_rng(5).permutation(400)
    before = audit(scores, y, A, **FAST).to_frame()
    after = audit(scores[shuffled], y[shuffled], A.iloc[shuffled], **FAST).to_frame()
    pd.testing.assert_frame_equal(before, after, rtol=1e-12)


def test_new_names_for_groups_permute_the_table():
    scores, y, A = people(400)
    names = {"p": "z", "q": "y", "r": "x"}
    before = audit(scores, y, A[["race"]], **FAST).to_frame()
    after = audit(scores, y, A[["race"]].replace(names), **FAST).to_frame()
    key = ["metric", "group"]
    before["group"] = before["group"].replace(names)
    pairs = {f"{a} vs {b}": f"{names[a]} vs {names[b]}" for a, b in product(names, names)}
    before["group"] = before["group"].replace(pairs)
    before = before.sort_values(key, ignore_index=True)
    after = after.sort_values(key, ignore_index=True)
    same = ["metric", "group", "value", "certificate", "n"]
    pd.testing.assert_frame_equal(before[same], after[same], rtol=1e-12)


def test_rates_by_group_agree_with_fairlearn(audited):
    scores, y, A = people()
    decisions = scores > audited.threshold
    frame = audited.to_frame()
    functions = {
        "selection rate": fl.selection_rate,
        "true positive rate": fl.true_positive_rate,
        "false positive rate": fl.false_positive_rate,
    }
    for column in ("race", "sex"):
        theirs = fl.MetricFrame(
            metrics=functions, y_true=y, y_pred=decisions, sensitive_features=A[column]
        ).by_group
        for name, group in product(functions, theirs.index):
            assert about(frame, name, column, group)["value"] == pytest.approx(
                theirs.loc[group, name], abs=1e-12
            )
    crossed = fl.MetricFrame(
        metrics=fl.count, y_true=y, y_pred=decisions, sensitive_features=A[["race", "sex"]]
    ).by_group
    for race, sex in crossed.index:
        row = about(frame, "mean score", "race x sex", f"{race}, {sex}")
        assert row["n"] == crossed[race, sex]
    assert about(frame, "equalized odds difference", "sex")["value"] == pytest.approx(
        fl.equalized_odds_difference(y, decisions, sensitive_features=A["sex"]), abs=1e-12
    )


def test_intervals_of_groups_agree_with_scipy(audited):
    scores, _, A = people()
    frame = audited.to_frame()
    for group in ("p", "q", "r"):
        inside = scores[A["race"] == group]
        rate = about(frame, "selection rate", "race", group)
        hits = int((inside > audited.threshold).sum())
        each = 1 - 0.05 / 3  # of three groups, so that all hold at once
        theirs = binomtest(hits, len(inside)).proportion_ci(each, method="exact")
        assert (rate["low"], rate["high"]) == pytest.approx(tuple(theirs), abs=1e-12)
        mean = about(frame, "mean score", "race", group)
        theirs = ttest_1samp(inside, 0).confidence_interval(each)
        assert (mean["low"], mean["high"]) == pytest.approx(tuple(theirs), abs=1e-12)


def test_every_number_is_that_of_the_function_it_comes_from(audited):
    scores, y, A = people()
    table = SensitiveTable.from_data(A)
    frame = audited.to_frame()
    assert about(frame, "AUC", "")["value"] == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
    for column in table.columns:
        for name in METRICS:
            metric = find_metric(name)
            if column.kind not in metric.attributes or "binary" not in metric.outcomes:
                continue
            if metric.needs_probabilities:  # these scores are none
                continue
            row = about(frame, name, column.name)
            if metric.beyond_chance:  # by so many permutations as the audit makes
                sample = prepare(scores, y).against(column)
                expected = gap_estimates(metric, sample, permutations=99)[0].value
            else:
                expected = float(measure(name, scores, column, y))
            # Dependence on 1 500 rows is exact; HSIC's rounding depends on the order of rows.
            assert row["value"] == pytest.approx(expected, rel=1e-9), (name, column.name)
            assert row["low"] <= row["value"] <= row["high"]
            assert row["n"] == 1500
        one = SensitiveTable((column,))
        tests = frame[(frame["metric"] == TEST) & (frame["attribute"] == column.name)]
        expected = [
            permutation_test(scores, one, y=given, permutations=99).p for given in (None, y)
        ]
        assert tests["p_value"].tolist() == expected
        assert about(frame, "KS-GEO", column.name)["certificate"] == float(
            certify(scores, column, y=y).upper
        )
    joint = frame[(frame["metric"] == TEST) & (frame["attribute"] == "age, race, sex")]
    expected = permutation_test(scores, table, y=y, permutations=99).p
    assert joint.set_index("notion")["p_value"]["separation"] == expected


def test_more_candidates_make_every_certificate_larger():
    scores, y, A = people(500)
    one = audit(scores, y, A, **FAST).to_frame()["certificate"].dropna()
    many = audit(scores, y, A, candidates=50, **FAST).to_frame()["certificate"].dropna()
    assert (many > one).all()


def test_regression_is_measured_in_the_units_of_y():
    rng = np.random.default_rng(0)
    y = rng.normal(50, 10, 500)
    scores = y + rng.normal(size=500)
    sex = np.repeat(["F", "M"], 250)
    scores[250:] += 2
    frame = audit(scores, y, {"sex": sex}, **FAST).to_frame()
    assert about(frame, "MAE", "")["value"] == pytest.approx(mean_absolute_error(y, scores))
    assert about(frame, "R2", "")["value"] == pytest.approx(r2_score(y, scores), abs=1e-12)
    gap = (
        about(frame, "mean error", "sex", "M")["value"]
        - about(frame, "mean error", "sex", "F")["value"]
    )
    assert gap == pytest.approx((scores - y)[250:].mean() - (scores - y)[:250].mean(), abs=1e-12)


def test_one_class_against_the_rest():
    rng = np.random.default_rng(0)
    y = rng.choice(["red", "green", "blue"], 300)
    scores = rng.normal(size=300) + (y == "green")
    sex = rng.choice(["F", "M"], 300)
    one = audit(scores, y, {"sex": sex}, positive="green", **FAST)
    pd.testing.assert_frame_equal(
        one.to_frame(), audit(scores, y == "green", {"sex": sex}, **FAST).to_frame()
    )
    assert one.outcome_words == "binary, positive is green (against the rest of 3 classes)"
    assert about(one.to_frame(), "AUC", "")["value"] == pytest.approx(
        roc_auc_score(y == "green", scores), abs=1e-12
    )


def test_p_values_are_adjusted_by_holm_for_all_attributes_and_notions(audited):
    frame = audited.to_frame()
    for family in FAMILIES:
        rows = frame[frame["metric"].isin(family)]
        jointly = (rows["attribute"] == "age, race, sex") & (rows["metric"] != TEST)
        # The gap of all columns together counts them all already.
        assert (rows[jointly]["p_adjusted"] == rows[jointly]["p_value"]).all()
        rest = rows[~jointly]
        assert rest["p_adjusted"].tolist() == pytest.approx(holm(rest["p_value"].tolist()))
    assert frame[~frame["metric"].isin(TESTED)]["p_value"].isna().all()


def test_a_test_is_not_made_twice_under_two_names():
    scores, y, A = people(300)
    frame = audit(scores, y, A[["race", "sex"]], **FAST).to_frame()
    tests = frame[(frame["metric"] == TEST) & (frame["notion"] == "independence")]
    # "race x sex" has the cells of "race, sex".
    assert tests["attribute"].tolist() == ["race", "sex", "race, sex"]


def test_equal_weights_change_nothing_and_unequal_ones_count_in_rates():
    scores, y, A = people(600)
    A = A[["sex"]]
    plain = audit(scores, y, A, threshold=2.0, **FAST)
    same = audit(scores, y, A, threshold=2.0, sample_weight=np.full(600, 7.0), **FAST)
    pd.testing.assert_frame_equal(plain.to_frame(), same.to_frame())
    weights = np.random.default_rng(1).uniform(0.5, 4.0, 600)
    frame = audit(scores, y, A, threshold=2.0, sample_weight=weights, **FAST).to_frame()
    rates = fl.MetricFrame(
        metrics=fl.selection_rate,
        y_true=y,
        y_pred=scores > 2.0,
        sensitive_features=A["sex"],
        sample_params={"sample_weight": weights},
    )
    for sex in "FM":
        found = about(frame, "selection rate", "sex", sex)["value"]
        assert found == pytest.approx(rates.by_group[sex], abs=1e-12)
    parity = about(frame, "demographic parity difference", "sex")["value"]
    assert parity == pytest.approx(rates.difference(), abs=1e-12)
    sample = prepare(scores, y, weights=weights).against(SensitiveTable.from_data(A)["sex"])
    (gap,) = gap_estimates(METRICS["gap"], sample, permutations=99)
    assert about(frame, "gap", "sex")["value"] == pytest.approx(gap.value, abs=1e-9)
    assert frame["certificate"].isna().all()


def test_a_perfect_prediction_is_not_called_unfair_given_a_continuous_outcome():
    """KS-GEO and EO are far from 0 there, and say that this means nothing."""
    random = np.random.default_rng(0)
    sex = random.choice(["F", "M"], 1500)
    y = random.normal(10, 1, 1500) + 1.0 * (sex == "M")
    found = audit(y, y, {"sex": sex}, notion="separation", **FAST)
    frame = found.to_frame()
    assert about(frame, "KS-GEO", "sex")["value"] > 0.2
    for metric in ("KS-GEO", "EO"):
        assert "does not show unfairness" in about(frame, metric, "sex")["note"]
    gap = about(frame, "gap given Y", "sex")
    assert (gap["value"], gap["low"]) == (0, 0)
    assert "No group differs beyond chance" in " ".join(str(found).split())
    for measure_name in ("dCor|Y", "HSIC|Y", "HGR|Y", "GDP|Y"):
        assert about(frame, measure_name, "sex")["low"] <= 1e-9


def test_a_summary_never_finds_nothing_beside_an_interval_that_excludes_0():
    """Verdict and interval come from one rule, whatever the data."""
    for seed in range(12):
        scores, _, A = people(400, seed=seed)
        scores = scores + 0.25 * (A["race"] == "q") + np.random.default_rng(seed).normal(size=400)
        found = audit(scores, None, A[["race"]], permutations=99, draws=5)
        gap = about(found.to_frame(), "gap", "race")
        said = " ".join(str(found).split())
        nothing = "No group differs beyond chance" in said
        assert nothing == (gap["low"] == 0) == (gap["p_value"] > 0.05)


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        (np.ones(3), ("sample_weight", "one number for each of the 50 scores", "(3,)")),
        (np.zeros(50), ("sample_weight", "above 0", "got 0", "leave rows")),
        (["a"] * 50, ("sample_weight", "numbers")),
    ],
)
def test_wrong_weights_are_refused(weights, parts):
    scores, y, A = people(50)
    with pytest.raises(InputError) as refused:
        audit(scores, y, A, sample_weight=weights, **FAST)
    assert all(part in str(refused.value) for part in parts)
