"""What one column of a table holds, and whether a model can learn from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError

Kind = Literal["number", "boolean", "category", "date", "bytes", "nested", "empty"]

_OBJECT_KINDS: dict[str, Kind] = {
    "string": "category",
    "boolean": "boolean",
    "integer": "number",
    "floating": "number",
    "mixed-integer-float": "number",
    "decimal": "number",
    "empty": "empty",
    "bytes": "bytes",
    "datetime": "date",
    "datetime64": "date",
    "date": "date",
    "time": "date",
    "timedelta": "date",
    "timedelta64": "date",
    "period": "date",
}
#: Names that identifiers have in many files; only a hint beside what a column holds.
_IDENTIFIER_NAME = re.compile(
    r"(?:^|[_\W])(?:id|uuid|guid|ssn|e?mail|phone|iban|passport|key|index|row)(?:[_\W]|$)", re.I
)
_NEARLY_DISTINCT = 0.95
_FEWEST_ROWS = 50
_LEVELS_SHOWN = 5
_LONGEST_WORDS = 40


@dataclass(frozen=True)
class Content:
    """What a column holds.

    Attributes
    ----------
    kind : {"number", "boolean", "category", "date", "bytes", "nested", "empty"}
    rows, missing, distinct : int
        ``distinct`` counts known values.
    words : str
        In words: range of numbers, number of categories.
    codes : bool
        Whether all values are whole numbers or text, as those of identifiers are.
    span : float
        Of whole numbers: how many there are from the smallest to the largest; else infinite.
    """

    kind: Kind
    rows: int
    missing: int
    distinct: int
    words: str
    codes: bool
    span: float

    @property
    def is_identifier(self) -> bool:
        """Whether every value is distinct, by more than the chance of a wide range.

        n numbers drawn from a range of s all differ with a chance of about exp(-n^2 / 2s) (the
        birthday problem); a salary in a small file is no identifier because no two are the same.
        """
        if not self.codes or self.distinct < self.rows or self.rows < 2:
            return False
        return self.kind == "category" or self.rows**2 / (2 * self.span) > 5

    @property
    def is_nearly_identifier(self) -> bool:
        """Whether nearly all values are distinct."""
        known = self.rows - self.missing
        return self.codes and known >= _FEWEST_ROWS and self.distinct >= _NEARLY_DISTINCT * known


def content_of(values: pd.Series[Any], name: str) -> Content:
    """Describe one column (n,)."""
    kind = _kind(values, name)
    rows, missing = len(values), int(values.isna().sum())
    if missing == rows:
        kind = "empty"
    if kind in ("date", "bytes", "nested", "empty"):
        return Content(kind, rows, missing, 0, _UNUSABLE_WORDS[kind], False, np.inf)
    distinct = int(values.nunique())
    if kind == "number":
        return _of_numbers(numbers_of(values), missing, distinct)
    if kind == "boolean":
        return Content(kind, rows, missing, distinct, "true or false", False, np.inf)
    return Content(kind, rows, missing, distinct, _levels(values, distinct), True, np.inf)


def numbers_of(
    values: pd.Series[Any] | pd.api.extensions.ExtensionArray,
) -> NDArray[np.float64]:
    """Numbers or booleans as float64 (n,), NaN where missing."""
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def name_suggests_identifier(name: str) -> bool:
    """Whether a column is called as identifiers often are.

    >>> [name_suggests_identifier(name) for name in ("customer_id", "e-mail", "paid", "period")]
    [True, True, False, False]
    """
    return _IDENTIFIER_NAME.search(name) is not None


def numeric_share(values: pd.Series[Any]) -> tuple[float, str]:
    """Return the share of a text column's known values that are numbers, and one that is not."""
    counts = values.astype(object).value_counts()
    levels = pd.Series([str(level) for level in counts.index])
    numeric = pd.to_numeric(levels, errors="coerce").notna().to_numpy()
    if numeric.all():
        return 1.0, ""
    return float(counts.to_numpy()[numeric].sum() / counts.sum()), levels[~numeric].iloc[0]


#: A whole number, one with a decimal comma, or one with commas between thousands.
_WITH_COMMAS = r"\s*[+-]?(\d+|\d*,\d+|\d{1,3}(,\d{3})*(\.\d+)?)\s*"


def are_numbers_with_commas(values: pd.Series[Any]) -> bool:
    """Whether all known values of a text column are numbers if commas may be part of them.

    >>> are_numbers_with_commas(pd.Series(["1,5", "-20", None, "3,25"]))
    True
    >>> are_numbers_with_commas(pd.Series(["1,234,567.50", "950"]))
    True
    >>> are_numbers_with_commas(pd.Series(["1,5", "2,5,6"]))
    False
    """
    levels = pd.Series([str(level) for level in values.dropna().unique()], dtype=object)
    return bool(levels.str.fullmatch(_WITH_COMMAS).all())


_UNUSABLE_WORDS = {
    "date": "dates or times",
    "bytes": "bytes",
    "nested": "lists or records",
    "empty": "no value in any row",
}


def _kind(values: pd.Series[Any], name: str) -> Kind:
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype | pd.StringDtype):
        return "category"
    if pd.api.types.is_complex_dtype(dtype):
        _refuse_mixture(name, "complex")
    if dtype.kind == "b":
        return "boolean"
    if dtype.kind in "iuf":
        return "number"
    if dtype.kind in "mM":
        return "date"
    found = pd.api.types.infer_dtype(values, skipna=True)
    if found == "mixed" and values.map(pd.api.types.is_list_like).any():
        return "nested"
    if found not in _OBJECT_KINDS:
        _refuse_mixture(name, found)
    return _OBJECT_KINDS[found]


def _levels(values: pd.Series[Any], distinct: int) -> str:
    """Categories in words: by name where they are few and short."""
    if distinct <= _LEVELS_SHOWN:
        shown = ", ".join(sorted(str(level) for level in values.dropna().unique()))
        if len(shown) <= _LONGEST_WORDS:
            return shown
    return f"{distinct:,} categories"


def _refuse_mixture(name: str, found: str) -> NoReturn:
    raise InputError(
        f"column {name!r} must hold values of one type, got {found}; convert it to numbers or to "
        "text, or drop it"
    )


def _of_numbers(numbers: NDArray[np.float64], missing: int, distinct: int) -> Content:
    known = numbers[~np.isnan(numbers)]
    low, high = float(known.min()), float(known.max())
    whole = bool(np.isfinite(known).all() and (known == np.floor(known)).all())
    words = f"{low:g} to {high:g}" if low < high else f"{low:g} only"
    return Content(
        "number", len(numbers), missing, distinct, words, whole, high - low + 1 if whole else np.inf
    )
