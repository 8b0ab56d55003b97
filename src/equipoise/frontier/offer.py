"""What a page offers of a frontier: staircases to choose on, and the models on them, assessed.

Counts are exact: a histogram's edges are thresholds, among them the model's own, and a decision is
score > threshold, so that the counts above an edge are the decisions there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.frontier.estimator import FairFrontier
from equipoise.frontier.judging import Criteria, Floats, HeldOut, ReportSettings, certificates
from equipoise.frontier.selection import Selection, SelectionRow, Step, reports, steps
from equipoise.frontier.snapshots import Curve, Snapshots
from equipoise.metrics import find_metric, measure
from equipoise.metrics.partition import by_decile, quantiles
from equipoise.metrics.sample import even_ranges
from equipoise.tables import SensitiveColumn
from equipoise.training import Health

Numbers = NDArray[np.int64]

#: Models that can be chosen on a page; about ten seconds are needed to assess so many.
MOST_MODELS = 80
#: Models that are offered in any case.
LEAST_MODELS = 5
#: (Model, test row) pairs that are assessed; with more rows, fewer models are offered.
MOST_ASSESSED = 600_000
#: Characters of histograms that go into a page, and how many a count takes: of rows, of weights.
MOST_CHARACTERS = 3_000_000
_PER_COUNT = {False: 2.5, True: 7.0}
#: Numbers about snapshots in the chart, some twenty characters each; of more snapshots, only some
#: of those that are on no staircase are shown.
MOST_NUMBERS = 75_000
#: Checks of a training curve that are kept.
MOST_CHECKS = 300
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
class Offer:
    """A frontier as a page shows it: finished numbers only."""

    criteria: Criteria
    families: tuple[str, ...]  # kinds of predictors that compete
    labels: tuple[str, ...]  # of the classes; () for a continuous outcome
    weighted: bool  # whether test rows count by weights
    validation_rows: int
    test_rows: int
    points: Points
    entries: tuple[TrainedEntry, ...]
    views: tuple[View, ...]  # questions that can be asked on the page
    left_out: tuple[View, ...]  # those that it has no room for
    models: tuple[Assessed, ...]  # every model that can be chosen, by snapshot
    attributes: tuple[GroupedRows, ...]  # test rows beside each attribute; () without test rows
    # Position of the view that asks what the selection was asked, or asks it for all attributes.
    first: int
    limit: float | None  # the limit that was set, where the page can set it, too
    kept: int  # snapshots on some front

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


def offer(frontier: FairFrontier, selection: Selection) -> Offer:
    """Gather what a page shows of a fitted frontier and the model selected from it."""
    curve = frontier.fitted_curve()
    snapshots, number, test = curve.snapshots, selection.snapshot, curve.test
    # Two frontiers may share a snapshot's number, but hardly its utility to the last digit.
    own = number in snapshots.weights and selection.rows[0].validation == snapshots.utility[number]
    if not own:
        raise InputError(
            f"selection must be one that this frontier's select returned, got snapshot {number} of "
            "another; call frontier.select and pass what it returns"
        )
    attributes = () if test is None else grouped_rows(test)
    most = _most_models(curve, attributes)
    possible = views_of(snapshots)
    # Each staircase needs room for its two ends, and the selected model may be on none.
    some = offered(possible, (most - 1) // 2, possible[_first_view(possible, selection)])
    views = thinned(some, most, always=[number])
    first = _first_view(views, selection)
    numbers = sorted(snapshots_shown(views) | {number})
    settings = ReportSettings(level=selection.level, draws=DRAWS, candidates=selection.candidates)
    # The selected model keeps its selection's numbers.
    models = tuple(
        replace(each, rows=selection.rows) if each.snapshot == number else each
        for each in assess_snapshots(curve, numbers, settings, attributes)
    )
    needed = {*numbers, *(step.snapshot for view in views for step in view.steps)}
    return Offer(
        criteria=snapshots.criteria,
        families=curve.families,
        labels=tuple(str(label) for label in getattr(curve.template, "classes_", ())),
        weighted=test is not None and test.weights is not None,
        validation_rows=len(curve.split.validation),
        test_rows=selection.test_rows,
        points=points_of(snapshots, needed),
        entries=_trained(curve),
        views=views,
        left_out=tuple(view for view in possible if view not in some),
        models=models,
        attributes=attributes,
        first=first,
        limit=_limit(selection, views[first]),
        kept=len(snapshots.weights),
    )


def _most_models(curve: Curve, attributes: Sequence[GroupedRows]) -> int:
    """How many models fit into a page and can be assessed in reasonable time."""
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
    asked = [(view.metric, view.attribute) for view in views]
    return asked.index((selection.metric, only))


def _limit(selection: Selection, view: View) -> float | None:
    """The limit that was set, if it is one for all attributes of the view."""
    limits = {row.attribute: row.limit for row in selection.rows if row.metric == selection.metric}
    limit, *others = {limits[attribute] for attribute in selection.attributes}
    asked_for_all = len(selection.attributes) == len(view.columns)
    return None if others or not asked_for_all or math.isnan(limit) else limit


@dataclass(frozen=True, eq=False)
class Points:
    """Snapshots in the picture, P of ``of``: arrays (P,), and M measures of unfairness (M, P)."""

    number: Numbers  # the row in FairFrontier.table()
    entry: Numbers
    iteration: Numbers
    utility: Floats
    unfairness: Floats
    of: int


def points_of(snapshots: Snapshots, needed: Set[int]) -> Points:
    """All snapshots; of very many, those needed and an even sample of the others."""
    count = len(snapshots.utility)
    room = MOST_NUMBERS // (4 + len(snapshots.criteria.measures))
    others = np.setdiff1d(np.arange(count), list(needed))
    left = max(0, room - len(needed))
    if len(others) > left:
        others = others[np.linspace(0, len(others) - 1, left).round().astype(np.int64)]
    numbers = np.sort(np.concatenate([others, list(needed)]).astype(np.int64))
    return Points(
        numbers,
        snapshots.entry[numbers],
        snapshots.iteration[numbers],
        snapshots.utility[numbers],
        snapshots.unfairness[numbers].T,
        count,
    )


@dataclass(frozen=True, eq=False)
class TrainedEntry:
    """A member or average, and its mean losses at some of the checks of training, (T,)."""

    predictor: str
    strength: float
    seed: int
    averaged: int
    iterations: Numbers
    task: Floats
    penalty: Floats


def _trained(curve: Curve) -> tuple[TrainedEntry, ...]:
    found = []
    for strand in curve.strands:
        history = strand.history
        last = len(history.iterations) - 1
        checks = np.unique(np.linspace(0, last, MOST_CHECKS).round().astype(np.int64))
        for entry in strand.entries:
            seen = np.ix_(checks, np.array(entry.members))
            losses = [values[seen].mean(axis=1) for values in (history.task, history.penalty)]
            who = (entry.family, entry.strength, entry.seed, len(entry.members))
            found.append(TrainedEntry(*who, history.iterations[checks], *losses))
    return tuple(found)


@dataclass(frozen=True)
class View:
    """The question how much unfairness by one metric, for one attribute or all, is tolerated."""

    metric: str
    attribute: str | None  # None is all attributes at once
    columns: tuple[int, ...]  # positions among the measures of which the largest counts
    steps: tuple[Step, ...]  # what select picks as the limit rises
    shown: tuple[int, ...]  # positions of the steps that can be chosen on the page

    def limit(self, position: int) -> str:
        """Shortest limit, in decimals, at which ``select`` picks this step.

        >>> steps = (Step(0.0412, 5), Step(0.04193, 7), Step(0.2, 9))
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
    """Views of each metric: for all attributes at once, if there are several, and for each.

    A view is left out if the metric is undefined for every snapshot, or if ``select`` would not
    pick by it.
    """
    found = []
    criteria = snapshots.criteria
    for metric in criteria.metrics:
        if find_metric(metric).caveat(criteria.outcome):
            continue
        places = criteria.by_attribute(metric)
        several: list[str | None] = [None] if len(places) > 1 else []
        for attribute in [*several, *places]:
            taken = steps(snapshots, metric, attribute)
            columns = tuple(places.values()) if attribute is None else (places[attribute],)
            found.append(View(metric, attribute, columns, taken, tuple(range(len(taken)))))
    return tuple(view for view in found if view.steps)


