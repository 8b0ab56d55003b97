"""Peers of fair boosting: LightGBM as it is, ExponentiatedGradient around it, and FairGBM.

On the rows of `experiments.paper`, by both protocols, judged as its cells are. A task is one peer
on one split of one cell, in one thread; what is finished is kept, and a run goes on from there:

    python -m experiments peers --workers 16 --only plain exponentiated_gradient
    python -m experiments peers --pack

The first writes a file for each task under ``results/boosting/peers``; the second packs them into
``peers.parquet`` and ``peers.json`` beside. Credit, Law and Crime need their files
(EQUIPOISE_DATA, see docs/datasets.md), FairGBM an environment of its own
(EQUIPOISE_FAIRGBM_PYTHON, see `experiments.peers.fairgbm_peer`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
import torch

from benchmarks import environment
from equipoise.storage import write_atomically
from experiments.paper.plan import Cell
from experiments.paper.results import parquet_bytes
from experiments.paper.training import FULL, measures_of
from experiments.peers import exponentiated_gradient, fairgbm_peer, plain
from experiments.peers.peer import PeerRows, Scored, cells_for, peer_rows

PEERS = {module.PEER.name: module.PEER for module in (plain, exponentiated_gradient, fairgbm_peer)}


def tasks_of(peer: str) -> list[Task]:
    """Everything that a peer has to do."""
    return [
        Task(cell, split)
        for cell in cells_for(peer)
        if PEERS[peer].offers(cell)
        for split in range(FULL.splits)
    ]


def run_task(task: Task, out: Path) -> float:
    """Train, judge and keep; how many seconds it took."""
    peer = PEERS[task.cell.method]
    begun = time.perf_counter()
    rows = peer_rows(task.cell, task.split, FULL)
    table = judged(task.cell, task.split, rows, peer.scored(task.cell, rows))
    seconds = round(time.perf_counter() - begun, 2)
    record = {
        "peer": peer.name,
        "settings": dict(peer.settings),
        "device": environment.device_name("cpu"),
        "versions": environment.versions()
        | {"numpy": np.__version__, "pandas": pd.__version__, "scikit-learn": sklearn.__version__}
        | peer.versions(),
        "seconds": seconds,
    }
    write_piece(out, task, table, record)
    return seconds


def run(peers: Sequence[str], out: Path, workers: int) -> None:
    """Do what is not finished yet."""
    done = finished(out)
    missing = []
    for name in peers:
        reason = PEERS[name].why_not()
        if reason:
            print(f"{name} is left out: {reason}", flush=True)
            continue
        tasks = tasks_of(name)
        missing += [task for task in tasks if task.name not in done]
        kept = sum(task.name in done for task in tasks)
        print(f"{name}: {kept} of {len(tasks)} tasks are finished", flush=True)
    # Those with most groups take longest: they go first, so that no worker is left with one.
    missing.sort(key=lambda task: task.cell.scenario != "II")
    failed = []
    # A fresh interpreter for each worker: threads of a process that was copied may stand still.
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        running = {pool.submit(run_task, task, out): task for task in missing}
        try:
            for number, future in enumerate(as_completed(running), 1):
                name, problem = running[future].name, future.exception()
                said = f"{future.result():.1f} s" if problem is None else f"failed: {problem!r}"
                print(f"[{number}/{len(missing)}] {name}: {said}", flush=True)
                failed += [] if problem is None else [name]
        except KeyboardInterrupt:
            # Else the tasks that wait would all be done before the program ends.
            pool.shutdown(cancel_futures=True)
            raise
    if failed:
        sys.exit(f"{len(failed)} tasks failed: {', '.join(failed)}")


def judged(cell: Cell, split: int, rows: PeerRows, models: Iterable[Scored]) -> pd.DataFrame:
    """One model a row.

    Columns: scenario, dataset, notion, protocol, peer, setting, split, iteration; utility (AUC, or
    MAE with R2 beside it) and every measure on the validation rows; the same on test rows with
    "test " before the name, decisions cut where the validation rows have it best.
    """
    return pd.concat([_judged(cell, split, rows, each) for each in models], ignore_index=True)


def _judged(cell: Cell, split: int, rows: PeerRows, models: Scored) -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "scenario": cell.scenario,
            "dataset": cell.dataset,
            "notion": cell.notion,
            "protocol": cell.protocol,
            "peer": cell.method,
            "setting": models.setting,
            "split": np.int8(split),
            "iteration": np.array(models.iterations, np.int32),
        }
    )
    thresholds = None
    for prefix, part, scores in zip(("", "test "), rows.parts, models.scores, strict=False):
        found = measures_of(cell, part, 0, torch.from_numpy(scores), thresholds)
        table = table.join(found[0].add_prefix(prefix))
        thresholds = found[1]
    return table


_PIECES, _TABLE, _RECORDS = "peers", "peers.parquet", "peers.json"
_CELL = ["scenario", "dataset", "notion", "peer", "protocol"]


@dataclass(frozen=True)
class Task:
    """One peer on one split of a cell; the cell's method is the peer."""

    cell: Cell
    split: int

    @property
    def name(self) -> str:
        """Name of its file, and of it in the records.

        >>> cell = Cell(scenario="I", dataset="law", notion="separation", method="fairgbm")
        >>> Task(cell, 3).name
        'I-law-separation-fairgbm-paper-3'
        """
        cell = self.cell
        parts = cell.scenario, cell.dataset, cell.notion, cell.method, cell.protocol, self.split
        return "-".join(map(str, parts))


