"""Boosted trees on the command line: fitted, selected, scored with, compared, interrupted."""

import json
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from people import equipoise, refused, same_model, table

from equipoise import FairBoostingClassifier, load
from equipoise.cli.commands import app
from equipoise.cli.running import run as run_command
from equipoise.runs.record import read_record, write_json
from tests.composing import composed
from tests.error_parts import says

FIT = ("fit", "people.csv", "--target", "hired", "--sensitive", "age,sex")
FEW = ("--strengths", "0,0.9", "--seeds", "1", "--device", "cpu", "--allow-nearest")
TREES = (*FEW, "--predictor", "boosting", "--rounds", "20")
BOTH = (*FEW, "--predictor", "both", "--rounds", "20", "--iterations", "80")


@pytest.fixture(scope="module")
def place(folder, tmp_path_factory):
    """A folder with people.csv, a run of trees and one of both families; nobody changes them."""
    made = tmp_path_factory.mktemp("trees")
    shutil.copy(folder / "people.csv", made)
    shutil.copytree(folder / "run", made / "networks")
    data = made / "people.csv"
    for name, more in (("trees", TREES), ("both", BOTH)):
        ran = equipoise("fit", data, *FIT[2:], "--id", "person", *more, "--out", made / name)
        assert ran.code == 0, ran.err
        (made / f"{name}.out").write_text(ran.out, "utf-8")
    return made


def document(path):
    return json.loads(Path(path).read_text("utf-8"))


def test_numbers_are_those_of_the_library(place):
    rows = table().astype({"city": "category", "sex": "category", "hired": "category"})
    options = {"strengths": (0.0, 0.9), "seeds": 1, "random_state": 0, "device": "cpu"}
    given = rows[["city", "hours", "grade"]], rows["hired"]
    trees = composed(predictor="boosting", boosting={"rounds": 20}, **options)
    both = composed(predictor="both", boosting={"rounds": 20}, iterations=80, **options)
    for name, frontier in (("trees", trees), ("both", both)):
        frontier.fit(*given, sensitive_features=rows[["age", "sex"]])
        written = pd.read_csv(place / name / "table.csv", index_col="snapshot")
        expected = frontier.table()
        pd.testing.assert_frame_equal(written, expected, check_exact=True, check_dtype=False)
        assert load(place / name / "frontier.equipoise").table().equals(expected)


def test_xgboost_is_a_predictor_like_the_others(people):
    xgboost = pytest.importorskip("xgboost")
    more = (*FEW, "--predictor", "xgboost", "--rounds", "20")
    ran = equipoise(*FIT, "--id", "person", *more, "--out", "run")
    assert ran.code == 0, ran.err
    found = document("run/settings.json")
    assert (found["rounds_trained"], found["state"]) == (20, "finished")
    assert found["versions"]["xgboost"] == xgboost.__version__
    assert equipoise("predict", "run", "people.csv", "--out", "scores.csv").code == 0
    rows = table()[["city", "hours", "grade"]].astype({"city": "category"})
    scores = load("run/model.equipoise").predict_proba(rows)[:, 1]
    np.testing.assert_array_equal(pd.read_csv("scores.csv")["score"], scores)


def test_settings_hold_what_was_of_use_and_repeat_the_run(place, tmp_path):
    found = document(place / "trees" / "settings.json")
    assert (found["iterations_trained"], found["rounds_trained"]) == (0, 20)
    assert (found["state"], found["device"]) == ("finished", "cpu")
    assert (found["options"]["predictor"], found["options"]["rounds"]) == ("boosting", 20)
    assert not {"iterations", "evaluate_every"} & set(found["options"])
    assert found["versions"]["lightgbm"].count(".") == 2
    assert found["command"].endswith(
        "--predictor boosting --strengths 0,0.9 --seeds 1 --rounds 20 --device cpu "
        f"--allow-nearest --out {place / 'trees'}"
    )
    both = document(place / "both" / "settings.json")
    assert (both["iterations_trained"], both["rounds_trained"]) == (80, 20)
    networks = document(place / "networks" / "settings.json")
    assert networks["options"]["predictor"] == "network" and "rounds" not in networks["options"]
    assert "lightgbm" not in networks["versions"]
    settings = place / "trees" / "settings.json"
    ran = equipoise("fit", "--settings", settings, "--out", tmp_path / "again", "--json")
    assert (ran.code, json.loads(ran.out)["rounds"]) == (0, 20), ran.err
    again = tmp_path / "again" / "table.csv"
    assert again.read_bytes() == (place / "trees" / "table.csv").read_bytes()


