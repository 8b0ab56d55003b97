"""Several workers train on a real cluster; a worker is killed, and a node removed."""

import json
import os
import pickle
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from losses import meanwhile
from people_in_files import command, people, written

from equipoise import FairClassifier, fit_files, load
from equipoise.distributed import fitting as of_files
from equipoise.distributed.rows import rows_of
from equipoise.errors import ConvergenceWarning, InputError
from equipoise.estimators.fitting import FitRun
from equipoise.storage import CheckpointFile
from tests.error_parts import says
from tests.workers_as_threads import Threads

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning"),
]
ROLES = {"target": "hired", "sensitive": ["age", "sex"], "drop": "score"}


class InThreads:
    """Trains in threads what workers would train."""

    def __init__(self, cluster, table, workers):
        self.table, self.workers = table, workers

    def __call__(self, work, fitting, run, verbose):
        task = pickle.dumps((work, fitting))

        def train(number):
            work, fitting = pickle.loads(task)
            fitting.recipe = replace(fitting.recipe, n_jobs=1)
            fitting.data = rows_of(fitting, self.table, number, self.workers)
            return work(fitting, FitRun(callback=None, options={}), verbose=0)

        return Threads(self.workers).each(train)[0]


def test_a_fit_ends_as_if_no_worker_and_no_node_had_been_lost(cluster, lose, tmp_path, monkeypatch):
    paths = written(tmp_path / "in", 2, 600)
    fast = {"iterations": 150, "batch_size": 90, "hidden": (8,), "device": "cpu"}
    model = FairClassifier(strength=0.8, random_state=0, **fast)
    with meanwhile(lose("ray::Process.train")) as lost:
        fit_files(model, paths, **ROLES, workers=2, checkpoint_every=0)
    assert len(lost) == 1
    rows = people(500, 9)[["grade"]]
    found, task = model.predict_proba(rows), model.history_.task
    monkeypatch.setattr(of_files, "ClusterTraining", InThreads)
    fit_files(model, paths, **ROLES, workers=2)
    np.testing.assert_allclose(found, model.predict_proba(rows), atol=1e-4)
    np.testing.assert_allclose(task, model.history_.task, atol=1e-4)
    fit_files(model, paths, **ROLES, workers=1)
    assert abs(found - model.predict_proba(rows)).max() > 1e-3


def test_the_command_writes_the_ordinary_run_folder(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "in", 3, 400)
    small = ("--strengths", "0,0.9", "--seeds", "1", "--iterations", "40", "--evaluate-every", "20")
    fit = ("fit", "in/*.parquet", "--target", "hired", "--sensitive", "age,sex", "--drop", "score")
    cluster_of_two = ("--engine", "ray", "--workers", "2")
    code, _, err = command(*fit, *small, *cluster_of_two, "--allow-nearest", "--allow-useless")
    assert code == 0, err
    assert {"report.html", "model_card.md", "frontier.equipoise", "settings.json"} <= {
        *os.listdir("run")
    }
    settings = json.loads(Path("run/settings.json").read_text("utf-8"))
    assert settings["data"]["path"] == "in/*.parquet" and settings["data"]["rows"] == 1200
    assert (settings["options"]["engine"], settings["options"]["workers"]) == ("ray", 2)
    frontier = load("run/frontier.equipoise")
    assert len(frontier.table()) == 4 and 150 < len(frontier.split_.test) < 350
    code, _, err = command("predict", "run", "in/00.parquet", "--out", "scores.parquet")
    assert code == 0 and len(pd.read_parquet("scores.parquet")) == 400, err
    code, _, err = command("select", "run", "--max-gap", "1", "--allow-useless")
    assert code == 0, err


def test_ctrl_c_ends_training_of_all_workers_and_the_run_can_go_on(cluster, tmp_path):
    paths = written(tmp_path / "in", 2, 300)
    options = {"strength": 0.5, "batch_size": 60, "hidden": (8,), "device": "cpu", "verbose": 1}
    model = FairClassifier(iterations=200_000, random_state=0, **options)
    kept = {"checkpoint": tmp_path / "kept", "checkpoint_every": 0}
    # A shell may have asked to ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with meanwhile(lambda: interrupt(tmp_path / "kept")), pytest.warns(ConvergenceWarning) as said:
        try:
            fit_files(model, paths, **ROLES, workers=2, **kept)
        finally:
            signal.signal(signal.SIGINT, before)
    (words,) = [str(each.message) for each in said if "interrupted" in str(each.message)]
    reached = int(words.split("iteration ")[1].split()[0])
    says(words, "of 200000", "checkpoint=", "resume=True")
    assert 0 < reached < 200_000 and model.history_.iterations[-1] == reached
    state = CheckpointFile(tmp_path / "kept").read()["parts"]["run"]["state"]
    assert not state["ended"] and 0 < state["checked"] <= reached


def interrupt(checkpoint):
    """Press Ctrl-C once there is a checkpoint."""
    if not checkpoint.exists():
        return False
    os.kill(os.getpid(), signal.SIGINT)
    return True


def test_an_error_in_a_worker_ends_all(cluster, tmp_path):
    def network(inputs, outputs):
        raise InputError("network must be sound, got a broken one; repair it")

    model = FairClassifier(network=network, embedding="none", linear_path=False, strength=0)
    with pytest.raises(InputError) as refused:
        fit_files(model, written(tmp_path / "in", 1, 300), **ROLES)
    says(refused.value, "network", "a broken one")


def test_options_that_mean_nothing_on_a_cluster_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit = ("fit", "in/*.parquet", "--target", "hired", "--sensitive", "sex", "--engine", "ray")
    for more, parts in (
        (("--sep", ";"), ("--sep", "--engine ray", "Parquet")),
        (("--category", "zip"), ("--category", "--engine ray", "zip", "text")),
        (("--time-split", "day"), ("--time-split", "--engine ray", "day", "--group-split")),
        (("--predictor", "boosting"), ("network", "boosted trees")),
        (("--workers", "0"), ("--workers", "at least 1", "0")),
        (("--method", "scutari"), ("--method", "in iterations", "scutari")),
    ):
        code, _, err = command(*fit, *more)
        assert code == 1 and says(err, *parts)
    code, _, err = command(*fit[:-2], "--workers", "2")
    assert code == 1 and says(err, "--workers", "no meaning", "--engine ray")
    code, _, err = command(*fit)
    assert code == 1 and says(err, "in/*.parquet", "matches none")
    assert not Path("run").exists()
