"""What trains before the run is resumed, interrupted, reported and judged like the run itself."""

import functools
import os
import signal

import numpy as np
import pytest
import torch
from simulated_rows import simulate
from torch import nn

from equipoise import FairBoostingClassifier, FairClassifier, FairFrontier
from equipoise.datasets import make_synthetic
from equipoise.density_ratio import NetworkRatio, RatioSettings
from equipoise.errors import ConvergenceWarning, InputError
from equipoise.networks import StackedMLP
from equipoise.training import (
    TASKS,
    BatchStream,
    Member,
    NetworkStep,
    Phase,
    Predictor,
    Supervision,
    TrainingSettings,
    run_phase,
    train,
)
from equipoise.training.data import generators

#: So short a training may leave a critic behind, and that is said.
pytestmark = pytest.mark.filterwarnings("ignore:The critic collapsed")

ROWS = make_synthetic(240, random_state=1)
OPTIONS = {"hidden": (6,), "iterations": 100, "random_state": 0}
#: A model for every kind of phase: its label, options, and steps until it is checked.
PHASES = {
    "density ratio": {"notion": "separation", "density_ratio": "network"},
    "distribution of A given Y": {"notion": "separation", "method": "icp"},
    "plain training": {"method": "neu"},
}
every_phase = pytest.mark.parametrize("label", PHASES)


class Stop(Exception):
    """What ends a run from outside."""


@pytest.fixture(autouse=True)
def short(monkeypatch):
    settings = functools.partial(RatioSettings, iterations=120, check_every=20, patience=40)
    monkeypatch.setattr("equipoise.density_ratio.RatioSettings", settings)
    monkeypatch.setattr("equipoise.methods.conditional.MOST_STEPS", 120)


def fit(label, **given):
    model = FairClassifier(**OPTIONS, **PHASES[label])
    return model.fit(ROWS.X, ROWS.y, sensitive_features=ROWS.A, **given)


@functools.cache
def whole_scores(label):
    """The scores of a run that nothing ended."""
    return fit(label).predict_proba(ROWS.X)


def at(phase, number, act):
    """A callback that acts at the ``number``-th check of a phase."""
    seen = []

    def callback(progress):
        seen.append(progress.phase)
        if seen[-1] == phase and seen.count(phase) == number:
            act()

    return callback


def fail():
    raise Stop


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@every_phase
@pytest.mark.parametrize("where", ["inside", "after"])
def test_a_resumed_run_goes_on_inside_or_after_a_phase_and_ends_the_same(label, where, tmp_path):
    kept = {"checkpoint": tmp_path / "kept", "checkpoint_every": 0}
    stop = at(label if where == "inside" else "", 2, fail)
    with pytest.raises(Stop):
        fit(label, callback=stop, **kept)
    told = []
    resumed = fit(
        label, resume=True, callback=lambda p: told.append((p.phase, p.resumed_at)), **kept
    )
    assert {phase for phase, _ in told} == ({label, ""} if where == "inside" else {""})
    assert all(resumed_at > 0 for phase, resumed_at in told if phase == label)
    # The same computation, taken up in its middle.
    assert np.array_equal(resumed.predict_proba(ROWS.X), whole_scores(label))


