"""Laws that every registered metric obeys; registering a metric enrols it here."""

from itertools import product

import numpy as np
import pytest
import torch

from equipoise.metrics import METRICS, measure
from equipoise.tables import SensitiveColumn, SensitiveTable

KINDS = ("discrete", "continuous")
OUTCOMES = ("binary", "multiclass", "continuous")
CASES = [
    pytest.param(metric, kind, outcome, id=f"{metric.name}-{kind}-{outcome}")
    for metric in METRICS.values()
    for kind in KINDS
    for outcome in OUTCOMES
    if kind in metric.attributes and outcome in metric.outcomes
]
WEIGHTED = [case for case in CASES if case.values[0].weighted]
COUNTED = [case for case in WEIGHTED if not case.values[0].beyond_chance]
BEYOND_CHANCE = [case for case in WEIGHTED if case.values[0].beyond_chance]
RANKED = [case for case in CASES if case.values[0].rank_based]
# Deciles of y count every row, with or without A, so those of the known rows alone differ.
UNCUT = [
    case
    for case in CASES
    if case.values[2] != "continuous" or case.values[0].notion != "separation"
]


def column(values, kind):
    return SensitiveTable.from_data({"a": values}, types={"a": kind})["a"]


def data(kind, outcome, *, members=3, n=600, seed=0):
    """Scores (K, n) in [0, 1] with ties that depend on A and Y."""
    rng = np.random.default_rng(seed)
    a = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]) if kind == "discrete" else rng.normal(size=n)
    y = {
        "binary": rng.integers(0, 2, n),
        "multiclass": rng.integers(0, 3, n),
        "continuous": rng.normal(size=n),
    }[outcome]
    noise = rng.normal(size=(members, n))
    scores = 1 / (1 + np.exp(-(noise + 0.4 * a + 0.5 * y)))
    return scores.round(2), a, y


def value(metric, scores, a, y, **options):
    found = measure(metric, scores, a, y, **options)
    assert [reason is not None for reason in found.reasons] == list(
        np.isnan(np.atleast_2d(np.asarray(found.values))[0])
    )
    return np.asarray(found.values)


