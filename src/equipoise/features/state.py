"""What a fitted feature encoder has learned, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from equipoise.features.levels import Levels
from equipoise.features.rank import RankScaler
from equipoise.scales import center_and_spread
from equipoise.sensitive.columns import Family

Scaling = Literal["rank", "minmax", "standard", "none"]

#: What the transform of scikit-learn's scalers reads: x * scale_ + min_ and (x - mean_) / scale_.
_LEARNED = {"minmax": ("scale_", "min_"), "standard": ("mean_", "scale_"), "none": ()}


@dataclass(frozen=True, eq=False)
class EncoderState:
    """Everything that decides how a fitted `FeatureEncoder` encodes rows.

    Attributes
    ----------
    scaling : {"rank", "minmax", "standard", "none"}
    families : mapping of input column to its family, in the order seen at fit
    flagged : tuple of str
        Numbers and booleans whose missing values get a 0/1 column.
    medians : mapping of number and boolean columns to what replaces missing values
    levels : mapping of text and categorical columns to their categories
    constant : ndarray of bool, (m,)
        Which of the m number columns become zeros.
    scaler : mapping of name to array
        "rank": "knots_0" and "scores_0" (k,) for the first number column and so on; otherwise
        the attributes (m,) of scikit-learn's scaler, by their names there.
    """

    scaling: Scaling
    families: Mapping[str, Family]
    flagged: tuple[str, ...]
    medians: Mapping[str, float]
    levels: Mapping[str, Levels]
    constant: NDArray[np.bool_]
    scaler: Mapping[str, NDArray[np.float64]]

    @property
    def number_names(self) -> list[str]:
        """Columns that are scaled, those without any value included."""
        return [name for name, kind in self.families.items() if kind in ("number", "empty")]

    @property
    def boolean_names(self) -> list[str]:
        """Columns of booleans."""
        return [name for name, kind in self.families.items() if kind == "boolean"]

    @property
    def is_numeric(self) -> bool:
        """Whether every column holds numbers, so that an array can hold them all."""
        return len(self.number_names) == len(self.families)


def fitted_scaler(scaling: Scaling, matrix: NDArray[np.float64]) -> Any:
    """Return the transformer of numbers that has learned from (n, m), NaN left out.

    scikit-learn takes a column of small spread for a constant, and one of 1e200 for infinite.
    """
    if scaling in ("rank", "none"):
        return new_scaler(scaling).fit(matrix)
    known = [column[~np.isnan(column)] for column in matrix.T]
    if scaling == "standard":
        learned = [center_and_spread(values) for values in known]
        mean, spread = np.array(learned).T
        arrays = {"mean_": mean, "scale_": np.where(spread > 0, spread, 1.0)}
    else:
        low = np.array([values.min() for values in known])
        high = np.array([values.max() for values in known])
        scale = 1 / np.where(high > low, high / 2 - low / 2, 1.0)
        arrays = {"scale_": scale, "min_": -1 - low * scale}
    return scaler_from_arrays(scaling, arrays, len(known))


def new_scaler(scaling: Scaling) -> Any:
    """Return the transformer of numbers (n, m) that goes by this name."""
    return {
        "rank": RankScaler,
        "minmax": lambda: MinMaxScaler(feature_range=(-1, 1)),
        "standard": StandardScaler,
        "none": FunctionTransformer,
    }[scaling]()


def scaler_arrays(scaling: Scaling, scaler: Any) -> dict[str, NDArray[np.float64]]:
    """Return what a fitted scaler has learned, by name."""
    if scaling != "rank":
        return {name: getattr(scaler, name) for name in _LEARNED[scaling]}
    arrays = {}
    for position, (knots, scores) in enumerate(scaler.maps_):
        arrays[f"knots_{position}"], arrays[f"scores_{position}"] = knots, scores
    return arrays


def scaler_from_arrays(
    scaling: Scaling, arrays: Mapping[str, NDArray[np.float64]], columns: int
) -> Any:
    """Return the scaler of this many columns that `scaler_arrays` was read from."""
    scaler = new_scaler(scaling)
    if scaling == "rank":
        scaler.maps_ = [(arrays[f"knots_{i}"], arrays[f"scores_{i}"]) for i in range(columns)]
    else:
        scaler.n_features_in_ = columns
        for name in _LEARNED[scaling]:
            setattr(scaler, name, arrays[name])
    return scaler
