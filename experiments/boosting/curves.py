"""Fair boosting on the rows of `experiments.paper`: all strengths and splits, by both protocols.

Every split of a cell is a run of its own; what is finished is kept, and a run goes on from there:

    python -m experiments boosting --workers 16
    python -m experiments boosting --pack

The first writes two files for each run under ``results/boosting/cells``; the second joins the
splits of each cell and packs all into ``snapshots.parquet`` and ``records.json`` beside, as the
results of the paper are. Credit, Law and Crime need their files (EQUIPOISE_DATA, see
docs/datasets.md).
"""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch

from experiments.paper.plan import DATASETS, STAND_IN, STUDIES, Cell, in_both_protocols
from experiments.paper.results import CellResult, pack, read_results, write_result
from experiments.paper.training import FULL, run_cell

#: Snapshots every 20 rounds, as often as a frontier takes them.
SIZE = replace(FULL, evaluate_every=20)


def cells() -> tuple[Cell, ...]:
    """Where the paper has its penalty, on its own data sets, the largest first."""
    ours = [replace(cell, settings="boosting") for cell in STUDIES["ours"]]
    order = [dataset for scenario in ("II", "I", "III") for dataset in DATASETS[scenario]]
    chosen = [cell for cell in ours if cell.dataset != STAND_IN]
    return in_both_protocols(sorted(chosen, key=lambda cell: order.index(cell.dataset)))


def folder_of(out: Path, split: int) -> Path:
    """Where the runs of one split are kept."""
    return out / "cells" / f"split{split}"


def missing(out: Path) -> list[tuple[Cell, int]]:
    """Cells and splits without a result, those of the honest protocol first."""
    packed = read_results(out, cells())
    found = [
        (cell, split)
        for split in SIZE.split_numbers
        for cell in cells()
        if cell not in packed and cell not in read_results(folder_of(out, split), [cell])
    ]
    return sorted(found, key=lambda run: run[0].protocol != "honest")


def train(out: Path, workers: int) -> None:
    """Train what is missing."""
    todo = missing(out)
    # A fresh interpreter for each worker: threads of a process that was copied may stand still.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, torch.set_num_threads, (1,)) as pool:
        running = {pool.submit(run_split, *each, out): each for each in todo}
        for number, future in enumerate(as_completed(running), 1):
            cell, split = running[future]
            print(
                f"[{number}/{len(todo)}] {cell.key}, split {split}: {future.result():.0f} s",
                flush=True,
            )


def run_split(cell: Cell, split: int, out: Path) -> float:
    """Train and judge one split of a cell, and keep what it gave; seconds of training."""
    result = run_cell(cell, replace(SIZE, splits=1, first=split), device="cpu")
    write_result(folder_of(out, split), result)
    return float(result.record["seconds"]["train"])


def joined(parts: Sequence[CellResult]) -> CellResult:
    """The splits of a cell as one result."""
    first = parts[0]
    seconds = {
        name: round(sum(part.record["seconds"][name] for part in parts), 3)
        for name in first.record["seconds"]
    }
    size = {**first.record["size"], "splits": len(parts), "first": 0}
    return CellResult(
        first.cell,
        pd.concat([part.snapshots for part in parts], ignore_index=True),
        pd.concat([part.picks for part in parts], ignore_index=True),
        {**first.record, "size": size, "seconds": seconds},
    )


def pack_up(out: Path) -> None:
    """Pack all cells whose splits are finished into two files."""
    found = dict(read_results(out, cells()))
    by_split = [read_results(folder_of(out, split), cells()) for split in SIZE.split_numbers]
    for cell in cells():
        if all(cell in results for results in by_split):
            found[cell] = joined([results[cell] for results in by_split])
    pack(out, [found[cell] for cell in cells() if cell in found])
    if not missing(out):
        shutil.rmtree(out / "cells", ignore_errors=True)
