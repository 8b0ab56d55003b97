"""What a peer is, and the rows it trains and is judged on: one split of a cell at a time.

A peer's cell is a `Cell` whose method is the peer's name. With the paper's settings its features
are the numeric frame as the loader gives it, which is what trees want.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.tables import SensitiveColumn, SensitiveTable
from experiments.paper.plan import DATASETS, METRICS, STAND_IN, Cell, Protocol
from experiments.paper.training import CellRows, Part, Size, cell_rows


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of the models that one setting passes.

    iterations: (E,) boosting rounds of each model, 0 where it has none to count. scores: (E, n)
    for each part of the held-out rows, validation first.
    """

    setting: str
    iterations: tuple[int, ...]
    scores: tuple[NDArray[np.float64], ...]


@dataclass(frozen=True)
class Peer:
    """One peer.

    Attributes
    ----------
    name : str
        As tables have it: the method of its cells.
    settings : mapping
        Everything that was chosen, for the record.
    offers : callable
        Whether it can do what a cell asks for.
    scored : callable
        Train every setting on the rows of one split and score the held-out rows.
    versions : callable
        Of the packages it needs.
    why_not : callable
        What is missing to run it here, in words; None where nothing is.
    """

    name: str
    settings: Mapping[str, Any]
    offers: Callable[[Cell], bool]
    scored: Callable[[Cell, PeerRows], Iterator[Scored]]
    versions: Callable[[], dict[str, str]]
    why_not: Callable[[], str | None]


def missing_package(name: str) -> str | None:
    """Say so where a package cannot be imported."""
    return None if find_spec(name) else f"{name} is not installed"


@dataclass(frozen=True, eq=False)
class PeerRows:
    """One split of a cell.

    x: (n, p) features of the training rows. y: (n,) classes 0 and 1, or numbers. sensitive: of the
    training rows. parts: validation rows and, under the honest protocol, test rows, each with this
    split alone.
    """

    x: NDArray[np.float32]
    y: NDArray[Any]
    sensitive: SensitiveTable
    parts: tuple[Part, ...]

    @property
    def held_out(self) -> tuple[NDArray[np.float32], ...]:
        """Features (n, p) of each part."""
        return tuple(part.x[0].numpy() for part in self.parts)


def cells_for(peer: str) -> Iterator[Cell]:
    """Every cell in which a peer might be compared; no data that stands in for other data."""
    protocols: tuple[Protocol, ...] = ("paper", "honest")
    for scenario, datasets in DATASETS.items():
        for dataset in datasets:
            if dataset == STAND_IN:
                continue
            for notion in METRICS:
                for protocol in protocols:
                    yield Cell(
                        scenario=scenario,
                        dataset=dataset,
                        notion=notion,
                        method=peer,
                        protocol=protocol,
                    )


def peer_rows(cell: Cell, split: int, size: Size) -> PeerRows:
    """Load the rows of one split."""
    # Neither peer nor notion has a say in the rows: they are read once for all of them.
    rows = _all_splits(replace(cell, method="", notion="independence"), size)
    mine = rows.ranges[split]
    own = slice(mine[0], mine[-1] + 1)
    target = rows.data.target[own].numpy()
    parts = (rows.validation,) if rows.test is None else (rows.validation, rows.test)
    return PeerRows(
        x=rows.data.x[own].numpy(),
        y=target if cell.scenario == "III" else target.astype(np.int64),
        sensitive=rows.trained_on.take(np.array(mine)),
        parts=tuple(
            Part(part.x[split : split + 1], part.held_out[split : split + 1]) for part in parts
        ),
    )


@lru_cache(maxsize=1)
def _all_splits(cell: Cell, size: Size) -> CellRows:
    return cell_rows(cell, size, torch.device("cpu"))


def groups(table: SensitiveTable) -> NDArray[np.int64]:
    """A number for each row, (n,): the crossing of all attributes, from 0 without gaps.

    A continuous attribute is cut at its quartiles in these rows: peers that know discrete groups
    only get the finest grouping that leaves each group enough rows.
    """
    codes = np.column_stack([_codes(column) for column in table.columns])
    numbers = np.unique(codes, axis=0, return_inverse=True)[1]
    return numbers.reshape(-1).astype(np.int64)


def groups_in_setting(table: SensitiveTable) -> str:
    """What to add to the name of a setting where groups are a crossing of attributes.

    >>> import numpy as np
    >>> table = SensitiveTable.from_data(
    ...     {"race": np.array([0, 1, 0]), "age": np.array([0.5, 1.5, 2.5])},
    ...     types={"race": "discrete", "age": "continuous"},
    ... )
    >>> groups_in_setting(table)
    ', groups=race x age quartiles'
    """
    if len(table.columns) == 1:
        return ""
    names = (
        column.name if column.kind == "discrete" else f"{column.name} quartiles"
        for column in table.columns
    )
    return f", groups={' x '.join(names)}"


def _codes(column: SensitiveColumn) -> NDArray[np.int64]:
    if column.values is None:
        assert column.codes is not None
        return column.codes
    quartiles = np.quantile(column.values, (0.25, 0.5, 0.75))
    return np.searchsorted(quartiles, column.values).astype(np.int64)
