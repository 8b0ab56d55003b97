"""One number, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

NAN = math.nan


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number, and how sure it is.

    A number that does not exist is NaN, never None or 0, and a text with nothing to say is "".
    JSON writes NaN as null.
    """

    value: float = NAN  # on the rows at hand
    low: float = NAN  # interval
    high: float = NAN
    level: float = NAN  # probability with which the interval holds, and the certificate
    chance: float = NAN  # what a fair score reaches by chance on as many rows
    p: float = NAN  # p-value of the hypothesis that the score is fair
    p_adjusted: float = NAN  # the same among all hypotheses tested together (`holm`)
    p_floor: float = NAN  # the smallest p that so many permutations can show
    certificate: float = NAN  # upper confidence bound in the population, at every number of rows
    n: int = 0  # rows it rests on
    reason: str = ""  # why the value is undefined
    note: str = ""  # what else a reader must know

    @property
    def p_shown(self) -> str:
        """The p-value as a page, a summary or a table has it: at its floor it is an upper bound.

        >>> Estimate(p=0.001, p_floor=0.001).p_shown, Estimate(p=0.0312).p_shown
        ('<= 0.001', '0.031')
        """
        return self._shown(self.p)

    @property
    def p_adjusted_shown(self) -> str:
        """The adjusted p-value, an upper bound where the p-value itself is one."""
        return self._shown(self.p_adjusted)

    def _shown(self, p: float) -> str:
        if math.isnan(p):
            return ""
        digits = max(3, math.ceil(-math.log10(p))) if p > 0 else 3
        return f"{'<= ' if self.p <= self.p_floor else ''}{p:.{digits}f}"

    def certified(self, bound: float, note: str = "") -> Estimate:
        """The same number with a certificate, beyond which no interval reaches.

        >>> Estimate(value=0.1, low=0.0, high=0.4, note="small").certified(0.3, "tight")
        Estimate(value=0.1, low=0.0, high=0.3, ..., certificate=0.3, ..., note='small; tight')
        """
        # An upper bound of the population's value holds with the interval's own probability.
        high = self.high if math.isnan(bound) else max(min(self.high, bound), self.low)
        return replace(self, high=high, certificate=bound, note=notes(self.note, note))


def notes(*parts: str) -> str:
    """One note from several, those with nothing to say left out.

    >>> notes("", "2 small groups", "no certificate")
    '2 small groups; no certificate'
    """
    return "; ".join(filter(None, parts))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for all hypotheses tested together; NaN, of no test, stays NaN.

    The i-th smallest of m counts (m - i + 1) fold, and no less than the ones before it. Rejecting
    where an adjusted p-value is at most a, the probability of any false rejection is at most a,
    however the tests depend on each other (Holm 1979).

    >>> holm([0.01, 0.04, NAN, 0.03])
    [0.03, 0.06, nan, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    adjusted = p.copy()
    adjusted[order] = np.maximum.accumulate(np.arange(len(order), 0, -1) * p[order])
    return [float(each) for each in np.minimum(adjusted, 1.0)]


def upper_quantile(deviations: NDArray[np.float64], level: float) -> float:
    """The deviation that a further one exceeds with probability at most 1 - level."""
    # Of R + 1 that are alike, number ceil(level (R + 1)) in order; at most the largest of R.
    position = min(math.ceil(level * (len(deviations) + 1)), len(deviations))
    return float(np.sort(deviations)[position - 1])
