"""Every kernel equals the library path beside it, value and gradient.

On a GPU as compiled; where Triton is installed without one, by its interpreter.
"""

import copy
import os

import pytest
import torch
from torch import nn

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton is not installed")

from equipoise.divergences import DIVERGENCES
from equipoise.networks import StackedBatchNorm, kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MEMBERS, WIDTH, ROWS = 3, 5, 130


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("relu", [True, False])
def test_normalization(affine, relu):
    library = StackedBatchNorm(MEMBERS, WIDTH, affine=affine).to(DEVICE)
    if affine:
        nn.init.normal_(library.weight)
        nn.init.normal_(library.bias)
    other = copy.deepcopy(library)
    # Rows first in memory, and a mean far from zero.
    x = (3 * draw(MEMBERS, ROWS, WIDTH) + 20).transpose(1, 2).requires_grad_()
    y = x.detach().clone().requires_grad_()
    for _ in range(2):
        expected = library._by_library(x, library.weight, library.bias, relu)
        running = other.running_mean, other.running_var, other.batches_seen
        given = running, other.epsilon, other.newest_weight, relu
        found = kernels.Normalize.apply(y, other.weight, other.bias, *given)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    gradient = draw(MEMBERS, WIDTH, ROWS, seed=1)
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
