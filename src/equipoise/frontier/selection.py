"""The chosen snapshot as a fitted model, and what rows it never touched say about it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from equipoise.errors import InputError, check_level, check_whole
from equipoise.estimators import Classifies, Regresses
from equipoise.frontier.rows import HeldOut
from equipoise.frontier.snapshots import Criteria, Entry, Floats, Snapshots
from equipoise.inference import Estimate, bootstrap
from equipoise.inference.bootstrap import utility_intervals
from equipoise.inference.certificate import certificate_of
from equipoise.inference.estimate import notes
from equipoise.metrics import Metric, find_metric, prepare
from equipoise.pareto import choose


@dataclass(frozen=True)
class SelectionRow:
    """One number about the chosen model.

    Attributes
    ----------
    metric, attribute : str
        The attribute is empty for utility.
    limit : float
        What was wished: the most for unfairness, the least for utility; NaN for no limit.
    validation : float
        Value on the rows that picked it, which is too favorable for the best of many.
    estimate : Estimate
        Value on the test rows, with interval and certificate. Its parts are also columns: `test`
        (the value), `low`, `high`, `certificate` and `note`.
    """

    metric: str
    attribute: str
    limit: float
    validation: float
    estimate: Estimate

    COLUMNS: ClassVar = (
        "metric", "attribute", "limit", "validation", "test", "low", "high", "certificate", "note"
    )  # fmt: skip
    test = property(attrgetter("estimate.value"))
    low = property(attrgetter("estimate.low"))
    high = property(attrgetter("estimate.high"))
    certificate = property(attrgetter("estimate.certificate"))

    @property
    def note(self) -> str:
        """Why a number is undefined."""
        return notes(self.estimate.reason, self.estimate.note)

    def columns(self) -> dict[str, Any]:
        """The row as a table and JSON have it."""
        return {name: getattr(self, name) for name in self.COLUMNS}

    @property
    def name(self) -> str:
        """Metric and attribute in words."""
        return f"{self.metric} by {self.attribute}" if self.attribute else self.metric


@dataclass(frozen=True, eq=False)
class Selection:
    """A model chosen on validation rows, and its report on test rows; print it.

    Attributes
    ----------
    model : FairClassifier, FairRegressor, or their boosted counterparts
        Fitted: the chosen snapshot.
    snapshot : int
        Its row in ``FairFrontier.table()``.
    origin : str
        How it came about, in words.
    strength : float
    seed, iteration : int
        The seed is -1 for an average; an iteration of boosted trees is a round.
    predictor : str
        "network" or "boosting".
    averaged : int
        How many members' scores are averaged; 1 for a member by itself.
    threshold : float or None
        Where decisions were cut: Youden's on the validation rows; None but for two classes.
    wish, aim : str
        The limits, and what was sought within them.
    metric : str
        What the limits on unfairness are on.
    attributes : tuple of str
        Those that counted when it was picked.
    candidates : int
        How many selections the certificates hold for together.
    picked_among : int
        Snapshots on a front, among which this one was picked.
    level : float
        Of intervals and certificates.
    validation_rows, test_rows : int
        There are no test rows where the frontier was saved without them.
    rows : tuple of SelectionRow
        Utility first, then every metric by attribute: of three or more classes the worst counts.
    """

    model: Classifies | Regresses
    snapshot: int
    origin: str
    strength: float
    seed: int
    predictor: str
    averaged: int
    iteration: int
    threshold: float | None
    wish: str
    aim: str
    metric: str
    attributes: tuple[str, ...]
    candidates: int
    picked_among: int
    level: float
    validation_rows: int
    test_rows: int
    rows: tuple[SelectionRow, ...]

    @property
    def holds_on_test(self) -> bool | None:
        """Whether the values on the test rows keep every limit, too; None without test rows."""
        if self.test_rows == 0:
            return None
        utility, *unfairness = self.rows
        enough = math.isnan(utility.limit) or utility.test >= utility.limit
        # An undefined value keeps no limit.
        return enough and all(
            row.test <= row.limit for row in unfairness if not math.isnan(row.limit)
        )

    def to_frame(self) -> pd.DataFrame:
        """The report as a pandas DataFrame, columns as in `SelectionRow`."""
        return pd.DataFrame(
            [row.columns() for row in self.rows], columns=list(SelectionRow.COLUMNS)
        )

    def __str__(self) -> str:
        head = (
            f"Snapshot {self.snapshot} ({self.origin}) has {self.aim} with {self.wish}, of "
            f"{self.picked_among} snapshots on a front, on {self.validation_rows} validation rows."
        )
        kept = "keeps" if self.holds_on_test else "does not keep"
        verdict = (
            f"On {self.test_rows} test rows, used neither to train nor to pick, it {kept} what was "
            f"wished ({100 * self.level:g} % intervals in brackets):"
        )
        if self.test_rows == 0:
            verdict = (
                "There are no test rows any more. These values are those on the validation rows "
                "that picked it, so they are too favorable:"
            )
        lines = [*_wrapped(head), *_wrapped(verdict)]
        for row in self.rows:
            lines += _wrapped(_said(row), indent="  ")
        if self.threshold is not None:
            lines.append(f"Decisions: score > {self.threshold:.4g}, set on the validation rows.")
        # Said, not warned of: what the health doubts, the test rows have measured.
        for message in self.model.health_.messages:
            lines += _wrapped(f"Training: {message}")
        return "\n".join(lines + _wrapped(self._about_classes()) + _wrapped(self._about_picking()))

    def _about_classes(self) -> str:
        """Say whose unfairness is reported where there are several classes."""
        classes = len(getattr(self.model, "classes_", ()))
        if classes < 3:
            return ""
        together = f"; intervals and certificates hold for all {classes} together"
        return (
            f"Unfairness is that of the worst of the {classes} classes, each assessed by its own "
            f"probability{together if self.test_rows else ''}."
        )

    def _about_picking(self) -> str:
        """Say what comparing reports does to them."""
        if self.test_rows == 0:
            return ""
        further = "Each further model you compare on these test rows"
        if all(math.isnan(row.certificate) for row in self.rows):
            return f"{further} makes the best of them look better than it is."
        of = "this selection" if self.candidates == 1 else f"{self.candidates} selections"
        return f"Each certificate holds by itself, for {of}. {further} weakens it (see candidates)."


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Lines of at most 100 characters; names of metrics, which have hyphens, stay whole."""
    wrapper = textwrap.TextWrapper(100, indent, 2 * indent, break_on_hyphens=False)
    return wrapper.wrap(text)


