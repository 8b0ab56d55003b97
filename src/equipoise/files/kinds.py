"""What a column of a table holds, and whether the target is classes or numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.tables.columns import whole

ContentKind = Literal["number", "boolean", "category", "date", "bytes", "nested", "empty"]

#: What pandas calls the values of a column of objects.
_OBJECT_KINDS: dict[ContentKind, tuple[str, ...]] = {
    "category": ("string",),
    "boolean": ("boolean",),
    "number": ("integer", "floating", "mixed-integer-float", "decimal"),
    "date": ("datetime", "datetime64", "date", "time", "timedelta", "timedelta64", "period"),
    "bytes": ("bytes",),
    "empty": ("empty",),
}
_NEARLY_DISTINCT = 0.95
_FEWEST_ROWS = 50
_LEVELS_SHOWN = 5
_LONGEST_WORDS = 40


@dataclass(frozen=True)
class Content:
    """What a column holds."""

    kind: ContentKind
    rows: int
    missing: int
    distinct: int  # of the known values
    words: str  # range of numbers, number of categories
    codes: bool = False  # whether all are whole numbers or text, as those of identifiers are
    span: float = np.inf  # of whole numbers: how many there are from the smallest to the largest

    @property
    def is_identifier(self) -> bool:
        """Whether every value is distinct, and a wide range alone does not explain it.

        n numbers drawn from a range of s all differ with probability of about exp(-n^2 / 2s) (the
        birthday problem): salaries in a small file are no identifiers although all differ.
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
    kind = kind_of(values)
    if kind not in get_args(ContentKind):
        raise InputError(
            f"column {name!r} must hold values of one type, got {kind}; convert it to numbers or "
            "to text, or drop it"
        )
    rows, missing = len(values), int(values.isna().sum())
    if missing == rows:
        kind = "empty"
    if kind in _UNUSABLE_WORDS:
        return Content(kind, rows, missing, 0, _UNUSABLE_WORDS[kind])
    distinct = int(values.nunique())
    if kind == "number":
        return _of_numbers(numbers_of(values), missing, distinct)
    if kind == "boolean":
        return Content(kind, rows, missing, distinct, "true or false")
    return Content(kind, rows, missing, distinct, _levels(values, distinct), codes=True)


def numbers_of(values: pd.Series[Any] | pd.api.extensions.ExtensionArray) -> NDArray[np.float64]:
    """Numbers or booleans as float64 (n,), NaN where missing."""
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


_UNUSABLE_WORDS = {
    "date": "dates or times",
    "bytes": "bytes",
    "nested": "lists or records",
    "empty": "no value in any row",
}


def kind_of(values: pd.Series[Any]) -> Any:
    """What kind of values a column has; where it is none of `ContentKind`, pandas' word for it."""
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype | pd.StringDtype):
        return "category"
    if pd.api.types.is_complex_dtype(dtype):
        return "complex"
    if dtype.kind in "biuf":
        return "boolean" if dtype.kind == "b" else "number"
    if dtype.kind in "mM":
        return "date"
    found = pd.api.types.infer_dtype(values, skipna=True)
    if found == "mixed" and values.map(pd.api.types.is_list_like).any():
        return "nested"
    return next((kind for kind, words in _OBJECT_KINDS.items() if found in words), found)


def _levels(values: pd.Series[Any], distinct: int) -> str:
    """Categories in words: by name where they are few and short."""
    if distinct <= _LEVELS_SHOWN:
        shown = ", ".join(sorted(str(level) for level in values.dropna().unique()))
        if len(shown) <= _LONGEST_WORDS:
            return shown
    return f"{distinct:,} categories"


def _of_numbers(numbers: NDArray[np.float64], missing: int, distinct: int) -> Content:
    known = numbers[~np.isnan(numbers)]
    low, high = float(known.min()), float(known.max())
    whole = bool(np.isfinite(known).all() and (known == np.floor(known)).all())
    words = f"{low:g} to {high:g}" if low < high else f"{low:g} only"
    span = high - low + 1 if whole else np.inf
    return Content("number", len(numbers), missing, distinct, words, whole, span)


Task = Literal["classification", "regression"]

MAX_CLASSES = 20


@dataclass(frozen=True)
class Outcome:
    """What is predicted."""

    task: Task
    rule: str  # in words: why
    classes: tuple[Any, ...]  # labels in sorted order; () for regression


def read_outcome(values: pd.Series[Any], content: Content, name: str, task: str | None) -> Outcome:
    """Decide what a target column (n,) is; a ``task`` given wins where the values allow it.

    Text, booleans and whole numbers of 2 to 20 distinct values are classes; other numbers are
    numbers. Text of more than 20 distinct values must be called classes by ``task``.
    """
    if task is not None and task not in get_args(Task):
        allowed = ", ".join(map(repr, get_args(Task)))
        raise InputError(f"task must be one of {allowed} or None, got {task!r}")
    if content.kind in _UNUSABLE_WORDS:
        _refuse(name, f"must hold classes or numbers, got {content.words}; name another column")
    if content.missing:
        _refuse(
            name,
            f"must be known in every row, got {content.missing:,} of {content.rows:,} rows "
            "without it; leave these rows out of the data",
        )
    if content.distinct == 1:
        _refuse(
            name,
            f"must hold at least two values, got {str(values.iloc[0])!r} in every row; name "
            "another column, or take rows of every class",
        )
    if content.kind == "number":
        return _from_numbers(values, content, name, task)
    if task == "regression":
        _refuse(
            name, f"must hold numbers for task='regression', got {content.words}; leave out task"
        )
    if content.distinct > MAX_CLASSES and task is None:
        _refuse(
            name,
            f"must have at most {MAX_CLASSES} classes unless task='classification' is given, got "
            f"{content.words}; name another column if these are not classes",
        )
    why = "booleans" if content.kind == "boolean" else "text"
    return _classes(values, f"{why} of {content.distinct} distinct values", task)


def _from_numbers(values: pd.Series[Any], content: Content, name: str, task: str | None) -> Outcome:
    if not np.isfinite(numbers_of(values)).all():
        _refuse(name, "must hold finite numbers, got an infinite one; leave these rows out")
    if task == "classification" and not content.codes:
        _refuse(
            name,
            f"must hold whole numbers, text or booleans for task='classification', got numbers "
            f"from {content.words}; leave out task, or cut them into classes first",
        )
    of = f"{content.distinct:,} distinct values"
    if content.codes and content.distinct <= MAX_CLASSES and task != "regression":
        return _classes(values, f"whole numbers of {of}", task)
    if task == "classification":
        return _classes(values, of, task)
    kind = f"numbers of {of}" if content.codes else f"numbers of {of}, not all whole"
    return Outcome("regression", _because(kind, task), ())


def _classes(values: pd.Series[Any], why: str, task: str | None) -> Outcome:
    labels = [
        whole(float(label)) if isinstance(label, float | np.floating) else label
        for label in values.unique().tolist()
    ]
    return Outcome("classification", _because(why, task), tuple(sorted(labels)))


def _because(why: str, task: str | None) -> str:
    return why if task is None else f"as task says; {why}"


def _refuse(name: str, found: str) -> NoReturn:
    raise InputError(f"target {name!r} {found}")
