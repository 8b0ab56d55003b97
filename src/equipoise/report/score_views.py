"""How scores are distributed by group and along a continuous attribute, as small arrays to draw.

Counts are exact: a histogram's edges are thresholds, among them the model's own, and a decision is
score > threshold, so that the counts above an edge are the decisions there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.frontier.rows import HeldOut
from equipoise.metrics.groups import SMALL_GROUP
from equipoise.metrics.partition import by_decile, quantiles
from equipoise.tables import SensitiveColumn

Floats = NDArray[np.float64]

#: Groups of one attribute that are told apart; the smaller ones are put together.
MOST_GROUPS = 12
#: Positions along a continuous attribute at which quantiles are shown.
MOST_POSITIONS = 25
#: A histogram has between two fifths of this many bins and this many, and two or three more.
BINS = 200
#: Quantiles of the score that bands and bars show.
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows sorted into G groups: categories, or ranges between deciles of a continuous column.

    Attributes
    ----------
    attribute : str
    kind : {"discrete", "continuous"}
    labels : tuple of str
    codes : ndarray of int64, shape (n,)
        Index into `labels`.
    """

    attribute: str
    kind: str
    labels: tuple[str, ...]
    codes: NDArray[np.int64]


def groups_of(column: SensitiveColumn, weights: Floats) -> Groups:
    """Sort rows into groups; the smallest of many are put together, unknown values are a group.

    >>> from equipoise.tables import SensitiveTable
    >>> column = SensitiveTable.from_data({"sex": ["M", "F", "M"]})["sex"]
    >>> groups = groups_of(column, np.ones(3))
    >>> groups.labels, groups.codes.tolist()
    (('F', 'M'), [1, 0, 1])
    """
    known = ~column.missing
    if column.values is None:
        assert column.codes is not None
        codes = column.codes.copy()
        labels = [str(category) for category in column.categories]
        sizes = np.bincount(codes[known], weights[known], minlength=len(labels))
        if len(labels) > MOST_GROUPS:
            small = np.argsort(-sizes, kind="stable")[MOST_GROUPS - 1 :]
            codes[np.isin(codes, small)] = len(labels)
            labels.append(f"{len(small)} smaller groups together")
    else:
        values = torch.from_numpy(np.nan_to_num(column.values))
        # The very bands of `equipoise.metrics.group_table`.
        codes = by_decile(values, torch.from_numpy(weights * known), column.name).codes.numpy()
        labels = []
        for band in range(int(codes.max()) + 1):
            inside = column.values[known & (codes == band)]
            labels.append(f"{inside.min():.6g} to {inside.max():.6g}" if len(inside) else "")
    codes = np.where(known, codes, len(labels))
    labels.append("not known")
    present, codes = np.unique(codes, return_inverse=True)
    return Groups(column.name, column.kind, tuple(labels[code] for code in present), codes)


@dataclass(frozen=True)
class SmallestGroup:
    """The group of a discrete attribute with the fewest rows, and how many they are."""

    label: str
    size: float


def smallest_group(column: SensitiveColumn, weights: Floats) -> SmallestGroup | None:
    """Find the smallest group that has rows; None for a continuous column.

    >>> from equipoise.tables import SensitiveTable
    >>> column = SensitiveTable.from_data({"sex": ["M", "F", "M"]})["sex"]
    >>> smallest_group(column, np.ones(3))
    SmallestGroup(label='F', size=1.0)
    """
    if column.codes is None:
        return None
    known = ~column.missing
    sizes = np.bincount(column.codes[known], weights[known], minlength=len(column.categories))
    least = int(np.where(sizes > 0, sizes, np.inf).argmin())
    return SmallestGroup(str(column.categories[least]), float(sizes[least]))


@dataclass(frozen=True, eq=False)
class Edges:
    """Thresholds, ascending: multiples of a round step, and the model's own.

    The first is below every score and the last is not.

    Attributes
    ----------
    values : ndarray of float64, shape (B + 1,)
    first, step : float
        Edge j is first + j * step, counted without the model's own.
    own : int or None
        Position of the threshold that stands for the model's own: itself where it lies between the
        first and the last, else the one of these that decides the same.
    inserted : bool
        Whether the model's own threshold is one of the values by itself.
    """

    values: Floats
    first: float
    step: float
    own: int | None
    inserted: bool