def _said(row: SelectionRow) -> str:
    parts = []
    if not math.isnan(row.test):
        parts.append(f"{row.name} {row.test:.4f} ({row.low:.4f} to {row.high:.4f})")
    if not math.isnan(row.certificate):
        parts.append(f"certified to be at most {row.certificate:.4f}")
    validation = f"{row.validation:.4f} on validation rows"
    parts.append(validation if parts else f"{row.name} {validation}")
    if not math.isnan(row.limit):
        parts.append(f"wished {'at most' if row.attribute else 'at least'} {row.limit:g}")
    if row.note:
        parts.append(row.note)
    return ", ".join(parts)


@dataclass(frozen=True)
class Wish:
    """What a user wants of a snapshot."""

    metric: str
    # Largest unfairness by attribute; infinite where it should be small but has no limit.
    limits: Mapping[str, float]
    min_utility: float  # minus infinity where there is none

    @property
    def seeks_utility(self) -> bool:
        """Whether the best utility is wanted; else the least unfairness."""
        return any(math.isfinite(limit) for limit in self.limits.values())

    def by_measure(self, utility: str) -> dict[tuple[str, str], float]:
        """The limits that there are, by metric and attribute; the attribute of utility is ""."""
        limits = {(self.metric, attribute): limit for attribute, limit in self.limits.items()}
        limits[utility, ""] = self.min_utility
        return {name: limit for name, limit in limits.items() if math.isfinite(limit)}

    def describe(self, utility: str) -> str:
        """Put the limits in words."""
        return " and ".join(
            f"{metric} by {attribute} <= {limit:g}" if attribute else f"{metric} >= {limit:g}"
            for (metric, attribute), limit in self.by_measure(utility).items()
        )

    def aim(self, utility: str) -> str:
        """Say what is as good as possible within the limits."""
        if self.seeks_utility:
            return f"the best {utility}"
        return f"the least {self.metric} by {' and '.join(self.limits)}"


