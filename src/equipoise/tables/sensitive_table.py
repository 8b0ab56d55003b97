"""Sensitive attributes: the kind of each column is decided here; columns are encoded as numbers."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from equipoise.errors import InputError, check_choice, check_count, did_you_mean
from equipoise.scales import center_and_spread, standardized
from equipoise.tables.columns import (
    Column,
    check_aligned,
    differ_by_design,
    present_levels,
    read_columns,
    whole,
)
from equipoise.tables.encoders import Encoder
from equipoise.tables.printing import as_text

Kind = Literal["discrete", "continuous"]
#: Name, kind, categories (discrete), mean and standard deviation (continuous) of a column.
LearnedInput = tuple[str, Kind, tuple[Hashable, ...], float, float]
_LEVELS_SHOWN = 5

MAX_DISCRETE_NUMBERS = 10
#: Columns with fewer known rows get no notes.
_FEWEST_ROWS = 50
#: Whole numbers with at most this many distinct values may be codes.
_MOST_CODES = 20
#: Share of the rows above which a single value is pointed out.
_POINT_MASS = 0.25
#: Share of distinct values above which a column looks like an identifier.
_NEARLY_DISTINCT = 0.95
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
_LARGEST_EXACT = 2.0**53  # above it a float64 cannot tell neighboring integers apart
_FAMILY_RULES = {
    "boolean": "booleans are discrete",
    "text": "text is discrete",
    "categorical": "categoricals are discrete",
}


@dataclass(frozen=True, eq=False)
class SensitiveColumn:
    """One sensitive attribute and its kind."""

    name: str
    kind: Kind
    rule: str  # what decided the kind, in words
    codes: NDArray[np.int64] | None  # (n,) discrete: index into categories, -1 where missing
    categories: tuple[Hashable, ...]  # discrete: sorted distinct values, whole numbers as int
    values: NDArray[np.float64] | None  # (n,) continuous: the numbers, NaN where missing
    # (n,) continuous: `standardized_ranks` among the rows that the column was made from.
    scores: NDArray[np.float64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.values is not None and self.scores is None:
            object.__setattr__(self, "scores", standardized_ranks(self.values))

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which values are missing, (n,)."""
        if self.values is not None:
            return np.isnan(self.values)
        assert self.codes is not None
        return self.codes < 0

    def take(self, rows: ArrayLike) -> SensitiveColumn:
        """These rows only (positions or a boolean mask), with the same categories and scaling."""
        index = np.asarray(rows)
        parts = {"codes": self.codes, "values": self.values, "scores": self.scores}
        taken = {name: part[index] for name, part in parts.items() if part is not None}
        return replace(self, **taken)

    def further(self, column: Column) -> SensitiveColumn:
        """The same attribute of other rows, with the categories and the scaling of these.

        A number gets the rank that it would have among these rows.
        """
        if self.codes is None:
            values = column.as_numbers()
            known, scores = ~np.isnan(values), np.zeros(len(values))
            below, upto = (np.searchsorted(self._ordered, values[known], side) for side in _SIDES)
            ranks = (below + upto + 1) / 2
            scores[known] = (ranks - (len(self._ordered) + 1) / 2) / self._rank_spread
            return replace(self, values=values, scores=scores)
        typed = as_kind(column, self.kind, self.rule)
        assert typed.codes is not None
        places = {category: code for code, category in enumerate(self.categories)}
        place = np.array([places.get(each, -2) for each in typed.categories] + [-1])
        codes = place[typed.codes]
        if (codes == -2).any():
            raise InputError(
                f"sensitive_features column {self.name!r} must have the categories seen before "
                f"({', '.join(map(str, self.categories[:_LEVELS_SHOWN]))}), got "
                f"{typed.categories[typed.codes[int((codes == -2).argmax())]]!r}; leave out such "
                "rows"
            )
        return replace(self, codes=codes)

    @cached_property
    def _ordered(self) -> NDArray[np.float64]:
        """The known numbers in ascending order."""
        assert self.values is not None
        return np.sort(self.values[~self.missing])

    @cached_property
    def _rank_spread(self) -> float:
        """Standard deviation of their ranks."""
        ranks = rankdata(self._ordered)
        return float(np.sqrt(np.mean((ranks - (len(ranks) + 1) / 2) ** 2))) or 1.0

    def alone(self) -> SensitiveColumn:
        """The column as if made from its own rows: with their categories and ranks only."""
        if self.codes is None:
            return replace(self, scores=None)
        codes, categories = present_levels(self.codes, self.categories)
        return replace(self, codes=codes, categories=categories)


