"""Everything a run remembers can be put aside and taken up again, bit for bit."""

import re

import pytest
import torch
from simulated_rows import simulate
from torch import nn

from equipoise.critic import CriticSettings
from equipoise.errors import InputError
from equipoise.methods import SBP, Context
from equipoise.networks import StackedMLP
from equipoise.notions import Notion
from equipoise.storage import CheckpointFile
from equipoise.training import (
    TASKS,
    BatchStream,
    Member,
    OptimizerSettings,
    Predictor,
    RowSet,
    Supervision,
    TrainingData,
    TrainingSettings,
    train,
)
from equipoise.training.checkpoints import Identity, ModuleState, OptimizerState, digest
from equipoise.training.data import generators
from equipoise.training.loop import PredictorStep
from equipoise.training.optimizers import minimize

HALVES = RowSet(range(120)), RowSet(range(120, 240))
MEMBERS = [Member(0.5, 1, HALVES[0]), Member(0.9, 1, HALVES[1]), Member(0.0, 2, HALVES[0])]


class Failure(Exception):
    pass


def fit(data, members, *, iterations=24, fail_at=None, **supervision):
    def on_check(iteration, _):
        if iteration == fail_at:
            raise Failure
        return False

    seeds = [member.seed for member in members]
    network = StackedMLP(4, (6,), 1, generators=generators(seeds, "predictor")).to(data.x)
    method = SBP(
        Context(
            data=data,
            members=members,
            notion=Notion.INDEPENDENCE,
            critic=CriticSettings(hidden=(6,)),
            density_ratio="none",
        )
    )
    trained = train(
        data,
        members,
        predictor=Predictor(network, TASKS["binary"]),
        method=method,
        settings=TrainingSettings(iterations=iterations, batch_size=20, check_every=4),
        on_check=on_check,
        supervision=Supervision(seconds=0, **supervision),
    )
    return trained, method.networks


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        state, other = (module.state_dict() for module in (a, b))
        assert state.keys() == other.keys()
        for name, tensor in state.items():
            assert torch.equal(tensor, other[name]), name


def with_broken_row(data):
    x = data.x.clone()
    x[130] = float("nan")
    return TrainingData(**{**vars(data), "x": x})


@pytest.mark.parametrize("fail_at", [8, 20, 24])
@pytest.mark.parametrize("broken", [False, True], ids=["healthy", "one member stopped"])
def test_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path, fail_at, broken):
    data = with_broken_row(simulate()) if broken else simulate()
    whole, critics = fit(data, MEMBERS)
    store = CheckpointFile(tmp_path / "kept")
    with pytest.raises(Failure):
        fit(data, MEMBERS, fail_at=fail_at, store=store)
    assert store.read()["parts"]["run"]["state"]["checked"] == fail_at - 4
    resumed, resumed_critics = fit(data, MEMBERS, store=store)
    assert_same([whole.predictor, critics], [resumed.predictor, resumed_critics])
    for name, values in vars(whole.history).items():
        assert values.tobytes() == vars(resumed.history)[name].tobytes()
    assert (whole.history.stopped_at > 0).tolist() == [False, broken, False]
    assert repr(whole.health) == repr(resumed.health)  # NaN is not equal to NaN


def test_a_run_in_which_every_member_stopped_stays_ended(tmp_path):
    data = with_broken_row(simulate())
    store = CheckpointFile(tmp_path / "kept")
    whole, _ = fit(data, MEMBERS[1:2], store=store)
    assert whole.history.iterations.tolist() in ([4], [4, 8])
    resumed, _ = fit(data, MEMBERS[1:2], store=store)
    assert resumed.history.iterations.tolist() == whole.history.iterations.tolist()
    assert resumed.interrupted_at == whole.interrupted_at == 0


