"""What kind of outcome y is, decided once by stated rules.

1. A kind given by name wins.
2. Two distinct values are a binary outcome; the larger one (in sorted order) is the positive class.
3. Text, booleans, and numbers with at most 10 distinct values are classes.
4. Numbers with more distinct values are continuous.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError
from equipoise.metrics.arrays import as_numbers
from equipoise.metrics.partition import Partition, by_decile
from equipoise.tables import MAX_DISCRETE_NUMBERS, SensitiveTable
from equipoise.tables.columns import read_values

OutcomeKind = Literal["binary", "multiclass", "continuous"]


def outcome_kind(
    y: Any, kind: OutcomeKind | None = None, *, counted: NDArray[np.bool_] | None = None
) -> OutcomeKind:
    """Which kind of outcome `y` (n,) is, by the rules of this module.

    Rows that are not `counted` (n,) have no say.

    >>> outcome_kind([0, 1, 1]), outcome_kind(["a", "b", "c"]), outcome_kind(range(11))
    ('binary', 'multiclass', 'continuous')
    """
    if kind is not None and kind not in get_args(OutcomeKind):
        allowed = ", ".join(map(repr, get_args(OutcomeKind)))
        raise InputError(f"outcome must be one of {allowed}, got {kind!r}")
    array = outcome_array(y)
    if counted is not None and len(counted) == len(array):
        array = array[counted]
    levels = np.unique(array)
    if len(levels) < 2:
        raise InputError(
            f"y must have at least two distinct values, got {levels[0]} in all {len(array)} rows; "
            "with one class there is nothing to separate"
        )
    if kind == "binary" and len(levels) != 2:
        raise InputError(f"y must have two distinct values to be binary, got {len(levels)}")
    if kind == "continuous":
        as_numbers("y", array)
    if kind is not None:
        return kind
    if len(levels) == 2:
        return "binary"
    numbers = array.dtype.kind in "iuf"
    return "continuous" if numbers and len(levels) > MAX_DISCRETE_NUMBERS else "multiclass"


def kind_where_given(y: Any, kind: OutcomeKind | None = None) -> OutcomeKind | None:
    """`outcome_kind`, or None where there is no y, which then has no kind."""
    if y is not None:
        return outcome_kind(y, kind)
    if kind is not None:
        raise InputError(
            f"outcome says what y is and must not be given when y is None, got {kind!r}"
        )
    return None


def split_outcome(y: Any, kind: OutcomeKind, weights: Tensor, n: int) -> tuple[Partition, Tensor]:
    """The sets of rows y gives, and y as numbers (n,): classes are their position in sorted order.

    weights: (n,) on the device of the scores; deciles of a continuous y count them, and a class
    without weight is none.
    """
    array = outcome_array(y)
    if len(array) != n:
        raise InputError(f"y must have one value for each of the {n} scores, got {len(array)}")
    if kind == "continuous":
        values = as_numbers("y", array).to(weights.device)
        return by_decile(values, weights, "y"), values
    levels = np.unique(array[(weights > 0).cpu().numpy()])
    codes = np.searchsorted(levels, array).clip(max=len(levels) - 1)
    tensor = torch.from_numpy(codes.astype(np.int64)).to(weights.device)
    labels = tuple(f"y = {level}" for level in levels)
    return Partition(tensor, labels, nested=False), tensor.to(torch.float64)


def outcome_array(y: Any, argument: str = "y") -> NDArray[Any]:
    """Outcome as a 1-D array of numbers, booleans or text, nothing missing."""
    given = y.detach().cpu().numpy() if isinstance(y, Tensor) else y
    array = read_values(given, argument=argument, remedy="drop these rows")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or len(array) == 0:
        raise InputError(
            f"{argument} must have shape (n,) with at least one row, got {array.shape}"
        )
    if array.dtype.kind in "biuf":
        as_numbers(argument, array)
        return array
    return np.asarray(array.tolist())


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def rows_of(scores: Floats, table: SensitiveTable, y: Any) -> NDArray[np.intp]:
    """Positions of the rows whose sensitive values are all known; scores: (K, n)."""
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
    if kind == "continuous":
        return equal_frequency(y, groups)
    return np.unique(y, return_inverse=True)[1].astype(np.int64)


def equal_frequency(values: NDArray[Any], groups: int) -> Integers:
    """Group (n,) of every value in at most `groups` of equal size, numbered from 0 without gaps.

    >>> equal_frequency(np.array([3.0, 1.0, 1.0, 2.0]), 2)
    array([1, 0, 0, 1])
    """
    cuts = np.quantile(values, np.arange(1, groups) / groups)
    places = np.searchsorted(cuts, values, side="left")
    return np.unique(places, return_inverse=True)[1].astype(np.int64)


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
