"""Every kernel equals the library path beside it, value and gradient.

On a GPU as compiled; where Triton is installed without one, by its interpreter.
"""

import copy
import os

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton is not installed")

from equipoise.critic import CriticGame, CriticSettings
from equipoise.divergences import DIVERGENCES
from equipoise.networks import StackedBatchNorm, kernels
from equipoise.notions import Notion
from equipoise.predictors import Inputs
from equipoise.predictors.network import NetworkRecipe
from equipoise.training import (
    Member,
    OptimizerSettings,
    TrainingData,
    TrainingSettings,
    update_kernels,
)
from equipoise.training.optimizers import decay

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MEMBERS, WIDTH, ROWS = 3, 5, 130


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@pytest.mark.parametrize(
    ("affine", "batches"), [(True, 1), (True, 2), (False, 1)], ids=["affine", "batches", "plain"]
)
@pytest.mark.parametrize("relu", [True, False])
def test_normalization(affine, batches, relu):
    library = StackedBatchNorm(MEMBERS, WIDTH, affine=affine, batches=batches).to(DEVICE)
    if affine:
        nn.init.normal_(library.weight)
        nn.init.normal_(library.bias)
    other = copy.deepcopy(library)
    # Rows first in memory, and a mean far from zero.
    x = (3 * draw(MEMBERS, ROWS, WIDTH * batches) + 20).transpose(1, 2).requires_grad_()
    y = x.detach().clone().requires_grad_()
    of_channels = library._of_channels(library.weight), library._of_channels(library.bias)
    for _ in range(2):
        expected = library._by_library(x, *of_channels, relu)
        found = kernels.Normalize.apply(y, other.weight, other.bias, *other.settings, relu)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    gradient = draw(MEMBERS, WIDTH * batches, ROWS, seed=1)
    expected.backward(gradient)
    found.backward(gradient)
    torch.testing.assert_close(y.grad, x.grad, rtol=1e-4, atol=1e-5)
    for (name, mine), (_, theirs) in zip(
        other.state_dict().items(), library.state_dict().items(), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5, msg=name)
    for mine, theirs in zip(other.parameters(), library.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-4)


