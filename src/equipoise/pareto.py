"""Choosing among points that cost several things at once: fronts, hypervolume, budgets.

Pure functions of arrays. Costs are minimized; what should be large enters with its sign changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError

Floats = NDArray[np.float64]


def non_dominated(costs: ArrayLike) -> NDArray[np.bool_]:
    """Which rows no other row dominates, (n,).

    A row dominates another if it costs no more in every column and less in one. Equal rows do not
    dominate each other: duplicates of a front row are all on the front. costs: (n, m), finite or
    infinite, not NaN: a missing cost cannot be compared.

    >>> non_dominated([[1, 3], [2, 2], [2, 3], [2, 2]])
    array([ True,  True, False,  True])
    """
    matrix = _costs(costs)
    if matrix.shape[1] == 2 and len(matrix):
        return _on_front_of_two(*matrix.T)
    on_front = np.zeros(len(matrix), dtype=bool)
    front = np.empty_like(matrix)
    size = 0
    # In lexicographic order a row comes after all that dominate it, and one of these, if there is
    # any, is on the front already.
    for row in np.lexsort(matrix.T[::-1]):
        seen, new = front[:size], matrix[row]
        if ((seen <= new).all(axis=1) & (seen < new).any(axis=1)).any():
            continue
        front[size] = new
        size += 1
        on_front[row] = True
    return on_front


def _on_front_of_two(first: Floats, second: Floats) -> NDArray[np.bool_]:
    """Which rows of two costs (n,) each are non-dominated, without a loop over rows."""
    order = np.lexsort([second, first])
    values, starts, group = np.unique(first[order], return_index=True, return_inverse=True)
    least = np.minimum.reduceat(second[order], starts)
    # Of rows that cost the same at first only those of the least second cost stay, and these only
    # if that is less than what any row of lower first cost has.
    lowers = np.ones(len(values), dtype=bool)
    lowers[1:] = least[1:] < np.minimum.accumulate(least)[:-1]
    on_front = np.zeros(len(first), dtype=bool)
    on_front[order] = lowers[group] & (second[order] == least[group])
    return on_front


def hypervolume(costs: ArrayLike, reference: Sequence[float]) -> float:
    """Area of the points that some row of (n, 2) dominates and that dominate the reference.

    The union of the rectangles between each row and the reference, exactly: rows in order of the
    first cost, each adding the strip by which it lowers the second. A row that is not below the
    reference in both costs adds nothing.

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
class Choice:
    """A row chosen under a budget."""

    row: int
    feasible: bool  # whether it keeps within every limit; if not, no row does
    excess: float  # by how much it exceeds the limit it exceeds most; 0 when feasible


def choose(objective: ArrayLike, costs: ArrayLike, limits: Sequence[float]) -> Choice:
    """Pick the lowest objective (n,) among rows of costs (n, m) that are within their limits (m,).

    Where no row is within all limits, pick the nearest: the row whose largest excess over a limit
    is smallest. Ties go to the lower objective, then to the lower sum of costs, then to the first.

    >>> choose([0.1, 0.2, 0.3], [[0.5], [0.4], [0.1]], [0.45])
    Choice(row=1, feasible=True, excess=0.0)
    >>> choose([0.1, 0.2, 0.3], [[0.5], [0.4], [0.25]], [0.0])
    Choice(row=2, feasible=False, excess=0.25)
    """
    aim = np.asarray(objective, dtype=np.float64)
    matrix = _costs(costs)
    most = np.asarray(limits, dtype=np.float64)
    if aim.shape != (len(matrix),) or most.shape != (matrix.shape[1],):
        raise InputError(
            "objective must have one value for each row of costs and limits one for each column, "
            f"got {aim.shape} and {most.shape} for costs of shape {matrix.shape}"
        )
    if len(aim) == 0:
        raise InputError("costs must have at least one row to choose from, got none")
    if np.isnan(aim).any() or np.isnan(most).any():
        raise InputError("objective and limits must not be NaN; leave out rows without a value")
    # A cost equal to its limit is within it, infinite ones included.
    over = np.subtract(matrix, most, out=np.zeros_like(matrix), where=matrix > most)
    excess = over.max(axis=1, initial=0.0)
    row = int(np.lexsort([matrix.sum(axis=1), aim, excess])[0])
    return Choice(row, bool(excess[row] == 0), float(excess[row]))


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
