"""What a page offers of a frontier: staircases to choose on, and the models on them, assessed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.frontier.assessed import (
    BINS,
    DRAWS,
    Assessed,
    GroupedRows,
    SmallestGroup,
    assess_snapshots,
    grouped_rows,
    row_weights,
    smallest_group,
)
from equipoise.frontier.curve import Curve
from equipoise.frontier.estimator import FairFrontier
from equipoise.frontier.selection import ReportSettings, Selection
from equipoise.frontier.snapshots import Criteria, Floats, Snapshots
from equipoise.tables import SensitiveColumn
from equipoise.training import History

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Offer:
    """A frontier as a page shows it: finished numbers only.

    Attributes
    ----------
    criteria : Criteria
    families : tuple of str
        Kinds of predictors that compete.
    labels : tuple of str
        Of the classes; () for a continuous outcome.
    weighted : bool
        Whether test rows count by weights.
    validation_rows, test_rows : int
    points : Points
    entries : tuple of TrainedEntry
    views, left_out : tuple of View
        Questions that can be asked on the page, and those that it has no room for.
    models : tuple of Assessed
        Every model that can be chosen, by snapshot.
    attributes : tuple of GroupedRows
        Test rows beside each attribute; () without test rows.
    smallest : mapping of attribute to SmallestGroup
        Of discrete attributes, among the test rows.
    first : int
        Position of the view that asks what the selection was asked, or asks it for all attributes.
    limit : float or None
        The limit that was set, where the page can set it, too.
    kept : int
        Snapshots on some front.
    """

    criteria: Criteria
    families: tuple[str, ...]
    labels: tuple[str, ...]
    weighted: bool
    validation_rows: int
    test_rows: int
    points: Points
    entries: tuple[TrainedEntry, ...]
    views: tuple[View, ...]
    left_out: tuple[View, ...]
    models: tuple[Assessed, ...]
    attributes: tuple[GroupedRows, ...]
    smallest: Mapping[str, SmallestGroup]
    first: int
    limit: float | None
    kept: int

    def place(self, snapshot: int) -> int:
        """Position of a snapshot among the models."""
        return [model.snapshot for model in self.models].index(snapshot)

    @property
    def most_useful(self) -> Assessed:
        """The model with the best utility, whatever its unfairness."""
        return self.models[self.place(self.views[self.first].steps[-1].snapshot)]


def offer(frontier: FairFrontier, selection: Selection) -> Offer:
    """Gather what a page shows of a fitted frontier and the model selected from it."""
    curve = frontier.fitted_curve()
    _refuse_foreign(selection, curve)
    test = curve.test
    attributes = () if test is None else grouped_rows(test)
    most = _most_models(curve, attributes)
    possible = views_of(curve.snapshots)
    # Each staircase needs room for its two ends, and the selected model may be on none.
    some = offered(possible, (most - 1) // 2, possible[_first_view(possible, selection)])
    views = thinned(some, most, always=[selection.snapshot])
    first = _first_view(views, selection)
    models = _assess(curve, views, selection, attributes)
    needed = {model.snapshot for model in models}
    needed |= {step.snapshot for view in views for step in view.steps}
    return Offer(
        criteria=curve.snapshots.criteria,
        families=curve.families,
        labels=tuple(str(label) for label in getattr(curve.template, "classes_", ())),
        weighted=test is not None and test.weights is not None,
        validation_rows=len(curve.split.validation),
        test_rows=selection.test_rows,
        points=points_of(curve.snapshots, needed),
        entries=_trained(curve),
        views=views,
        left_out=tuple(view for view in possible if view not in some),
        models=models,
        attributes=attributes,
        smallest=_smallest_groups(curve),
        first=first,
        limit=_limit(selection, views[first]),
        kept=int(curve.snapshots.kept.sum()),
    )


def assessed_columns(frontier: FairFrontier) -> tuple[SensitiveColumn, ...]:
    """Sensitive columns of the test rows; () without test rows, as nothing was assessed on them."""
    test = frontier.fitted_curve().test
    return () if test is None else test.table.columns


def _refuse_foreign(selection: Selection, curve: Curve) -> None:
    """Two frontiers may share a snapshot's number, but hardly its utility to the last digit."""
    snapshots, number = curve.snapshots, selection.snapshot
    own = number in snapshots.weights and selection.rows[0].validation == snapshots.utility[number]
    if not own:
        raise InputError(
            f"selection must be one that this frontier's select returned, got snapshot {number} of "
            "another; call frontier.select and pass what it returns"
        )


def _most_models(curve: Curve, attributes: Sequence[GroupedRows]) -> int:
    """How many models fit into a page and can be assessed in reasonable time."""
    if curve.test is None:
        return MOST_MODELS
    classes = 2 if curve.test.outcome == "binary" else 1
    groups = sum(len(each.groups.labels) for each in attributes)
    per_count = _PER_COUNT[curve.test.weights is not None]
    by_room = MOST_CHARACTERS / (groups * classes * BINS * per_count)
    by_time = MOST_ASSESSED / len(curve.test)
    return int(np.clip(min(by_room, by_time), LEAST_MODELS, MOST_MODELS))


