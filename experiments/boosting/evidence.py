"""What is known of fair boosting, networks and peers: their results side by side, and areas.

A *trade-off* is a data set in a scenario with a notion, a metric and an attribute. Contenders are
what is compared there. ExponentiatedGradient has two readings of its score
(`experiments.peers.exponentiated_gradient`), which stand apart here.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError
from experiments.boosting import curves
from experiments.paper.plan import Cell, Protocol
from experiments.paper.results import (
    CellResult,
    measure_column,
    read_results,
    reported_fronts,
    test_hypervolumes,
)
from experiments.paper.tables import TRADE_OFF
from experiments.paper.training import FULL
from experiments.peers import run
from experiments.peers.run import read_peers

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
        Records of the peers' runs (`experiments.peers.run`), by the peer's name.
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
    def against_peers(self) -> pd.DataFrame:
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

    table: of all peers (`experiments.peers.run.read_peers`). cell: its method is the peer. A
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


#: Splits that the trial finished.
WHOLE_SPLITS = (0, 1)
#: Measures of the whole distribution of scores: what the penalty is about.
MEASURES = ("KS-GSP", "KS-GEO")
#: Where the Hessian of the penalty is taken from the critic, and the constant that they changed.
FROM_THE_CRITIC, CONSTANT = ("gn.5", "gn2", "fisher"), "base"
_RUN = ["dataset", "attributes", "notion", "split"]


@dataclass(frozen=True, eq=False)
class Trials:
    """Table and words of the trial."""

    table: pd.DataFrame
    about: Mapping[str, Any]

    @property
    def words(self) -> Mapping[str, str]:
        """What each configuration changed."""
        words: Mapping[str, str] = self.about["configurations"]
        return words

    @property
    def lost(self) -> pd.DataFrame:
        """Runs of the whole splits without areas: config and what identifies a run."""
        whole = self.table[self.table["split"].isin(WHOLE_SPLITS)]
        return whole[whole["test_area"].isna()][["config", *_RUN]].drop_duplicates()

    def areas(self, notion: str | None = None) -> pd.DataFrame:
        """Test areas, a row for each run and measure that all configurations have.

        notion: that of the rows, where some configurations were tried for one of them only;
        otherwise those that were tried for both are columns.
        """
        chosen = self.table[
            self.table["split"].isin(WHOLE_SPLITS)
            & self.table["measure"].str.split(" ").str[0].isin(MEASURES)
        ]
        if notion is None:
            notions = chosen.groupby("config")["notion"].nunique()
            chosen = chosen[chosen["config"].isin(notions.index[notions == 2])]
        else:
            chosen = chosen[chosen["notion"] == notion]
        wide = chosen.pivot(index=[*_RUN, "measure"], columns="config", values="test_area")
        return wide.dropna()


def read_trials(folder: Path) -> Trials:
    """Read table and words."""
    about = json.loads((folder / "trials.json").read_text("utf-8"))
    return Trials(pd.read_csv(folder / "trials.csv"), about)
