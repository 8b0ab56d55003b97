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

    Attributes
    ----------
    title : str
        Heading of the page.
    data_name : str
        Name of the data, such as that of its file.
    rows : int
        Rows that were read; 0 where that is not known.
    target : str
        Name of the column that is predicted.
    picked : str
        How the selected model came to be picked, as the end of a sentence that begins with "The
        model was".
    command : str
        Command line that made the run.
    select_command : str
        Command that picks another model of the run, without its options:
        ``--max-unfairness``, ``--metric`` and ``--attribute`` are added by the page.
    deploy_command : str
        Command that scores new rows with the selected model.
    python_lines : tuple of str
        Python that ends with the frontier loaded as ``frontier``; ``select`` is added by the page.
    columns : DataFrame
        How each column was read, one a row; shown as it is.
    settings, versions : mapping of str to anything
        Settings to repeat the run, and versions of the software that made it.
    seed : int or None
    device : str
    """

    title: str
    data_name: str = ""
    rows: int = 0
    target: str = ""
    picked: str = ""
    command: str = ""
    select_command: str = "equipoise select RUN"
    deploy_command: str = "equipoise predict RUN DATA --out scores.parquet"
    python_lines: tuple[str, ...] = (
        "from equipoise import load",
        'frontier = load("RUN/frontier.equipoise")',
    )
    columns: pd.DataFrame = field(default_factory=pd.DataFrame)
    settings: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, object] = field(default_factory=dict)
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
