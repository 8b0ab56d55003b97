"""``equipoise datasets`` and ``equipoise demo``: public data to try commands with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from equipoise.datasets import (
    UNBUNDLED,
    Dataset,
    DatasetDescription,
    dataset_names,
    describe_dataset,
    load_dataset,
)
from equipoise.errors import InputError
from equipoise.runs import Answer, Say
from equipoise.runs.fitting import fit_command, fit_run, read_options
from equipoise.runs.folder import SETTINGS
from equipoise.runs.record import FitOptions, command_line, plain_rows, read_record, sha256
from equipoise.storage.atomic import (
    checked_target,
    claim,
    foreign_in,
    write_atomically,
    written_beside,
)

DATA, RUN = "adult.csv", "run"
#: Enough to see the curve, little enough for a minute.
SMALL: Mapping[str, Any] = {
    "target": "label",
    "sensitive": ("age", "sex"),
    "drop": ("race",),
    "strengths": (0.0, 0.5, 0.8, 0.9, 0.95, 0.98),
    "seeds": 1,
    "iterations": 1000,
    "device": "cpu",  # so that the numbers do not depend on the machine having a GPU
}


def list_datasets(out: Path | None = None) -> Answer:
    """List every data set, one a row; nothing is downloaded.

    For data sets that need a file of the user's, ``rows`` counts the rows of that file, and the
    sensitive columns are known once it is there.
    """
    if out is not None:
        raise InputError(
            f"--out needs the name of a data set, got '{out}' alone; for example equipoise "
            "datasets adult --out adult.csv"
        )
    bundled = map(load_dataset, ("adult", "crime", "synthetic"))
    rows = [_facts(each.description, each.origin, each.description.rows) for each in bundled]
    rows += [_facts(about, "a file of yours", file_rows) for about, file_rows in UNBUNDLED]
    rows.sort(key=lambda row: dataset_names().index(row["name"]))
    table = pd.DataFrame(rows).astype({"rows": "Int64"})
    return Answer(
        (
            table.drop(columns="source"),
            "equipoise datasets NAME describes one, and says where its file is looked for.",
        ),
        {"datasets": plain_rows(table)},
    )


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


def show_dataset(name: str, out: Path | None = None) -> Answer:
    """Describe one data set; write features, outcome and sensitive attributes to ``out``."""
    if out is not None:
        _refuse_existing(out)
        data = load_dataset(name)
        about, origin = data.description, data.origin
    else:
        about, origin = describe_dataset(name)
    document = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in {**asdict(about), "origin": origin}.items()
    }
    if out is None:
        of_user = name in {each.name for each, _ in UNBUNDLED}
        return Answer((str(about), *([f"File: {origin}"] if of_user else [])), document)
    _write(data, out)
    named = ("--target", about.target, "--sensitive", ",".join(about.sensitive))
    command = command_line("equipoise", "fit", out, *named)
    return Answer(
        (str(about), f"Written to {out}. To train on it:\n  {command}"),
        {**document, "file": str(out), "command": command},
    )


def _refuse_existing(out: Path) -> Path:
    """Return where to write, which must be new and of a known format."""
    target = checked_target(out, "--out")
    claim(target, None, foreign="exists", overwrite=False)
    if target.suffix not in (".csv", ".parquet"):
        ending = target.suffix or "no ending"
        raise InputError(f"--out must end in .csv or .parquet, got {ending!r}; rename it")
    return target


def _write(data: Dataset, out: Path) -> None:
    target = _refuse_existing(out)
    if target.suffix == ".csv":
        write_atomically(target, _as_csv(data))
        return
    with written_beside(target) as beside:
        _whole(data).to_parquet(beside, index=False)


def _as_csv(data: Dataset) -> bytes:
    return _whole(data).to_csv(index=False).encode()


def _whole(data: Dataset) -> pd.DataFrame:
    return pd.concat([data.X, data.A, data.y], axis=1)


def demonstrate(
    folder: Path, *, say: Say, overwrite: bool = False, options: Mapping[str, Any] = SMALL
) -> Answer:
    """Write the Adult data and a run on them into ``folder``; replaces only an older demo."""
    data, run = folder / DATA, folder / RUN
    asked = read_options(options, None)
    _claim(folder, asked)
    if not data.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _write(load_dataset("adult"), data)
    written = command_line("equipoise", "datasets", "adult", "--out", data)
    say(f"The same as:\n  {written}\n  {fit_command(asked, data, run)}\n")
    # Networks this small gain nothing from a second thread. Two threads that wait for each other
    # at every layer are many times slower where other programs use the cores as well.
    torch.set_num_threads(1)
    return fit_run(data, options, out=run, overwrite=overwrite, say=say)


def _claim(folder: Path, options: FitOptions) -> None:
    """Raise unless the folder is new or empty, or holds the demo; `fit_run` decides on its run."""
    data, run = folder / DATA, folder / RUN / SETTINGS
    foreign = foreign_in(folder, (DATA, RUN).__contains__, written=[DATA])
    if foreign is None and data.exists() and data.read_bytes() != _as_csv(load_dataset("adult")):
        foreign = f"holds another {DATA}"
    elif foreign is None and run.exists():
        record = read_record(run)
        # The same options on the same data: whatever is lost is made again.
        same_data = data.exists() and record.data.sha256 == sha256(data)
        if record.options != options or not same_data:
            foreign = f"holds another run in {RUN!r}"
    claim(folder, "a demo", foreign=foreign, overwrite=True)
