"""Intervals of numbers by group: closed forms, tiny groups, coverage; how an audit uses them."""

import numpy as np
import pytest
import sklearn.metrics as sk
from scipy.stats import binom, binomtest, ttest_1samp

from equipoise.auditing import audit
from equipoise.auditing.groups import calibration
from equipoise.auditing.inputs import AuditSettings, read_data
from equipoise.inference import group_estimates
from equipoise.inference.groups import (
    FEW_ROWS,
    effective_rows,
    exact_interval,
    mean_interval,
    rate_interval,
    wilson,
)
from equipoise.inference.verdict import told_apart
from equipoise.metrics import by_group

FAST = {"draws": 20, "permutations": 19}


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
@pytest.mark.parametrize(("hits", "n"), [(0, 1), (1, 1), (0, 7), (3, 7), (40, 40), (13, 400)])
def test_intervals_of_rates_are_scipys(hits, n, level):
    for ours, method in ((wilson, "wilson"), (exact_interval, "exact")):
        theirs = binomtest(hits, n).proportion_ci(level, method=method)
        assert ours(hits / n, n, level) == pytest.approx(tuple(theirs), abs=1e-12)


def test_equal_weights_change_no_interval_and_unequal_ones_cost_rows():
    rng = np.random.default_rng(0)
    d, a = rng.integers(0, 2, 200), {"a": rng.choice(["p", "q"], 200)}
    score = rng.random(200)

    def estimates(**options):
        found = by_group(scores=score, decisions=d, sensitive_features=a, **options)
        return group_estimates(found).by_group

    plain, equal = estimates(), estimates(sample_weight=np.full(200, 7.0))
    for name, found in plain.items():
        for one, other in zip(found, equal[name], strict=True):
            assert (other.low, other.high, other.n) == pytest.approx((one.low, one.high, one.n))
    w = rng.random(200)
    weighted = estimates(sample_weight=w)["selection rate"]
    for group, one in zip(("p", "q"), weighted, strict=True):
        rows = a["a"] == group
        rate = np.average(d[rows], weights=w[rows])
        kish = w[rows].sum() ** 2 / (w[rows] ** 2).sum()
        assert effective_rows(w[rows]) == pytest.approx(kish) and kish < rows.sum()
        assert (one.value, one.low, one.high) == pytest.approx((rate, *wilson(rate, kish, 0.95)))
        assert f"{kish:.4g} rows" in one.note


def test_intervals_of_means_are_students():
    values = np.random.default_rng(1).normal(size=40)
    theirs = ttest_1samp(values, 0).confidence_interval(0.9)
    found = mean_interval(values, None, 0.9, (values.min(), values.max()))
    assert found == pytest.approx(tuple(theirs))
    huge = mean_interval(1e300 * values, None, 0.9, (1e300 * values.min(), 1e300 * values.max()))
    assert huge == pytest.approx(tuple(1e300 * np.array(theirs)))


@pytest.mark.parametrize("n", [1, 2, 5, FEW_ROWS])
def test_a_handful_of_equal_scores_has_no_point_for_an_interval(n):
    scores = np.concatenate([np.full(n, 0.5), np.linspace(0, 1, 101)])
    a = {"a": ["few"] * n + ["many"] * 101}
    found = group_estimates(by_group(scores=scores, sensitive_features=a)).by_group["mean score"]
    reach = np.sqrt(np.log(2 / 0.05) / (2 * n))
    assert (found[0].low, found[0].high) == pytest.approx(
        (max(0, 0.5 - reach), min(1, 0.5 + reach))
    )
    assert "fewer than 30 rows" in found[0].note


def test_a_constant_score_lies_inside_its_interval():
    w = np.random.default_rng(6).random(90)
    found = by_group(
        scores=np.full(90, 0.1), sensitive_features={"a": list("pqr") * 30}, sample_weight=w
    )
    for one in group_estimates(found).by_group["mean score"]:
        assert (one.low, one.value, one.high) == (0.1, 0.1, 0.1)


def test_the_interval_of_the_rmse_is_that_of_the_mean_square():
    rng = np.random.default_rng(2)
    y, score = rng.normal(size=(2, 80))
    found = by_group(y, score, sensitive_features={"a": ["p", "q"] * 40})
    (one, _) = group_estimates(found).by_group["RMSE"]
    squares = ((score - y) ** 2)[::2]
    theirs = ttest_1samp(squares, 0).confidence_interval(0.95)
    assert (one.low**2, one.high**2) == pytest.approx(tuple(theirs))


