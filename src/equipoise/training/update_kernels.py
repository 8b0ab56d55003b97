"""Triton kernels that update all weights of an optimizer at once, on a GPU.

torch's own fused optimizers give 65,536 weights to one block of threads, so that small networks
leave most of a GPU idle. Here weights lie one after the other in one tensor, and gradients and
moments likewise.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

#: Weights that one program updates.
_BLOCK = 1024


def sgd(weights: Tensor, gradients: Tensor, moments: Tensor, rate: Tensor, momentum: float) -> None:
    """Stochastic gradient descent with momentum, in place; all are (n,), rate is a scalar."""
    given = weights, gradients, moments, rate, weights.numel(), momentum
    with torch.cuda.device_of(weights):
        _sgd_kernel[_blocks(weights)](*given, BLOCK=_BLOCK)


def adam(
    weights: Tensor,
    gradients: Tensor,
    first: Tensor,
    second: Tensor,
    steps: Tensor,
    rate: Tensor,
    *,
    beta1: float,
    beta2: float,
    eps: float,
) -> None:
    """Adam, in place; all are (n,), but rate and the number of this step are scalars."""
    given = weights, gradients, first, second, steps, rate, weights.numel()
    logs = math.log(beta1), math.log(beta2)
    with torch.cuda.device_of(weights):
        _adam_kernel[_blocks(weights)](*given, beta1, beta2, *logs, eps, BLOCK=_BLOCK)


def shrink(weights: Tensor, places: Tensor, shares: Tensor, rate: Tensor) -> None:
    """Multiply each weight by 1 - rate * shares[its member], in place.

    places: (blocks, 4) begin and end of a block, where its tensor begins, and weights of a member.
    """
    with torch.cuda.device_of(weights):
        _shrink_kernel[(len(places),)](weights, places, shares, rate, BLOCK=_BLOCK)


def places_of(weights: list[Tensor]) -> Tensor:
    """Return where the blocks of `shrink` lie, for tensors (K, ...) one after the other."""
    places, begin = [], 0
    for weight in weights:
        size, end = weight[0].numel(), begin + weight.numel()
        places += [(at, end, begin, size) for at in range(begin, end, _BLOCK)]
        begin = end
    return torch.tensor(places, dtype=torch.int64, device="cpu").to(weights[0].device)


def _blocks(weights: Tensor) -> Any:
    return (triton.cdiv(weights.numel(), _BLOCK),)


@triton.jit
def _of_program(n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return at, at < n


@triton.jit
def _sgd_kernel(weights, gradients, moments, rate, n, momentum, BLOCK: tl.constexpr):
    at, exists = _of_program(n, BLOCK)
    moment = tl.load(moments + at, mask=exists) * momentum + tl.load(gradients + at, mask=exists)
    tl.store(moments + at, moment, mask=exists)
    weight = tl.load(weights + at, mask=exists)
    tl.store(weights + at, weight - tl.load(rate) * moment, mask=exists)


@triton.jit
def _adam_kernel(
    weights,
    gradients,
    first,
    second,
    steps,
    rate,
    n,
    beta1,
    beta2,
    log_beta1,
    log_beta2,
    epsilon,
    BLOCK: tl.constexpr,
):
    at, exists = _of_program(n, BLOCK)
    step = tl.load(steps).to(tl.float64)
    # 1 - beta ** step, in double precision since the power may be close to one.
    correction1 = (1.0 - tl.exp(step * log_beta1)).to(tl.float32)
    correction2 = (1.0 - tl.exp(step * log_beta2)).to(tl.float32)
    gradient = tl.load(gradients + at, mask=exists)
    moment = tl.load(first + at, mask=exists)
    moment += (1.0 - beta1) * (gradient - moment)
    tl.store(first + at, moment, mask=exists)
    square = tl.load(second + at, mask=exists)
    square = beta2 * square + (1.0 - beta2) * gradient * gradient
    tl.store(second + at, square, mask=exists)
    deviation = tl.sqrt(square) / tl.sqrt(correction2) + epsilon
    weight = tl.load(weights + at, mask=exists)
    weight -= tl.load(rate) / correction1 * (moment / deviation)
    tl.store(weights + at, weight, mask=exists)


@triton.jit
def _shrink_kernel(weights, places, shares, rate, BLOCK: tl.constexpr):
    place = places + tl.program_id(0) * 4
    begin, end = tl.load(place), tl.load(place + 1)
    origin, size = tl.load(place + 2), tl.load(place + 3)
    at = begin + tl.arange(0, BLOCK)
    exists = at < end
    share = tl.load(shares + (at - origin) // size, mask=exists)
    weight = tl.load(weights + at, mask=exists)
    tl.store(weights + at, weight * (1.0 - tl.load(rate) * share), mask=exists)
