"""Running what is missing: every cell once, several at a time, each kept as soon as it is done."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

from equipoise.errors import ConvergenceWarning, DataNotFound, InputError
from experiments.paper.files import read_results, write_result
from experiments.paper.plan import Cell, training_of
from experiments.paper.running import run_cells
from experiments.paper.settings import Size

#: Is told of every cell that ended: its key, seconds of training, and why it was left out ("" for
#: a cell that is there).
Told = Callable[[str, float, str], None]


def run_missing(
    cells: Sequence[Cell],
    size: Size,
    folder: Path,
    *,
    device: str = "auto",
    workers: int = 1,
    told: Told | None = None,
) -> None:
    """Train the cells that have no result in ``folder`` yet, and write what they gave.

    A killed run is begun again by the same call: finished cells are not trained again. A data set
    that is not to be had leaves its cells out. Results of another size are refused, not mixed.
    """
    finished = read_results(folder, cells)
    for result in finished.values():
        found = result.record["size"]["name"]
        if found != size.name:
            raise InputError(
                f"'{folder}' holds results of a {found} run, got a {size.name} one; choose another "
                "folder, or the same size"
            )
    groups: dict[Cell, list[Cell]] = {}
    for cell in cells:
        if cell not in finished:
            groups.setdefault(training_of(cell), []).append(cell)
    told = told or (lambda key, seconds, problem: None)
    if workers == 1:
        for group in groups.values():
            _tell(told, group, *_run_group(group, size, folder, device))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_one_thread) as pool:
        running = {
            pool.submit(_run_group, group, size, folder, device): group for group in groups.values()
        }
        try:
            for done in as_completed(running):
                _tell(told, running[done], *done.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one_thread() -> None:
    torch.set_num_threads(1)


def _run_group(group: Sequence[Cell], size: Size, folder: Path, device: str) -> tuple[float, str]:
    """Train and write; return seconds of training and what kept it from that."""
    with warnings.catch_warnings():
        # Members that stop are counted in the record, and health is not what tables are about.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            results = run_cells(group, size, device=device)
        except DataNotFound as missing:
            return 0.0, str(missing)
    for result in results:
        write_result(folder, result)
    return float(results[0].record["seconds"]["train"]), ""


def _tell(told: Told, group: Sequence[Cell], seconds: float, problem: str) -> None:
    for cell in group:
        told(cell.key, seconds, problem)
