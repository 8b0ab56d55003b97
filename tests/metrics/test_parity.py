"""SP and EO against the paper, demographic parity and equalized odds against fairlearn."""

import fairlearn.metrics
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InputError
from equipoise.metrics import METRICS, measure
from equipoise.tables import SensitiveTable

DECILES = np.arange(1, 10) / 10


def column(values, **types):
    return SensitiveTable.from_data({"a": values}, types=types or None)["a"]


def sample(seed, n=400, groups=2):
    rng = np.random.default_rng(seed)
    a, age, y = rng.integers(0, groups, n), rng.normal(size=n), rng.integers(0, 2, n)
    scores = 1 / (1 + np.exp(-rng.normal(size=(3, n)) - 0.5 * a - 0.5 * age - y))
    return scores.round(2), a, age, y


@pytest.mark.parametrize("reference", [0, 1])
def test_binary_sp_and_eo_are_the_papers(reference):
    scores, a, _, y = sample(0)
    for k, decision in enumerate(scores > 0.5):
        other = 1 - reference
        sp = abs(decision[a == other].mean() / decision[a == reference].mean() - 1)
        eo = sum(
            abs(
                decision[(a == other) & (y == v)].mean()
                / decision[(a == reference) & (y == v)].mean()
                - 1
            )
            for v in (0, 1)
        )
        options = {"threshold": 0.5, "reference": reference}
        assert measure("SP", scores, column(a), y, **options).values[k] == pytest.approx(sp)
        assert measure("EO", scores, column(a), y, **options).values[k] == pytest.approx(eo)


def repeated(scores, groups, times=10):
    """Each row so many times, so that no rate is within two standard errors of 0."""
    return np.repeat(scores, times, axis=-1).astype(float), column(np.repeat(groups, times))


def test_the_largest_group_is_the_reference():
    scores, groups = repeated([0, 1, 0, 1, 1], list("bbccc"))  # rates: b 1/2, c 2/3
    assert float(measure("SP", scores, groups, threshold=0.5)) == pytest.approx(0.25)
    named = measure("SP", scores, groups, threshold=0.5, reference="b")
    assert float(named) == pytest.approx(1 / 3)


def test_of_equally_large_groups_the_reference_with_the_larger_gap_counts():
    # Rates 1/2 and 1: |1 / 0.5 - 1| = 1, |0.5 / 1 - 1| = 0.5.
    scores, groups = repeated([0, 1, 1, 1], [0, 0, 1, 1])
    assert float(measure("SP", scores, groups, threshold=0.5)) == 1.0


def test_more_groups_are_added_up():
    scores, groups = repeated([1, 0, 0, 0, 1, 1, 1, 0], list("aaaabbcc"))  # rates 1/4, 2/2, 1/2
    assert float(measure("SP", scores, groups, threshold=0.5)) == pytest.approx(3 + 1)


def test_continuous_sp_and_eo_are_the_papers():
    scores, _, age, y = sample(1)
    cuts = np.quantile(age, DECILES)
    for k, decision in enumerate(scores > 0.5):
        sp = np.mean([abs(decision[age <= c].mean() / decision.mean() - 1) for c in cuts])
        eo = sum(
            np.mean(
                [
                    abs(decision[(age <= c) & (y == v)].mean() / decision[y == v].mean() - 1)
                    for c in cuts
                ]
            )
            for v in (0, 1)
        )
        assert measure("SP", scores, column(age), y, threshold=0.5).values[k] == pytest.approx(sp)
        assert measure("EO", scores, column(age), y, threshold=0.5).values[k] == pytest.approx(eo)


def test_scenario_three_compares_mean_scores():
    rng = np.random.default_rng(2)
    age, noise = rng.normal(size=(2, 500))
    y = age + noise
    score = 3 + y + rng.normal(size=500)
    cuts, levels = np.quantile(age, DECILES), np.quantile(y, DECILES)
    sp = np.mean([abs(score[age <= c].mean() / score.mean() - 1) for c in cuts])
    eo = np.mean(
        [
            abs(score[(age <= c) & (y <= v)].mean() / score[y <= v].mean() - 1)
            for v in levels
            for c in cuts
        ]
    )
    assert float(measure("SP", score, column(age), y)) == pytest.approx(sp)
    assert float(measure("EO", score, column(age), y)) == pytest.approx(eo)
    assert float(measure("SP", score, column(age), outcome="continuous")) == pytest.approx(sp)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_fairlearn_agrees(seed, groups):
    rng = np.random.default_rng(seed)
    cells = np.array([(a, y) for a in range(groups) for y in (0, 1)] * 2)
    a, y = np.concatenate([cells, rng.integers(0, [groups, 2], (40, 2))]).T
    decision = rng.integers(0, 2, len(a))
    for v in (0, 1):  # some positive decision in each class, so that both are defined
        decision[np.flatnonzero(y == v)[0]] = 1
    for ours, theirs in (
        ("demographic parity difference", fairlearn.metrics.demographic_parity_difference),
        ("demographic parity ratio", fairlearn.metrics.demographic_parity_ratio),
        ("equalized odds difference", fairlearn.metrics.equalized_odds_difference),
        ("equalized odds ratio", fairlearn.metrics.equalized_odds_ratio),
    ):
        found = float(measure(ours, decision, column(a, a="discrete"), y, threshold=0.5))
        assert found == pytest.approx(theirs(y, decision, sensitive_features=a), abs=1e-12)


