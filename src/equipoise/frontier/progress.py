"""What a frontier tells as it trains: the snapshots just judged, and the best within a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from equipoise.errors import InputError
from equipoise.frontier.curve import table_of
from equipoise.frontier.entries import Entry
from equipoise.frontier.snapshots import Recorder, Snapshots
from equipoise.training import Callback, Progress


def with_snapshots(callback: Callback, recorder: Recorder, entries: Sequence[Entry]) -> Callback:
    """Return a callback that passes on the progress with the rows of its evaluation."""

    def tell(progress: Progress) -> bool | None:
        rows = table_of(recorder.snapshots(), entries).tail(len(entries))
        return callback(replace(progress, snapshots=rows))

    return tell


def best_within(recorder: Recorder, budget: float) -> Callable[[Progress], str]:
    """Return what says how good the best snapshot is whose unfairness is within the budget."""
    if not isinstance(budget, int | float) or not budget >= 0:
        raise InputError(f"progress_budget must be a number of at least 0, got {budget!r}")
    return lambda _: _best_in_words(recorder.snapshots(), budget)


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