def fair_data(kind, outcome):
    """Every (score, y) beside every a: the score ignores A, alone and given Y, exactly."""
    attribute = range(3) if kind == "discrete" else range(12)
    outcomes = {"binary": range(2), "multiclass": range(3), "continuous": range(12)}[outcome]
    rows = [(0.05 * y + 0.1 * step, a, y) for y, step, a in product(outcomes, range(4), attribute)]
    scores, a, y = np.tile(np.array(rows).T, -(-400 // len(rows)))  # enough rows in every group
    return scores, column(a, kind), y


@pytest.mark.parametrize(("metric", "kind", "outcome"), CASES)
def test_a_score_that_ignores_a_has_the_fair_value(metric, kind, outcome):
    scores, a, y = fair_data(kind, outcome)
    # Three of four decided positive: fewer would be within two standard errors of 0.
    threshold = 0.08 if outcome == "binary" else None
    found = value(metric, scores, a, y, threshold=threshold)
    assert found == pytest.approx(metric.fair_value, abs=1e-7)


@pytest.mark.parametrize(("metric", "kind", "outcome"), CASES)
def test_a_score_that_depends_on_a_departs_from_the_fair_value_within_the_range(
    metric, kind, outcome
):
    scores, a, y = data(kind, outcome)
    found = value(metric, scores, column(a, kind), y)
    low, high = metric.range
    assert (abs(found - metric.fair_value) > 1e-3).all()
    assert (found >= low).all() and (found <= high).all()


@pytest.mark.parametrize(("metric", "kind", "outcome"), CASES)
def test_row_order_does_not_matter(metric, kind, outcome):
    scores, a, y = data(kind, outcome)
    order = np.random.default_rng(1).permutation(len(a))
    found = value(metric, scores, column(a, kind), y)
    shuffled = value(metric, scores[:, order], column(a[order], kind), y[order])
    assert shuffled == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize(
    ("metric", "kind", "outcome"), [c for c in CASES if c.values[1] == "discrete"]
)
@pytest.mark.parametrize("balanced", [False, True])
def test_names_of_groups_do_not_matter(metric, kind, outcome, balanced):
    scores, a, y = data(kind, outcome)
    if balanced:  # all groups are largest, so none may be preferred
        a = np.random.default_rng(2).permutation(np.arange(len(a)) % 4)
    renamed = np.array(["z", "b", "y", "a"])[a]
    found = value(metric, scores, column(a, kind), y)
    assert value(metric, scores, column(renamed, kind), y) == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize(("metric", "kind", "outcome"), RANKED)
def test_increasing_transformations_of_the_score_do_not_matter(metric, kind, outcome):
    scores, a, y = data(kind, outcome)
    found = value(metric, scores, column(a, kind), y)
    for transformed in (np.exp(5 * scores), scores**3 - 7):
        assert value(metric, transformed, column(a, kind), y) == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize(("metric", "kind", "outcome"), BEYOND_CHANCE)
def test_only_ratios_of_weights_count_beyond_chance(metric, kind, outcome):
    scores, a, y = data(kind, outcome)
    weights = np.random.default_rng(3).integers(1, 4, len(a))
    found = value(metric, scores, column(a, kind), y, weights=weights)
    scaled = value(metric, scores, column(a, kind), y, weights=weights * 7.5)
    assert scaled == pytest.approx(found, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("metric", "kind", "outcome"), COUNTED)
def test_a_whole_weight_is_as_many_rows(metric, kind, outcome):
    scores, a, y = data(kind, outcome)
    weights = np.random.default_rng(3).integers(0, 4, len(a))
    repeated = np.repeat(np.arange(len(a)), weights)
    found = value(metric, scores, column(a, kind), y, weights=weights)
    expected = value(metric, scores[:, repeated], column(a[repeated], kind), y[repeated])
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("metric", "kind", "outcome"), WEIGHTED)
def test_many_weightings_at_once_equal_one_by_one(metric, kind, outcome):
    scores, a, y = data(kind, outcome)
    threshold = 0.6 if metric.needs_decisions and outcome == "binary" else None
    weights = np.random.default_rng(4).integers(0, 3, (5, len(a)))
    weights[:, 0] += 1
    attribute = column(a, kind)
    together = value(metric, scores, attribute, y, weights=weights, threshold=threshold)
    assert together.shape == (5, 3)
    # Cuts stay those of the sample, so one weighting alone needs a second one beside it.
    for weighting, expected in zip(weights, together, strict=True):
        pair = np.stack([weighting, weighting])
        alone = value(metric, scores, attribute, y, weights=pair, threshold=threshold)
        np.testing.assert_allclose(alone[1], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("metric", "kind", "outcome"), CASES)
def test_members_at_once_equal_one_by_one(metric, kind, outcome):
    scores, a, y = data(kind, outcome)
    attribute = column(a, kind)
    together = value(metric, scores, attribute, y)
    alone = [value(metric, row, attribute, y) for row in scores]
    assert together == pytest.approx(np.array(alone), rel=1e-12)


@pytest.mark.parametrize(("metric", "kind", "outcome"), CASES)
def test_torch_equals_numpy(metric, kind, outcome):
    scores, a, y = data(kind, outcome)
    attribute = column(a, kind)
    found = measure(metric, torch.from_numpy(scores), attribute, torch.from_numpy(y)).values
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), value(metric, scores, attribute, y))


@pytest.mark.parametrize(("metric", "kind", "outcome"), UNCUT)
def test_rows_without_a_take_no_part(metric, kind, outcome):
    scores, a, y = data(kind, outcome)
    known = np.arange(len(a)) % 5 != 0
    full = column(a, kind)
    if kind == "discrete":
        gaps = SensitiveColumn(
            "a", kind, "", np.where(known, full.codes, -1), full.categories, None
        )
    else:
        gaps = SensitiveColumn("a", kind, "", None, (), np.where(known, full.values, np.nan))
    threshold = 0.6 if metric.needs_decisions and outcome == "binary" else None
    found = value(metric, scores, gaps, y, threshold=threshold)
    expected = value(metric, scores[:, known], full.take(known), y[known], threshold=threshold)
    assert found == pytest.approx(expected, rel=1e-9)
