"""Turn a user's features into a matrix of numbers.

`Encoder` has what both encoders share: it reads rows and compares them with the rows of `fit`.
`FeatureEncoder` is for networks. `TreeEncoder` is for boosted trees, which need no scaling and
handle missing values and categories themselves, so that every column stays one column.
"""

from __future__ import annotations

import difflib
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, get_args

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.exceptions import NotFittedError

from equipoise.errors import InputError, check_choice
from equipoise.scales import center_and_spread, exponent, reduced
from equipoise.tables.columns import Column, Family, read_columns

Arrays = Mapping[str, NDArray[Any]]
CATEGORICAL = ("text", "categorical")
_FAMILY_WORDS = {
    "number": "numbers",
    "boolean": "booleans",
    "text": "text or categories",
    "categorical": "text or categories",
}


@dataclass(frozen=True, eq=False)
class LearnedState(ABC):
    """What an encoder has learned at fit, as plain data."""

    families: Mapping[str, Family]  # of the input columns, in the order seen at fit

    @property
    @abstractmethod
    def complete(self) -> Collection[str]:
        """Columns of numbers or booleans without a missing value at fit."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of the columns of the matrix."""

    @property
    def categorical(self) -> tuple[int, ...]:
        """Positions of the columns of the matrix that hold codes of categories."""
        return ()

    @abstractmethod
    def unfamiliar(self, never_missing: Collection[int]) -> Unfamiliar:
        """What would be new in later rows.

        never_missing: positions of the columns for whose missing values the trees have no rule.
        """

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The state as plain values and arrays, for a file."""
        return dict(vars(self)), {}

    @classmethod
    def fields_in(cls, values: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
        """The fields of a state from its `parts`."""
        return dict(values)

    @abstractmethod
    def check(self) -> None:
        """Raise ValueError if the parts contradict each other, as in a forged file."""


@dataclass(frozen=True)
class Unfamiliar:
    """What later rows may hold that no row held at fit, and how it is treated."""

    missing: Mapping[str, str]  # columns complete at fit: how a missing value is treated
    unseen: Mapping[str, str]  # columns of categories: how a new category is treated
    known: Mapping[str, Collection[str | None]]  # the categories of these columns at fit


State = TypeVar("State", bound=LearnedState)


class Encoder(ABC, Generic[State]):
    """Turns features into a matrix of numbers, as learned from the rows given to `fit`."""

    state_type: ClassVar[type[Any]]
    #: What is encoded, as errors name it.
    argument: str = "X"
    _missing_words: ClassVar[str]
    _unseen_words: ClassVar[str]
    _state: State

    def fit(self, X: Any) -> Self:
        """Learn from X (n, columns), a 2-D array or a DataFrame (pandas, polars, pyarrow)."""
        self.fit_transform(X)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Encode rows with the columns seen at fit; columns with names may come in any order."""
        if not hasattr(self, "_state"):
            name = type(self).__name__
            raise NotFittedError(f"{name} must be fitted before transform; call fit first")
        columns = arranged(read_features(X), self._state.families)
        self._warn_of_unknowns(columns)
        return self._encoded(columns)

    def fit_transform(self, X: Any) -> NDArray[Any]:
        """Learn from X and encode it."""
        columns = read_features(X)
        self._state = self._learned(X, columns)
        return self._encoded(columns)

    @property
    def names_(self) -> list[str]:
        """Names of the columns of the matrix."""
        return self._state.names

    @property
    def categorical_(self) -> tuple[int, ...]:
        """Positions of the columns of the matrix that hold codes of categories."""
        return self._state.categorical

    def state(self) -> State:
        return self._state

    @classmethod
    def from_state(cls, state: State) -> Self:
        encoder = cls()
        encoder._state = state
        return encoder

    @abstractmethod
    def _learned(self, X: Any, columns: Sequence[Column]) -> State:
        """Learn from training rows X, read as these columns."""

    @abstractmethod
    def _encoded(self, columns: Sequence[Column]) -> NDArray[Any]:
        """Encode columns in the order seen at fit."""

    def _warn_of_unknowns(self, columns: Sequence[Column]) -> None:
        complete = set(self._state.complete)
        affected = [c.name for c in columns if c.name in complete and c.missing.any()]
        if affected:
            found = f"missing values in {_listed(affected)}, where there were none at fit"
            warnings.warn(f"X has {found}; {self._missing_words}", stacklevel=3)
        unfamiliar = self._state.unfamiliar(())
        described = []
        for column in columns:
            if column.name not in unfamiliar.known:
                continue
            seen = set(unfamiliar.known[column.name])
            shown = [repr(str(level)) for level in column.levels if str(level) not in seen]
            if column.name in unfamiliar.missing and column.missing.any():
                shown.append("missing values")
            if shown:
                more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
                described.append(f"{column.name!r} ({', '.join(shown[:3])}{more})")
        if described:
            found = f"categories not seen at fit, {self._unseen_words}: {'; '.join(described)}"
            warnings.warn(f"X has {found}", stacklevel=3)