def test_settings_of_networks_become_settings_of_trees(place, tmp_path):
    settings = place / "networks" / "settings.json"
    changed = ("--predictor", "boosting", "--rounds", "20", "--out", tmp_path / "changed")
    ran = equipoise("fit", "--settings", settings, *changed)
    assert ran.code == 0, ran.err
    written = (tmp_path / "changed" / "table.csv").read_bytes()
    assert written == (place / "trees" / "table.csv").read_bytes()


def test_the_selected_trees_score_files(place, tmp_path):
    selected = document(place / "trees" / "selection.json")
    assert selected["predictor"] == "boosting"
    named = f"(boosted trees, strength {selected['strength']:g}, seed 0, round "
    assert f"{named}{selected['iteration']}) has the " in (
        (place / "trees.out").read_text("utf-8").replace("\n", " ")
    )
    new = table(60, seed=1)
    new.to_csv(tmp_path / "new.csv", index=False)
    ran = equipoise("predict", place / "trees", tmp_path / "new.csv", "--out", tmp_path / "s.csv")
    assert ran.code == 0, ran.err
    model = load(place / "trees" / "model.equipoise")
    assert isinstance(model, FairBoostingClassifier)
    scores = model.predict_proba(new[["city", "hours", "grade"]])[:, 1]
    found = pd.read_csv(tmp_path / "s.csv")
    np.testing.assert_allclose(found["score"], scores, rtol=1e-12)
    assert found["decision"].tolist() == (scores > selected["threshold"]).astype(int).tolist()


def test_select_takes_either_family_and_all_pages_follow(place, tmp_path):
    run = shutil.copytree(place / "both", tmp_path / "both")
    rows = pd.read_csv(run / "table.csv").query("on_front")
    by_age = ("--metric", "ks-gsp", "--attribute", "age")  # here both families are on the front
    families = set()
    for limit in sorted(rows["KS-GSP age"]):
        ran = equipoise("select", run, "--max-unfairness", limit, *by_age, "--json")
        selection = json.loads(ran.out)["selection"]
        card = document(run / "model_card.json")
        kind = card["model_parameters"]["model_architecture"]
        if selection["predictor"] == "boosting":
            assert kind.startswith("gradient-boosted trees (LightGBM), 20 rounds at most, ")
            assert f"learning rate {FairBoostingClassifier().learning_rate}" in kind
        else:
            assert kind.startswith("fully connected network with hidden layers of 64, 64, 64 units")
        families.add(selection["predictor"])
    assert families == {"network", "boosting"}
    before = (run / "report.html").read_text("utf-8")
    assert equipoise("report", run).code == 0
    assert (run / "report.html").read_text("utf-8") == before
    assert "<dt>rounds</dt><dd>20</dd>" in before