def mean_of_groups(name, y, decision, a, w):
    """Each group's number, from its definition."""
    found = []
    for g in np.unique(a):
        rows, counted = a == g, {"precision": decision == 1}.get(name, np.full(len(a), True))
        values = {"precision": y == 1, "accuracy": decision == y}[name]
        found.append(np.average(values[rows & counted], weights=w[rows & counted]))
    return found


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
def test_rates_people_ask_for_agree_with_fairlearn(seed, groups):
    rng = np.random.default_rng(seed)
    cells = np.array([(a, y, d) for a in range(groups) for y in (0, 1) for d in (0, 1)])
    drawn = rng.integers(0, [groups, 2, 2], (30, 3))
    a, y, decision = np.concatenate([cells, drawn]).T
    w = rng.integers(1, 4, len(a)).astype(float)
    for name in ("true positive rate", "false positive rate", "false negative rate"):
        theirs = fairlearn.metrics.MetricFrame(
            metrics=getattr(fairlearn.metrics, name.replace(" ", "_")),
            y_true=y,
            y_pred=decision,
            sensitive_features=a,
            sample_params={"sample_weight": w},
        )
        options = {"weights": w, "threshold": 0.5}
        groups_of = column(a, a="discrete")
        found = float(measure(f"{name} difference", decision, groups_of, y, **options))
        assert found == pytest.approx(theirs.difference(), abs=1e-12)
        if name != "false negative rate":
            found = float(measure(f"{name} ratio", decision, groups_of, y, **options))
            assert found == pytest.approx(theirs.ratio(), abs=1e-12)
    for name, metric in (("precision", "predictive parity"), ("accuracy", "accuracy")):
        means = mean_of_groups(name, y, decision, a, w)
        found = float(measure(f"{metric} difference", decision, groups_of, y, **options))
        assert found == pytest.approx(max(means) - min(means), abs=1e-12)


def test_calibration_and_errors_are_differences_of_means():
    rng = np.random.default_rng(3)
    a, score = rng.integers(0, 3, 200), rng.random(200)
    y, target = rng.integers(0, 2, 200), rng.normal(size=200)
    for name, outcome, values in (
        ("calibration difference", y, score - y),
        ("error difference", target, score - target),
        ("absolute error difference", target, abs(score - target)),
    ):
        means = [values[a == g].mean() for g in range(3)]
        found = float(measure(name, score, column(a, a="discrete"), outcome))
        assert found == pytest.approx(max(means) - min(means), abs=1e-12)


def test_calibration_needs_probabilities():
    with pytest.raises(InputError) as caught:
        measure("calibration difference", [0.1, 0.2, 1.5, 0.4], column(list("bbcc")), [0, 1, 0, 1])
    for part in ("calibration difference", "[0, 1]", "1.5"):
        assert part in str(caught.value)


def test_what_belongs_to_neither_notion_needs_an_outcome():
    for name, metric in METRICS.items():
        if metric.notion is None:
            with pytest.raises(InputError, match=f"{name} .* needs y, got none"):
                measure(name, [0.1, 0.2, 0.3, 0.4], column(list("bbcc")), threshold=0.15)


@pytest.mark.parametrize(
    ("metric", "decisions", "y", "reason"),
    [
        ("true positive rate difference", [1, 0, 1, 0], [0, 1, 0, 0], "positive outcome"),
        ("false positive rate ratio", [1, 0, 1, 0], [0, 1, 1, 1], "negative outcome"),
        ("predictive parity difference", [1, 0, 0, 0], [0, 1, 0, 1], "positive decision"),
    ],
)
def test_a_group_without_rows_that_count_has_no_rate(metric, decisions, y, reason):
    found = measure(metric, np.array(decisions, float), column(list("bbcc")), y, threshold=0.5)
    assert np.isnan(found.values)
    assert "a = c" in found.reasons[0] and reason in found.reasons[0]


def test_a_ratio_of_rates_that_are_all_zero_is_undefined():
    found = measure(
        "true positive rate ratio", np.zeros(4), column(list("bbcc")), [0, 1, 0, 1], threshold=0.5
    )
    assert np.isnan(found.values) and "every group is 0" in found.reasons[0]


