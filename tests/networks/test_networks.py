import copy
import pickle

import pytest
import torch
from torch import nn

from equipoise.errors import InputError
from equipoise.networks import (
    StackedBatchNorm,
    StackedLinear,
    StackedMLP,
    StackedModule,
    copy_members,
    select_members,
)


def seeded(*seeds):
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def plain_mlp(stack: StackedMLP, member: int) -> nn.Sequential:
    """The same network as ordinary torch layers."""
    layers: list[nn.Module] = []
    for layer in stack.layers:
        if isinstance(layer, StackedLinear):
            plain = nn.Linear(layer.weight.shape[2], layer.weight.shape[1])
            plain.weight.data = layer.weight.data[member].clone()
            if layer.bias is None:  # before a normalization, which takes it out again
                plain.bias.data.zero_()
            else:
                plain.bias.data = layer.bias.data[member].clone()
        elif isinstance(layer, StackedBatchNorm):
            plain = nn.BatchNorm1d(layer.weight.shape[1], eps=layer.epsilon)
        else:
            plain = nn.ReLU()
        layers.append(plain)
    return nn.Sequential(*layers)


@pytest.mark.parametrize("hidden", [(), (5,), (8, 8, 8)])
@pytest.mark.parametrize("normalization", ["batch", "none"])
def test_stacked_mlp_equals_torch_layers_member_by_member(hidden, normalization):
    stack = StackedMLP(3, hidden, 2, generators=seeded(1, 2, 3), normalization=normalization)
    x = torch.randn(3, 11, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    out = stack(x)
    out.square().sum().backward()
    for member in range(3):
        plain = plain_mlp(stack, member)
        rows = x.detach()[member].requires_grad_()
        expected = plain(rows)
        expected.square().sum().backward()
        torch.testing.assert_close(out[member], expected)
        torch.testing.assert_close(x.grad[member], rows.grad, rtol=1e-4, atol=1e-5)


def test_a_member_starts_the_same_whoever_else_is_in_the_stack():
    together = StackedMLP(4, (6,), 1, generators=seeded(5, 9))
    alone = StackedMLP(4, (6,), 1, generators=seeded(9))
    for (_, stacked), (_, single) in zip(
        together.named_parameters(), alone.named_parameters(), strict=True
    ):
        assert torch.equal(stacked[1], single[0])


def test_start_weights_are_glorot_uniform():
    layer = StackedLinear(30, 50, generators=seeded(0))
    bound = (6 / 80) ** 0.5
    assert layer.weight.abs().max() <= bound
    assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
    assert not layer.bias.any()


def test_batch_norm_statistics_are_averages_at_first_then_exponential():
    norm = StackedBatchNorm(1, 1)
    batches = torch.randn(150, 1, 1, 20, generator=torch.Generator().manual_seed(3)) + 4
    for batch in batches[:50]:
        norm(batch)
    expected = batches[:50].mean()
    torch.testing.assert_close(norm.running_mean[0, 0], expected)
    for batch in batches[50:]:
        norm(batch)
    weights = torch.tensor([1.0])
    for step in range(2, 151):
        newest = max(0.01, 1 / step)
        weights = torch.cat([weights * (1 - newest), torch.tensor([newest])])
    torch.testing.assert_close(norm.running_mean[0, 0], (weights * batches.mean((1, 2, 3))).sum())


def test_spectral_layers_have_largest_singular_value_one_and_match_torch():
    layer = StackedLinear(7, 5, generators=seeded(1, 2), spectral=True)
    reference = nn.Linear(7, 5)
    reference.weight.data = layer.weight.data[1].clone()
    reference = nn.utils.parametrizations.spectral_norm(reference)
    for _ in range(100):
        effective = layer._unit_weight()
        reference(torch.zeros(1, 7))
    for member in range(2):
        largest = torch.linalg.svdvals(effective[member])[0]
        assert largest.item() == pytest.approx(1, abs=1e-4)
    torch.testing.assert_close(effective[1], reference.weight, rtol=1e-3, atol=1e-4)


def test_spectral_evaluation_changes_nothing():
    layer = StackedLinear(7, 5, generators=seeded(1), spectral=True).eval()
    before = layer.left.clone()
    layer(torch.ones(1, 7, 3))
    assert torch.equal(layer.left, before)


def small_module():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


def test_a_users_module_stacked_equals_its_copies_one_by_one():
    stack = StackedModule(small_module, seeds=[3, 4])
    x = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(0))
    out = stack(x)
    for member, seed in enumerate([3, 4]):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            alone = small_module()
        torch.testing.assert_close(out[member], alone(x[member]))
        torch.testing.assert_close(
            stack.get_buffer("1__running_mean")[member], alone[1].running_mean
        )
        torch.testing.assert_close(
            stack.eval()(x)[member], alone.eval()(x[member]), rtol=1e-5, atol=1e-6
        )
        stack.train()


