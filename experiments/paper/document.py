"""The page of the documentation on the reproduction, written from kept results.

``python -m experiments pages`` replaces what stands between the marks of each section (such
as ``<!-- scoreboard -->`` and ``<!-- end -->``) and draws the figures that the page shows; what
stands outside of the marks is written by hand. A test holds the page to the results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from equipoise.errors import InputError
from equipoise.report.markdown import escaped
from equipoise.storage import write_atomically
from experiments import RESULTS as RESULTS_FOLDER
from experiments import ROOT
from experiments.paper import sections, sentences
from experiments.paper.contents import Contents, read_contents
from experiments.paper.plan import TABLES
from experiments.paper.sections import Section

#: Where results are kept for good, the page, and the folder of its figures beside it.
RESULTS, PAGE = RESULTS_FOLDER / "paper", ROOT / "docs" / "reproduction.md"
FIGURES_FOLDER = Path("figures") / "reproduction"


def filled(page: str, contents: Contents) -> str:
    """The page with every marked block as the results have it; the rest of it stays."""
    for name, text in blocks(contents).items():
        marks = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)"
        pairs = list(re.finditer(marks, page, flags=re.DOTALL))
        if len(pairs) != 1:
            raise InputError(
                f"the page must have the marks '<!-- {name} -->' and '<!-- end -->' once, got "
                f"{len(pairs)} pairs; put them where the block belongs"
            )
        (pair,) = pairs
        page = f"{page[: pair.end(1)]}\n{text}\n\n{page[pair.start(2) :]}"
    return page


def blocks(contents: Contents) -> dict[str, str]:
    """Markdown by the name of its mark."""
    quick = [sentences.QUICK.capitalize() + "."] if contents.quick else []
    found = [
        sections.settings(contents),
        sections.scoreboard(contents),
        sections.agreement(contents),
        sections.trade_offs(contents),
        sections.protocols(contents),
        *(sections.table(contents, name) for name in TABLES),
        sections.figures(contents),
        sections.deviations(contents),
        sections.times(contents),
        sections.toy(contents),
        sections.trials(contents),
    ]
    texts = {section.name: _markdown(section) for section in found}
    return {"score": _paragraphs([*quick, *sentences.score(contents)])} | texts


def _markdown(section: Section) -> str:
    parts = [_paragraphs(section.before)]
    for part in section.parts:
        table = part.table.markdown()
        if part.long:
            summary = f"<details>\n<summary>{escaped(part.caption)}</summary>"
            parts.append(f"{summary}\n\n{table}\n\n</details>")
        else:
            parts.append(f"{escaped(part.caption)}:\n\n{table}")
    parts += [_picture(name) for name in section.figures]
    many = len(section.after) > 1
    after = [f"- {escaped(each)}" for each in section.after]
    parts.append("\n".join(after) if many else _paragraphs(section.after))
    return "\n\n".join(part for part in parts if part)


def _paragraphs(texts: Sequence[str]) -> str:
    return "\n\n".join(escaped(text) for text in texts)


def _picture(name: str) -> str:
    return f"![{sections.caption(name)}]({(FIGURES_FOLDER / name).as_posix()}.png)"


def write(results: Path, page: Path) -> None:
    """Fill the page and draw its figures."""
    # Imported here: drawing needs matplotlib, holding the page to the results does not.
    from experiments.paper.figures import draw, png_bytes

    contents = read_contents(results)
    text = filled(page.read_text("utf-8"), contents)
    folder = page.parent / FIGURES_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name in sections.drawable(contents):
        write_atomically(folder / f"{name}.png", png_bytes(draw(name, contents)))
    write_atomically(page, text.encode())
