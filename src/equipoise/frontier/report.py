"""What test rows say about the chosen snapshot."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from equipoise.errors import InputError
from equipoise.frontier.criteria import Criteria
from equipoise.frontier.rows import HeldOut
from equipoise.frontier.selection import SelectionRow
from equipoise.frontier.snapshots import Floats
from equipoise.frontier.utility import utility_interval
from equipoise.frontier.wish import Wish
from equipoise.inference import bootstrap, certify
from equipoise.metrics import Metric, find_metric, prepare

#: Metrics whose population value a certificate bounds.
_CERTIFIED = ("KS-GSP", "KS-GEO")


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """How sure a report is to be, and for how many selections."""

    level: float = 0.95
    draws: int = 200
    candidates: int = 1
    random_state: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InputError(
                f"level must lie strictly between 0 and 1, got {self.level}; try level=0.95"
            )
        for name, least in (("draws", 2), ("candidates", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class Picked:
    """The wish, and how the picked snapshot did on validation rows: unfairness (M,)."""

    wish: Wish
    utility: float
    unfairness: Floats
    threshold: float | None


@dataclass(frozen=True)
class Found:
    """One number on the test rows; NaN throughout where there are none."""

    test: float = math.nan
    low: float = math.nan
    high: float = math.nan
    certificate: float = math.nan
    note: str = ""


def report(
    scores: Floats | None,
    rows: HeldOut | None,
    criteria: Criteria,
    picked: Picked,
    settings: ReportSettings,
) -> tuple[SelectionRow, ...]:
    """Measure scores (n, s) on test rows, beside what was picked on validation rows."""
    if scores is None or rows is None:
        utility, *unfairness = [Found()] * (1 + len(criteria.measures))
    else:
        by_class = np.ascontiguousarray(scores.T)
        utility = _utility(by_class, rows, settings)
        unfairness = [
            _unfairness(by_class, rows, find_metric(name), attribute, picked.threshold, settings)
            for name, attribute in criteria.measures
        ]
    out = [
        _row(criteria.utility, "", _finite(picked.wish.min_utility), picked.utility, utility),
    ]
    for (name, attribute), value, found in zip(
        criteria.measures, picked.unfairness, unfairness, strict=True
    ):
        wished = picked.wish.limits if name == picked.wish.metric else {}
        limit = _finite(wished.get(attribute, math.inf))
        out.append(_row(name, attribute, limit, float(value), found))
    return tuple(out)


def _row(
    metric: str, attribute: str, limit: float, validation: float, found: Found
) -> SelectionRow:
    return SelectionRow(metric, attribute, limit, validation, **vars(found))


def _utility(by_class: Floats, rows: HeldOut, settings: ReportSettings) -> Found:
    scored = prepare(by_class, rows.y, weights=rows.weights, threshold=None, outcome=rows.outcome)
    found = utility_interval(
        scored,
        len(by_class),
        draws=settings.draws,
        level=settings.level,
        random_state=settings.random_state,
    )
    return Found(found.value, found.low, found.high)


def _unfairness(
    by_class: Floats,
    rows: HeldOut,
    metric: Metric,
    attribute: str,
    threshold: float | None,
    settings: ReportSettings,
) -> Found:
    """One measure of scores (s, n); of several classes the largest.

    The level of every class by itself is raised so that all intervals hold together (Bonferroni);
    then the largest value lies between the largest lower and the largest upper end.
    """
    intervals = bootstrap(
        [metric],
        by_class,
        [rows.table[attribute]],
        rows.y,
        weights=rows.weights,
        draws=settings.draws,
        level=settings.level if len(by_class) == 1 else 1 - (1 - settings.level) / len(by_class),
        random_state=settings.random_state,
        threshold=threshold,
        outcome=rows.outcome,
    )
    value, low, high = (
        max(ends) if not any(map(math.isnan, ends)) else math.nan
        for ends in zip(*((each.value, each.low, each.high) for each in intervals), strict=True)
    )
    reason = next((each.reason for each in intervals if each.reason is not None), "")
    bound, why_none = _certificate(by_class, rows, metric, attribute, settings)
    return Found(value, low, high, bound, "; ".join(filter(None, (reason, why_none))))


def _certificate(
    by_class: Floats, rows: HeldOut, metric: Metric, attribute: str, settings: ReportSettings
) -> tuple[float, str]:
    """Upper bound, or NaN and why there is none."""
    if metric.name not in _CERTIFIED:
        return math.nan, ""
    if rows.weights is not None:
        return math.nan, "no certificate: its inequality is for rows that count the same"
    given = metric.notion.conditions_on_outcome
    try:
        found = certify(
            by_class,
            rows.table[attribute],
            y=rows.y if given else None,
            outcome=rows.outcome if given else None,
            level=settings.level,
            # The bounds of all classes hold together, and so does that of the worst.
            candidates=settings.candidates * len(by_class),
            random_state=settings.random_state,
        )
    except InputError as impossible:
        return math.nan, f"no certificate: {impossible}"
    return float(np.max(found.upper)), ""


def _finite(limit: float) -> float:
    return limit if math.isfinite(limit) else math.nan
