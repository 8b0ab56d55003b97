"""``equipoise demo``: a data file and a run on it, with the commands that do the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
import torch

from equipoise.datasets import (
    UNBUNDLED,
    Dataset,
    DatasetDescription,
    dataset_names,
    load_dataset,
)
from equipoise.errors import InputError
from equipoise.runs.fitting import EndedRun, FitRequest, Say, fit_run
from equipoise.runs.folder import SETTINGS
from equipoise.runs.record import command_line, read_record, sha256
from equipoise.storage.atomic import checked_target, is_leftover, write_atomically, written_beside

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


#: Data sets that need no file of the user's.
AT_HAND = ("adult", "crime", "synthetic")


def list_datasets() -> pd.DataFrame:
    """Every data set, one a row: name, comes from, rows, task, target, sensitive, licence, source.

    Of those that need a file of the user's, rows are those of the file, and the sensitive columns
    are known once it is there. Nothing is read but what comes along, and nothing is downloaded.
    """
    rows = [
        _facts(found.description, found.origin, found.description.rows)
        for found in map(load_dataset, AT_HAND)
    ]
    rows += [_facts(about, "a file of yours", file_rows) for about, file_rows in UNBUNDLED]
    by_name = {row["name"]: row for row in rows}
    return pd.DataFrame([by_name[name] for name in dataset_names()]).astype({"rows": "Int64"})


def _facts(about: DatasetDescription, origin: str, rows: int | None) -> dict[str, Any]:
    return {
        "name": about.name,
        "comes from": origin,
        "rows": rows,
        "task": about.task,
        "target": about.target,
        "sensitive": ",".join(about.sensitive) or None,
        "licence": about.licence,
        "source": about.source,
    }


def describe(data: Dataset) -> dict[str, Any]:
    """Everything said of one data set, as JSON has it."""
    about = {**asdict(data.description), "origin": data.origin}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in about.items()
    }


def write_dataset(name: str, out: Path) -> Dataset:
    """Write features, outcome and sensitive attributes of a data set as one CSV or Parquet file."""
    data = load_dataset(name)
    target = checked_target(out, "--out")
    if target.exists():
        raise InputError(f"--out must be new, got '{target}', which is there; choose another name")
    match target.suffix:
        case ".csv":
            write_atomically(target, as_csv(data))
        case ".parquet":
            with written_beside(target) as beside:
                _whole(data).to_parquet(beside, index=False)
        case ending:
            raise InputError(f"--out must end in .csv or .parquet, got {ending or 'no ending'!r}")
    return data


def as_csv(data: Dataset) -> bytes:
    """Return the content of the CSV file that `write_dataset` writes."""
    return _whole(data).to_csv(index=False).encode()


def _whole(data: Dataset) -> pd.DataFrame:
    return pd.concat([data.X, data.A, data.y], axis=1)


def fit_command(data: Dataset, out: Path) -> str:
    """Return a command line that trains on a data set written to ``out``."""
    about = data.description
    named = ["--target", about.target, "--sensitive", ",".join(about.sensitive)]
    return command_line("equipoise", "fit", out, *named)
