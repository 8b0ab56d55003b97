"""The report of a frontier: one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.frontier import FairFrontier, Selection
from equipoise.frontier.curve import Assessed, Curve, assess_snapshots
from equipoise.frontier.selection import ReportSettings
from equipoise.metrics import find_metric
from equipoise.report.answer import answer
from equipoise.report.choices import View, offered, snapshots_shown, thinned, views_of
from equipoise.report.frontier_data import (
    AttributeRows,
    attribute_rows,
    attributes_data,
    entries_data,
    model_data,
    points_data,
    views_data,
)
from equipoise.report.page import render_page
from equipoise.report.run_facts import RunFacts
from equipoise.report.score_views import BINS, SmallestGroup, row_weights, smallest_group
from equipoise.report.select_call import select_call

#: Models that can be chosen on a page: as many as are assessed in some ten seconds.
MOST_MODELS = 80
#: Fewest models, whatever else there is.
LEAST_MODELS = 5
#: (Model, test row) pairs that are assessed; of more rows fewer models are offered.
MOST_ASSESSED = 600_000
#: Characters of histograms that go into a page, and how many a count takes: of rows, of weights.
MOST_CHARACTERS = 3_000_000
_PER_COUNT = {False: 2.5, True: 7.0}
#: Draws of the bootstrap for the models other than the selected one.
DRAWS = 100

_SCRIPTS = (
    "charts.js",
    "frontier_state.js",
    "frontier_plot.js",
    "frontier_scores.js",
    "frontier_panels.js",
    "frontier.js",
)


def frontier_page(frontier: FairFrontier, selection: Selection, about: RunFacts) -> str:
    """Write the report of a fitted frontier as one self-contained HTML page.

    Parameters
    ----------
    frontier : FairFrontier
        Fitted, or loaded.
    selection : Selection
        What ``frontier.select`` returned: the model that the page begins with.
    about : RunFacts
        Where it came from.

    Returns
    -------
    str
        HTML of at most 6 MB, which fetches nothing. It holds counts, rates and quantiles of the
        test rows by group, no single row.

    Examples
    --------
    >>> from equipoise import load_dataset
    >>> data = load_dataset("synthetic")
    >>> frontier = FairFrontier(strengths=(0.0, 0.9), seeds=1, iterations=100, random_state=0)
    >>> frontier = frontier.fit(data.X, data.y, sensitive_features=data.A)
    >>> chosen = frontier.select(min_utility=0.6)
    >>> page = frontier_page(frontier, chosen, RunFacts(title="A first look"))
    >>> page[:15], "<title>A first look</title>" in page
    ('<!doctype html>', True)
    """
    curve = frontier._fitted()
    _refuse_foreign(selection, curve)
    criteria = curve.snapshots.criteria
    attributes = () if curve.test is None else attribute_rows(curve.test)
    most = _most_models(curve, attributes)
    possible = views_of(curve.snapshots)
    # Each staircase needs room for its two ends, and the selected model may be on none.
    some = offered(possible, (most - 1) // 2, possible[_first_view(possible, selection)])
    views = thinned(some, most, always=[selection.snapshot])
    models = _assess(curve, views, selection)
    place = {model.snapshot: number for number, model in enumerate(models)}
    labels = [str(label) for label in getattr(curve.template, "classes_", ())]
    first = _first_view(views, selection)
    best = models[place[views[first].steps[-1].snapshot]]
    is_best = best.snapshot == selection.snapshot
    data = {
        "utility": criteria.utility,
        "outcome": None if curve.test is None else curve.test.outcome,
        "labels": labels,
        "target": about.target,
        "level": selection.level,
        "validation_rows": curve.validation_rows,
        "test_rows": selection.test_rows,
        "measures": criteria.measures,
        "points": points_data(
            curve, {*place, *(step.snapshot for view in views for step in view.steps)}
        ),
        "entries": entries_data(curve),
        "views": views_data(views, place),
        "models": [model_data(model, curve.test, attributes, criteria, labels) for model in models],
        "attributes": [] if curve.test is None else attributes_data(curve.test, attributes),
        "selected": {
            "model": place[selection.snapshot],
            "view": first,
            "limit": _limit(selection, views[first]),
            "python": select_call(selection, tuple(criteria.by_attribute(selection.metric))),
        },
        "select_command": about.select_command,
        "python_lines": about.python_lines,
        "predicts": "predict" if criteria.utility == "R2" else "predict_proba",
    }
    return render_page(
        "frontier.html",
        scripts=_SCRIPTS,
        data=data,
        title=about.title,
        about=about,
        answer=answer(
            selection,
            None if is_best else best.rows,
            target=about.target,
            labels=labels,
            meaning=find_metric(selection.metric).description,
            picked=about.picked,
            smallest=_smallest_groups(curve),
        ),
        selection=selection,
        models=len(models),
        draws=DRAWS,
        thinned=any(len(view.shown) < len(view.steps) for view in views),
        kept=int(curve.snapshots.kept.sum()),
        left_out=[view for view in possible if view not in some],
        metrics=[find_metric(name) for name in criteria.metrics],
        families=[strand.predictor for strand in curve.strands],
        labels=labels,
        sensitive=frontier.sensitive_,
        split={name: len(rows) for name, rows in vars(frontier.split_).items()},
    )


def _refuse_foreign(selection: Selection, curve: Curve) -> None:
    """Two frontiers may number their snapshots alike, but hardly judge them alike."""
    snapshots, number = curve.snapshots, selection.snapshot
    own = number in snapshots.weights and selection.rows[0].validation == snapshots.utility[number]
    if not own:
        raise InputError(
            f"selection must be one that this frontier's select returned, got snapshot {number} of "
            "another; call frontier.select and pass what it returns"
        )


def _most_models(curve: Curve, attributes: Sequence[AttributeRows]) -> int:
    """How many models the page has room, and its writer time, for."""
    if curve.test is None:
        return MOST_MODELS
    classes = 2 if curve.test.outcome == "binary" else 1
    groups = sum(len(each.groups.labels) for each in attributes)
    by_room = MOST_CHARACTERS / (groups * classes * BINS * _PER_COUNT[_weighted(curve)])
    by_time = MOST_ASSESSED / len(curve.test)
    return int(np.clip(min(by_room, by_time), LEAST_MODELS, MOST_MODELS))


def _smallest_groups(curve: Curve) -> dict[str, SmallestGroup]:
    """Smallest group of each discrete attribute among the test rows, if there are any."""
    if curve.test is None:
        return {}
    weights = row_weights(curve.test)
    found = {each.name: smallest_group(each, weights) for each in curve.test.table.columns}
    return {name: group for name, group in found.items() if group is not None}


def _weighted(curve: Curve) -> bool:
    return curve.test is not None and curve.test.weights is not None


def _assess(curve: Curve, views: Sequence[View], selection: Selection) -> tuple[Assessed, ...]:
    """Assess every model that can be chosen; of the selected one the selection has said enough."""
    numbers = sorted(snapshots_shown(views) | {selection.snapshot})
    settings = ReportSettings(level=selection.level, draws=DRAWS, candidates=selection.candidates)
    return tuple(
        replace(each, rows=selection.rows) if each.snapshot == selection.snapshot else each
        for each in assess_snapshots(curve, numbers, settings)
    )


def _first_view(views: Sequence[View], selection: Selection) -> int:
    """Position of the view that asks what the selection was asked, or for all attributes."""
    only = selection.attributes[0] if len(selection.attributes) == 1 else None
    asked = [
        number
        for number, view in enumerate(views)
        if view.metric == selection.metric and view.attribute == only
    ]
    return asked[0]


def _limit(selection: Selection, view: View) -> float | None:
    """The limit that was set, where it is one that the page's slider can set, too."""
    limits: dict[str, Any] = {
        row.attribute: row.limit for row in selection.rows if row.metric == selection.metric
    }
    found = {limits[attribute] for attribute in selection.attributes}
    asked_for_all = len(selection.attributes) == len(view.columns)
    if len(found) != 1 or not asked_for_all or np.isnan(next(iter(found))):
        return None
    return float(next(iter(found)))
