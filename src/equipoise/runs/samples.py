"""Public data sets as files to try commands with."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.datasets import (
    Dataset,
    DatasetDescription,
    acs,
    credit,
    dataset_names,
    law,
    load_dataset,
)
from equipoise.errors import InputError
from equipoise.runs.names import command_line
from equipoise.storage.atomic import checked_target, write_atomically, written_beside

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
    rows += [
        _facts(about, "a file of yours", file_rows)
        for about, file_rows in (
            (credit._ABOUT, credit.CREDIT_FILE.rows),
            (law._ABOUT, law.LAW_FILE.rows),
            *((source.about, source.file.rows) for source in acs._SOURCES.values()),
        )
    ]
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
