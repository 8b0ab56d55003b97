"""One command line from beginning to end: parse, run, answer; errors in one line."""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import typer

from equipoise.cli.answers import Answer, note

#: Exit codes: the answer was given; something is wrong with what was asked; a fault of ours.
FINE, USER_ERROR, INTERNAL_ERROR = 0, 1, 2


def run(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    as_json, debug = "--json" in arguments, "--debug" in arguments
    try:
        with _warnings_as_notes():
            found = app(args=list(arguments), prog_name="equipoise", standalone_mode=False)
    except BaseException as problem:
        if isinstance(problem, SystemExit | GeneratorExit):
            raise
        if debug:
            traceback.print_exc()
        return _explain(problem, as_json=as_json)
    if not isinstance(found, Answer):  # --help and --version answer by themselves
        return FINE if not found else _explain(KeyboardInterrupt(), as_json=as_json)
    if as_json:
        typer.echo(json.dumps(found.document, indent=2, allow_nan=False, ensure_ascii=False))
    else:
        typer.echo(found.text)
    return found.code


def _explain(problem: BaseException, *, as_json: bool) -> int:
    """Say in one line what is wrong, and return the exit code for it."""
    message, code = _in_words(problem)
    message = " ".join(message.split())
    note(f"error: {message}")
    if as_json:
        typer.echo(json.dumps({"error": message, "exit_code": code}, ensure_ascii=False))
    return code


def _in_words(problem: BaseException) -> tuple[str, int]:
    if isinstance(problem, KeyboardInterrupt | typer.Abort):
        return "interrupted before there was an answer", USER_ERROR
    # Errors of the parser, whichever library typer takes it from, know how to put themselves.
    if callable(say := getattr(problem, "format_message", None)):
        context = getattr(problem, "ctx", None)
        command = "equipoise" if context is None else context.command_path
        return f"{_lower(str(say()))}; see {command} --help", USER_ERROR
    # Imported here: by now a command has loaded what it needs, and --help must not.
    from equipoise.errors import DataNotFound, InputError

    if isinstance(problem, InputError | DataNotFound):
        return str(problem), USER_ERROR
    if isinstance(problem, OSError) and problem.strerror:
        name = "" if problem.filename is None else f" '{problem.filename}'"
        return (
            f"the system refused to read or write{name}: {problem.strerror.lower()}; check that "
            "the place exists, that you may use it, and that the disk is not full",
            USER_ERROR,
        )
    return (
        f"equipoise failed ({type(problem).__name__}: {problem}), which is a fault of the program "
        "and not of yours; please report it with the output of the same command and --debug",
        INTERNAL_ERROR,
    )


def _lower(sentence: str) -> str:
    """A sentence of the parser as ours begin and end."""
    return sentence[:1].lower() + sentence[1:].removesuffix(".")


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Say warnings meant for users as notes, each once; what libraries tell programmers is not."""
    said = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = " ".join(str(message).split())
        if issubclass(category, UserWarning) and text not in said:
            said.add(text)
            note(f"note: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield
