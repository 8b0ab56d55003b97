"""What is known of fair boosting, networks and peers: their results side by side, and areas.

A *trade-off* is a data set in a scenario with a notion, a metric and an attribute. Contenders are
what is compared there. ExponentiatedGradient has two readings of its score
(`experiments.peers.exponentiated_gradient`), which stand apart here.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.boosting import curves
from experiments.paper.files import CellResult, read_results
from experiments.paper.plan import Cell, Protocol
from experiments.paper.protocols import measure_column, test_hypervolumes
from experiments.paper.settings import FULL
from experiments.peers import run
from experiments.peers.comparison import ahead_in_splits, joint, peer_result
from experiments.peers.pieces import read_peers
from experiments.peers.trials import Trials, read_trials

BOOSTING, NETWORKS, BOTH = "fair boosting", "SBP networks", "both together"
PLAIN, FAIRGBM = "plain LightGBM", "FairGBM"
GRADIENT = "ExponentiatedGradient"
READINGS = {reading: f"{GRADIENT}, {reading}" for reading in ("probabilities", "decisions")}
#: What the joint frontier is held against, and whose program each is.
PEERS = {
    PLAIN: "plain",
    **dict.fromkeys(READINGS.values(), "exponentiated_gradient"),
    FAIRGBM: "fairgbm",
}
#: What identifies a trade-off in a table.
TRADE_OFF = ["scenario", "dataset", "notion", "metric", "attribute"]
#: The results of a place by the name of the contender.
Contenders = Mapping[str, CellResult]
#: Rows of the peers' table by what identifies a peer's cell in it.
PeerRows = Mapping[tuple[Hashable, ...], pd.DataFrame]
_PEER_CELL = ["scenario", "dataset", "notion", "protocol", "peer"]
_READING = {name: reading for reading, name in READINGS.items()}


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that the page is written from.

    Attributes
    ----------
    places : mapping
        Contenders that are finished, by the cell of fair boosting.
    peers : mapping
        Records of the peers' runs (`experiments.peers.pieces`), by the peer's name.
    trials : Trials
    """

    places: Mapping[Cell, Contenders]
    peers: Mapping[str, tuple[Mapping[str, Any], ...]]
    trials: Trials

    def of(self, protocol: Protocol) -> dict[Cell, Contenders]:
        """Places under one protocol."""
        return {cell: found for cell, found in self.places.items() if cell.protocol == protocol}

    @cached_property
    def areas(self) -> pd.DataFrame:
        """Area of each contender in each trade-off and split: a row each.

        Columns: protocol, those of `TRADE_OFF`, contender, split, area.
        """
        rows = []
        for cell, contenders in self.places.items():
            for metric, attribute in cell.measures:
                about = (cell.protocol, *_about(cell, metric, attribute))
                measure = measure_column(metric, attribute)
                for name, result in contenders.items():
                    found = test_hypervolumes(_only(result, measure), measure)
                    rows += [(*about, name, *each) for each in enumerate(found)]
        columns = ["protocol", *TRADE_OFF, "contender", "split", "area"]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def standings(self) -> pd.DataFrame:
        """How the frontiers stand to every peer's points on test rows: a row each.

        Columns: those of `TRADE_OFF`, peer, points, level and shortfall of both families
        together, boosting_level of fair boosting alone.
        """
        rows = []
        for cell, contenders in self.of("honest").items():
            if BOTH not in contenders:
                continue
            for metric, attribute in cell.measures:
                measure = measure_column(metric, attribute)
                cut = {name: _only(result, measure) for name, result in contenders.items()}
                for peer in (name for name in PEERS if name in cut):
                    whole = ahead_in_splits(cut[BOTH], cut[peer], measure)
                    alone = ahead_in_splits(cut[BOOSTING], cut[peer], measure)
                    about = (*_about(cell, metric, attribute), peer)
                    rows.append((*about, whole.points, whole.ahead, whole.shortfall, alone.ahead))
        columns = [*TRADE_OFF, "peer", "points", "level", "shortfall", "boosting_level"]
        table = pd.DataFrame(rows, columns=columns)
        order = [list(PEERS).index(peer) for peer in table["peer"]]
        return table.assign(order=order).sort_values("order", kind="stable", ignore_index=True)

    @cached_property
    def missing(self) -> list[tuple[Cell, str]]:
        """What could have run in a place and is not finished."""
        return [
            (cell, name)
            for cell, contenders in self.places.items()
            for name in (BOOSTING, NETWORKS, *PEERS)
            if name not in contenders and can_run(name, cell)
        ]


