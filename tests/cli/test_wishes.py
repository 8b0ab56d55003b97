"""Limits on the command line: kept as asked, refused with exit code 3, or marked as not kept."""

import html
import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from people import SMALL_ON_CPU, equipoise, refused, table

from equipoise import load
from equipoise.cli.commands import app
from equipoise.cli.running import with_options
from tests.error_parts import says

FIT = ("fit", "people.csv", "--target", "hired", "--sensitive", "age,sex")
#: As every small run, but nothing is allowed.
STRICT = tuple(each for each in SMALL_ON_CPU if each != "--allow-nearest")
MODEL_FILES = {"model.equipoise", "selection.json", "model_card.md", "model_card.json"}


def document(path):
    return json.loads(Path(path).read_text("utf-8"))


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def commands(text):
    """Command lines in an answer: each is one line, however long."""
    lines = [line.strip() for line in text.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("equipoise ")]


def test_a_fit_whose_limit_nothing_keeps_chooses_no_model(people):
    ran = equipoise(*FIT, *STRICT)
    assert ran.code == 3
    names = set(contents("run"))
    assert not names & MODEL_FILES
    assert {"report.html", "frontier.equipoise", "table.csv", "settings.json"} <= names
    assert document("run/settings.json")["options"]["max_unfairness"] == 0.1
    assert document("run/settings.json")["state"] == "finished"
    rows = pd.read_csv("run/table.csv")
    assert rows[["gap age", "gap sex"]].max(axis=1).min() > 0.1
    said = " ".join(ran.out.split())
    says(said, "No model was chosen", "gap by age <= 0.1 and gap by sex <= 0.1", "the nearest is")
    page = html.unescape(Path("run/report.html").read_text("utf-8"))
    says(page, "The model was not chosen, only shown: no snapshot has gap by age <= 0.1")
    assert "equipoise predict" not in page
    # Nothing can be scored, and the error names the command.
    says(
        refused("predict", "run", "people.csv", "--out", "s.csv"),
        *("RUN", "none was chosen", "--max-gap 0.1", "run --max-gap 0.1 --allow-nearest"),
    )
    assert equipoise("report", "run").code == 0
    assert html.unescape(Path("run/report.html").read_text("utf-8")) == page
    # Both ways to take the nearest work; training longer is the third.
    wider, nearest, longer = commands(ran.out)
    assert longer[:3] == ["fit", "--settings", "run/settings.json"]
    for command, kept in ((nearest, False), (wider, True)):
        taken = equipoise(*command)
        assert taken.code == 0, taken.err
        found = document("run/selection.json")
        limit = float(command[command.index("--max-gap") + 1])
        assert found["choice"]["max_unfairness"] == limit
        assert found["nearest"] is not kept
        assert ("does not keep the limit" in taken.out) is not kept
    assert equipoise("predict", "run", "people.csv", "--out", "s.csv").code == 0


