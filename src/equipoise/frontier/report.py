"""What test rows say about chosen snapshots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.errors import InputError, check_level, check_whole
from equipoise.frontier.criteria import Criteria
from equipoise.frontier.rows import HeldOut
from equipoise.frontier.selection import SelectionRow
from equipoise.frontier.snapshots import Floats
from equipoise.frontier.utility import utility_intervals
from equipoise.frontier.wish import Wish
from equipoise.inference import Interval, bootstrap, certify
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
        check_level(self.level)
        for name, least in (("draws", 2), ("candidates", 1)):
            check_whole(name, getattr(self, name), least=least)


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
    picked: Sequence[Picked],
    settings: ReportSettings,
) -> list[tuple[SelectionRow, ...]]:
    """Measure scores (E, n, s) of E snapshots on test rows, beside what validation rows said.

    Each snapshot gets the numbers it would get alone.
    """
    # By measure, utility first, then by snapshot.
    found: list[list[Found]] = [[Found()] * len(picked)] * (1 + len(criteria.measures))
    if scores is not None and rows is not None:
        thresholds = [each.threshold for each in picked]
        found = [_utility(scores, rows, settings)]
        found += [
            _unfairness(scores, rows, find_metric(name), attribute, thresholds, settings)
            for name, attribute in criteria.measures
        ]
    return [
        _rows(criteria, each, of_snapshot)
        for each, of_snapshot in zip(picked, zip(*found, strict=True), strict=True)
    ]


def certificates(
    scores: Floats, rows: HeldOut, criteria: Criteria, settings: ReportSettings
) -> Floats:
    """Upper bounds (E, M) of E snapshots, scores (E, n, s); NaN where there is none."""
    return np.array(
        [
            [
                _certificate(each.T, rows, find_metric(name), attribute, settings)[0]
                for name, attribute in criteria.measures
            ]
            for each in scores
        ]
    )


def _rows(criteria: Criteria, picked: Picked, found: Sequence[Found]) -> tuple[SelectionRow, ...]:
    utility, *unfairness = found
    out = [
        _row(criteria.utility, "", _finite(picked.wish.min_utility), picked.utility, utility),
    ]
    for (name, attribute), value, each in zip(
        criteria.measures, picked.unfairness, unfairness, strict=True
    ):
        wished = picked.wish.limits if name == picked.wish.metric else {}
        limit = _finite(wished.get(attribute, math.inf))
        out.append(_row(name, attribute, limit, float(value), each))
    return tuple(out)


def _row(
    metric: str, attribute: str, limit: float, validation: float, found: Found
) -> SelectionRow:
    return SelectionRow(metric, attribute, limit, validation, **vars(found))


def _utility(scores: Floats, rows: HeldOut, settings: ReportSettings) -> list[Found]:
    by_class = _by_class(scores)
    scored = prepare(by_class, rows.y, weights=rows.weights, threshold=None, outcome=rows.outcome)
    found = utility_intervals(
        scored,
        scores.shape[-1],
        draws=settings.draws,
        level=settings.level,
        random_state=settings.random_state,
    )
    return [Found(each.value, each.low, each.high) for each in found]


def _unfairness(
    scores: Floats,
    rows: HeldOut,
    metric: Metric,
    attribute: str,
    thresholds: Sequence[float | None],
    settings: ReportSettings,
) -> list[Found]:
    """One measure of scores (E, n, s); of several classes the largest.

    The level of every class by itself is raised so that all intervals hold together (Bonferroni);
    then the largest value lies between the largest lower and the largest upper end.
    """
    classes = scores.shape[-1]
    decides = all(threshold is not None for threshold in thresholds)
    intervals = bootstrap(
        [metric],
        _by_class(scores),
        [rows.table[attribute]],
        rows.y,
        weights=rows.weights,
        draws=settings.draws,
        level=settings.level if classes == 1 else 1 - (1 - settings.level) / classes,
        random_state=settings.random_state,
        threshold=np.array(thresholds, np.float64) if decides else None,
        outcome=rows.outcome,
    )
    return [
        _worst(
            intervals[classes * number : classes * (number + 1)],
            *_certificate(each.T, rows, metric, attribute, settings),
        )
        for number, each in enumerate(scores)
    ]


def _worst(intervals: Sequence[Interval], bound: float, why_none: str) -> Found:
    """Sum up the classes of one snapshot."""
    value, low, high = (
        max(ends) if not any(map(math.isnan, ends)) else math.nan
        for ends in zip(*((each.value, each.low, each.high) for each in intervals), strict=True)
    )
    reason = next((each.reason for each in intervals if each.reason is not None), "")
    return Found(value, low, high, bound, "; ".join(filter(None, (reason, why_none))))


def _by_class(scores: Floats) -> Floats:
    """Scores (E, n, s) as (E * s, n), those of a snapshot together."""
    return np.ascontiguousarray(scores.transpose(0, 2, 1)).reshape(-1, scores.shape[1])


def _certificate(
    by_class: Floats, rows: HeldOut, metric: Metric, attribute: str, settings: ReportSettings
) -> tuple[float, str]:
    """Upper bound for one snapshot, scores (s, n), or NaN and why there is none."""
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
