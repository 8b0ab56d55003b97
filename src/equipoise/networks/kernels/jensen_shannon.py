"""The value of K critics under the Jensen-Shannon divergence, one program a member."""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

LOG_2 = tl.constexpr(math.log(2.0))


@triton.jit
def _log_sigmoid(c):
    return tl.minimum(c, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(c)))


@triton.jit
def _value_kernel(
    output, real_weight, drawn_weight, value, rows, WEIGHED: tl.constexpr, BLOCK: tl.constexpr
):
    member = tl.program_id(0)
    r = tl.arange(0, BLOCK)
    inside = r < rows
    at = member.to(tl.int64) * rows + r
    start = member.to(tl.int64) * 2 * rows
    real = _log_sigmoid(tl.load(output + start + r, mask=inside, other=0.0)) + LOG_2
    drawn = _log_sigmoid(-tl.load(output + start + rows + r, mask=inside, other=0.0)) + LOG_2
    if WEIGHED:
        real *= tl.load(real_weight + at, mask=inside, other=0.0)
        drawn *= tl.load(drawn_weight + at, mask=inside, other=0.0)
    tl.store(value + member, tl.sum(tl.where(inside, real + drawn, 0.0), 0) / rows)


@triton.jit
def _gradient_kernel(
    grad_value,
    output,
    real_weight,
    drawn_weight,
    grad_output,
    rows,
    WEIGHED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    member = tl.program_id(0)
    r = tl.arange(0, BLOCK)
    inside = r < rows
    at = member.to(tl.int64) * rows + r
    start = member.to(tl.int64) * 2 * rows
    g = tl.load(grad_value + member) / rows
    real = g * tl.sigmoid(-tl.load(output + start + r, mask=inside, other=0.0))
    drawn = -g * tl.sigmoid(tl.load(output + start + rows + r, mask=inside, other=0.0))
    if WEIGHED:
        real *= tl.load(real_weight + at, mask=inside, other=0.0)
        drawn *= tl.load(drawn_weight + at, mask=inside, other=0.0)
    tl.store(grad_output + start + r, real, mask=inside)
    tl.store(grad_output + start + rows + r, drawn, mask=inside)


class _Value(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, output: Tensor, real_weight: Tensor | None, drawn_weight: Tensor | None
    ) -> Tensor:
        members, both = output.shape
        output = output.contiguous()
        weighed = real_weight is not None or drawn_weight is not None
        weights = [
            (torch.ones_like(output[:, : both // 2]) if weight is None else weight).contiguous()
            if weighed
            else output
            for weight in (real_weight, drawn_weight)
        ]
        value = output.new_empty(members)
        block = triton.next_power_of_2(both // 2)
        with torch.cuda.device_of(output):
            _value_kernel[(members,)](
                output, *weights, value, both // 2, WEIGHED=weighed, BLOCK=block
            )
        ctx.save_for_backward(output, *weights)
        ctx.weighed = weighed
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_value: Tensor) -> tuple[Tensor, None, None]:
        output, *weights = ctx.saved_tensors
        members, both = output.shape
        grad_output = torch.empty_like(output)
        with torch.cuda.device_of(output):
            _gradient_kernel[(members,)](
                grad_value.contiguous(),
                output,
                *weights,
                grad_output,
                both // 2,
                WEIGHED=ctx.weighed,
                BLOCK=triton.next_power_of_2(both // 2),
            )
        return grad_output, None, None


def value(output: Tensor, real_weight: Tensor | None, drawn_weight: Tensor | None) -> Tensor:
    """Return the value (K,) of critic outputs (K, 2 n): n real pairs, then n resampled ones.

    The formula and its weights, (K, n) each, are those of ``DIVERGENCES["js"]``.
    """
    out: Tensor = _Value.apply(output, real_weight, drawn_weight)
    return out
