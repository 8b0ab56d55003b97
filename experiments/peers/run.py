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
from experiments.paper.settings import FULL
from experiments.peers import exponentiated_gradient, fairgbm_peer, plain
from experiments.peers.judging import judged
from experiments.peers.pieces import Task, finished, write_piece
from experiments.peers.rows import cells_for, peer_rows

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
