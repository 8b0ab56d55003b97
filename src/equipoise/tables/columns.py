"""Read any table that a user may pass.

DataFrames and Series of pandas, polars and pyarrow, NumPy arrays, lists and dicts become a tuple of
`Column`. A column holds numbers or levels; other values are refused with a reason.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError

Family = Literal["number", "boolean", "text", "categorical", "empty"]

# Types of single values, as error messages name them.
_PLURALS = {"number": "numbers", "boolean": "booleans", "text": "text", "interval": "intervals"}
# Type of the values of a NumPy dtype. With other dtypes, each value is looked at.
_BY_DTYPE = {
    **dict.fromkeys("iuf", "number"),
    **dict.fromkeys("mM", "temporal"),
    **{"b": "boolean", "c": "complex", "S": "bytes", "V": "nested"},
}
REFUSED = {
    "temporal": (
        "dates, times or durations",
        "turn them into a number first, such as age in years",
    ),
    "complex": ("complex numbers", "pass real and imaginary part as two columns"),
    "bytes": ("bytes", "decode them to text"),
    "nested": ("lists, dicts or other nested values", "pass each part as a column of its own"),
    "other": ("objects of an unsupported type", "turn them into text or numbers first"),
}


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table: numbers, or the code of each row's level."""

    name: str
    family: Family  # "empty" when every value is missing
    numbers: NDArray[np.float64] | None  # (n,) number or empty: finite, NaN where missing
    codes: NDArray[np.int64] | None = None  # (n,) others: index into levels, -1 where missing
    levels: tuple[Hashable, ...] = ()  # sorted distinct values that occur; () for numbers

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which values are missing, (n,)."""
        if self.numbers is not None:
            return np.isnan(self.numbers)
        assert self.codes is not None
        return self.codes < 0

    def as_numbers(self) -> NDArray[np.float64]:
        """Numbers, booleans or categories of numbers as float64 (n,), NaN where missing."""
        if self.numbers is not None:
            return self.numbers
        # The code -1 of a missing value selects the appended NaN.
        return np.array([*self.levels, np.nan], dtype=np.float64)[self.codes]

    def without(self, rows: NDArray[np.bool_]) -> Column:
        """The column with the values of these rows (n,) missing."""
        missing = self.missing | rows
        if missing.all():
            return Column(self.name, "empty", np.full(len(missing), np.nan))
        if self.numbers is not None:
            return replace(self, numbers=np.where(missing, np.nan, self.numbers))
        assert self.codes is not None
        codes, levels = present_levels(np.where(missing, -1, self.codes), self.levels)
        return replace(self, codes=codes, levels=levels)


def present_levels(
    codes: NDArray[np.int64], levels: tuple[Hashable, ...]
) -> tuple[NDArray[np.int64], tuple[Hashable, ...]]:
    """Drop the levels that no row has; return the new codes (n,), -1 where missing, and levels."""
    present = np.unique(codes[codes >= 0])
    codes = np.where(codes < 0, -1, np.searchsorted(present, codes)).astype(np.int64)
    return codes, tuple(levels[code] for code in present)


def read_columns(data: Any, *, argument: str, prefix: str) -> tuple[Column, ...]:
    """Read at least one row and one column; columns have one length and distinct names.

    data: frame, Series, array, list, list of rows or dict of columns; errors call it ``argument``.
    Columns without a name are called ``prefix`` + their position.
    """
    named = _split(data, argument, prefix)
    _refuse_repeats([str(name) for name, _ in named], argument)
    columns = tuple(_read_column(values, str(name), argument) for name, values in named)
    lengths = {column.name: len(column.missing) for column in columns}
    if len(set(lengths.values())) > 1:
        raise InputError(f"{argument} must have columns of one length, got {lengths}")
    if not columns or 0 in lengths.values():
        what = "rows" if columns else "columns"
        raise InputError(f"{argument} must have at least one row and one column, got no {what}")
    return columns


def _split(data: Any, argument: str, prefix: str) -> list[tuple[Any, Any]]:
    """The columns as pairs of name and values: a narwhals Series or a 1-D array."""
    data = _unwrapped(data)
    refuse_repeated_names(data, argument=argument)
    native = nw.from_native(data, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        return [(series.name, series) for series in native.iter_columns()]
    if isinstance(native, nw.Series):
        unnamed = native.name is None or native.name == ""
        return [(f"{prefix}0" if unnamed else native.name, native)]
    if isinstance(data, Mapping):
        return [(name, _single(values, name, argument)) for name, values in data.items()]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        columns = _columns_of_list(data, argument)
    elif hasattr(data, "__array__") and not hasattr(data, "__arrow_c_array__"):
        # Not bare pyarrow arrays: converting a dictionary type to NumPy loses its nulls.
        array = np.asarray(data)
        if array.ndim not in (1, 2):
            raise InputError(f"{argument} must have one or two dimensions, got shape {array.shape}")
        columns = list(np.atleast_2d(array.T))
    else:
        remedy = "collect() it first" if hasattr(data, "collect") else "convert it first"
        raise InputError(
            f"{argument} must be a DataFrame or Series (pandas, polars, pyarrow), a NumPy array, "
            f"a list or a dict of columns, got {type(data).__name__}; {remedy}"
        )
    return [(f"{prefix}{position}", values) for position, values in enumerate(columns)]


def _unwrapped(data: Any) -> Any:
    """Turn pandas arrays and indexes into a Series; replace masked values by None."""
    if isinstance(data, pd.Index | pd.api.extensions.ExtensionArray):
        return pd.Series(data)
    if isinstance(data, np.ma.MaskedArray):
        values = np.array(data.data, dtype=object)
        values[np.ma.getmaskarray(data)] = None
        return values
    return data


def _single(values: Any, name: Any, argument: str) -> Any:
    """The one column that a dict of columns holds under `name`."""
    columns = _split(values, f"{argument}[{name!r}]", "")
    if len(columns) != 1:
        raise InputError(
            f"{argument}[{str(name)!r}] must be one column, got {len(columns)}; "
            "give each column a name of its own"
        )
    return columns[0][1]


def _columns_of_list(data: Sequence[Any], argument: str) -> list[NDArray[Any]]:
    """A list of values is one column; a list of rows has as many columns as values in a row."""
    if not data or not all(isinstance(item, list | tuple | np.ndarray) for item in data):
        return [_objects(data)]
    widths = sorted({len(row) for row in data})
    if len(widths) > 1:
        raise InputError(
            f"{argument} given as a list of rows must have rows of one length, "
            f"got lengths {', '.join(map(str, widths))}"
        )
    return [_objects(values) for values in zip(*data, strict=True)]


def _objects(values: Iterable[Any]) -> NDArray[Any]:
    """A 1-D array of objects; ``np.array([1, "a"])`` would turn both values into text."""
    return np.fromiter(values, dtype=object)


def _read_column(values: Any, name: str, argument: str) -> Column:
    where = f"{argument} column {name!r}"
    if not isinstance(values, nw.Series):
        return _from_array(values, name, where)
    dtype = values.dtype
    if dtype.is_temporal() or dtype.is_nested():
        _refuse("temporal" if dtype.is_temporal() else "nested", where, dtype)
    if dtype.is_numeric():
        # Only types without a NumPy counterpart are cast: pyarrow refuses to round integers.
        needs_cast = dtype.is_decimal() or dtype in (nw.Int128, nw.UInt128)
        array = values.cast(nw.Float64).to_numpy() if needs_cast else values.to_numpy()
        return _from_numbers(array.astype(np.float64), name, where)
    # to_list, because to_numpy of a pyarrow dictionary with nulls returns wrong values.
    categorical = dtype in (nw.Categorical, nw.Enum)
    return _from_objects(_objects(values.to_list()), name, where, categorical=categorical)


def _from_array(array: NDArray[Any], name: str, where: str) -> Column:
    """Read a 1-D array by its dtype, or by its values if the dtype does not decide."""
    value_type = _BY_DTYPE.get(array.dtype.kind)
    if value_type in REFUSED:
        _refuse(value_type, where, array.dtype.name)
    if value_type == "number":
        return _from_numbers(array.astype(np.float64), name, where)
    return _from_objects(array.astype(object), name, where)


def _from_numbers(numbers: NDArray[np.float64], name: str, where: str) -> Column:
    infinite = np.flatnonzero(np.isinf(numbers))
    if infinite.size:
        raise InputError(
            f"{where} must hold finite numbers, got {numbers[infinite[0]]} in row {infinite[0]}; "
            "replace it by a number or mark it as missing (NaN)"
        )
    return Column(name, "empty" if np.isnan(numbers).all() else "number", numbers)


def _from_objects(
    values: NDArray[Any], name: str, where: str, *, categorical: bool = False
) -> Column:
    missing = np.asarray(pd.isna(values), dtype=bool)
    known = values[~missing]
    value_type = _shared_type(known, where, categorical=categorical)
    if value_type is None:
        return Column(name, "empty", np.full(len(values), np.nan))
    if value_type == "number":
        numbers = np.full(len(values), np.nan)
        numbers[~missing] = [_as_float(value, where) for value in known]
        column = _from_numbers(numbers, name, where)
        if not categorical:
            return column
    codes, uniques = pd.factorize(values, sort=True)
    levels = tuple(whole(float(level)) if value_type == "number" else level for level in uniques)
    family: Family = "boolean" if value_type == "boolean" else "text"
    if categorical:
        family = "categorical"
    return Column(name, family, None, codes.astype(np.int64), levels)


def kind_of(values: pd.Series[Any]) -> str:
    """Type of the values of one column: a `Family`, a key of `REFUSED`, or several with "and".

    >>> kind_of(pd.Series([1, None], dtype=object)), kind_of(pd.Series([1, "a"]))
    ('number', 'number and text')
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        return "categorical"
    if isinstance(values.dtype, pd.StringDtype):
        return "text"
    by_dtype = _BY_DTYPE.get(values.dtype.kind)
    if by_dtype is not None:
        return by_dtype
    found = {_type_name(of_value) for of_value in set(map(type, values.dropna().astype(object)))}
    return " and ".join(sorted(found)).replace("interval", "other") or "empty"


