"""docs/command-line.md: its commands run, its files and numbers are those that are."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer
from people import SMALL_ON_CPU, equipoise, examples_of, table

from equipoise.cli.commands import COMMANDS, app
from equipoise.runs.folder import FILES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text("utf-8")
LINES = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]
#: Tested by themselves, since they take long or need a run that was cut off.
ELSEWHERE = {"equipoise demo", "equipoise fit --resume --out run"}


def test_every_command_has_its_line_on_the_page():
    shown = {line.split()[1] for line in LINES}
    assert {command.__name__ for command in COMMANDS} == shown
    assert set(LINES) >= ELSEWHERE


def test_the_commands_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = table(400)
    rows.to_csv("people.csv", index=False)
    table(20, seed=1).drop(columns=["age", "sex", "hired"]).to_csv("new_people.csv", index=False)
    chance = 1 / (1 + np.exp(-rows["grade"]))
    rows.assign(chance=chance.round(3)).to_csv("scored.csv", index=False)
    for line in LINES:
        if line in ELSEWHERE:
            continue
        # Small: what is tested is that they work, not what they reach.
        trains = line.startswith(("equipoise fit people.csv", "equipoise adjust"))
        small = SMALL_ON_CPU if trains else ()
        ran = equipoise(*shlex.split(line)[1:], *small)
        assert ran.code == 0, f"{line}: {ran.err}"
    written = {path.name for path in tmp_path.iterdir()}
    assert {"run", "run-hgr", "again", "other-seed", "audit", "compare.html"} <= written
    assert {"scores.parquet", "synthetic.csv"} <= written


def test_the_table_of_files_is_complete():
    section = PAGE.partition("## The run folder")[2].partition("## ")[0]
    named = re.findall(r"^\| (.*?) \|", section, flags=re.MULTILINE)[2:]
    assert {name for cell in named for name in re.findall(r"`(.*?)`", cell)} == set(FILES)


def examples():
    return [(command.__name__, line) for command in COMMANDS for line in examples_of(command)]


@pytest.mark.parametrize(("name", "line"), examples(), ids=[line for _, line in examples()])
def test_examples_in_help_name_options_that_exist(name, line):
    parser = typer.main.get_command(app).commands[name]
    arguments = shlex.split(line)[2:]
    context = parser.make_context(name, list(arguments))  # parses, runs nothing
    given = {word.removeprefix("--").replace("-", "_") for word in arguments if word[:2] == "--"}
    assert all(context.params[option] not in (None, False) for option in given)


def cells(mark):
    """Cells of the table that follows a comment."""
    rows = re.search(rf"<!-- {mark}: .*? -->\n\|.*?\n\|.*?\n((?:\|.*\n)+)", PAGE).group(1)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]


@pytest.fixture(scope="module")
def measured():
    path = ROOT / "benchmarks" / "results" / "command_line.json"
    return json.loads(path.read_text("utf-8"))


def test_costs_are_those_measured(measured):
    fit, predict, demo = measured["fit"], measured["predict"], measured["demo"]
    assert cells("costs") == [
        ["`fit`: until it trains", f"{fit['seconds_to_training']:.0f}", ""],
        [
            "`fit`: until the first evaluation",
            f"{fit['seconds']:.0f}",
            f"{fit['peak_gib']:.1f}",
        ],
        ["`predict`", f"{predict['seconds']:.0f}", f"{predict['peak_gib']:.1f}"],
        ["`demo`", f"{demo['seconds']:.0f}", f"{demo['peak_gib']:.1f}"],
    ]


def test_a_million_rows_keep_within_what_was_promised(measured):
    assert measured["fit"]["seconds_to_training"] < 30
    assert measured["fit"]["peak_gib"] < 6
    assert measured["predict"]["peak_gib"] < 1
    assert measured["demo"]["seconds"] < 180
