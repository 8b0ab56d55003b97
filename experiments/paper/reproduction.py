"""One call from a table's name to its pages: train what is missing, then write what there is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.errors import InputError
from equipoise.estimators.fitting import read_device
from equipoise.storage import write_atomically
from experiments.paper.figures import caption, drawable
from experiments.paper.layout import NOT_RUN
from experiments.paper.page import say_score, table, times, toy, write_page
from experiments.paper.plan import FIGURES, TABLES, cells_of
from experiments.paper.tables import TIMES, TOY, Contents, read_contents
from experiments.paper.times import training_times
from experiments.paper.toy import density_ratio_toy
from experiments.paper.training import FULL, QUICK, run_missing

#: Sizes of what is no cell, where a run is quick.
_QUICK_TOY: dict[str, Any] = {"iterations": 600, "replications": 3, "rows": 2_000}
_QUICK_TIMES: dict[str, Any] = {"iterations": 20, "repetitions": 1, "members": (1,), "rows": 600}

Say = Callable[[str], None]


def reproduce(
    target: str,
    *,
    quick: bool,
    device: str,
    out: Path,
    results: Path | None,
    workers: int | None,
    train: bool,
    say: Say,
) -> str:
    """Train the cells of ``target`` that ``results`` lacks (unless told not to), write all pages.

    Returns what was asked for as text.

    results: None is the folder "results" in ``out``. workers: cells trained at a time; None is one
    a core, or one on an accelerator.
    """
    cells = cells_of(target)
    at_a_time = _workers(workers, device)
    folder = out / "results" if results is None else results
    if train:
        folder.mkdir(parents=True, exist_ok=True)
        size = QUICK if quick else FULL

        def told(key: str, seconds: float, problem: str) -> None:
            say(f"{key}: " + (f"left out, {problem}" if problem else f"trained in {seconds:.1f} s"))

        run_missing(
            cells,
            size,
            folder,
            device=device,
            workers=at_a_time,
            told=told,
        )
        _measure_others(target, folder, quick=quick, device=device, say=say)
    elif not folder.is_dir():
        raise InputError(
            f"results must be a folder of finished runs, got '{folder}', which is not there; name "
            "another one, or train first"
        )
    contents = read_contents(folder)
    page = write_page(contents, out)
    return _text(target, contents, page)


def _workers(asked: int | None, device: str) -> int:
    if asked is not None:
        if asked < 1:
            raise InputError(f"workers must be at least 1, got {asked}")
        return asked
    return 1 if read_device(device).type != "cpu" else os.cpu_count() or 1


def _measure_others(target: str, folder: Path, *, quick: bool, device: str, say: Say) -> None:
    """The toy and the training times, where they are asked for and not there yet."""
    wanted: dict[str, Callable[[], pd.DataFrame]] = {}
    if target in ("table5", "all"):
        wanted[TOY] = lambda: density_ratio_toy(device=device, **(_QUICK_TOY if quick else {}))
    if target in ("table4", "table6", "all"):
        wanted[TIMES] = lambda: training_times(device=device, **(_QUICK_TIMES if quick else {}))
    for name, measure in wanted.items():
        if not (folder / name).is_file():
            say(f"{name} ...")
            write_atomically(folder / name, measure().to_csv(index=False).encode())


def _text(target: str, contents: Contents, page: Path) -> str:
    """What was asked for, as text; all of it is on the page."""
    if target in TABLES:
        shown = [table(contents, target)]
    elif target == "table5":
        shown = [toy(contents)]
    elif target in ("table4", "table6"):
        shown = [times(contents)]
    elif target in FIGURES:
        drawn = target in drawable(contents)
        picture = f"{page.parent / 'figures' / target}.png" if drawn else NOT_RUN
        return f"{caption(target)}: {picture}\npage: {page}"
    else:
        return "\n".join([*say_score(contents), f"page: {page}"])
    parts = [
        f"{part.caption}:\n\n{part.table.markdown()}" for section in shown for part in section.parts
    ]
    return "\n\n".join([shown[0].title, *parts, f"page: {page}"])
