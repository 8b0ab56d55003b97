"""Values of options that hold several things: column names, numbers, types of columns.

Nothing here loads more than the standard library, so that ``--help`` answers at once.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import NoReturn

KINDS = ("discrete", "continuous")


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


def numbers(text: str | None, option: str) -> tuple[float, ...] | None:
    """Numbers separated by commas.

    >>> numbers("0, 0.5,0.9", "--strengths")
    (0.0, 0.5, 0.9)
    """
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        _refuse(
            f"{option} must be numbers separated by commas, got {text!r}; for example "
            f"{option} 0,0.5,0.9"
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
        if not (column and equals and kind in KINDS):
            _refuse(
                "--types must be column=discrete or column=continuous, separated by commas, got "
                f"{column + equals + kind!r}; for example --types zip=discrete"
            )
    return {column: kind for column, _, kind in pairs}


def _refuse(message: str) -> NoReturn:
    from equipoise.errors import InputError

    raise InputError(message) from None