def edges_for(scores: Floats, threshold: float | None) -> Edges:
    """Thresholds for scores (n,).

    >>> edges = edges_for(np.array([0.031, 0.2, 0.918]), threshold=0.2012)
    >>> edges.values[[0, 1, edges.own, -1]].tolist(), len(edges.values)
    ([0.03, 0.035, 0.2012, 0.92], 180)
    """
    low, high = float(scores.min()), float(scores.max())
    step = _round_step((high - low) / BINS or max(abs(low), 1.0) / BINS)
    first, last = math.ceil(low / step) - 1, math.ceil(high / step)
    digits = max(0, 1 - math.floor(math.log10(step)))
    values = np.array([round(number * step, digits) for number in range(first, last + 1)])
    # Rounding may have moved an end past a score.
    if values[0] >= low:
        first -= 1
        values = np.insert(values, 0, round(first * step, digits))
    if values[-1] < high:
        values = np.append(values, round((last + 1) * step, digits))
    own, inserted = None, False
    if threshold is not None:
        own = int(np.clip(np.searchsorted(values, threshold), 0, len(values) - 1))
        inserted = bool(values[0] < threshold < values[-1] and values[own] != threshold)
        if inserted:
            values = np.insert(values, own, threshold)
    return Edges(values, round(first * step, digits), step, own, inserted)


def _round_step(least: float) -> float:
    """Smallest of 1, 2, 5 times a power of ten that is at least ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= least * (1 - 1e-9))
    return float(f"{step:.1g}")


def counts_by_group(
    scores: Floats, edges: Edges, groups: Groups, classes: NDArray[np.int64], weights: Floats
) -> Floats:
    """Weight of the rows in each bin, (G, C, B), for scores (n,) and classes (n,) from 0 to C - 1.

    Bin b holds the scores above edge b and not above edge b + 1.
    """
    bins = len(edges.values) - 1
    place = np.searchsorted(edges.values, scores, side="left") - 1
    shape = (len(groups.labels), int(classes.max(initial=0)) + 1, bins)
    cells = np.ravel_multi_index((groups.codes, classes, place), shape)
    found = np.bincount(cells, weights, minlength=math.prod(shape))
    return found.astype(np.float64).reshape(shape)


def quantiles_by_group(scores: Floats, codes: NDArray[np.int64], weights: Floats) -> Floats:
    """Quantiles of the scores (n,) in each group, (G, 5)."""
    found = [
        quantiles(torch.from_numpy(scores[inside]), torch.from_numpy(weights[inside]), LEVELS)
        for inside in (codes == code for code in range(int(codes.max()) + 1))
    ]
    return torch.stack(found).numpy()


@dataclass(frozen=True, eq=False)
class Positions:
    """Ranges of equal frequency along a continuous column, P of them.

    Attributes
    ----------
    middle : ndarray of float64, shape (P,)
        Median of the column in each range.
    rows : ndarray of int64, shape (m,)
        Rows in which the column is known.
    codes : ndarray of int64, shape (m,)
        Range of each of them.
    """

    middle: Floats
    rows: NDArray[np.int64]
    codes: NDArray[np.int64]


def positions_along(column: SensitiveColumn) -> Positions:
    """Cut a continuous column into ranges, so few that each has about `SMALL_GROUP` rows."""
    assert column.values is not None
    rows = np.flatnonzero(~column.missing)
    values = column.values[rows]
    count = int(np.clip(len(values) // SMALL_GROUP, 2, MOST_POSITIONS))
    cuts = np.quantile(values, np.arange(1, count) / count)
    used, codes = np.unique(np.searchsorted(cuts, values, side="left"), return_inverse=True)
    middle = np.array([np.median(values[codes == code]) for code in range(len(used))])
    return Positions(middle, rows, codes)


def row_weights(rows: HeldOut) -> Floats:
    """How many rows each row stands for, (n,)."""
    return np.ones(len(rows)) if rows.weights is None else rows.weights
