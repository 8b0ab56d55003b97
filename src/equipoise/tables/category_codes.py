"""Categories of one column as the whole numbers that a tree splits on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.tables.columns import Column
from equipoise.tables.levels import level_names


@dataclass(frozen=True, eq=False)
class DeclaredCodes:
    """The codes of a column whose type says in which order its categories come.

    Attributes
    ----------
    codes : ndarray of int64, shape (n,)
        Position among the categories of the type, -1 where missing.
    ordered : bool
        Whether the order means something, as from low to high.
    """

    codes: NDArray[np.int64]
    ordered: bool


def declared_codes(X: Any) -> dict[str, DeclaredCodes]:
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
        # As a frame, since a lone series of pyarrow would become text on this way.
        values = series.to_frame().to_pandas().iloc[:, 0]
        kind = values.dtype
        if isinstance(kind, pd.CategoricalDtype) and (kind.ordered or isinstance(X, pd.DataFrame)):
            codes = values.cat.codes.to_numpy().astype(np.int64)
            found[str(series.name)] = DeclaredCodes(codes, bool(kind.ordered))
    return found


def level_of_each_code(column: Column, declared: DeclaredCodes | None) -> tuple[str | None, ...]:
    """Levels in the order declared, or sorted; None in the place of one that no row has."""
    names = level_names(column)
    if declared is None:
        return tuple(names[:-1])
    assert column.codes is not None
    codes, rows = np.unique(declared.codes, return_index=True)
    levels: list[str | None] = [None] * (int(codes[-1]) + 1)
    for code, row in zip(codes, rows, strict=True):
        if code >= 0:
            levels[code] = names[column.codes[row]]
    return tuple(levels)


def codes_of(column: Column, levels: Sequence[str | None]) -> NDArray[np.float64]:
    """Code of every row (n,); NaN where missing or not among the levels."""
    if column.codes is None:  # an empty column: every value is missing
        return np.full(len(column.missing), np.nan)
    code_of: dict[str | None, float] = {
        level: code for code, level in enumerate(levels) if level is not None
    }
    codes = [code_of.get(name, np.nan) for name in level_names(column)]
    return np.array(codes, dtype=np.float64)[column.codes]