def test_bias_and_relu():
    x, bias = draw(MEMBERS, WIDTH, ROWS).requires_grad_(), draw(MEMBERS, WIDTH).requires_grad_()
    expected = torch.relu(x + bias.unsqueeze(-1))
    found = kernels.BiasRelu.apply(x, bias)
    torch.testing.assert_close(found, expected)
    gradient = draw(MEMBERS, WIDTH, ROWS, seed=1)
    for mine, theirs in zip(
        torch.autograd.grad(found, (x, bias), gradient),
        torch.autograd.grad(expected, (x, bias), gradient),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weighed", [(False, False), (False, True), (True, True)])
def test_jensen_shannon(weighed):
    weights = [
        draw(MEMBERS, 40, seed=2 + side).abs() if wanted else None
        for side, wanted in enumerate(weighed)
    ]
    output = (5 * draw(MEMBERS, 80)).requires_grad_()
    expected = DIVERGENCES["js"](output[:, :40], output[:, 40:], *weights)
    found = kernels.JensenShannon.apply(output, *weights)
    torch.testing.assert_close(found, expected)
    gradient = draw(MEMBERS, seed=1)
    (mine,) = torch.autograd.grad(found, output, gradient)
    (theirs,) = torch.autograd.grad(expected, output, gradient)
    torch.testing.assert_close(mine, theirs)


def same_gradients(found, expected, inputs, others):
    """Compare two results and their gradients with respect to (found's) inputs and others."""
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    gradient = draw(*expected.shape, seed=9)
    for mine, theirs in zip(
        torch.autograd.grad(found, inputs, gradient),
        torch.autograd.grad(expected, others, gradient),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def leaves(*shapes):
    """Return two copies of random tensors that need gradients."""
    drawn = [draw(*shape, seed=position) for position, shape in enumerate(shapes)]
    return tuple(tuple(each.clone().requires_grad_() for each in drawn) for _ in range(2))


@pytest.mark.parametrize("inputs", [5, 70])
def test_output_of_a_last_layer(inputs):
    shapes = (MEMBERS, inputs, ROWS), (MEMBERS, 1, inputs), (MEMBERS, 1)
    mine, theirs = leaves(*shapes)
    expected = theirs[1] @ theirs[0] + theirs[2].unsqueeze(-1)
    same_gradients(kernels.Output.apply(*mine), expected, mine, theirs)
    found = kernels.Output.apply(mine[0], mine[1].detach(), mine[2].detach())
    expected = theirs[1] @ theirs[0] + theirs[2].unsqueeze(-1)
    same_gradients(found, expected, mine[:1], theirs[:1])


@pytest.mark.parametrize("separation", [False, True])
def test_pairs_of_critics(separation):
    settings = CriticSettings()
    widths = 2, 3, 1 if separation else 0
    game = CriticGame(*widths, settings=settings, generators=[torch.Generator()] * MEMBERS)
    game = game.to(DEVICE)
    other = copy.deepcopy(game.scale)
    ((score,), (other_score,)) = leaves((MEMBERS, ROWS, 2))
    attribute, resampled = draw(MEMBERS, ROWS, 3, seed=2), draw(MEMBERS, ROWS, 3, seed=3)
    outcome = draw(MEMBERS, ROWS, 1, seed=4) if separation else None
    standardized = other._by_library(other_score.transpose(1, 2), None, None, False)
    parts = standardized.transpose(1, 2), *([outcome] if separation else [])
    (first, *rest) = (part.repeat(1, 2, 1) for part in parts)
    expected = torch.cat([first, torch.cat([attribute, resampled], 1), *rest], -1)
    given = score, attribute, resampled, outcome
    found = kernels.Pairs.apply(*given, *game.scale.settings)
    same_gradients(found, expected, (score,), (other_score,))
    for mine, theirs in zip(game.scale.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("weighed", [False, True])
def test_log_loss(weighed):
    ((logit,), (other,)) = leaves((MEMBERS, ROWS))
    target = (draw(MEMBERS, ROWS, seed=1) > 0).float()
    weight = draw(MEMBERS, ROWS, seed=2).abs() if weighed else None
    large = 20.0  # where 1 + exp(-c) is 1 in single precision
    entropy = binary_cross_entropy_with_logits(large * other, target, weight, reduction="none")
    found = kernels.LogLoss.apply(large * logit, target, weight)
    same_gradients(found, entropy.mean(1), (logit,), (other,))


def test_rows_are_taken():
    for values in (draw(50, 7), torch.arange(100, device=DEVICE).view(50, 2), draw(50)):
        rows = torch.randint(50, (MEMBERS, 90), generator=torch.Generator().manual_seed(0))
        for each in (rows.to(DEVICE), rows[:1].to(DEVICE).expand(MEMBERS, -1)):
            assert torch.equal(kernels.take(values, each), values[each])


def test_losses_are_recorded_one_after_the_other():
    entries = torch.zeros(3, 2, MEMBERS, dtype=torch.float64, device=DEVICE)
    place = torch.zeros(1, dtype=torch.long, device=DEVICE)
    drawn = [draw(2, MEMBERS, seed=seed) for seed in range(3)]
    for task, penalty in drawn:
        kernels.record(entries, place, task, penalty)
    torch.testing.assert_close(entries, torch.stack(drawn).double(), rtol=0, atol=0)
    assert place.item() == 3


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_updates_of_all_weights_equal_those_of_torch(kind):
    """As torch's own optimizers, which the other devices' optimizers equal, too."""
    shapes = (MEMBERS, 700), (MEMBERS, 4, 3)
    weights = [draw(*shape) for shape in shapes]
    flat, size = torch.cat([weight.reshape(-1) for weight in weights]), MEMBERS * 712
    rate = torch.tensor(0.01, device=DEVICE)
    whole = nn.Parameter(flat.clone())
    theirs = (
        torch.optim.Adam([whole], lr=0.01)
        if kind == "adam"
        else torch.optim.SGD([whole], lr=0.01, momentum=0.2)
    )
    first, second, step = torch.zeros(size).to(DEVICE), torch.zeros(size).to(DEVICE), rate * 0
    for seed in range(5):
        whole.grad = draw(size, seed=seed)
        theirs.step()
        if kind == "sgd":
            update_kernels.sgd(flat, whole.grad, first, rate, 0.2)
            continue
        step += 1
        settings = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
        update_kernels.adam(flat, whole.grad, first, second, step, rate, **settings)
    # Far below a step, which is 0.01.
    torch.testing.assert_close(flat, whole.detach(), rtol=1e-5, atol=2e-6)


def test_weights_of_each_member_shrink_by_its_share():
    weights = [draw(MEMBERS, 700), draw(MEMBERS, 4, 3)]
    flat = torch.cat([weight.reshape(-1) for weight in weights])
    shares, rate = torch.tensor([0.0, 0.5, 1.0], device=DEVICE), torch.tensor(0.1, device=DEVICE)
    update_kernels.shrink(flat, update_kernels.places_of(weights), shares, rate)
    factor = 1 - rate * shares
    expected = [weight * factor.view(-1, *[1] * (weight.dim() - 1)) for weight in weights]
    torch.testing.assert_close(flat, torch.cat([each.reshape(-1) for each in expected]))


@pytest.fixture
def by_kernels(monkeypatch):
    """Let training on this device use the kernels, also by Triton's interpreter."""

    def use(training):
        with monkeypatch.context() as patched:
            patched.setattr("equipoise.networks.mlp.kernels_on", lambda _: kernels)
            patched.setattr("equipoise.training.data.kernels_on", lambda _: kernels)
            patched.setattr("equipoise.training.optimizers.kernels_on", lambda *_: update_kernels)
            return training()

    return use


@pytest.mark.parametrize(
    ("normalization", "optimizer", "tolerance"),
    [
        ("batch", OptimizerSettings(kind="sgd", learning_rate=0.05), 1e-6),
        # Adam makes a step of full size of the sign of a gradient that is nearly zero.
        ("none", OptimizerSettings(learning_rate=0.01, weight_decay=0.1), 1e-3),
    ],
    ids=["batch, sgd", "adam"],
)
@pytest.mark.parametrize("notion", list(Notion))
def test_a_run_by_kernels_equals_one_by_the_library(
    by_kernels, normalization, optimizer, tolerance, notion
):
    """Gathers, layers, pairs, losses, updates and records together."""
    x, a = draw(40, 3), draw(40, 1, seed=1)
    y = (x[:, 0] + a[:, 0] > 0).float()
    data = TrainingData(x=x, target=y, outcome=y[:, None], attribute=a)
    recipe = NetworkRecipe(
        notion=notion,
        method="sbp",
        density_ratio="none",
        critic=CriticSettings(hidden=(4,), normalization=normalization, optimizer=optimizer),
        training=TrainingSettings(iterations=5, batch_size=20, optimizer=optimizer, check_every=2),
        hidden=(4, 4),
        normalization=normalization,
    )
    members = [Member(0.8, seed) for seed in range(2)]

    def history():
        torch.set_float32_matmul_precision("highest")
        trained = recipe.train(data, members, Inputs(task="binary", n_outputs=1))
        return np.stack([trained.history.task, trained.history.penalty])

    np.testing.assert_allclose(by_kernels(history), history(), rtol=0, atol=tolerance)


def test_weights_and_moments_that_were_replaced_are_laid_flat_again(by_kernels):
    """As after a resumed run, or after a module was moved."""
    weights = [nn.Parameter(draw(MEMBERS, 5)), nn.Parameter(draw(MEMBERS, 2, 3, seed=1))]
    others = [nn.Parameter(weight.detach().clone()) for weight in weights]
    settings = OptimizerSettings(learning_rate=0.1)
    mine, theirs = by_kernels(lambda: settings.build(weights)), settings.build(others)

    def step():
        for each in (weights, others):
            for seed, weight in enumerate(each):
                weight.grad = draw(*weight.shape, seed=seed)
        by_kernels(mine.step)
        assert mine.flat is not None
        theirs.step()

    step()
    for weight in weights:
        weight.data = weight.data.clone()
        mine.state[weight] = {name: kept.clone() for name, kept in mine.state[weight].items()}
    step()
    weights, mine = copy.deepcopy((weights, mine))
    step()
    for weight, other in zip(weights, others, strict=True):
        torch.testing.assert_close(weight, other, rtol=1e-5, atol=1e-6)
        assert mine.state[weight]["step"] == 3


def test_weights_without_a_gradient_shrink_like_all_others(by_kernels):
    weights = [nn.Parameter(draw(MEMBERS, 5)), nn.Parameter(draw(MEMBERS, 2, seed=1))]
    optimizer = by_kernels(lambda: OptimizerSettings(learning_rate=0.1).build(weights))
    weights[0].grad = torch.zeros_like(weights[0])
    before = [weight.detach().clone() for weight in weights]
    by_kernels(optimizer.step)
    assert optimizer.flat is not None
    by_kernels(lambda: decay(optimizer, torch.full((MEMBERS,), 0.5, device=DEVICE)))
    for weight, old in zip(weights, before, strict=True):
        torch.testing.assert_close(weight.detach(), 0.95 * old)
