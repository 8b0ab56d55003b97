"""What the encoders of features have in common: reading rows, and comparing them with fit."""

from __future__ import annotations

import difflib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from equipoise.errors import InputError
from equipoise.tables.columns import Column, Family, read_columns

CATEGORICAL = ("text", "categorical")
_FAMILY_WORDS = {
    "number": "numbers",
    "boolean": "booleans",
    "text": "text or categories",
    "categorical": "text or categories",
}


@dataclass(frozen=True, eq=False)
class LearnedState(ABC):
    """Everything that decides how a fitted encoder encodes rows, as plain data."""

    families: Mapping[str, Family]  # of the input columns, in the order seen at fit

    @property
    @abstractmethod
    def complete(self) -> Collection[str]:
        """Numbers and booleans without a missing value at fit."""

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
        """What no row held at fit.

        never_missing: positions of the columns for whose missing values the trees have no rule.
        """

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The plain values and the arrays that a file holds."""
        return dict(vars(self)), {}

    @classmethod
    def fields_in(
        cls, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> dict[str, Any]:
        """The fields of the state whose `parts` are among these."""
        return dict(values)

    @abstractmethod
    def check(self) -> None:
        """Refuse parts that do not fit one another, as only a forged file has them (ValueError)."""


@dataclass(frozen=True)
class Unfamiliar:
    """What rows may hold that no row held at fit, and what becomes of such rows."""

    missing: Mapping[str, str]  # columns without a missing value at fit; how one is treated
    unseen: Mapping[str, str]  # columns of categories; how another category is treated
    known: Mapping[str, Collection[str | None]]  # the categories of these columns at fit


State = TypeVar("State", bound=LearnedState)


class Encoder(ABC, Generic[State]):
    """Turns features into a matrix of numbers, by what the rows given to `fit` say."""

    state_type: ClassVar[type[Any]]
    _missing_words: ClassVar[str]
    _unseen_words: ClassVar[str]
    _state: State

    def fit(self, X: Any) -> Self:
        """Learn from the rows of X.

        X: array of two dimensions or DataFrame (pandas, polars, pyarrow), (n, columns).
        """
        self._state = self._learned(X, read_features(X))
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Encode rows with the columns seen at fit, in any order when they have names."""
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
        """Everything learned, as plain data."""
        return self._state

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the encoder whose `state` this is."""
        encoder = cls()
        encoder._state = state
        return encoder

    @abstractmethod
    def _learned(self, X: Any, columns: Sequence[Column]) -> State:
        """What the training rows X, read as these columns, say about new rows."""

    @abstractmethod
    def _encoded(self, columns: Sequence[Column]) -> NDArray[Any]:
        """Encode columns in the order seen at fit."""

    def _warn_of_unknowns(self, columns: Sequence[Column]) -> None:
        complete = set(self._state.complete)
        affected = [c.name for c in columns if c.name in complete and c.missing.any()]
        if affected:
            warnings.warn(
                f"X has missing values in {_listed(affected)}, where there were none at fit; "
                f"{self._missing_words}",
                UserWarning,
                stacklevel=3,
            )
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
            warnings.warn(
                f"X has categories not seen at fit, {self._unseen_words}: {'; '.join(described)}",
                UserWarning,
                stacklevel=3,
            )


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


def arranged(columns: tuple[Column, ...], families: Mapping[str, Family]) -> list[Column]:
    """Bring columns into the order seen at fit, by name where there are names.

    families: family of each column seen at fit, in this order. Columns that are missing, too many
    or of another family are refused.
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
    """Let only nameless columns, which are told apart by position, differ in name."""
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
        hint = f"; did you mean {missing[0]!r} by {near[0]!r}?" if near else ""
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
        warnings.warn(
            f"X column {column.name!r} had no value at fit, so its values are ignored",
            UserWarning,
            stacklevel=4,
        )
    elif _FAMILY_WORDS[column.family] != _FAMILY_WORDS[fitted]:
        raise InputError(
            f"X column {column.name!r} must hold {_FAMILY_WORDS[fitted]} as at fit, got "
            f"{_FAMILY_WORDS[column.family]}; convert the column"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def level_names(column: Column) -> list[str | None]:
    """Text of every level, then None for missing values: what the codes 0, 1, ... and -1 read."""
    return [*(str(level) for level in column.levels), None]


def positions_of(column: Column, positions: Mapping[str | None, int]) -> NDArray[np.int64]:
    """Position of each row's level (n,), -1 where it has none."""
    found = np.array([positions.get(name, -1) for name in level_names(column)], dtype=np.int64)
    if column.codes is None:  # an empty column: every value is missing
        return np.full(len(column.missing), found[-1])
    return found[column.codes]
