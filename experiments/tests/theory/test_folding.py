"""Folding: dense layers that do exactly what the network does in evaluation."""

import numpy as np
import pytest
import torch
from torch import nn

from equipoise import SBPPenalty
from equipoise.errors import InputError
from equipoise.networks import StackedMLP, find_pieces, select_members
from equipoise.training.data import generators
from experiments.theory import DenseNetwork, fold


def rows(n: int = 64, p: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, p, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def sequential() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.BatchNorm1d(3),
            nn.Linear(3, 5),
            nn.BatchNorm1d(5),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Sequential(nn.Linear(5, 4, bias=False), nn.ReLU(), nn.Identity()),
            nn.Linear(4, 1),
        )
        for seed in range(5):
            network(3 * rows(seed=seed).float() + 1)  # running statistics far from their start
    return network


def stacked(normalization: str, members: int = 1) -> StackedMLP:
    network = StackedMLP(
        3,
        (6, 5),
        1,
        generators=generators(range(members), "predictor"),
        normalization=normalization,
    )
    for seed in range(5):
        network((2 * rows(seed=seed).float() - 1).expand(members, -1, -1))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1
    return network


def test_batch_normalization_folds_without_changing_an_output():
    network = sequential()
    expected = network.double().eval()(rows())[:, 0]
    folded = fold(network)
    torch.testing.assert_close(folded(rows()), expected, rtol=1e-12, atol=1e-12)
    assert folded.widths == (3, 5, 4, 1)
    assert folded.has_bias


@pytest.mark.parametrize("normalization", ["batch", "none", "spectral"])
def test_stacked_networks_fold_without_changing_an_output(normalization):
    network = stacked(normalization)
    folded = fold(network)
    expected = network.double().eval()(rows()[None])[0, :, 0]
    torch.testing.assert_close(folded(rows()), expected, rtol=1e-10, atol=1e-12)
    if normalization == "spectral":
        assert folded.lipschitz == pytest.approx(1, abs=0.05)


def test_a_critic_folds_with_the_standardization_in_front():
    penalty = SBPPenalty(hidden=(6,), random_state=1)
    score, a = 5 + 2 * rows(p=1)[:, 0], rows(p=2, seed=1).sigmoid()
    for _ in range(20):
        penalty(score, a)
    game = penalty.game.eval()
    seen = game.scale(score[None, None])[0, 0]
    expected = game.critic(torch.cat([seen[:, None], a], 1)[None])[0, :, 0]
    folded = fold(penalty)
    found = folded(torch.cat([score[:, None], a], 1))
    assert folded.widths == (3, 6, 1)
    assert found.std() > 0.01
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_folding_leaves_the_network_as_it_was():
    network = sequential().train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    fold(network)
    assert network.training
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_norms_are_those_of_linear_algebra():
    folded = fold(sequential())
    for number, weight in enumerate(folded.weights):
        singular = np.linalg.svd(weight.numpy(), compute_uv=False)
        assert folded.spectral_norms[number] == pytest.approx(singular[0], rel=1e-12)
        assert folded.frobenius_norms[number] == pytest.approx(
            np.sqrt((singular**2).sum()), rel=1e-12
        )
    assert folded.lipschitz == pytest.approx(np.prod(folded.spectral_norms), rel=1e-12)


def test_no_two_outputs_are_further_apart_than_the_lipschitz_constant_allows():
    folded = fold(stacked("batch"))
    one, other = rows(4000, seed=1), rows(4000, seed=2)
    near = one + 1e-4 * other
    for partner in (other, near):
        ratio = (folded(one) - folded(partner)).abs() / (one - partner).norm(dim=1)
        assert ratio.max() <= folded.lipschitz
        assert ratio.max() > folded.lipschitz / 20


def test_the_lipschitz_constant_is_reached_by_a_linear_network():
    folded = DenseNetwork((torch.tensor([[3.0, 4.0]]).double(),), (torch.zeros(1).double(),))
    assert folded.lipschitz == 5
    assert float(folded(torch.tensor([[0.6, 0.8]]))) == pytest.approx(5)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (
            nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1)),
            "network must be made of dense layers, batch normalization and ReLU, got Tanh; a norm "
            "bound for it is not known here (a built-in network needs embedding='none')",
        ),
        (
            nn.Sequential(nn.BatchNorm1d(2, track_running_stats=False), nn.Linear(2, 1)),
            "network must be made of dense layers, batch normalization and ReLU, got BatchNorm1d; "
            "a norm bound for it is not known here (a built-in network needs embedding='none')",
        ),
        (
            nn.Sequential(nn.Linear(2, 1), nn.ReLU()),
            "network must end in a dense layer with one output, it ends in ReLU",
        ),
        (
            nn.Sequential(nn.Linear(2, 3)),
            "network must end in a dense layer with one output, it ends in 3 outputs",
        ),
        (
            nn.Sequential(nn.ReLU(), nn.Linear(2, 1)),
            "network must begin with a dense layer, it begins with ReLU",
        ),
        (nn.Sequential(), "network must hold at least one dense layer"),
    ],
)
def test_what_is_not_supported_is_refused(network, message):
    with pytest.raises(InputError) as refusal:
        fold(network)
    assert str(refusal.value) == message


def test_members_are_taken_out_one_by_one():
    network = stacked("none", members=2)
    with pytest.raises(InputError) as refusal:
        fold(network)
    assert str(refusal.value) == (
        "network must hold one member, got 2; take one out with "
        "equipoise.networks.select_members(network, [0])"
    )
    second = fold(select_members(network, [1]))
    expected = network.double().eval()(rows().expand(2, -1, -1))[1, :, 0]
    torch.testing.assert_close(second(rows()), expected, rtol=1e-12, atol=1e-12)


def test_pieces_are_refused():
    cut = StackedMLP(
        3, (4,), 1, generators=generators([0], "predictor"), pieces=find_pieces(rows())
    )
    with pytest.raises(InputError, match=r"got PiecewiseLinear; .* needs embedding='none'"):
        fold(cut)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"divergence": "kl"}, "notion='independence' and divergence='kl'"),
        ({"notion": "separation"}, "notion='separation' and divergence='js'"),
    ],
)
def test_a_critic_of_another_game_is_refused(options, found):
    penalty = SBPPenalty(**options)
    outcome = [rows(p=1, seed=2)[:, 0]] if "notion" in options else []
    penalty(rows(p=1)[:, 0], rows(p=1, seed=1)[:, 0], *outcome)
    with pytest.raises(InputError) as refusal:
        fold(penalty)
    assert str(refusal.value) == (
        f"the theorem is about notion='independence' and divergence='js', got {found}"
    )


def test_what_is_not_there_yet_is_refused():
    with pytest.raises(InputError) as refusal:
        fold(SBPPenalty())
    assert str(refusal.value) == (
        "the penalty has no critic yet; train with it, penalty(score, a), first"
    )
    with pytest.raises(InputError, match=r"network must be a torch\.nn\.Module, got NoneType"):
        fold(SBPPenalty().game)
