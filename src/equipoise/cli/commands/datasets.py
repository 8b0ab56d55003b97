"""``equipoise datasets``: public data to try the other commands with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.answers import Answer
from equipoise.cli.command import AsJson, Command, Debug


def datasets(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Describe this one.  [default: list all]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it to this file, .csv or .parquet.")
    ] = None,
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """List public data sets, describe one, or write one as a file to try fit with."""
    from equipoise.datasets import load_dataset
    from equipoise.errors import InputError
    from equipoise.runs.demonstration import describe, fit_command, list_datasets, write_dataset
    from equipoise.runs.frames import as_text, plain_rows

    if name is None:
        if out is not None:
            raise InputError(
                f"--out needs the name of a data set, got '{out}' alone; for example equipoise "
                "datasets adult --out adult.csv"
            )
        found = list_datasets()
        text = as_text(found.drop(columns="source"))
        return Answer(
            f"{text}\n\nequipoise datasets NAME says more, also where a file is looked for.",
            {"datasets": plain_rows(found)},
        )
    if out is None:
        data = load_dataset(name)
        return Answer(str(data.description), describe(data))
    data = write_dataset(name, out)
    command = fit_command(data, out)
    return Answer(
        f"{data.description}\n\nWritten to {out}. To train on it:\n  {command}",
        {**describe(data), "file": str(out), "command": command},
    )


COMMAND = Command(
    datasets,
    examples=(
        "equipoise datasets",
        "equipoise datasets adult",
        "equipoise datasets adult --out adult.csv",
    ),
)
