"""What all commands have in common: help, JSON, exit codes, errors in one line."""

import errno
import json
import os
import signal
import subprocess
import sys
import warnings
from importlib.metadata import entry_points, version
from pathlib import Path

import pandas as pd
import pytest
import torch
import typer
from people import equipoise, examples_of

from equipoise.cli.commands import COMMANDS, main
from equipoise.cli.running import run
from equipoise.errors import DataNotFound, InputError
from equipoise.runs import Answer
from tests.error_parts import says

NAMES = [command.__name__ for command in COMMANDS]


def test_the_commands_of_the_issue_are_there():
    assert {
        "fit",
        "audit",
        "select",
        "predict",
        "report",
        "compare",
        "datasets",
        "demo",
    } <= set(NAMES)


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_lists_every_command_with_its_first_sentence(arguments):
    ran = equipoise(*arguments)
    assert (ran.code, ran.err) == (0, "")
    said = " ".join(ran.out.split())
    for command in COMMANDS:
        first = command.__doc__.splitlines()[0]
        assert f"{command.__name__} {first}" in said


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_help_of_a_command_teaches_by_examples(command):
    ran = equipoise(command.__name__, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert examples_of(command)
    for example in examples_of(command):
        assert f"\n    {example}\n" in ran.out  # on a line of its own, never broken
        assert example.split()[:2] == ["equipoise", command.__name__]
    for option in ("--json", "--debug"):
        assert f"\n  {option} " in ran.out


def test_version():
    assert equipoise("--version").out == f"equipoise {version('equipoise')}\n"


#: The package as a bare name: what its __init__ loads for Python users is not at stake here.
BARE = """
import importlib.machinery, importlib.util, sys
spec = importlib.util.find_spec("equipoise")
bare = importlib.util.module_from_spec(importlib.machinery.ModuleSpec("equipoise", None))
bare.__path__ = list(spec.submodule_search_locations)
sys.modules["equipoise"] = bare
"""


def in_a_child(program, **environment):
    """Run a program on the bare package in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", BARE + program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def test_help_needs_no_heavy_library():
    done = in_a_child("""
from equipoise.cli.commands import app
from equipoise.cli.running import run
codes = [run(app, arguments) for arguments in (["--help"], ["fit", "--help"])]
heavy = ("torch", "numpy", "pandas", "sklearn", "scipy", "pyarrow", "rich", "jinja2")
print(codes, [name for name in heavy if name in sys.modules])
""")
    assert done.stdout.splitlines()[-1:] == ["[0, 0] []"], done.stderr


def test_a_page_is_opened_in_the_browser(tmp_path):
    browser = tmp_path / "browser.sh"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n', "utf-8")
    browser.chmod(0o755)
    page = tmp_path / "a page.html"
    program = f"""
from pathlib import Path
from equipoise.cli.commands import open_page
open_page(Path({str(page)!r}))
"""
    done = in_a_child(program, BROWSER=f"{browser} %s")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "opened").read_text("utf-8") == f"{page.as_uri()}\n"


def test_without_a_browser_the_page_is_named(tmp_path):
    program = """
import webbrowser
from pathlib import Path
from equipoise.cli.commands import open_page
from tests.error_parts import says
open_page(Path("run/report.html"))
"""
    done = in_a_child(program, BROWSER="no-such-browser %s", PATH=str(tmp_path), DISPLAY="")
    assert done.returncode == 0
    assert done.stderr == ("note: no browser was found; open 'run/report.html' yourself\n")


def test_the_installed_program_is_this_one():
    (program,) = entry_points(group="console_scripts", name="equipoise")
    with pytest.raises(SystemExit) as ended:
        program.load()(["fitt"])
    assert ended.value.code == 1


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["fitt"], ("'fitt'", "'fit'?", "see equipoise --help")),
        (
            ["select", "run", "--max-unfairnes", "0.1"],
            ("--max-unfairnes", "--max-unfairness", "see equipoise select --help"),
        ),
        (["select"], ("missing", "'RUN'", "see equipoise select --help")),
        (
            ["audit", "x.csv", "--sensitive", "age"],
            ("missing", "'--score'", "see equipoise audit --help"),
        ),
        (
            ["select", "run", "--min-utility", "little"],
            ("invalid value", "'--min-utility'", "see equipoise select --help"),
        ),
    ],
)
def test_a_misspelt_command_line_is_a_user_error_in_one_line(arguments, parts):
    ran = equipoise(*arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    says(ran.err, "error: ", *parts)


@pytest.mark.parametrize("arguments", [("select", "--json"), ("select", "nowhere", "--json")])
def test_errors_are_one_json_object_too(arguments):
    ran = equipoise(*arguments)
    document = json.loads(ran.out)
    assert ran.code == document["exit_code"] == 1
    assert ran.err == f"error: {document['error']}\n"


def test_names_that_are_no_text_are_refused():
    name = os.fsdecode(b"run\xff")
    ran = equipoise("report", name)
    assert (ran.code, ran.out) == (1, "")
    assert "UTF-8" in ran.err and ascii(name) in ran.err and "rename" in ran.err
    assert "does not exist" in equipoise("report", "caf\u00e9").err


def app_that(command) -> typer.Typer:
    """A command line with one command, beside one that does nothing."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command("it")(command)
    app.command("other")(lambda: None)
    return app


def raising(problem):
    def it(debug: bool = False) -> Answer:
        raise problem

    return app_that(it)


@pytest.mark.parametrize(
    ("problem", "code", "message"),
    [
        (InputError("budget must be\nsmall, got 3"), 1, "budget must be small, got 3"),
        (DataNotFound("put it there"), 1, "put it there"),
        (
            PermissionError(errno.EACCES, "Permission denied", "run/report.html"),
            1,
            "the system refused to read or write 'run/report.html': permission denied; check that "
            "the place exists, that you may use it, and that the disk is not full",
        ),
        (KeyboardInterrupt(), 1, "interrupted before there was an answer"),
        (
            RuntimeError("no such tensor"),
            2,
            "equipoise failed (RuntimeError: no such tensor), which is a fault of the program and "
            "not of yours; please report it with the output of the same command and --debug",
        ),
    ],
)
def test_every_error_has_its_exit_code_and_one_line(problem, code, message, capsys):
    assert run(raising(problem), ["it"]) == code
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"error: {message}\n")


