"""A command: a function whose signature typer reads, and lines that show its use."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from equipoise.cli.answers import Answer

#: Options that every command has. They are looked at before anything is parsed (see `running`), so
#: that even a misspelt command line is answered in the form that was asked for.
AsJson = Annotated[
    bool, typer.Option("--json", help="Answer with one JSON object on standard output.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@dataclass(frozen=True)
class Command:
    """One command of ``equipoise``.

    function: named as the command is; its docstring is the help. examples: command lines, shown
    at the end of the help.
    """

    function: Callable[..., Answer]
    examples: tuple[str, ...]

    @property
    def name(self) -> str:
        """What is typed."""
        return self.function.__name__

    @property
    def help(self) -> str:
        """The docstring, then the examples."""
        text = inspect.cleandoc(self.function.__doc__ or "")
        lines = "\n".join(f"  {example}" for example in self.examples)
        # typer leaves the line breaks of a paragraph alone that begins with this character.
        return f"{text}\n\n\b\nExamples:\n{lines}"

    def add_to(self, app: typer.Typer) -> None:
        """Make it a command of ``app``."""
        first = inspect.cleandoc(self.function.__doc__ or "").partition("\n")[0]
        app.command(self.name, help=self.help, short_help=first)(self.function)
