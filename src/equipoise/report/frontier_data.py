"""Everything the page of a frontier draws and shows, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.frontier.curve import Assessed, Curve
from equipoise.frontier.rows import HeldOut
from equipoise.frontier.snapshots import Criteria
from equipoise.metrics import measure
from equipoise.report.choices import View
from equipoise.report.score_views import (
    LEVELS,
    Floats,
    Groups,
    Positions,
    counts_by_group,
    edges_for,
    groups_of,
    positions_along,
    quantiles_by_group,
    row_weights,
)
from equipoise.tables import SensitiveColumn
from equipoise.training import History

#: Numbers about snapshots in the picture, some twenty characters each; of more snapshots, those
#: that are on no staircase are thinned.
MOST_NUMBERS = 75_000
#: Moments of a training curve.
MOST_MOMENTS = 300


def points_data(curve: Curve, needed: Set[int]) -> dict[str, Any]:
    """All snapshots as arrays of one length, or of very many those needed and evenly some others.

    ``number`` is the row in ``FairFrontier.table()``.
    """
    snapshots = curve.snapshots
    room = MOST_NUMBERS // (4 + len(snapshots.criteria.measures))
    numbers = _some(len(snapshots.utility), needed, room)
    return {
        "number": numbers,
        "entry": snapshots.entry[numbers],
        "iteration": snapshots.iteration[numbers],
        "utility": snapshots.utility[numbers],
        "unfairness": snapshots.unfairness[numbers].T,
        "of": len(snapshots.utility),
    }


def entries_data(curve: Curve) -> list[dict[str, Any]]:
    """Family, strength, seed, number of members averaged, and training curve of every entry."""
    return [
        {
            "predictor": entry.predictor,
            "strength": entry.strength,
            "seed": entry.seed,
            "averaged": len(entry.members),
            **_training_curve(strand.history, list(entry.members)),
        }
        for strand in curve.strands
        for entry in strand.entries
    ]


def _training_curve(history: History, members: list[int]) -> dict[str, Any]:
    """Mean losses of these members at some of the checks."""
    moments = np.unique(
        np.linspace(0, len(history.iterations) - 1, MOST_MOMENTS).round().astype(np.int64)
    )
    return {
        "iterations": history.iterations[moments],
        "task": _to_draw(history.task[moments][:, members].mean(axis=1)),
        "penalty": _to_draw(history.penalty[moments][:, members].mean(axis=1)),
    }


def views_data(views: Sequence[View], models: Mapping[int, int]) -> list[dict[str, Any]]:
    """Each question and the models that answer it; ``models`` maps snapshots to positions."""
    return [
        {
            "metric": view.metric,
            "attribute": view.attribute,
            "columns": view.columns,
            "unfairness": [step.unfairness for step in view.steps],
            "snapshots": [step.snapshot for step in view.steps],
            "shown": [
                {
                    "step": place,
                    "limit": view.limit(place),
                    "model": models[view.steps[place].snapshot],
                }
                for place in view.shown
            ],
        }
        for view in views
    ]


@dataclass(frozen=True, eq=False)
class AttributeRows:
    """Test rows beside one attribute: what does not depend on the scores."""

    column: SensitiveColumn
    groups: Groups
    positions: Positions | None


def attribute_rows(rows: HeldOut) -> tuple[AttributeRows, ...]:
    """Sort the test rows by every attribute."""
    return tuple(
        AttributeRows(
            column,
            groups_of(column, row_weights(rows)),
            None if column.values is None else positions_along(column),
        )
        for column in rows.table.columns
    )


def attributes_data(rows: HeldOut, attributes: Sequence[AttributeRows]) -> list[dict[str, Any]]:
    """Names, groups and their sizes."""
    weights = row_weights(rows)
    return [
        {
            "name": each.column.name,
            "kind": each.column.kind,
            "groups": each.groups.labels,
            "sizes": np.bincount(each.groups.codes, weights),
            "positions": None if each.positions is None else each.positions.middle,
            "levels": LEVELS,
        }
        for each in attributes
    ]


def model_data(
    model: Assessed,
    rows: HeldOut | None,
    attributes: Sequence[AttributeRows],
    criteria: Criteria,
    labels: Sequence[str],
) -> dict[str, Any]:
    """Numbers and pictures of one model; ``labels`` are those of the classes, if any."""
    shown = rows is not None and model.scores is not None
    return {
        "snapshot": model.snapshot,
        "threshold": model.threshold,
        "rows": [asdict(row) for row in model.rows],
        "joint": model.joint_certificates,
        "health": asdict(model.health),
        "scores": [
            _scores_data(model.scores, model.threshold, rows, each, criteria, labels)
            for each in (attributes if shown else ())
            if rows is not None and model.scores is not None
        ],
    }


def _scores_data(
    all_scores: Floats,
    threshold: float | None,
    rows: HeldOut,
    beside: AttributeRows,
    criteria: Criteria,
    labels: Sequence[str],
) -> dict[str, Any]:
    """Histograms by group and quantiles of scores (n, s); of several classes, of the worst."""
    worst = _worst_class(all_scores, rows, beside.column, criteria)
    scores = np.ascontiguousarray(all_scores[:, worst])
    edges = edges_for(scores, threshold)
    weights = row_weights(rows)
    classes = rows.y if rows.outcome == "binary" else np.zeros(len(rows), dtype=np.int64)
    counts = counts_by_group(scores, edges, beside.groups, classes, weights)
    along = beside.positions
    bands = None
    if along is not None:
        bands = quantiles_by_group(scores[along.rows], along.codes, weights[along.rows])
    return {
        "class": labels[worst] if all_scores.shape[1] > 1 else None,
        "first": edges.first,
        "step": edges.step,
        "bins": len(edges.values) - 1,
        "own": edges.own,
        "inserted": edges.inserted,
        # Whole numbers of rows are written as such, which is shorter.
        "counts": counts.astype(np.int64) if rows.weights is None else counts.round(4),
        "quantiles": _to_draw(quantiles_by_group(scores, beside.groups.codes, weights)),
        "bands": None if bands is None else _to_draw(bands),
    }


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


def _to_draw(values: Floats) -> Any:
    """Nested lists of numbers with six digits: more than a picture shows, at a third the length."""
    if values.ndim == 0:
        return float(f"{values:.6g}")
    return [_to_draw(each) for each in values]


def _some(count: int, needed: Set[int], room: int) -> NDArray[np.int64]:
    """Numbers below ``count``: all of them, or those needed and evenly some others."""
    others = np.setdiff1d(np.arange(count), list(needed))
    left = max(0, room - len(needed))
    if len(others) > left:
        others = others[np.linspace(0, len(others) - 1, left).round().astype(np.int64)]
    return np.sort(np.concatenate([others, list(needed)]).astype(np.int64))
