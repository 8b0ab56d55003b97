"""What can be chosen on the page of a frontier: a staircase for every metric and attribute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from equipoise.frontier.selection import Step, steps
from equipoise.frontier.snapshots import Snapshots


@dataclass(frozen=True)
class View:
    """The question how much unfairness by this metric, for this attribute, is tolerated.

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
        """Shortest limit, in decimals, at which ``select`` picks this very step.

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
    """One view for each metric and all attributes at once, where there are several, and for each.

    Views without a snapshot, because the metric is undefined for all, are left out.
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

    The ends of every staircase stay, and so do the snapshots ``always``; there must be room for so
    many.
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
