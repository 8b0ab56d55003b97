"""What a peer is: which cells it can do, and which scores its models give on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.paper.plan import Cell
from experiments.peers.rows import PeerRows


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
    """Say so where a package can not be imported."""
    return None if find_spec(name) else f"{name} is not installed"
