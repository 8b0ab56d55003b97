"""The numbers on the page of a frontier: models to choose from, and what test rows say of each.

Counts of decisions on the page are exact: the edges of its histograms are thresholds, and decisions
are score > threshold, so the rows above an edge are those with a positive decision there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.frontier import FairFrontier, Selection, SelectionRow
from equipoise.frontier.judging import (
    DRAWS_FOR_MANY,
    Criteria,
    Floats,
    HeldOut,
    ReportSettings,
    certificates,
)
from equipoise.frontier.selection import LimitStep, reports, steps
from equipoise.frontier.snapshots import Curve, Snapshots
from equipoise.metrics import find_metric, measure
from equipoise.metrics.partition import by_decile, quantiles
from equipoise.metrics.sample import even_ranges
from equipoise.tables import SensitiveColumn
from equipoise.training import Health

Numbers = NDArray[np.int64]

#: Most models that can be chosen on a page; it takes about ten seconds to assess them.
MOST_MODELS = 60
#: A page offers this many models even if they take longer or need more room.
LEAST_MODELS = 5
#: Most (model, test row) pairs to assess; with more rows a page offers fewer models.
MOST_ASSESSED = 600_000
#: Most characters of histograms in a page, and characters per count without and with weights.
MOST_CHARACTERS = 600_000
_PER_COUNT = {False: 2.5, True: 7.0}
#: Most numbers about snapshots in the chart, about 9 characters each. If there are more, only some
#: of the snapshots that cannot be chosen are drawn.
MOST_NUMBERS = 40_000
#: Most points of a training curve.
MOST_CHECKS = 300
#: Most groups of an attribute; smaller groups are merged into one.
MOST_GROUPS = 12
#: Most positions along a continuous attribute at which quantiles are shown.
MOST_POSITIONS = 25
#: Bins of a histogram: at least two fifths of this number and at most three more.
BINS = 100
#: Levels of the quantiles of the score that are shown.
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, eq=False, kw_only=True)
class PageData:
    """All numbers on the page of a frontier."""

    curve: Curve
    labels: tuple[str, ...]  # of the classes; () for a continuous outcome
    points: dict[str, Any]  # snapshots in the chart
    entries: list[dict[str, Any]]  # members and averages, with their training curves
    views: tuple[View, ...]  # that can be chosen on the page
    left_out: tuple[View, ...]  # for which the page has no room
    models: tuple[Assessed, ...]  # that can be chosen, by snapshot
    attributes: tuple[GroupedRows, ...]  # () without test rows
    # Position of the view for the metric of the selection, and its attribute if there is only one.
    first: int
    limit: float | None  # limit of the selection, if this view can have it

    def place(self, snapshot: int) -> int:
        """Position of a snapshot among the models."""
        return [model.snapshot for model in self.models].index(snapshot)

    @property
    def most_useful(self) -> Assessed:
        """The model with the best utility, whatever its unfairness."""
        return self.models[self.place(self.views[self.first].steps[-1].snapshot)]

    @property
    def smallest(self) -> dict[str, SmallestGroup]:
        """The smallest group of each discrete attribute among the test rows."""
        found = {each.column.name: each.smallest for each in self.attributes}
        return {name: group for name, group in found.items() if group is not None}


def page_data(frontier: FairFrontier, selection: Selection) -> PageData:
    """Compute all numbers on the page of a fitted frontier and the model selected from it."""
    curve = frontier.fitted_curve()
    snapshots, number, test = curve.snapshots, selection.snapshot, curve.test
    # Snapshots of another frontier may have this number, but hardly the same utility.
    own = number in snapshots.weights and selection.rows[0].validation == snapshots.utility[number]
    if not own:
        raise InputError(
            f"selection must come from this frontier, got snapshot {number} of another; pass what "
            "frontier.select returns"
        )
    attributes = () if test is None else grouped_rows(test)
    most = _most_models(curve, attributes)
    possible = views_of(snapshots)
    # Each view needs room for the first and last of its models, and the selected model may be in
    # no view.
    offered = some_views(possible, (most - 1) // 2, possible[_first_view(possible, selection)])
    views = thinned(offered, most, always=[number])
    first = _first_view(views, selection)
    numbers = sorted(snapshots_shown(views) | {number})
    settings = ReportSettings(
        level=selection.level, draws=DRAWS_FOR_MANY, candidates=selection.candidates
    )
    # The selected model has the numbers of its selection, which may be from more draws.
    models = tuple(
        replace(each, rows=selection.rows) if each.snapshot == number else each
        for each in assess_snapshots(curve, numbers, settings, attributes)
    )
    needed = {*numbers, *(step.snapshot for view in views for step in view.steps)}
    return PageData(
        curve=curve,
        labels=tuple(str(label) for label in getattr(curve.template, "classes_", ())),
        points=points_of(snapshots, needed),
        entries=training_curves(curve),
        views=views,
        left_out=tuple(view for view in possible if view not in offered),
        models=models,
        attributes=attributes,
        first=first,
        limit=_limit(selection, views[first]),
    )


def _most_models(curve: Curve, attributes: Sequence[GroupedRows]) -> int:
    """Return how many models fit into a page and can be assessed in reasonable time."""
    if curve.test is None:
        return MOST_MODELS
    classes = 2 if curve.test.outcome == "binary" else 1
    groups = sum(len(each.labels) for each in attributes)
    per_count = _PER_COUNT[curve.test.weights is not None]
    by_room = MOST_CHARACTERS / (groups * classes * BINS * per_count)
    by_time = MOST_ASSESSED / len(curve.test)
    return int(np.clip(min(by_room, by_time), LEAST_MODELS, MOST_MODELS))


def _first_view(views: Sequence[View], selection: Selection) -> int:
    only = selection.attributes[0] if len(selection.attributes) == 1 else None
    return [(view.metric, view.attribute) for view in views].index((selection.metric, only))


def _limit(selection: Selection, view: View) -> float | None:
    """Return the limit of the selection, if it is the same for all attributes of the view."""
    limits = {row.attribute: row.limit for row in selection.rows if row.metric == selection.metric}
    limit, *others = {limits[attribute] for attribute in selection.attributes}
    asked_for_all = len(selection.attributes) == len(view.columns)
    return None if others or not asked_for_all or math.isnan(limit) else limit


def points_of(snapshots: Snapshots, needed: Set[int]) -> dict[str, Any]:
    """Return the P snapshots in the chart: arrays (P,), and unfairness (M, P).

    These are all; if there are too many, those needed and evenly spaced ones of the others. "of" is
    the number of all snapshots, "number" the row of each in FairFrontier.table().
    """
    count = len(snapshots.utility)
    room = MOST_NUMBERS // (4 + len(snapshots.criteria.measures))
    others = np.setdiff1d(np.arange(count), list(needed))
    left = max(0, room - len(needed))
    if len(others) > left:
        others = others[np.linspace(0, len(others) - 1, left).round().astype(np.int64)]
    numbers = np.sort(np.concatenate([others, list(needed)]).astype(np.int64))
    return {
        "number": numbers,
        "entry": snapshots.entry[numbers],
        "iteration": snapshots.iteration[numbers],
        "utility": snapshots.utility[numbers],
        "unfairness": snapshots.unfairness[numbers].T,
        "of": count,
    }


def training_curves(curve: Curve) -> list[dict[str, Any]]:
    """Return every member and average with its mean losses at some checks of training."""
    found = []
    for estimator in curve.trained:
        history = estimator.history
        last = len(history.iterations) - 1
        checks = np.unique(np.linspace(0, last, MOST_CHECKS).round().astype(np.int64))
        for entry in estimator.entries:
            shown = np.ix_(checks, np.array(entry.members))
            found.append(
                {
                    "predictor": entry.family,
                    "strength": entry.strength,
                    "seed": entry.seed,
                    "averaged": len(entry.members),
                    "iterations": history.iterations[checks],
                    "task": history.task[shown].mean(axis=1),
                    "penalty": history.penalty[shown].mean(axis=1),
                }
            )
    return found


@dataclass(frozen=True)
class View:
    """The models that ``select`` picks as the limit on one metric rises."""

    metric: str
    attribute: str | None  # None if the limit is for all attributes
    columns: tuple[int, ...]  # positions of the measures; the largest counts
    steps: tuple[LimitStep, ...]
    shown: tuple[int, ...]  # positions of the steps that can be chosen on the page

    def limit(self, position: int) -> str:
        """Return the limit with the fewest decimals at which ``select`` picks this step.

        >>> steps = (LimitStep(0.0412, 5), LimitStep(0.04193, 7), LimitStep(0.2, 9))
        >>> view = View("SP", "age", (0,), steps, (0, 1, 2))
        >>> [view.limit(position) for position in range(3)]
        ['0.0412', '0.042', '0.2']
        """
        least = self.steps[position].unfairness
        last = position + 1 == len(self.steps)
        next_one = math.inf if last else self.steps[position + 1].unfairness
        for digits in range(3, 16):
            limit = math.ceil(least * 10**digits) / 10**digits
            if least <= limit < next_one:
                return f"{limit:.{digits}f}".rstrip("0").rstrip(".")
        return repr(least)


def views_of(snapshots: Snapshots) -> tuple[View, ...]:
    """Return the views of each metric: for all attributes, if there are several, and for each.

    There is no view of a metric that is undefined for every snapshot, or that ``select`` refuses.
    """
    found = []
    criteria = snapshots.criteria
    for metric in criteria.metrics:
        if find_metric(metric).caveat(criteria.outcome):
            continue
        places = criteria.by_attribute(metric)
        several: list[str | None] = [None] if len(places) > 1 else []
        for attribute in [*several, *places]:
            picked = steps(snapshots, metric, attribute)
            columns = tuple(places.values()) if attribute is None else (places[attribute],)
            found.append(View(metric, attribute, columns, picked, tuple(range(len(picked)))))
    return tuple(view for view in found if view.steps)


def some_views(views: Sequence[View], most: int, always: View) -> tuple[View, ...]:
    """Return at most ``most`` of the views, in order, ``always`` among them."""
    others = [view for view in views if view is not always][: max(0, most - 1)]
    return tuple(view for view in views if view is always or view in others)


def thinned(views: Sequence[View], most: int, always: Iterable[int] = ()) -> tuple[View, ...]:
    """Leave out steps, evenly along each view, until at most ``most`` snapshots are shown.

    The first and last step of every view and the snapshots ``always`` stay.
    """
    wanted = set(always)
    size = max(len(view.steps) for view in views)
    while True:
        found = tuple(replace(view, shown=_evenly(view, size, wanted)) for view in views)
        if size == 2 or len(snapshots_shown(found) | wanted) <= most:
            return found
        size -= 1


def snapshots_shown(views: Iterable[View]) -> set[int]:
    """Return the snapshots that can be chosen in these views."""
    return {view.steps[position].snapshot for view in views for position in view.shown}


def _evenly(view: View, size: int, wanted: set[int]) -> tuple[int, ...]:
    spread = np.linspace(0, len(view.steps) - 1, min(size, len(view.steps)))
    kept = {round(float(place)) for place in spread}
    kept |= {place for place, step in enumerate(view.steps) if step.snapshot in wanted}
    return tuple(sorted(kept))


@dataclass(frozen=True, eq=False, kw_only=True)
class Assessed:
    """The assessment of one kept snapshot on the test rows."""

    snapshot: int  # row in FairFrontier.table()
    threshold: float | None
    health: Health
    # Utility first, then every metric by attribute; certificates are for this snapshot alone.
    rows: tuple[SelectionRow, ...]
    # Certificates (M,) that hold for all snapshots on the page together, so also for one that was
    # chosen by its test values. NaN without a certificate.
    joint_certificates: Floats
    spreads: tuple[Spread, ...]  # for each attribute; empty without test rows


def assess_snapshots(
    curve: Curve,
    numbers: Sequence[int],
    settings: ReportSettings,
    attributes: Sequence[GroupedRows] = (),
) -> tuple[Assessed, ...]:
    """Assess E kept snapshots on the test rows; the numbers are those that ``select`` reports."""
    criteria, test = curve.snapshots.criteria, curve.test
    found = reports(curve, numbers, settings)
    joint = np.full((len(numbers), len(criteria.measures)), np.nan)
    spreads: list[tuple[Spread, ...]] = [()] * len(numbers)
    scores = curve.test_scores(numbers)
    if scores is not None and test is not None:
        together = replace(settings, candidates=settings.candidates * len(numbers))
        joint = certificates(scores, test, criteria, together)
        spreads = [
            tuple(spread_of(own, curve.threshold(n), test, each, criteria) for each in attributes)
            for own, n in zip(scores, numbers, strict=True)
        ]
    return tuple(
        Assessed(
            snapshot=number,
            threshold=curve.threshold(number),
            health=curve.health[number],
            rows=found[place],
            joint_certificates=joint[place],
            spreads=spreads[place],
        )
        for place, number in enumerate(numbers)
    )


@dataclass(frozen=True)
class SmallestGroup:
    """The group of a discrete attribute with the fewest rows, and their number."""

    label: str
    size: float


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """The test rows in G groups of one attribute."""

    column: SensitiveColumn
    labels: tuple[str, ...]
    codes: Numbers  # group of each row, (n,)
    sizes: Floats  # total weight of each group, (G,)
    # For a continuous attribute: the median of each of P ranges, and the range of each row.
    middle: Floats | None = None
    ranges: Numbers | None = None
    smallest: SmallestGroup | None = None  # for a discrete attribute


def grouped_rows(rows: HeldOut) -> tuple[GroupedRows, ...]:
    """Group the test rows by every attribute."""
    found = []
    for column in rows.table.columns:
        labels, codes = groups_of(column, rows.counts)
        sizes = np.bincount(codes, rows.counts).astype(np.float64)
        grouped = GroupedRows(column, labels, codes, sizes)
        if column.values is None:
            found.append(replace(grouped, smallest=smallest_group(column, rows.counts)))
        else:
            middle, ranges = positions_along(column)
            found.append(replace(grouped, middle=middle, ranges=ranges))
    return tuple(found)


def groups_of(column: SensitiveColumn, weights: Floats) -> tuple[tuple[str, ...], Numbers]:
    """Return the labels of groups and the group (n,) of each row: categories, or decile ranges.

    If there are many groups the smallest are merged. Missing values are a group of their own.

    >>> from equipoise.tables import SensitiveTable
    >>> column = SensitiveTable.from_data({"sex": ["M", "F", "M"]})["sex"]
    >>> labels, codes = groups_of(column, np.ones(3))
    >>> labels, codes.tolist()
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
        # The same ranges as in metrics by group.
        codes = by_decile(values, torch.from_numpy(weights * known), column.name).codes.numpy()
        labels = []
        for band in range(int(codes.max()) + 1):
            inside = column.values[known & (codes == band)]
            labels.append(f"{inside.min():.6g} to {inside.max():.6g}" if len(inside) else "")
    codes = np.where(known, codes, len(labels))
    labels.append("not known")
    present, codes = np.unique(codes, return_inverse=True)
    return tuple(labels[code] for code in present), codes


