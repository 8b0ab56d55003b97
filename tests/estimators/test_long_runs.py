"""Checkpoints, Ctrl-C, progress and callbacks of the estimators."""

import os
import re
import signal

import numpy as np
import pytest
import torch
from sklearn.base import clone

from equipoise import FairClassifier, FairEncoder, FairRegressor
from equipoise.datasets import make_synthetic
from equipoise.errors import ConvergenceWarning, InputError
from equipoise.methods import METHODS
from tests.composing import composed
from tests.error_parts import says

SMALL = {
    "hidden": (8,),
    "critic_hidden": (8,),
    "batch_size": 50,
    "iterations": 120,
    "random_state": 4,
    "device": "cpu",
}


class Failure(Exception):
    pass


def failing_at(iteration):
    def callback(progress):
        if progress.iteration == iteration and not progress.phase:
            raise Failure

    return callback


@pytest.fixture(scope="module")
def rows():
    return make_synthetic(300, random_state=5)


def two_groups(rows):
    """An attribute that every method can take."""
    return (rows.A["group"] == "a").astype(int).rename("group").to_frame()


def fit(model, rows, **run):
    return model.fit(rows.X, rows.y, sensitive_features=two_groups(rows), **run)


def assert_same(first, second):
    states = [model.predictor_.state_dict() for model in (first, second)]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name
    for name, values in vars(first.history_).items():
        assert values.tobytes() == vars(second.history_)[name].tobytes()


def dropout_network(inputs, outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 8),
        torch.nn.BatchNorm1d(8, track_running_stats=False),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.3),
        torch.nn.Linear(8, outputs),
    )


MODELS = {
    "regression": FairRegressor(**SMALL, members=2),
    "representation": FairEncoder(**SMALL, encoder_hidden=(6,)),
    "own network with dropout": FairClassifier(
        **{**SMALL, "hidden": FairClassifier().hidden}, network=dropout_network
    ),
    "spectral critic": FairClassifier(**SMALL, members=2, critic_normalization="spectral"),
    **{
        f"method {name}": FairClassifier(
            **{option: value for option, value in SMALL.items() if method.reads(option)},
            members=2,
            method=name,
            notion="independence" if method.capabilities.independence else "separation",
        )
        for name, method in METHODS.items()
        # What is solved at once has nothing to resume, and says so.
        if method.solve is None
    },
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning")
def test_a_failed_fit_goes_on_to_the_same_weights(rows, tmp_path, name, monkeypatch):
    # tests/training/test_phases.py resumes inside of what is trained before the first step.
    monkeypatch.setattr("equipoise.methods.conditional.MOST_STEPS", 20)
    model = MODELS[name]
    whole = fit(clone(model), rows)
    run = {"checkpoint": tmp_path / "run", "checkpoint_every": 0, "resume": True}
    with pytest.raises(Failure):
        fit(clone(model), rows, **run, callback=failing_at(100))
    told = []
    resumed = fit(clone(model), rows, **run, callback=told.append)
    assert [(p.resumed_at, p.iteration, p.snapshots) for p in told] == [
        (50, 100, None),
        (50, 120, None),
    ]
    assert_same(whole, resumed)
    # What was finished is given back as it was.
    assert_same(whole, fit(clone(model), rows, **run, callback=failing_at(120)))


def test_the_users_generator_is_left_alone(rows, tmp_path):
    model = clone(MODELS["own network with dropout"])
    run = {"checkpoint": tmp_path / "run", "checkpoint_every": 0, "resume": True}
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with pytest.raises(Failure):
        fit(model, rows, **run, callback=failing_at(100))
    fit(model, rows, **run)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture
def raising_handler():
    """Ctrl-C raises, whatever the process that runs the tests has made of it."""
    kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, kept)


def test_ctrl_c_ends_training_with_a_warning(rows, tmp_path, raising_handler):
    def interrupt(progress):
        if progress.iteration == 50:
            os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path / "run"
    model = FairClassifier(**SMALL)
    with pytest.warns(ConvergenceWarning) as caught:
        stopped = fit(model, rows, checkpoint=path, callback=interrupt)
    (message,) = [str(w.message) for w in caught if "interrupted" in str(w.message)]
    says(message, "interrupted at iteration 50 of 120", f"checkpoint='{path}', resume=True")
    assert caught[0].filename == __file__
    short = FairClassifier(**SMALL | {"schedule": "constant", "iterations": 50})
    assert stopped.predict_proba(rows.X).shape == (300, 2)
    assert stopped.history_.iterations.tolist() == [50]
    np.testing.assert_array_equal(stopped.history_.task, fit(short, rows).history_.task)
    assert_same(
        fit(FairClassifier(**SMALL), rows),
        fit(FairClassifier(**SMALL), rows, checkpoint=path, resume=True),
    )


