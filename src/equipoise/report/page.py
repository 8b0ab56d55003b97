"""Self-contained HTML pages from templates, and Markdown, in which no name can break the page.

Verdicts look the same on all of them: `verdict_panels` and `side_by_side`.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import math
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup

from equipoise.inference.verdict import Decisions, Verdict
from equipoise.metrics.by_group import FOUR_FIFTHS
from equipoise.metrics.sample import SMALL_GROUP
from equipoise.notions import Notion
from equipoise.words import capital, number, percent, points

QUESTIONS = {
    Notion.INDEPENDENCE: "Do scores treat groups alike?",
    Notion.SEPARATION: "Do scores treat groups alike among people with the same outcome?",
}
#: Characters that could end a script element, or begin a comment in one, as JSON writes them.
_ESCAPES = str.maketrans(
    {mark: f"\\u{ord(mark):04x}" for mark in ("<", ">", "&", "\u2028", "\u2029")}
)

#: What has a meaning inside a line of CommonMark, of its tables or of formulas.
_MARKS = re.compile(r"([\\`*_{}\[\]#|~$!])")
#: What begins a list, a rule or a heading at the start of a line.
_LIST_OR_RULE = re.compile(r"^(\d*)([.)](?= |$)|[-+=]+(?= |$))")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def today() -> str:
    """The date in UTC, as ISO has it."""
    return datetime.now(UTC).date().isoformat()


@dataclass(frozen=True)
class Source:
    """Where the numbers of a page come from."""

    name: str = ""  # of the data file; "" for data that came from no file
    sha256: str = ""  # of the file, or of the values
    made: str = field(default_factory=today)  # ISO date of the numbers


#: Name of a run or "", where its numbers come from, and the versions that made them.
Made = tuple[str, Source, Mapping[str, object]]


def render_page(
    template: str,
    *,
    scripts: Sequence[str],
    data: object,
    made: Sequence[Made] = (),
    **context: Any,
) -> str:
    """Fill a template that extends ``base.html`` with the variables of `context`.

    The foot of the page has `made`, with the versions in use where none are known.

    The scripts, files beside the template, are put one after the other into one module, which reads
    `data` as JSON from the element with the id ``data``. Nothing on the page is fetched from
    anywhere, and nothing else runs: its content security policy forbids that, whatever a name or a
    value contains.
    """
    script = Markup("\n".join(read_template(name) for name in scripts))
    digest = hashlib.sha256(script.encode()).digest()
    return find_template(
        template, number=number, cell=_cell, percent=percent, points=points, capital=capital
    ).render(
        style=Markup(read_template("style.css")),
        script=script,
        script_hash=base64.b64encode(digest).decode(),
        data=json_text(data),
        sources=[
            (run, source, _versions() | dict(used))
            for run, source, used in made or [("", Source(), {})]
        ],
        **context,
    )


def _versions() -> dict[str, str]:
    return {"equipoise": version("equipoise"), "python": platform.python_version()}


def is_page(path: Path, title: str = "") -> bool:
    """Whether a file is a page of `render_page` whose title begins with ``title``."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(1000).decode("utf-8", "replace")
    return '<meta name="generator" content="equipoise">' in start and f"<title>{title}" in start


def json_text(value: object) -> Markup:
    r"""JSON that is safe inside a script element; numbers that JSON lacks become null.

    >>> print(json_text({"name": "</script>", "value": float("nan")}))
    {"name":"\u003c/script\u003e","value":null}
    """
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_ESCAPES))


def plain(value: object) -> Any:
    """The same content in the types that JSON has."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray) and (value.dtype.kind in "biu" or np.isfinite(value).all()):
        return value.tolist()  # nothing inside needs a look
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def read_template(name: str) -> str:
    """Text of a file in ``templates``."""
    return files("equipoise.report").joinpath("templates", name).read_text("utf-8")


def find_template(name: str, **filters: Callable[..., str]) -> jinja2.Template:
    """A file in ``templates`` to fill in; in HTML every value is escaped."""
    return _environment(name.endswith(".html"), **filters).get_template(name)


# Kept, since it keeps the templates that it has compiled, which takes longer than to fill them in.
@functools.cache
def _environment(html: bool, **filters: Callable[..., str]) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(read_template),
        autoescape=html,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment


def _cell(value: Any, form: str | None = None) -> Markup:
    """A cell of a table: the number as it is read, and in full for sorting; empty if undefined."""
    if pd.isna(value):
        return Markup('<td class="number"></td>')
    text = number(value) if form is None else form % value
    return Markup('<td class="number" data-value="{}">{}</td>').format(value, text)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table, as templates take them."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


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


def markdown_table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table; cells are escaped here."""
    lines = [header, ["---"] * len(header), *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def verdict_panels(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """The verdicts of each notion, as ``verdict_table`` of ``verdicts.html`` takes them."""
    return [
        _panel(notion, [verdict for verdict in verdicts if verdict.notion == notion])
        for notion in dict.fromkeys(verdict.notion for verdict in verdicts)
    ]


def _panel(notion: str, found: Sequence[Verdict]) -> dict[str, Any]:
    return {
        **_heading(notion),
        "measure": next((each.rates.measure for each in found if each.rates is not None), ""),
        "amount": "gap in points" if found[0].in_points else found[0].metric,
        "level": percent(found[0].estimate.level),
        "verdicts": found,
        "ratios": any(each.ratio is not None for each in found),
        "four_fifths": FOUR_FIFTHS,
    }


def side_by_side(verdicts: Sequence[Sequence[Verdict]]) -> list[dict[str, Any]]:
    """The verdicts on each of several models, as ``models_table`` of ``verdicts.html`` takes them.

    All models have verdicts on the same notions and attributes, in the same order.
    """
    rows = list(zip(*verdicts, strict=True))
    return [
        {
            **_heading(notion),
            "rows": [(row[0].attribute, row) for row in rows if row[0].notion == notion],
        }
        for notion in dict.fromkeys(row[0].notion for row in rows)
    ]


def _heading(notion: str) -> dict[str, Any]:
    return {"notion": notion, "question": QUESTIONS[Notion(notion)], "small": SMALL_GROUP}


def verb_of(verdicts: Sequence[Verdict]) -> str:
    """What happens to people with a positive decision, in the words of the verdicts."""
    said = (each.rates.decides for each in verdicts if each.rates is not None)
    return next(filter(None, said), Decisions().verb)