def test_a_function_has_students_t_times_its_bootstrap_error():
    rng = np.random.default_rng(3)
    y, score = rng.integers(0, 2, 400), rng.normal(size=400)
    found = by_group(
        y,
        score,
        sensitive_features={"a": ["p", "q"] * 200},
        functions={"mean": lambda y, s: float(np.mean(s)), "AUC": sk.roc_auc_score},
    )
    estimates = group_estimates(found, draws=400)
    for known, own in zip(
        estimates.by_group["mean score"], estimates.by_group["mean"], strict=True
    ):
        assert own.value == pytest.approx(known.value)
        assert own.high - own.low == pytest.approx(known.high - known.low, rel=0.12)
    for one in estimates.by_group["AUC"]:
        assert one.low < one.value < one.high
    few = by_group(
        y[:24],
        score[:24],
        sensitive_features={"a": ["p"] * 4 + ["q"] * 20},
        functions={"mean": lambda y, s: float(np.mean(s))},
    )
    tiny = group_estimates(few)
    assert np.isnan(tiny.by_group["mean"][0].low) and "4 rows" in tiny.by_group["mean"][0].note
    assert np.isnan(tiny.difference["mean"].low) and np.isfinite(tiny.difference["mean"].value)


def coverage_of_newcombe(p, q, n, m):
    """Probability, over all counts, that the interval of the difference of two rates holds."""
    total = 0.0
    for hits, weight in enumerate(binom.pmf(np.arange(n + 1), n, p)):
        for more, other in enumerate(binom.pmf(np.arange(m + 1), m, q)):
            if weight * other < 1e-7:
                continue
            r, s = hits / n, more / m
            (low, high), (least, most) = wilson(r, n, 0.95), wilson(s, m, 0.95)
            under, over = np.hypot(r - low, most - s), np.hypot(high - r, s - least)
            total += weight * other * (r - s - under <= p - q <= r - s + over)
    return total


def test_the_difference_of_two_rates_is_newcombes_and_covers():
    # Newcombe 1998, table II, 56 of 70 against 48 of 80 by method 10: 0.0524 to 0.3339.
    d = np.repeat([1, 0, 1, 0], [56, 14, 48, 32])
    a = {"a": ["p"] * 70 + ["q"] * 80}
    found = group_estimates(by_group(decisions=d, sensitive_features=a))
    one = found.difference["selection rate"]
    assert (one.low, one.value, one.high) == pytest.approx((0.0524, 0.2, 0.3339), abs=5e-5)
    assert coverage_of_newcombe(0.3, 0.3, 40, 40) == pytest.approx(0.95, abs=0.012)
    ratio = found.ratio["selection rate"]
    assert ratio.value == pytest.approx(0.6 / 0.8)
    assert ratio.low < 0.75 < ratio.high and "four-fifths" in ratio.note


@pytest.mark.parametrize(
    ("rates", "sizes"),
    [
        ((0.3, 0.3, 0.3, 0.3), (60, 60, 60, 60)),
        ((0.02, 0.02, 0.02, 0.02, 0.02), (100, 100, 100, 100, 100)),
        ((0.05, 0.1, 0.3), (40, 200, 500)),
        ((0.1, 0.5, 0.5), (1, 3, 10)),
    ],
)
def test_intervals_of_all_groups_hold_at_once(rates, sizes):
    rng = np.random.default_rng(4)
    groups = {"a": np.repeat([f"g{each}" for each in range(len(sizes))], sizes)}
    chance, samples = np.repeat(rates, sizes), 200
    missed = {"all at once": 0, "difference": 0, "ratio": 0, "told apart": 0}
    for _ in range(samples):
        d = (rng.random(len(chance)) < chance).astype(int)
        found = group_estimates(by_group(decisions=d, sensitive_features=groups), simultaneous=True)
        each = zip(found.by_group["selection rate"], rates, strict=True)
        missed["all at once"] += not all(one.low <= rate <= one.high for one, rate in each)
        difference, ratio = found.difference["selection rate"], found.ratio["selection rate"]
        spread = max(rates) - min(rates)
        missed["difference"] += not difference.low <= spread <= difference.high
        missed["told apart"] += spread == 0 and difference.low > 0
        if not ratio.reason:
            missed["ratio"] += not ratio.low <= min(rates) / max(rates) <= ratio.high
    # At 95 %, more than 18 of 200 miss with probability 0.6 %.
    assert max(missed.values()) <= 18, missed


def test_intervals_of_means_of_tiny_groups_hold():
    """Scores that are mostly low and rarely high, where Student's t fails."""
    rng = np.random.default_rng(5)
    missed = dict.fromkeys((1, 3, 10), 0)
    for _ in range(300):
        for n in missed:
            values = np.where(rng.random(n) < 0.15, 0.9, 0.05 + 0.1 * rng.random(n))
            low, high = mean_interval(values, None, 0.95, (0.0, 1.0))
            missed[n] += not low <= 0.15 * 0.9 + 0.85 * 0.1 <= high
    assert max(missed.values()) <= 25, missed  # 15 expected at 95 %