@dataclass(frozen=True, eq=False)
class SensitiveTable:
    """Sensitive attributes of n rows, each column discrete or continuous.

    `from_data` makes it and decides the kind of each column, once and for all.
    """

    columns: tuple[SensitiveColumn, ...]
    notes: tuple[str, ...] = ()  # about columns that may be of another kind, or identifiers

    @classmethod
    def from_data(
        cls,
        data: Any,
        *,
        types: Mapping[str, Kind] | None = None,
        missing: Literal["error", "skip"] = "error",
        n_rows: int | None = None,
        counted: NDArray[np.bool_] | None = None,
    ) -> SensitiveTable:
        """Read sensitive attributes and decide the kind of each column.

        The first rule that applies decides. A kind in `types` wins. Booleans, text and categoricals
        are discrete. Numbers with at most 10 distinct values are discrete, with more they are
        continuous. Dates, times, durations, complex numbers and nested values are refused.

        Parameters
        ----------
        data : DataFrame or Series (pandas, polars, pyarrow), array, list, dict of columns
            Columns without a name are called "sensitive_0", "sensitive_1", ...
        types : mapping of column name to "discrete" or "continuous", optional
            Overrides the rules. Estimators call it `sensitive_types`.
        missing : {"error", "skip"}
            "error" refuses missing values; "skip" keeps them and leaves their rows out of the
            penalty. Estimators call it `missing_sensitive`. None, NaN, NaT, pandas.NA and null are
            missing; "" and "?" are not.
        n_rows : int, optional
            How many rows the other data have; a different number is refused.
        counted : ndarray of bool, shape (n,), optional
            Rows that count. The values of other rows become missing; they affect neither kinds nor
            categories nor ranks.

        Examples
        --------
        >>> people = {"age": range(20, 60), "sex": ["F", "M"] * 20}
        >>> print(SensitiveTable.from_data(people))
        column  kind        levels or range         missing  rule
        age     continuous  20 to 59                0        numbers with 40 distinct values ...
        sex     discrete    F, M                    0        text is discrete
        """
        check_choice("missing_sensitive", missing, ("error", "skip"))
        check_aligned(sensitive_features=data)
        raw = read_columns(data, argument="sensitive_features", prefix="sensitive_")
        if n_rows is not None:
            found = len(raw[0].missing)
            check_count("sensitive_features", found, n_rows, "rows of data", each="row")
        if counted is not None:
            raw = tuple(column.without(~counted) for column in raw)
        overrides = {} if types is None else types
        check_types(overrides, [column.name for column in raw])
        for column in raw if missing == "error" else ():
            gaps = column.missing if counted is None else column.missing & counted
            if gaps.any():
                raise InputError(
                    f"sensitive_features column {column.name!r} must not have missing values, got "
                    f"{gaps.sum()} (first in row {gaps.argmax()}); fill them in, or set "
                    "missing_sensitive='skip' (--missing-sensitive skip) to use these rows for the "
                    "task loss but not for the penalty"
                )
        columns = tuple(type_column(column, overrides.get(column.name)) for column in raw)
        notes = (
            f"sensitive column {column.name!r} {note}"
            for column, typed in zip(raw, columns, strict=True)
            if column.name not in overrides
            for note in _notes(column, typed.kind)
        )
        table = cls(columns, tuple(notes))
        if not table.known.any():
            raise InputError(
                "sensitive_features must have at least one row in which every column is known, "
                "got none; drop the columns with the most missing values"
            )
        return table

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self.columns[0].missing)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether no value of a row is missing, (n,)."""
        missing = np.stack([column.missing for column in self.columns])
        return np.asarray(~missing.any(axis=0))

    @property
    def is_discrete(self) -> bool:
        """Whether every column is discrete."""
        return all(column.kind == "discrete" for column in self.columns)

    def warned(self) -> Self:
        """Return the table, after a warning for each of its notes."""
        for note in self.notes:
            warnings.warn(note, stacklevel=3)
        return self

    def __getitem__(self, name: str) -> SensitiveColumn:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"no sensitive column {name!r}; columns: {', '.join(self.names)}")

    def take(self, rows: ArrayLike) -> SensitiveTable:
        """These rows only (positions or a boolean mask), with the same categories and scaling.

        >>> table = SensitiveTable.from_data([1, 2, 1, 2])
        >>> table.take([0, 2]).encode().tolist()
        [[0.0], [0.0]]
        """
        return SensitiveTable(tuple(column.take(rows) for column in self.columns))

    def further(self, data: Any) -> SensitiveTable:
        """Other rows of the same columns, with the kinds, categories and scaling of these.

        >>> table = SensitiveTable.from_data({"age": range(40), "sex": ["F", "M"] * 20})
        >>> more = table.further({"sex": ["M"], "age": [19.5]})
        >>> more.names, more.encode().tolist()
        (('age', 'sex'), [[0.0, 1.0]])
        """
        raw = read_columns(data, argument="sensitive_features", prefix="sensitive_")
        given = {column.name: column for column in raw}
        return SensitiveTable(tuple(each.further(given[each.name]) for each in self.columns))

    def encode(self) -> NDArray[np.float32]:
        """The table as numbers for the critic, (n, q), in the order of the columns.

        A continuous column becomes its ranks with ties averaged, scaled to mean 0 and variance 1
        over the rows from which it was made. A column with two categories becomes one 0/1 column; a
        column with more becomes one 0/1 column per category. Missing values become zeros; `known`
        says which rows have none.
        """
        blocks = [
            _one_hot(column.codes, len(column.categories))
            if column.codes is not None
            else np.asarray(column.scores)[:, None]
            for column in self.columns
        ]
        return np.concatenate(blocks, axis=1).astype(np.float32)

    def encoded_names(self) -> tuple[str, ...]:
        """Names of the q columns of `encode`.

        >>> table = SensitiveTable.from_data({"sex": [0, 1, 1] * 2, "race": ["a", "b", "c"] * 2})
        >>> table.encoded_names()
        ('sex=1', 'race=a', 'race=b', 'race=c')
        """
        names: list[str] = []
        for column in self.columns:
            shown = column.categories[1:] if len(column.categories) == 2 else column.categories
            names += [f"{column.name}={category}" for category in shown] or [column.name]
        return tuple(names)

    def cells(self) -> NDArray[np.int64]:
        """Number of each row's combination of categories, (n,); -1 where any value is missing.

        All combinations are numbered, also those that do not occur. The last column varies fastest.

        >>> table = SensitiveTable.from_data({"a": [0, 0, 1, 1, 0], "b": ["x", "y", "x", "y", "x"]})
        >>> table.cells()
        array([0, 1, 2, 3, 0])
        """
        continuous = [column.name for column in self.columns if column.kind == "continuous"]
        if continuous:
            raise InputError(
                "sensitive_features must be discrete in every column to form cells, got continuous "
                f"{', '.join(map(repr, continuous))}; leave these out or set sensitive_types"
            )
        sizes = [len(column.categories) for column in self.columns]
        if prod(sizes) > np.iinfo(np.int64).max:
            raise InputError(
                f"sensitive_features must form fewer than 2**63 cells, got {prod(sizes)} from "
                f"columns with {sizes} categories; leave some out"
            )
        known = self.known
        cells = np.full(self.n_rows, -1, dtype=np.int64)
        codes = [column.codes[known] for column in self.columns if column.codes is not None]
        cells[known] = np.ravel_multi_index(tuple(codes), tuple(sizes))
        return cells

    def describe(self) -> str:
        """A text table: column, kind, levels or range, missing values, rule."""
        return describe(self.columns, [np.ones(self.n_rows)] * len(self.columns))

    __str__ = describe


def describe(columns: Sequence[SensitiveColumn], people: Sequence[NDArray[np.float64]]) -> str:
    """A text table of columns; the rows of each stand for as many as its `people` (n,) says."""
    pairs = zip(columns, people, strict=True)
    rows = {
        "column": [column.name for column in columns],
        "kind": [column.kind for column in columns],
        "levels or range": [_extent(column) for column in columns],
        "missing": [str(int(number[column.missing].sum())) for column, number in pairs],
        "rule": [column.rule for column in columns],
    }
    return as_text(pd.DataFrame(rows))


def _one_hot(codes: NDArray[np.int64], categories: int) -> NDArray[np.float64]:
    """Codes (n,) as 0/1 columns: one for the second of two categories, else one per category."""
    shown = np.arange(1, 2) if categories == 2 else np.arange(categories)
    return np.asarray(codes[:, None] == shown, dtype=np.float64)


def _extent(column: SensitiveColumn) -> str:
    """Range of a continuous column, categories of a discrete one."""
    if column.values is not None:
        known = column.values[~column.missing]
        return f"{known.min():g} to {known.max():g}" if known.size else "no values"
    shown = ", ".join(str(category) for category in column.categories[:_LEVELS_SHOWN])
    if len(column.categories) > _LEVELS_SHOWN:
        shown += f", ... ({len(column.categories)} levels)"
    return shown


def standardized_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks with ties averaged, mean 0 and variance 1 over the known values; 0 where missing.

    A strictly increasing map of an attribute does not change whether a score depends on it, so
    ranks lose nothing. And an outlier cannot push all other values close together.

    >>> standardized_ranks(np.array([3.0, 1000.0, 1.0, np.nan])).round(3)
    array([ 0.   ,  1.225, -1.225,  0.   ])
    """
    known = ~np.isnan(values)
    scores = np.zeros(len(values))
    ranks = rankdata(values[known])
    centered = ranks - (len(ranks) + 1) / 2
    spread = np.sqrt(np.mean(centered**2)) if len(ranks) else 0.0
    if spread > 0:
        scores[known] = centered / spread
    return scores