def test_families_are_compared(place, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    out = tmp_path / "compare.html"
    ran = equipoise("compare", "networks", "trees", "both", "--out", out)
    assert ran.code == 0, ran.err
    assert (
        "\nPredictors: networks in networks; boosted trees in trees; networks and boosted trees in "
        "both.\n\nFrom networks to trees: predictor was network, is boosting.\nFrom networks to "
        "both: predictor was network, is both; iterations was 40, is 80; evaluate_every was\n"
        "  20, is 100.\n"
    ) in ran.out
    found = json.loads(
        equipoise("compare", "trees", "both", "--out", out, "--overwrite", "--json").out
    )
    assert found["predictors"] == {"trees": ["boosting"], "both": ["network", "boosting"]}
    table_of = load(place / "both" / "frontier.equipoise").table()
    for row in found["table"]:
        if row["run"] == "both" and row["snapshot"] is not None:
            assert row["predictor"] == table_of.loc[row["snapshot"], "predictor"]
        else:
            assert row["predictor"] == ("boosting" if row["snapshot"] is not None else "")


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (("--rounds", "20"), ("--rounds", "no meaning", "network", "got 20", "leave it out")),
        (
            ("--predictor", "boosting", "--iterations", "1500"),
            ("--iterations", "no meaning", "boosting", "got 1500", "leave it out"),
        ),
        (
            ("--predictor", "boosting", "--evaluate-every", "20"),
            ("--evaluate-every", "no meaning", "boosting", "got 20", "leave it out"),
        ),
        (
            ("--predictor", "trees"),
            ("--predictor", "'network', 'boosting', 'xgboost', 'both'", "got 'trees'"),
        ),
        (
            ("--predictor", "both", "--rounds", "0"),
            ("--rounds", "must be a whole number of at least 1", "got 0"),
        ),
    ],
)
def test_options_without_a_meaning_are_refused_before_the_data_are_read(tmp_path, given, parts):
    absent = ("fit", tmp_path / "no.csv", "--target", "y", "--sensitive", "a")
    says(refused(*absent, *given, "--out", tmp_path / "run"), *parts)


def test_without_lightgbm_one_line_says_what_to_install(place, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)  # Python's own way to hide a module
    remedy = ("needs lightgbm", "not installed", 'pip install "equipoise[boosting]"')
    absent = ("fit", tmp_path / "no.csv", "--target", "y", "--sensitive", "a")
    says(refused(*absent, "--predictor", "both"), "--predictor both", *remedy)
    trees = place / "trees"
    says(refused("report", trees), f"'{trees / 'frontier.equipoise'}'", *remedy)
    out = ("--out", tmp_path / "scores.csv")
    said = refused("predict", trees, place / "people.csv", *out)
    says(said, f"'{trees / 'model.equipoise'}'", *remedy)
    assert equipoise("predict", place / "networks", place / "people.csv", *out).code == 0


def test_a_run_of_trees_without_a_checkpoint_is_grown_anew(place, tmp_path):
    run = shutil.copytree(place / "trees", tmp_path / "trees")
    settings = run / "settings.json"
    begun = replace(read_record(settings), state="training", rounds_trained=0)
    write_json(settings, begun.to_document())
    for name in ("table.csv", "frontier.equipoise", "model.equipoise", "selection.json"):
        (run / name).unlink()
    says(refused("report", run), "RUN", "must be a run that has ended", "got ")
    said = refused("fit", "--resume", "--out", run, "--rounds", "10")
    says(said, f"'{run}'", "rounds was 20, is 10", f"equipoise fit --resume --out {run}")
    ran = equipoise("fit", "--resume", "--out", run)
    assert ran.code == 0, ran.err
    assert (run / "table.csv").read_bytes() == (place / "trees" / "table.csv").read_bytes()
    assert read_record(settings).state == "finished"


@pytest.fixture
def raising_handler():
    """Ctrl-C raises, whatever the process that runs the tests has made of it."""
    kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, kept)


def interrupted(*arguments):
    """Run a command, and send Ctrl-C to this process as soon as training tells of itself."""
    out, err = StringIO(), StringIO()
    ended = threading.Event()

    def press():
        while "iteration " not in err.getvalue() and not ended.is_set():
            time.sleep(0.002)
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    finger = threading.Thread(target=press)
    with redirect_stdout(out), redirect_stderr(err):
        finger.start()
        code = run_command(app, list(arguments))
        ended.set()
    finger.join(timeout=60)
    return code, out.getvalue()