@pytest.fixture
def ctrl_c():
    """Ctrl-C asks, also where the shell has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@every_phase
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_in_a_phase_ends_the_run_and_says_where(label, tmp_path):
    kept = {"checkpoint": tmp_path / "kept", "checkpoint_every": 0}
    with pytest.warns(ConvergenceWarning) as told:
        stopped = fit(label, callback=at(label, 1, interrupt), **kept)
    (message,) = (str(each.message) for each in told if "interrupted" in str(each.message))
    for part in (label, "iteration 1 of 100", "resume=True"):
        assert part in message
    assert stopped.history_.iterations.tolist() == [1]
    resumed = fit(label, resume=True, **kept)
    assert np.array_equal(resumed.predict_proba(ROWS.X), whole_scores(label))


def test_a_callback_that_ends_training_in_a_phase_ends_it_after_one_iteration(tmp_path):
    told = []

    def callback(progress):
        told.append((progress.phase, progress.iteration))
        return bool(progress.phase)

    kept = {"checkpoint": tmp_path / "kept", "checkpoint_every": 0}
    fit("density ratio", callback=callback, **kept)
    assert told == [("density ratio", 20), ("", 1)]
    # Ended is ended, also when it is resumed.
    assert fit("density ratio", resume=True, **kept).history_.iterations.tolist() == [1]


def test_frontiers_and_trees_have_the_same_phases():
    told = []
    options = {"notion": "separation", "density_ratio": "network"}
    callback = lambda progress: told.append((progress.phase, progress.snapshots is None))  # noqa: E731
    FairBoostingClassifier(rounds=10, random_state=0, **options).fit(
        ROWS.X, ROWS.y, sensitive_features=ROWS.A, callback=callback
    )
    assert set(told) == {("density ratio", True), ("", True)}
    told.clear()
    model = FairClassifier(iterations=10, **options)
    more = make_synthetic(900, random_state=1)
    FairFrontier(model, strengths=(0.5,), seeds=1, evaluate_every=10, random_state=0).fit(
        more.X, more.y, sensitive_features=more.A, callback=callback
    )
    assert set(told) == {("density ratio", True), ("", False)}


class Counting:
    """A method whose phase adds one to a weight a step; network k fails at step ``fails_at[k]``."""

    def __init__(self, data, members, fails_at):
        self.networks = nn.Module()
        self.weights = nn.Module()
        self.weights.weight = nn.Parameter(torch.zeros(len(fails_at), 1))
        self._fails_at = torch.tensor(fails_at)
        self._step = 0
        settings = TrainingSettings(iterations=40, batch_size=20, check_every=10)
        streams = [Member(0.0, seed) for seed in range(len(fails_at))]
        self.phases = [
            Phase(
                label="counting",
                needed_by="method='toy'",
                step=NetworkStep(self.weights, self._update, {}, settings),
                batches=BatchStream(streams, len(data), batch_size=20, device=data.x.device),
                settings=settings,
                serves=[member.seed for member in members],
                finish=lambda history: history,
            )
        ]

    def _update(self, rows, resampled):
        self._step += 1
        with torch.no_grad():
            self.weights.weight += 1
        loss = torch.where(self._step >= self._fails_at, torch.nan, 0.0)
        return loss, torch.zeros_like(loss)

    def penalty(self, penalized, rows, resampled):
        return penalized.mean((1, 2))


def train_counting(fails_at):
    """Three members: two use network 0, one uses network 1."""
    data = simulate()
    members = [Member(0.5, 0), Member(0.9, 0), Member(0.5, 1)]
    starts = generators([member.seed for member in members], "predictor")
    predictor = Predictor(StackedMLP(4, (6,), 1, generators=starts).to(data.x), TASKS["binary"])
    start = [weight.detach().clone() for weight in predictor.parameters()]
    method = Counting(data, members, fails_at)
    settings = TrainingSettings(iterations=10, batch_size=20, check_every=5)
    trained = train(
        data,
        members,
        predictor=predictor,
        method=method,
        settings=settings,
        has_critic=False,
        supervision=Supervision(),
    )
    moved = torch.stack(
        [
            (weight - before).flatten(1).abs().sum(1)
            for weight, before in zip(predictor.parameters(), start, strict=True)
        ]
    ).sum(0)
    return trained, method.weights.weight.flatten().tolist(), (moved > 0).tolist()


def test_a_network_that_fails_keeps_its_last_good_weights_and_its_members_say_so():
    trained, weights, moved = train_counting([10**9, 25])
    assert weights == [40.0, 20.0]
    assert moved == [True, True, True]
    assert trained.health[0].ok and trained.health[1].ok
    (message,) = trained.health[2].messages
    for part in ("method='toy'", "counting", "step 25", "last good weights", "extreme values"):
        assert part in message


def test_a_member_whose_network_never_learned_is_not_trained_and_says_so():
    trained, weights, moved = train_counting([3, 10**9])
    assert weights == [0.0, 40.0]
    assert moved == [False, False, True]
    for health in trained.health[:2]:
        message = health.messages[0]
        for part in ("method='toy'", "step 3", "before it had learned anything", "not trained"):
            assert part in message
    assert trained.health[2].ok


def test_where_no_network_learned_anything_there_is_nothing_to_train():
    with pytest.raises(InputError) as refused:
        train_counting([3, 4])
    for part in ("method='toy'", "step 3", "before it had learned anything", "extreme values"):
        assert part in str(refused.value)


@pytest.mark.parametrize("patience", [None, 5])
def test_a_density_ratio_that_was_never_measured_counts_as_failed(patience):
    data = simulate()
    data.attribute[7] = torch.nan
    settings = RatioSettings(iterations=40, check_every=20, batch_size=20, patience=patience)
    history = run_phase(*NetworkRatio(data, [Member(0.5, 0)], settings=settings).phases)
    assert 0 < history.stopped_at[0] <= history.iterations[0]
