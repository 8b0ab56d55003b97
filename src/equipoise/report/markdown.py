"""Markdown and YAML in which no name can break the page: everything a user wrote is escaped."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence

#: What has a meaning inside a line of CommonMark, of its tables or of formulas.
_MARKS = re.compile(r"([\\`*_{}\[\]#|~$!])")
#: What begins a list, a rule or a heading at the start of a line.
_LIST_OR_RULE = re.compile(r"^(\d*)([.)](?= |$)|[-+=]+(?= |$))")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
#: Breaks a line for YAML 1.1 or may not stand in YAML at all; JSON leaves these as they are.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def escaped(text: str) -> str:
    r"""One line in which every character stands for itself.

    >>> escaped("a: b | <b>c</b>\n# d")
    'a: b \\| &lt;b&gt;c&lt;/b&gt; \\# d'
    """
    line = " ".join(text.split())
    line = _MARKS.sub(r"\\\1", "".join(_ENTITIES.get(each, each) for each in line))
    return _LIST_OR_RULE.sub(r"\1\\\2", line)


def code_block(text: str, language: str = "") -> str:
    """Text as it is, within a fence longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; cells are escaped here."""
    lines = [header, ["---"] * len(header), *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def front_matter(content: Mapping[str, object]) -> str:
    """YAML between lines of dashes; every scalar is written as JSON, which YAML 1.2 contains.

    >>> print(front_matter({"tags": ["a: b", "---"], "model-index": [{"name": "x", "n": 1}]}))
    ---
    tags:
    - "a: b"
    - "---"
    model-index:
    - name: "x"
      n: 1
    ---
    """
    return "\n".join(["---", *_block(content), "---"])


def _block(value: object) -> Iterator[str]:
    """Lines of a mapping or sequence; names of keys are ours and need no quotes."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(item, Mapping | list):
                yield f"{key}: {_scalar(item)}"
            else:
                yield f"{key}:"
                indent = "" if isinstance(item, list) else "  "
                yield from (f"{indent}{line}" for line in _block(item))
    elif isinstance(value, list):
        for item in value:
            first, *more = _block(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in more)
    else:
        yield _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    written = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and "e" in written and "." not in written:
        written = written.replace("e", ".0e")  # YAML 1.1 takes 1e-05 for text
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", written)
