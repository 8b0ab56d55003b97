"""``equipoise reproduce``: the paper's tables and figures again, beside its own numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.answers import Answer, note
from equipoise.cli.command import AsJson, Command, Debug


def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            help="table2 ... table12, figure1 ... figure11, scenario1, scenario2, scenario3, ours, "
            "rivals, deviations, or all."
        ),
    ],
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Fewer iterations, strengths, splits and rows: the shape, not the numbers.",
        ),
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write to.")] = Path(
        "reproduction"
    ),
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder of finished runs; 'results' in --out unless named."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Runs trained at a time; one a core, or one on an accelerator."),
    ] = None,
    finished_only: Annotated[
        bool, typer.Option("--finished-only", help="Train nothing: write what is finished.")
    ] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Repeat the paper's experiments: tables beside its own numbers, figures, one page.

    Trains what the target needs, or takes finished runs from the results folder; a run that was
    ended half way goes on where it was. Every table is given under two protocols: the paper's, and
    one that reports on rows which picked nothing. Data sets that are not bundled are found as
    equipoise datasets says; without their files their cells are left out.
    """
    from equipoise.paper.reproduction import reproduce as run

    found = run(
        target,
        quick=quick,
        device=device,
        out=out,
        results=results,
        workers=workers,
        train=not finished_only,
        say=note,
    )
    return Answer(found.text, found.to_document())


COMMAND = Command(
    reproduce,
    examples=(
        "equipoise reproduce table12 --quick",
        "equipoise reproduce scenario1 --device cuda --workers 8",
        "equipoise reproduce all --results results/paper --finished-only",
    ),
)