def check_types(types: Mapping[str, Kind], names: Sequence[str]) -> None:
    """Refuse `sensitive_types` with columns or kinds that do not exist."""
    if not isinstance(types, Mapping):
        raise InputError(
            "sensitive_types must map column names to 'discrete' or 'continuous', "
            f"got {types!r}; pass a dict"
        )
    for name, kind in types.items():
        if name not in names:
            raise InputError(
                f"sensitive_types (--types) names a column {name!r} that sensitive_features "
                f"(--sensitive) does not have, got {', '.join(map(repr, names))}"
                f"{did_you_mean(name, names)}"
            )
        check_choice(f"sensitive_types[{name!r}]", kind, get_args(Kind))


def type_column(column: Column, override: Kind | None) -> SensitiveColumn:
    """Decide the kind of a column; refuse constants and identifiers."""
    where = f"sensitive_features column {column.name!r}"
    known = int((~column.missing).sum())
    if known == 0:
        raise InputError(f"{where} must have known values, got only missing ones; drop the column")
    levels: tuple[Any, ...] = column.levels
    few = True
    rule = _FAMILY_RULES.get(column.family, "")
    if column.numbers is not None:
        levels = tuple(np.unique(column.numbers[~column.missing]).tolist())
        few = len(levels) <= MAX_DISCRETE_NUMBERS
        size = f"{'at most' if few else 'more than'} {MAX_DISCRETE_NUMBERS}"
        rule = f"numbers with {len(levels)} distinct values ({size})"
    if len(levels) == 1:
        value = levels[0] if column.numbers is None else whole(levels[0])
        raise InputError(
            f"{where} must have at least two distinct values, got {value!r} in all {known} known "
            "rows; no score can depend on a constant, so drop the column"
        )
    kind: Kind = override or ("discrete" if few else "continuous")
    typed = as_kind(column, kind, "set in sensitive_types" if override else rule)
    if kind == "discrete" and len(typed.categories) == known:
        remedy = "drop the column if it is an identifier"
        if column.numbers is not None:
            remedy += (
                f", or set sensitive_types={{{column.name!r}: 'continuous'}} (--types "
                f"{column.name}=continuous) if it is measured"
            )
        raise InputError(
            f"{where} is discrete and must have fewer categories than rows, "
            f"got {len(typed.categories)} categories in {known} known rows; {remedy}"
        )
    return typed