def smallest_group(column: SensitiveColumn, weights: Floats) -> SmallestGroup:
    """Return the smallest group of a discrete column that has rows.

    >>> from equipoise.tables import SensitiveTable
    >>> column = SensitiveTable.from_data({"sex": ["M", "F", "M"]})["sex"]
    >>> smallest_group(column, np.ones(3))
    SmallestGroup(label='F', size=1.0)
    """
    assert column.codes is not None
    known = ~column.missing
    sizes = np.bincount(column.codes[known], weights[known], minlength=len(column.categories))
    least = int(np.where(sizes > 0, sizes, np.inf).argmin())
    return SmallestGroup(str(column.categories[least]), float(sizes[least]))


def positions_along(column: SensitiveColumn) -> tuple[Floats, Numbers]:
    """Cut a continuous column into ranges.

    Returns their medians, and the range of each row, -1 for a missing value.
    """
    assert column.values is not None
    known = column.values[~column.missing]
    ranges = even_ranges(known, MOST_POSITIONS)
    middle = np.array([np.median(known[ranges == place]) for place in range(ranges.max() + 1)])
    codes = np.full(len(column.values), -1, dtype=np.int64)
    codes[~column.missing] = ranges
    return middle, codes


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread:
    """The distribution of one model's scores in the groups of one attribute."""

    column: int  # of the scores: the class that is worst for this attribute
    edges: Edges
    # Total weight of the rows, (G, C, B): by group, by outcome if there are two classes, by bin.
    counts: Floats
    quantiles: Floats  # at LEVELS, (G, 5)
    bands: Floats | None  # the same in the ranges of a continuous attribute, (P, 5)


