"""The command line: every command in one list, and the way in.

Nothing that is loaded here may load torch, pandas or scikit-learn: ``equipoise --help`` answers at
once. Commands import what they need when they run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from equipoise.cli import running
from equipoise.cli.commands import (
    audit,
    compare,
    datasets,
    demo,
    fit,
    predict,
    report,
    select,
)

#: In the order of the help. To add one, write its module and its line here.
COMMANDS = (
    fit.COMMAND,
    select.COMMAND,
    predict.COMMAND,
    audit.COMMAND,
    report.COMMAND,
    compare.COMMAND,
    datasets.COMMAND,
    demo.COMMAND,
)

# Plain help: lines of examples stay as they are, and nothing has to be loaded to draw boxes.
app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
for command in COMMANDS:
    command.add_to(app)


def _say_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"equipoise {version('equipoise')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def equipoise(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    """Fair supervised learning for any sensitive attribute: from a data file to a decision.

    fit trains the whole curve of utility against unfairness and writes a run folder with a report;
    select takes a model from it, predict scores files with it. audit assesses scores of any model.
    demo shows all of it on census data in about a minute.

    Every command answers on standard output (with --json as one JSON object) and says everything
    else on standard error. Exit codes: 0 answered, 1 something to correct in what was asked (also
    an answer that standard output did not take), 2 a fault of the program.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line that the process was started with, and exit."""
    sys.exit(running.run_process(app, sys.argv[1:] if arguments is None else arguments))