def people(n=900, seed=0):
    rng = np.random.default_rng(seed)
    sex, age = rng.choice(["F", "M"], n), rng.integers(20, 80, n)
    y = rng.integers(0, 2, n)
    scores = 1 / (1 + np.exp(-rng.normal(size=n) - y + 0.5 - 0.8 * (sex == "M")))
    return scores, y, {"sex": sex, "age": age}


def test_an_audit_lists_every_number_of_every_group():
    scores, y, A = people()
    found = audit(scores, y, A, threshold=0.5, intersections=False, **FAST)
    names = {
        *("mean score", "selection rate", "outcome rate", "true positive rate"),
        *("false positive rate", "false negative rate", "precision", "accuracy", "calibration gap"),
    }
    frame = found.to_frame()
    for group in ("F", "M"):
        rows = frame.query("attribute == 'sex' and group == @group").set_index("metric")
        assert set(rows.index) == names
        inside = A["sex"] == group
        d = scores[inside] > 0.5
        assert rows.loc["precision", "value"] == pytest.approx(sk.precision_score(y[inside], d))
        assert rows.loc["precision", "n"] == d.sum()
        assert rows.loc["calibration gap", "value"] == pytest.approx(
            scores[inside].mean() - y[inside].mean()
        )
        assert rows.loc["false negative rate", "n"] == (y[inside] == 1).sum()
    gap = frame.query("attribute == 'sex' and group == 'F vs M'").set_index("metric")
    of = frame.query("attribute == 'sex' and metric == 'selection rate'")["value"].to_numpy()
    assert gap.loc["selection rate difference", "value"] == pytest.approx(of[1] - of[0])
    assert gap.loc["selection rate ratio", "value"] == pytest.approx(of[0] / of[1])
    assert "calibration gap ratio" not in gap.index or (of > 0).all()
    # Ranges of age are compared, too, where the metrics by name are for discrete columns only.
    ages = frame.query("attribute == 'age'")["metric"].tolist()
    assert "true positive rate difference" in ages and "selection rate ratio" in ages


def difference(found, attribute, metric):
    wanted = (attribute, f"{metric} difference")
    rows = [row for row in found.rows if (row.attribute, row.metric) == wanted]
    return next((row for row in rows if row.group != "all rows"), None)


def test_two_groups_are_told_apart_by_their_own_intervals():
    """Of three groups the first and the last differ for sure, but not the small one from any."""
    random = np.random.default_rng(0)
    group = np.repeat(["a", "b", "c"], [2000, 2000, 35])
    scores = random.random(4035) * np.where(group == "b", 1.0, 0.8)
    found = audit(scores, None, {"g": group}, threshold=0.5, **FAST)
    a, b, c = (r.estimate for r in found.rows if r.metric == "selection rate" and r.group in "abc")
    assert told_apart(a, b) and told_apart(b, a)
    assert not told_apart(a, c)
    row = difference(found, "g", "selection rate")
    assert row.group.endswith(" vs b") and row.low > 0


def test_small_groups_are_listed_but_not_compared():
    scores, y, A = people()
    A["sex"][:3] = "X"
    scores[:3] = 0.0001
    found = audit(scores, y, {"sex": A["sex"]}, threshold=0.5, **FAST)
    row = difference(found, "sex", "selection rate")
    assert row.group == "F vs M" and "1 of 3 groups with fewer than 30 rows" in row.note
    (tiny,) = [r for r in found.rows if (r.group, r.metric) == ("X", "selection rate")]
    assert tiny.low == 0.0 and tiny.high > 0.6


def test_a_group_without_positives_has_no_true_positive_rate_and_says_so():
    scores, y, A = people()
    y[A["sex"] == "F"] = 0
    found = audit(scores, y, {"sex": A["sex"]}, threshold=0.5, **FAST)
    (row,) = [r for r in found.rows if (r.group, r.metric) == ("F", "true positive rate")]
    assert np.isnan(row.value) and "positive outcome" in row.reason
    assert difference(found, "sex", "true positive rate") is None


def test_calibration_by_tenths_of_the_score():
    scores, y, A = people()
    data = read_data(scores, y, A, AuditSettings(), types=None, missing="error")
    table = calibration(data, 0.95)
    women = table.query("attribute == 'sex' and group == 'F'")
    assert women["n"].sum() == (A["sex"] == "F").sum() and len(women) == 10
    first = women.iloc[0]
    rows = (A["sex"] == "F") & (scores >= first["score_low"]) & (scores <= first["score_high"])
    assert first["expected"] == pytest.approx(scores[rows].mean())
    assert first["observed"] == pytest.approx(y[rows].mean())
    assert (first["low"], first["high"]) == pytest.approx(
        rate_interval(first["observed"], int(first["n"]), 0.95)
    )
    logits = read_data(10 * scores, y, A, AuditSettings(), types=None, missing="error")
    assert calibration(logits, 0.95).empty
