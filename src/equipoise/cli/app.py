"""The command line as a whole, and the way in.

Nothing that is loaded here may load torch, pandas or scikit-learn: ``equipoise --help`` answers at
once.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from equipoise.cli.commands import COMMANDS
from equipoise.cli.running import run_process

# Plain help: lines of examples stay as they are, and nothing has to be loaded to draw boxes.
app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
for command in COMMANDS:
    said = inspect.cleandoc(command.__doc__ or "")
    # typer keeps the line breaks of a paragraph that begins with this character.
    examples = said.replace("Examples\n--------", "\b\nExamples:")
    app.command(help=examples, short_help=said.partition("\n")[0])(command)


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

    fit trains the whole curve of utility against unfairness and writes a run folder with a report.
    select takes a model from it, and predict scores files with that model. audit assesses scores
    of any model. demo shows all of it on census data in about a minute.

    Every command answers on standard output (with --json as one JSON object) and prints everything
    else to standard error. Exit codes: 0 answered, 1 something to correct in what was asked (or
    standard output could not be written), 2 a fault of the program.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line that the process was started with, and exit."""
    sys.exit(run_process(app, sys.argv[1:] if arguments is None else arguments))
