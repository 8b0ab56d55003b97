"""One number, and how sure it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    certificate: float = NAN  # upper confidence bound in the population, at every number of rows
    n: int = 0  # rows it rests on
    reason: str = ""  # why the value is undefined
    note: str = ""  # what else a reader must know


def notes(*parts: str) -> str:
    """One note from several, those with nothing to say left out.

    >>> notes("", "2 small groups", "no certificate")
    '2 small groups; no certificate'
    """
    return "; ".join(filter(None, parts))


def upper_quantile(deviations: NDArray[np.float64], level: float) -> float:
    """The deviation that a further one exceeds with probability at most 1 - level."""
    # Of R + 1 that are alike, number ceil(level (R + 1)) in order; at most the largest of R.
    position = min(math.ceil(level * (len(deviations) + 1)), len(deviations))
    return float(np.sort(deviations)[position - 1])
