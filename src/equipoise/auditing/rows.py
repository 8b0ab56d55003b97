"""One number of an audit, and one that could not be had: the rows of its tables."""

from __future__ import annotations

from dataclasses import dataclass

NAN = float("nan")
ALL_ROWS = "all rows"
MISSING = "(missing)"


@dataclass(frozen=True, kw_only=True)
class AuditRow:
    """One number, with everything that says how sure it is.

    Attributes
    ----------
    notion : str
        "independence" or "separation"; "" for numbers that belong to neither.
    metric : str
    attribute : str
        Sensitive column; "race x sex" is an intersection, "age, race, sex" all columns jointly,
        "" none.
    group : str
        Group, or range of a continuous attribute; "all rows" for a number about all of them.
    value : float
        NaN where undefined.
    low, high : float
        Interval at the level of the audit.
    p_value : float
        Of the permutation test of the notion for this attribute, the same for all its metrics; NaN
        for groups.
    certificate : float
        Upper confidence bound in the population; KS-GSP and KS-GEO have one.
    n : int
        Rows the value was computed on.
    reason : str
        Why the value is undefined, or "".
    note : str
        What else a reader must know about this number, or "".
    """

    notion: str
    metric: str
    attribute: str
    group: str
    value: float
    low: float = NAN
    high: float = NAN
    p_value: float = NAN
    certificate: float = NAN
    n: int
    reason: str = ""
    note: str = ""


@dataclass(frozen=True)
class NotAssessed:
    """A metric that is not defined for an attribute, and why."""

    metric: str
    attribute: str
    reason: str