def read_features(X: Any) -> tuple[Column, ...]:
    """Read the columns of X, which must have two dimensions."""
    shape = getattr(X, "shape", None)
    if isinstance(X, list | tuple) and X and not isinstance(X[0], list | tuple | np.ndarray):
        shape = (len(X),)
    if shape is not None and len(shape) != 2:
        raise InputError(
            f"X must have two dimensions, got shape {tuple(shape)}; "
            "pass an array of shape (rows, 1) or a DataFrame if it is a single column"
        )
    return read_columns(X, argument="X", prefix="x")


def arranged(columns: tuple[Column, ...], families: Mapping[str, Family]) -> list[Column]:
    """Bring columns into the order seen at fit, by name if they have names.

    families: family of each column seen at fit, in order. Missing columns, further columns and
    columns of another family are refused.
    """
    fitted, given = list(families), [column.name for column in columns]
    if set(fitted) != set(given):
        _refuse_other_names(fitted, given)
        pairs = zip(fitted, columns, strict=True)
        columns = tuple(replace(column, name=name) for name, column in pairs)
    by_name = {column.name: column for column in columns}
    in_order = [by_name[name] for name in fitted]
    for column in in_order:
        _check_family(column, families[column.name])
    return in_order


def _refuse_other_names(fitted: list[str], given: list[str]) -> None:
    """Refuse columns of other names, except nameless ones, which are matched by position."""
    nameless = [[f"x{position}" for position in range(len(names))] for names in (fitted, given)]
    if len(fitted) == len(given) and nameless[0] in (fitted, given):
        return
    if nameless[0] == fitted or nameless[1] == given:
        raise InputError(
            f"X must have the {len(fitted)} columns seen at fit, got {len(given)}; "
            "pass the same columns in the same order"
        )
    known, found = set(fitted), set(given)
    missing = [name for name in fitted if name not in found]
    extra = [name for name in given if name not in known]
    if missing:
        near = difflib.get_close_matches(missing[0], extra, n=1)
        hint = f"; is {near[0]!r} a misspelling of {missing[0]!r}?" if near else ""
        raise InputError(
            f"X must have the columns seen at fit, but {_listed(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing{hint}"
        )
    raise InputError(
        f"X must have only the columns seen at fit, got also {_listed(extra)}; drop them"
    )


