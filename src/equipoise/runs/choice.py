"""What model of a run is wanted, asked for by a person; and what is taken where nobody asked."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.errors import InputError
from equipoise.frontier import FairFrontier
from equipoise.frontier.selection import Selection
from equipoise.frontier.wish import granted
from equipoise.runs.names import known_name


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A wish, as `FairFrontier.select` takes it, and a remark on how it came about."""

    max_unfairness: float | None = None
    min_utility: float | None = None
    metric: str | None = None
    attribute: str | None = None
    candidates: int = 1
    remark: str = ""

    def select(self, frontier: FairFrontier) -> Selection:
        """Pick the snapshot; metric and attribute are read without regard to case."""
        criteria = frontier._curve.snapshots.criteria
        metric = known_name(self.metric, criteria.metrics)
        named = criteria.by_attribute(criteria.find(metric))
        return frontier.select(
            max_unfairness=self.max_unfairness,
            min_utility=self.min_utility,
            metric=metric,
            attribute=known_name(self.attribute, tuple(named)),
            candidates=self.candidates,
        )


def choice_without_wish(frontier: FairFrontier, budget: float) -> Choice:
    """The best utility with the first metric within ``budget`` for every attribute, or the nearest.

    Where no snapshot is within the budget, the smallest limit that one keeps takes its place.
    """
    criteria = frontier._curve.snapshots.criteria
    metric = criteria.metrics[0]
    columns = [f"{metric} {attribute}" for attribute in criteria.by_attribute(metric)]
    kept = frontier.table().query("on_front").dropna(subset=columns)
    if kept.empty:
        raise InputError(
            f"no snapshot has a defined {metric} by {' and '.join(criteria.by_attribute(metric))}, "
            "so none can be picked; table.csv shows where it is undefined"
        )
    utility, worst = kept["utility"].to_numpy(), kept[columns].to_numpy().max(axis=1)
    least = float(worst.min())
    if least <= budget:
        return Choice(
            max_unfairness=budget,
            remark=f"picked at the end of training: the best {frontier.utility_} with {metric} <= "
            f"{budget:g} for every attribute",
        )
    limit = granted(least)
    nearest, best = utility[worst <= limit].max(), utility.argmax()
    price = ", the best of this run"
    if utility[best] > nearest:
        price = (
            f", where {utility[best]:.3f} is possible at {metric} {granted(worst[best]):g}; "
            "equipoise select --max-unfairness takes another"
        )
    return Choice(
        max_unfairness=limit,
        remark=f"picked at the end of training although no model of this run keeps {metric} <= "
        f"{budget:g} for every attribute on the validation rows: it is the nearest, taken as if "
        f"{limit:g} had been asked for, with {frontier.utility_} {nearest:.3f}{price}",
    )