def _notes(column: Column, kind: Kind) -> Iterator[str]:
    """What a user should check about a column whose values decided its kind."""
    known = int((~column.missing).sum())
    if known < _FEWEST_ROWS:
        return

    def option(kind: Kind) -> str:
        return f"set sensitive_types={{{column.name!r}: {kind!r}}} (--types {column.name}={kind})"

    if column.numbers is None:
        levels = len(column.levels)
        if levels >= _NEARLY_DISTINCT * known:
            yield f"looks like an identifier: {levels} of {known} values differ; drop it if so"
        elif levels > MAX_DISCRETE_NUMBERS and all(map(_is_number, column.levels)):
            yield (
                f"is discrete although its {levels} categories are numbers; if it measures "
                "something, convert it to a column of numbers"
            )
        return
    distinct, counts = np.unique(column.numbers[~column.missing], return_counts=True)
    fractions = distinct[distinct != np.floor(distinct)]
    if kind == "discrete":
        if fractions.size:
            yield (
                f"is discrete: it has {len(distinct)} distinct values, not all whole, such as "
                f"{fractions[0]:g}; if it measures something, {option('continuous')}"
            )
        return
    all_differ = len(distinct) == known and differ_by_design(known, distinct[0], distinct[-1])
    if not fractions.size and all_differ:
        yield (
            f"looks like an identifier: {known} whole numbers, all different; drop it if so; if it "
            f"measures something, {option('continuous')}"
        )
    elif not fractions.size and len(distinct) <= _MOST_CODES:
        yield (
            f"is continuous: it has {len(distinct)} distinct values, all whole; if they are codes "
            f"of categories, {option('discrete')}; if not, {option('continuous')}"
        )
    if counts.max() >= _POINT_MASS * known:
        yield (
            f"is continuous, yet {counts.max() / known:.0%} of its rows have the value "
            f"{distinct[counts.argmax()]:g}; if these are a group of their own, cut the column "
            f"into classes or {option('discrete')}; if not, {option('continuous')}"
        )


