"""Runs of both families: followed, called off, failed, interrupted, resumed."""

import functools
import re
import signal
import warnings

import pandas as pd
import pytest
from family_frontiers import BOTH, LEAST, NETWORKS, SHARED, assert_same
from small_frontiers import rows

from equipoise import FairBoostingClassifier
from equipoise.errors import ConvergenceWarning, InputError
from tests.composing import composed
from tests.error_parts import says


def fit(options, **run):
    data = rows()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The critic collapsed")
        frontier = composed(**options)
        return frontier.fit(data.X, data.y, sensitive_features=data.A, **run)


@functools.cache
def least():
    """An uninterrupted run of the least of both families."""
    return fit(LEAST)


def moments(told):
    """Whose evaluations were told of, and when."""
    return [(p.snapshots["predictor"].iloc[0], p.iteration) for p in told]


def test_callbacks_see_the_rows_of_the_table():
    told = []
    frontier = fit({**BOTH, "ensemble": True}, callback=told.append)
    assert moments(told) == [
        *(("network", at) for at in (10, 20, 30, 40)),
        *(("boosting", at) for at in (4, 8, 12)),
    ]
    assert [progress.iterations for progress in told] == [40] * 4 + [12] * 3
    table = frontier.table()
    shown = pd.concat([progress.snapshots for progress in told])
    pd.testing.assert_frame_equal(
        shown.drop(columns="on_front"), table.drop(columns="on_front"), check_exact=True
    )
    last = told[-1]
    assert last.snapshots["on_front"].equals(table["on_front"].tail(6))
    # Members of trees are counted on from those of networks.
    expected = {f"task/member {6 + n}": loss for n, loss in enumerate(last.task)}
    for name in ("utility", "gap age"):
        column = last.snapshots.set_index("member")[name]
        expected |= {f"{name}/member {member}": value for member, value in column.items()}
    assert len(expected) == 4 + 6 + 6
    assert expected.items() <= last.numbers().items()
    assert all(isinstance(value, float) for value in last.numbers().values())


def test_progress_names_the_best_of_both(capsys):
    table = fit({**LEAST, "verbose": 1}).table()
    *_, last = capsys.readouterr().err.splitlines()
    worst = table[["gap age", "gap group"]].max(axis=1)
    best = f"best AUC {table['utility'].max():.3f}; least gap {worst.min():.3f} with AUC "
    assert f"; {best}" in last


@pytest.mark.parametrize("at", [10, 20])
def test_a_callback_that_has_enough_of_networks_ends_it_all(at, tmp_path):
    told = []

    def enough(progress):
        told.append(progress)
        return progress.iteration == at

    path = tmp_path / "run.checkpoint"
    stopped = fit(LEAST, callback=enough, checkpoint=path)
    assert moments(told) == [("network", each) for each in range(10, at + 1, 10)]
    networks = fit({**LEAST, "predictor": "network"})
    table = networks.table()
    pd.testing.assert_frame_equal(
        stopped.table().drop(columns="on_front"),
        table[table["iteration"] <= at].drop(columns="on_front"),
        check_exact=True,
    )
    # A run ended by its callback is finished, whoever asks for it again.
    assert_same(stopped, fit(LEAST, checkpoint=path, resume=True))


def test_a_callback_that_has_enough_of_trees_keeps_the_networks(tmp_path):
    path = tmp_path / "run.checkpoint"
    stopped = fit(LEAST, callback=lambda progress: progress.iterations == 8, checkpoint=path)
    table = least().table()
    kept = table[(table["predictor"] == "network") | (table["iteration"] == 4)]
    pd.testing.assert_frame_equal(
        stopped.table().drop(columns="on_front"), kept.drop(columns="on_front"), check_exact=True
    )
    assert_same(stopped, fit(LEAST, checkpoint=path, resume=True))


class Failure(Exception):
    """Something that goes wrong in the middle of a run."""


