"""Ctrl-C ends a run between two iterations, and only where it would have raised."""

import os
import signal
import threading

import pytest
import torch
from simulated_rows import simulate
from torch import nn

from equipoise.networks import StackedMLP
from equipoise.storage import CheckpointFile
from equipoise.training import (
    TASKS,
    BatchStream,
    Member,
    Predictor,
    Supervision,
    TrainingSettings,
    run,
    train,
)
from equipoise.training.data import generators
from equipoise.training.loop import PredictorStep, RunState, catch_first_interrupt


@pytest.fixture(autouse=True)
def raising_handler():
    """Ctrl-C raises, whatever the process that runs the tests has made of it."""
    kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, kept)


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def predictor_on(data):
    network = StackedMLP(4, (6,), 1, generators=generators([1], "predictor")).to(data.x)
    return Predictor(network, TASKS["binary"])


def test_the_first_asks_and_the_second_raises():
    with catch_first_interrupt() as asked:
        assert not asked()
        interrupt()
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_a_handler_of_somebodys_own_is_left_alone():
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append("theirs"))
    with catch_first_interrupt() as asked:
        interrupt()
        assert seen == ["theirs"] and not asked()


def test_where_it_is_ignored_it_stays_ignored():
    """A job in the background is not ended by the Ctrl-C that is meant for another program."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with catch_first_interrupt() as asked:
        interrupt()
        assert not asked() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_leave_the_signal_alone():
    found = []

    def look():
        with catch_first_interrupt() as asked:
            found.append((asked(), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(timeout=60)
    assert found == [(False, signal.default_int_handler)]


def test_a_check_out_of_turn_leaves_whole_weights_and_no_checkpoint():
    data = simulate()
    members = [Member(0.0, 1)]
    settings = TrainingSettings(iterations=20, batch_size=20, schedule="constant", check_every=5)
    predictor = predictor_on(data)
    predictor.train()
    step = PredictorStep(predictor, data, members, method=None, settings=settings)
    batches = BatchStream(members, len(data), batch_size=20, device=torch.device("cpu"))
    state = RunState.at_start(batches, 20)
    step.prepare = lambda iteration: interrupt() if iteration == 7 else None
    kept, checked = [], []
    with catch_first_interrupt() as interrupted:
        history = run(
            step,
            batches,
            state,
            check_every=5,
            on_check=lambda iteration, _: checked.append(iteration) or False,
            keep=lambda ended: kept.append(state.checked),
            interrupted=interrupted,
        )
    assert checked == history.iterations.tolist() == [5, 7]
    assert kept == [5]
    assert not state.ended
    whole = predictor_on(data)
    train(
        data,
        members,
        predictor=whole,
        method=None,
        settings=TrainingSettings(iterations=7, batch_size=20, schedule="constant", check_every=5),
    )
    for mine, expected in zip(predictor.parameters(), whole.parameters(), strict=True):
        assert torch.equal(mine, expected)


@pytest.mark.parametrize("at", [5, 10])
def test_an_interrupted_run_can_be_resumed_to_the_same_end(tmp_path, at):
    data = simulate()
    settings = TrainingSettings(iterations=15, batch_size=20, check_every=5)

    def fit(**supervision):
        return train(
            data,
            [Member(0.0, 1)],
            predictor=predictor_on(data),
            method=None,
            settings=settings,
            supervision=Supervision(seconds=0, **supervision),
        )

    whole = fit()
    store = CheckpointFile(tmp_path / "kept")

    def callback(progress):
        if progress.iteration == at:
            interrupt()

    stopped = fit(store=store, callbacks=(callback,))
    assert stopped.interrupted_at == at
    assert stopped.history.iterations.tolist() == list(range(5, at + 1, 5))
    resumed = fit(store=store)
    assert resumed.interrupted_at == 0
    assert resumed.history.task.tobytes() == whole.history.task.tobytes()
    for mine, expected in zip(
        resumed.predictor.parameters(), whole.predictor.parameters(), strict=True
    ):
        assert torch.equal(mine, expected)
    assert isinstance(resumed.predictor, nn.Module)
