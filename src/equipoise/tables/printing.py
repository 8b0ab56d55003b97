"""Tables as plain text, for terminals and for files."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd

#: Longer tables are not wrapped: rich takes about a millisecond for each row.
_MOST_WRAPPED_ROWS = 500


def as_text(frame: pd.DataFrame, *, width: int | None = None) -> str:
    """Lay out a table; "-" stands for a missing value.

    width: columns of the terminal, to which cells are wrapped. If single words do not fit either,
    each row becomes a paragraph. With None, each row is one line, however long.

    >>> table = pd.DataFrame({"run": ["a", "b"], "utility": [0.75, float("nan")]})
    >>> print(as_text(table))
    run  utility
    a    0.750
    b    -
    """
    names = [_cell(name) for name in frame.columns]
    rows = [[_cell(value) for value in row] for row in frame.astype(object).to_numpy().tolist()]
    if width is None or len(rows) > _MOST_WRAPPED_ROWS:
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        return "\n".join(
            "  ".join(map(str.ljust, line, widths)).rstrip() for line in (names, *rows)
        )
    return _wrapped(names, rows, width)


def _wrapped(names: list[str], rows: list[list[str]], width: int) -> str:
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    page = io.StringIO()
    console = Console(file=page, width=width, color_system=None, legacy_windows=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for name in names:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    unlimited = console.options.update(max_width=10**6)
    if Measurement.get(console, unlimited, table).minimum <= width:
        console.print(table)
    else:
        for row in rows:
            for name, cell in zip(names, row, strict=True):
                console.print(Text(f"{name}: {cell}"), overflow="fold")
            console.print()
    return "\n".join(line.rstrip() for line in page.getvalue().rstrip().splitlines())


def _cell(value: Any) -> str:
    """A value as text; line breaks and control characters are escaped."""
    if not isinstance(value, str):
        if pd.api.types.is_scalar(value) and pd.isna(value):
            return "-"
        return f"{value:.3f}" if isinstance(value, float) else str(value)
    if value.isprintable():
        return value
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in value)