def test_a_second_ctrl_c_raises(rows, raising_handler):
    def interrupt_twice(progress):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(FairClassifier(**SMALL), rows, callback=interrupt_twice)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_callback_ends_training_by_returning_true(rows):
    told = []

    def callback(progress):
        told.append(progress.iteration)
        return np.bool_(progress.task[0] < np.inf and progress.iteration >= 100)

    model = fit(FairClassifier(**SMALL), rows, callback=callback)
    assert told == model.history_.iterations.tolist() == [50, 100]


def test_progress_is_shown_when_asked_for(rows, capsys):
    fit(FairClassifier(**SMALL, verbose=1), rows)
    shown = capsys.readouterr()
    assert shown.out == ""
    first, *_, last = shown.err.splitlines()
    form = r"iteration {} of 120, \d+\.\d a second, \d+ s left"
    assert re.fullmatch(form.format(50), first) and re.fullmatch(form.format(120), last)
    fit(FairClassifier(**SMALL), rows)
    assert capsys.readouterr() == ("", "")


def test_a_method_that_is_solved_at_once_shows_one_iteration(rows, capsys):
    X = np.random.default_rng(0).normal(size=(60, 2))
    seen = []
    model = FairRegressor(method="scutari", verbose=1)
    model.fit(X, X[:, 0], sensitive_features=X[:, 1], callback=seen.append)
    line = capsys.readouterr().err.strip()
    assert re.fullmatch(r"iteration 1 of 1, \d+\.\d a second, 0 s left", line)
    (progress,) = seen
    assert (progress.resumed_at, progress.iteration, progress.seconds_left) == (0, 1, 0.0)


@pytest.mark.parametrize(
    ("options", "run", "message"),
    [
        (
            {},
            {"resume": True},
            "resume=True needs the file to go on from, got checkpoint=None; call "
            "fit(..., checkpoint=path, resume=True)",
        ),
        (
            {},
            {"checkpoint": "run", "checkpoint_every": -1},
            "checkpoint_every must be a number of seconds of at least 0, got -1",
        ),
        (
            {},
            {"checkpoint": "run", "checkpoint_every": "often"},
            "checkpoint_every must be a number of seconds of at least 0, got 'often'",
        ),
        (
            {"random_state": None},
            {"checkpoint": "run"},
            "random_state must be a whole number when checkpoints are kept, got None; a resumed ",
        ),
        (
            {},
            {"callback": "print"},
            "callback must be a function of one argument, the progress, got str",
        ),
        (
            {},
            {"callback": lambda progress: 1},
            "callback must return True to end training, or False or None to continue, got int",
        ),
        ({"verbose": 2}, {}, "verbose must be 0 (silent) or 1 (progress), got 2"),
    ],
)
def test_bad_requests_are_refused(rows, tmp_path, monkeypatch, options, run, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        fit(FairClassifier(**SMALL | options), rows, **run)
    assert str(refused.value).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_an_old_checkpoint_is_neither_overwritten_nor_taken_up_unasked(rows, tmp_path):
    path = tmp_path / "run"
    fit(FairClassifier(**SMALL), rows, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(InputError) as refused:
        fit(FairClassifier(**SMALL), rows, checkpoint=path)
    says(refused.value, "checkpoint must be", "new", f"got '{path}'", "resume=True", "remove it")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "other",
    [FairClassifier(**SMALL), composed(seeds=1, **SMALL)],
    ids=["estimator", "frontier"],
)
def test_of_two_fits_with_one_checkpoint_the_second_is_refused(rows, tmp_path, other):
    """Whoever is told of it meanwhile: the first goes on as if nothing had been asked."""
    run = {"checkpoint": tmp_path / "run.checkpoint", "checkpoint_every": 0, "resume": True}
    refused = []

    def callback(progress):
        with pytest.raises(InputError) as problem:
            fit(other, rows, **run)
        refused.append(str(problem.value))

    first = fit(FairClassifier(**SMALL), rows, callback=callback, **run)
    assert_same(first, fit(FairClassifier(**SMALL), rows))
    assert len(refused) > 1
    for message in refused:
        assert message.startswith("checkpoint must not be in use")
        assert str(run["checkpoint"]) in message and f"process {os.getpid()}" in message
    assert [path.name for path in tmp_path.iterdir()] == ["run.checkpoint"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_a_run_on_cuda_is_resumed_into_the_tensors_of_its_captured_step(rows, tmp_path):
    def model():
        return FairClassifier(**SMALL | {"device": "cuda", "strength": 0.8})

    whole = fit(model(), rows)
    run = {"checkpoint": tmp_path / "run", "checkpoint_every": 0, "resume": True}
    with pytest.raises(Failure):
        fit(model(), rows, **run, callback=failing_at(100))
    resumed = fit(model(), rows, **run)
    assert resumed.history_.iterations.tolist() == whole.history_.iterations.tolist()
    # Rounding may differ from run to run there; a lost state would differ much more.
    np.testing.assert_allclose(
        resumed.predict_proba(rows.X), whole.predict_proba(rows.X), atol=1e-3
    )
