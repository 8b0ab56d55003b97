"""One pass over files before training: which rows there are, and a sample to learn from.

Every draw is by a hash, of the number of a row or of its key. So it depends neither on the number
of workers nor on the files that the rows lie in, and draws of files are those of the whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.distributed.sources import FilePieces, Piece, hashed
from equipoise.errors import InputError
from equipoise.tables import MAX_DISCRETE_NUMBERS, Kind
from equipoise.tables.columns import REFUSED, kind_of
from equipoise.tables.encoders import MAX_CATEGORIES

#: Rows to learn encoders from: all training rows up to this number, else about so many.
SAMPLE = 200_000
#: Most validation rows and most test rows that are drawn, about.
HELD_OUT = 50_000
#: Most categories of an outcome or a sensitive column.
MOST_LEVELS = 10_000

PARTS = ("train", "validation", "test")
Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class FitColumns:
    """Columns of a fit."""

    target: str
    sensitive: tuple[str, ...]
    features: tuple[str, ...]
    weight: str | None = None
    key: str | None = None  # rows of equal value are in the same part
    missing: Literal["error", "skip"] = "error"  # what to do with missing sensitive values
    types: Mapping[str, Kind] = field(default_factory=dict)  # of sensitive columns, if given
    has_classes: bool | None = True  # whether the target holds classes; None: its values say it

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, each once."""
        optional = (name for name in (self.weight, self.key) if name is not None)
        return tuple(dict.fromkeys((self.target, *self.sensitive, *self.features, *optional)))


@dataclass(frozen=True)
class Draws:
    """Which part each row belongs to, and which training rows are in the sample."""

    seed: int
    validation: float  # shares of the rows
    test: float
    sample: float  # share of the training rows

    def parts(self, columns: FitColumns, frame: pd.DataFrame, numbers: Integers) -> Integers:
        """The position in `PARTS` of each row (n,); -1 for a row of weight 0."""
        if columns.key is None:
            keys = numbers.astype(np.uint64)
        else:
            values = frame[columns.key]
            if kind_of(values) in ("number", "boolean"):  # of any width, alike in all files
                values = pd.Series(values.to_numpy(dtype=np.float64))
            else:
                values = values.astype(object)
            keys = pd.util.hash_array(values.to_numpy(), categorize=True)
        place = self._places(keys, 0)
        part = (place < self.test + self.validation).astype(np.int64)
        part[place < self.test] = 2
        if columns.weight is not None:
            part[~(frame[columns.weight].to_numpy(dtype=np.float64) > 0)] = -1
        return part

    def order(self, numbers: Integers) -> NDArray[np.float64]:
        """A number in [0, 1) for each row (n,); the smallest are in the sample."""
        return self._places(numbers.astype(np.uint64), 1)

    def _places(self, keys: NDArray[np.uint64], purpose: int) -> NDArray[np.float64]:
        own = hashed(np.array([2 * (self.seed % 2**62) + purpose], dtype=np.uint64))
        bits = hashed(keys ^ own) >> np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53


#: For each level of a column, None being a missing value: place and number of its first row.
Levels = dict[Any, tuple[float, int]]


@dataclass(frozen=True)
class Survey:
    """What is known of some files."""

    #: Rows of the sample, validation and test rows, in order; the index is their number.
    drawn: tuple[pd.DataFrame, ...]
    levels: Mapping[str, Levels | None]  # None: too many
    firsts: pd.DataFrame  # the first row of every level
    training: Integers  # training rows of each piece
    weight: float  # sum of the weights of training rows

    def merged(self, other: Survey) -> Survey:
        """What both know together."""
        levels = {name: _merged(each, other.levels[name]) for name, each in self.levels.items()}
        firsts = _stacked(self.firsts, other.firsts)
        return Survey(
            (*self.drawn, *other.drawn),
            levels,
            firsts[firsts.index.isin(_numbers(levels.values()))],
            np.concatenate([self.training, other.training]),
            self.weight + other.weight,
        )

    @cached_property
    def rows(self) -> pd.DataFrame:
        """All drawn rows in the order of the table, and a row for each level without one."""
        drawn = pd.concat(self.drawn)
        wanted = set()
        for name, levels in self.levels.items():
            if levels is None:
                continue
            values = drawn.loc[drawn[PART] == 0, name]
            known = set(values.dropna().unique().tolist())
            gap = {None} if values.isna().any() else set()
            wanted |= {number for level, (_, number) in levels.items() if level not in known | gap}
        firsts = self.firsts[self.firsts.index.isin(wanted)]
        found = _stacked(drawn, firsts).sort_index(kind="stable")
        return found[~found.index.duplicated()]

    @property
    def total(self) -> int:
        """Number of training rows."""
        return int(self.training.sum())


