"""Decide whether a sensitive column is discrete or continuous, by stated rules.

1. A kind given in `sensitive_types` wins; only numbers can be continuous.
2. Booleans, text and categoricals are discrete.
3. Numbers with at most 10 distinct values are discrete, with more they are continuous.
4. Dates, times, durations, complex numbers and nested values are refused.

Rule 4 is applied on reading, in `equipoise.tables.columns`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from equipoise.errors import InputError, did_you_mean
from equipoise.tables.columns import Column, whole

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
    """One sensitive attribute whose kind is decided.

    Attributes
    ----------
    name : str
    kind : "discrete" or "continuous"
    rule : str
        In words: which rule decided the kind.
    codes : ndarray of int64, shape (n,), or None
        Discrete: index into `categories`, -1 where missing.
    categories : tuple
        Discrete: sorted distinct values, whole numbers as int; continuous: ().
    values : ndarray of float64, shape (n,), or None
        Continuous: the numbers, NaN where missing.
    scores : ndarray of float64, shape (n,), or None
        Continuous: ranks of `values` with ties averaged, moved and scaled to mean 0 and variance 1
        over the known rows; 0 where missing. Computed here unless given, and kept by `take`.
    """

    name: str
    kind: Kind
    rule: str
    codes: NDArray[np.int64] | None
    categories: tuple[Hashable, ...]
    values: NDArray[np.float64] | None
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


def standardized_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks with ties averaged, mean 0 and variance 1 over the known values; 0 where missing.

    Dependence on an attribute does not change under a strictly increasing map of it, so ranks lose
    nothing, and an outlier cannot squeeze all other rows into a corner of the critic's input.

    values: (n,) with NaN where missing. Returns (n,).

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
            hint = did_you_mean(name, names)
            raise InputError(
                f"sensitive_types names a column {name!r} that sensitive_features does not have "
                f"(columns: {', '.join(map(repr, names))}){hint}"
            )
        if kind not in get_args(Kind):
            raise InputError(
                f"sensitive_types[{name!r}] must be 'discrete' or 'continuous', got {kind!r}"
            )


def type_column(column: Column, override: Kind | None) -> SensitiveColumn:
    """Give a column its kind by the rules above, and refuse one that carries no information."""
    where = f"sensitive_features column {column.name!r}"
    known = int((~column.missing).sum())
    if known == 0:
        raise InputError(f"{where} must have known values, got only missing ones; drop the column")
    if column.numbers is not None:
        distinct = np.unique(column.numbers[~column.missing])
        if len(distinct) == 1:
            _refuse_constant(where, whole(float(distinct[0])), known)
        few = len(distinct) <= MAX_DISCRETE_NUMBERS
        kind: Kind = override or ("discrete" if few else "continuous")
        rule = (
            f"numbers with {len(distinct)} distinct values "
            f"({'at most' if few else 'more than'} {MAX_DISCRETE_NUMBERS})"
        )
    else:
        if len(column.levels) == 1:
            _refuse_constant(where, column.levels[0], known)
        kind = override or "discrete"
        rule = _FAMILY_RULES[column.family]
    rule = "set in sensitive_types" if override else rule
    typed = as_kind(column, kind, rule)
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
    if kind == "continuous":
        return SensitiveColumn(column.name, kind, rule, None, (), _numbers(column, where))
    codes, categories = _levels(column, where)
    return SensitiveColumn(column.name, kind, rule, codes, categories, None)


def _refuse_constant(where: str, value: Hashable, known: int) -> NoReturn:
    raise InputError(
        f"{where} must have at least two distinct values, got {value!r} in all {known} known rows; "
        "nothing can depend on a constant, so drop the column"
    )


def _numbers(column: Column, where: str) -> NDArray[np.float64]:
    """The column as numbers (n,); categoricals of numbers count as such."""
    if column.numbers is not None:
        return column.numbers.copy()
    if column.family == "categorical" and all(
        isinstance(level, int | float) and not isinstance(level, bool) for level in column.levels
    ):
        return column.as_numbers()
    raise InputError(
        f"{where} must hold numbers to be continuous, got {column.levels[0]!r}; "
        "remove it from sensitive_types or convert the column"
    )


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
