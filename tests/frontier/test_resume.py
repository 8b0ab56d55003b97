"""No run is lost: killed, interrupted or failed, it goes on to what it would have become."""

import json
import re
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise.datasets import make_synthetic
from equipoise.density_ratio import RatioSettings
from equipoise.errors import InputError
from tests.composing import composed

HERE = Path(__file__).parent
#: Seconds that a process of a test may take; it needs five.
LIMIT = 120
SMALL = {
    "strengths": (0.0, 0.9),
    "seeds": 2,
    "hidden": (8,),
    "critic_hidden": (8,),
    "batch_size": 50,
    "iterations": 40,
    "evaluate_every": 10,
    "random_state": 4,
    "device": "cpu",
}


class Failure(Exception):
    """Something that goes wrong in the middle of a run."""


def failing_at(iteration):
    def callback(progress):
        if progress.iteration == iteration:
            raise Failure

    return callback


@pytest.fixture(scope="module")
def rows():
    return make_synthetic(1000, random_state=5)


def fit(rows, options, **run):
    frontier = composed(**{**SMALL, **options})
    return frontier.fit(rows.X, rows.y, sensitive_features=rows.A, **run)


def assert_same(first, second):
    """Tables, histories and kept weights are equal, bit for bit."""
    a, b = first.table(), second.table()
    assert a.columns.tolist() == b.columns.tolist()
    for name in a:
        assert a[name].to_numpy().tobytes() == b[name].to_numpy().tobytes(), name
    for name, values in vars(first.history_).items():
        assert values.tobytes() == vars(second.history_)[name].tobytes(), name
    kept, again = (each.fitted_curve().snapshots.weights for each in (first, second))
    assert kept.keys() == again.keys() and kept
    for number, weights in kept.items():
        assert weights.keys() == again[number].keys()
        for name, tensor in weights.items():
            assert torch.equal(tensor, again[number][name]), (number, name)


def test_killed_at_any_moment_a_run_ends_as_if_it_had_not_been(tmp_path):
    program = [sys.executable, str(HERE / "killed_runs.py"), str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    whole, resumed = (np.load(tmp_path / f"{name}.npz") for name in ("whole", "resumed"))
    assert set(whole.files) == set(resumed.files)
    assert whole["history iterations"].tolist() == list(range(1, 25))
    for name in whole.files:
        assert whole[name].tobytes() == resumed[name].tobytes(), name
    kills = json.loads((tmp_path / "kills.json").read_text("utf-8"))
    stood_at = [kill["stood_at"] for kill in kills]
    assert stood_at == sorted(stood_at)
    assert [kill["kind"] for kill in kills] == ["writing"] * 2 + ["random"] * 3
    # Each of the first two wrote two checkpoints, and was cut off over its third.
    assert stood_at[:2] == [2, 4]
    assert [kill["unfinished"] for kill in kills[:2]] == [1, 1]
    assert [path.name for path in tmp_path.glob(".*")] == []


@pytest.fixture(scope="module")
def interrupted():
    """What interrupted_run.py says at each end; each training gets a SIGINT as it begins."""
    program = [sys.executable, str(HERE / "interrupted_run.py")]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    limit = threading.Timer(LIMIT, process.kill)  # reading a line waits as long as it takes
    limit.start()
    answers = {}
    try:
        for ctrl_c in ("ignored", "raised"):
            assert process.stdout.readline() == "evaluated\n"
            process.send_signal(signal.SIGINT)
            while (line := process.stdout.readline()) == "evaluated\n":
                pass
            answers[ctrl_c] = json.loads(line)
        process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        limit.cancel()
    assert process.returncode == 0
    return answers


def test_ctrl_c_returns_what_there_is(interrupted):
    answer = interrupted["raised"]
    at = answer["history"][-1]
    (warning,) = [text for text in answer["warnings"] if "interrupted" in text]
    assert f"iteration {at} of 10000000" in warning
    assert "to be able to resume" in warning and "fit(..., checkpoint=path)" in warning
    assert answer["iterations"] == answer["history"]
    *regular, _ = answer["history"]
    assert regular == list(range(10, at, 10))
    assert answer["selected"] in answer["iterations"]
    assert answer["handler"]


def test_where_ctrl_c_is_ignored_a_run_goes_on_to_its_end(interrupted):
    """As a job in the background is started by many shells."""
    answer = interrupted["ignored"]
    assert answer["history"] == list(range(10, 201, 10))
    assert [text for text in answer["warnings"] if "interrupted" in text] == []
    assert answer["handler"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"notion": "separation", "density_ratio": "network"},
        {"ensemble": True, "optimizer": "sgd", "learning_rate": 0.01, "schedule": "constant"},
    ],
    ids=["independence", "separation with a network", "averages by sgd"],
)
def test_a_failed_run_goes_on_to_the_same_end(rows, options, tmp_path, monkeypatch):
    # tests/training/test_phases.py resumes inside of what is trained before the first step.
    short = partial(RatioSettings, iterations=30)
    monkeypatch.setattr("equipoise.density_ratio.RatioSettings", short)
    whole = fit(rows, options)
    path = tmp_path / "run.checkpoint"
    for at in (20, 30):  # the checkpoint written last is that of 10, then that of 20
        with pytest.raises(Failure):
            fit(
                rows,
                options,
                checkpoint=path,
                checkpoint_every=0,
                resume=True,
                callback=failing_at(at),
            )
    told = []
    resumed = fit(rows, options, checkpoint=path, resume=True, callback=told.append)
    assert [(p.iteration, p.resumed_at) for p in told] == [(30, 20), (40, 20)]
    assert_same(whole, resumed)
    # A finished run is given back at once, without another iteration.
    told.clear()
    assert_same(whole, fit(rows, options, checkpoint=path, resume=True, callback=told.append))
    assert told == []
    selected, again = (each.select(min_utility=0) for each in (whole, resumed))
    assert str(selected) == str(again)


