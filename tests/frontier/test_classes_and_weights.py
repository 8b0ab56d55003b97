"""Several classes, and rows that count more than others."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score, roc_auc_score
from small_frontiers import SMALL, fitted, rows, three_classes, weights

from equipoise import FairClassifier, load
from equipoise.errors import InputError
from equipoise.inference import bootstrap, certify
from equipoise.inference.bootstrap import auc_interval, utility_intervals
from equipoise.inference.gap import gap_estimates
from equipoise.metrics import find_metric, measure, prepare, r2
from equipoise.tables import SensitiveTable
from tests.composing import composed
from tests.error_parts import says

ONE = {**SMALL, "strengths": (0.5,), "seeds": 1, "evaluate_every": 40}


def held_out(frontier, part):
    """Features, sensitive columns and positions of one part."""
    data, positions = rows(), getattr(frontier.split_, part)
    return data.X.iloc[positions], SensitiveTable.from_data(data.A).take(positions), positions


def test_utility_of_several_classes_is_the_mean_auc_against_the_rest():
    frontier, y = fitted("three classes, ensemble"), three_classes(rows())
    assert frontier.utility_ == "macro AUC"
    table = frontier.table()
    assert "threshold" not in table
    X, people, positions = held_out(frontier, "validation")
    for number in np.flatnonzero(table["on_front"]).tolist():
        model = frontier.fitted_curve().model(number)
        scores = model.predict_proba(X)
        expected = roc_auc_score(y[positions], scores, multi_class="ovr", average="macro")
        assert table.loc[number, "utility"] == pytest.approx(expected, abs=1e-12)
        for name in ("age", "group"):
            for metric in ("gap", "KS-GSP"):
                worst = max(float(measure(metric, each, people[name])) for each in scores.T)
                assert table.loc[number, f"{metric} {name}"] == pytest.approx(worst, abs=1e-9)
    assert list(table.columns[6:-1]) == ["gap age", "gap group", "KS-GSP age", "KS-GSP group"]


def test_the_report_on_several_classes_is_about_the_worst_and_holds_for_all():
    frontier, y = fitted("three classes, ensemble"), three_classes(rows())
    chosen = frontier.select(min_utility=0.5, draws=40, level=0.9, candidates=2)
    X, people, positions = held_out(frontier, "test")
    scores = chosen.model.predict_proba(X).T
    utility, *gaps_and_distances = chosen.rows
    expected = roc_auc_score(y[positions], scores.T, multi_class="ovr", average="macro")
    assert utility.test == pytest.approx(expected, abs=1e-12)
    assert utility.low < utility.test < utility.high
    for row in [row for row in gaps_and_distances if row.metric == "gap"]:
        sample = prepare(scores, y[positions], outcome="multiclass").against(people[row.attribute])
        # Three classes share the error, and so do two candidates in the certificate.
        found = gap_estimates(find_metric("gap"), sample, level=1 - 0.1 / 3, candidates=2)
        worst = max(found, key=lambda each: each.value)
        assert row.test == pytest.approx(worst.value, abs=1e-9)
        assert (row.chance, row.where) == (pytest.approx(worst.chance, abs=1e-9), worst.where)
        assert row.low == pytest.approx(max(each.low for each in found), abs=1e-9)
        assert row.high == pytest.approx(max(each.high for each in found), abs=1e-9)
        shared = gap_estimates(find_metric("gap"), sample, level=0.9, candidates=6)
        bound = max(each.certificate for each in shared)
        assert row.certificate == pytest.approx(bound, abs=1e-9)
    for row in [row for row in gaps_and_distances if row.metric == "KS-GSP"]:
        column = people[row.attribute]
        # Three intervals at 1 - 0.1 / 3 hold together at 0.9.
        found = bootstrap(["KS-GSP"], scores, [column], draws=40, level=1 - 0.1 / 3)
        assert row.test == pytest.approx(max(each.value for each in found), abs=1e-9)
        assert row.low == pytest.approx(max(each.low for each in found), abs=1e-9)
        assert row.high == pytest.approx(max(each.high for each in found), abs=1e-9)
        bound = certify(scores, column, level=0.9, candidates=6)
        assert row.certificate == pytest.approx(bound.upper.max(), abs=1e-9)


def test_a_selection_says_that_the_worst_class_counts(tmp_path):
    frontier = fitted("three classes, ensemble")
    worst = "Unfairness is that of the worst of the 3 classes, each assessed by its own probability"
    said = " ".join(str(frontier.select(min_utility=0.5, draws=2)).split())
    assert (
        f"{worst}; intervals and certificates hold for all 3 together. Each certificate holds by "
        "itself, for this selection"
    ) in said
    frontier.save(tmp_path / "bare", include_test_rows=False)
    bare = " ".join(str(load(tmp_path / "bare").select(min_utility=0.5)).split())
    assert bare.endswith(f"{worst}.")
    with pytest.raises(
        InputError, match=r"KS-GSP by group \d\.\d{4} of the worst class; ask for these values"
    ):
        frontier.select(max_unfairness=0.0, metric="KS-GSP")
    assert "worst" not in str(fitted("two classes, ensemble").select(min_utility=0.5, draws=2))


def test_certificates_under_separation_are_given_the_outcome():
    frontier = fitted("separation")
    chosen = frontier.select(min_utility=0.5, draws=2)
    X, people, positions = held_out(frontier, "test")
    y, scores = rows().y.to_numpy()[positions], chosen.model.predict_proba(X)[:, 1]
    certified = [row for row in chosen.rows if row.metric == "KS-GEO"]
    assert [row.attribute for row in certified] == ["age", "group"]
    for row in certified:
        given = certify(scores, people[row.attribute], y=y, outcome="binary")
        assert row.certificate == pytest.approx(float(given.upper), abs=1e-9)
        unconditional = certify(scores, people[row.attribute])
        assert abs(row.certificate - float(unconditional.upper)) > 0.01


def test_separation_of_several_classes_has_its_metric():
    data = rows()
    # Enough rows of every class in every group for each part.
    y = np.arange(len(data.y)) % 3
    frontier = composed(notion="separation", **ONE)
    frontier.fit(data.X, y, sensitive_features=data.A[["age"]])
    assert list(frontier.table().columns[4:-1]) == ["utility", "gap given Y age", "KS-GEO age"]
    X, people, positions = held_out(frontier, "validation")
    scores = frontier.fitted_curve().model(0).predict_proba(X)
    for metric in ("gap given Y", "KS-GEO"):
        worst = max(
            float(measure(metric, each, people["age"], y[positions], outcome="multiclass"))
            for each in scores.T
        )
        assert frontier.table().loc[0, f"{metric} age"] == pytest.approx(worst, abs=1e-9)


@pytest.mark.parametrize("metric", ["SP", "demographic parity difference"])
def test_metrics_of_two_classes_are_refused_for_three(metric):
    data = rows()
    with pytest.raises(
        InputError, match=f"^metrics must apply to some attribute: {metric} is defined for "
    ):
        composed(metrics=[metric], **ONE).fit(
            data.X, three_classes(data), sensitive_features=data.A[["group"]]
        )


# So short a training is rarely healthy.
@pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning")
def test_a_weighted_frontier_of_one_is_the_weighted_classifier():
    data = rows()
    given = weights(len(data.y))
    frontier = composed(**ONE)
    frontier.fit(data.X, data.y, sensitive_features=data.A, sample_weight=given)
    train = frontier.split_.train
    assert (given[train] > 0).all()
    options = {"strength": 0.5, "random_state": frontier.random_state}
    alone = FairClassifier(**{**frontier.estimator.get_params(), **options}).fit(
        data.X.iloc[train],
        data.y.iloc[train],
        sensitive_features=data.A.iloc[train],
        sample_weight=given[train],
    )
    model = frontier.select(min_utility=0.0, draws=2).model
    assert np.array_equal(model.predict_proba(data.X), alone.predict_proba(data.X))


def test_weights_count_when_judging_and_in_the_report():
    data = rows()
    given = weights(len(data.y))
    frontier = composed(**ONE)
    frontier.fit(data.X, data.y, sensitive_features=data.A, sample_weight=given)
    chosen = frontier.select(min_utility=0.0, draws=30)
    found = frontier.table().loc[0]
    for part in ("validation", "test"):
        X, people, positions = held_out(frontier, part)
        y, part_weights = data.y.to_numpy()[positions], given[positions]
        scores = chosen.model.predict_proba(X)[:, 1]
        auc = roc_auc_score(y, scores, sample_weight=part_weights)
        assert abs(auc - roc_auc_score(y, scores)) > 1e-4
        assert getattr(chosen.rows[0], part) == pytest.approx(auc, abs=1e-12)
        for row in chosen.rows[1:]:
            # A weight is a number of rows: weights of one on average.
            count = part_weights / part_weights.mean()
            value = float(
                measure(
                    row.metric,
                    scores,
                    people[row.attribute],
                    y,
                    weights=count,
                    threshold=found["threshold"],
                )
            )
            assert getattr(row, part) == pytest.approx(value, abs=1e-9)
            assert row.low <= row.test <= row.high and row.low < row.high
            assert np.isnan(row.certificate)
    assert "Each further model you compare on these test rows" in " ".join(str(chosen).split())
    for row in chosen.rows[1:]:
        certified = row.metric in ("gap", "KS-GSP")
        assert ("no certificate: it holds only for rows of equal weight" in row.note) == certified


def test_drawn_rows_keep_their_weight_in_the_interval_of_utility():
    data = rows()
    # So unequal that the draws are less sure than as many rows of one weight would be.
    given = weights(len(data.y)) ** 4
    frontier = composed(**ONE)
    frontier.fit(data.X, data.y, sensitive_features=data.A, sample_weight=given)
    utility = frontier.select(min_utility=0.0, draws=30, level=0.8).rows[0]
    X, _, positions = held_out(frontier, "test")
    y, n = data.y.to_numpy()[positions], len(positions)
    scores = frontier.select(min_utility=0.0, draws=2).model.predict_proba(X)[:, 1]
    random = np.random.default_rng(0)
    drawn = []
    for _ in range(30):
        at = random.integers(n, size=n)
        drawn.append(roc_auc_score(y[at], scores[at], sample_weight=given[positions][at]))
    least, most = np.quantile(drawn, [0.1, 0.9], method="weibull")
    basic = 2 * utility.test - most, 2 * utility.test - least
    near = auc_interval(utility.test, int((y == 1).sum()), int((y == 0).sum()), 0.8)
    assert basic[0] < near[0] < near[1] < basic[1]
    assert (utility.low, utility.high) == pytest.approx(basic, abs=1e-12)


def test_weighted_regression_is_judged_by_weighted_r2():
    data, frontier = rows("regression"), fitted("numbers, weights")
    number = int(np.flatnonzero(frontier.table()["on_front"])[0])
    model = frontier.fitted_curve().model(number)
    validation = frontier.split_.validation
    assert 0 < len(validation) < 300  # rows of weight 0 among those named are left out
    expected = r2_score(
        data.y.iloc[validation],
        model.predict(data.X.iloc[validation]),
        sample_weight=weights(len(data.y))[validation],
    )
    assert frontier.table().loc[number, "utility"] == pytest.approx(expected, abs=1e-12)


def test_rows_of_weight_0_might_as_well_not_be_there():
    data = rows()
    given = weights(len(data.y))
    counted = np.flatnonzero(given)
    frontiers = []
    for at, sample_weight in ((np.arange(len(given)), given), (counted, given[counted])):
        frontier = composed(**ONE | {"iterations": 20, "evaluate_every": 10})
        frontier.fit(
            data.X.iloc[at],
            data.y.iloc[at],
            sensitive_features=data.A.iloc[at],
            sample_weight=sample_weight,
        )
        frontiers.append(frontier)
    pd.testing.assert_frame_equal(*(each.table() for each in frontiers), check_exact=True)
    assert np.array_equal(frontiers[0].split_.test, counted[frontiers[1].split_.test])


def test_the_scale_of_weights_does_not_matter_and_ones_are_none():
    data = rows()
    tables = []
    for sample_weight in (None, np.full(len(data.y), 8.0)):
        frontier = composed(**ONE | {"iterations": 20, "evaluate_every": 20})
        frontier.fit(data.X, data.y, sensitive_features=data.A, sample_weight=sample_weight)
        tables.append(frontier.table())
    pd.testing.assert_frame_equal(*tables, rtol=1e-6)


def test_a_weighted_bootstrap_of_whole_weights_draws_rows_with_their_weight():
    # A row of weight 2 is drawn as one: its interval is wider than that of two rows.
    random = np.random.default_rng(0)
    group, scores = random.integers(0, 2, 300), random.random(300)
    scores += 0.2 * group
    column = SensitiveTable.from_data({"group": group})["group"]
    doubled = SensitiveTable.from_data({"group": np.repeat(group, 2)})["group"]
    (weighted,) = bootstrap(["KS-GSP"], scores, [column], weights=np.full(300, 2.0), draws=100)
    (plain,) = bootstrap(["KS-GSP"], scores, [column], draws=100)
    (twice,) = bootstrap(["KS-GSP"], np.repeat(scores, 2), [doubled], draws=100)
    assert (weighted.value, weighted.low, weighted.high) == pytest.approx(
        (plain.value, plain.low, plain.high), abs=1e-12
    )
    assert twice.value == pytest.approx(weighted.value, abs=1e-12)
    assert twice.high - twice.low < weighted.high - weighted.low


def test_more_rows_than_are_drawn_one_by_one_keep_their_weights(monkeypatch):
    random = np.random.default_rng(0)
    group, scores = random.integers(0, 2, 300), random.random(300)
    column = SensitiveTable.from_data({"group": group})["group"]
    given = random.integers(1, 4, 300).astype(float)
    (exact,) = bootstrap(["KS-GSP"], scores, [column], weights=given, draws=50)
    # By module, since the package's function of that name hides it.
    monkeypatch.setattr(sys.modules["equipoise.inference.bootstrap"], "EXACT_ROWS", 100)
    (found,) = bootstrap(["KS-GSP"], scores, [column], weights=given, draws=50)
    assert found == exact


@pytest.mark.parametrize(
    ("options", "sample_weight", "parts"),
    [
        (
            {},
            np.ones(3),
            ("sample_weight", "one value for each of the 1500 rows", "3", "same rows"),
        ),
        (
            {"metrics": ["HGR"]},
            np.ones(1500),
            ("metrics", "row weights", "sample_weight", "'HGR'", "leave one of the two out"),
        ),
    ],
)
def test_wrong_weights_are_refused(options, sample_weight, parts):
    data = rows()
    with pytest.raises(InputError) as refused:
        composed(**ONE, **options).fit(
            data.X, data.y, sensitive_features=data.A, sample_weight=sample_weight
        )
    assert says(refused.value, *parts)


def test_draws_that_hold_little_weight_or_one_outcome_say_nothing_and_stop_nothing():
    """One row has nearly all the weight, so a draw without it sums to hardly anything."""
    y = np.array([0.0, 0.0, 0.0, 1.0])
    weights = np.array([4.0, 1e-9, 1e-9, 1e-9])
    scored = prepare(np.array([0.1, 0.2, 0.0, 0.7]), y, weights=weights, outcome="continuous")
    ((found,),) = utility_intervals(scored, ["R2"], draws=50, level=0.9, random_state=0)
    assert found.value == pytest.approx(float(r2([0.1, 0.2, 0.0, 0.7], y, weights=weights)))
    assert found.low <= found.high <= 1
