"""What an audit looks at: scores, outcome and sensitive columns, checked and put in order.

Rows are sorted by score, outcome and attributes, so that random draws, which pick rows by position,
give the same answer whatever order the rows came in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import (
    InputError,
    check_choice,
    check_flag,
    check_level,
    check_whole,
    did_you_mean,
)
from equipoise.inference.verdict import DEFAULT_LIMIT, Decisions, Favourable, limits_of
from equipoise.metrics.arrays import as_numbers
from equipoise.metrics.outcome import OutcomeKind, outcome_array, outcome_kind
from equipoise.metrics.sample import Repeats, Scored, Threshold, prepare
from equipoise.notions import Notion
from equipoise.tables import Kind, SensitiveColumn, SensitiveTable, check_aligned

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Options of `audit`, under the same names."""

    notion: str | None = None
    threshold: Threshold = "paper"
    positive: Hashable | None = None
    outcome: OutcomeKind | None = None
    favourable: Favourable = "high"
    decision: str = ""
    max_gap: float | Mapping[str, float] = DEFAULT_LIMIT
    references: Mapping[str, Hashable] = field(default_factory=dict)
    intersections: bool = True
    level: float = 0.95
    draws: int = 200
    permutations: int = 999
    candidates: int = 1
    random_state: int = 0

    def __post_init__(self) -> None:
        if self.notion is not None:
            Notion.parse(self.notion)
        if self.outcome is not None:
            check_choice("outcome", self.outcome, get_args(OutcomeKind))
        Decisions(self.favourable, self.decision)  # raises
        if not isinstance(self.references, Mapping):
            raise InputError(
                "references must map names of columns to categories, got "
                f"{self.references!r}; for example references={{'sex': 'M'}}"
            )
        check_flag("intersections", self.intersections)
        check_level(self.level)
        for name, least in (("draws", 2), ("permutations", 1), ("candidates", 1)):
            check_whole(name, getattr(self, name), least=least)
        check_whole("random_state", self.random_state, least=0)

    @property
    def decisions(self) -> Decisions:
        """What a positive decision means."""
        return Decisions(self.favourable, self.decision)

    def notions(self, *, outcome_given: bool) -> tuple[Notion, ...]:
        """The notions to assess: the one named, else all for which the data suffice."""
        if self.notion is None:
            return tuple(n for n in Notion if outcome_given or not n.conditions_on_outcome)
        chosen = Notion.parse(self.notion)
        if chosen.conditions_on_outcome and not outcome_given:
            raise InputError(
                "y must be given to assess separation, which compares people of equal outcome, got "
                "None; pass y (--target), or notion='independence' (--notion independence)"
            )
        return (chosen,)


@dataclass(frozen=True, eq=False)
class AuditData:
    """Rows to audit."""

    scores: Floats
    y: NDArray[Any] | None  # 0 and 1 for a binary outcome, numbers or labels otherwise
    outcome: OutcomeKind | None
    outcome_words: str  # what y is, for people
    table: SensitiveTable
    weights: Floats | None = None  # how much each row counts; None where all count the same
    repeats: Repeats | None = None  # rows that stand for many, each of which counts so much

    @property
    def n(self) -> int:
        """Number of rows that were audited."""
        return int(self.people.sum())

    @property
    def people(self) -> Floats:
        """How many rows each row stands for, (n,)."""
        return np.ones(len(self.scores)) if self.repeats is None else self.repeats.number

    @property
    def ranked(self) -> Floats:
        """Scores whose order counts, (n,): of a bin of scores its lowest."""
        return self.scores if self.repeats is None else self.repeats.lowest

    @property
    def discrete(self) -> tuple[SensitiveColumn, ...]:
        """Discrete columns."""
        return tuple(column for column in self.table.columns if column.kind == "discrete")

    @property
    def positive(self) -> NDArray[np.bool_] | None:
        """Which rows have the positive outcome, (n,), where y is binary."""
        if self.outcome != "binary" or self.y is None:
            return None
        return np.asarray(self.y == 1)

    def scored(self, settings: AuditSettings) -> Scored:
        """The scores as metrics take them, with the decision threshold found."""
        return prepare(
            self.scores,
            self.y,
            weights=self.weights,
            threshold=settings.threshold,
            outcome=self.outcome,
            repeats=self.repeats,
        )

    def digest(self) -> str:
        """SHA-256 of all values, in the order in which they came."""
        found = hashlib.sha256()
        columns = [c.values if c.values is not None else c.codes for c in self.table.columns]
        number = None if self.repeats is None else self.repeats.number
        for values in (self.scores, self.y, self.weights, number, *columns):
            if values is not None:
                plain = values.astype(str) if values.dtype.kind == "O" else values
                found.update(np.ascontiguousarray(plain).tobytes())
        return found.hexdigest()

    def sorted(self) -> AuditData:
        """The same rows in an order that their values alone decide."""
        keys: list[Any] = [
            column.codes if column.values is None else column.values
            for column in self.table.columns
        ]
        if self.y is not None:
            keys.append(np.unique(self.y, return_inverse=True)[1])
        if self.weights is not None:
            keys.append(self.weights)
        order = np.lexsort([*keys, self.scores, self.ranked])
        return replace(
            self,
            scores=self.scores[order],
            y=None if self.y is None else self.y[order],
            table=self.table.take(order),
            weights=None if self.weights is None else self.weights[order],
            repeats=None if self.repeats is None else self.repeats.take(order),
        )


