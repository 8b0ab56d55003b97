"""Rows that stand for many."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from equipoise.metrics.sample import of_equal_weight

WEIGHTS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30)


@given(st.lists(WEIGHTS, min_size=1, max_size=4))
def test_rows_of_equal_weight_have_the_sums_of_the_rows_that_they_stand_for(cells):
    sums = np.array([[len(c), sum(c), sum(w * w for w in c)] for c in cells]).T
    cell, number, weight = of_equal_weight(*sums)
    assert (weight > 0).all() and (number >= 1).all() and (number == number.round()).all()
    for added, known in zip((number, number * weight, number * weight**2), sums, strict=True):
        np.testing.assert_allclose(np.bincount(cell, added), known, rtol=1e-6)
