"""Whatever users may hand over, drawn from one seed.

Values are drawn once, as plain arrays, and then put into one of many forms (lists, frames of
three libraries, tensors). So a law can put the same values into a call again with the rows in
another order, under other names, or repeated.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import torch

Values = np.ndarray

WORDS = (
    "a",
    "b",
    "F",
    "M",
    "yes",
    "no",
    "é",
    "日本",
    "🙂",
    "",
    " ",
    "nan",
    "None",
    "?",
    "1",
    "0",
    "1.5",
    "=1+1",
    "-x",
    'quo"te',
    "com,ma",
    "new\nline",
    "x" * 300,
    "NA",
    "True",
    "\u202eabc",
)


class Draw:
    """Everything random about one case.

    oddness: how likely each piece is to be one that should be refused. Nearly half of the cases are
    lawful throughout, so that answers and their laws are tested as much as refusals.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.oddness = float(self.random.choice([0.0, 0.08, 0.5], p=[0.5, 0.35, 0.15]))
        self.index_kind = self.pick(INDEXES) if self.chance(0.2) else "range"
        #: What was drawn, for people.
        self.notes: dict[str, Any] = {}

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def odd(self) -> bool:
        return self.chance(self.oddness)

    def calm(self) -> None:
        """Make most cases of an entry that asks for much lawful."""
        self.oddness = min(self.oddness, self.pick((0.01, 0.01, 0.1)))

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def whole(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def rows(self, low: int = 12, high: int = 40) -> int:
        return self.pick((0, 1, 2, 3, 5)) if self.odd() else self.whole(low, high)


# ---------------------------------------------------------------------------------------- values


def numbers(draw: Draw, n: int, *, distinct: bool = True) -> Values:
    """Finite numbers (n,) of any scale, with at least two values where ``distinct``."""
    random = draw.random
    kind = draw.pick(("normal", "normal", "uniform", "whole", "few", "ties", "outlier", "offset"))
    values: Values
    if kind == "normal":
        values = random.standard_normal(n)
    elif kind == "uniform":
        values = random.random(n)
    elif kind == "whole":
        values = random.integers(-50, 50, n).astype(np.float64)
    elif kind == "few":
        values = random.integers(0, draw.whole(2, 5), n).astype(np.float64)
    elif kind == "ties":
        values = random.standard_normal(n).round(1)
    elif kind == "outlier":
        values = random.standard_normal(n)
        values[: 1 + n // 20] *= 1e6
    else:
        values = 1e6 + random.standard_normal(n)
    if draw.chance(0.15):
        values = values * 10.0 ** draw.whole(-290, 290)
    elif draw.chance(0.05):
        values = np.where(values > 0, 1e300, -1e300) * random.random(n)
    if draw.chance(0.1):
        values = values.astype(np.float32).astype(np.float64)
        values[~np.isfinite(values)] = 0.0
    if distinct and n > 1 and (values == values[0]).all():
        values = np.arange(n) % 2.0
    return values


def text(draw: Draw, n: int, *, distinct: bool = True) -> Values:
    count = draw.whole(2, 4)
    levels = [str(word) for word in draw.random.choice(WORDS, count, replace=False)]
    values = np.array([levels[i] for i in draw.random.integers(0, count, n)], dtype=object)
    if distinct and n > 3:
        values[:2], values[2:4] = levels[0], levels[1]
        values = values[draw.random.permutation(n)]
    return values


def levels(draw: Draw, n: int, low: int = 2, high: int = 4) -> Values:
    """Whole numbers or booleans of a few levels, each of two rows at least where n allows."""
    count = draw.whole(low, high)
    codes = np.concatenate([np.repeat(np.arange(count), 2), draw.random.integers(0, count, n)])[:n]
    codes = codes[draw.random.permutation(n)]
    if count == 2 and draw.chance(0.4):
        return codes.astype(bool)
    return codes.astype(np.float64) + draw.pick((0, 0, 0, 1, -1, 10))


def with_missing(draw: Draw, values: Values) -> Values:
    if not len(values):
        return values
    gone = draw.random.random(len(values)) < draw.pick((0.05, 0.3, 1.0))
    if values.dtype.kind == "f":
        return np.where(gone, np.nan, values)
    values = values.astype(object)
    values[gone] = draw.pick((None, np.nan, pd.NA))
    return values


def strange(draw: Draw, n: int) -> Values:
    """A column that most entries should refuse."""
    kind = draw.whole(0, 13)
    random = draw.random
    if kind == 0:
        return np.zeros(n)
    if kind == 1:
        return np.where(random.random(n) < 0.2, draw.pick((np.inf, -np.inf)), random.random(n))
    if kind == 2:
        return np.full(n, np.nan)
    if kind == 3:
        return np.array([None] * n, dtype=object)
    if kind == 4:
        return np.array(["2020-01-01", "2021-06-30"] * n, dtype="datetime64[s]")[:n]
    if kind == 5:
        return random.random(n) + 1j
    if kind == 6:
        return np.array([1, "a", 2.5, None, True] * n, dtype=object)[:n]
    if kind == 7:
        return _objects([[1, 2]] * n)
    if kind == 8:
        return np.array([b"a", b"b"] * n)[:n]
    if kind == 9:
        return np.array([f"id{i}" for i in range(n)], dtype=object)
    if kind == 10:
        return _objects([decimal.Decimal(i) / 3 for i in range(n)])
    if kind == 11:
        return _objects([datetime.date(2020, 1, 1 + i % 28) for i in range(n)])
    if kind == 12:
        return _objects([10 ** (300 + i) for i in range(n)])
    return with_missing(draw, draw.pick((numbers, text, levels))(draw, n))


def _objects(values: Sequence[Any]) -> Values:
    """Values as an array of objects (n,), also where they are sequences."""
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


# ----------------------------------------------------------------------------------------- forms

INDEXES = ("offset", "text", "repeated", "shuffled", "dates", "several levels")


def index_of(kind: str, n: int) -> Any:
    if kind == "offset":
        return pd.RangeIndex(5, 5 + n)
    if kind == "text":
        return pd.Index([f"row {i}" for i in range(n)])
    if kind == "repeated":
        return pd.Index(np.arange(n) // 2)
    if kind == "shuffled":
        return pd.Index(np.arange(n)[::-1])
    if kind == "dates":
        return pd.date_range("2020-01-01", periods=n)
    if kind == "several levels":
        return pd.MultiIndex.from_arrays([np.arange(n) // 2, np.arange(n)], names=["g", "i"])
    return pd.RangeIndex(n)


def _nullable(values: Values, index: Any) -> pd.Series:
    return pd.Series(values, index=index).convert_dtypes()


def _category(values: Values, index: Any) -> pd.Series:
    return pd.Series(pd.Categorical(values), index=index)


def _strided(values: Values) -> Values:
    return np.repeat(values, 2)[::2]


def _read_only(values: Values) -> Values:
    values = values.copy()
    values.flags.writeable = False
    return values


def _tensor(values: Values) -> Any:
    if values.dtype.kind not in "biuf":
        return values
    return torch.from_numpy(values.copy())


COLUMN_FORMS: Mapping[str, Callable[[Values, Any], Any]] = {
    "array": lambda v, i: v.copy(),
    "list": lambda v, i: v.tolist(),
    "tuple": lambda v, i: tuple(v.tolist()),
    "read-only": lambda v, i: _read_only(v),
    "strided": lambda v, i: _strided(v),
    "backwards": lambda v, i: v[::-1].copy()[::-1],
    "objects": lambda v, i: v.astype(object),
    "pandas": lambda v, i: pd.Series(v, index=i, name="y"),
    "nullable": _nullable,
    "category": _category,
    "polars": lambda v, i: pl.Series("y", v.tolist(), strict=False),
    "arrow": lambda v, i: pa.array(v.tolist()),
    "tensor": lambda v, i: _tensor(v),
    "one column": lambda v, i: v[:, None],
    "frame": lambda v, i: pd.DataFrame({"y": v}, index=i),
}
#: Forms in which every column of numbers, booleans or text should be read as what it is.
PLAIN_FORMS = tuple(COLUMN_FORMS)[:-2]


@dataclass(frozen=True, eq=False)
class Column:
    """One column of values in one form."""

    values: Values
    form: str
    index_kind: str = "range"

    def __len__(self) -> int:
        return len(self.values)

    @property
    def data(self) -> Any:
        return in_form(COLUMN_FORMS, self.form, self.values, index_of(self.index_kind, len(self)))

    def take(self, rows: Values) -> Column:
        return replace(self, values=self.values[rows])

    def map(self, function: Callable[[Values], Values]) -> Column:
        return replace(self, values=function(self.values))


def in_form(forms: Mapping[str, Any], form: str, *given: Any) -> Any:
    """Values in a form, or plainly where the form's own library can not hold them."""
    try:
        return forms[form](*given)
    except Exception:
        return next(iter(forms.values()))(*given)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of values under names, in one form."""

    columns: tuple[Values, ...]
    names: tuple[Any, ...]
    form: str
    n: int
    index_kind: str = "range"

    @property
    def data(self) -> Any:
        index = index_of(self.index_kind, self.n)
        return in_form(TABLE_FORMS, self.form, self.columns, self.names, index)

    @property
    def named(self) -> bool:
        """Whether the form keeps the names."""
        return self.form in NAMED_FORMS

    def take(self, rows: Values) -> Table:
        return replace(self, columns=tuple(c[rows] for c in self.columns), n=len(rows))

    def order(self, columns: Sequence[int]) -> Table:
        return replace(
            self,
            columns=tuple(self.columns[i] for i in columns),
            names=tuple(self.names[i] for i in columns),
        )

    def rename(self, names: Sequence[Any]) -> Table:
        return replace(self, names=tuple(names))


def _pandas(columns: Sequence[Values], names: Sequence[Any], index: Any) -> pd.DataFrame:
    frame = pd.DataFrame(dict(enumerate(columns)), index=index)
    if any(isinstance(name, tuple) for name in names):
        frame.columns = pd.Index(list(names), tupleize_cols=False)
    else:
        frame.columns = list(names)
    return frame


def _pandas_typed(columns: Sequence[Values], names: Sequence[Any], index: Any) -> pd.DataFrame:
    frame = _pandas(columns, range(len(columns)), index).convert_dtypes()
    frame.columns = _pandas(columns, names, index).columns
    return frame


def _pandas_categories(columns: Sequence[Values], names: Sequence[Any], index: Any) -> pd.DataFrame:
    frame = pd.DataFrame(
        {i: pd.Categorical(c) if c.dtype.kind == "O" else c for i, c in enumerate(columns)},
        index=index,
    )
    frame.columns = _pandas(columns, names, index).columns
    return frame


def _polars(columns: Sequence[Values], names: Sequence[Any], index: Any) -> pl.DataFrame:
    return pl.DataFrame(
        [pl.Series(str(n), c.tolist(), strict=False) for n, c in zip(names, columns, strict=True)]
    )


def _arrow(columns: Sequence[Values], names: Sequence[Any], index: Any) -> pa.Table:
    return pa.Table.from_arrays([pa.array(c.tolist()) for c in columns], [str(n) for n in names])


def _matrix(columns: Sequence[Values], names: Sequence[Any], index: Any) -> Values:
    if not columns:
        return np.empty((len(index), 0))
    return np.column_stack(columns)


TABLE_FORMS: Mapping[str, Callable[[Sequence[Values], Sequence[Any], Any], Any]] = {
    "pandas": _pandas,
    "pandas typed": _pandas_typed,
    "pandas categories": _pandas_categories,
    "polars": _polars,
    "arrow": _arrow,
    "array": _matrix,
    "fortran": lambda c, names, i: np.asfortranarray(_matrix(c, names, i)),
    "lists": lambda c, names, i: _matrix(c, names, i).tolist(),
    "objects": lambda c, names, i: _matrix(c, names, i).astype(object),
    "tensor": lambda c, names, i: _tensor(_matrix(c, names, i)),
    "mapping": lambda c, names, i: dict(zip(names, c, strict=True)),
    "first column": lambda c, names, i: c[0].copy(),
    "first series": lambda c, names, i: pd.Series(c[0], index=i, name=names[0]),
}
NAMED_FORMS = ("pandas", "pandas typed", "pandas categories", "polars", "arrow", "mapping")
FRAME_FORMS = ("pandas", "pandas", "pandas typed", "pandas categories", "polars", "arrow")
ARRAY_FORMS = ("array", "array", "fortran", "lists", "tensor", "objects")


def names_for(draw: Draw, count: int, stem: str) -> tuple[Any, ...]:
    kind = draw.whole(0, 9)
    if kind == 0:
        return tuple(f'{stem} {i}, [odd]<"name"> é' for i in range(count))
    if kind == 1:
        return tuple(f"{stem}\n{i}=" for i in range(count))
    if draw.odd():
        odd = draw.whole(0, 6)
        if odd == 0:
            return tuple(range(count))
        if odd == 1:
            return (stem,) * count
        if odd == 2:
            return tuple([stem, 3, None, (1, 2), 2.5, True][i % 6] for i in range(count))
        if odd == 3:
            return tuple(("", " ", "x")[i % 3] + "y" * (i // 3) for i in range(count))
        if odd == 4:
            return tuple((stem, i) for i in range(count))
        if odd == 5:
            return tuple(pd.Timestamp(2020, 1, 1 + i) for i in range(count))
        taken = ("sensitive_0", "sensitive_1", "y", "X", "score", "decision")
        return tuple(taken[i % 6] for i in range(count))
    return tuple(f"{stem}{i}" for i in range(count))


# ------------------------------------------------------------------------------- whole arguments


def features(draw: Draw, n: int) -> Table:
    """Features X of p columns."""
    count = draw.pick((0, 1, 30)) if draw.odd() else draw.whole(1, 4)
    form = draw.pick(FRAME_FORMS) if draw.chance(0.6) else draw.pick(ARRAY_FORMS)
    kinds: Sequence[Any] = (numbers, numbers, levels)
    if form in FRAME_FORMS:
        kinds = (numbers, numbers, levels, text)
    columns = []
    for _ in range(count):
        column = strange(draw, n) if draw.odd() else draw.pick(kinds)(draw, n)
        columns.append(with_missing(draw, column) if draw.chance(0.1) else column)
    if count > 1 and draw.chance(0.1):
        columns[-1] = columns[0]
    if draw.odd():
        form = draw.pick(tuple(TABLE_FORMS))
    return Table(tuple(columns), names_for(draw, count, "x"), form, n, draw.index_kind)


def attributes(draw: Draw, n: int, *, most: int = 3) -> Table:
    """Sensitive features."""
    count = draw.pick((0, 1, 12)) if draw.odd() else draw.whole(1, most)
    columns = []
    for _ in range(count):
        kind = draw.pick((levels, levels, text, numbers))
        column = strange(draw, n) if draw.odd() else kind(draw, n)
        columns.append(with_missing(draw, column) if draw.chance(0.07) else column)
    form = draw.pick((*FRAME_FORMS, "mapping", "array", "lists"))
    if count == 1 and draw.chance(0.3):
        form = draw.pick(("first column", "first series"))
    if draw.odd():
        form = draw.pick(tuple(TABLE_FORMS))
    return Table(tuple(columns), names_for(draw, count, "a"), form, n, draw.index_kind)


def classes(draw: Draw, n: int, *, most: int = 4) -> Column:
    """An outcome of two or more classes."""
    if draw.odd():
        values = strange(draw, n)
    elif draw.chance(0.4):
        values = text(draw, n)
    else:
        values = levels(draw, n, high=most)
    form = draw.pick(tuple(COLUMN_FORMS) if draw.odd() else PLAIN_FORMS)
    return Column(values, form, draw.index_kind)


def outcomes(draw: Draw, n: int) -> Column:
    """A continuous outcome."""
    values = strange(draw, n) if draw.odd() else numbers(draw, n)
    form = draw.pick(tuple(COLUMN_FORMS) if draw.odd() else PLAIN_FORMS)
    return Column(values, "array" if form == "category" else form, draw.index_kind)


def weights(draw: Draw, n: int) -> Column | None:
    """Weights of rows; whole numbers in half of the cases."""
    if draw.chance(0.5):
        return None
    random = draw.random
    values: Values
    if draw.odd():
        kind = draw.whole(0, 6)
        if kind == 0:
            values = np.zeros(n)
        elif kind == 1:
            values = random.standard_normal(n)
        elif kind == 2:
            values = np.array(["one", "two"] * n, dtype=object)[:n]
        elif kind == 3:
            values = np.ones(n + 1)
        elif kind == 4:
            values = random.random((n, 2))
        else:
            values = strange(draw, n)
    elif draw.chance(0.5):
        values = random.integers(draw.pick((0, 1)), 4, n).astype(np.float64)
    elif draw.chance(0.1):
        values = 10.0 ** random.uniform(-40, 0, n)
    else:
        values = random.random(n) * 10.0 ** draw.pick((0, 0, 0, 1, -1, 5, -5, 39, -50, 200, -290))
    form = draw.pick(tuple(COLUMN_FORMS) if draw.odd() else PLAIN_FORMS)
    return Column(values, "array" if form == "category" else form, draw.index_kind)