def test_the_traceback_is_for_those_who_ask(capsys):
    assert run(raising(RuntimeError("no such tensor")), ["it", "--debug"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):")
    assert "\nRuntimeError: no such tensor\nerror: equipoise failed" in said


def test_warnings_for_users_are_notes_said_once_and_others_are_not_said(capsys):
    def it(json: bool = False) -> Answer:
        for _ in range(2):
            warnings.warn("something\nto know", UserWarning, stacklevel=1)
        warnings.warn("for programmers", DeprecationWarning, stacklevel=1)
        return Answer(("done",), {"done": True})

    assert run(app_that(it), ["it", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {"done": True}
    assert said.err == "note: something to know\n"


#: Where standard output and error may lead, and the exit code of an answer that goes there.
REDIRECTIONS = {">&-": 1, ">/dev/full": 1, "2>&-": 0, "2>/dev/full": 0, ">&- 2>&-": 1}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a shell and /dev/full")
@pytest.mark.parametrize("redirection", REDIRECTIONS)
def test_closed_or_full_output_is_told_by_the_exit_code(redirection):
    program = f"{BARE}from equipoise.cli.commands import main\nmain(['--help'])"
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {redirection}', sys.executable, program],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == REDIRECTIONS[redirection]
    if redirection.startswith("2"):
        assert "Usage: equipoise" in done.stdout
    if redirection in (">&-", ">/dev/full"):
        assert done.stderr.startswith("error: standard output must be open")
        assert done.stderr.count("\n") == 1


def test_a_reader_that_has_seen_enough_is_no_news():
    read, write = os.pipe()
    os.close(read)
    program = f"{BARE}from equipoise.cli.commands import main\nmain(['--help'])"
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, timeout=60
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


def in_a_fork_without_output(place, *arguments):
    """Run a command, in a forked process, whose standard output and error lead to ``place``."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    try:
        torch.set_num_threads(1)  # of several threads none but this one lives on in a fork
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        for number in (1, 2):
            os.close(number)
            if place is not None:
                os.open(place, os.O_WRONLY)  # takes the number that was closed
        sys.stdout = None if place is None else os.fdopen(1, "w", closefd=False)
        sys.stderr = None if place is None else os.fdopen(2, "w", closefd=False)
        main([str(argument) for argument in arguments])
    except SystemExit as ended:
        os._exit(ended.code)
    finally:  # whatever happens, this process must not go on as a second pytest
        os._exit(99)


def same_numbers(one, other):
    """Compare tables; the fork may have computed with fewer threads, which rounds otherwise."""
    pd.testing.assert_frame_equal(pd.read_csv(one), pd.read_csv(other), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("place", [None, "/dev/full"])
def test_work_is_done_whole_where_nothing_can_be_said(place, people, run):
    if place is not None and not Path(place).exists():
        pytest.skip("needs /dev/full")
    assert equipoise("predict", "run", "people.csv", "--out", "known.csv").code == 0
    predict = ("predict", "run", "people.csv", "--out", "scores.csv")
    assert in_a_fork_without_output(place, *predict) == 1
    same_numbers("scores.csv", "known.csv")
    again = ("fit", "people.csv", "--settings", "run/settings.json", "--out", "again")
    assert in_a_fork_without_output(place, *again) == 1
    same_numbers("again/table.csv", "run/table.csv")
    assert equipoise("report", "again").code == 0
    assert in_a_fork_without_output(place, "report", "nowhere") == 1
