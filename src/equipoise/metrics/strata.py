"""Which rows take part, in which stratum of the outcome, in which cell of the attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.metrics.outcome import OutcomeKind
from equipoise.tables import SensitiveTable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def rows_of(scores: Floats, table: SensitiveTable, y: Any) -> NDArray[np.intp]:
    """Positions of the rows whose sensitive values are all known, after checking lengths.

    scores: (K, n).
    """
    n = scores.shape[1]
    if table.n_rows != n:
        raise InputError(
            f"sensitive_features must have one row for each of the {n} scores, got {table.n_rows}"
        )
    if y is not None and len(y) != n:
        raise InputError(f"y must have one value for each of the {n} scores, got {len(y)}")
    rows = np.flatnonzero(table.known)
    if len(rows) < 2:
        raise InputError(
            "sensitive_features must have at least two rows in which every column is known, got "
            f"{len(rows)}"
        )
    return rows


def strata_of(y: NDArray[Any], kind: OutcomeKind, groups: int) -> Integers:
    """Stratum of every row (n,): the level of a discrete y, one of equal `groups` of a continuous.

    Equal values of a continuous y share a stratum, so there can be fewer than `groups`.

    >>> strata_of(np.array(["no", "yes", "no"]), "binary", groups=10)
    array([0, 1, 0])
    """
    values = np.asarray(y)
    if kind == "continuous":
        cuts = np.quantile(values, np.arange(1, groups) / groups)
        values = np.searchsorted(np.unique(cuts), values, side="left")
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def crossed(codes: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Number of every row's combination of codes, and the combinations that occur, in order.

    codes: m arrays (n,) of numbers from 0. Returns (n,) and (combinations, m).

    >>> crossed([np.array([0, 1, 0]), np.array([2, 0, 2])])
    (array([0, 1, 0]), array([[0, 2], [1, 0]]))
    """
    cell = np.zeros(len(codes[0]), dtype=np.int64)
    for column in codes:
        # Numbered anew after each column, so that many columns cannot overflow.
        pairs = cell * (int(column.max()) + 1) + column
        first, cell = np.unique(pairs, return_index=True, return_inverse=True)[1:]
    return cell.astype(np.int64), np.stack([column[first] for column in codes], axis=1)
