"""What a page says of the run it reports on, beyond what the frontier itself knows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from equipoise.frontier.selection import Selection


@dataclass(frozen=True, eq=False, kw_only=True)
class RunFacts:
    """Where a frontier came from, and how its models are put to use.

    Everything is shown as text; what is left empty is left out of the page.
    """

    title: str  # heading of the page
    data_name: str = ""  # such as the name of its file
    rows: int = 0  # that were read; 0 where that is not known
    target: str = ""  # name of the column that is predicted
    picked: str = ""  # how the model was picked: the end of a sentence that begins "The model was"
    command: str = ""  # that made the run
    #: Picks another model of the run; the page adds --max-unfairness, --metric and --attribute.
    select_command: str = "equipoise select RUN"
    #: Scores new rows with the selected model.
    deploy_command: str = "equipoise predict RUN DATA --out scores.parquet"
    #: Ends with the frontier loaded as ``frontier``; the page adds ``select``.
    python_lines: tuple[str, ...] = (
        "from equipoise import load",
        'frontier = load("RUN/frontier.equipoise")',
    )
    columns: pd.DataFrame = field(default_factory=pd.DataFrame)  # how each was read, one a row
    settings: Mapping[str, object] = field(default_factory=dict)  # to repeat the run
    versions: Mapping[str, object] = field(default_factory=dict)  # of the software that made it
    seed: int | None = None
    device: str = ""


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
