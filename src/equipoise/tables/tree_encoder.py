"""Turn the features a user hands over into the float matrix that boosted trees read.

Trees need no scaling, and LightGBM handles missing values and categories by itself, so every
column of the input stays one column.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from equipoise.scales import exponent
from equipoise.tables.category_codes import codes_of, declared_codes, level_of_each_code
from equipoise.tables.columns import Column
from equipoise.tables.fitted_columns import arranged, warn_unseen
from equipoise.tables.levels import unseen_levels
from equipoise.tables.reading import as_numbers, read_features
from equipoise.tables.tree_state import TreeEncoderState

#: Powers of two of a column's largest size between which LightGBM reads it as it is.
_LEAST, _MOST = -60, 900


class TreeEncoder:
    """Encode features as a float64 matrix (n, columns), one column for each input column.

    Numbers stay as they are and booleans become 0/1, NaN where missing. (A column of numbers that
    are all below 1e-18 in size, or some above 1e270, is divided by a power of two: LightGBM takes
    what is below 1e-35 for 0 and cuts off what is above 1e300.) Text and categoricals
    become the codes of their levels, NaN where missing or not seen at fit. Text is numbered in
    sorted order and a pandas categorical by its own categories, so these are the codes that
    LightGBM gives to the same frame with text as ``category``. A column without any value at fit
    is NaN throughout.

    An ordered categorical (pandas, polars Enum, pyarrow) is numbered in its order and, as
    LightGBM does, left to be split like a number: it is not in `categorical_`.

    Attributes
    ----------
    names_ : list of str
        Names of the columns.
    categorical_ : tuple of int
        Positions of the columns that hold codes of categories, LightGBM's
        ``categorical_feature``.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"hours": [20, 40, None], "job": ["nurse", None, "cook"]})
    >>> encoder = TreeEncoder()
    >>> encoder.fit_transform(X)
    array([[20.,  1.],
           [40., nan],
           [nan,  0.]])
    >>> encoder.names_, encoder.categorical_
    (['hours', 'job'], (1,))
    """

    names_: list[str]
    categorical_: tuple[int, ...]

    def fit(self, X: Any) -> TreeEncoder:
        """Learn families and categories from the rows of X.

        X: array of two dimensions or DataFrame (pandas, polars, pyarrow), (n, columns).
        """
        self._adopt(_learned(X, read_features(X)))
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Encode rows with the columns seen at fit, in any order when they have names."""
        if not hasattr(self, "names_"):
            raise NotFittedError("TreeEncoder must be fitted before transform; call fit first")
        columns = arranged(read_features(X), self._state.families)
        self._warn_newly_missing(columns)
        return self._transform(columns)

    def fit_transform(self, X: Any) -> NDArray[np.float64]:
        """Learn from X and encode it."""
        columns = read_features(X)
        self._adopt(_learned(X, columns))
        return self._transform(columns)

    def state(self) -> TreeEncoderState:
        """Everything learned, as plain data."""
        return self._state

    @classmethod
    def from_state(cls, state: TreeEncoderState) -> TreeEncoder:
        """Return the encoder whose `state` this is."""
        encoder = cls()
        encoder._adopt(state)
        return encoder

    def _adopt(self, state: TreeEncoderState) -> None:
        self._state = state
        self.names_ = list(state.families)
        self.categorical_ = state.categorical

    def _warn_newly_missing(self, columns: Sequence[Column]) -> None:
        affected = [
            column.name
            for column in columns
            if column.name in self._state.complete and column.missing.any()
        ]
        if affected:
            warnings.warn(
                f"X has missing values in {', '.join(map(repr, affected))}, where there were none "
                "at fit; LightGBM takes them for 0",
                UserWarning,
                stacklevel=3,
            )

    def _transform(self, columns: Sequence[Column]) -> NDArray[np.float64]:
        levels = self._state.levels
        unseen = {
            column.name: unseen_levels(column, levels[column.name])
            for column in columns
            if column.name in levels
        }
        warn_unseen(unseen, treated="treated as missing")
        matrix = np.empty((len(columns[0].missing), len(columns)))
        for position, column in enumerate(columns):
            matrix[:, position] = self._encoded(column)
        return matrix

    def _encoded(self, column: Column) -> NDArray[np.float64]:
        """One column of the matrix, (n,)."""
        if self._state.families[column.name] == "empty":
            return np.full(len(column.missing), np.nan)  # nothing was learned about this column
        if column.name in self._state.levels:
            return codes_of(column, self._state.levels[column.name])
        numbers = as_numbers(column)
        power = self._state.powers.get(column.name, 0)
        if power == 0:
            return numbers
        with np.errstate(over="ignore"):
            return np.ldexp(numbers, -power)


def _learned(X: Any, columns: Sequence[Column]) -> TreeEncoderState:
    """What the training rows X, read as these columns, say about new rows."""
    declared = declared_codes(X)
    categorical = [column for column in columns if column.family in ("text", "categorical")]
    powers = {
        column.name: exponent(as_numbers(column)) for column in columns if column.family == "number"
    }
    powers = {name: power for name, power in powers.items() if not _LEAST < power < _MOST}
    return TreeEncoderState(
        families={column.name: column.family for column in columns},
        levels={
            column.name: level_of_each_code(column, declared.get(column.name))
            for column in categorical
        },
        ordered=tuple(
            column.name
            for column in categorical
            if column.name in declared and declared[column.name].ordered
        ),
        complete=tuple(
            column.name
            for column in columns
            if column.family in ("number", "boolean") and not column.missing.any()
        ),
        powers=powers,
    )
