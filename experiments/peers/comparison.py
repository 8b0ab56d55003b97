"""Peers beside a frontier: hypervolume, and at how many of a peer's points the frontier is ahead.

Tables in, numbers out. What picks and what reports is as in `experiments.paper.protocols`: the
front is found on validation rows, and its points are measured on test rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError
from experiments.paper.files import CellResult
from experiments.paper.plan import Cell
from experiments.paper.protocols import reported_fronts

Points = NDArray[np.float64]
#: Kept results are rounded to five digits; what differs by less is the same.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class Ahead:
    """How a frontier stands to a peer's points.

    Attributes
    ----------
    points : int
        How many points the peer has.
    ahead : int
        At how many of them the frontier has a point of at least that utility and at most that
        unfairness.
    shortfall : float
        The least number that, added to the utility and taken from the unfairness of every point of
        the frontier, would put it ahead everywhere; 0 where it is. The additive epsilon indicator
        of Zitzler et al. (2003, IEEE Transactions on Evolutionary Computation 7), cut at 0.
    """

    points: int
    ahead: int
    shortfall: float

    @property
    def everywhere(self) -> bool:
        """Whether the frontier is ahead at each of the peer's points."""
        return self.ahead == self.points


def peer_result(table: pd.DataFrame, cell: Cell) -> CellResult:
    """A peer's rows as the result of a cell, for everything that takes one.

    table: of all peers (`experiments.peers.pieces.read_peers`). cell: its method is the peer. A
    setting is what a strength is elsewhere, and numbered in its place.
    """
    mine = table[
        (table["scenario"] == cell.scenario)
        & (table["dataset"] == cell.dataset)
        & (table["notion"] == cell.notion)
        & (table["protocol"] == cell.protocol)
        & (table["peer"] == cell.method)
    ]
    if mine.empty:
        raise InputError(
            f"the table must have rows of {cell.method} for {cell.dataset} in Scenario "
            f"{cell.scenario} ({cell.notion}, {cell.protocol} protocol), got none; train it first"
        )
    measured = mine.drop(columns=["scenario", "dataset", "notion", "protocol", "peer"])
    snapshots = measured.dropna(axis=1, how="all").reset_index(drop=True)
    numbers = pd.factorize(snapshots["setting"])[0].astype(np.float64)
    return CellResult(cell, snapshots.assign(strength=numbers), pd.DataFrame(), {})


def joint(results: Sequence[CellResult]) -> CellResult:
    """Several families of models as one frontier: all their snapshots, in the first one's cell."""
    snapshots = pd.concat([result.snapshots for result in results], ignore_index=True)
    return replace(results[0], snapshots=snapshots)


def ahead(frontier: Points, peer: Points) -> Ahead:
    """Compare points (utility, unfairness), (F, 2) of a frontier with (P, 2) of a peer.

    >>> ahead(np.array([[0.9, 0.1]]), np.array([[0.8, 0.1], [0.88, 0.05]]))
    Ahead(points=2, ahead=1, shortfall=0.05)
    """
    if len(peer) == 0:
        return Ahead(0, 0, 0.0)
    # By how much a point of the frontier (rows) is behind one of the peer's (columns) in either.
    lacks = peer[None, :, 0] - frontier[:, None, 0]
    exceeds = frontier[:, None, 1] - peer[None, :, 1]
    behind = np.maximum(lacks, exceeds).min(axis=0, initial=np.inf)
    short = np.where(behind <= _ROUNDING, 0.0, behind)
    return Ahead(len(peer), int((short == 0).sum()), float(short.max()))


def ahead_in_splits(frontier: CellResult, peer: CellResult, measure: str) -> Ahead:
    """Compare split by split, on the same rows: points are counted over all, the worst is kept."""
    if set(frontier.snapshots["split"]) != set(peer.snapshots["split"]):
        raise InputError(
            "frontier and peer must have the same splits, got "
            f"{sorted(set(frontier.snapshots['split']))} and "
            f"{sorted(set(peer.snapshots['split']))}; finish both"
        )
    fronts = zip(reported_fronts(frontier, measure), reported_fronts(peer, measure), strict=True)
    found = [ahead(ours, theirs) for ours, theirs in fronts]
    return Ahead(
        sum(each.points for each in found),
        sum(each.ahead for each in found),
        max(each.shortfall for each in found),
    )