def _assess(
    curve: Curve,
    views: Sequence[View],
    selection: Selection,
    attributes: Sequence[GroupedRows],
) -> tuple[Assessed, ...]:
    """Assess every model that can be chosen; the selected one keeps its selection's numbers."""
    numbers = sorted(snapshots_shown(views) | {selection.snapshot})
    settings = ReportSettings(level=selection.level, draws=DRAWS, candidates=selection.candidates)
    return tuple(
        replace(each, rows=selection.rows) if each.snapshot == selection.snapshot else each
        for each in assess_snapshots(curve, numbers, settings, attributes)
    )


def _smallest_groups(curve: Curve) -> dict[str, SmallestGroup]:
    if curve.test is None:
        return {}
    weights = row_weights(curve.test)
    found = {each.name: smallest_group(each, weights) for each in curve.test.table.columns}
    return {name: group for name, group in found.items() if group is not None}


def _first_view(views: Sequence[View], selection: Selection) -> int:
    only = selection.attributes[0] if len(selection.attributes) == 1 else None
    asked = [(view.metric, view.attribute) for view in views]
    return asked.index((selection.metric, only))


def _limit(selection: Selection, view: View) -> float | None:
    """The limit that was set, if it is one for all attributes of the view."""
    limits = {row.attribute: row.limit for row in selection.rows if row.metric == selection.metric}
    found = {limits[attribute] for attribute in selection.attributes}
    asked_for_all = len(selection.attributes) == len(view.columns)
    (limit, *others) = found
    return None if others or not asked_for_all or math.isnan(limit) else limit


@dataclass(frozen=True, eq=False)
class Points:
    """Snapshots in the picture: P of ``of``; M measures of unfairness.

    Attributes
    ----------
    number, entry, iteration : ndarray of int64, shape (P,)
        The number is the row in ``FairFrontier.table()``.
    utility : ndarray of float64, shape (P,)
    unfairness : ndarray of float64, shape (M, P)
    of : int
    """

    number: Numbers
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
    return tuple(
        TrainedEntry(
            entry.family,
            entry.strength,
            entry.seed,
            len(entry.members),
            *_training_curve(strand.history, list(entry.members)),
        )
        for strand in curve.strands
        for entry in strand.entries
    )


def _training_curve(history: History, members: list[int]) -> tuple[Numbers, Floats, Floats]:
    last = len(history.iterations) - 1
    checks = np.unique(np.linspace(0, last, MOST_CHECKS).round().astype(np.int64))
    task, penalty = (
        values[checks][:, members].mean(axis=1) for values in (history.task, history.penalty)
    )
    return history.iterations[checks], task, penalty


@dataclass(frozen=True)
class Step:
    """A snapshot, and the least limit from which on it is picked.

    Attributes
    ----------
    unfairness : float
        Of the snapshot on the validation rows; of several attributes the largest.
    snapshot : int
    """

    unfairness: float
    snapshot: int


def steps(snapshots: Snapshots, metric: str, attribute: str | None = None) -> tuple[Step, ...]:
    """Every snapshot that ``select(max_unfairness=limit)`` picks at some limit, least limit first.

    A limit between two steps picks the one below it. Without an attribute the limit is on all
    attributes at once.
    """
    places = snapshots.criteria.by_attribute(metric)
    columns = list(places.values()) if attribute is None else [places[attribute]]
    kept = np.flatnonzero(snapshots.kept)
    kept = kept[~np.isnan(snapshots.unfairness[kept][:, columns]).any(axis=1)]
    costs = snapshots.unfairness[kept][:, columns]
    utility = snapshots.utility[kept]
    largest = costs.max(axis=1, initial=0.0)
    total = np.column_stack([-utility, costs]).sum(axis=1)
    # Ties as `equipoise.pareto.choose` breaks them: the lower sum of costs, then the first.
    preference = np.lexsort([total, -utility])
    rank = np.empty(len(kept), dtype=np.int64)
    rank[preference] = np.arange(len(kept))
    found: list[Step] = []
    best = len(kept)
    for place in np.lexsort([rank, largest]):
        if rank[place] < best:
            best = int(rank[place])
            found.append(Step(float(largest[place]), int(kept[place])))
    return tuple(found)


@dataclass(frozen=True)
class View:
    """The question how much unfairness by one metric, for one attribute or all, is tolerated.

    Attributes
    ----------
    metric : str
    attribute : str or None
        None is all attributes at once.
    columns : tuple of int
        Positions among the measures of which the largest counts.
    steps : tuple of Step
        What ``select`` picks as the limit rises.
    shown : tuple of int
        Positions of the steps that can be chosen on the page.
    """

    metric: str
    attribute: str | None
    columns: tuple[int, ...]
    steps: tuple[Step, ...]
    shown: tuple[int, ...]

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

    A view is left out if the metric is undefined for every snapshot.
    """
    found = []
    for metric in snapshots.criteria.metrics:
        places = snapshots.criteria.by_attribute(metric)
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