@pytest.mark.parametrize(
    ("metric", "scores", "groups", "y", "reason"),
    [
        (
            "SP",
            [0, 0, 0, 1, 1],
            ["b", "b", "b", "c", "c"],
            None,
            (
                "the rate of positive decisions of a = b in all rows is 0, so the ratio has no "
                "denominator"
            ),
        ),
        (
            "EO",
            [1, 0, 0, 1, 1, 0],
            list("bbbbcc"),
            [1, 0, 0, 1, 0, 1],
            (
                "the rate of positive decisions of a = b in y = 0 is 0, so the ratio has no "
                "denominator"
            ),
        ),
        (
            "demographic parity ratio",
            [0, 0, 0, 0],
            list("bbcc"),
            None,
            (
                "the rate of positive decisions of every group in all rows is 0, so the ratio "
                "has no denominator"
            ),
        ),
        (
            "equalized odds ratio",
            [0, 1, 0, 1, 0, 0],
            list("bbcbcc"),
            [0, 1, 0, 1, 0, 1],
            (
                "the rate of positive decisions of every group in y = 0 is 0, so the ratio has "
                "no denominator"
            ),
        ),
        (
            "equalized odds difference",
            [1, 0, 1, 0],
            list("bbcc"),
            [0, 1, 1, 1],
            "no row has a = c in y = 0",
        ),
    ],
)
def test_a_ratio_without_denominator_is_undefined_with_its_reason(
    metric, scores, groups, y, reason
):
    found = measure(metric, np.array(scores, dtype=float), column(groups), y, threshold=0.5)
    assert np.isnan(found.values)
    assert found.reasons == (reason,)


def test_a_continuous_attribute_without_decisions_is_undefined_with_its_reason():
    found = measure("SP", np.zeros((2, 20)), column(np.arange(20.0)), threshold=0.5)
    assert np.isnan(found.values).all()
    reason = (
        "the rate of positive decisions of everybody in all rows is 0, so the ratio "
        "has no denominator"
    )
    assert found.reasons == (reason, reason)


@pytest.mark.parametrize(
    ("hits", "rows", "defined"),
    [
        (3, 35_000, False),
        (4, 35_000, True),
        (3, 12, False),  # k (n + 4) = 48 = 4 n
        (3, 11, True),
        (1, 2, False),
        (2, 2, True),
        (1, 1, True),
    ],
)
def test_a_ratio_to_a_rate_within_two_standard_errors_of_zero_is_undefined(hits, rows, defined):
    scores = np.repeat([1.0, 0.0, 1.0, 1.0], [hits, rows - hits, 1, 1])
    groups = column(np.repeat(["b", "c"], [rows, 2]))
    rate = hits / rows
    near = rate <= 2 * np.sqrt(rate * (1 - rate) / rows) * (1 + 1e-12)
    assert near != defined
    found = measure("SP", scores, groups, threshold=0.5, reference="b")
    if defined:
        assert float(found) == pytest.approx(1 / rate - 1) and found.reasons == (None,)
    else:
        assert np.isnan(found.values)
        for part in ("a = b in all rows", f"{rate:.3g}", "two standard errors of 0"):
            assert part in found.reasons[0]
    # Differences and ratios of lowest to highest have no such denominator.
    ratio = measure("demographic parity ratio", scores, groups, threshold=0.5)
    assert float(ratio) == pytest.approx(rate)


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e200])
def test_so_is_a_ratio_to_a_mean_score_near_zero(unit):
    rng = np.random.default_rng(0)
    score = rng.normal(size=400)
    groups = column(np.repeat(["b", "c"], [300, 100]), a="discrete")
    score[:300] -= score[:300].mean()
    error = score[:300].std() / np.sqrt(300)
    for shift, defined in ((1.99, False), (-1.99, False), (2.01, True), (-2.01, True)):
        found = measure("SP", unit * (score + shift * error), groups, outcome="continuous")
        assert np.isnan(found.values) != defined
        assert defined or "mean score of a = b in all rows" in found.reasons[0]


def test_only_the_undefined_member_is_undefined():
    scores, groups = repeated([[0, 0, 1, 1], [0, 1, 0, 1]], [0, 0, 1, 1])
    found = measure("SP", scores, groups, threshold=0.5, reference=0)
    assert np.isnan(found.values[0]) and found.values[1] == 0
    assert found.reasons[0] is not None and found.reasons[1] is None


def test_a_ratio_of_zero_is_defined():
    scores = np.array([0.0, 0, 1, 1])
    found = measure("demographic parity ratio", scores, column([0, 0, 1, 1]), threshold=0.5)
    assert float(found) == 0.0 and found.reasons == (None,)
