"""The chosen snapshot as a fitted model, and what rows it never touched say about it."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass, fields

import pandas as pd

from equipoise.estimators import Classifies, Regresses
from equipoise.frontier.entries import origin_in_words


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
    model : FairClassifier, FairRegressor, or their boosted counterparts
        Fitted: the chosen snapshot.
    snapshot : int
        Its row in ``FairFrontier.table()``.
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

    @property
    def origin(self) -> str:
        """How the snapshot came about, in words."""
        return origin_in_words(
            self.predictor, self.strength, self.seed, self.averaged, self.iteration
        )

    def to_frame(self) -> pd.DataFrame:
        """The report as a pandas DataFrame, columns as in `SelectionRow`."""
        return pd.DataFrame(
            [asdict(row) for row in self.rows],
            columns=[field.name for field in fields(SelectionRow)],
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
                "There are no test rows any more, so the values are those that picked it, which "
                "flatter the best of many:"
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
        compared = "selections on the same test rows makes them rows that pick"
        if all(math.isnan(row.certificate) for row in self.rows):
            return f"Comparing several {compared}."
        of = "this selection" if self.candidates == 1 else f"{self.candidates} selections"
        return (
            f"Each certificate holds by itself, for {of}; comparing more {compared} "
            "(see candidates)."
        )


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
