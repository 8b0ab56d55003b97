"""``equipoise audit``: assess the scores of any model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.answers import Answer
from equipoise.cli.command import AsJson, Command, Debug
from equipoise.cli.values import kinds, names


def audit(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="CSV, TSV, Parquet or Arrow file; .gz of the text formats."
        ),
    ],
    score: Annotated[str, typer.Option(metavar="COLUMN", help="Column of scores, of any model.")],
    sensitive: Annotated[
        list[str], typer.Option(metavar="COLUMNS", help="Sensitive columns, separated by commas.")
    ],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of what came true; without it only independence is assessed.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="X", help="A decision is score > threshold.  [default: Youden's J]"),
    ] = None,
    notion: Annotated[
        str | None,
        typer.Option(metavar="NOTION", help="independence or separation.  [default: both]"),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="Label of the target that is the positive outcome."),
    ] = None,
    favourable: Annotated[
        str | None,
        typer.Option(
            metavar="SIDE",
            help="high or low: which scores are good for the person.  [default: high]",
        ),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=KIND",
            help="Types of sensitive columns, such as zip=discrete,age=continuous.",
        ),
    ] = None,
    missing_sensitive: Annotated[
        str | None,
        typer.Option(
            metavar="RULE", help="error, or skip rows without a sensitive value.  [default: error]"
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder to write the audit to.")
    ] = Path("audit"),
    json: AsJson = False,
    debug: Debug = False,
) -> Answer:
    """Assess how unfair the scores in a file are, how sure that is, and for whom.

    The scores may come from any model, not only from equipoise. Prints the answer in plain words
    and writes audit.html to read, audit.csv with every number, and audit.json.
    """
    from json import loads

    from equipoise.runs.auditing import audit_file, refuse_taken, write_audit

    options = {
        "threshold": threshold,
        "notion": notion,
        "positive": positive,
        "favourable": favourable,
        "sensitive_types": kinds(types),
        "missing_sensitive": missing_sensitive,
    }
    refuse_taken(out)
    found = audit_file(
        data,
        score=score,
        sensitive=names(sensitive) or (),
        target=target,
        options={name: value for name, value in options.items() if value is not None},
    )
    written = [str(path) for path in write_audit(out, found)]
    return Answer(
        f"{found}\n\nWritten: {', '.join(written)}",
        {"audit": loads(found.to_json()), "files": written},
    )


COMMAND = Command(
    audit,
    examples=(
        "equipoise audit scored.csv --score risk --target default --sensitive age,sex",
        "equipoise audit scored.csv --score risk --sensitive age --favourable low --threshold 0.5",
    ),
)