def write_piece(out: Path, task: Task, table: pd.DataFrame, record: Mapping[str, Any]) -> None:
    """Keep what a task gave."""
    folder = out / _PIECES
    folder.mkdir(parents=True, exist_ok=True)
    # Parquet keeps what pandas has in `attrs`: one file, so that no half of it can be missing.
    kept = table.copy()
    kept.attrs.update(record)
    write_atomically(folder / f"{task.name}.parquet", parquet_bytes(kept))


def finished(out: Path) -> set[str]:
    """Names of the tasks that are done, packed or not."""
    return set(_read_records(out)["tasks"]) | {path.stem for path in _pieces(out)}


def read_peers(out: Path) -> pd.DataFrame:
    """Everything that peers gave so far, packed or not, in one table."""
    new = {path.stem: pd.read_parquet(path) for path in _pieces(out)}
    parts = list(new.values())
    if (out / _TABLE).is_file():
        packed = pd.read_parquet(out / _TABLE)
        if new:
            names = packed[[*_CELL, "split"]].astype(str).agg("-".join, axis=1)
            packed = packed[~names.isin(list(new))]
        parts.insert(0, packed)
    for part in parts:
        # The records are not about the whole table.
        part.attrs = {}
    order = [*_CELL, "setting", "split", "iteration"]
    return pd.concat(parts, ignore_index=True).sort_values(order, ignore_index=True)


def pack(out: Path) -> None:
    """Add the pieces to the packed files and remove them."""
    pieces = _pieces(out)
    records = _read_records(out)
    runs: list[Any] = records["runs"]
    for path in pieces:
        record = dict(pd.read_parquet(path).attrs)
        seconds = record.pop("seconds")
        if record not in runs:
            runs.append(record)
        records["tasks"][path.stem] = {"run": runs.index(record), "seconds": seconds}
    records["tasks"] = dict(sorted(records["tasks"].items()))
    table = read_peers(out)
    write_atomically(out / _TABLE, parquet_bytes(table))
    write_atomically(out / _RECORDS, (json.dumps(records, indent=1) + "\n").encode())
    for path in pieces:
        path.unlink()
    if pieces and not any((out / _PIECES).iterdir()):
        (out / _PIECES).rmdir()


def _pieces(out: Path) -> list[Path]:
    return sorted((out / _PIECES).glob("*.parquet"))


def _read_records(out: Path) -> dict[str, Any]:
    """Runs: everything but seconds. Tasks: number of the run and seconds, by name."""
    path = out / _RECORDS
    if not path.is_file():
        return {"runs": [], "tasks": {}}
    records: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return records
