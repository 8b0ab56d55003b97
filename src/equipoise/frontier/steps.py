"""What ``select`` picks as the limit on unfairness rises: a staircase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.frontier.snapshots import Snapshots


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