def can_run(contender: str, cell: Cell) -> bool:
    """Whether a contender can do what a place asks for."""
    if contender not in PEERS:
        return True
    return bool(run.PEERS[PEERS[contender]].offers(cell))


def better_reading(areas: pd.DataFrame) -> pd.DataFrame:
    """Areas in which the better one of the two readings, by mean area, stands for the peer.

    areas: a row for each trade-off, a column for each contender.
    """
    readings = areas.reindex(columns=list(READINGS.values()))
    return areas.drop(columns=list(READINGS.values()), errors="ignore").assign(
        **{GRADIENT: readings.max(axis=1)}
    )


def _about(cell: Cell, metric: str, attribute: str) -> tuple[str, ...]:
    return cell.scenario, cell.dataset, cell.notion, metric, attribute


def read_evidence(results: Path) -> Evidence:
    """Read the kept results: folders ``boosting`` and ``paper``."""
    cells = curves.cells()
    boosting = read_results(results / "boosting", cells)
    networks = read_results(results / "paper", [_network(cell) for cell in cells])
    rows: PeerRows = dict(iter(read_peers(results / "boosting").groupby(_PEER_CELL)))
    records = json.loads((results / "boosting" / "peers.json").read_text("utf-8"))
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for each in records["runs"]:
        runs.setdefault(each["peer"], []).append(each)
    return Evidence(
        places={
            cell: _contenders(cell, boosting.get(cell), networks.get(_network(cell)), rows)
            for cell in cells
        },
        peers={name: tuple(found) for name, found in runs.items()},
        trials=read_trials(results / "boosting"),
    )


def _only(result: CellResult, measure: str) -> CellResult:
    """The result without the columns of other measures, which is quicker to take apart."""
    names = ["split", *(p + n for p in ("", "test ") for n in ("utility", "R2", measure))]
    return replace(result, snapshots=result.snapshots.filter(items=names))


def _network(cell: Cell) -> Cell:
    return replace(cell, settings="equipoise")


def _contenders(
    cell: Cell, boosting: CellResult | None, networks: CellResult | None, rows: PeerRows
) -> dict[str, CellResult]:
    """Contenders with all splits; others are not finished."""
    found = {}
    if boosting is not None:
        found[BOOSTING] = boosting
    if networks is not None:
        found[NETWORKS] = networks
    if len(found) == 2:
        found[BOTH] = joint([found[BOOSTING], found[NETWORKS]])
    for name, peer in PEERS.items():
        mine = rows.get((cell.scenario, cell.dataset, cell.notion, cell.protocol, peer))
        if mine is None:
            continue
        reading = _READING.get(name)
        if reading is not None:
            mine = mine[mine["setting"].str.contains(f"score={reading}", regex=False)]
        found[name] = peer_result(mine, replace(cell, method=peer))
    return {
        name: result
        for name, result in found.items()
        if set(result.snapshots["split"]) == set(range(FULL.splits))
    }


def paired(
    areas: pd.DataFrame, one: str, other: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Areas of two contenders, (trade-offs, splits) each, where both have them.

    areas: rows of `Evidence.areas` under one protocol.
    """
    table = areas.pivot(index=[*TRADE_OFF, "split"], columns="contender", values="area")
    both = table[[one, other]].dropna()
    first, second = (both[name].unstack("split").to_numpy(np.float64) for name in (one, other))
    return first, second
