"""``equipoise compare``: two or more runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.answers import Answer
from equipoise.cli.command import AsJson, Command, Debug


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Run folders that equipoise fit wrote.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Page to write.")] = Path(
        "compare.html"
    ),
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Compare the frontiers of two or more runs: how much each reaches, and at what budget.

    Prints hypervolume and best utility at several budgets for every metric and sensitive column,
    and which settings differ; writes a page with the fronts drawn over each other.
    """
    from equipoise.runs.comparing import compare_runs

    found = compare_runs(runs, out)
    return Answer(found.text, found.document)


COMMAND = Command(
    compare,
    examples=("equipoise compare run-sbp run-hgr", "equipoise compare a b --out a-and-b.html"),
)
