"""Decide whether a sensitive column is discrete or continuous: the rules of `SensitiveTable`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from equipoise.errors import InputError, check_choice, did_you_mean
from equipoise.tables.columns import Column, present_levels, whole

Kind = Literal["discrete", "continuous"]

MAX_DISCRETE_NUMBERS = 10
_LARGEST_EXACT = 2.0**53  # from here on a float64 cannot tell neighboring integers apart
_FAMILY_RULES = {
    "boolean": "booleans are discrete",
    "text": "text is discrete",
    "categorical": "categoricals are discrete",
}


@dataclass(frozen=True, eq=False)
class SensitiveColumn:
    """One sensitive attribute whose kind is decided."""

    name: str
    kind: Kind
    rule: str  # in words: what decided the kind
    codes: NDArray[np.int64] | None  # (n,) discrete: index into categories, -1 where missing
    categories: tuple[Hashable, ...]  # discrete: sorted distinct values, whole numbers as int
    values: NDArray[np.float64] | None  # (n,) continuous: the numbers, NaN where missing
    # (n,) continuous: `standardized_ranks` of the rows that the column was made of.
    scores: NDArray[np.float64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.values is not None and self.scores is None:
            object.__setattr__(self, "scores", standardized_ranks(self.values))

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which values are missing, (n,)."""
        if self.values is not None:
            return np.isnan(self.values)
        assert self.codes is not None
        return self.codes < 0

    def take(self, rows: ArrayLike) -> SensitiveColumn:
        """Only these rows (positions or a boolean mask); categories and scaling stay."""
        index = np.asarray(rows)
        parts = {"codes": self.codes, "values": self.values, "scores": self.scores}
        taken = {name: part[index] for name, part in parts.items() if part is not None}
        return replace(self, **taken)

    def alone(self) -> SensitiveColumn:
        """The column as if no other rows had ever been there: its own categories and ranks."""
        if self.codes is None:
            return replace(self, scores=None)
        codes, categories = present_levels(self.codes, self.categories)
        return replace(self, codes=codes, categories=categories)


def standardized_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks with ties averaged, mean 0 and variance 1 over the known values; 0 where missing.

    Dependence on an attribute does not change under a strictly increasing map of it, so ranks lose
    nothing, and an outlier cannot squeeze all other rows into a corner of the critic's input.

    >>> standardized_ranks(np.array([3.0, 1000.0, 1.0, np.nan])).round(3)
    array([ 0.   ,  1.225, -1.225,  0.   ])
    """
    known = ~np.isnan(values)
    scores = np.zeros(len(values))
    ranks = rankdata(values[known])
    centered = ranks - (len(ranks) + 1) / 2
    spread = np.sqrt(np.mean(centered**2)) if len(ranks) else 0.0
    if spread > 0:
        scores[known] = centered / spread
    return scores


def check_types(types: Mapping[str, Kind], names: Sequence[str]) -> None:
    """Refuse overrides for columns or kinds that do not exist."""
    if not isinstance(types, Mapping):
        raise InputError(
            "sensitive_types must map column names to 'discrete' or 'continuous', "
            f"got {types!r}; pass a dict"
        )
    for name, kind in types.items():
        if name not in names:
            raise InputError(
                f"sensitive_types names a column {name!r} that sensitive_features does not have "
                f"(columns: {', '.join(map(repr, names))}){did_you_mean(name, names)}"
            )
        check_choice(f"sensitive_types[{name!r}]", kind, get_args(Kind))


def type_column(column: Column, override: Kind | None) -> SensitiveColumn:
    """Give a column its kind by the rules above, and refuse one that carries no information."""
    where = f"sensitive_features column {column.name!r}"
    known = int((~column.missing).sum())
    if known == 0:
        raise InputError(f"{where} must have known values, got only missing ones; drop the column")
    levels: tuple[Any, ...] = column.levels
    few = True
    rule = _FAMILY_RULES.get(column.family, "")
    if column.numbers is not None:
        levels = tuple(np.unique(column.numbers[~column.missing]).tolist())
        few = len(levels) <= MAX_DISCRETE_NUMBERS
        size = f"{'at most' if few else 'more than'} {MAX_DISCRETE_NUMBERS}"
        rule = f"numbers with {len(levels)} distinct values ({size})"
    if len(levels) == 1:
        value = levels[0] if column.numbers is None else whole(levels[0])
        raise InputError(
            f"{where} must have at least two distinct values, got {value!r} in all {known} known "
            "rows; nothing can depend on a constant, so drop the column"
        )
    kind: Kind = override or ("discrete" if few else "continuous")
    typed = as_kind(column, kind, "set in sensitive_types" if override else rule)
    if kind == "discrete" and len(typed.categories) == known:
        remedy = "drop the column if it is an identifier"
        if column.numbers is not None:
            remedy += f", or set sensitive_types={{{column.name!r}: 'continuous'}} if it measures"
        raise InputError(
            f"{where} is discrete and must have fewer categories than rows, "
            f"got {len(typed.categories)} categories in {known} known rows; {remedy}"
        )
    return typed


def as_kind(column: Column, kind: Kind, rule: str) -> SensitiveColumn:
    """Return a column as one of a kind that was decided by ``rule``, however few its values."""
    where = f"sensitive_features column {column.name!r}"
    if kind == "discrete":
        return SensitiveColumn(column.name, kind, rule, *_levels(column, where), None)
    # Categoricals of numbers count as such.
    if column.numbers is None and not {type(level) for level in column.levels} <= {int, float}:
        raise InputError(
            f"{where} must hold numbers to be continuous, got {column.levels[0]!r}; "
            "remove it from sensitive_types or convert the column"
        )
    return SensitiveColumn(column.name, kind, rule, None, (), column.as_numbers().copy())


def _levels(column: Column, where: str) -> tuple[NDArray[np.int64], tuple[Hashable, ...]]:
    """Codes (n,) and sorted categories of a discrete column."""
    if column.numbers is None:
        assert column.codes is not None
        return column.codes.copy(), column.levels
    known = ~column.missing
    distinct, inverse = np.unique(column.numbers[known], return_inverse=True)
    largest = distinct[np.abs(distinct).argmax()]
    if abs(largest) > _LARGEST_EXACT:
        raise InputError(
            f"{where} is discrete and must hold numbers up to 2**53 in size, which a float tells "
            f"apart, got {largest:.0f}; pass codes of this length as text"
        )
    codes = np.full(len(column.numbers), -1, dtype=np.int64)
    codes[known] = inverse
    return codes, tuple(whole(float(number)) for number in distinct)
