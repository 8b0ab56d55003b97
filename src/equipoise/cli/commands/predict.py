"""``equipoise predict``: score a file with the model of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.answers import Answer
from equipoise.cli.command import AsJson, Command, Debug
from equipoise.cli.values import names


def predict(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder that equipoise fit wrote.")
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="File with the features; no sensitive column is needed."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write, .parquet or .csv.")],
    id: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns to copy beside the scores.  [default: those of the run]",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="A decision is score > threshold.  [default: that of the selection]"
        ),
    ] = None,
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Score a file of any size with the selected model of a run.

    The model is the one that equipoise select stored last; before that, the one picked at the end
    of training (selection.json says which, and why). Rows are read and written piece by piece. A
    row that can not be scored is written with the reason, not dropped.
    """
    from equipoise.runs.scoring import predict_with_run

    scored = predict_with_run(run, data, out, id=names(id), threshold=threshold)
    return Answer(scored.text, scored.document)


COMMAND = Command(
    predict,
    examples=(
        "equipoise predict run new_people.csv --out scores.parquet",
        "equipoise predict run new_people.csv --out scores.csv --id person --threshold 0.4",
    ),
)
