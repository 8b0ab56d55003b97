"""Convert columns of a file to the types that a fitted model expects, value by value.

A value that cannot be converted becomes missing and is reported with a reason. So a wrong value
affects one row, not the whole file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from equipoise.files.contents import FALSE_WORDS, TRUE_WORDS, numbers_of
from equipoise.files.reading import MISSING_WORDS
from equipoise.tables.columns import Family, kind_of, whole

_LARGEST = float(np.finfo(np.float32).max)
_EXPECTED_WORDS = {"number": "a number", "boolean": "true or false"}
#: Types of columns that are read as text; a column without any value could hold anything.
_TEXT = ("text", "categorical", "empty")

#: What the categories of a column are: any text, or the names of numbers or of true and false.
Names = Literal["text", "number", "boolean"]


def names_of(categories: Iterable[str | None]) -> Names:
    """Say what the categories of a column were at fit, by their names.

    >>> names_of(["1", "2.5", None]), names_of(["01", "2"]), names_of(["True", "False"])
    ('number', 'text', 'boolean')
    """
    known = [each for each in categories if each is not None]
    if known and all(each in ("True", "False") for each in known):
        return "boolean"
    return "number" if known and all(map(_names_a_number, known)) else "text"


def _names_a_number(name: str) -> bool:
    try:
        return str(whole(float(name))) == name
    except (ValueError, OverflowError):  # an infinite number is not whole
        return False


def as_expected(
    values: pd.Series[Any],
    name: str,
    family: Family,
    *,
    as_written: bool = True,
    names: Names = "text",
) -> tuple[pd.Series[Any], dict[int, str]]:
    """Convert one column (n,) of a file to values of ``family``, the family it had at fit.

    as_written: whether the values come from a text file, where words such as NA are missing values;
        elsewhere they are text like any other.
    names: what the categories of the column were at fit. Those of numbers are compared by value:
        01 and 1.0 are the category 1.

    Returns the values (float64, nullable boolean, or text; missing if unknown or unusable) and the
    reason for each row with an unusable value.

    >>> values, reasons = as_expected(pd.Series(["3", " 4.5", "", "many"]), "rooms", "number")
    >>> values.tolist(), reasons
    ([3.0, 4.5, nan, nan], {3: "column 'rooms' must hold a number, got 'many'"})
    """
    values = _without_dictionary(values.reset_index(drop=True))
    if family == "empty":
        return pd.Series(np.full(len(values), np.nan)), {}
    if family in ("text", "categorical"):
        return _as_text(values, as_written, names), {}
    kind = kind_of(values)
    if kind in _TEXT:
        converted = _parsed(values, family, as_written)
    elif kind == family:
        converted = values.astype("boolean") if kind == "boolean" else pd.Series(numbers_of(values))
    else:
        converted = pd.Series(np.full(len(values), np.nan))
    unknown = np.flatnonzero(converted.isna())
    has_value = [not _is_missing(each, as_written) for each in values.iloc[unknown].astype(object)]
    wrong = unknown[np.array(has_value, dtype=bool)]
    reasons = _reasons(values, wrong, f"column {name!r} must hold {_EXPECTED_WORDS[family]}")
    if family == "number":
        numbers = converted.to_numpy()
        extreme = np.abs(numbers) > _LARGEST  # includes infinite ones
        rule = f"column {name!r} must hold numbers within {_LARGEST:.3g}"
        reasons |= _reasons(values, np.flatnonzero(extreme), rule)
        converted = pd.Series(np.where(extreme, np.nan, numbers))
    return converted, reasons


def _without_dictionary(values: pd.Series[Any]) -> pd.Series[Any]:
    """The values of a categorical column."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        kind = values.dtype.categories.dtype
        return values.astype(object if kind.kind in "biu" else kind)
    return values


def _reasons(values: pd.Series[Any], rows: NDArray[np.int64], rule: str) -> dict[int, str]:
    found = values.iloc[rows].astype(object)
    return {int(row): f"{rule}, got {shown(value)}" for row, value in zip(rows, found, strict=True)}


def shown(value: Any) -> str:
    """A value as errors show it, shortened if it is long."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _is_missing(value: Any, as_written: bool) -> bool:
    if isinstance(value, str):
        return as_written and value.strip() in MISSING_WORDS
    return bool(pd.isna(value))


def _parsed(values: pd.Series[Any], family: Family, as_written: bool) -> pd.Series[Any]:
    """Read text as numbers or booleans; other text becomes missing."""
    text = pc.utf8_trim_whitespace(pa.array(values, type=pa.large_string(), from_pandas=True))
    if family == "boolean":
        words = dict.fromkeys(TRUE_WORDS, True) | dict.fromkeys(FALSE_WORDS, False)
        return pd.Series(text.to_pandas(), dtype=object).map(words).astype("boolean")
    if as_written:
        missing = pc.is_in(text, value_set=pa.array(MISSING_WORDS, text.type))
        text = pc.if_else(missing, pa.scalar(None, text.type), text)
    try:
        floats = text.cast(pa.float64())
    except pa.ArrowInvalid:  # some text is no number: try each distinct text once
        encoded = text.dictionary_encode()
        known = pa.array([_float(value) for value in encoded.dictionary], pa.float64())
        floats = known.take(encoded.indices)
    return pd.Series(floats.to_numpy(zero_copy_only=False))


def _float(value: pa.Scalar) -> float | None:
    """A number as the reader of text files reads it; it knows 0x1F as a whole number only."""
    for kind in (pa.float64(), pa.int64()):
        try:
            return float(value.cast(kind).as_py())
        except pa.ArrowInvalid:
            continue
    return None


def _as_text(values: pd.Series[Any], as_written: bool, names: Names) -> pd.Series[Any]:
    """Categories as text; 1 and 1.0 become the same text."""
    kind = kind_of(values)
    if kind == "number":
        return values.astype(object).map(lambda v: _name(v, names), na_action="ignore")
    if kind not in _TEXT:
        return values.astype(object).map(str, na_action="ignore")
    if as_written:
        values = values.mask(values.isna() | values.isin(MISSING_WORDS))
    if names == "text" or kind == "empty":
        return values
    # What is no number stays as it is, and is a category not seen at fit.
    known = _parsed(values, names, as_written).astype(object)
    named = str if names == "boolean" else lambda v: _name(v, names)
    found = known.map(named, na_action="ignore")
    return values.astype(object).where(known.isna(), found)


def _name(value: Any, names: Names) -> str:
    """The name of a number as a category.

    Categories of numbers were rounded to floats at fit. Those of text were not.
    """
    if names == "text" and isinstance(value, int | np.integer):
        return str(value)
    number = float(value)
    return str(whole(number)) if np.isfinite(number) else str(number)
