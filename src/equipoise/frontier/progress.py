"""What a frontier tells as it trains: the snapshots just judged, and the best within a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from equipoise.errors import check_number
from equipoise.frontier.curve import table_of
from equipoise.frontier.entries import Entry
from equipoise.frontier.snapshots import Snapshots
from equipoise.training import Callback, Progress

#: What returns all snapshots so far, those of families trained before included.
SoFar = Callable[[], Snapshots]


def with_snapshots(
    callback: Callback, so_far: SoFar, entries: Sequence[Entry], evaluated: int
) -> Callback:
    """Return a callback that passes on the progress with the rows of its evaluation.

    entries: of all families; evaluated: how many of them each evaluation judges.
    """

    def tell(progress: Progress) -> bool | None:
        rows = table_of(so_far(), entries).tail(evaluated)
        return callback(replace(progress, snapshots=rows))

    return tell


def best_within(so_far: SoFar, budget: float) -> Callable[[Progress], str]:
    """Return what says how good the best snapshot is whose unfairness is within the budget."""
    check_number(
        "progress_budget", budget, "must be a number of at least 0", lambda most: most >= 0
    )
    return lambda _: _best_in_words(so_far(), budget)


def _best_in_words(snapshots: Snapshots, budget: float) -> str:
    criteria = snapshots.criteria
    metric = criteria.metrics[0]
    counted = snapshots.unfairness[:, list(criteria.by_attribute(metric).values())]
    # An undefined value is within no budget.
    within = (counted <= budget).all(axis=1) & ~np.isnan(snapshots.utility)
    if not within.any():
        return f"nothing with {metric} <= {budget:g} yet"
    best = snapshots.utility[within].max()
    return f"best {criteria.utility} {best:.3f} with {metric} <= {budget:g}"