def read_wish(
    criteria: Criteria,
    *,
    max_unfairness: float | Mapping[str, float] | None,
    min_utility: float | None,
    metric: str | None,
    attribute: str | None,
) -> Wish:
    """Check what the user asks for; a single limit is for every attribute, or for the one named."""
    name = criteria.find(metric)
    if max_unfairness is None and min_utility is None:
        raise InputError(
            "select needs a wish, got none: pass max_unfairness for the best utility within it, "
            "or min_utility for the least unfairness that keeps it"
        )
    rule = "attribute must be a sensitive column"
    if isinstance(max_unfairness, Mapping):
        rule = "max_unfairness must name sensitive columns"
        if attribute is not None:
            raise InputError(
                "attribute must not be given when max_unfairness names attributes, got "
                f"{attribute!r}"
            )
        if not max_unfairness:
            raise InputError("max_unfairness must name at least one attribute, got {}")
        attributes, limits = list(max_unfairness), list(max_unfairness.values())
    else:
        attributes = list(criteria.by_attribute(name)) if attribute is None else [attribute]
        limits = [math.inf if max_unfairness is None else max_unfairness] * len(attributes)
    for each, limit in zip(attributes, limits, strict=True):
        criteria.find_attribute(name, each, rule=rule)
        if max_unfairness is not None and not (_is_finite(limit) and limit >= 0):
            raise InputError(
                f"max_unfairness must be a finite number of at least 0, got {limit!r} for {each}; "
                "leave out attributes without a limit"
            )
    if min_utility is not None and not (_is_finite(min_utility) and min_utility <= 1):
        raise InputError(
            f"min_utility must be a finite number of at most 1, the {criteria.utility} of perfect "
            f"scores, got {min_utility!r}"
        )
    return Wish(
        name,
        dict(zip(attributes, map(float, limits), strict=True)),
        -math.inf if min_utility is None else float(min_utility),
    )


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return False
    return math.isfinite(value)


def pick(snapshots: Snapshots, entries: Sequence[Entry], wish: Wish) -> int:
    """Number of the snapshot that meets the wish best; InputError that names the nearest if none.

    Only snapshots with weights are looked at: whatever the limits, no other whose metric is defined
    for every attribute does better.
    """
    criteria = snapshots.criteria
    columns = [criteria.find_attribute(wish.metric, attribute) for attribute in wish.limits]
    kept = np.flatnonzero(snapshots.kept)
    kept = kept[~np.isnan(snapshots.unfairness[kept][:, columns]).any(axis=1)]
    if len(kept) == 0:
        raise InputError(
            f"no snapshot has a defined {wish.metric} by {' and '.join(wish.limits)}; "
            "table() shows where it is undefined"
        )
    utility = snapshots.utility[kept]
    unfairness = snapshots.unfairness[kept][:, columns]
    objective = -utility if wish.seeks_utility else unfairness.max(axis=1)
    choice = choose(
        objective,
        np.column_stack([-utility, unfairness]),
        [-wish.min_utility, *wish.limits.values()],
    )
    number = int(kept[choice.row])
    if choice.feasible:
        return number
    entry = entries[snapshots.entry[number]]
    # Rounded to the side on which asking for the numbers said is granted.
    found = [
        f"{wish.metric} by {attribute} {granted(value):.4f}"
        for attribute, value in zip(wish.limits, unfairness[choice.row], strict=True)
    ]
    reached = -granted(-utility[choice.row])
    worst = " of the worst class" if criteria.utility == "macro AUC" else ""
    raise InputError(
        f"no snapshot has {wish.describe(criteria.utility)} on the validation rows; the nearest is "
        f"snapshot {number} ({entry.describe(int(snapshots.iteration[number]))}) with "
        f"{criteria.utility} {reached:.4f} and {', '.join(found)}{worst}; ask for these values, "
        "train longer, or add strengths nearer to 1"
    )