def _shared_type(known: NDArray[Any], where: str, *, categorical: bool) -> str | None:
    """The type that all values share; None if there are no values."""
    examples: dict[str, Any] = {}
    for of_value in {type(value): None for value in known}:
        name = _type_name(of_value)
        if name == "interval" and not categorical:  # pandas.cut gives categories of intervals
            name = "other"
        if name in REFUSED:
            _refuse(name, where, of_value.__name__)
        examples.setdefault(name, next(value for value in known if type(value) is of_value))
    if len(examples) > 1:
        found = " and ".join(f"{_PLURALS[name]} such as {ex!r}" for name, ex in examples.items())
        raise InputError(
            f"{where} must hold values of one type, got {found}; "
            "convert the column to numbers or to text"
        )
    return next(iter(examples), None)


def _type_name(of_value: type) -> str:
    """Name the type of a single value; the order matters, since bool is an int."""
    temporal = (datetime.date, datetime.time, datetime.timedelta, pd.Period)
    rules: tuple[tuple[str, tuple[type, ...]], ...] = (
        ("temporal", (*temporal, np.datetime64, np.timedelta64)),
        ("boolean", (bool, np.bool_)),
        ("number", (numbers.Real, decimal.Decimal)),
        ("text", (str,)),
        ("complex", (numbers.Complex,)),
        ("bytes", (bytes,)),
        ("nested", (Mapping, Sequence, Set, np.ndarray, np.void)),
        ("interval", (pd.Interval,)),
    )
    return next((name for name, types in rules if issubclass(of_value, types)), "other")


