"""``equipoise demo``: everything once, on census data that come along."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.answers import Answer, note
from equipoise.cli.browser import open_page
from equipoise.cli.command import AsJson, Command, Debug


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write to.")] = Path(
        "equipoise-demo"
    ),
    open: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Train on the bundled Adult data and write a report, in about a minute on two cores.

    Who earned more than 50 000 dollars is predicted from nine features; the sensitive attributes
    are age, which is continuous, and sex. It prints the commands that do the same.
    """
    from equipoise.runs.demonstration import demonstrate

    ended = demonstrate(out, say=note)
    if open:
        open_page(ended.report)
    return Answer(ended.summary(), ended.to_document(), code=1 if ended.interrupted else 0)


COMMAND = Command(demo, examples=("equipoise demo", "equipoise demo --out my-demo --open"))