def granted(unfairness: float) -> float:
    """Rounded up to four digits, so that asking for the number said is granted.

    >>> granted(0.12345), granted(0.0009000000000000001)
    (0.1235, 0.001)
    """
    steps = math.ceil(1e4 * unfairness)
    # The product may have lost the last digit of a number just above a round one.
    return steps / 1e4 if steps / 1e4 >= unfairness else (steps + 1) / 1e4


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


def estimates(
    scores: Floats,
    rows: HeldOut,
    criteria: Criteria,
    thresholds: Sequence[float | None],
    settings: ReportSettings,
) -> list[tuple[Estimate, ...]]:
    """Measure scores (E, n, s) of E snapshots on test rows: utility, then each measure.

    Each snapshot gets the numbers it would get alone.
    """
    found = [
        _utility(scores, rows, settings),
        *(
            _unfairness(scores, rows, find_metric(name), attribute, thresholds, settings)
            for name, attribute in criteria.measures
        ),
    ]
    return list(zip(*found, strict=True))


def certificates(
    scores: Floats, rows: HeldOut, criteria: Criteria, settings: ReportSettings
) -> Floats:
    """Upper bounds (E, M) of E snapshots, scores (E, n, s); NaN where there is none."""
    measures = [(find_metric(name), attribute) for name, attribute in criteria.measures]
    found = [
        [_certificate(each.T, rows, *measure, settings)[0] for measure in measures]
        for each in scores
    ]
    return np.array(found)


def _utility(scores: Floats, rows: HeldOut, settings: ReportSettings) -> list[Estimate]:
    by_class = _by_class(scores)
    scored = prepare(by_class, rows.y, weights=rows.weights, threshold=None, outcome=rows.outcome)
    (found,) = utility_intervals(
        scored,
        ["R2" if rows.outcome == "continuous" else "AUC"],
        columns=scores.shape[-1],
        draws=settings.draws,
        level=settings.level,
        random_state=settings.random_state,
    )
    return list(found)


def _unfairness(
    scores: Floats,
    rows: HeldOut,
    metric: Metric,
    attribute: str,
    thresholds: Sequence[float | None],
    settings: ReportSettings,
) -> list[Estimate]:
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
            settings.level,
            *_certificate(each.T, rows, metric, attribute, settings),
        )
        for number, each in enumerate(scores)
    ]


def _worst(classes: Sequence[Estimate], level: float, bound: float, why_none: str) -> Estimate:
    """Sum up the classes of one snapshot."""
    ends = np.array([(each.value, each.low, each.high) for each in classes])
    value, low, high = map(float, ends.max(axis=0))
    return Estimate(
        value=value,
        low=low,
        high=high,
        level=level,
        n=classes[0].n,
        reason=next((each.reason for each in classes if each.reason), ""),
    ).certified(bound, why_none)


def _by_class(scores: Floats) -> Floats:
    """Scores (E, n, s) as (E * s, n), those of a snapshot together."""
    return np.ascontiguousarray(scores.transpose(0, 2, 1)).reshape(-1, scores.shape[1])


def _certificate(
    by_class: Floats, rows: HeldOut, metric: Metric, attribute: str, settings: ReportSettings
) -> tuple[float, str]:
    """Upper bound for one snapshot, scores (s, n), or NaN and why there is none."""
    return certificate_of(
        metric,
        by_class,
        rows.table[attribute],
        rows.y,
        rows.outcome,
        weights=rows.weights,
        level=settings.level,
        # The bounds of all classes hold together, and so does that of the worst.
        candidates=settings.candidates * len(by_class),
    )