@pytest.mark.parametrize(
    ("more", "family", "said"),
    [
        (
            ("--predictor", "boosting", "--rounds", "100000"),
            "boosting",
            "round {} of 100000; these are the results so far. Continue with: ",
        ),
        (
            ("--predictor", "both", "--iterations", "100000", "--evaluate-every", "10"),
            "network",
            "iteration {} of 100000, before any tree was grown; these are the results so far. "
            "Continue with: ",
        ),
    ],
)
def test_ctrl_c_keeps_what_there_is_and_says_how_to_go_on(
    people, raising_handler, more, family, said
):
    code, out = interrupted(*FIT, *FEW, *more, "--out", "cut")
    record = read_record(Path("cut/settings.json"))
    assert (code, record.state) == (1, "interrupted")
    trained = {"network": record.iterations_trained, "boosting": record.rounds_trained}
    assert trained.pop(family) > 0 and set(trained.values()) == {0}
    moment = record.rounds_trained or record.iterations_trained
    command = "equipoise fit --resume --out cut"
    told = " ".join(out.split())
    assert f"Training was interrupted at {said.format(moment)}{command}" in told
    assert f"\n  {command}\n" in out  # a line to paste
    assert Path("cut/training.checkpoint").exists()
    assert equipoise("report", "cut").code == 0
    assert document("cut/selection.json")["predictor"] == family


#: Processes with none of the threads that libraries of trees have started in this one. All are
#: forked from one that has imported what they need.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["equipoise.runs.fitting", "lightgbm", "xgboost"])


def run_to_its_end(arguments):
    """What a process does: one command, in two minutes at most; the exit code is that of it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(120)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open("said.txt", "w") as said, redirect_stdout(said), redirect_stderr(said):
        code = run_command(app, arguments)
    os._exit(code)


def signalled_in_trees(number, mark, *arguments):
    """Send a signal to a command once it has written trees to a checkpoint; return how it ended."""
    checkpoint = Path("cut/training.checkpoint")
    before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
    process = PROCESSES.Process(target=run_to_its_end, args=(list(arguments),))
    process.start()
    while not (
        checkpoint.exists()
        and checkpoint.stat().st_mtime_ns != before
        and mark in checkpoint.read_bytes()
    ):
        assert process.is_alive(), Path("said.txt").read_text("utf-8")
        time.sleep(0.002)
    os.kill(process.pid, number)
    process.join(timeout=120)
    return process.exitcode


KILL, CTRL_C = signal.SIGKILL, signal.SIGINT


@pytest.mark.parametrize(
    ("predictor", "mark", "signals"),
    [
        ("boosting", b"Tree=9", (KILL, CTRL_C)),
        ("xgboost", b"split_conditions", (KILL,)),
        ("both", b"Tree=9", (CTRL_C,)),
    ],
)
def test_trees_that_were_cut_off_go_on_to_the_same_end(people, predictor, mark, signals):
    pytest.importorskip("xgboost" if predictor == "xgboost" else "lightgbm")
    table(400).to_csv("people.csv", index=False)
    fit = [*FIT, "--id", "person", *FEW, "--predictor", predictor, "--rounds", "100"]
    if predictor == "both":
        fit += ["--iterations", "20"]
    assert equipoise(*fit, "--out", "whole").code == 0
    command, rounds = fit, 0
    for number in signals:
        code = signalled_in_trees(number, mark, *command, "--out", "cut")
        command = ["fit", "--resume"]
        record = read_record(Path("cut/settings.json"))
        if number == KILL:
            assert (code, record.state) == (-KILL, "training")
            says(refused("report", "cut"), "RUN", "has ended", "equipoise fit --resume --out cut")
            rounds = 10  # at least these are in the checkpoint
        else:
            assert (code, record.state) == (1, "interrupted")
            assert rounds < record.rounds_trained < 100
            said = Path("said.txt").read_text("utf-8")
            assert f"interrupted at round {record.rounds_trained} of 100" in said
    ran = equipoise("fit", "--resume", "--out", "cut")
    assert ran.code == 0, ran.err
    for name in ("table.csv", "members.csv"):
        assert Path("cut", name).read_bytes() == Path("whole", name).read_bytes()
    for name in ("frontier.equipoise", "model.equipoise"):
        assert same_model(Path("cut", name), Path("whole", name))
    assert not Path("cut/training.checkpoint").exists()