def test_identities_are_compared_in_words(tmp_path):
    store = CheckpointFile(tmp_path / "kept")
    first = Identity({"iterations": "24", "method": "'sbp'"}, {"features": "1"})
    later = Identity({"iterations": "24", "method": "'hgr'", "new": "1"}, {"features": "2"})
    with pytest.raises(Failure):
        fit(simulate(), MEMBERS, fail_at=8, store=store, identity=first)
    message = (
        f"resume must continue the run that wrote '{store}', but method was 'sbp', is 'hgr', "
        "new was not given, is 1, features differ; use the data and options of that run, "
        "or remove the file to start anew"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        fit(simulate(), MEMBERS, store=store, identity=later)


def test_other_start_weights_are_noticed(tmp_path):
    store = CheckpointFile(tmp_path / "kept")
    with pytest.raises(Failure):
        fit(simulate(), MEMBERS[:1], fail_at=8, store=store)
    with pytest.raises(InputError, match="but start weights differ; use the data and options"):
        fit(simulate(), [Member(0.5, 2, HALVES[0])], store=store)


def test_digests_tell_values_types_and_shapes_apart():
    zeros = torch.zeros(4)
    other = [torch.zeros(2, 2), torch.zeros(4, dtype=torch.int32), torch.zeros(5), zeros + 1]
    found = {digest([tensor]) for tensor in [zeros, *other]}
    assert len(found) == 5
    assert digest([zeros]) == digest([torch.zeros(8)[::2]])
    assert digest([zeros, zeros]) != digest([torch.zeros(8)])


@pytest.mark.parametrize("drawn", [0, 1, 5, 6, 17])
@pytest.mark.parametrize("members", [MEMBERS, [Member(0.5, 1), Member(0.9, 1)]])
def test_a_stream_of_batches_goes_on_where_it_was(members, drawn):
    def stream():
        return BatchStream(members, 240, batch_size=20, device=torch.device("cpu"))

    first = stream()
    for _ in range(drawn):
        first.draw()
    state = first.state_dict()
    expected = [first.draw().clone() for _ in range(14)]
    second = stream()
    second.load_state_dict(state)
    for batch in expected:
        assert torch.equal(second.draw(), batch)


@pytest.mark.parametrize("kind", ["adam", "sgd"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_optimizers_and_weights_go_on_where_they_were(tmp_path, kind, momentum):
    rows = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))

    def start():
        layer = StackedMLP(3, (4,), 1, generators=generators([1, 2], "predictor"))
        settings = OptimizerSettings(kind=kind, learning_rate=0.1, momentum=momentum)
        return layer, settings.build(layer.parameters())

    def step(layer, optimizer):
        minimize(layer(rows.expand(2, -1, -1)).square().mean((1, 2)), optimizer)

    whole, optimizer = start()
    for _ in range(3):
        step(whole, optimizer)
    file = CheckpointFile(tmp_path / "kept")
    parts = ModuleState(whole), OptimizerState((optimizer,))
    file.write({"module": parts[0].state_dict(), "optimizer": parts[1].state_dict()})
    state = file.read()
    resumed, second = start()
    places = [tensor.data_ptr() for tensor in resumed.parameters()]
    ModuleState(resumed).load_state_dict(state["module"])
    OptimizerState((second,)).load_state_dict(state["optimizer"])
    # Into the tensors that are there: a captured step reads them where they are.
    assert [tensor.data_ptr() for tensor in resumed.parameters()] == places
    assert second.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
    for _ in range(3):
        step(whole, optimizer)
        step(resumed, second)
    assert_same([whole], [resumed])


def test_a_method_that_hides_an_optimizer_is_found_out():
    class Hiding:
        def __init__(self):
            self.networks = nn.Linear(2, 2)
            self._steps = {"optimizer": torch.optim.SGD(self.networks.parameters(), lr=0.1)}

        def penalty(self, penalized, rows, resampled):
            raise AssertionError("no step is taken")

    data = simulate()
    network = StackedMLP(4, (6,), 1, generators=generators([1], "predictor")).to(data.x)
    step = PredictorStep(
        Predictor(network, TASKS["binary"]),
        data,
        [Member(0.5, 1)],
        method=Hiding(),
        settings=TrainingSettings(),
    )
    with pytest.raises(
        AssertionError, match="Hiding must have every optimizer of its networks as an attribute"
    ):
        step.optimizers()
