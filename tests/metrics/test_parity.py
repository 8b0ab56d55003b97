"""SP and EO against the paper, demographic parity and equalized odds against fairlearn."""

import fairlearn.metrics
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.metrics import measure
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


def test_the_largest_group_is_the_reference():
    scores = np.array([0.0, 1, 0, 1, 1])  # rates: b 1/2, c 2/3
    groups = column(["b", "b", "c", "c", "c"])
    assert float(measure("SP", scores, groups, threshold=0.5)) == pytest.approx(0.25)
    named = measure("SP", scores, groups, threshold=0.5, reference="b")
    assert float(named) == pytest.approx(1 / 3)


def test_of_equally_large_groups_the_reference_with_the_larger_gap_counts():
    scores = np.array([0.0, 1, 1, 1])  # rates 1/2 and 1: |1 / 0.5 - 1| = 1, |0.5 / 1 - 1| = 0.5
    assert float(measure("SP", scores, column([0, 0, 1, 1]), threshold=0.5)) == 1.0


def test_more_groups_are_added_up():
    scores = np.array([1.0, 0, 0, 0, 1, 1, 1, 0])  # rates 1/4, 2/2, 1/2
    groups = column(["a"] * 4 + ["b"] * 2 + ["c"] * 2)
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


def test_only_the_undefined_member_is_undefined():
    scores = np.array([[0.0, 0, 1, 1], [0, 1, 0, 1]])
    found = measure("SP", scores, column([0, 0, 1, 1]), threshold=0.5, reference=0)
    assert np.isnan(found.values[0]) and found.values[1] == 0
    assert found.reasons[0] is not None and found.reasons[1] is None


def test_a_ratio_of_zero_is_defined():
    scores = np.array([0.0, 0, 1, 1])
    found = measure("demographic parity ratio", scores, column([0, 0, 1, 1]), threshold=0.5)
    assert float(found) == 0.0 and found.reasons == (None,)