def offered(views: Sequence[View], most: int, asked: View) -> tuple[View, ...]:
    """At most ``most`` of the views, in order; the one that was asked is among them."""
    others = [view for view in views if view is not asked][: max(0, most - 1)]
    return tuple(view for view in views if view is asked or view in others)


def thinned(views: Sequence[View], most: int, always: Iterable[int] = ()) -> tuple[View, ...]:
    """Leave out steps, evenly along each staircase, until at most ``most`` snapshots are shown.

    The ends of every staircase and the snapshots ``always`` stay; ``most`` must have room for them.
    """
    wanted = set(always)
    size = max(len(view.steps) for view in views)
    while True:
        found = tuple(replace(view, shown=_evenly(view, size, wanted)) for view in views)
        if size == 2 or len(snapshots_shown(found) | wanted) <= most:
            return found
        size -= 1


def snapshots_shown(views: Iterable[View]) -> set[int]:
    """Numbers of all snapshots that can be chosen."""
    return {view.steps[position].snapshot for view in views for position in view.shown}


def _evenly(view: View, size: int, wanted: set[int]) -> tuple[int, ...]:
    spread = np.linspace(0, len(view.steps) - 1, min(size, len(view.steps)))
    kept = {round(float(place)) for place in spread}
    kept |= {place for place, step in enumerate(view.steps) if step.snapshot in wanted}
    return tuple(sorted(kept))


