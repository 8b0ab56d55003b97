"""The chosen snapshot as a fitted model, and what rows it never touched say about it."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass, fields

import pandas as pd

from equipoise.errors import InputError
from equipoise.estimators import FairClassifier, FairRegressor
from equipoise.frontier.criteria import Criteria
from equipoise.frontier.rows import HeldOut
from equipoise.frontier.snapshots import Floats
from equipoise.frontier.wish import Wish
from equipoise.inference import bootstrap, certify
from equipoise.inference.utility_intervals import auc_interval, regression_intervals
from equipoise.metrics import Metric, find_metric

#: Metrics whose population value a certificate bounds.
_CERTIFIED = ("KS-GSP", "KS-GEO")


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
        Value on the rows that picked it, which flatters the best of many.
    test, low, high : float
        Value on the test rows, with its interval.
    certificate : float
        Upper bound in the population, for KS-GSP and KS-GEO; NaN where there is none.
    note : str
        Why a number is undefined.
    """

    metric: str
    attribute: str
    limit: float
    validation: float
    test: float
    low: float
    high: float
    certificate: float = math.nan
    note: str = ""

    @property
    def name(self) -> str:
        """Metric and attribute in words."""
        return f"{self.metric} by {self.attribute}" if self.attribute else self.metric


@dataclass(frozen=True, eq=False)
class Selection:
    """A model chosen on validation rows, and its report on test rows; print it.

    Attributes
    ----------
    model : FairClassifier or FairRegressor
        Fitted: the chosen snapshot.
    snapshot : int
        Its row in ``FairFrontier.table()``.
    strength : float
    seed, iteration : int
    threshold : float or None
        Where decisions were cut: Youden's on the validation rows; None for regression.
    wish, aim : str
        The limits, and what was sought within them.
    candidates : int
        How many selections the certificates hold for together.
    picked_among : int
        Snapshots on a front, among which this one was picked.
    level : float
        Of intervals and certificates.
    validation_rows, test_rows : int
    rows : tuple of SelectionRow
        Utility first, then every metric by attribute.
    """

    model: FairClassifier | FairRegressor
    snapshot: int
    strength: float
    seed: int
    iteration: int
    threshold: float | None
    wish: str
    aim: str
    candidates: int
    picked_among: int
    level: float
    validation_rows: int
    test_rows: int
    rows: tuple[SelectionRow, ...]

    @property
    def holds_on_test(self) -> bool:
        """Whether the values on the test rows keep every limit, too."""
        utility, *unfairness = self.rows
        enough = math.isnan(utility.limit) or utility.test >= utility.limit
        # An undefined value keeps no limit.
        return enough and all(
            row.test <= row.limit for row in unfairness if not math.isnan(row.limit)
        )

    def to_frame(self) -> pd.DataFrame:
        """The report as a pandas DataFrame, columns as in `SelectionRow`."""
        return pd.DataFrame(
            [asdict(row) for row in self.rows],
            columns=[field.name for field in fields(SelectionRow)],
        )

    def __str__(self) -> str:
        head = (
            f"Snapshot {self.snapshot} (strength {self.strength:g}, seed {self.seed}, iteration "
            f"{self.iteration}) has {self.aim} with {self.wish}, of {self.picked_among} snapshots "
            f"on a front, on {self.validation_rows} validation rows."
        )
        kept = "keeps" if self.holds_on_test else "does not keep"
        verdict = (
            f"On {self.test_rows} test rows, used neither to train nor to pick, it {kept} what was "
            f"wished ({100 * self.level:g} % intervals in brackets):"
        )
        lines = [*_wrapped(head), *_wrapped(verdict)]
        for row in self.rows:
            lines += _wrapped(_said(row), indent="  ")
        if self.threshold is not None:
            lines.append(f"Decisions: score > {self.threshold:.4g}, set on the validation rows.")
        # Said, not warned of: what the health doubts, the test rows have measured.
        for message in self.model.health_.messages:
            lines += _wrapped(f"Training: {message}")
        of = "this selection" if self.candidates == 1 else f"{self.candidates} selections"
        lines += _wrapped(
            f"Each certificate holds by itself, for {of}; comparing more selections on the same "
            "test rows makes them rows that pick (see candidates)."
        )
        return "\n".join(lines)


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Lines of at most 100 characters; names of metrics, which have hyphens, stay whole."""
    return textwrap.wrap(
        text,
        100,
        initial_indent=indent,
        subsequent_indent=2 * indent,
        break_on_hyphens=False,
    )


def _said(row: SelectionRow) -> str:
    parts = [f"{row.name} {row.test:.4f} ({row.low:.4f} to {row.high:.4f})"]
    if not math.isnan(row.certificate):
        parts.append(f"certified to be at most {row.certificate:.4f}")
    parts.append(f"{row.validation:.4f} on validation rows")
    if not math.isnan(row.limit):
        parts.append(f"wished {'at most' if row.attribute else 'at least'} {row.limit:g}")
    if row.note:
        parts.append(row.note)
    return ", ".join(parts)


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


def report(
    scores: Floats, rows: HeldOut, criteria: Criteria, picked: Picked, settings: ReportSettings
) -> tuple[SelectionRow, ...]:
    """Measure scores (n,) on test rows, beside what was picked on validation rows."""
    level, draws, seed = settings.level, settings.draws, settings.random_state
    if rows.outcome == "binary":
        utility = auc_interval(scores, rows.y == 1, draws=draws, level=level, random_state=seed)
    else:
        _, utility = regression_intervals(
            scores, rows.y, draws=draws, level=level, random_state=seed
        )
    out = [
        SelectionRow(
            metric=utility.metric,
            attribute="",
            limit=_finite(picked.wish.min_utility),
            validation=picked.utility,
            test=utility.value,
            low=utility.low,
            high=utility.high,
        )
    ]
    for (name, attribute), value in zip(criteria.measures, picked.unfairness, strict=True):
        metric = find_metric(name)
        (interval,) = bootstrap(
            [metric],
            scores,
            [rows.table[attribute]],
            rows.y,
            draws=draws,
            level=level,
            random_state=seed,
            threshold=picked.threshold,
            outcome=rows.outcome,
        )
        wished = picked.wish.limits if name == picked.wish.metric else {}
        bound, why_none = _certificate(scores, rows, metric, attribute, settings)
        out.append(
            SelectionRow(
                metric=name,
                attribute=attribute,
                limit=_finite(wished.get(attribute, math.inf)),
                validation=float(value),
                test=interval.value,
                low=interval.low,
                high=interval.high,
                certificate=bound,
                note="; ".join(filter(None, (interval.reason, why_none))),
            )
        )
    return tuple(out)


def _certificate(
    scores: Floats, rows: HeldOut, metric: Metric, attribute: str, settings: ReportSettings
) -> tuple[float, str]:
    """Upper bound, or NaN and why there is none."""
    if metric.name not in _CERTIFIED:
        return math.nan, ""
    given = metric.notion.conditions_on_outcome
    try:
        found = certify(
            scores,
            rows.table[attribute],
            y=rows.y if given else None,
            outcome=rows.outcome if given else None,
            level=settings.level,
            candidates=settings.candidates,
            random_state=settings.random_state,
        )
    except InputError as impossible:
        return math.nan, f"no certificate: {impossible}"
    return float(found.upper), ""


def _finite(limit: float) -> float:
    return limit if math.isfinite(limit) else math.nan