def spread_of(
    all_scores: Floats,
    threshold: float | None,
    rows: HeldOut,
    groups: GroupedRows,
    criteria: Criteria,
) -> Spread:
    """Return the distribution of scores (n, s) by one attribute."""
    worst = _worst_class(all_scores, rows, groups.column, criteria)
    scores = np.ascontiguousarray(all_scores[:, worst])
    edges = edges_for(scores, threshold)
    weights, ranges = rows.counts, groups.ranges
    classes = rows.y if rows.outcome == "binary" else np.zeros(len(rows), dtype=np.int64)
    return Spread(
        column=worst,
        edges=edges,
        counts=counts_by_group(scores, edges, groups.codes, classes, weights),
        quantiles=quantiles_by_group(scores, groups.codes, weights),
        bands=None if ranges is None else quantiles_by_group(scores, ranges, weights),
    )


def _worst_class(scores: Floats, rows: HeldOut, column: SensitiveColumn, criteria: Criteria) -> int:
    """Return the column of scores (n, s) that is the most unfair by the first metric."""
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
class Edges:
    """Edges of a histogram, ascending: multiples of a round step, and the model's own threshold.

    The first is below all scores, the last is not.
    """

    values: Floats  # (B + 1,)
    first: float  # without the model's own threshold, edge j is first + j * step
    step: float
    # Position of the model's own threshold; if that is outside, of the end with the same decisions.
    own: int | None
    inserted: bool  # whether the model's own threshold was added to the multiples of the step


