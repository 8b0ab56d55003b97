"""Options of the commands, and values that hold several things.

Nothing here loads more than the standard library and typer, so that ``--help`` answers at once.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

Text = str | None
Whole = int | None
Real = float | None
Place = Path | None
Names = list[str] | None


def option(metavar: str, help: str, default: Any = None, **more: Any) -> Any:
    """An option that is named as its parameter is; it is required where the default is ``...``."""
    return typer.Option(default, metavar=metavar, help=help, **more)


def columns(help: str, default: Any = None) -> Any:
    """An option that names columns."""
    return option("COLUMNS", help, default, callback=names)


def switch(name: str, help: str) -> Any:
    """An option without a value."""
    return typer.Option(False, name, help=help)


def data_file(
    default: Any, help: str = "CSV, TSV, Parquet or Arrow file; text files also as .gz."
) -> Any:
    """The argument that names the data."""
    return typer.Argument(default, metavar="DATA", help=help)


def names(texts: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names separated by commas, from an option that may be given several times.

    A name that holds a comma is put in double quotes, as in a CSV file.

    >>> names(["age, sex", '"last, first"'])
    ('age', 'sex', 'last, first')
    """
    if texts is None:
        return None
    rows = [
        row
        for text in texts
        for row in csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    ]
    return tuple(name for row in rows for name in row if name)


def numbers(text: str | None) -> tuple[float, ...] | None:
    """Strengths separated by commas.

    >>> numbers("0, 0.5,0.9")
    (0.0, 0.5, 0.9)
    """
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        _refuse(
            f"--strengths must be numbers separated by commas, got {text!r}; for example "
            "--strengths 0,0.5,0.9"
        )


def kinds(texts: Sequence[str] | None) -> dict[str, str] | None:
    """Types of columns, ``column=discrete`` or ``column=continuous`` separated by commas.

    >>> kinds(["zip=discrete,age=continuous"])
    {'zip': 'discrete', 'age': 'continuous'}
    """
    found = names(texts)
    if found is None:
        return None
    pairs = [name.rpartition("=") for name in found]
    for column, equals, kind in pairs:
        if not (column and equals and kind in ("discrete", "continuous")):
            _refuse(
                "--types must be column=discrete or column=continuous, separated by commas, got "
                f"{column + equals + kind!r}; for example --types zip=discrete"
            )
    return {column: kind for column, _, kind in pairs}


def _refuse(message: str) -> NoReturn:
    from equipoise.errors import InputError

    raise InputError(message) from None


# Looked at before anything is parsed (see `running`), so that even a misspelled command line is
# answered in the form that was asked for.
AsJson = Annotated[
    bool, typer.Option("--json", help="Answer with one JSON object on standard output.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run folder that equipoise fit wrote.")
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=KIND",
        help="Types of sensitive columns, such as zip=discrete,age=continuous.",
        callback=kinds,
    ),
]