@dataclass(frozen=True, eq=False, kw_only=True)
class Assessed:
    """One kept snapshot: what test rows say of it, and how its scores are spread."""

    snapshot: int  # its row in FairFrontier.table()
    threshold: float | None
    health: Health
    # Utility first, then every metric by attribute; certificates are for this snapshot alone.
    rows: tuple[SelectionRow, ...]
    # Upper bounds (M,) that hold for all snapshots assessed along with this one together, so also
    # for the one picked by its test values. NaN where there is none.
    joint_certificates: Floats
    spreads: tuple[Spread, ...]  # one for each attribute; empty without test rows


def assess_snapshots(
    curve: Curve,
    numbers: Sequence[int],
    settings: ReportSettings,
    attributes: Sequence[GroupedRows] = (),
) -> tuple[Assessed, ...]:
    """Assess E kept snapshots on the test rows; each gets the numbers ``select`` would give it."""
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
    """The group of a discrete attribute with the fewest rows, and how many they are."""

    label: str
    size: float


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Test rows beside one attribute, in G groups: what does not depend on the scores."""

    column: SensitiveColumn
    labels: tuple[str, ...]
    codes: Numbers  # group of each row, (n,)
    sizes: Floats  # weight of the rows in each group, (G,)
    # Of a continuous attribute: the median of each of P ranges, and the range of each row.
    middle: Floats | None = None
    ranges: Numbers | None = None
    smallest: SmallestGroup | None = None  # of a discrete attribute


def grouped_rows(rows: HeldOut) -> tuple[GroupedRows, ...]:
    """Sort the test rows by every attribute."""
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
    """Labels of groups, and the group (n,) of each row: categories, or ranges between deciles.

    The smallest of many are put together; unknown values are a group.

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
        # The bands of every metric by group.
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
    """Find the smallest group of a discrete column that has rows.

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
    """Cut a continuous column into ranges: their medians, and the range of each row or -1."""
    assert column.values is not None
    known = column.values[~column.missing]
    ranges = even_ranges(known, MOST_POSITIONS)
    middle = np.array([np.median(known[ranges == place]) for place in range(ranges.max() + 1)])
    codes = np.full(len(column.values), -1, dtype=np.int64)
    codes[~column.missing] = ranges
    return middle, codes


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread:
    """How one model's scores are spread over the groups of one attribute, or along it."""

    column: int  # of the scores; of several classes the one that is worst for the attribute
    edges: Edges
    counts: Floats  # weight of the rows by group, by class of two, and by bin, (G, C, B)
    quantiles: Floats  # at LEVELS, (G, 5)
    bands: Floats | None  # the same at positions along a continuous attribute, (P, 5)


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
    weights, ranges = rows.counts, beside.ranges
    classes = rows.y if rows.outcome == "binary" else np.zeros(len(rows), dtype=np.int64)
    return Spread(
        column=worst,
        edges=edges,
        counts=counts_by_group(scores, edges, beside.codes, classes, weights),
        quantiles=quantiles_by_group(scores, beside.codes, weights),
        bands=None if ranges is None else quantiles_by_group(scores, ranges, weights),
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
class Edges:
    """Thresholds, ascending: multiples of a round step, and the model's own.

    The first is below every score and the last is not.
    """

    values: Floats  # (B + 1,)
    first: float  # edge j is first + j * step, counted without the model's own
    step: float
    # Position of the model's own; where that lies outside, of the end that decides the same.
    own: int | None
    inserted: bool  # whether the model's own is one of the values by itself


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
    scores: Floats, edges: Edges, codes: Numbers, classes: Numbers, weights: Floats
) -> Floats:
    """Weight of the rows in each bin, (G, C, B); codes and classes (n,) count from 0.

    Bin b holds the scores above edge b and not above edge b + 1.
    """
    place = np.searchsorted(edges.values, scores, side="left") - 1
    shape = (int(codes.max()) + 1, int(classes.max(initial=0)) + 1, len(edges.values) - 1)
    cells = np.ravel_multi_index((codes, classes, place), shape)
    found = np.bincount(cells, weights, minlength=math.prod(shape))
    return found.astype(np.float64).reshape(shape)


def quantiles_by_group(scores: Floats, codes: Numbers, weights: Floats) -> Floats:
    """Quantiles of the scores (n,) in each group, (G, 5); rows of code -1 are in none."""
    found = [
        quantiles(torch.from_numpy(scores[inside]), torch.from_numpy(weights[inside]), LEVELS)
        for inside in (codes == code for code in range(int(codes.max()) + 1))
    ]
    return torch.stack(found).numpy()