def edges_for(scores: Floats, threshold: float | None) -> Edges:
    """Return edges for scores (n,) and the model's own threshold.

    >>> edges = edges_for(np.array([0.031, 0.2, 0.918]), threshold=0.2012)
    >>> edges.values[[0, 1, edges.own, -1]].tolist(), len(edges.values)
    ([0.03, 0.04, 0.2012, 0.92], 91)
    """
    low, high = float(scores.min()), float(scores.max())
    step = _round_step((high - low) / BINS or max(abs(low), 1.0) / BINS)
    first, last = math.ceil(low / step) - 1, math.ceil(high / step)
    digits = max(0, 1 - math.floor(math.log10(step)))
    values = np.array([round(number * step, digits) for number in range(first, last + 1)])
    # Rounding may have moved an end of the range past a score.
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
    """Return the smallest of 1, 2, 5 times a power of ten that is at least ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= least * (1 - 1e-9))
    return float(f"{step:.1g}")


def counts_by_group(
    scores: Floats, edges: Edges, codes: Numbers, classes: Numbers, weights: Floats
) -> Floats:
    """Return the total weight of the rows in each bin, by group and class, (G, C, B).

    Bin b holds the scores above edge b and not above edge b + 1.
    """
    place = np.searchsorted(edges.values, scores, side="left") - 1
    shape = (int(codes.max()) + 1, int(classes.max(initial=0)) + 1, len(edges.values) - 1)
    cells = np.ravel_multi_index((codes, classes, place), shape)
    found = np.bincount(cells, weights, minlength=math.prod(shape))
    return found.astype(np.float64).reshape(shape)


def quantiles_by_group(scores: Floats, codes: Numbers, weights: Floats) -> Floats:
    """Return the quantiles of scores (n,) in each group, (G, 5); rows of code -1 do not count."""
    found = [
        quantiles(torch.from_numpy(scores[inside]), torch.from_numpy(weights[inside]), LEVELS)
        for inside in (codes == code for code in range(int(codes.max()) + 1))
    ]
    return torch.stack(found).numpy()
