"""What a fitted feature encoder has learned, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from equipoise.scales import center_and_spread
from equipoise.tables.columns import Family
from equipoise.tables.levels import Levels
from equipoise.tables.rank import RankScaler

Scaling = Literal["rank", "minmax", "standard", "none"]

#: What the transform of scikit-learn's scalers reads: x * scale_ + min_ and (x - mean_) / scale_.
_LEARNED = {"minmax": ("scale_", "min_"), "standard": ("mean_", "scale_"), "none": ()}


@dataclass(frozen=True)
class Unfamiliar:
    """What rows may hold that no row held at fit, and what becomes of such rows.

    Attributes
    ----------
    missing : mapping of str to str
        Columns without a missing value at fit, and how one is treated.
    unseen : mapping of str to str
        Columns of categories, and how another category is treated.
    known : mapping of str to frozenset of str
        The categories of these columns at fit.
    """

    missing: Mapping[str, str]
    unseen: Mapping[str, str]
    known: Mapping[str, frozenset[str]]


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

    def unfamiliar(self, never_missing: frozenset[int]) -> Unfamiliar:
        """What no row held at fit; ``never_missing`` matters to trees only."""
        numbers = [
            name
            for name in self.medians
            if name not in self.flagged and self.families[name] != "empty"
        ]
        known = {name: named_levels(levels.categories) for name, levels in self.levels.items()}
        complete = [name for name in known if None not in self.levels[name].categories]
        return Unfamiliar(
            missing=dict.fromkeys(numbers, "the median of the training rows stands in for it")
            | dict.fromkeys(complete, "they are scored as having no category"),
            unseen=dict.fromkeys(known, "they are scored as having none"),
            known=known,
        )

    def check(self) -> None:
        """Refuse parts that do not fit one another, as only a forged file has them (ValueError)."""
        numeric = [*self.number_names, *self.boolean_names]
        if not self.families or set(self.medians) != set(numeric):
            raise ValueError("there must be a median for each number and boolean")
        if not np.isfinite(list(self.medians.values())).all():
            raise ValueError("medians must be finite")
        if len(set(self.flagged)) < len(self.flagged) or not set(self.flagged) <= set(numeric):
            raise ValueError("only numbers and booleans can be flagged, and once")
        if set(self.levels) != set(self.families) - set(numeric):
            raise ValueError("there must be categories for each column of text")
        for levels in self.levels.values():
            known, rare = set(levels.categories), set(levels.rare)
            repeated = len(known) < len(levels.categories) or len(rare) < len(levels.rare)
            if repeated or not rare <= known:
                raise ValueError("categories must be distinct, and rare ones among them")
        columns = len(self.number_names)
        if self.constant.shape != (columns,):
            raise ValueError("there must be one constant flag for each number")
        _check_scaler(self.scaling, self.scaler, columns)

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


def _check_scaler(
    scaling: Scaling, arrays: Mapping[str, NDArray[np.float64]], columns: int
) -> None:
    """Refuse arrays that are not those of a scaler of this many columns."""
    if scaling != "rank":
        names = _LEARNED[scaling] if columns else ()
        if set(arrays) != set(names) or any(arrays[n].shape != (columns,) for n in names):
            raise ValueError("the scaler has other columns")
        return
    pairs = [(f"knots_{position}", f"scores_{position}") for position in range(columns)]
    if set(arrays) != {name for pair in pairs for name in pair}:
        raise ValueError("the scaler has other columns")
    for knots, scores in pairs:
        if arrays[knots].ndim != 1 or arrays[knots].shape != arrays[scores].shape:
            raise ValueError("knots and scores differ in number")
        if not len(arrays[knots]) or not (np.diff(arrays[knots]) > 0).all():
            raise ValueError("knots must ascend")


def named_levels(levels: Iterable[str | None]) -> frozenset[str]:
    """Categories that have a name: missing values have none."""
    return frozenset(level for level in levels if level is not None)