def read_data(
    scores: Any,
    y: Any,
    sensitive_features: Any,
    settings: AuditSettings,
    *,
    types: Mapping[str, Kind] | None,
    missing: Literal["error", "skip"],
    sample_weight: Any = None,
) -> AuditData:
    """Check everything a user hands over; errors name the argument."""
    check_aligned(
        scores=scores, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight
    )
    column = _read_scores(scores)
    n = len(column)
    values, kind, words = read_outcome(y, n, settings)
    table = _read_table(sensitive_features, n, types, missing)
    check_names(table, settings)
    _refuse_repeats(column, values, table)
    return AuditData(column, values, kind, words, table, _read_weights(sample_weight, n))


def check_names(table: SensitiveTable, settings: AuditSettings) -> None:
    """Refuse references and limits of columns that the table does not have."""
    for name in settings.references:  # `Scored.against` looks at the categories
        if name not in table.names:
            raise InputError(
                "references must name columns of sensitive_features "
                f"({', '.join(map(repr, table.names))}), got {name!r}"
                f"{did_you_mean(name, table.names)}"
            )
    crossed = crossed_name(table) if settings.intersections else ""
    limits_of("max_gap", settings.max_gap, [*table.names, *([crossed] if crossed else [])])


def crossed_name(table: SensitiveTable) -> str:
    """Name of the discrete columns crossed; "" where fewer than two are discrete."""
    names = [column.name for column in table.columns if column.kind == "discrete"]
    return " x ".join(names) if len(names) > 1 else ""


def _read_weights(sample_weight: Any, n: int) -> Floats | None:
    """Weights (n,) with mean one; None where all rows count the same."""
    if sample_weight is None:
        return None
    weights = as_numbers("sample_weight", sample_weight).cpu().numpy()
    if weights.shape != (n,):
        raise InputError(
            f"sample_weight must have one number for each of the {n} scores, got shape "
            f"{weights.shape}"
        )
    if (weights <= 0).any():
        row = int(np.flatnonzero(weights <= 0)[0])
        raise InputError(
            f"sample_weight (--weight) must be above 0, got {weights[row]:g} at position {row}; "
            "leave rows that do not count out"
        )
    weights = weights / weights.mean()
    return None if np.allclose(weights, 1, rtol=1e-12, atol=0) else weights


def _read_scores(scores: Any) -> Floats:
    shape = np.shape(scores)
    if len(shape) == 2 and shape[1] == 1:
        scores = np.asarray(scores)[:, 0]
    elif len(shape) != 1 or shape[0] < 2:
        raise InputError(
            f"scores must be one column of at least two scores, got shape {shape}; of several "
            "classes pass the scores of one, such as predict_proba(X)[:, 1]"
        )
    return as_numbers("scores", scores).cpu().numpy()


