"""Rows of several arguments belong together by position; an index that says otherwise is refused.

Everything that takes rows asks here, so that no frame in another order passes in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from equipoise.errors import InputError


def check_aligned(**arguments: Any) -> None:
    """Refuse frames and Series of pandas whose indexes name the rows differently.

    What has no index (arrays, lists, frames of other libraries) passes, and so do arguments of
    different lengths, which have an error of their own.

    >>> check_aligned(X=pd.Series([1, 2]), y=pd.Series([3, 4], index=[1, 0]))
    Traceback (most recent call last):
    equipoise.errors.InputError: y must have the index of X, row by row, got 1 where X has 0 ...
    """
    first, *others = [*_indexes(arguments)] or [("", pd.Index([]))]
    for name, index in others:
        if len(index) == len(first[1]) and not index.equals(first[1]):
            _refuse_first_difference(*first, name, index)


def _indexes(arguments: Mapping[str, Any]) -> Iterator[tuple[str, pd.Index]]:
    """Names and indexes of what has one; of a dict of columns, those of its columns."""
    for name, value in arguments.items():
        if isinstance(value, pd.DataFrame | pd.Series):
            yield name, value.index
        elif isinstance(value, Mapping):
            yield from _indexes({f"{name}[{key!r}]": column for key, column in value.items()})


def _refuse_first_difference(first: str, rows: pd.Index, name: str, index: pd.Index) -> None:
    pairs = zip(rows.tolist(), index.tolist(), strict=True)
    for position, (label, found) in enumerate(pairs):
        # Labels of unlike types, such as 1 and 1.0, may be equal all the same.
        if _equal(label, found):
            continue
        same = set(rows.tolist()) == set(index.tolist())
        remedy = f"take {name}.loc[{first}.index]" if same else "pass the same rows"
        raise InputError(
            f"{name} must have the index of {first}, row by row, got {found!r} where {first} has "
            f"{label!r} (row {position}); {remedy}, or {name}.to_numpy() if rows of the same "
            "position belong together"
        )


def _equal(label: Any, other: Any) -> bool:
    try:
        return bool(label == other)
    except (TypeError, ValueError):  # pandas.NA is neither equal nor unequal
        return label is other