def differ_by_design(count: int, low: float, high: float) -> bool:
    """Whether `count` whole numbers that all differ are unlikely to differ by chance.

    n numbers drawn from a range of s all differ with probability about exp(-n^2 / 2s) (the birthday
    problem). The limit is exp(-5), so that incomes, which may all differ, are no identifiers.

    >>> differ_by_design(1000, 0, 999), differ_by_design(1000, 0, 10**6)
    (True, False)
    """
    return count**2 > 10 * (high - low + 1)


def whole(number: float) -> int | float:
    """Return a whole number as int, so that 1 and 1.0 become the same level."""
    return int(number) if number.is_integer() else number


def _as_float(value: Any, where: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InputError(
            f"{where} must hold finite numbers, got an integer of {len(str(value))} digits; "
            "rescale it, or pass it as text if it is a code"
        ) from None


def _refuse(value_type: str, where: str, found: object) -> NoReturn:
    what, remedy = REFUSED[value_type]
    raise InputError(f"{where} must not hold {what}, got {found}; {remedy}")


def refuse_repeated_names(data: Any, *, argument: str) -> None:
    """Refuse a frame in which two columns have the same name."""
    if nw.dependencies.is_into_dataframe(data):
        names = data.column_names if hasattr(data, "column_names") else data.columns
        _refuse_repeats([str(name) for name in names], argument)


def _refuse_repeats(names: Sequence[str], argument: str) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(
            f"{argument} must have distinct column names, got {', '.join(map(repr, repeated))} "
            "more than once; rename the columns"
        )


def read_values(data: Any, *, argument: str, remedy: str) -> NDArray[Any]:
    """Return values of one type, none of them missing, as an array of the same shape.

    Numbers and booleans get their dtype; text stays text (or objects). An error about missing
    values begins with ``argument`` and ends with ``remedy``.
    """
    array = _any_array(data, argument)
    value_type = _BY_DTYPE.get(array.dtype.kind)
    if value_type in REFUSED:
        _refuse(value_type, argument, array.dtype.name)
    rows = np.unique(np.nonzero(np.atleast_1d(pd.isna(array)))[0])
    if len(rows):
        raise InputError(
            f"{argument} must not have missing values, got {len(rows)} (first in row {rows[0]}); "
            f"{remedy}"
        )
    if array.dtype.kind != "O":
        return array
    value_type = _shared_type(array.ravel(), argument, categorical=False)
    if value_type in ("number", "boolean"):
        typed = np.array(array.tolist())
        if typed.dtype.kind != "O":
            return typed
        floats = [_as_float(value, argument) for value in array.flat]
        return np.array(floats).reshape(array.shape)
    # Text in a list gets NumPy's dtype for text; text that came as objects keeps that dtype.
    return np.asarray(data) if isinstance(data, list | tuple) else array


def _any_array(data: Any, argument: str) -> NDArray[Any]:
    """An array that keeps missing values; NumPy would turn None beside text into text."""
    data = _unwrapped(data)
    if hasattr(data, "to_pylist"):  # pyarrow
        data = data.to_pylist()
    try:
        if isinstance(data, list | tuple):
            return np.array(data, dtype=object)
        native = nw.from_native(data, eager_only=True, allow_series=True, pass_through=True)
    except ValueError:  # rows of different shapes, or names that repeat
        _refuse("nested", argument, type(data).__name__)
    if isinstance(native, nw.DataFrame) and native.shape[1] == 1:
        return _series_array(next(native.iter_columns()))[:, None]
    return _series_array(native) if isinstance(native, nw.Series) else np.asarray(data)


def _series_array(series: nw.Series[Any]) -> NDArray[Any]:
    if not series.null_count() and (series.dtype.is_numeric() or series.dtype == nw.Boolean):
        return series.to_numpy()
    return _objects(series.to_list())


def take_rows(data: Any, positions: NDArray[np.integer[Any]]) -> Any:
    """Return the rows of a frame or array at these positions.

    >>> take_rows(np.array([[1, 2], [3, 4], [5, 6]]), np.array([2, 0])).tolist()
    [[5, 6], [1, 2]]
    """
    native = nw.from_native(data, eager_only=True, pass_through=True)
    return native[positions].to_native() if isinstance(native, nw.DataFrame) else data[positions]


def check_aligned(**arguments: Any) -> None:
    """Refuse pandas objects whose indexes differ.

    Rows are matched by position, so every index must have the labels of the first one, in the same
    order. A default index (0, 1, ...) beside another index is refused too: nothing says in which
    order its rows are. Arguments without an index pass. So do arguments of different lengths, for
    which there is another error.

    >>> check_aligned(X=pd.Series([1, 2]), y=pd.Series([3, 4], index=[1, 0]))
    Traceback (most recent call last):
    equipoise.errors.InputError: y must have the index of X, row by row, got 1 where X has 0 ...
    """
    (first, rows), *others = [*_indexes(arguments)] or [("", pd.Index([]))]
    for name, index in others:
        if len(index) != len(rows) or index.equals(rows):
            continue
        labels, found = rows.tolist(), index.tolist()
        for row, (label, other) in enumerate(zip(labels, found, strict=True)):
            # Labels of different types, such as 1 and 1.0, may still be equal.
            if not _equal(label, other):
                same = set(labels) == set(found)
                remedy = f"take {name}.loc[{first}.index]" if same else "pass the same rows"
                raise InputError(
                    f"{name} must have the index of {first}, row by row, got {other!r} where "
                    f"{first} has {label!r} (row {row}); {remedy}, or {name}.to_numpy() if rows "
                    "of the same position belong together"
                )


def _indexes(arguments: Mapping[str, Any]) -> Iterator[tuple[str, pd.Index]]:
    """Names and indexes of the arguments, and of the columns of a dict, that have an index."""
    for name, value in arguments.items():
        if isinstance(value, pd.DataFrame | pd.Series):
            yield name, value.index
        elif isinstance(value, Mapping):
            yield from _indexes({f"{name}[{key!r}]": column for key, column in value.items()})


def _equal(label: Any, other: Any) -> bool:
    try:
        return bool(label == other)
    except (TypeError, ValueError):  # pandas.NA is neither equal nor unequal
        return label is other