def _is_number(level: Hashable) -> bool:
    try:
        float(level)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def as_kind(column: Column, kind: Kind, rule: str) -> SensitiveColumn:
    """Return a column of this kind, which ``rule`` decided, whatever its number of values."""
    where = f"sensitive_features column {column.name!r}"
    if kind == "discrete":
        return SensitiveColumn(column.name, kind, rule, *_levels(column, where), None)
    # Categories may be numbers, too.
    if column.numbers is None and not {type(level) for level in column.levels} <= {int, float}:
        raise InputError(
            f"{where} must hold numbers to be continuous, got {column.levels[0]!r}; "
            "convert the column to numbers, or leave it out of sensitive_types if it is there"
        )
    return SensitiveColumn(column.name, kind, rule, None, (), column.as_numbers().copy())


def _levels(column: Column, where: str) -> tuple[NDArray[np.int64], tuple[Hashable, ...]]:
    """Codes (n,) and sorted categories of a discrete column."""
    if column.numbers is None:
        assert column.codes is not None
        return column.codes.copy(), column.levels
    known = ~column.missing
    distinct, inverse = np.unique(column.numbers[known], return_inverse=True)
    largest = max(distinct, key=abs, default=0.0)
    if abs(largest) > _LARGEST_EXACT:
        raise InputError(
            f"{where} is discrete and must hold numbers up to 2**53, which floats represent "
            f"exactly, got {largest:.0f}; pass such long codes as text"
        )
    codes = np.full(len(column.numbers), -1, dtype=np.int64)
    codes[known] = inverse
    return codes, tuple(whole(float(number)) for number in distinct)


