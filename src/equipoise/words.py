"""Numbers, lists and paragraphs as people read them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

#: Columns of a text that goes to no terminal.
WIDTH = 100


def number(value: float) -> str:
    """Write a number for people; nothing where it is undefined.

    >>> number(0.12345), number(1234.5), number(1e-12), number(math.nan)
    ('0.123', '1,234.5', '1e-12', '')
    """
    if math.isnan(value):
        return ""
    if value != 0 and not 1e-9 <= abs(value) < 1e9:
        return f"{value:.3g}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def percent(share: float) -> str:
    """Write a share in percent.

    >>> percent(0.153), percent(0.95), percent(1)
    ('15.3 %', '95 %', '100 %')
    """
    return f"{points(share)} %"


def points(share: float) -> str:
    """Write a share in percentage points.

    >>> points(0.2349), points(0.74)
    ('23.5', '74')
    """
    return f"{100 * share:.1f}".removesuffix(".0")


def listed(items: Sequence[str], word: str = "and") -> str:
    """Put a word before the last of several items.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"], "or")
    ('a', 'a and b', 'a, b or c')
    """
    *others, last = items
    return f"{', '.join(others)} {word} {last}" if others else last


def capital(sentence: str) -> str:
    """Begin a sentence with a capital letter, and leave the rest as it is."""
    return sentence[:1].upper() + sentence[1:]


def wrapped(text: str, width: int = WIDTH) -> str:
    r"""Wrap every line of a text. The rest of a line is set in by two more than its beginning.

    A command to paste stays one line.

    >>> print(wrapped("a list:\n  of a few words\n  equipoise select run --max-gap 0.05", 20))
    a list:
      of a few words
      equipoise select run --max-gap 0.05
    """
    lines = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()))
        if line.lstrip().startswith("equipoise "):
            lines.append(line)
            continue
        # No line break between a number and its percent sign.
        lines += textwrap.wrap(
            line.strip().replace(" %", "\N{NO-BREAK SPACE}%"),
            max(width, 20),
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}%", " %")
