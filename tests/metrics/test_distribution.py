"""KS-GSP and KS-GEO against a literal loop over scipy and against closed forms."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp, norm

from equipoise.metrics import measure
from equipoise.metrics.distribution import ks_distances
from equipoise.metrics.partition import Partition, rank
from equipoise.tables import SensitiveTable

DECILES = np.arange(1, 10) / 10


def column(values, kind):
    return SensitiveTable.from_data({"a": values}, types={"a": kind})["a"]


def distance(part, whole):
    return ks_2samp(part, whole, method="asymp").statistic


def sets_of(values, kind):
    """Boolean masks and how the paper combines what is found in them."""
    if kind == "discrete":
        return [values == level for level in np.unique(values)], np.sum
    return [values <= cut for cut in np.quantile(values, DECILES)], np.mean


def literal(scores, a, kind, y=None, outcome=None):
    groups, combine = sets_of(a, kind)
    if y is None:
        return combine([distance(scores[group], scores) for group in groups])
    places, over = sets_of(y, "continuous" if outcome == "continuous" else "discrete")
    return over(
        [
            combine([distance(scores[group & place], scores[place]) for group in groups])
            for place in places
        ]
    )


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
@pytest.mark.parametrize("outcome", ["binary", "multiclass", "continuous"])
@pytest.mark.parametrize("digits", [1, 17])
@pytest.mark.parametrize("n", [500, 613])
def test_the_loop_over_scipy_agrees(kind, outcome, digits, n):
    rng = np.random.default_rng(n)
    a = rng.integers(0, 3, n) if kind == "discrete" else rng.normal(size=n).round(2)
    y = {
        "binary": rng.integers(0, 2, n),
        "multiclass": rng.integers(0, 4, n),
        "continuous": rng.normal(size=n),
    }[outcome]
    scores = (rng.normal(size=(4, n)) + 0.5 * a + 0.5 * y).round(digits)
    gsp = [literal(row, a, kind) for row in scores]
    geo = [literal(row, a, kind, y, outcome) for row in scores]
    attribute = column(a, kind)
    found = measure("KS-GSP", scores, attribute, y).values
    np.testing.assert_allclose(found, gsp, rtol=0, atol=1e-12)
    found = measure("KS-GEO", scores, attribute, y).values
    np.testing.assert_allclose(found, geo, rtol=0, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0, 1e9]), st.integers(0, 2)),
        min_size=1,
        max_size=30,
    )
)
def test_ties_are_scipys(rows):
    rows = [(0.0, 0), (0.0, 1), (0.0, 2), *rows]
    scores, a = np.array(rows).T
    found = float(measure("KS-GSP", scores, column(a, "discrete")))
    assert found == pytest.approx(literal(scores, a, "discrete"), abs=1e-12)


def test_two_shifted_normals_have_the_known_distance():
    m, shift = 20_000, 0.8
    grid = norm.ppf((np.arange(m) + 0.5) / m)  # a sample without chance
    scores = np.concatenate([grid, grid + shift])
    a = np.repeat([0, 1], m)
    # Each group is half of all rows, so it is half as far from everybody as from the other group.
    expected = 2 * norm.cdf(shift / 2) - 1
    found = float(measure("KS-GSP", scores, column(a, "discrete")))
    assert found == pytest.approx(expected, abs=2 / m)


def test_a_score_equal_to_a_has_the_largest_distances():
    a = np.arange(1_000.0)
    # P(A <= s | A <= q) - P(A <= s) is largest at s = q: 1 - r for the quantile of level r.
    expected = np.mean([1 - r for r in DECILES])
    assert float(measure("KS-GSP", a, column(a, "continuous"))) == pytest.approx(expected)


def test_equal_parts_in_all_classes_of_y_are_separated_though_dependent():
    y = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
    a = np.array([0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1])
    scores = y + np.array([1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2]) / 10
    attribute = column(a, "discrete")
    assert float(measure("KS-GEO", scores, attribute, y)) == 0.0
    assert float(measure("KS-GSP", scores, attribute, y)) == pytest.approx(1 / 6 + 1 / 6)


def test_an_empty_set_is_undefined_with_its_reason():
    scores = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
    found = measure("KS-GEO", scores, column([0, 0, 1, 1], "discrete"), [0, 0, 0, 1])
    assert np.isnan(found.values).all()
    assert found.reasons == ("no row has a = 0 in y = 1",) * 2


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("centered", [False, True])
def test_weightings_together_have_the_numbers_they_have_alone(nested, centered):
    rng = np.random.default_rng(2)
    ranking = rank(torch.from_numpy(rng.normal(size=(3, 50)).round(1)))
    codes = torch.from_numpy(rng.integers(0, 4, 50))
    sets = Partition(codes, ("a", "b", "c") if nested else ("a", "b", "c", "d"), nested)
    weights = torch.from_numpy(rng.poisson(1.0, (5, 50)).astype(float))
    kept = weights.clone()
    center = torch.ones((1, 50), dtype=torch.float64) if centered else None
    together = ks_distances(ranking, sets, weights, center)
    alone = torch.cat([ks_distances(ranking, sets, each[None], center) for each in weights])
    assert together.shape == (5, 3, sets.n_sets)
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-12)
    assert torch.equal(weights, kept)