def test_the_clock_decides_when_checkpoints_are_written(rows, tmp_path):
    path = tmp_path / "run.checkpoint"
    seen = []

    def look(progress):
        seen.append(path.stat().st_mtime_ns if path.exists() else 0)

    fit(rows, {}, checkpoint=path, checkpoint_every=3600, callback=look)
    # Written at the first evaluation, after the callback; not again before the last one.
    assert seen[0] == 0 and seen[1] == seen[2] == seen[3] > 0
    assert path.stat().st_mtime_ns > seen[3]


def test_a_run_ended_by_its_callback_is_finished(rows, tmp_path):
    path = tmp_path / "run.checkpoint"
    stopped = fit(rows, {}, checkpoint=path, callback=lambda progress: progress.iteration == 20)
    assert stopped.history_.iterations.tolist() == [10, 20]
    assert_same(stopped, fit(rows, {}, checkpoint=path, resume=True))


def test_callbacks_see_the_rows_of_their_evaluation(rows):
    told = []
    frontier = fit(rows, {"ensemble": True}, callback=told.append)
    assert [(p.iteration, p.iterations, p.resumed_at) for p in told] == [
        (at, 40, 0) for at in (10, 20, 30, 40)
    ]
    table = frontier.table()
    for n, progress in enumerate(told):
        np.testing.assert_array_equal(progress.task, frontier.history_.task[n])
        np.testing.assert_array_equal(progress.penalty, frontier.history_.penalty[n])
        shown = progress.snapshots.drop(columns="on_front")
        now = table[table["iteration"] == progress.iteration].drop(columns="on_front")
        assert shown.equals(now) and len(shown) == 2 * 2 + 2
    seconds = [progress.seconds for progress in told]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize(
    ("change", "options", "difference"),
    [
        ({}, {"iterations": 50}, "estimator__iterations was 40, is 50"),
        ({}, {"random_state": 5}, "random_state was 4, is 5, features differ, outcomes differ, "),
        ({}, {"metrics": ["SP"]}, "metrics was 'default', is ('SP',)"),
        ({"X": lambda X: X[::-1]}, {}, "features differ, validation rows differ, test rows differ"),
        ({"y": lambda y: 1 - y}, {}, "outcomes differ, validation rows differ, test rows differ"),
        (
            {"A": lambda A: A.assign(age=A["age"].to_numpy()[::-1])},
            {},
            "sensitive features differ, validation rows differ, test rows differ",
        ),
    ],
    ids=["iterations", "seed", "metrics", "features", "outcome", "sensitive features"],
)
def test_another_run_is_not_gone_on_with(rows, checkpoint, change, options, difference):
    parts = {"X": rows.X.to_numpy(), "y": np.asarray(rows.y), "A": rows.A}
    parts |= {name: alter(parts[name]) for name, alter in change.items()}
    before = checkpoint.read_bytes()
    frontier = composed(**{**SMALL, **options})
    with pytest.raises(InputError) as refused:
        frontier.fit(
            parts["X"],
            parts["y"],
            sensitive_features=parts["A"],
            checkpoint=checkpoint,
            resume=True,
        )
    start = f"resume must continue the run that wrote '{checkpoint}', but {difference}"
    assert str(refused.value).startswith(start)
    assert str(refused.value).endswith("of that run, or remove the file to start anew")
    assert checkpoint.read_bytes() == before


