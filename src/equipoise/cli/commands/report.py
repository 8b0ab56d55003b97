"""``equipoise report``: write the report of a run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.answers import Answer
from equipoise.cli.browser import open_page
from equipoise.cli.command import AsJson, Command, Debug


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder that equipoise fit wrote.")
    ],
    open: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Write report and model card of a run again, and say where the report is.

    One HTML file that needs no network: the answer in two sentences, the frontier to explore, how
    the selected model treats whom, how to deploy it, and what is not promised.
    """
    from equipoise.runs.selecting import rewrite_report

    page = rewrite_report(run)
    if open:
        open_page(Path(page))
    return Answer(page, {"run": str(run), "report": page})


COMMAND = Command(report, examples=("equipoise report run", "equipoise report run --open"))
