"""Tables as JSON has them, and as text."""

from __future__ import annotations

from typing import Any

import pandas as pd

from equipoise.report.page import plain


def plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """One mapping for each row; what is missing or undefined is None.

    >>> plain_rows(pd.DataFrame({"a": [1, 2], "b": [0.5, float("nan")]}))
    [{'a': 1, 'b': 0.5}, {'a': 2, 'b': None}]
    """
    known = frame.astype(object).where(frame.notna(), None)
    rows: list[dict[str, Any]] = plain(known.to_dict("records"))
    return rows


def as_text(frame: pd.DataFrame) -> str:
    """One line for each row below the names, columns aligned; "-" where there is no value.

    >>> print(as_text(pd.DataFrame({"run": ["a", "b"], "utility": [0.75, float("nan")]})))
    run  utility
    a    0.750
    b    -
    """
    lines = [[str(name) for name in frame.columns]]
    lines += [[_cell(value) for value in row.values()] for row in plain_rows(frame)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join(padded)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