def _check_family(column: Column, fitted: Family) -> None:
    if column.family == "empty":
        return
    if fitted == "empty":
        found = f"X column {column.name!r} had no value at fit, so its values are ignored"
        warnings.warn(found, stacklevel=4)
    elif _FAMILY_WORDS[column.family] != _FAMILY_WORDS[fitted]:
        raise InputError(
            f"X column {column.name!r} must hold {_FAMILY_WORDS[fitted]} as at fit, got "
            f"{_FAMILY_WORDS[column.family]}; convert the column"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def level_names(column: Column) -> list[str | None]:
    """Names of the levels, indexed by code; the last one, None, is for the code -1 (missing)."""
    return [*(str(level) for level in column.levels), None]


def positions_of(column: Column, positions: Mapping[str | None, int]) -> NDArray[np.int64]:
    """Position of each row's level (n,), -1 for a level without a position."""
    found = np.array([positions.get(name, -1) for name in level_names(column)], dtype=np.int64)
    if column.codes is None:  # every value is missing
        return np.full(len(column.missing), found[-1])
    return found[column.codes]


Scaling = Literal["rank", "minmax", "standard", "none"]
Floats = NDArray[np.float64]

MAX_CATEGORIES = 255
_LINEAR = {"minmax": ("scale_", "min_"), "standard": ("mean_", "scale_"), "none": ()}
_MAX_SCORE = 3.5
_MAX_STRETCH = 2.0
_STEPS = 1000
_ARRAYS = ("constant", "scaler")  # fields of the state that hold arrays


@dataclass(frozen=True)
class Levels:
    """The categories of a text or categorical column in the training rows."""

    categories: tuple[str | None, ...]  # sorted; None, for missing values, comes last
    # With more than `MAX_CATEGORIES`, the least frequent ones, which share the last column.
    rare: tuple[str | None, ...]

    @classmethod
    def learn(cls, column: Column) -> Levels:
        """Collect the categories; among equally frequent ones, the first become rare."""
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
        """Categories with a 0/1 column of their own, in the order of the columns."""
        rare = set(self.rare)
        return [category for category in self.categories if category not in rare]

    @property
    def positions(self) -> dict[str | None, int]:
        """Position of the 0/1 column of each category."""
        frequent = {category: position for position, category in enumerate(self.frequent)}
        return {**frequent, **dict.fromkeys(self.rare, len(frequent))}

    @property
    def width(self) -> int:
        """Number of 0/1 columns."""
        return len(self.frequent) + bool(self.rare)

    def names(self, column: str) -> list[str]:
        names = [
            f"{column} is missing" if category is None else f"{column}={category}"
            for category in self.frequent
        ]
        return [*names, f"{column} is infrequent"] if self.rare else names

    @property
    def is_sound(self) -> bool:
        """Whether the categories are distinct text and include the rare ones."""
        known, rare = set(self.categories), set(self.rare)
        distinct = len(known) == len(self.categories) and len(rare) == len(self.rare)
        text = all(level is None or isinstance(level, str) for level in known)
        return distinct and text and rare <= known


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderState(LearnedState):
    """What a `FeatureEncoder` has learned."""

    scaling: Scaling
    flagged: tuple[str, ...]  # numbers and booleans whose missing values get a 0/1 column
    medians: Mapping[str, float]  # replace missing numbers and booleans
    levels: Mapping[str, Levels]  # of text and categorical columns
    constant: NDArray[np.bool_]  # (m,): which of the m number columns become zeros
    scaler: Mapping[str, Floats]  # returned by `learn_scaling`

    @property
    def names(self) -> list[str]:
        names = [*self.number_names, *self.boolean_names]
        names += [f"{name} is missing" for name in self.flagged]
        return names + [each for name, levels in self.levels.items() for each in levels.names(name)]

    @property
    def number_names(self) -> list[str]:
        """Columns that are scaled, including those without any value."""
        return [name for name, kind in self.families.items() if kind in ("number", "empty")]

    @property
    def boolean_names(self) -> list[str]:
        return [name for name, kind in self.families.items() if kind == "boolean"]

    @property
    def is_numeric(self) -> bool:
        """Whether every column holds numbers, so that one array can hold them all."""
        return len(self.number_names) == len(self.families)

    @property
    def complete(self) -> list[str]:
        return [name for name in self.medians if name not in self.flagged]

    def unfamiliar(self, never_missing: Collection[int]) -> Unfamiliar:
        known = {name: levels.categories for name, levels in self.levels.items()}
        categories = [name for name in known if None not in known[name]]
        return Unfamiliar(
            missing=dict.fromkeys(self.complete, "the median of the training rows replaces it")
            | dict.fromkeys(categories, "they are scored as having no category"),
            unseen=dict.fromkeys(known, "they are scored as having none"),
            known=known,
        )

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        values = {name: value for name, value in vars(self).items() if name not in _ARRAYS}
        levels = {name: (kept.categories, kept.rare) for name, kept in self.levels.items()}
        arrays = {f"scaler.{name}": array for name, array in self.scaler.items()}
        return {**values, "levels": levels}, {**arrays, "constant": self.constant}

    @classmethod
    def fields_in(cls, values: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
        levels = {name: Levels(*pair) for name, pair in values["levels"].items()}
        of_scaler = [name for name in arrays if name.startswith("scaler.")]
        scaler = {name.removeprefix("scaler."): arrays[name] for name in of_scaler}
        return {**values, "levels": levels, "constant": arrays["constant"], "scaler": scaler}

    def check(self) -> None:
        numeric, columns = {*self.number_names, *self.boolean_names}, len(self.number_names)
        medians = list(self.medians.values())
        sound = {
            "families": bool(self.families),
            "medians": set(self.medians) == numeric and bool(np.isfinite(medians).all()),
            "flagged": len(set(self.flagged)) == len(self.flagged) and numeric >= {*self.flagged},
            "levels": set(self.levels) == set(self.families) - numeric
            and all(levels.is_sound for levels in self.levels.values()),
            "constant": self.constant.shape == (columns,),
            "scaler": _is_sound_scaler(self.scaling, self.scaler, columns),
        }
        if not all(sound.values()):
            wrong = ", ".join(name for name, right in sound.items() if not right)
            raise ValueError(f"these parts of the encoder contradict the others: {wrong}")


class FeatureEncoder(Encoder[EncoderState]):
    """Encode features as a float32 matrix (n, p).

    The matrix has, in this order: scaled numbers; booleans as 0/1; a 0/1 flag for each column of
    numbers or booleans that had missing values; one 0/1 column per category of text and
    categoricals. The median of the training rows replaces a missing number or boolean; a missing
    category is a category of its own. A column that is constant in the training rows becomes zeros
    unless scaling is "none".

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
    _missing_words = "the median of the training rows replaces them"
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
        encoder = super().from_state(state)
        encoder.scaling = state.scaling
        return encoder

    def _encoded(self, columns: Sequence[Column]) -> NDArray[np.float32]:
        state = self._state
        by_name = {column.name: column for column in columns}
        blocks: list[NDArray[Any]] = []
        if state.number_names:
            numbers = np.column_stack([self._filled(by_name[name]) for name in state.number_names])
            with np.errstate(over="ignore", invalid="ignore"):  # refused below
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
        if not (sizes <= largest).all():  # scaling made it so: input is checked on reading
            place = int((~(sizes <= largest)).argmax())
            raise InputError(
                f"{self.argument} column {self.names_[place]!r} must stay within float32 (up to "
                f"{largest:.3g}) after scaling, got {sizes[place]:.3g}; use scaling='rank', which "
                "is bounded"
            )
        return matrix.astype(np.float32)

    def _filled(self, column: Column) -> Floats:
        """Numbers of a column (n,); the training median replaces missing ones."""
        if self._state.families[column.name] == "empty":
            return np.zeros(len(column.missing))  # nothing was learned about this column
        numbers = column.as_numbers()
        return np.where(np.isnan(numbers), self._state.medians[column.name], numbers)


def _median(column: Column) -> float:
    """Median of the known values; 0 if there are none."""
    # scikit-learn's SimpleImputer is not used: its median of 1.6e308 and 1.7e308 is infinite.
    known = column.as_numbers()[~column.missing]
    small, power = reduced(known)
    return float(np.ldexp(np.median(small), power)) if known.size else 0.0


def learn_scaling(scaling: Scaling, matrix: Floats) -> dict[str, Floats]:
    """Learn the parameters of a scaling from numbers (n, m); NaN is left out.

    "rank": "knots_0" and "scores_0" (k,) for the first column and so on; "minmax": "scale_" and
    "min_" (m,); "standard": "mean_" and "scale_" (m,). scikit-learn's scalers are not used: they
    treat a column of small spread as constant and one of 1e200 as infinite, and its
    QuantileTransformer maps the ends of every column to +-5.2.
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
    """Scale numbers (n, m) without NaN; `learned` is what `learn_scaling` returned."""
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


def _is_sound_scaler(scaling: Scaling, learned: Mapping[str, Floats], columns: int) -> bool:
    """Whether `learn_scaling` can have returned this for this number of columns."""
    if scaling != "rank":
        names = _LINEAR[scaling] if columns else ()
        return set(learned) == {*names} and all(a.shape == (columns,) for a in learned.values())
    pairs = [(f"knots_{position}", f"scores_{position}") for position in range(columns)]
    if set(learned) != {name for pair in pairs for name in pair}:
        return False
    maps = [(learned[knots], learned[scores]) for knots, scores in pairs]
    alike = all(x.shape == y.shape and x.ndim == 1 and x.size for x, y in maps)
    return alike and all((np.diff(knots) > 0).all() for knots, _ in maps)


def rank_map(values: Floats) -> tuple[Floats, Floats]:
    """Distinct values and their rank scores, (k,) each, for values (n,) without NaN.

    The score of a value is the normal quantile of the share of rows up to it, counting half of its
    ties (the plotting position of Hazen, 1914), clamped to +-3.5. Scores are then centered and
    divided by their standard deviation. If most rows share one value, the standard deviation is
    small; scores are multiplied by at most two, so that rare values stay moderate. Two distinct
    values get -1 and 1, a constant gets 0.

    A strictly increasing map of the column does not change its scores: exactly up to 2000 distinct
    values. With more, only the values on both sides of 1000 even steps in the share of rows are
    kept.

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
        # Steps are even in the share of rows, so that knots lie where the rows are. Both neighbors
        # of a step are kept, so that many equal values do not blur into the values beside them.
        above = np.searchsorted(share, np.linspace(share[0], share[-1], _STEPS))
        kept = np.unique([above, np.maximum(above - 1, 0)])
        distinct, scores = distinct[kept], scores[kept]
    return distinct, scores


def rank_scores(values: Floats, knots: Floats, scores: Floats) -> Floats:
    """Scores of values (n,), linear between knots and constant beyond the first and last."""
    power = -exponent(knots)  # slopes between the smallest floats would overflow
    with np.errstate(over="ignore"):
        values = np.ldexp(values, power)
    return np.interp(values, np.ldexp(knots, power), scores)


#: A column whose largest number is below two to this power is rescaled for the trees.
_LEAST_POWER = -60
#: Codes (n,) of a column whose dtype declares categories, -1 where missing, and whether the
#: categories are ordered, as from low to high.
_Declared = tuple[NDArray[np.int64], bool]


@dataclass(frozen=True)
class TreeEncoderState(LearnedState):
    """What a `TreeEncoder` has learned."""

    # The level of each code of text and categorical columns; None for a category that the dtype
    # declares and no row had at fit.
    levels: Mapping[str, tuple[str | None, ...]]
    ordered: tuple[str, ...]  # categorical columns whose categories are ordered
    complete: tuple[str, ...] = ()  # numbers and booleans without a missing value at fit
    # Columns of very small or large numbers are divided by two to this power.
    powers: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return list(self.families)

    @property
    def categorical(self) -> tuple[int, ...]:
        """Positions of the columns that hold codes of categories without an order."""
        codes = self.levels.keys() - set(self.ordered)
        return tuple(place for place, name in enumerate(self.families) if name in codes)

    def unfamiliar(self, never_missing: Collection[int]) -> Unfamiliar:
        names = [name for place, name in enumerate(self.families) if place in never_missing]
        lowest = "LightGBM treats it as the lowest category"
        treated = {
            **dict.fromkeys(self.families, "LightGBM treats it as 0"),
            **dict.fromkeys(self.levels, "they are scored as having no category"),
            **dict.fromkeys(self.ordered, lowest),
        }
        unseen = dict.fromkeys(self.levels, "they are treated as missing")
        unseen |= {name: lowest for name in names if name in self.ordered}
        return Unfamiliar({name: treated[name] for name in names}, unseen, self.levels)

    def check(self) -> None:
        text = {name for name, kind in self.families.items() if kind in CATEGORICAL}
        if not self.families or set(self.levels) != text or not set(self.ordered) <= text:
            raise ValueError("there must be levels for each column of text or categories")
        if not set(self.complete) <= self.families.keys() - text:
            raise ValueError("only numbers and booleans can be complete")


class TreeEncoder(Encoder[TreeEncoderState]):
    """Encode features as a float64 matrix (n, columns), one column for each input column.

    Numbers stay as they are and booleans become 0/1, NaN where missing. Text and categoricals
    become the codes of their levels, NaN where missing or not seen at fit. Text is numbered in
    sorted order and a pandas categorical by its own categories. LightGBM gives the same codes to
    the same frame with text as ``category``. A column without any value at fit is NaN throughout.

    Very small and very large numbers are rescaled, since LightGBM treats numbers below 1e-35 as 0
    and cuts off numbers above 1e300: if all numbers of a column are below 1e-18 in absolute value,
    or some are above 1e270, the column is divided by a power of two.

    An ordered categorical (pandas, polars Enum, pyarrow) is numbered in its order. Trees split it
    like a number, as LightGBM does, so it is not in `categorical_`, which is LightGBM's
    ``categorical_feature``.

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

    state_type = TreeEncoderState
    _missing_words = "the trees have learned no rule for them"
    _unseen_words = "treated as missing"

    def __init__(self, *, largest_power: int = 900) -> None:
        self._largest_power = largest_power

    def _learned(self, X: Any, columns: Sequence[Column]) -> TreeEncoderState:
        declared = _declared_codes(X)
        levels = {
            column.name: _level_of_each_code(column, declared.get(column.name))
            for column in columns
            if column.family in CATEGORICAL
        }
        numeric = [column for column in columns if column.family in ("number", "boolean")]
        powers = {column.name: exponent(column.as_numbers()) for column in numeric}
        kept = range(_LEAST_POWER + 1, self._largest_power)
        return TreeEncoderState(
            families={column.name: column.family for column in columns},
            levels=levels,
            ordered=tuple(name for name in levels if name in declared and declared[name][1]),
            complete=tuple(column.name for column in numeric if not column.missing.any()),
            powers={name: power for name, power in powers.items() if power not in kept},
        )

    def _encoded(self, columns: Sequence[Column]) -> NDArray[np.float64]:
        # Filled column by column: tables may need most of the memory.
        matrix = np.empty((len(columns[0].missing), len(columns)))
        for place, column in enumerate(columns):
            matrix[:, place] = self._numbers(column)
        return matrix

    def _numbers(self, column: Column) -> NDArray[np.float64]:
        """One column of the matrix, (n,)."""
        state = self._state
        if state.families[column.name] == "empty":
            return np.full(len(column.missing), np.nan)  # nothing was learned about this column
        if column.name in state.levels:
            known = enumerate(state.levels[column.name])
            codes = positions_of(column, {name: code for code, name in known if name is not None})
            return np.where(codes < 0, np.nan, codes)
        power = state.powers.get(column.name, 0)
        with np.errstate(over="ignore"):
            return np.ldexp(column.as_numbers(), -power)


def _declared_codes(X: Any) -> dict[str, _Declared]:
    """Codes of the columns of X whose dtype declares the order of its categories, by column.

    These are pandas categoricals, whose codes LightGBM uses as they are, and columns that become
    an ordered categorical in pandas: Enum of polars, ordered dictionaries of pyarrow. Other
    dictionaries list their entries in arbitrary order and are left out.
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return {}
    found = {}
    for series in frame.iter_columns():
        if series.dtype not in (nw.Categorical, nw.Enum):
            continue
        # Converted as a frame: to_pandas of a single pyarrow series returns text.
        values = series.to_frame().to_pandas().iloc[:, 0]
        kind = values.dtype
        if isinstance(kind, pd.CategoricalDtype) and (kind.ordered or isinstance(X, pd.DataFrame)):
            codes = values.cat.codes.to_numpy().astype(np.int64)
            found[str(series.name)] = codes, bool(kind.ordered)
    return found


def _level_of_each_code(column: Column, declared: _Declared | None) -> tuple[str | None, ...]:
    """Levels in the declared order, or sorted; None for a declared level that no row has."""
    names = level_names(column)
    if declared is None:
        return tuple(names[:-1])
    assert column.codes is not None
    codes, rows = np.unique(declared[0], return_index=True)
    levels: list[str | None] = [None] * (int(codes[-1]) + 1)
    for code, row in zip(codes, rows, strict=True):
        if code >= 0:
            levels[code] = names[column.codes[row]]
    return tuple(levels)
