"""Kept snapshots beside one another: what test rows say of each, and how its scores are spread.

Counts are exact: a histogram's edges are thresholds, among them the model's own, and a decision is
score > threshold, so that the counts above an edge are the decisions there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.frontier.curve import Curve
from equipoise.frontier.rows import HeldOut
from equipoise.frontier.selection import ReportSettings, SelectionRow, Wish, certificates, report
from equipoise.frontier.snapshots import Criteria, Floats
from equipoise.metrics import measure
from equipoise.metrics.partition import by_decile, quantiles
from equipoise.metrics.sample import SMALL_GROUP
from equipoise.tables import SensitiveColumn
from equipoise.training import Health

#: Draws of the bootstrap for each of many snapshots.
DRAWS = 100
#: Groups of one attribute that are told apart; the smaller ones are put together.
MOST_GROUPS = 12
#: Positions along a continuous attribute at which quantiles are shown.
MOST_POSITIONS = 25
#: A histogram has between two fifths of this many bins and this many, and two or three more.
BINS = 200
#: Quantiles of the score that bands and bars show.
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, eq=False, kw_only=True)
class Assessed:
    """One kept snapshot.

    Attributes
    ----------
    snapshot : int
        Its row in ``FairFrontier.table()``.
    threshold : float or None
        Where decisions are cut: Youden's on the validation rows; None but for two classes.
    health : Health
    rows : tuple of SelectionRow
        Utility first, then every metric by attribute; certificates are for this snapshot alone.
    joint_certificates : ndarray of float64, shape (M,)
        Upper bounds, in the order of the metrics by attribute. They hold for all snapshots assessed
        along with this one together, so also for the one picked by its test values. NaN where there
        is none.
    spreads : tuple of Spread
        Of the scores on the test rows, one for each attribute; empty without test rows.
    """

    snapshot: int
    threshold: float | None
    health: Health
    rows: tuple[SelectionRow, ...]
    joint_certificates: Floats
    spreads: tuple[Spread, ...]


def assess_snapshots(
    curve: Curve,
    numbers: Sequence[int],
    settings: ReportSettings,
    attributes: Sequence[GroupedRows] = (),
) -> tuple[Assessed, ...]:
    """Assess E kept snapshots on the test rows; each gets the numbers ``select`` would give it."""
    criteria, test = curve.snapshots.criteria, curve.test
    scores = curve.test_scores(numbers)
    found = reports(curve, numbers, scores, settings)
    joint = np.full((len(numbers), len(criteria.measures)), np.nan)
    spreads: list[tuple[Spread, ...]] = [()] * len(numbers)
    thresholds = [curve.picked(number, _no_limit(criteria)).threshold for number in numbers]
    if scores is not None and test is not None:
        together = replace(settings, candidates=settings.candidates * len(numbers))
        joint = certificates(scores, test, criteria, together)
        spreads = [
            tuple(spread_of(own, threshold, test, each, criteria) for each in attributes)
            for own, threshold in zip(scores, thresholds, strict=True)
        ]
    return tuple(
        Assessed(
            snapshot=number,
            threshold=thresholds[place],
            health=curve.model(number).health_,
            rows=found[place],
            joint_certificates=joint[place],
            spreads=spreads[place],
        )
        for place, number in enumerate(numbers)
    )


def reports(
    curve: Curve, numbers: Sequence[int], scores: Floats | None, settings: ReportSettings
) -> list[tuple[SelectionRow, ...]]:
    """What ``select`` would report of each snapshot, with scores (E, n, s) on the test rows."""
    criteria = curve.snapshots.criteria
    picked = [curve.picked(number, _no_limit(criteria)) for number in numbers]
    return report(scores, curve.test, criteria, picked, settings)


def _no_limit(criteria: Criteria) -> Wish:
    return Wish(criteria.metrics[0], {}, -math.inf)


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Test rows beside one attribute: what does not depend on the scores.

    Attributes
    ----------
    column : SensitiveColumn
    groups : Groups
    sizes : ndarray of float64, shape (G,)
        Weight of the rows in each group.
    positions : Positions or None
        None for a discrete attribute.
    """

    column: SensitiveColumn
    groups: Groups
    sizes: Floats
    positions: Positions | None


def grouped_rows(rows: HeldOut) -> tuple[GroupedRows, ...]:
    """Sort the test rows by every attribute."""
    weights = row_weights(rows)
    found = []
    for column in rows.table.columns:
        groups = groups_of(column, weights)
        positions = None if column.values is None else positions_along(column)
        sizes = np.bincount(groups.codes, weights).astype(np.float64)
        found.append(GroupedRows(column, groups, sizes, positions))
    return tuple(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread:
    """How one model's scores are spread over the groups of one attribute, or along it.

    Attributes
    ----------
    column : int
        Which column of the scores; of several classes the one that is worst for the attribute.
    edges : Edges
    counts : ndarray of float64, shape (G, C, B)
        Weight of the rows by group, by class of two, and by bin.
    quantiles : ndarray of float64, shape (G, 5)
        At `LEVELS`.
    bands : ndarray of float64, shape (P, 5), or None
        The same at positions along a continuous attribute.
    """

    column: int
    edges: Edges
    counts: Floats
    quantiles: Floats
    bands: Floats | None


def spread_of(
    all_scores: Floats,
    threshold: float | None,
    rows: HeldOut,
    beside: GroupedRows,
    criteria: Criteria,
) -> Spread:
    """Count and sort scores (n, s) by one attribute."""
    worst = _worst_class(all_scores, rows, beside.column, criteria)
    scores = np.ascontiguousarray(all_scores[:, worst])
    edges = edges_for(scores, threshold)
    weights = row_weights(rows)
    classes = rows.y if rows.outcome == "binary" else np.zeros(len(rows), dtype=np.int64)
    along = beside.positions
    bands = None
    if along is not None:
        bands = quantiles_by_group(scores[along.rows], along.codes, weights[along.rows])
    return Spread(
        column=worst,
        edges=edges,
        counts=counts_by_group(scores, edges, beside.groups, classes, weights),
        quantiles=quantiles_by_group(scores, beside.groups.codes, weights),
        bands=bands,
    )


def _worst_class(scores: Floats, rows: HeldOut, column: SensitiveColumn, criteria: Criteria) -> int:
    """Which column of scores (n, s) is the most unfair by the first metric for this attribute."""
    metrics = [metric for metric, attribute in criteria.measures if attribute == column.name]
    if scores.shape[1] == 1 or not metrics:
        return 0
    found = measure(
        metrics[0],
        np.ascontiguousarray(scores.T),
        column,
        rows.y,
        weights=rows.weights,
        threshold=None,
        outcome=rows.outcome,
    )
    return int(np.argmax(np.nan_to_num(np.asarray(found.values), nan=-np.inf)))


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows sorted into G groups: categories, or ranges between deciles of a continuous column.

    Attributes
    ----------
    labels : tuple of str
    codes : ndarray of int64, shape (n,)
        Index into `labels`.
    """

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
        # The bands of every metric by group.
        codes = by_decile(values, torch.from_numpy(weights * known), column.name).codes.numpy()
        labels = []
        for band in range(int(codes.max()) + 1):
            inside = column.values[known & (codes == band)]
            labels.append(f"{inside.min():.6g} to {inside.max():.6g}" if len(inside) else "")
    codes = np.where(known, codes, len(labels))
    labels.append("not known")
    present, codes = np.unique(codes, return_inverse=True)
    return Groups(tuple(labels[code] for code in present), codes)


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
        Position of the model's own threshold; where that lies outside, of the end that decides the
        same.
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
