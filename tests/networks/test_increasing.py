"""Networks that are increasing in a score, for every value of the other inputs."""

import numpy as np
import pytest
import torch

from equipoise.networks import (
    IncreasingStack,
    RankedStack,
    Saved,
    StackedMLP,
    score_knots,
    select_members,
)
from equipoise.networks.mlp import LINEAR_PATH


def rows(n=400, scores=1, others=2):
    return torch.randn(n, scores + others, generator=torch.Generator().manual_seed(0))


def stack(scores=1, others=2, seeds=(1, 2, 3), spread=3.0):
    """Networks far from their start, so that slopes differ much."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    knots = score_knots(rows(scores=scores)[:, :scores])
    outputs = scores + sum(map(len, knots))
    inner = StackedMLP(others, (8, 8), outputs, generators=generators, normalization="none")
    for weight in inner.parameters():
        weight.data *= spread
    return IncreasingStack(knots, inner).double().requires_grad_(False)


def ranked(kind, scores=2, seeds=(1, 2)):
    """Networks that see scores, ranks of scores given two other inputs, and these."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    ranks = select_members(stack(scores=scores, seeds=(7,)), [0] * len(seeds))
    if kind == "increasing":
        knots = score_knots(rows(scores=2 * scores)[:, : 2 * scores])
        outputs = scores + sum(map(len, knots))
        inner = StackedMLP(2, (8,), outputs, generators=generators, normalization="none")
        own = IncreasingStack(knots, inner)
    else:
        own = StackedMLP(
            2 * scores + 2, (8,), scores, generators=generators, linear_path=True
        ).eval()
    return RankedStack(ranks, own).double().requires_grad_(False)


@pytest.mark.parametrize("scores", [1, 3])
def test_each_output_increases_in_its_own_score_and_in_no_other(scores):
    grid = torch.linspace(-9, 9, 601, dtype=torch.float64)  # far beyond the knots on both sides
    network = stack(scores=scores)
    for others in torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator()):
        for own in range(scores):
            x = torch.zeros(len(grid), scores + 2, dtype=torch.float64)
            x[:, own], x[:, scores:] = grid, others
            out = network(x.expand(3, -1, -1))
            assert (out[..., own].diff(dim=1) > 0).all()
            rest = [each for each in range(scores) if each != own]
            torch.testing.assert_close(out[..., rest], out[:, :1, rest].expand(-1, 601, -1))


def test_the_output_is_the_sum_of_its_pieces():
    network = stack(seeds=(4,))
    knots, x = network.start[0].numpy(), rows(5).double()
    shape = network.by_others(x[None, :, 1:])[0].numpy()
    slopes = np.logaddexp(0, shape[:, 1:])
    low, high = np.append(-np.inf, knots[1:]), np.append(knots[1:], np.inf)
    for row, (score, *_) in enumerate(x.tolist()):
        pieces = np.clip(score, low, high) - np.clip(0, low, high)
        expected = shape[row, 0] + (slopes[row] * pieces).sum()
        assert network(x[None])[0, row, 0].item() == pytest.approx(expected)


def test_training_begins_as_a_linear_model_of_each_score_plus_its_layers():
    network, x = stack(scores=2), rows(7, scores=2).double()
    network.by_others.head.weight[1] = 0  # leaves out what the layers add
    before = network(x.expand(3, -1, -1))
    bias = torch.tensor([3.0, -2.0], dtype=torch.float64)
    weight = torch.tensor([[0.5, 9.0, 9.0, 9.0], [9.0, -1.0, 9.0, 9.0]], dtype=torch.float64)
    network.start_linear(1, weight, bias)
    after = network(x.expand(3, -1, -1))
    slopes = torch.tensor([0.5, 0.01], dtype=torch.float64)  # of a score with itself, positive
    torch.testing.assert_close(after[1], x[:, :2] * slopes + bias)
    torch.testing.assert_close(after[[0, 2]], before[[0, 2]])


def test_members_do_not_affect_each_other():
    x = rows(7, scores=2).double()
    together = stack(scores=2)
    alone = stack(scores=2, seeds=(2,))
    expected = alone(x[None])[0]
    torch.testing.assert_close(together(x.expand(3, -1, -1))[1], expected)
    chosen = select_members(together, [1])
    torch.testing.assert_close(chosen(x[None])[0], expected)


def test_restored_from_its_tensors():
    network = stack(scores=2)
    saved = Saved(state=network.state_dict(), inputs=4, outputs=2)
    again = IncreasingStack.restored(saved).double()
    again.load_state_dict(network.state_dict())
    x = rows(7, scores=2).double().expand(3, -1, -1)
    assert torch.equal(again(x), network(x))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("score_column", lambda columns: columns + 1),
        ("score_column", lambda columns: columns.flip(1)),
        ("score_column", lambda columns: columns[:, 1:]),
        ("start", lambda start: start.flip(1)),
        ("start", lambda start: start * torch.nan),
    ],
)
def test_tensors_that_contradict_each_other_are_refused(name, change):
    state = dict(stack(scores=2).state_dict())
    state[name] = change(state[name])
    with pytest.raises(ValueError, match="pieces"):
        IncreasingStack.restored(Saved(state=state, inputs=4, outputs=2))


def test_knots_are_quantiles_and_a_constant_has_one():
    column = torch.arange(3201.0)
    constant = torch.ones(3201)
    spread, alone = score_knots(torch.stack([column, constant], dim=1))
    assert spread.tolist() == (np.arange(16) * 200).tolist()
    assert alone.tolist() == [1]


def test_an_output_increases_in_its_score_and_in_the_rank_of_its_score():
    grid = torch.linspace(-9, 9, 601, dtype=torch.float64)
    network = ranked("increasing")
    assert network.width == 2
    for own in (0, 1):
        x = torch.full((len(grid), 4), 0.3, dtype=torch.float64)
        x[:, own] = grid
        out = network(x.expand(2, -1, -1))
        assert (out[..., own].diff(dim=1) > 0).all()
        other = out[..., 1 - own]
        torch.testing.assert_close(other, other[:, :1].expand(-1, 601))


def test_the_network_sees_ranks_of_variance_one_behind_the_scores():
    network, x = ranked("perceptron"), rows(7, scores=2).double().expand(2, -1, -1)
    ranks = network.ranks(x) * 3**0.5 / np.pi
    seen = torch.cat([x[..., :2], ranks, x[..., 2:]], -1)
    torch.testing.assert_close(network(x), network.network(seen))


@pytest.mark.parametrize("kind", ["increasing", "perceptron"])
def test_ranks_are_restored_with_their_network(kind):
    network = ranked(kind)
    arrays = network.arrays([])
    assert (LINEAR_PATH in arrays) == (kind == "perceptron")
    state = network.state_dict()
    saved = Saved(state=state, inputs=4, outputs=2, arrays=arrays)
    again = RankedStack.restored(saved).double().eval()
    again.load_state_dict(state)
    x = rows(7, scores=2).double().expand(2, -1, -1)
    torch.testing.assert_close(again(x), network(x), rtol=0, atol=0)
    with pytest.raises(ValueError, match="outputs"):
        RankedStack.restored(Saved(state=state, inputs=4, outputs=3, arrays=arrays))
