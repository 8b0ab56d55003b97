"""Choosing among points with several costs: Pareto fronts, hypervolume, budgets.

Pure functions of arrays. Costs are minimized; change the sign of what should be large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError

Floats = NDArray[np.float64]


def non_dominated(costs: ArrayLike) -> NDArray[np.bool_]:
    """Mark the rows (n,) of costs (n, m) that no other row dominates.

    A row dominates another if it costs no more in every column and less in at least one. Equal rows
    do not dominate each other, so all duplicates of a front row are on the front. Costs may be
    infinite but not NaN, which cannot be compared.

    >>> non_dominated([[1, 3], [2, 2], [2, 3], [2, 2]])
    array([ True,  True, False,  True])
    """
    matrix = _costs(costs)
    on_front = np.zeros(len(matrix), dtype=bool)
    if matrix.shape[1] == 2:
        order = np.lexsort(matrix.T[::-1])
        first, second = matrix[order].T
        lowest = np.minimum.accumulate(second)
        # The rows of smaller first cost end where those of equal first cost begin.
        begins = np.searchsorted(first, first)
        lower = (begins == 0) | (second < lowest[begins - 1])
        on_front[order] = lower & (second == lowest)
        return on_front
    front = np.empty_like(matrix)
    size = 0
    # In lexicographic order a row comes after all rows that dominate it. If there are any, one of
    # them is on the front already.
    for row in np.lexsort(matrix.T[::-1]):
        seen, new = front[:size], matrix[row]
        if ((seen <= new).all(axis=1) & (seen < new).any(axis=1)).any():
            continue
        front[size] = new
        size += 1
        on_front[row] = True
    return on_front


def hypervolume(costs: ArrayLike, reference: Sequence[float]) -> float:
    """Area of the union of the rectangles between each row of costs (n, 2) and the reference.

    The area is exact: in order of the first cost, each row adds the strip by which it lowers the
    second cost. A row that is not below the reference in both costs adds nothing.

    >>> hypervolume([[0, 2], [1, 1], [5, 0]], (3, 3))
    5.0
    """
    matrix = _costs(costs)
    corner = np.asarray(reference, dtype=np.float64)
    if matrix.shape[1] != 2 or corner.shape != (2,):
        raise InputError(
            "hypervolume takes costs of shape (n, 2) and a reference of two numbers, got "
            f"{matrix.shape} and {corner.shape}"
        )
    if np.isnan(corner).any():
        raise InputError(f"reference must not be NaN, got {tuple(corner.tolist())}")
    inside = matrix[(matrix < corner).all(axis=1)]
    ordered = inside[np.lexsort(inside.T[::-1])]
    lowest = np.minimum.accumulate(np.append(corner[1], ordered[:, 1]))
    return float(((corner[0] - ordered[:, 0]) * (lowest[:-1] - lowest[1:])).sum())


@dataclass(frozen=True)
class Chosen:
    """A row chosen under a budget."""

    row: int
    feasible: bool  # whether it is within every limit; if it is not, no row is
    excess: float  # the largest amount by which it exceeds a limit; 0 if feasible


def choose(objective: ArrayLike, costs: ArrayLike, limits: Sequence[float]) -> Chosen:
    """Choose the lowest objective (n,) among the rows of costs (n, m) within the limits (m,).

    If no row is within all limits, choose the row whose largest excess over a limit is smallest.
    Ties go to the lower objective, then to the lower sum of costs, then to the first row.

    >>> choose([0.1, 0.2, 0.3], [[0.5], [0.4], [0.1]], [0.45])
    Chosen(row=1, feasible=True, excess=0.0)
    >>> choose([0.1, 0.2, 0.3], [[0.5], [0.4], [0.25]], [0.0])
    Chosen(row=2, feasible=False, excess=0.25)
    """
    values = np.asarray(objective, dtype=np.float64)
    matrix = _costs(costs)
    bounds = np.asarray(limits, dtype=np.float64)
    if values.shape != (len(matrix),) or bounds.shape != (matrix.shape[1],):
        raise InputError(
            "objective must have one value for each row of costs and limits one for each column, "
            f"got {values.shape} and {bounds.shape} for costs of shape {matrix.shape}"
        )
    if len(values) == 0:
        raise InputError("costs must have at least one row to choose from, got none")
    if np.isnan(values).any() or np.isnan(bounds).any():
        raise InputError("objective and limits must not be NaN; leave out rows without a value")
    # A cost equal to its limit is within the limit, even if both are infinite.
    over = np.subtract(matrix, bounds, out=np.zeros_like(matrix), where=matrix > bounds)
    excess = over.max(axis=1, initial=0.0)
    row = int(np.lexsort([matrix.sum(axis=1), values, excess])[0])
    return Chosen(row, bool(excess[row] == 0), float(excess[row]))


def _costs(costs: ArrayLike) -> Floats:
    matrix = np.asarray(costs, dtype=np.float64)
    if matrix.ndim != 2:
        raise InputError(f"costs must have shape (rows, costs), got {matrix.shape}")
    missing = np.isnan(matrix).any(axis=1)
    if missing.any():
        raise InputError(
            f"costs must not be NaN, got one in row {int(missing.argmax())}; leave out rows "
            "without a value"
        )
    return matrix
