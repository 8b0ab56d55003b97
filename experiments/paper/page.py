"""Tables, figures and one self-contained HTML page from a folder of results, without training."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from equipoise.errors import InputError
from equipoise.report.page import read_template
from equipoise.storage import write_atomically
from experiments.paper.contents import Contents, read_contents
from experiments.paper.sections import Section, caption, drawable, sections
from experiments.paper.sentences import QUICK, score

TITLE = "Fair supervised learning with a simple random sampler: the paper's experiments again"


def write_pages(results_folder: str | Path, out: str | Path) -> Path:
    """Write ``tables/*.md|csv``, ``figures/*.png|svg`` and ``index.html``; nothing is trained.

    Parameters
    ----------
    results_folder : path
        Folder of finished cells, of their own files or packed, with ``table5.csv`` and
        ``times.csv`` if they have been measured. Cells that are not there are shown as not run.
    out : path
        Folder to write to; it is made if need be, and files of these names are replaced.

    Returns
    -------
    Path
        The HTML page.
    """
    return write_contents(read_contents(Path(results_folder)), Path(out))


def write_contents(contents: Contents, folder: Path) -> Path:
    """Write the files of `write_pages` from what has been read already."""
    pictures = _write_figures(contents, folder / "figures")
    found = sections(contents)
    _write_tables(contents, found, folder / "tables")
    page = folder / "index.html"
    write_atomically(page, html_page(contents, found, pictures).encode())
    return page


def _write_figures(contents: Contents, folder: Path) -> dict[str, bytes]:
    """Write every figure; their PNGs by name."""
    try:
        # Imported here: only pages need matplotlib, which is an optional package.
        from experiments.paper.figures import draw, write_figure
    except ImportError as error:
        raise InputError(
            "pages have figures, which need matplotlib: pip install 'equipoise[report]'"
        ) from error
    pictures = {}
    for name in drawable(contents):
        write_figure(draw(name, contents), folder, name)
        pictures[name] = (folder / f"{name}.png").read_bytes()
    return pictures


def _write_tables(contents: Contents, found: list[Section], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in contents.frames().items():
        write_atomically(folder / f"{name}.csv", frame.to_csv(index=False).encode())
    for section in found:
        for part in section.parts:
            label = f"{QUICK}\n\n" if contents.quick else ""
            guide = f"{part.guide}\n\n" if part.guide else ""
            caption = f"{label}{guide}{part.caption}:"
            text = f"# {section.title}\n\n{caption}\n\n{part.table.markdown()}\n"
            write_atomically(folder / f"{part.name}.md", text.encode())


def html_page(contents: Contents, found: list[Section], pictures: dict[str, bytes]) -> str:
    """The page, with its figures (PNG by name) inside."""
    inlined = {name: base64.b64encode(picture).decode() for name, picture in pictures.items()}
    return (
        _environment()
        .get_template("reproduction.html")
        .render(
            title=TITLE,
            style=Markup(read_template("style.css")),
            script="",
            script_hash=base64.b64encode(hashlib.sha256(b"").digest()).decode(),
            data=None,
            quick=QUICK if contents.quick else "",
            answer=score(contents),
            sections=found,
            pictures=inlined,
            captions={name: caption(name) for name in pictures},
        )
    )


@cache
def _environment() -> jinja2.Environment:
    """Templates of this package over those that all pages share."""
    own = jinja2.PackageLoader("experiments.paper", "templates")
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([own, jinja2.FunctionLoader(read_template)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
