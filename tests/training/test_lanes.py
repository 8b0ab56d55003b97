"""Members that are trained in lanes, one thread each, are those that one thread trains."""

import threading
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from equipoise import FairClassifier, FairFrontier
from equipoise.cores import torch_threads
from equipoise.datasets import make_synthetic
from equipoise.errors import ConvergenceWarning
from equipoise.methods import METHODS, Capabilities, Declaration, register_method
from equipoise.training import Member
from equipoise.training.data import BatchStream
from equipoise.training.loop import Lane, RunState, run, share_weights

DATA = make_synthetic(200, random_state=3)
#: Two groups, since some methods cannot have more.
GROUP = (DATA.A["group"] == DATA.A["group"].iloc[0]).astype(int)
#: Enough strengths for two lanes of six members, and one more.
STRENGTHS = tuple(np.linspace(0, 0.96, 13).round(2).tolist())


def fitted(threads, **options):
    """The table of a small frontier that trains with this many threads."""
    torch.set_num_threads(threads)
    fit = {
        name: options.pop(name) for name in ("checkpoint", "resume", "callback") if name in options
    }
    if "checkpoint" in fit:
        fit["checkpoint_every"] = 0
    model = {"hidden": (6,), "critic_hidden": (6,), "iterations": 30, "batch_size": 40, **options}
    frontier = FairFrontier(
        FairClassifier(**model),
        strengths=STRENGTHS,
        seeds=1,
        evaluate_every=10,
        metrics=["KS-GSP"],
        random_state=2,
        n_jobs=threads,
    )
    frontier.fit(DATA.X, DATA.y, sensitive_features=GROUP, **fit)
    assert torch.get_num_threads() == threads
    return frontier.table().select_dtypes("number").to_numpy()


@pytest.mark.parametrize(
    "options",
    [
        {
            "method": name,
            "notion": "independence" if method.capabilities.independence else "separation",
            "critic_hidden": (6,) if method.reads("critic_hidden") else (64, 64),
        }
        for name, method in METHODS.items()
        if method.solve is None
    ]
    + [
        {"normalization": "batch", "critic_normalization": "batch"},
        {"critic_normalization": "spectral", "critic_steps": 2},
        {"gradient_penalty": 1.0},
        {"optimizer": "sgd", "weight_decay": 0.0, "momentum": 0.9, "learning_rate": 0.01},
        {"notion": "separation"},
        {"notion": "separation", "density_ratio": "network"},
    ],
    ids=lambda options: options.get("method") or ", ".join(map(str, options.values())),
)
def test_two_threads_train_the_members_of_one(options):
    np.testing.assert_allclose(fitted(2, **options), fitted(1, **options), rtol=1e-6, atol=1e-6)


class Witness:
    """A method without a penalty that notes who calls it."""

    seen: set[tuple[int, int, int]]

    def __init__(self, context):
        self.networks = nn.Module()

    def penalty(self, penalized, rows, resampled):
        thread = threading.get_ident(), torch.get_num_threads(), len(penalized)
        Witness.seen.add(thread)
        return 0 * penalized.sum((1, 2))


register_method(
    Declaration(
        name="witness of lanes",
        title="None",
        reference="None (2026)",
        summary="None.",
        capabilities=Capabilities(),
        build=Witness,
    ),
    listed=False,
)


@pytest.mark.parametrize(("threads", "sizes"), [(1, [13]), (2, [6, 7]), (4, [6, 7])])
def test_a_lane_has_at_least_six_members_and_one_thread_of_torch(threads, sizes):
    Witness.seen = set()
    fitted(threads, method="witness of lanes", critic_hidden=(64, 64))
    assert sorted({size for *_, size in Witness.seen}) == sizes
    assert {of_torch for _, of_torch, _ in Witness.seen} == {1}
    if len(sizes) > 1:
        own = {ident for ident, _, size in Witness.seen if size == sizes[0]}
        other = {ident for ident, _, size in Witness.seen if size == sizes[1]}
        assert not own & other


