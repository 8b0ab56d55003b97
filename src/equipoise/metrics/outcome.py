"""The kind of an outcome y, and strata of rows with equal or similar outcomes.

These rules decide the kind:

1. A kind given by name wins.
2. Two distinct values are a binary outcome; the larger one (in sorted order) is the positive class.
3. Text, booleans, and numbers with at most 10 distinct values are classes.
4. Numbers with more distinct values are continuous.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError, check_choice, check_count
from equipoise.metrics.arrays import Floats, Integers, Mask, as_numbers
from equipoise.metrics.partition import Partition, by_decile, quantiles
from equipoise.tables import MAX_DISCRETE_NUMBERS, SensitiveTable
from equipoise.tables.columns import read_values

OutcomeKind = Literal["binary", "multiclass", "continuous"]


def outcome_kind(
    y: Any, kind: OutcomeKind | None = None, *, counted: Mask | None = None
) -> OutcomeKind:
    """Kind of the outcome `y` (n,), by the rules of this module.

    Only rows that are `counted` (n,) matter.

    >>> outcome_kind([0, 1, 1]), outcome_kind(["a", "b", "c"]), outcome_kind(range(11))
    ('binary', 'multiclass', 'continuous')
    """
    if kind is not None:
        check_choice("outcome", kind, get_args(OutcomeKind), "; or leave it out")
    array = outcome_array(y)
    if counted is not None and len(counted) == len(array):
        array = array[counted]
    levels = np.unique(array)
    if len(levels) < 2:
        raise InputError(
            f"y must have at least two distinct values, got {levels[0]} in all {len(array)} rows; "
            "add rows with other outcomes"
        )
    if kind == "binary" and len(levels) != 2:
        raise InputError(
            f"y must have two distinct values to be binary, got {len(levels)}; leave out outcome"
        )
    if kind == "continuous":
        as_numbers("y", array)
    if kind is not None:
        return kind
    if len(levels) == 2:
        return "binary"
    numbers = array.dtype.kind in "iuf"
    return "continuous" if numbers and len(levels) > MAX_DISCRETE_NUMBERS else "multiclass"


def kind_where_given(y: Any, kind: OutcomeKind | None = None) -> OutcomeKind | None:
    """`outcome_kind`, or None without y."""
    if y is not None:
        return outcome_kind(y, kind)
    if kind is not None:
        raise InputError(
            f"outcome describes y and must not be given without y, got {kind!r}; leave it out"
        )
    return None


def split_outcome(y: Any, kind: OutcomeKind, weights: Tensor, n: int) -> tuple[Partition, Tensor]:
    """The sets of rows by y, and y as numbers (n,), classes by their position in sorted order.

    weights: (n,) on the device of the scores. They count in the deciles of a continuous y; a class
    without weight is left out.
    """
    array = outcome_array(y)
    check_count("y", len(array), n)
    if kind == "continuous":
        values = as_numbers("y", array).to(weights.device)
        return by_decile(values, weights, "y"), values
    levels = np.unique(array[(weights > 0).cpu().numpy()])
    codes = np.searchsorted(levels, array).clip(max=len(levels) - 1)
    tensor = torch.from_numpy(codes.astype(np.int64)).to(weights.device)
    labels = tuple(f"y = {level}" for level in levels)
    return Partition(tensor, labels, nested=False), tensor.to(torch.float64)


def outcome_array(y: Any, argument: str = "y") -> NDArray[Any]:
    """The outcome as a 1-D array of numbers, booleans or text without missing values."""
    given = y.detach().cpu().numpy() if isinstance(y, Tensor) else y
    array = read_values(given, argument=argument, remedy="drop these rows")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or len(array) == 0:
        raise InputError(
            f"{argument} must have shape (n,) with at least one row, got {array.shape}; pass one "
            "value for each row"
        )
    if array.dtype.kind in "biuf":
        as_numbers(argument, array)
        return array
    return np.asarray(array.tolist())


def rows_of(scores: Floats, table: SensitiveTable, y: Any) -> NDArray[np.intp]:
    """Positions of the rows without a missing sensitive value; scores: (K, n)."""
    check_count("sensitive_features", table.n_rows, scores.shape[1], each="row")
    if y is not None:
        check_count("y", len(y), scores.shape[1], each="row")
    rows = np.flatnonzero(table.known)
    if len(rows) < 2:
        raise InputError(
            "sensitive_features must have at least two rows without a missing value, got "
            f"{len(rows)}; fill in missing values, or leave out columns"
        )
    return rows


def strata_of(y: NDArray[Any], kind: OutcomeKind, groups: int) -> Integers:
    """Stratum of every row (n,): the level of a discrete y, or one of `groups` of a continuous y.

    The groups have equal size. Equal values of y share a stratum, so there can be fewer groups.

    >>> strata_of(np.array(["no", "yes", "no"]), "binary", groups=10)
    array([0, 1, 0])
    """
    if kind == "continuous":
        return equal_frequency(y, groups)
    return np.unique(y, return_inverse=True)[1].astype(np.int64)


def range_label(low: float, high: float, digits: int) -> str:
    """A range in words.

    >>> range_label(17, 22.5, 4), range_label(17, 17, 4)
    ('17 to 22.5', '17')
    """
    return f"{low:.{digits}g}" if low == high else f"{low:.{digits}g} to {high:.{digits}g}"


def equal_frequency(values: NDArray[Any], groups: int, people: Floats | None = None) -> Integers:
    """Divide values (n,) into at most `groups` groups of equal size, numbered 0, 1, ...

    A value stands for as many rows as `people` (n,) says.

    >>> equal_frequency(np.array([3.0, 1.0, 1.0, 2.0]), 2)
    array([1, 0, 0, 1])
    >>> equal_frequency(np.array([3.0, 1.0, 2.0]), 2, people=np.array([1.0, 2.0, 1.0]))
    array([1, 0, 1])
    """
    cuts = repeated_quantiles(values, people, np.arange(1, groups) / groups)
    places = np.searchsorted(cuts, values, side="left")
    return np.unique(places, return_inverse=True)[1].astype(np.int64)


def repeated_quantiles(
    values: NDArray[Any], people: Floats | None, levels: Floats | Sequence[float]
) -> Floats:
    """``numpy.quantile`` of values (n,), each repeated as often as `people` (n,) says.

    >>> repeated_quantiles(np.array([3.0, 1.0]), np.array([1.0, 2.0]), [0.5, 0.75])
    array([1., 2.])
    """
    if people is None:
        return np.asarray(np.quantile(values, levels))
    found = quantiles(
        torch.from_numpy(np.array(values, np.float64)),
        torch.from_numpy(people),
        np.atleast_1d(levels).tolist(),
    )
    return found.numpy()


def ranks_within(values: Floats, strata: Integers) -> Floats:
    """Mid-rank of each value (n,) or (K, n) within its stratum (n,), scaled to (0, 1).

    >>> ranks_within(np.array([3.0, 1.0, 1.0, 2.0]), np.array([0, 0, 1, 1]))
    array([0.75, 0.25, 0.25, 0.75])
    """
    ranks = pd.DataFrame(values.T).groupby(strata).rank().to_numpy().T
    return np.asarray((ranks - 0.5) / np.bincount(strata)[strata]).reshape(values.shape)


def crossed(codes: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Number the combinations of codes that occur, in order.

    codes: m arrays (n,) of codes 0, 1, ... Returns the number of each row's combination (n,), and
    the combinations (combinations, m).

    >>> crossed([np.array([0, 1, 0]), np.array([2, 0, 2])])
    (array([0, 1, 0]), array([[0, 2], [1, 0]]))
    """
    cell = np.zeros(len(codes[0]), dtype=np.int64)
    for column in codes:
        # Renumbered after each column, so that many columns cannot overflow.
        pairs = cell * (int(column.max()) + 1) + column
        first, cell = np.unique(pairs, return_index=True, return_inverse=True)[1:]
    return cell.astype(np.int64), np.stack([column[first] for column in codes], axis=1)
