"""Several tests at once: adjusted p-values, and p-values in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def holm(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Adjusted p-values (Holm 1979): rejecting those at most 0.05 errs once with at most 5 %.

    The smallest of m is multiplied by m, the next by m - 1 and so on; none falls below the one
    before. A p-value that is NaN is of no test and stays NaN.

    >>> holm([0.01, 0.04, math.nan, 0.03]).round(3).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full(len(p), math.nan)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return adjusted


def p_in_words(p: float, *, smallest: bool) -> str:
    """A p-value in words; "<=" where it is the smallest that the permutations can show.

    >>> p_in_words(0.001, smallest=True), p_in_words(0.0312, smallest=False)
    ('p <= 0.001', 'p = 0.031')
    """
    return f"p {'<=' if smallest else '='} {p:.2g}"