def test_the_answer_to_programs_names_the_nearest_and_the_steps(people):
    ran = equipoise(*FIT, *STRICT, "--max-gap", "age=0.5,sex=0.01", "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["selection"], found["state"]) == (3, None, "finished")
    says(found["refused"], "gap by age <= 0.5 and gap by sex <= 0.01", "the nearest is snapshot")
    rows = pd.read_csv("run/table.csv").set_index("snapshot")
    near = rows.loc[found["nearest"]["snapshot"]]
    assert near["gap sex"] == rows["gap sex"].min()
    assert found["nearest"]["unfairness"]["sex"] == pytest.approx(near["gap sex"], abs=1e-4)
    wider, nearest, _ = found["steps"]
    most = found["nearest"]["unfairness"]["sex"]
    assert wider["command"] == f"equipoise select run --max-gap age=0.5,sex={most}"
    assert nearest["command"] == ("equipoise select run --max-gap age=0.5,sex=0.01 --allow-nearest")
    assert equipoise(*shlex.split(wider["command"])[1:]).code == 0


def test_a_nearest_model_is_marked_wherever_it_is_shown(folder):
    run, out = folder / "run", (folder / "fit.out").read_text("utf-8")
    found = document(run / "selection.json")
    assert found["nearest"] and found["choice"]["max_unfairness"] == 0.1
    assert "nearest to gap <= 0.1 for every attribute" in found["choice"]["remark"]
    assert "--allow-nearest" in document(run / "settings.json")["command"]
    card, page = ((run / name).read_text("utf-8") for name in ("model_card.md", "report.html"))
    for text in (out, card, page, found["choice"]["remark"]):
        assert "does not keep the limit" in " ".join(text.split())
    call = "frontier.select(max_gap=0.1, allow_nearest=True)"
    assert call in card and call in html.unescape(page)


def test_a_run_without_a_model_leaves_none_of_the_run_it_replaces(people):
    assert equipoise(*FIT, *SMALL_ON_CPU).code == 0
    assert set(contents("run")) >= MODEL_FILES
    ran = equipoise(*FIT, *STRICT, "--overwrite")
    assert ran.code == 3
    assert not set(contents("run")) & MODEL_FILES
    assert set(document("run/settings.json")["files"]) == {"frontier.equipoise"}


def test_a_refused_select_changes_nothing_and_its_commands_work(run):
    before = contents(run)
    ran = equipoise("select", run, "--max-gap", "age=0.3,sex=0.01", "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["exit_code"]) == (3, 3)
    assert contents(run) == before
    says(ran.err, "error: no snapshot has", "ask for what the nearest keeps: equipoise select")
    says(ran.err, "--max-gap age=0.3,sex=0.01 --allow-nearest", "train longer")
    assert set(found["nearest"]["unfairness"]) == {"age", "sex"}
    ran = equipoise("select", run, "--max-gap", "age=0.3,sex=0.01", "--allow-nearest")
    assert ran.code == 0 and ran.out.startswith("age: ")
    assert document(run / "selection.json")["choice"]["max_unfairness"] == {"age": 0.3, "sex": 0.01}


def test_the_least_utility_that_fit_picks_is_kept_in_the_settings(people):
    ran = equipoise(*FIT, *STRICT, "--max-gap", "0.9", "--min-utility", "0.6")
    assert ran.code == 0, ran.err
    options = document("run/settings.json")["options"]
    assert (options["min_utility"], options["max_unfairness"]) == (0.6, 0.9)
    assert "--min-utility 0.6" in document("run/settings.json")["command"]
    found = document("run/selection.json")
    assert found["wish"] == "gap by age <= 0.9 and gap by sex <= 0.9 and AUC >= 0.6"
    assert f"AUC: {found['rows'][0]['test']:.4f} on the test rows, at least 0.6" in ran.out
    said = equipoise("select", "run", "--min-utility", "0.999")
    assert said.code == 3
    says(said.err, "no snapshot has AUC >= 0.999", "equipoise select run --min-utility 0.")
    ran = equipoise(
        "fit", "--settings", "run/settings.json", "--min-utility", "0.999", "--out", "b"
    )
    assert (ran.code, Path("b/model.equipoise").exists()) == (3, False)
    said = refused("fit", "--settings", "run/settings.json", "--min-utility", "2", "--out", "c")
    says(said, "--min-utility", "at most 1", "got 2")


def test_a_target_that_nothing_predicts_gives_no_model(people):
    rows = table()
    rows["hired"] = np.random.default_rng(2).choice(["yes", "no"], len(rows))
    rows.to_csv("people.csv", index=False)
    ran = equipoise(*FIT, *SMALL_ON_CPU, "--max-gap", "1")
    assert ran.code == 3
    frontier = load("run/frontier.equipoise")
    assert frontier.table()["utility"].max() <= frontier.fitted_curve().chance
    says(" ".join(ran.out.split()), "No model was chosen: no snapshot is better than chance", "AUC")
    (command,) = commands(ran.out)
    assert "--allow-useless" in command
    ran = equipoise(*command)
    assert ran.code == 0, ran.err
    says(ran.out, "age: ", "but the model is no better than chance", "Report: ")
    found = document("run/selection.json")
    assert found["useless"] and found["choice"]["allow_useless"]
    assert found["verdicts"][0]["words"].endswith("no better than chance")
    assert "no better than chance" in Path("run/model_card.md").read_text("utf-8")


def test_verdicts_come_first_then_the_report_then_rates_steps_and_numbers(run):
    ran = equipoise("select", run, "--max-gap", "age=0.9,sex=0.3")
    found = document(run / "selection.json")
    says(
        " ".join(ran.out.split()),
        f"age: {found['verdicts'][0]['words']}.",
        f"sex: {found['verdicts'][1]['words']}.",
        f"Report: {run / 'report.html'}",
        *found["verdicts"][0]["sentences"],
        *found["verdicts"][1]["sentences"],
        "equipoise ",
        f"Snapshot {found['snapshot']} ",
        "gap by age",
    )
    answer = json.loads(equipoise("select", run, "--max-gap", "age=0.9,sex=0.3", "--json").out)
    assert answer["selection"]["verdicts"] == found["verdicts"]
    steps = [shlex.split(step["command"])[1:] for step in answer["steps"]]
    assert steps == commands(ran.out)
    for step in answer["steps"]:
        assert step["sentence"].endswith(".")


def test_steps_follow_from_the_verdicts_and_their_commands_run(run, people):
    seen, audited = set(), 0
    frontier = load(run / "frontier.equipoise")
    limits = np.unique(frontier.table()[["gap age", "gap sex"]].max(axis=1))
    for limit in ("1", *(f"{limit + 1e-4:.4f}" for limit in limits)):
        answer = json.loads(equipoise("select", run, "--max-gap", limit, "--json").out)
        states = {each["verdict"] for each in answer["selection"]["verdicts"]}
        told = " ".join(step["sentence"] for step in answer["steps"])
        assert ("Not within the limit" in told) == ("beyond" in states)
        assert ("Not certain" in told) == bool(states & {"within", "unknown"})
        assert (told == "Score new rows.") == (states == {"certain"})
        seen |= states
        for number, step in enumerate(answer["steps"]):
            command = [word.replace("DATA", "people.csv") for word in shlex.split(step["command"])]
            place = Path(f"{limit}-{number}")
            if command[1] == "predict":
                command += ["--overwrite"]
            if command[1] == "audit":
                command += ["--out", str(place)]
            if command[1] == "fit" or (command[1] == "audit" and audited == 2):
                continue  # the others differ in their limit alone, and take a second each
            ran = equipoise(*command[1:])
            assert ran.code == 0, (step, ran.err)
            if command[1] == "audit":
                audited += 1
                limited = document(place / "audit.json")["verdicts"]
                assert {each["limit"] for each in limited} >= {float(limit)}
    assert {"certain", "within"} <= seen and audited == 2


def test_title_and_words_about_people_reach_every_page(people):
    words = ("--title", "Who is hired?", "--decision", "are rejected", "--favourable", "low")
    assert equipoise(*FIT, *SMALL_ON_CPU, *words).code == 0
    for again in ((), ("select", "run", "--max-gap", "0.9"), ("report", "run")):
        assert not again or equipoise(*again).code == 0
        assert "<title>Who is hired?" in Path("run/report.html").read_text("utf-8")
        found = document("run/selection.json")
        assert found["decisions"] == {"favourable": "low", "words": "are rejected"}
        for verdict in found["verdicts"]:
            assert "are rejected" in verdict["sentences"][0]
            assert verdict["worst"]["value"] >= verdict["best"]["value"]
    command = document("run/settings.json")["command"]
    says(command, "--favourable low", "--decision 'are rejected'", "--title 'Who is hired?'")
    said = refused(*FIT, *SMALL_ON_CPU, "--favourable", "big", "--out", "other")
    says(said, "--favourable", "'high' or 'low'", "got 'big'")


@pytest.mark.parametrize(
    ("command", "message", "expected"),
    [
        ("select", "pass max_gap, as max_gap=0.05", "pass --max-gap, as --max-gap 0.05"),
        ("select", "attribute must be a column", "--attribute must be a column"),
        ("select", "add it to metrics= and fit again", "add it to --metrics and fit again"),
        ("select", "pass allow_nearest=True, or", "pass --allow-nearest, or"),
        ("select", "the metric and attribute differ", "the metric and attribute differ"),
        ("select", "features must be named", "features must be named"),  # no option of select
        ("select", "got 'max_gap' in runs/max_gap/x", "got 'max_gap' in runs/max_gap/x"),
        ("select", "give --max-gap 0.1", "give --max-gap 0.1"),
        ("audit", "decision='are invited'", "--decision 'are invited'"),
    ],
)  # fmt: skip
def test_messages_name_options_of_the_command_line(command, message, expected):
    assert with_options(message, app, [command, "run"]) == expected
