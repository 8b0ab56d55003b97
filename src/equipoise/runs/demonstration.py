"""``equipoise demo``: a data file and a run on it, with the commands that do the same."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from equipoise.errors import InputError
from equipoise.runs.fitting import EndedRun, fit_run
from equipoise.runs.request import FitRequest, Say
from equipoise.runs.samples import write_dataset

DATA, RUN = "adult.csv", "run"
#: Enough to see the curve, little enough for a minute.
SMALL: dict[str, Any] = {
    "target": "label",
    "sensitive": ("age", "sex"),
    "drop": ("race",),
    "strengths": (0.0, 0.5, 0.8, 0.9, 0.95, 0.98),
    "seeds": 1,
    "iterations": 1000,
    "device": "cpu",  # so that the numbers do not depend on the machine having a GPU
}


def demonstrate(
    folder: Path, *, say: Say, options: Mapping[str, Any] = MappingProxyType(SMALL)
) -> EndedRun:
    """Write the Adult data and a run on them into ``folder``; over nothing but an older demo."""
    _refuse_taken(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DATA).unlink(missing_ok=True)
    write_dataset("adult", folder / DATA)
    request = FitRequest(
        data=folder / DATA,
        given=options,
        out=folder / RUN,
        overwrite=True,
    )
    command = request.command(request.options(None), folder / DATA)
    data = shlex.join(["equipoise", "datasets", "adult", "--out", str(folder / DATA)])
    say(f"The same as:\n  {data}\n  {command}\n")
    # Networks this small gain nothing from a second thread, and two threads that wait for each
    # other at every layer are many times slower where other programs use the cores as well.
    torch.set_num_threads(1)
    return fit_run(request, say=say, verbose=1)


def _refuse_taken(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must name a folder, got '{folder}', which is a file")
    inside = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if inside - {DATA, RUN}:
        raise InputError(
            f"--out must be new, empty or hold an older demo, got '{folder}', which holds other "
            "files; choose another name"
        )
