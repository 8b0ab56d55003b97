"""Turn the features a user hands over into the float matrix a predictor reads.

Numbers are scaled, booleans become 0/1, text and categoricals one-hot columns, and missing values
a flag of their own. Everything learned comes from the rows given to `fit`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from equipoise.errors import InputError, check_choice
from equipoise.scales import reduced
from equipoise.tables.columns import Column, Family
from equipoise.tables.fitted_columns import arranged, listed, warn_unseen
from equipoise.tables.levels import Levels
from equipoise.tables.reading import as_numbers, read_features
from equipoise.tables.state import (
    EncoderState,
    Scaling,
    fitted_scaler,
    scaler_arrays,
    scaler_from_arrays,
)

_SCALING_WORDS = {
    "rank": "rank scores",
    "minmax": "scaled to [-1, 1]",
    "standard": "standardized",
    "none": "as it is",
}


class FeatureEncoder:
    """Encode features as a float32 matrix (n, p).

    The output holds, in this order: numbers, scaled; booleans, as 0/1; for each of these that had
    missing values a 0/1 flag; text and categoricals, one 0/1 column per category. A missing number
    or boolean is replaced by the median of the training rows; a missing category is a category of
    its own. A column that is constant in the training rows becomes zeros unless scaling is "none".

    Parameters
    ----------
    scaling : {"rank", "minmax", "standard", "none"}
        What is done to numbers: normal scores of their ranks, [-1, 1], mean 0 and variance 1, or
        nothing.

    Attributes
    ----------
    names_ : list of str
        Names of the p output columns.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"hours": [20, 40, 60], "job": ["cook", "nurse", None]})
    >>> encoder = FeatureEncoder(scaling="minmax")
    >>> encoder.fit_transform(X)
    array([[-1.,  1.,  0.,  0.],
           [ 0.,  0.,  1.,  0.],
           [ 1.,  0.,  0.,  1.]], dtype=float32)
    >>> encoder.names_
    ['hours', 'job=cook', 'job=nurse', 'job is missing']
    """

    names_: list[str]
    #: Every category has a column of its own, so none holds codes.
    categorical_: tuple[int, ...] = ()

    def __init__(self, *, scaling: Scaling = "rank") -> None:
        self.scaling = scaling

    def fit(self, X: Any) -> FeatureEncoder:
        """Learn scaling and categories from the rows of X.

        X: array of two dimensions or DataFrame (pandas, polars, pyarrow), (n, columns).
        """
        self._fit(read_features(X))
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Encode rows with the columns seen at fit, in any order when they have names."""
        if not hasattr(self, "names_"):
            raise NotFittedError("FeatureEncoder must be fitted before transform; call fit first")
        return self._transform(arranged(read_features(X), self._families))

    def fit_transform(self, X: Any) -> NDArray[np.float32]:
        """Learn from X and encode it."""
        columns = read_features(X)
        self._fit(columns)
        return self._transform(columns)

    def state(self) -> EncoderState:
        """Everything learned, as plain data."""
        numeric = bool(self._number_names)
        return EncoderState(
            scaling=self.scaling,
            families=dict(self._families),
            flagged=tuple(self._flagged),
            medians=dict(self._medians),
            levels=dict(self._levels),
            constant=self._constant if numeric else np.zeros(0, dtype=bool),
            scaler=scaler_arrays(self.scaling, self._scaler) if numeric else {},
        )

    @classmethod
    def from_state(cls, state: EncoderState) -> FeatureEncoder:
        """Return the encoder whose `state` this is."""
        encoder = cls(scaling=state.scaling)
        encoder._families = dict(state.families)
        encoder._number_names = state.number_names
        encoder._boolean_names = state.boolean_names
        encoder._flagged = list(state.flagged)
        encoder._medians = dict(state.medians)
        encoder._levels = dict(state.levels)
        if encoder._number_names:
            encoder._constant = state.constant
            encoder._scaler = scaler_from_arrays(
                state.scaling, state.scaler, len(encoder._number_names)
            )
        encoder.names_ = encoder._output_names()
        return encoder

    def describe(self) -> str:
        """One line for each input column: what it is and what it becomes."""
        width = max(map(len, self._families))
        flagged = set(self._flagged)
        names = self._number_names
        constant = dict(zip(names, self._constant, strict=True)) if names else {}
        lines = []
        for name, family in self._families.items():
            became = f"{family}, {self._treatment(name, family, constant)}"
            if name in flagged:
                became += ", missing values flagged"
            lines.append(f"{name.ljust(width)}  {became}")
        return "\n".join(lines)

    def _treatment(self, name: str, family: Family, constant: Mapping[str, np.bool_]) -> str:
        if family in ("text", "categorical"):
            return f"one-hot of {len(self._levels[name].categories)} categories"
        if family == "boolean":
            return "0/1"
        return "zeros (constant)" if constant[name] else _SCALING_WORDS[self.scaling]

    def _fit(self, columns: Sequence[Column]) -> None:
        check_choice("scaling", self.scaling, get_args(Scaling))
        self._families = {column.name: column.family for column in columns}
        number_like = [column for column in columns if column.family in ("number", "empty")]
        booleans = [column for column in columns if column.family == "boolean"]
        self._levels = {
            column.name: Levels.learn(column)
            for column in columns
            if column.family in ("text", "categorical")
        }
        self._number_names = [column.name for column in number_like]
        self._boolean_names = [column.name for column in booleans]
        self._flagged = [
            column.name for column in (*number_like, *booleans) if column.missing.any()
        ]
        self._medians = {column.name: _median(column) for column in (*number_like, *booleans)}
        if number_like:
            self._fit_scaler(np.column_stack([as_numbers(column) for column in number_like]))
        self.names_ = self._output_names()

    def _output_names(self) -> list[str]:
        names = [*self._number_names, *self._boolean_names]
        names += [f"{name} is missing" for name in self._flagged]
        for column, levels in self._levels.items():
            names += levels.names(column)
        return names

    def _fit_scaler(self, matrix: NDArray[np.float64]) -> None:
        """Learn the scaling of numbers (n, m) from their known values."""
        empty = np.isnan(matrix).all(axis=0)
        matrix[:, empty] = 0.0
        constant = np.nanmax(matrix, axis=0) == np.nanmin(matrix, axis=0)
        self._constant = constant & (self.scaling != "none")
        self._scaler = fitted_scaler(self.scaling, matrix)

    def _transform(self, columns: Sequence[Column]) -> NDArray[np.float32]:
        by_name = {column.name: column for column in columns}
        self._warn_newly_missing(columns)
        blocks: list[NDArray[Any]] = []
        if self._number_names:
            numbers = [self._filled(by_name[name]) for name in self._number_names]
            with np.errstate(over="ignore", invalid="ignore"):  # refused below, in words
                scaled = self._scaler.transform(np.column_stack(numbers))
            scaled[:, self._constant] = 0.0
            blocks.append(scaled)
        blocks += [self._filled(by_name[name])[:, None] for name in self._boolean_names]
        blocks += [by_name[name].missing[:, None] for name in self._flagged]
        unseen = {name: kept.unseen(by_name[name]) for name, kept in self._levels.items()}
        warn_unseen(unseen, treated="encoded as zeros")
        blocks += [levels.one_hot(by_name[name]) for name, levels in self._levels.items()]
        matrix = np.concatenate(blocks, axis=1)
        self._refuse_overflow(matrix)
        return matrix.astype(np.float32)

    def _filled(self, column: Column) -> NDArray[np.float64]:
        """Numbers of a column (n,), the training median where missing."""
        if self._families[column.name] == "empty":
            return np.zeros(len(column.missing))  # nothing was learned about this column
        numbers = as_numbers(column)
        return np.where(np.isnan(numbers), self._medians[column.name], numbers)

    def _warn_newly_missing(self, columns: Sequence[Column]) -> None:
        flagged = set(self._flagged)
        affected = [
            column.name
            for column in columns
            if column.name in self._medians and column.name not in flagged and column.missing.any()
        ]
        if affected:
            warnings.warn(
                f"X has missing values in {listed(affected)}, where there were none at fit; "
                "the median of the training rows stands in for them",
                UserWarning,
                stacklevel=4,
            )

    def _refuse_overflow(self, matrix: NDArray[Any]) -> None:
        """Refuse what scaling pushed beyond float32; the input itself is checked on reading."""
        too_large = ~(np.abs(matrix).max(axis=0) <= np.finfo(np.float32).max)
        if too_large.any():
            place = int(too_large.argmax())
            raise InputError(
                f"X column {self.names_[place]!r} must stay within float32 (up to "
                f"{np.finfo(np.float32).max:.3g}) after scaling, got "
                f"{np.abs(matrix[:, place]).max():.3g}; use scaling='rank', which is bounded"
            )


def _median(column: Column) -> float:
    numbers = as_numbers(column)
    known = numbers[~np.isnan(numbers)]
    small, power = reduced(known)
    return float(np.ldexp(np.median(small), power)) if known.size else 0.0
