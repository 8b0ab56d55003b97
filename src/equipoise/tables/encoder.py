"""Turn the features a user hands over into the float matrix a network reads.

Numbers are scaled, booleans become 0/1, text and categoricals one-hot columns, and missing values
a flag of their own. Everything learned comes from the rows given to `fit`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from equipoise.errors import InputError, check_choice
from equipoise.scales import center_and_spread, exponent, reduced
from equipoise.tables.columns import Column
from equipoise.tables.features import (
    CATEGORICAL,
    Encoder,
    LearnedState,
    Unfamiliar,
    level_names,
    positions_of,
)

Scaling = Literal["rank", "minmax", "standard", "none"]
Floats = NDArray[np.float64]

MAX_CATEGORIES = 255
_LINEAR = {"minmax": ("scale_", "min_"), "standard": ("mean_", "scale_"), "none": ()}
_MAX_SCORE = 3.5
_MAX_STRETCH = 2.0
_STEPS = 1000
_ARRAYS = ("constant", "scaler")  # what a state holds as arrays


@dataclass(frozen=True)
class Levels:
    """The categories of a text or categorical column, as learned from training rows."""

    categories: tuple[str | None, ...]  # all that occurred, sorted; None, for missing values, last
    # The least frequent, where there are more than `MAX_CATEGORIES`; they share the last column.
    rare: tuple[str | None, ...]

    @classmethod
    def learn(cls, column: Column) -> Levels:
        """Collect the categories of training rows; of equally frequent ones the first are rare."""
        assert column.codes is not None
        text, counts = level_names(column), Counter[str | None]()
        for code, count in zip(*np.unique(column.codes, return_counts=True), strict=True):
            counts[text[code]] += int(count)
        categories = sorted(counts, key=lambda name: (name is None, name or ""))
        rare: list[str | None] = []
        if len(categories) > MAX_CATEGORIES:
            order = np.argsort([counts[name] for name in categories], kind="stable")
            rare = [categories[place] for place in np.sort(order[: 1 - MAX_CATEGORIES])]
        return cls(tuple(categories), tuple(rare))

    @property
    def frequent(self) -> list[str | None]:
        """Categories with a 0/1 column of their own, in the order of these."""
        rare = set(self.rare)
        return [category for category in self.categories if category not in rare]

    @property
    def positions(self) -> dict[str | None, int]:
        """Which 0/1 column each category has."""
        frequent = {category: position for position, category in enumerate(self.frequent)}
        return {**frequent, **dict.fromkeys(self.rare, len(frequent))}

    @property
    def width(self) -> int:
        """Number of 0/1 columns."""
        return len(self.frequent) + bool(self.rare)

    def names(self, column: str) -> list[str]:
        """Names of the 0/1 columns."""
        names = [
            f"{column} is missing" if category is None else f"{column}={category}"
            for category in self.frequent
        ]
        return [*names, f"{column} is infrequent"] if self.rare else names

    def check(self) -> None:
        """Refuse categories that cannot have been learned (ValueError)."""
        known, rare = set(self.categories), set(self.rare)
        if not all(level is None or isinstance(level, str) for level in known | rare):
            raise ValueError("categories must be text")
        if len(known) < len(self.categories) or len(rare) < len(self.rare) or not rare <= known:
            raise ValueError("categories must be distinct, and rare ones among them")


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderState(LearnedState):
    """Everything that decides how a fitted `FeatureEncoder` encodes rows."""

    scaling: Scaling
    flagged: tuple[str, ...]  # numbers and booleans whose missing values get a 0/1 column
    medians: Mapping[str, float]  # what replaces missing numbers and booleans
    levels: Mapping[str, Levels]  # of text and categorical columns
    constant: NDArray[np.bool_]  # (m,): which of the m number columns become zeros
    scaler: Mapping[str, Floats]  # what `learn_scaling` returned

    @property
    def names(self) -> list[str]:
        """Names of the columns of the matrix."""
        names = [*self.number_names, *self.boolean_names]
        names += [f"{name} is missing" for name in self.flagged]
        return names + [each for name, levels in self.levels.items() for each in levels.names(name)]

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

    @property
    def complete(self) -> list[str]:
        """Numbers and booleans without a missing value at fit."""
        return [name for name in self.medians if name not in self.flagged]

    def unfamiliar(self, never_missing: Collection[int]) -> Unfamiliar:
        """What no row held at fit; ``never_missing`` matters to trees only."""
        known = {name: levels.categories for name, levels in self.levels.items()}
        categories = [name for name in known if None not in known[name]]
        return Unfamiliar(
            missing=dict.fromkeys(self.complete, "the median of the training rows stands in for it")
            | dict.fromkeys(categories, "they are scored as having no category"),
            unseen=dict.fromkeys(known, "they are scored as having none"),
            known=known,
        )

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The plain values and the arrays that a file holds."""
        values = {name: value for name, value in vars(self).items() if name not in _ARRAYS}
        levels = {name: (kept.categories, kept.rare) for name, kept in self.levels.items()}
        arrays = {f"scaler.{name}": array for name, array in self.scaler.items()}
        return {**values, "levels": levels}, {**arrays, "constant": self.constant}

    @classmethod
    def fields_in(
        cls, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> dict[str, Any]:
        """The fields of the state whose `parts` are among these."""
        levels = {name: Levels(*pair) for name, pair in values["levels"].items()}
        of_scaler = [name for name in arrays if name.startswith("scaler.")]
        scaler = {name.removeprefix("scaler."): arrays[name] for name in of_scaler}
        return {**values, "levels": levels, "constant": arrays["constant"], "scaler": scaler}

    def check(self) -> None:
        """Refuse what only a forged file holds (ValueError)."""
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
            levels.check()
        columns = len(self.number_names)
        if self.constant.shape != (columns,):
            raise ValueError("there must be one constant flag for each number")
        check_scaling(self.scaling, self.scaler, columns)


class FeatureEncoder(Encoder[EncoderState]):
    """Encode features as a float32 matrix (n, p).

    The output holds, in this order: numbers, scaled; booleans, as 0/1; for each of these that had
    missing values a 0/1 flag; text and categoricals, one 0/1 column per category. A missing number
    or boolean is replaced by the median of the training rows; a missing category is a category of
    its own. A column that is constant in the training rows becomes zeros unless scaling is "none".

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

    state_type = EncoderState
    _missing_words = "the median of the training rows stands in for them"
    _unseen_words = "encoded as zeros"

    def __init__(self, *, scaling: Scaling = "rank") -> None:
        self.scaling = scaling

    def _learned(self, X: Any, columns: Sequence[Column]) -> EncoderState:
        check_choice("scaling", self.scaling, get_args(Scaling))
        numbers = [column for column in columns if column.family in ("number", "empty")]
        numeric = [*numbers, *(column for column in columns if column.family == "boolean")]
        constant, scaler = np.zeros(0, dtype=bool), {}
        if numbers:
            matrix = np.column_stack([column.as_numbers() for column in numbers])
            matrix[:, np.isnan(matrix).all(axis=0)] = 0.0
            constant = np.nanmax(matrix, axis=0) == np.nanmin(matrix, axis=0)
            constant &= self.scaling != "none"
            scaler = learn_scaling(self.scaling, matrix)
        return EncoderState(
            scaling=self.scaling,
            families={column.name: column.family for column in columns},
            flagged=tuple(column.name for column in numeric if column.missing.any()),
            medians={column.name: _median(column) for column in numeric},
            levels={c.name: Levels.learn(c) for c in columns if c.family in CATEGORICAL},
            constant=constant,
            scaler=scaler,
        )

    @classmethod
    def from_state(cls, state: EncoderState) -> Self:
        """Return the encoder whose `state` this is."""
        encoder = super().from_state(state)
        encoder.scaling = state.scaling
        return encoder

    def _encoded(self, columns: Sequence[Column]) -> NDArray[np.float32]:
        state = self._state
        by_name = {column.name: column for column in columns}
        blocks: list[NDArray[Any]] = []
        if state.number_names:
            numbers = np.column_stack([self._filled(by_name[name]) for name in state.number_names])
            with np.errstate(over="ignore", invalid="ignore"):  # refused below, in words
                numbers = scale(state.scaling, state.scaler, numbers)
            numbers[:, state.constant] = 0.0
            blocks.append(numbers)
        blocks += [self._filled(by_name[name])[:, None] for name in state.boolean_names]
        blocks += [by_name[name].missing[:, None] for name in state.flagged]
        for name, levels in state.levels.items():
            places = positions_of(by_name[name], levels.positions)[:, None]
            blocks.append(np.asarray(places == np.arange(levels.width), dtype=np.float32))
        matrix = np.concatenate(blocks, axis=1)
        sizes = np.abs(matrix).max(axis=0)
        largest = np.finfo(np.float32).max
        if not (sizes <= largest).all():  # by scaling, since the input was checked on reading
            place = int((~(sizes <= largest)).argmax())
            raise InputError(
                f"X column {self.names_[place]!r} must stay within float32 (up to {largest:.3g}) "
                f"after scaling, got {sizes[place]:.3g}; use scaling='rank', which is bounded"
            )
        return matrix.astype(np.float32)

    def _filled(self, column: Column) -> Floats:
        """Numbers of a column (n,), the training median where missing."""
        if self._state.families[column.name] == "empty":
            return np.zeros(len(column.missing))  # nothing was learned about this column
        numbers = column.as_numbers()
        return np.where(np.isnan(numbers), self._state.medians[column.name], numbers)


def _median(column: Column) -> float:
    """Median of the known values, 0 without any.

    Not scikit-learn's SimpleImputer: its median of 1.6e308 and 1.7e308 is infinite.
    """
    known = column.as_numbers()[~column.missing]
    small, power = reduced(known)
    return float(np.ldexp(np.median(small), power)) if known.size else 0.0


def learn_scaling(scaling: Scaling, matrix: Floats) -> dict[str, Floats]:
    """Return what a scaling learns from numbers (n, m), NaN left out, as a mapping of arrays.

    "rank": "knots_0" and "scores_0" (k,) for the first column and so on; "minmax": "scale_" and
    "min_" (m,); "standard": "mean_" and "scale_" (m,). scikit-learn's scalers take a column of
    small spread for a constant, and one of 1e200 for infinite. Its QuantileTransformer puts the
    ends of every column at +-5.2.
    """
    known = [column[~np.isnan(column)] for column in matrix.T]
    if scaling == "rank":
        learned = {}
        for position, values in enumerate(known):
            learned[f"knots_{position}"], learned[f"scores_{position}"] = rank_map(values)
        return learned
    if scaling == "standard":
        mean, spread = np.array([center_and_spread(values) for values in known]).T
        return {"mean_": mean, "scale_": np.where(spread > 0, spread, 1.0)}
    if scaling == "minmax":
        low = np.array([values.min() for values in known])
        high = np.array([values.max() for values in known])
        scale = 1 / np.where(high > low, high / 2 - low / 2, 1.0)
        return {"scale_": scale, "min_": -1 - low * scale}
    return {}


def scale(scaling: Scaling, learned: Mapping[str, Floats], matrix: Floats) -> Floats:
    """Scale numbers (n, m) without NaN by what `learn_scaling` returned."""
    if scaling == "rank":
        columns = [
            rank_scores(values, learned[f"knots_{position}"], learned[f"scores_{position}"])
            for position, values in enumerate(matrix.T)
        ]
        return np.column_stack(columns)
    if scaling == "minmax":
        return np.asarray(matrix * learned["scale_"] + learned["min_"])
    if scaling == "standard":
        return np.asarray((matrix - learned["mean_"]) / learned["scale_"])
    return matrix


def check_scaling(scaling: Scaling, learned: Mapping[str, Floats], columns: int) -> None:
    """Refuse what `learn_scaling` cannot have returned for so many columns (ValueError)."""
    pairs = [(f"knots_{position}", f"scores_{position}") for position in range(columns)]
    ranks = scaling == "rank"
    names = {name for pair in pairs for name in pair} if ranks else {*_LINEAR[scaling]}
    if set(learned) != (names if columns else set()):
        raise ValueError("the scaler has other columns")
    if not ranks:
        if any(array.shape != (columns,) for array in learned.values()):
            raise ValueError("the scaler has other columns")
        return
    for knots, scores in pairs:
        if learned[knots].ndim != 1 or learned[knots].shape != learned[scores].shape:
            raise ValueError("knots and scores differ in number")
        if not len(learned[knots]) or not (np.diff(learned[knots]) > 0).all():
            raise ValueError("knots must ascend")


def rank_map(values: Floats) -> tuple[Floats, Floats]:
    """Distinct values and their rank scores, (k,) each, for values (n,) without NaN.

    A value gets the normal quantile of the share of rows up to it, counting half of its ties (the
    plotting position of Hazen, 1914), clamped to +-3.5. These scores are centered and divided by
    their standard deviation. A column ruled by one tied value has little spread; it is stretched
    by at most a factor of two, so that its rare values stay moderate. Two values become -1 and 1,
    a constant 0.

    Strictly increasing maps of a column leave its scores as they are, exactly so up to 2000
    distinct values. Beyond, the map is kept at both sides of 1000 even steps in the share of rows.

    >>> rank_map(np.array([3.0, 1000.0, 1.0]))[1].round(3)
    array([-1.225,  0.   ,  1.225])
    """
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) == 1:
        return distinct, np.zeros(1)
    if len(distinct) == 2:
        return distinct, np.array([-1.0, 1.0])
    share = (np.cumsum(counts) - counts / 2) / len(values)
    scores = np.clip(ndtri(share), -_MAX_SCORE, _MAX_SCORE)
    scores -= np.average(scores, weights=counts)
    spread = np.sqrt(np.average(scores**2, weights=counts))
    scores *= min(1 / spread, _MAX_STRETCH)
    if len(distinct) > 2 * _STEPS:
        # Even in share, not in value: knots where the rows are. Both neighbors of a step are
        # kept, so that a large group of ties does not blur into the values beside it.
        above = np.searchsorted(share, np.linspace(share[0], share[-1], _STEPS))
        kept = np.unique([above, np.maximum(above - 1, 0)])
        distinct, scores = distinct[kept], scores[kept]
    return distinct, scores


def rank_scores(values: Floats, knots: Floats, scores: Floats) -> Floats:
    """Scores of values (n,): linear between knots, that of the nearest knot beyond them."""
    power = -exponent(knots)  # between the smallest numbers no gradient is a number
    with np.errstate(over="ignore"):
        values = np.ldexp(values, power)
    return np.interp(values, np.ldexp(knots, power), scores)