@dataclass(frozen=True, eq=False)
class AttributeInputs:
    """Sensitive features as inputs of a predictor that sees them.

    With an ``encoder`` they are encoded as features are; a discrete column is categories. Without
    one, as method "scutari" wants it, a continuous column is scaled to mean 0 and variance 1, two
    categories become one 0/1 column, and more become one column each.
    """

    columns: tuple[LearnedInput, ...]
    encoder: Encoder[Any] | None = None
    #: Columns with missing values in the training rows; other columns must be known to predict.
    gaps: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: SensitiveTable, encoder: Encoder[Any] | None = None) -> AttributeInputs:
        """Learn from the rows of a table; an ``encoder`` is fitted to them.

        >>> table = SensitiveTable.from_data({"sex": ["F", "M", "M", "M"], "race": list("abca")})
        >>> AttributeInputs.of(table).encode(table)[:3]
        array([[0., 1., 0., 0.],
               [1., 0., 1., 0.],
               [1., 0., 0., 1.]], dtype=float32)
        """
        learned: list[LearnedInput] = []
        for column in table.columns:
            center, spread = 0.0, 1.0
            if column.values is not None:
                center, spread = center_and_spread(column.values[~column.missing])
            learned.append((column.name, column.kind, column.categories, center, spread or 1.0))
        gaps = [column.name for column in table.columns if column.missing.any()]
        inputs = cls(tuple(learned), encoder, tuple(gaps))
        if encoder is not None:
            encoder.argument = "sensitive_features"
            encoder.fit(inputs._frame(table, None))
        return inputs

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns; () if the predictor does not see sensitive features."""
        return tuple(column[0] for column in self.columns)

    @property
    def width(self) -> int:
        """Number of columns of the encoding."""
        if self.encoder is not None:
            return len(self.encoder.names_)
        counts = [len(categories) for _, _, categories, _, _ in self.columns]
        return sum(1 if count <= 2 else count for count in counts)

    def read(self, data: Any, n_rows: int) -> NDArray[Any]:
        """Encode the sensitive features of new rows, (n, width)."""
        kinds = {column[0]: column[1] for column in self.columns}
        given = read_columns(data, argument="sensitive_features", prefix="sensitive_")
        names = [column.name for column in given]
        if sorted(names) != sorted(kinds):
            raise InputError(
                f"sensitive_features must have the columns seen at fit, {', '.join(kinds)}, "
                f"got {', '.join(names)}; pass these columns"
            )
        check_count("sensitive_features", len(given[0].missing), n_rows, "rows of X", each="row")
        typed = [as_kind(column, kinds[column.name], "as at fit") for column in given]
        return self.encode(SensitiveTable(tuple(typed)))

    def encode(self, table: SensitiveTable, rows: ArrayLike | None = None) -> NDArray[Any]:
        """Encode the rows of a table with the same columns, (n, width).

        A missing value where no training row had one, and a category that none had, are refused.
        Errors give the number of a row, its place in the table or that in ``rows`` (n,).
        """
        if self.encoder is not None:
            return self.encoder.transform(self._frame(table, rows))
        blocks = [
            standardized(values, center, spread)[:, None]
            if (values := table[name].values) is not None
            else _one_hot(self._codes(table[name], categories, rows), len(categories))
            for name, _, categories, center, spread in self._checked(table, rows)
        ]
        return np.concatenate(blocks, axis=1).astype(np.float32)

    def _frame(self, table: SensitiveTable, rows: ArrayLike | None) -> pd.DataFrame:
        """The columns as the encoder takes them: numbers, and categories as text."""
        columns: dict[str, Any] = {}
        for name, _, categories, _, _ in self._checked(table, rows):
            columns[name] = table[name].values
            if columns[name] is None:
                text = np.array([*map(str, categories), None], dtype=object)
                columns[name] = text[self._codes(table[name], categories, rows)]
        return pd.DataFrame(columns)

    def _checked(self, table: SensitiveTable, rows: ArrayLike | None) -> tuple[LearnedInput, ...]:
        """What was learned about each column, after a look for missing values."""
        for name in self.names:
            missing = table[name].missing
            if name not in self.gaps and missing.any():
                raise InputError(
                    f"sensitive_features column {name!r} must be known to predict, got a missing "
                    f"value in row {_row(missing, rows)}, where no row had one at fit; leave out "
                    "such rows"
                )
        return self.columns

    def _codes(
        self, column: SensitiveColumn, categories: Sequence[Hashable], rows: ArrayLike | None
    ) -> NDArray[np.int64]:
        """Position of each value among the categories seen at fit (n,), -1 where missing."""
        assert column.codes is not None
        codes = {category: code for code, category in enumerate(categories)}
        place = np.array([codes.get(category, -1) for category in column.categories] + [-1])
        found = place[column.codes]
        unseen = (found < 0) & ~column.missing
        if unseen.any():
            raise InputError(
                f"sensitive_features column {column.name!r} must have the categories seen at fit, "
                f"got {column.categories[column.codes[unseen.argmax()]]!r} in row "
                f"{_row(unseen, rows)}; leave out such rows, or fit a model with this category"
            )
        return found


def _row(those: NDArray[np.bool_], rows: ArrayLike | None) -> int:
    """Number of the first of those rows (n,)."""
    first = int(those.argmax())
    return first if rows is None else int(np.asarray(rows)[first])
