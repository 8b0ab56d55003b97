"""Quantiles of repeated rows, and the sets they cut."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.metrics.partition import DECILES, by_decile, quantiles


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 4)), min_size=2, max_size=40))
def test_weighted_quantiles_are_numpys_of_repeated_rows(rows):
    values, weights = np.array([(0.0, 2), *rows]).T
    repeated = np.repeat(values, weights.astype(int))
    found = quantiles(torch.from_numpy(values), torch.from_numpy(weights), DECILES)
    np.testing.assert_array_equal(found.numpy(), np.quantile(repeated, DECILES))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=40))
def test_sets_are_the_rows_at_or_below_each_decile(values):
    array = np.array(values, dtype=float)
    tensor = torch.from_numpy(array)
    parts = by_decile(tensor, torch.ones_like(tensor), "a")
    assert parts.n_sets == 9
    assert parts.n_bins == 10
    for j, cut in enumerate(np.quantile(array, DECILES)):
        np.testing.assert_array_equal(parts.inside(j).numpy(), array <= cut)


def test_sums_per_set_come_from_sums_per_bin():
    values = torch.arange(20, dtype=torch.float64)
    parts = by_decile(values, torch.ones_like(values), "a")
    sums = torch.bincount(parts.codes, weights=values, minlength=10)
    expected = [float(values[parts.inside(j)].sum()) for j in range(9)]
    assert parts.pool(sums, 0).tolist() == expected