def test_stacking_a_users_module_leaves_the_global_generator_alone():
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    StackedModule(small_module, seeds=[0, 1])
    assert torch.equal(torch.rand(3), expected)


def test_a_factory_that_returns_no_module_is_refused():
    with pytest.raises(
        InputError,
        match=r"network must be a function that returns a torch\.nn\.Module, got int",
    ):
        StackedModule(lambda: 3, seeds=[0])


def test_a_module_without_output_columns_is_refused():
    stack = StackedModule(lambda: nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), seeds=[0])
    with pytest.raises(
        InputError,
        match=r"network must return outputs of shape \(rows, outputs\), one row per row of inputs, "
        r"got \(5,\) for 5 rows; end it with a Linear layer",
    ):
        stack(torch.zeros(1, 5, 3))


@pytest.mark.parametrize(
    "stack",
    [
        StackedMLP(3, (4,), 1, generators=seeded(1, 2, 3)),
        StackedModule(small_module, seeds=[1, 2, 3]),
    ],
    ids=["built-in", "own module"],
)
def test_selected_members_are_the_members(stack):
    x = torch.randn(3, 8, 3, generator=torch.Generator().manual_seed(0))
    stack(x)
    stack.eval()
    chosen = select_members(stack, [2, 0])
    assert chosen.members == 2
    torch.testing.assert_close(chosen(x[[2, 0]]), stack(x)[[2, 0]])
    revived = pickle.loads(pickle.dumps(chosen))
    assert torch.equal(revived(x[:2]), chosen(x[:2]))


def test_copying_members_touches_only_those_marked():
    source = StackedMLP(3, (4,), 1, generators=seeded(1, 2))
    target = StackedMLP(3, (4,), 1, generators=seeded(3, 4))
    before = copy.deepcopy(target)
    copy_members(source, target, torch.tensor([False, True]))
    for new, old, given in zip(
        target.parameters(), before.parameters(), source.parameters(), strict=True
    ):
        assert torch.equal(new[0], old[0])
        assert torch.equal(new[1], given[1])


def test_batches_are_normalized_each_by_itself():
    layer = StackedBatchNorm(2, 3, batches=2).double()
    alone = StackedBatchNorm(2, 3).double()
    with torch.no_grad():
        layer.weight.uniform_(0.5, 2)
        layer.bias.uniform_(-1, 1)
        alone.weight.copy_(layer.weight)
        alone.bias.copy_(layer.bias)
    both = torch.randn(2, 3, 10, dtype=torch.float64)
    both[..., 5:] = 3 * both[..., 5:] + 7
    # Two calls of one layer, as the paper's program asks its critic twice.
    expected = torch.cat([alone(half, relu=True) for half in both.split(5, dim=-1)], -1)
    torch.testing.assert_close(layer(both, relu=True), expected)


def test_a_network_told_of_two_batches_is_the_network_asked_twice():
    told, asked = (
        StackedMLP(
            4, (5, 6), 1, generators=[torch.Generator().manual_seed(1)], batches=batches
        ).double()
        for batches in (2, 1)
    )
    rows = torch.randn(1, 14, 4, dtype=torch.float64, requires_grad=True)
    together, apart = told(rows), torch.cat([asked(half) for half in rows.split(7, dim=1)], 1)
    torch.testing.assert_close(together, apart)
    # Both normalize by the batch, so gradients must pass through its statistics alike.
    gradients = [torch.autograd.grad(out.square().sum(), rows)[0] for out in (together, apart)]
    torch.testing.assert_close(*gradients)
