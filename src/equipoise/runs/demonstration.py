"""``equipoise demo``: a data file and a run on it, with the commands that do the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from equipoise.datasets import load_dataset
from equipoise.errors import InputError
from equipoise.runs.fitting import EndedRun, fit_run
from equipoise.runs.folder import SETTINGS
from equipoise.runs.names import command_line
from equipoise.runs.record import read_record, sha256
from equipoise.runs.request import FitRequest, Say
from equipoise.runs.samples import as_csv, write_dataset
from equipoise.storage.atomic import is_leftover

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
    request = FitRequest(
        data=folder / DATA,
        given=options,
        out=folder / RUN,
        overwrite=True,
    )
    _refuse_taken(folder, request)
    if not (folder / DATA).exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_dataset("adult", folder / DATA)
    command = request.command(request.options(None), folder / DATA)
    data = command_line("equipoise", "datasets", "adult", "--out", folder / DATA)
    say(f"The same as:\n  {data}\n  {command}\n")
    # Networks this small gain nothing from a second thread, and two threads that wait for each
    # other at every layer are many times slower where other programs use the cores as well.
    torch.set_num_threads(1)
    return fit_run(request, say=say, verbose=1)


def _refuse_taken(folder: Path, request: FitRequest) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must name a folder, got '{folder}', which is a file")
    inside = {path.name for path in folder.iterdir()} if folder.exists() else set()
    other = None
    if any(name not in (DATA, RUN) and not is_leftover(name, [DATA]) for name in inside):
        other = "which holds other files"
    elif DATA in inside and (folder / DATA).read_bytes() != as_csv(load_dataset("adult")):
        other = f"whose {DATA} is not that of the demo"
    elif (folder / RUN / SETTINGS).exists():
        record = read_record(folder / RUN / SETTINGS)
        # The same options on the same data: whatever is lost is made again.
        if DATA not in inside or (record.options, record.data.sha256) != (
            request.options(None),
            sha256(folder / DATA),
        ):
            other = f"where '{RUN}' is not the run of the demo"
    if other is not None:
        raise InputError(
            f"--out must be new, empty or hold an older demo, got '{folder}', {other}; choose "
            "another name"
        )