def read_outcome(
    y: Any, n: int, settings: AuditSettings
) -> tuple[NDArray[Any] | None, OutcomeKind | None, str]:
    """Outcome, its kind, and what it is in words; y may be distinct values for n rows."""
    if y is None:
        if settings.positive is not None or settings.outcome is not None:
            option = "positive" if settings.positive is not None else "outcome"
            raise InputError(f"{option} says what y is and must not be given when y is None")
        return None, None, "none given"
    values = outcome_array(y)
    if len(values) != n:
        raise InputError(f"y must have one value for each of the {n} scores, got {len(values)}")
    if settings.positive is not None:
        return _one_against_the_rest(values, settings.positive)
    kind = outcome_kind(values, settings.outcome)
    levels = np.unique(values)
    if kind == "binary":
        if values.dtype.kind not in "biuf":
            raise InputError(
                "positive (--positive) must be given for a y of text, whose order says nothing, "
                "got a y of "
                f"{str(levels[0])!r} and {str(levels[1])!r}; it names the outcome that a high "
                "score stands for"
            )
        words = f"binary, positive is {levels[1]} (the other is {levels[0]})"
        return np.asarray(values == levels[1], dtype=np.int64), kind, words
    if kind == "multiclass":
        listed = ", ".join(map(str, levels[:5])) + (", ..." if len(levels) > 5 else "")
        return values, kind, f"{len(levels)} classes ({listed})"
    return values.astype(np.float64), kind, f"continuous, {levels[0]:g} to {levels[-1]:g}"


def _one_against_the_rest(
    values: NDArray[Any], positive: Hashable
) -> tuple[NDArray[Any], OutcomeKind, str]:
    levels = np.unique(values).tolist()
    if positive not in levels:
        listed = ", ".join(map(repr, levels[:10])) + (", ..." if len(levels) > 10 else "")
        raise InputError(f"positive must be a value of y ({listed}), got {positive!r}")
    if len(levels) == 1:
        outcome_kind(values)  # says what is wrong with a single class
    rest = f"the other is {next(v for v in levels if v != positive)}"
    if len(levels) > 2:
        rest = f"against the rest of {len(levels)} classes"
    binary = np.array([value == positive for value in values.tolist()], dtype=np.int64)
    return binary, "binary", f"binary, positive is {positive} ({rest})"


def _read_table(
    sensitive_features: Any,
    n: int,
    types: Mapping[str, Kind] | None,
    missing: Literal["error", "skip"],
) -> SensitiveTable:
    check_choice("missing_sensitive", missing, ("error", "skip"))
    if isinstance(sensitive_features, SensitiveTable):
        if types is not None:
            raise InputError(
                "sensitive_types must not be given with a SensitiveTable, whose columns have their "
                "kind"
            )
        table = sensitive_features
    else:
        table = SensitiveTable.from_data(sensitive_features, types=types, missing="skip").warned()
    if table.n_rows != n:
        raise InputError(
            f"sensitive_features must have one row for each of the {n} scores, got {table.n_rows}; "
            "pass the attributes of the same people in the same order"
        )
    for column in table.columns:
        rows = np.flatnonzero(column.missing)
        if missing == "error" and rows.size:
            raise InputError(
                f"sensitive_features column {column.name!r} must not have missing values, got "
                f"{rows.size} (first in row {rows[0]}); fill them in, or set "
                f"missing_sensitive='skip' (--missing-sensitive skip) to assess {column.name!r} on "
                "the other rows"
            )
    return table


def _refuse_repeats(scores: Floats, y: NDArray[Any] | None, table: SensitiveTable) -> None:
    """Refuse a column that is the scores or the outcome: a frame was passed whole by mistake."""
    for column in table.columns:
        repeated = None
        for name, values in (("scores", scores), ("y", y)):
            if column.values is not None and values is not None and values.dtype.kind == "f":
                repeated = name if np.array_equal(values, column.values) else repeated
        if y is not None and column.codes is not None and not column.missing.any():
            # Numbered by first appearance: whatever its levels are called, and in which order.
            same = np.array_equal(pd.factorize(y)[0], pd.factorize(column.codes)[0])
            repeated = "y" if same else repeated
        if repeated is not None:
            raise InputError(
                f"sensitive_features column {column.name!r} must not repeat {repeated}; leave it "
                "out"
            )
