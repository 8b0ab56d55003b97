"""Markdown in which no name can break the page: everything a user wrote is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

#: What has a meaning inside a line of CommonMark, of its tables or of formulas.
_MARKS = re.compile(r"([\\`*_{}\[\]#|~$!])")
#: What begins a list, a rule or a heading at the start of a line.
_LIST_OR_RULE = re.compile(r"^(\d*)([.)](?= |$)|[-+=]+(?= |$))")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escaped(value: object) -> str:
    r"""One line in which every character stands for itself.

    >>> escaped("a: b | <b>c</b>\n# d")
    'a: b \\| &lt;b&gt;c&lt;/b&gt; \\# d'
    """
    line = " ".join(str(value).split())
    line = _MARKS.sub(r"\\\1", "".join(_ENTITIES.get(each, each) for each in line))
    return _LIST_OR_RULE.sub(r"\1\\\2", line)


def code_block(text: str, language: str = "") -> str:
    """Text as it is, within a fence longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table; cells are escaped here."""
    lines = [header, ["---"] * len(header), *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
