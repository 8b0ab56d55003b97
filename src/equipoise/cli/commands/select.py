"""``equipoise select``: take a model from the frontier of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.answers import Answer
from equipoise.cli.command import AsJson, Command, Debug


def select(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder that equipoise fit wrote.")
    ],
    max_unfairness: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Most unfairness allowed; the best utility within it is taken."
        ),
    ] = None,
    min_utility: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Least AUC, or R2; alone, the least unfair model that has it is taken.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="What the limit is on, such as ks-gsp.  [default: the run's first]"
        ),
    ] = None,
    attribute: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="The only sensitive column that counts.  [default: all]"
        ),
    ] = None,
    candidates: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="How many selections you compare by their reports before you take one; "
            "certificates then hold for all of them.",
        ),
    ] = 1,
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Take a model from the frontier of a run.

    Picks on the validation rows, reports on test rows that were used neither to train nor to pick,
    and makes the model the run's: report, model card and predict are about it from then on.
    Nothing changes where no model keeps the limits; the error names the nearest.
    """
    from equipoise.errors import InputError
    from equipoise.runs.selecting import Choice, select_in_run, selection_document

    if max_unfairness is None and min_utility is None:
        raise InputError(
            "select needs a wish, got none: --max-unfairness for the best utility within it, or "
            "--min-utility for the least unfairness that keeps it; for example equipoise select "
            "run --max-unfairness 0.05"
        )
    choice = Choice(
        max_unfairness=max_unfairness,
        min_utility=min_utility,
        metric=metric,
        attribute=attribute,
        candidates=candidates,
    )
    selection = select_in_run(run, choice)
    return Answer(
        f"{selection}\n\nStored in {run}: report.html, the model card and equipoise predict are "
        "about this model now.",
        {"run": str(run), "selection": selection_document(selection, choice)},
    )


COMMAND = Command(
    select,
    examples=(
        "equipoise select run --max-unfairness 0.05",
        "equipoise select run --max-unfairness 0.05 --metric ks-gsp --attribute age",
        "equipoise select run --min-utility 0.8",
    ),
)