@pytest.mark.parametrize(("hidden", "expected"), [((6,), 1), ((700, 700), 3)])
def test_small_members_without_lanes_have_one_thread_of_torch(hidden, expected):
    Witness.seen = set()
    torch.set_num_threads(3)
    model = FairClassifier(
        method="witness of lanes",
        hidden=hidden,
        members=4,
        iterations=2,
        batch_size=60,
        random_state=0,
    )
    with warnings.catch_warnings():  # two iterations teach nothing
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(DATA.X, DATA.y, sensitive_features=GROUP)
    assert {(of_torch, size) for _, of_torch, size in Witness.seen} == {(expected, 4)}
    assert torch.get_num_threads() == 3


class Stop(Exception):
    """Ends a fit as a crash would."""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_resumes_with_another_number_of_threads(threads, tmp_path):
    whole = fitted(2)
    checks = []

    def crash(progress):
        checks.append(progress.iteration)
        if progress.iteration == 20:
            raise Stop

    with pytest.raises(Stop):
        fitted(2, checkpoint=tmp_path / "run", callback=crash)
    resumed = fitted(threads, checkpoint=tmp_path / "run", resume=True, callback=lambda p: None)
    assert checks == [10, 20]
    np.testing.assert_allclose(resumed, whole, rtol=1e-6, atol=1e-6)


class Counting:
    """A step that adds one to the weight of every member; ``then(iteration)`` is called after."""

    def __init__(self, members, then=lambda iteration: None):
        self.modules = nn.Module()
        self.modules.register_buffer("weight", torch.zeros(members))
        self.members, self.then, self.iteration = members, then, 0
        self.loss = torch.ones(members)

    def prepare(self, iteration):
        self.iteration = iteration

    def optimizers(self):
        return []

    def __call__(self, rows, resampled):
        assert rows.shape[0] == resampled.shape[0] == self.members
        self.modules.weight += 1
        self.then(self.iteration)
        return self.loss * self.iteration, torch.zeros(self.members)


def in_lanes(*steps, iterations=20, interrupted=lambda: False):
    """Train steps of two members each; return the weights of all, the state and the history."""
    whole = Counting(2 * len(steps))
    lanes = [Lane(slice(2 * n, 2 * n + 2), step) for n, step in enumerate(steps)]
    for lane in lanes:
        share_weights(whole.modules, lane)
    members = [Member(0.5, seed) for seed in range(whole.members)]
    batches = BatchStream(members, 30, batch_size=5, device=torch.device("cpu"))
    state = RunState.at_start(batches, iterations)
    with torch_threads(1):
        history = run(whole, batches, state, check_every=10, interrupted=interrupted, lanes=lanes)
    return whole.modules.weight.tolist(), state, history


def test_losses_are_averaged_between_checks():
    weights, state, history = in_lanes(Counting(2), Counting(2))
    assert weights == [20] * 4 and state.ended
    np.testing.assert_array_equal(history.iterations, [10, 20])
    np.testing.assert_allclose(history.task, [[5.5] * 4, [15.5] * 4])


@pytest.mark.parametrize("lane", [0, 1])
def test_an_interrupt_ends_all_lanes_at_one_iteration(lane):
    begun = threading.Event()
    steps = [Counting(2), Counting(2)]
    # The other lane is slower, so that it is behind when the interrupt comes.
    steps[1 - lane].then = lambda iteration: begun.wait(timeout=20) if iteration == 13 else None
    steps[lane].then = lambda iteration: begun.set() if iteration == 17 else None
    weights, state, history = in_lanes(*steps, interrupted=begun.is_set)
    assert len(set(weights)) == 1 and 17 <= weights[0] < 20
    assert state.checked == weights[0] and not state.ended
    assert history.iterations.tolist() == [10, weights[0]]


@pytest.mark.parametrize("lane", [0, 1])
def test_an_error_in_a_lane_reaches_the_caller(lane):
    def fail(iteration):
        if iteration == 12:
            raise Stop

    steps = [Counting(2), Counting(2)]
    steps[lane].then = fail
    torch.set_num_threads(2)
    before = threading.active_count()
    with pytest.raises(Stop):
        in_lanes(*steps)
    assert threading.active_count() == before and torch.get_num_threads() == 2


def test_a_failing_member_returns_to_its_last_check_and_the_others_go_on():
    def fail(iteration):
        if iteration == 15:
            step.loss = torch.tensor([1.0, torch.nan])

    step = Counting(2, fail)
    weights, _, history = in_lanes(Counting(2), step, iterations=30)
    assert weights == [30, 30, 30, 10]
    assert history.stopped_at.tolist() == [0, 0, 0, 15]
