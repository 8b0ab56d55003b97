"""One number, and how sure it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

NAN = math.nan


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number, and how sure it is.

    A number that does not exist is NaN, never None or 0, and a text with nothing to say is "".
    JSON writes NaN as null.

    Attributes
    ----------
    value : float
        On the rows at hand.
    low, high : float
        Interval.
    level : float
        Probability with which the interval holds, and the certificate.
    chance : float
        What a fair score reaches by chance on as many rows.
    p : float
        P-value of the hypothesis that the score is fair.
    certificate : float
        Upper confidence bound in the population; holds at every number of rows.
    n : int
        Rows it rests on.
    reason : str
        Why the value is undefined.
    note : str
        What else a reader must know.

    Examples
    --------
    >>> Estimate(value=0.12, low=0.08, high=0.16, level=0.95, n=1000).defined, Estimate().defined
    (True, False)
    """

    value: float = NAN
    low: float = NAN
    high: float = NAN
    level: float = NAN
    chance: float = NAN
    p: float = NAN
    certificate: float = NAN
    n: int = 0
    reason: str = ""
    note: str = ""

    @property
    def defined(self) -> bool:
        """Whether there is a value."""
        return not math.isnan(self.value)


def notes(*parts: str) -> str:
    """One note from several, those with nothing to say left out.

    >>> notes("", "2 small groups", "no certificate")
    '2 small groups; no certificate'
    """
    return "; ".join(filter(None, parts))
