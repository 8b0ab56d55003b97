"""Scale numbers by powers of two, so that sums and squares neither overflow nor vanish.

Scaling by a power of two is exact. Wherever the plain formula can be computed, the scaled one gives
the same value to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def exponent(values: NDArray[Any]) -> int:
    """The power of two that scales the largest absolute value into [0.5, 1); 0 for zeros.

    NaN is ignored.

    >>> exponent(np.array([-3.0, 1.0, np.nan])), exponent(np.zeros(2))
    (2, 0)
    """
    return int(np.frexp(np.fmax.reduce(np.abs(values), axis=None, initial=0.0))[1])


def reduced(values: Floats) -> tuple[Floats, int]:
    """Return the values divided by two to the power of their `exponent`, and that exponent."""
    power = exponent(values)
    return np.ldexp(values, -power), power


def center_and_spread(values: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """Mean and standard deviation of values (n,); the latter is 0 only if all values are equal.

    weights: (n,), positive whole numbers; a row of weight 3 counts as three rows.

    >>> center_and_spread(np.array([1e200, 3e200]))
    (2e+200, 1e+200)
    >>> center_and_spread(np.array([0.1, 0.1, 0.1]))
    (0.1, 0.0)
    >>> center_and_spread(np.array([0.0, 4.0]), np.array([3.0, 1.0])) == (1.0, 3**0.5)
    True
    """
    if (values == values[0]).all():
        return float(values[0]), 0.0
    small, power = reduced(values)
    center = np.average(small, weights=weights)
    spread = np.sqrt(np.average((small - center) ** 2, weights=weights))
    return float(np.ldexp(center, power)), float(np.ldexp(spread, power))


def standardized(values: Floats, center: float, spread: float) -> Floats:
    """(values - center) / spread, or zeros if the spread is 0.

    >>> standardized(np.array([-1.5e308, 1.5e308]), 0.0, 1.5e308)
    array([-1.,  1.])
    """
    if spread == 0:
        return np.zeros(len(values))
    power = max(exponent(values), exponent(np.array([center, spread])))
    # Scaled below 1, even the largest numbers can be subtracted without overflow.
    small, middle, unit = (
        np.ldexp(np.asarray(each, dtype=np.float64), -power) for each in (values, center, spread)
    )
    return np.asarray((small - middle) / unit)
