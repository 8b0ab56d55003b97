"""Read the features a user hands over into columns that any encoder can take."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.sensitive.columns import Column, read_columns

#: The largest number a feature may hold: what float32 can hold.
LARGEST = float(np.finfo(np.float32).max)


def read_features(X: Any) -> tuple[Column, ...]:
    """Columns of X, which must have two dimensions and fit into float32."""
    shape = getattr(X, "shape", None)
    if isinstance(X, list | tuple) and X and not isinstance(X[0], list | tuple | np.ndarray):
        shape = (len(X),)
    if shape is not None and len(shape) != 2:
        raise InputError(
            f"X must have two dimensions, got shape {tuple(shape)}; "
            "pass an array of shape (rows, 1) or a DataFrame if it is a single column"
        )
    columns = read_columns(X, argument="X", prefix="x")
    for column in columns:
        if column.numbers is not None and column.family == "number":
            row = int(np.nanargmax(np.abs(column.numbers)))
            if abs(column.numbers[row]) > LARGEST:
                raise InputError(
                    f"X column {column.name!r} must fit into float32 (up to {LARGEST:.3g}), got "
                    f"{column.numbers[row]:.3g} in row {row}; rescale the column"
                )
    return columns


def as_numbers(column: Column) -> NDArray[np.float64]:
    """Numbers or booleans as float64 (n,), NaN where missing."""
    if column.numbers is not None:
        return column.numbers
    assert column.codes is not None
    return np.array([*column.levels, np.nan], dtype=np.float64)[column.codes]
