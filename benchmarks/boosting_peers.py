"""Peers of fair boosting: LightGBM as it is, ExponentiatedGradient around it, and FairGBM.

On the rows of `equipoise.paper`, by both protocols, judged as its cells are. A task is one peer on
one split of one cell, in one thread; what is finished is kept, and a run goes on from there:

    python -m benchmarks.boosting_peers --workers 16 --only plain exponentiated_gradient
    python -m benchmarks.boosting_peers --pack

The first writes a file for each task under ``results/boosting/peers``; the second packs them into
``peers.parquet`` and ``peers.json`` beside. Credit, Law and Crime need their files
(EQUIPOISE_DATA, see docs/datasets.md), FairGBM an environment of its own
(EQUIPOISE_FAIRGBM_PYTHON, see `benchmarks._peers.fairgbm_peer`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
import torch

from benchmarks import _environment
from benchmarks._peers import exponentiated_gradient, fairgbm_peer, plain
from benchmarks._peers.judging import judged
from benchmarks._peers.pieces import Task, finished, pack, write_piece
from benchmarks._peers.rows import cells_for, peer_rows
from equipoise.paper.settings import FULL

LONG = True
OUT = Path("results") / "boosting"
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
        "device": _environment.device_name("cpu"),
        "versions": _environment.versions()
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


def main() -> None:
    """Run every peer that can run here, one task at a time, and pack."""
    run(tuple(PEERS), OUT, workers=1)
    pack(OUT)


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.boosting_peers",
        description="Train and judge the peers of fair boosting.",
    )
    parser.add_argument("--workers", type=int, default=1, help="tasks at a time")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of results")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PEERS,
        default=tuple(PEERS),
        metavar="PEER",
        help=f"peers to run: {', '.join(PEERS)}; all unless given",
    )
    parser.add_argument("--pack", action="store_true", help="pack what is finished, run nothing")
    return parser.parse_args(words)


if __name__ == "__main__":
    asked = parsed()
    if asked.pack:
        pack(asked.out)
    else:
        run(asked.only, asked.out, asked.workers)
