import pytest
import torch
from torch import nn

from equipoise.training import OptimizerSettings
from equipoise.training.loop import _Losses
from equipoise.training.optimizers import decay, minimize, set_learning_rate


def test_decay_takes_its_share_of_the_learning_rate_off_each_member():
    weight, bias = nn.Parameter(torch.ones(2, 3, 4)), nn.Parameter(torch.ones(2, 3))
    optimizer = OptimizerSettings(learning_rate=0.1).build([weight, bias])
    decay(optimizer, torch.tensor([1.0, 0.02]))
    for kept in (weight, bias):
        torch.testing.assert_close(kept[0], torch.full_like(kept[0], 0.9))
        torch.testing.assert_close(kept[1], torch.full_like(kept[1], 0.998))
    set_learning_rate(optimizer, 0.5)
    decay(optimizer, torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(bias[:, 0], torch.tensor([0.45, 0.998]))


def test_shares_weigh_losses_as_a_sum_would():
    start = torch.tensor([[1.0], [2.0]])
    shares = torch.tensor([0.25, 0.9]), torch.tensor([0.75, 0.1])

    def trained(step):
        weight = nn.Parameter(start.clone())
        optimizer = torch.optim.SGD([weight], lr=0.1)
        step(weight, optimizer)
        return weight.detach()

    def together(weight, optimizer):
        losses = weight.square().sum(1), weight.pow(3).sum(1)
        minimize(losses, optimizer, shares)

    def by_hand(weight, optimizer):
        first, second = weight.square().sum(1), weight.pow(3).sum(1)
        (shares[0] * first + shares[1] * second).sum().backward()
        optimizer.step()

    torch.testing.assert_close(trained(together), trained(by_hand))
    # d/dw of 0.25 w^2 + 0.75 w^3 at 1 is 2.75; of 0.9 w^2 + 0.1 w^3 at 2 it is 4.8.
    torch.testing.assert_close(trained(together), torch.tensor([[0.725], [1.52]]))


def test_losses_are_averaged_and_it_is_said_where_losses_ended():
    losses = _Losses(2, torch.device("cpu"), entries=4)
    for task in ([1.0, 2.0], [3.0, float("nan")], [5.0, 6.0]):
        losses.add(torch.tensor(task), torch.tensor([0.5, 0.5]))
    averages, finite = losses.close(3)
    assert averages[0, 0] == 3 and averages[0, 1].isnan()
    assert averages[1].tolist() == [0.5, 0.5]
    assert finite.tolist() == [3, 1]
    # Closing starts anew: what was entered before no longer counts.
    losses.add(torch.tensor([7.0, 8.0]), torch.tensor([1.0, float("inf")]))
    averages, finite = losses.close(1)
    assert averages[0].tolist() == [7, 8]
    assert finite.tolist() == [1, 0]


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_a_learning_rate_can_be_changed(kind):
    weight = nn.Parameter(torch.ones(1, 1))
    optimizer = OptimizerSettings(kind=kind, learning_rate=0.1).build([weight])
    set_learning_rate(optimizer, 0.0)
    minimize(weight.sum(1), optimizer)
    assert weight.item() == 1


@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("adam", lambda weights: torch.optim.Adam(weights, lr=0.05)),
        ("sgd", lambda weights: torch.optim.SGD(weights, lr=0.05, momentum=0.2)),
    ],
)
def test_optimizers_take_the_steps_of_torchs_own(kind, reference):
    start = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))

    def trained(build):
        weight, idle = nn.Parameter(start.clone()), nn.Parameter(torch.ones(2))
        optimizer = build([weight, idle])
        for step in range(1, 8):
            weight.grad = weight.detach() ** 2 / step
            optimizer.step()
        assert torch.equal(idle, torch.ones(2))
        return weight.detach()

    settings = OptimizerSettings(kind=kind, learning_rate=0.05, momentum=0.2)
    torch.testing.assert_close(trained(settings.build), trained(reference))
