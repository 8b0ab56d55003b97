"""How to ask for the selected model again: a command's options, and a line of Python."""

from __future__ import annotations

import math

from equipoise.frontier.selection import Selection


def select_call(selection: Selection, attributes: tuple[str, ...]) -> str:
    """The Python call that makes this selection; ``attributes`` are all the metric is for."""
    limits = {
        row.attribute: row.limit
        for row in selection.rows
        if row.attribute and not math.isnan(row.limit)
    }
    wishes = []
    if limits:
        same = len(set(limits.values())) == 1
        if same and tuple(limits) == attributes:
            wishes.append(f"max_unfairness={next(iter(limits.values()))!r}")
        elif len(limits) == 1:
            ((name, limit),) = limits.items()
            wishes += [f"max_unfairness={limit!r}", f"attribute={name!r}"]
        else:
            wishes.append(f"max_unfairness={limits!r}")
    elif selection.attributes != attributes:
        wishes.append(f"attribute={selection.attributes[0]!r}")
    if not math.isnan(selection.rows[0].limit):
        wishes.append(f"min_utility={selection.rows[0].limit!r}")
    wishes.append(f"metric={selection.metric!r}")
    return f"frontier.select({', '.join(wishes)})"