@pytest.mark.parametrize(("family", "at"), [("network", 20), ("boosting", 4), ("boosting", 8)])
def test_a_failed_run_of_both_goes_on_to_the_same_end(family, at, tmp_path):
    def fail(progress):
        if moments([progress]) == [(family, at)]:
            raise Failure

    path = tmp_path / "run.checkpoint"
    run = {"checkpoint": path, "checkpoint_every": 0, "resume": True}
    with pytest.raises(Failure):
        fit(LEAST, callback=fail, **run)
    told = []
    resumed = fit(LEAST, callback=told.append, **run)
    assert_same(least(), resumed)
    # What was done is not done again.
    everything = [("network", 10), ("network", 20), ("boosting", 4), ("boosting", 8)]
    assert moments(told) == everything[everything.index((family, at)) :]
    told.clear()
    assert_same(resumed, fit(LEAST, callback=told.append, **run))
    assert told == []


def test_another_run_of_both_is_not_gone_on_with(tmp_path):
    path = tmp_path / "run.checkpoint"
    fit(LEAST, checkpoint=path)
    before = path.read_bytes()
    trees = {name: LEAST[name] for name in (*SHARED, "boosting", "evaluate_every_rounds")}
    networks = {name: LEAST[name] for name in NETWORKS}
    for other, change in (
        ({**LEAST, "boosting": {**LEAST["boosting"], "warmup": 3}}, "estimator__1__warmup was 2, "),
        ({**LEAST, "iterations": 30}, "estimator__0__iterations was 20, is 30; "),
        (
            {**trees, "predictor": "boosting"},
            ".*estimator__class was not given, is 'FairBoosting",
        ),
        (networks, ".*estimator__class was not given, is 'FairClassifier'"),
    ):
        with pytest.raises(InputError, match=rf"^resume must continue the run .*, but {change}"):
            fit(other, checkpoint=path, resume=True)
    data = rows()
    model = FairBoostingClassifier(random_state=7)
    with pytest.raises(InputError, match=r"^resume must continue the run that wrote "):
        model.fit(data.X, data.y, sensitive_features=data.A, checkpoint=path, resume=True)
    assert path.read_bytes() == before


@pytest.fixture
def ctrl_c_raises():
    """As in a terminal; programs that run in the background ignore Ctrl-C from the start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupting(family):
    """A callback during which Ctrl-C is pressed, as the first evaluation of a family ends."""
    pressed = []

    def callback(progress):
        if progress.snapshots["predictor"].iloc[0] == family and not pressed:
            pressed.append(progress)
            signal.raise_signal(signal.SIGINT)

    return callback


@pytest.mark.parametrize(
    ("family", "at"), [("network", "iteration 10 of 20"), ("boosting", "round 4 of 8")]
)
@pytest.mark.usefixtures("ctrl_c_raises")
def test_ctrl_c_ends_both_families(family, at, tmp_path):
    path = tmp_path / "run.checkpoint"
    with pytest.warns(ConvergenceWarning, match="interrupted") as warned:
        stopped = fit(LEAST, callback=interrupting(family), checkpoint=path)
    said = next(str(each.message) for each in warned if "interrupted" in str(each.message))
    says(said, f"interrupted at {at}", f"checkpoint='{path}', resume=True")
    families = [estimator.name for estimator in stopped.fitted_curve().trained]
    assert families == (["network"] if family == "network" else ["network", "boosting"])
    assert_same(least(), fit(LEAST, checkpoint=path, resume=True))


def test_what_can_not_be_resumed_is_told_before_networks_train(tmp_path):
    told = []
    drawing = {"lightgbm": {"bagging_fraction": 0.5, "bagging_freq": 1}}
    message = "checkpoint must be left out if lightgbm sets 'bagging_fraction', got 0.5: "
    message += "LightGBM would draw differently after resuming; leave one of the two out"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        fit({**LEAST, "boosting": drawing}, checkpoint=tmp_path / "run", callback=told.append)
    assert told == []
