"""Turn the features a user hands over into the float matrix that boosted trees read.

Trees need no scaling, and LightGBM handles missing values and categories by itself, so every
column of the input stays one column.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.scales import exponent
from equipoise.tables.columns import Column
from equipoise.tables.features import (
    CATEGORICAL,
    Encoder,
    LearnedState,
    Unfamiliar,
    level_names,
    positions_of,
)

#: Power of two of a column's largest size above which libraries of trees read it as it is.
_LEAST = -60
#: Codes (n,) of a column whose type says in which order its categories come, -1 where missing, and
#: whether that order means something, as from low to high.
_Declared = tuple[NDArray[np.int64], bool]


@dataclass(frozen=True)
class TreeEncoderState(LearnedState):
    """Everything that decides how a fitted `TreeEncoder` encodes rows."""

    # Of text and categorical columns: the level of each code. None in the place of a category that
    # the type of the column declares and that no row had at fit.
    levels: Mapping[str, tuple[str | None, ...]]
    ordered: tuple[str, ...]  # categorical columns whose order means something
    complete: tuple[str, ...] = ()  # numbers and booleans without a missing value at fit
    # Powers of two by which numbers are divided that LightGBM could not tell apart as they are.
    powers: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.families)

    @property
    def categorical(self) -> tuple[int, ...]:
        """Positions of the columns that hold codes of categories without an order."""
        codes = self.levels.keys() - set(self.ordered)
        return tuple(place for place, name in enumerate(self.families) if name in codes)

    def unfamiliar(self, never_missing: Collection[int]) -> Unfamiliar:
        """What no row held at fit."""
        names = [name for place, name in enumerate(self.families) if place in never_missing]
        lowest = "LightGBM takes it for the lowest category"
        treated = {
            **dict.fromkeys(self.families, "LightGBM takes it for 0"),
            **dict.fromkeys(self.levels, "they are scored as having no category"),
            **dict.fromkeys(self.ordered, lowest),
        }
        unseen = dict.fromkeys(self.levels, "they are treated as missing")
        unseen |= {name: lowest for name in names if name in self.ordered}
        return Unfamiliar({name: treated[name] for name in names}, unseen, self.levels)

    def check(self) -> None:
        """Refuse what only a forged file holds (ValueError)."""
        text = {name for name, kind in self.families.items() if kind in CATEGORICAL}
        if not self.families or set(self.levels) != text or not set(self.ordered) <= text:
            raise ValueError("there must be levels for each column of text or categories")
        if not set(self.complete) <= self.families.keys() - text:
            raise ValueError("only numbers and booleans can be complete")


class TreeEncoder(Encoder[TreeEncoderState]):
    """Encode features as a float64 matrix (n, columns), one column for each input column.

    Numbers stay as they are and booleans become 0/1, NaN where missing. (A column of numbers that
    are all below 1e-18 in size, or some above 1e270, is divided by a power of two: LightGBM takes
    what is below 1e-35 for 0 and cuts off what is above 1e300.) Text and categoricals
    become the codes of their levels, NaN where missing or not seen at fit. Text is numbered in
    sorted order and a pandas categorical by its own categories, so these are the codes that
    LightGBM gives to the same frame with text as ``category``. A column without any value at fit
    is NaN throughout.

    An ordered categorical (pandas, polars Enum, pyarrow) is numbered in its order and, as
    LightGBM does, left to be split like a number: it is not in `categorical_`, which is
    LightGBM's ``categorical_feature``.

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
        kept = range(_LEAST + 1, self._largest_power)
        return TreeEncoderState(
            families={column.name: column.family for column in columns},
            levels=levels,
            ordered=tuple(name for name in levels if name in declared and declared[name][1]),
            complete=tuple(column.name for column in numeric if not column.missing.any()),
            powers={name: power for name, power in powers.items() if power not in kept},
        )

    def _encoded(self, columns: Sequence[Column]) -> NDArray[np.float64]:
        return np.column_stack([self._numbers(column) for column in columns])

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
    """Codes of the columns of X that have an order of categories, by column.

    These are categoricals of pandas, of which LightGBM takes the codes as they are, and whatever
    becomes an ordered one there: Enum of polars, ordered dictionaries of pyarrow. Other
    dictionaries keep their entries in the order in which these happened to be stored.
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return {}
    found = {}
    for series in frame.iter_columns():
        if series.dtype not in (nw.Categorical, nw.Enum):
            continue
        # As a frame: to_pandas of a lone pyarrow series returns text.
        values = series.to_frame().to_pandas().iloc[:, 0]
        kind = values.dtype
        if isinstance(kind, pd.CategoricalDtype) and (kind.ordered or isinstance(X, pd.DataFrame)):
            codes = values.cat.codes.to_numpy().astype(np.int64)
            found[str(series.name)] = codes, bool(kind.ordered)
    return found


def _level_of_each_code(column: Column, declared: _Declared | None) -> tuple[str | None, ...]:
    """Levels in the order declared, or sorted; None in the place of one that no row has."""
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
