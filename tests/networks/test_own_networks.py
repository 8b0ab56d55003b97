"""Networks of a user's own: every kind of weight works, or is refused in words before it trains."""

import numpy as np
import pytest
import torch
from torch import nn

from equipoise import FairClassifier, FairRegressor, load
from equipoise.errors import InputError
from equipoise.networks import StackedModule

N = 80
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, 3))
Y = (X[:, 0] + RANDOM.normal(size=N) > 0).astype(int)
SMALL = {"strength": 0.0, "iterations": 20, "batch_size": 20, "random_state": 0}
#: One network that trains on all rows.
ALONE = {"members": 1, "early_stopping": None}


class Tempered(nn.Module):
    """Weights and buffers of every kind: scalar, integer, boolean, shared, frozen, odd names."""

    def __init__(self, n_inputs, n_outputs):
        super().__init__()
        self.body = nn.Linear(n_inputs, n_inputs)
        self.again = self.body
        self.head = nn.Linear(n_inputs, n_outputs)
        self.members = nn.Parameter(torch.tensor(1.5))
        self.fixed = nn.Parameter(torch.full((n_inputs,), 2.0), requires_grad=False)
        self.body__weight = nn.Parameter(torch.ones(n_outputs))
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("uses", torch.tensor([True] * n_inputs))
        self.register_buffer("level", torch.tensor(0.25))
        self.register_buffer("order", torch.arange(n_inputs).flip(0), persistent=False)

    def forward(self, x):
        if self.training:
            self.calls += 1
        hidden = self.again(torch.tanh(self.body(x * self.fixed)))
        hidden = torch.where(self.uses, hidden, 0.0)[:, self.order]
        return self.head(hidden) * self.members * self.body__weight + self.level


def alone(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Tempered(3, 2)


def test_weights_of_every_kind_stacked_equal_their_copies_one_by_one():
    stack = StackedModule(lambda: Tempered(3, 2), seeds=[3, 4])
    x = torch.from_numpy(X[:10]).float().expand(2, -1, -1)
    out = stack(x)
    for member, seed in enumerate([3, 4]):
        torch.testing.assert_close(out[member], alone(seed)(x[member]))
    assert stack.get_buffer("calls").tolist() == [1, 1]
    # Shared weights are there once, frozen ones stay frozen.
    assert [name for name, weight in stack.named_parameters() if not weight.requires_grad] == [
        "fixed"
    ]
    assert sum(name.startswith("again") for name, _ in stack.named_parameters()) == 0


def test_weights_of_every_kind_train_and_are_kept_in_files(tmp_path):
    model = FairClassifier(network=Tempered, weight_decay=1.0, **ALONE, **SMALL).fit(X, Y)
    network = model.predictor_.network
    assert model.history_.stopped_at.tolist() == [0]
    assert network.get_buffer("calls").tolist() == [20]
    assert network.get_parameter("fixed").flatten().tolist() == [2.0] * 3
    assert abs(network.get_parameter("members_").item() - 1.5) > 1e-4
    model.save(tmp_path / "own.equipoise")
    again = load(tmp_path / "own.equipoise", network=Tempered)
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-12)


# A few iterations teach it too little to be better than chance.
@pytest.mark.filterwarnings("ignore:The score may say nothing:equipoise.errors.ConvergenceWarning")
def test_several_networks_that_change_their_buffers_are_averaged_and_judged():
    model = FairClassifier(network=Tempered, members=4, **SMALL).fit(X, Y)
    assert model.predictor_.network.get_buffer("calls").tolist() == [20] * 4
    assert model.health_.utility == "AUC"


def test_a_scalar_weight_that_is_no_longer_finite_stops_its_member():
    class Exploding(nn.Module):
        def __init__(self, n_inputs, n_outputs):
            super().__init__()
            self.head = nn.Linear(n_inputs, n_outputs)
            self.scale = nn.Parameter(torch.tensor(1.0))
            self.register_buffer("steps", torch.tensor(0))

        def forward(self, x):
            if self.training:
                self.steps += 1
            return self.head(x) * self.scale + torch.where(self.steps > 70, torch.nan, 0.0)

    with pytest.warns(UserWarning, match="no longer finite at iteration 71"):
        model = FairRegressor(network=Exploding, **ALONE, **{**SMALL, "iterations": 150})
        model.fit(X, X[:, 0])
    assert model.health_.stopped_at == 71
    assert model.predictor_.network.get_buffer("steps").tolist() == [50]


class Complex(nn.Module):
    def __init__(self, n_inputs, n_outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_inputs, n_outputs, dtype=torch.complex64))

    def forward(self, x):
        return (x.to(self.weight.dtype) @ self.weight).real


class Random(nn.Module):
    """Of another width at every call."""

    widths = iter(range(1, 100))

    def __init__(self, n_inputs, n_outputs):
        super().__init__()
        self.body = nn.Linear(n_inputs, next(self.widths))


class Reads(nn.Module):
    def __init__(self, n_inputs, n_outputs):
        super().__init__()
        self.head = nn.Linear(n_inputs, n_outputs)

    def forward(self, x):
        return self.head(x) * self.head.weight.sum().item()


def frozen(n_inputs, n_outputs):
    return nn.Linear(n_inputs, n_outputs).requires_grad_(False)


REFUSED = {
    "without weights": (lambda i, o: nn.Flatten(), ["weights to train", "without any"]),
    "frozen": (frozen, ["weights to train", "none that needs a gradient", "requires_grad"]),
    "complex": (Complex, ["real weights", "'weight'", "complex64", "two weights"]),
    "sizes left open": (lambda i, o: nn.LazyLinear(o), ["network must", "give their sizes"]),
    "other inputs": (lambda i, o: nn.Linear(i + 1, o), ["8 rows of 3 inputs", "RuntimeError"]),
    "other outputs": (lambda i, o: nn.Linear(i, o + 1), ["1 outputs", "got 2"]),
    "no outputs": (
        lambda i, o: nn.Sequential(nn.Linear(i, 1), nn.Flatten(0)),
        ["(rows, outputs)", "(8,)", "end it with a Linear layer"],
    ),
    "other rows": (
        lambda i, o: nn.Sequential(nn.Linear(i, 2), nn.Unflatten(0, (4, 2)), nn.Flatten(1)),
        ["(rows, outputs)", "(4, 4) for 8 rows"],
    ),
    "reads values back": (Reads, ["torch.func.vmap", "got RuntimeError", "try the module"]),
}


@pytest.mark.parametrize(("network", "parts"), REFUSED.values(), ids=REFUSED)
def test_a_network_that_cannot_train_is_refused_before_it_trains(network, parts):
    with pytest.raises(InputError) as refused:
        FairClassifier(network=network, **SMALL).fit(X, Y)
    message = str(refused.value)
    assert message.startswith("network must")
    for part in parts:
        assert part in message


def test_a_function_that_makes_another_network_at_every_call_is_refused():
    with pytest.raises(InputError, match=r"network must return modules of one kind.*stacked"):
        StackedModule(lambda: Random(3, 1), seeds=[0, 1])


def test_trying_a_network_leaves_no_trace():
    stack = StackedModule(lambda: Tempered(3, 2), seeds=[0])
    before, drawn = stack.state_dict(), torch.get_rng_state()
    stack.try_on(torch.zeros(20, 3), 2)
    assert all(torch.equal(before[name], tensor) for name, tensor in stack.state_dict().items())
    assert torch.equal(torch.get_rng_state(), drawn)
    assert stack.training
