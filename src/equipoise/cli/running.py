"""One command line from beginning to end: parse, run, print the answer or the error."""

from __future__ import annotations

import errno
import functools
import io
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import typer

from equipoise.runs import NO_SUCH_MODEL, Answer, Part
from equipoise.words import WIDTH, wrapped

#: Exit codes: the answer was given; something is wrong with what was asked; a fault of ours.
#: `NO_SUCH_MODEL`, 3: no model keeps the limits that were asked for.
FINE, USER_ERROR, INTERNAL_ERROR = 0, 1, 2
# An option as Python has it, with its value, and in brackets as the command line has it.
_BOTH_NAMES = re.compile(r"""\b\w+(?:=(?:\{[^}]*\}|'[^']*'|[^\s()]+))? \((--[^()]+)\)""")
# A name that is not quoted and not part of a path, an option or another name; and its value.
_NAME = re.compile(
    r"""(?<![\w'"/.\\-])(?P<name>[a-z]+(_[a-z]+)*)(?![\w'"/.-])"""
    r"""((?P<equals>=)(?P<value>[\w.'"]*[\w'"])?)?"""
)


def run_process(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run the one command line of a process; return its exit code.

    If standard error is closed or full, notes are lost and the command continues. If standard
    output is, the command does its work and the exit code says that the answer was lost.
    """
    _open_closed_files()
    with _forgiving("stderr"), _forgiving("stdout") as output:
        code = run(app, arguments)
        sys.stdout.flush()
        problem = output.problem
        # A reader may close the pipe early, as in equipoise datasets | head -1.
        if problem is not None and problem.errno != errno.EPIPE:
            note(
                "error: standard output must be open and have room for the answer, got "
                f"{str(problem.strerror).lower()}; what was written to files is complete"
            )
        return code or (FINE if problem is None else USER_ERROR)


def run(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    as_json, debug = "--json" in arguments, "--debug" in arguments
    try:
        _refuse_undecodable(arguments)
        with _warnings_as_notes(app, arguments):
            found = _commands(app)(list(arguments), "equipoise", standalone_mode=False)
    except BaseException as problem:
        if isinstance(problem, SystemExit | GeneratorExit):
            raise
        if debug:
            traceback.print_exc()
        return _explain(problem, app, arguments, as_json=as_json)
    if not isinstance(found, Answer):  # --help and --version answer by themselves
        return FINE if not found else _explain(KeyboardInterrupt(), app, arguments, as_json=as_json)
    if as_json:
        typer.echo(json.dumps(found.document, indent=2, allow_nan=False, ensure_ascii=False))
    else:
        typer.echo("\n\n".join(_laid_out(part, sys.stdout) for part in found.parts))
    return found.code


@functools.cache
def _commands(app: typer.Typer) -> Any:
    """The parser of all command lines, which takes a while to build."""
    return typer.main.get_command(app)


def note(part: Part) -> None:
    """Print something on the way to the answer; standard output stays free for the answer."""
    if isinstance(part, str) and _terminal_width(sys.stderr) is None:
        typer.echo(part, err=True)  # one line for each note: programs read them
        return
    text = _laid_out(part, sys.stderr)
    typer.echo(text if isinstance(part, str) else f"{text}\n", err=True)


def _laid_out(part: Part, stream: TextIO) -> str:
    width = _terminal_width(stream)
    if isinstance(part, str):
        return wrapped(part, width or WIDTH)
    from equipoise.tables.printing import as_text  # loads pandas, which a table has loaded already

    return as_text(part, width=width)


def _terminal_width(stream: TextIO) -> int | None:
    """Columns of the terminal behind a stream; None for a file or a pipe."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def _refuse_undecodable(arguments: Sequence[str]) -> None:
    """Raise where a name could not be written to settings or pages."""
    for argument in arguments:
        if not argument.isascii() and argument != argument.encode(errors="replace").decode():
            from equipoise.errors import InputError

            raise InputError(
                f"names must be text in UTF-8, got {argument!a}; rename the file or folder"
            )


def _explain(
    problem: BaseException, app: typer.Typer, arguments: Sequence[str], *, as_json: bool
) -> int:
    """Say in one line what is wrong, and return the exit code for it."""
    words, code = _in_words(problem)
    message = " ".join(with_options(words, app, arguments).split())
    note(f"error: {message}")
    if as_json:
        document = {"error": message, "exit_code": code}
        if code == NO_SUCH_MODEL:
            document["nearest"] = getattr(problem, "nearest", None)
        typer.echo(json.dumps(document, ensure_ascii=False))
    return code


def with_options(message: str, app: typer.Typer, arguments: Sequence[str]) -> str:
    """Call options as the command line does in a message that calls them as Python does.

    ``sample_weight (--weight)`` becomes ``--weight``, and ``max_gap=0.05`` becomes
    ``--max-gap 0.05``. A name of one word, which may be an ordinary word, is an option before "=",
    and at the beginning of a message about a command that has it.
    """
    message = _BOTH_NAMES.sub(r"\1", message)
    commands = getattr(_commands(app), "commands", {})
    own = commands.get(next((each for each in arguments if each in commands), ""))
    options = {each.name: each.opts[0] for one in commands.values() for each in one.params}
    options = {name: option for name, option in options.items() if option.startswith("--")}

    def turned(found: re.Match[str]) -> str:
        name, equals, value = found["name"], found["equals"], found["value"]
        starts = found.start() == 0 and own is not None and name in (p.name for p in own.params)
        if name not in options or not (equals or "_" in name or starts):
            return found[0]
        flag = value in ("True", "False")
        return str(options[name]) + (f" {value}" if value and not flag else "")

    return _NAME.sub(turned, message)


def _in_words(problem: BaseException) -> tuple[str, int]:
    if isinstance(problem, KeyboardInterrupt | typer.Abort):
        return "interrupted before there was an answer", USER_ERROR
    # Errors of the parser have a message for users, whichever library typer takes it from.
    if callable(say := getattr(problem, "format_message", None)):
        context = getattr(problem, "ctx", None)
        command = "equipoise" if context is None else context.command_path
        said = str(say()).removesuffix(".")
        return f"{said[:1].lower()}{said[1:]}; see {command} --help", USER_ERROR
    # Imported here: by now a command has loaded what it needs, and --help must not.
    from equipoise.errors import DataNotFound, InputError, NoSuchModel

    if isinstance(problem, NoSuchModel):
        return str(problem), NO_SUCH_MODEL
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


@contextmanager
def _warnings_as_notes(app: typer.Typer, arguments: Sequence[str]) -> Iterator[None]:
    """Print warnings for users as notes, each once; warnings for programmers are not printed."""
    said = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if issubclass(category, UserWarning) and text not in said:
            said.add(text)
            note(f"note: {with_options(text, app, arguments)}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


class _Forgiving(io.RawIOBase):
    """The file below standard output or error; keeps an error in ``problem``, raises none."""

    def __init__(self, below: io.RawIOBase | None) -> None:
        self._below = below
        self.problem = None if below else OSError(errno.EBADF, os.strerror(errno.EBADF))

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int | None:
        if self._below is not None and self.problem is None:
            try:
                return self._below.write(data)
            except OSError as problem:
                self.problem = problem
        return memoryview(data).nbytes

    def fileno(self) -> int:
        if self._below is None:
            raise io.UnsupportedOperation("fileno")
        return self._below.fileno()

    def isatty(self) -> bool:
        return self._below is not None and self._below.isatty()


@contextmanager
def _forgiving(name: str) -> Iterator[_Forgiving]:
    """Let writes to ``sys.stdout`` or ``sys.stderr`` fail without an error."""
    stream = getattr(sys, name)
    below = getattr(stream, "buffer", None)
    below = getattr(below, "raw", below)
    forgiving = _Forgiving(below)
    if stream is not None and below is None:  # no file at all, as in a notebook
        forgiving.problem = None
        yield forgiving
        return
    if stream is not None:
        stream.flush()
    text = io.TextIOWrapper(
        io.BufferedWriter(forgiving),
        encoding=getattr(stream, "encoding", "utf-8"),
        errors="backslashreplace",  # a file may have a name that this terminal cannot show
        line_buffering=getattr(stream, "line_buffering", False),
        write_through=getattr(stream, "write_through", False),
    )
    setattr(sys, name, text)
    try:
        yield forgiving
    finally:
        text.flush()
        setattr(sys, name, stream)


def _open_closed_files() -> None:
    """Keep our files from getting the number of a closed standard output, where libraries print."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the smallest number that is free