def _stacked(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """The rows of both; types of columns are those of frames that have rows."""
    return pd.concat([one, other]) if len(one) and len(other) else other if len(other) else one


#: Name of the column with the part of a drawn row; not text, as all names of users are.
PART: Any = 0


def _merged(one: Levels | None, other: Levels | None) -> Levels | None:
    if one is None or other is None:
        return None
    return {
        level: min(one.get(level, _NOWHERE), other.get(level, _NOWHERE))
        for level in dict.fromkeys([*one, *other])
    }


_NOWHERE = (float("inf"), -1)


def _numbers(levels: Iterable[Levels | None]) -> set[int]:
    return {number for each in levels if each is not None for _, number in each.values()}


def survey(
    in_order: Callable[[Callable[[FilePieces], Survey], Sequence[FilePieces]], Iterable[Survey]],
    files: Sequence[FilePieces],
    columns: FitColumns,
    draws: Draws,
) -> Survey:
    """Read all files once; `in_order` applies a function to each file, as ``map`` does."""
    found = in_order(partial(survey_file, columns, draws), files)
    whole = reduce(lambda one, other: _bounded(one.merged(other), columns), found)
    if not whole.drawn:
        raise InputError(
            f"weight {columns.weight!r} must be positive for some row, got zeros only; name "
            "another column"
        )
    return whole


def survey_file(columns: FitColumns, draws: Draws, file: FilePieces) -> Survey:
    """Read one file; refuse what no row may hold."""
    found: Survey | None = None
    training = np.zeros(len(file.pieces), dtype=np.int64)
    for place, piece in enumerate(file.pieces):
        for before, frame in piece.frames(columns.names):
            check_values(columns, frame, piece, before)
            each = _seen(columns, draws, frame, piece.numbers(before, len(frame)))
            training[place] += each.training[0]
            found = each if found is None else _bounded(found.merged(each), columns)
    assert found is not None
    return Survey(found.drawn, found.levels, found.firsts, training, found.weight)


def _seen(columns: FitColumns, draws: Draws, frame: pd.DataFrame, numbers: Integers) -> Survey:
    """What one frame says."""
    frame = frame.set_axis(numbers, axis=0)
    part = draws.parts(columns, frame, numbers)
    order, trains = draws.order(numbers), part == 0
    frame[PART] = part
    drawn = frame[(part > 0) | (trains & (order < draws.sample))]
    levels: dict[str, Levels | None] = {}
    if draws.sample < 1:
        rows = np.flatnonzero(trains)
        rows = rows[np.argsort(order[rows])]
        levels = {
            name: _first_rows(columns, frame[name], rows, order, numbers)
            for name in columns.names
            if name not in (columns.weight, columns.key)
        }
    weights = 0.0
    if columns.weight is not None:
        weights = float(frame[columns.weight].to_numpy(dtype=np.float64)[trains].sum())
    firsts = frame[np.isin(numbers, list(_numbers(levels.values())))]
    kept = (drawn,) if len(drawn) else ()
    return Survey(kept, levels, firsts, np.array([trains.sum()]), weights)


def _first_rows(
    columns: FitColumns,
    values: pd.Series[Any],
    rows: Integers,
    order: NDArray[np.float64],
    numbers: Integers,
) -> Levels | None:
    """The first of the ``rows`` of every level; of numbers that are no classes, of missing ones."""
    name = str(values.name)
    if kind_of(values) == "number" and _most_levels(columns, name, number=True) == 0:
        missing = rows[values.isna().to_numpy()[rows]]
        return {None: (float(order[missing[0]]), int(numbers[missing[0]]))} if len(missing) else {}
    codes, levels = pd.factorize(values.iloc[rows])
    distinct, first = np.unique(codes, return_index=True)
    known = [*np.asarray(levels).tolist(), None]
    return _few(
        columns,
        values,
        {
            known[code]: (float(order[rows[place]]), int(numbers[rows[place]]))
            for code, place in zip(distinct, first, strict=True)
        },
    )


def _most_levels(columns: FitColumns, name: str, *, number: bool) -> int:
    """Most levels of a column that are looked for; 0 for numbers that are no classes."""
    if name == columns.target:
        if columns.has_classes is None:
            return MAX_CATEGORIES if number else MOST_LEVELS
        return MOST_LEVELS if columns.has_classes else 0
    if name in columns.sensitive:
        discrete = columns.types.get(name) == "discrete"
        return MOST_LEVELS if discrete or not number else MAX_DISCRETE_NUMBERS
    return 0 if number else MAX_CATEGORIES


def _few(columns: FitColumns, values: pd.Series[Any], levels: Levels) -> Levels | None:
    """The levels, or None if there are too many; refuse them where they must be few."""
    name = str(values.name)
    number = kind_of(values) == "number"
    most = _most_levels(columns, name, number=number)
    if (number and most == 0) or len(levels) - (None in levels) <= most:
        return levels
    if most == MOST_LEVELS:
        role = "target" if name == columns.target else "sensitive"
        raise InputError(
            f"{role} column {name!r} must have at most {MOST_LEVELS:,} categories, got more; "
            "merge categories, or name another column"
        )
    return None


def _bounded(found: Survey, columns: FitColumns) -> Survey:
    levels = {
        name: None if each is None else _few(columns, found.firsts[name], each)
        for name, each in found.levels.items()
    }
    return Survey(found.drawn, levels, found.firsts, found.training, found.weight)


def check_values(columns: FitColumns, frame: pd.DataFrame, piece: Piece, before: int) -> None:
    """Refuse values that no row may hold; an error names file and row."""

    def refuse(name: str, rule: str, wrong: Mask, found: object, remedy: str) -> None:
        row = before + int(wrong.argmax()) + 1
        raise InputError(
            f"data file {piece.file} column {name!r} {rule}, got {found} in row {row:,}; {remedy}"
        )

    for name in columns.names:
        values = frame[name]
        missing = values.isna().to_numpy()
        skipped = name in columns.sensitive and columns.missing == "skip"
        if missing.any() and name not in columns.features and not skipped:
            remedy = "fill it in, or leave the row out"
            if name in columns.sensitive:
                remedy += ", or set missing_sensitive='skip' (--missing-sensitive skip)"
            refuse(name, "must have a value in every row", missing, "none", remedy)
        kind = kind_of(values)
        if kind in REFUSED:
            raise InputError(
                f"data file {piece.file} column {name!r} must not hold {REFUSED[kind][0]}; "
                f"{REFUSED[kind][1]}"
            )
        if name == columns.weight and kind not in ("number", "empty"):
            refuse(name, "must hold numbers to be weights", ~missing, kind, "name another column")
        if kind != "number":
            continue
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        wrong = np.isinf(numbers)
        if wrong.any():
            refuse(name, "must hold finite numbers", wrong, numbers[wrong][0], "correct it")
        if name == columns.weight and (numbers < 0).any():
            wrong = numbers < 0
            remedy = "give rows that should not count weight 0"
            refuse(name, "must not be negative", wrong, numbers[wrong][0], remedy)
