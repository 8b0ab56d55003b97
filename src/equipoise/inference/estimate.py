"""One number and its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

NAN = math.nan


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number and its uncertainty.

    A number that does not exist is NaN, never None or 0; a text that does not exist is "". JSON
    writes NaN as null.
    """

    value: float = NAN  # on the given rows
    low: float = NAN  # interval
    high: float = NAN
    level: float = NAN  # probability with which interval and certificate hold
    chance: float = NAN  # what a fair score reaches by chance on the same number of rows
    resolution: float = NAN  # smallest chance level of any group: less cannot be told from chance
    p: float = NAN  # p-value of the hypothesis that the score is fair
    p_adjusted: float = NAN  # adjusted for all hypotheses tested together (`holm`)
    p_floor: float = NAN  # the smallest p-value possible with this number of permutations
    certificate: float = NAN  # upper confidence bound in the population, at every number of rows
    n: int = 0  # number of rows it is computed from
    where: str = ""  # the group and the score at which it is attained, in words
    unjudged: str = ""  # groups with too few rows to be judged, and their sizes
    reason: str = ""  # why the value is undefined
    note: str = ""  # what else a reader must know

    @property
    def p_shown(self) -> str:
        """The p-value as text; at its floor it is an upper bound.

        >>> Estimate(p=0.001, p_floor=0.001).p_shown, Estimate(p=0.0312).p_shown
        ('<= 0.001', '0.031')
        """
        return self._shown(self.p)

    @property
    def p_adjusted_shown(self) -> str:
        """The adjusted p-value as text; it is an upper bound if the p-value is one."""
        return self._shown(self.p_adjusted)

    def _shown(self, p: float) -> str:
        if math.isnan(p):
            return ""
        digits = max(3, math.ceil(-math.log10(p))) if p > 0 else 3
        return f"{'<= ' if self.p <= self.p_floor else ''}{p:.{digits}f}"

    def certified(self, bound: float, note: str = "") -> Estimate:
        """The same number with a certificate, which also limits the interval.

        >>> Estimate(value=0.1, low=0.0, high=0.4, note="small").certified(0.3, "tight")
        Estimate(value=0.1, low=0.0, high=0.3, ..., certificate=0.3, ..., note='small; tight')
        """
        # The certificate holds with the same probability as the interval.
        high = self.high if math.isnan(bound) else max(min(self.high, bound), self.low)
        return replace(self, high=high, certificate=bound, note=notes(self.note, note))


def notes(*parts: str) -> str:
    """Join notes, without the empty ones.

    >>> notes("", "2 small groups", "no certificate")
    '2 small groups; no certificate'
    """
    return "; ".join(filter(None, parts))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for all hypotheses tested together; NaN (no test) stays NaN.

    The i-th smallest of m is multiplied by m - i + 1, and is at least the adjusted one before it.
    If hypotheses with an adjusted p-value of at most a are rejected, the probability of any false
    rejection is at most a, whatever the dependence between the tests (Holm 1979).

    >>> holm([0.01, 0.04, NAN, 0.03])
    [0.03, 0.06, nan, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    adjusted = p.copy()
    adjusted[order] = np.maximum.accumulate(np.arange(len(order), 0, -1) * p[order])
    return [float(each) for each in np.minimum(adjusted, 1.0)]


def independent_difference(first: Estimate, other: Estimate) -> Estimate:
    """First minus other, of two numbers on different rows, with an interval from theirs.

    An end is as far from the difference as the root of the sum of the squared distances of the ends
    that it comes from (Zou and Donner 2008).

    >>> one = Estimate(value=0.8, low=0.77, high=0.83, level=0.95)
    >>> found = independent_difference(one, Estimate(value=0.7, low=0.66, high=0.74))
    >>> round(found.low, 2), round(found.value, 2), round(found.high, 2)
    (0.05, 0.1, 0.15)
    """
    value = first.value - other.value
    return Estimate(
        value=value,
        low=value - math.hypot(first.value - first.low, other.high - other.value),
        high=value + math.hypot(first.high - first.value, other.value - other.low),
        level=first.level,
    )


def upper_quantile(deviations: NDArray[np.float64], level: float) -> float:
    """A limit that a further deviation exceeds with probability at most 1 - level."""
    # Number ceil(level (R + 1)) in order of size, or the largest of the R deviations.
    position = min(math.ceil(level * (len(deviations) + 1)), len(deviations))
    return float(np.sort(deviations)[position - 1])