@pytest.fixture(scope="module")
def checkpoint(rows, tmp_path_factory):
    """Checkpoint of a run that failed at its second evaluation."""
    path = tmp_path_factory.mktemp("kept") / "run.checkpoint"
    frontier = composed(**SMALL)
    with pytest.raises(Failure):
        frontier.fit(
            rows.X.to_numpy(),
            np.asarray(rows.y),
            sensitive_features=rows.A,
            checkpoint=path,
            callback=failing_at(20),
        )
    return path


def test_another_network_of_the_users_own_is_noticed(rows, tmp_path):
    def network(width):
        return lambda inputs, outputs: torch.nn.Sequential(
            torch.nn.Linear(inputs, width), torch.nn.ReLU(), torch.nn.Linear(width, outputs)
        )

    path = tmp_path / "run.checkpoint"
    with pytest.raises(Failure):
        fit(rows, {"network": network(4)}, checkpoint=path, callback=failing_at(20))
    with pytest.raises(InputError, match="but start weights differ; use the data and options"):
        fit(rows, {"network": network(5)}, checkpoint=path, resume=True)
    assert_same(
        fit(rows, {"network": network(4)}),
        fit(rows, {"network": network(4)}, checkpoint=path, resume=True),
    )


def test_options_that_change_nothing_may_change(rows, checkpoint, capsys):
    X, y = rows.X.to_numpy(), np.asarray(rows.y)
    whole = composed(**SMALL).fit(X, y, sensitive_features=rows.A)
    loud = composed(**SMALL, verbose=1)
    copy = checkpoint.with_name("copy")
    copy.write_bytes(checkpoint.read_bytes())
    resumed = loud.fit(X, y, sensitive_features=rows.A, checkpoint=copy, resume=True)
    assert_same(whole, resumed)
    *_, last = capsys.readouterr().err.splitlines()
    pace, _, best = last.partition("; ")
    assert re.fullmatch(r"iteration 40 of 40, [\d.]+ a second, 0 s left", pace)
    assert best == best_in_words(whole.table())


def best_in_words(table):
    """What progress says of a table: the most useful snapshot, and the least unfair one."""
    worst = table[["gap age", "gap group"]].max(axis=1)
    with_it = table["utility"][worst.idxmin()]
    return (
        f"best AUC {table['utility'].max():.3f}; least gap {worst.min():.3f} with AUC {with_it:.3f}"
    )


def test_progress_names_the_most_useful_and_the_least_unfair(rows, capsys):
    table = fit(rows, {"verbose": 1}).table()
    *_, last = capsys.readouterr().err.splitlines()
    assert last.endswith(f"; {best_in_words(table)}")
    fit(rows, {})
    assert capsys.readouterr() == ("", "")
