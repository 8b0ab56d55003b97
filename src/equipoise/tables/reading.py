"""Read the features a user hands over into columns that any encoder can take."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.tables.columns import Column, read_columns


def read_features(X: Any) -> tuple[Column, ...]:
    """Columns of X, which must have two dimensions."""
    shape = getattr(X, "shape", None)
    if isinstance(X, list | tuple) and X and not isinstance(X[0], list | tuple | np.ndarray):
        shape = (len(X),)
    if shape is not None and len(shape) != 2:
        raise InputError(
            f"X must have two dimensions, got shape {tuple(shape)}; "
            "pass an array of shape (rows, 1) or a DataFrame if it is a single column"
        )
    return read_columns(X, argument="X", prefix="x")


def as_numbers(column: Column) -> NDArray[np.float64]:
    """Numbers or booleans as float64 (n,), NaN where missing."""
    if column.numbers is not None:
        return column.numbers
    assert column.codes is not None
    return np.array([*column.levels, np.nan], dtype=np.float64)[column.codes]
