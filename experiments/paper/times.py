"""Tables 4 and 6: minutes that the first 1000 iterations on Adult take, method by method.

The paper's minutes (Sohn, Song and Lin 2024, tables "Training times for the first 1000 iterations
on A30 GPU" for separation and for independence; TensorFlow 2.4.0) are in ``published_times.csv``.
Ours are those of the one engine with the paper's networks and training; nothing is evaluated
meanwhile.

"included" counts all that a method does before the first step: SBP's density ratio (a network in
Scenario II, counts in Scenario I), CON's conditional GAN (Scenario II), NEU's plain training (here
as many iterations again, where the paper stops early), and next to nothing for the others.
"excluded" begins right before the first step; on a GPU it has the capture of the step as a CUDA
graph in it. A first run of each case warms up the machine and is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import pandas as pd
import torch

from equipoise.errors import InputError
from equipoise.estimators.fitting import read_device
from equipoise.estimators.network import PAPER_STRENGTHS
from equipoise.training import Member, Progress, RowSet, Supervision
from experiments.paper.plan import METHODS, Cell, NotionName, Scenario
from experiments.paper.training import (
    FULL,
    CellRows,
    Size,
    cell_rows,
    device_name,
    estimator_of,
    train_members,
)

#: The notion that each table is about.
TABLES: Mapping[str, NotionName] = MappingProxyType(
    {"table4": "separation", "table6": "independence"}
)
_SCENARIOS: tuple[Scenario, ...] = ("I", "II")
#: Iterations of a run that is not counted: enough for a step to be captured and replayed.
_WARM_UP = 10
#: Columns that say which time it is.
_WHICH = ["table", "scenario", "method", "members", "pretraining"]


@cache
def published_times() -> pd.DataFrame:
    """The paper's minutes: table, scenario, method, pretraining, minutes, std.

    >>> published_times().query("method == 'kde'")["minutes"].tolist()
    [1.31, 0.88]
    """
    with (files("experiments.paper") / "published_times.csv").open("r", encoding="utf-8") as text:
        return pd.read_csv(text)


def training_times(
    *,
    iterations: int = 1000,
    repetitions: int = 5,
    members: Sequence[int] = (1, 25),
    rows: int | None = None,
    device: str = "auto",
) -> pd.DataFrame:
    """Measure how long training takes, beside the paper's times.

    Parameters
    ----------
    iterations : int
        Iterations that are timed; only 1000 compare with the paper.
    repetitions : int
        Counted runs of each case, each with seeds of its own.
    members : sequence of int
        How many members are trained together: 1 as in the paper, 25 for all strengths and splits.
    rows : int, optional
        The most rows of Adult to use, drawn at random; all unless given.
    device : str
        "auto", "cpu", "cuda".

    Returns
    -------
    DataFrame
        Two rows for each table, scenario, method and number of members: table, scenario, method,
        members, iterations, pretraining ("excluded", "included"), minutes, std (the sample
        deviation, undefined for one run), paper_minutes, paper_std (where the paper has them, for
        one member), device.
    """
    if repetitions < 1:
        raise InputError(f"repetitions must be at least 1, got {repetitions}")
    if not members or min(members) < 1:
        raise InputError(f"members must be numbers from 1 on, such as (1, 25), got {members!r}")
    where = read_device(device)
    drawn: dict[tuple[str, int], CellRows] = {}
    measured = []
    for case in _cases(members):
        size = replace(FULL, splits=case.splits, rows=rows, iterations=iterations)
        together = case.cell.scenario, case.members
        if together not in drawn:
            drawn[together] = cell_rows(case.cell, size, where)
        for number in range(1 + repetitions):
            is_counted = number > 0
            steps = iterations if is_counted else min(iterations, _WARM_UP)
            found = _minutes(case, replace(size, iterations=steps), drawn[together], number, where)
            measured += [(*case.names, *each) for each in found.items()] if is_counted else []
    table = pd.DataFrame(measured, columns=[*_WHICH, "minutes"])
    table = table.groupby(_WHICH, sort=False)["minutes"].agg(["mean", "std"]).reset_index()
    table = table.rename(columns={"mean": "minutes"})
    paper = published_times().rename(columns={"minutes": "paper_minutes", "std": "paper_std"})
    table = table.merge(paper.assign(members=1), how="left", on=_WHICH)
    table.insert(_WHICH.index("pretraining"), "iterations", iterations)
    return table.assign(device=device_name(where))


@dataclass(frozen=True)
class _Case:
    """What is timed: so many members of a cell, for one of the tables."""

    table: str
    cell: Cell
    members: int

    @property
    def names(self) -> tuple[str, str, str, int]:
        """Table, scenario, method, members."""
        return self.table, self.cell.scenario, self.cell.method, self.members

    @property
    def splits(self) -> int:
        """Splits that the members need, each with all strengths."""
        return -(-self.members // len(PAPER_STRENGTHS))

    def stack(self, ranges: Sequence[tuple[int, ...]], repetition: int) -> list[Member]:
        """The members: strength by strength, then split by split (rows ``ranges``)."""
        numbers = [divmod(number, len(PAPER_STRENGTHS)) for number in range(self.members)]
        return [
            Member(PAPER_STRENGTHS[place], repetition * self.splits + split, RowSet(ranges[split]))
            for split, place in numbers
        ]


def _cases(members: Sequence[int]) -> list[_Case]:
    return [
        _Case(table, Cell(scenario=scenario, dataset="adult", notion=notion, method=method), count)
        for table, notion in TABLES.items()
        for scenario in _SCENARIOS
        for method in METHODS[scenario, notion]
        for count in members
    ]


def _minutes(
    case: _Case, size: Size, rows: CellRows, repetition: int, device: torch.device
) -> dict[str, float]:
    """Train once; minutes up to the last step, from the first one on and from the beginning on."""
    estimator = estimator_of(case.cell, size, str(device))
    stack = case.stack(rows.ranges, repetition)
    taken: dict[str, float] = {}

    def look(progress: Progress) -> None:
        # The losses were read just now, so a GPU has done all that it was asked to.
        taken["excluded"] = progress.seconds / 60
        taken["included"] = (time.monotonic() - begun) / 60

    if device.type == "cuda":
        torch.cuda.synchronize(device)
    begun = time.monotonic()
    train_members(estimator, rows, stack, supervision=Supervision(callbacks=(look,)))
    return taken
