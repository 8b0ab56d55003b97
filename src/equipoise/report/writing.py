"""Numbers, lists of names and tables, as pages write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd


def number(value: float) -> str:
    """Write a number as the summary of an audit does; nothing where it is undefined.

    >>> number(0.12345), number(1234.5), number(math.nan)
    ('0.123', '1,234.5', '')
    """
    if math.isnan(value):
        return ""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def listed(items: Sequence[str], word: str = "and") -> str:
    """Put a word before the last of several items.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"], "or")
    ('a', 'a and b', 'a, b or c')
    """
    *others, last = items
    return f"{', '.join(others)} {word} {last}" if others else last


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table, as templates take them."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
