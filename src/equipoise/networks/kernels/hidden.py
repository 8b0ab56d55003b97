"""What follows the product of a hidden layer: [batch normalization or bias] - [ReLU].

One kernel forward and one backward. A program has all rows of one feature of one member, so that
statistics, running averages, the cut at zero and the sums for the gradients need one look.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Few threads a program: what is left of a sum over rows then needs no shared memory.
WARPS = 2


@triton.jit
def _normalize_kernel(
    raw,
    scale,
    shift,
    out,
    mean,
    inverse,
    running_mean,
    running_var,
    seen,
    rows,
    epsilon,
    newest,
    AFFINE: tl.constexpr,
    RELU: tl.constexpr,
    BLOCK: tl.constexpr,
):
    feature = tl.program_id(0)
    r = tl.arange(0, BLOCK)
    inside = r < rows
    at = feature.to(tl.int64) * rows + r
    z = tl.load(raw + at, mask=inside, other=0.0)
    centre = tl.sum(z, 0) / rows
    off = tl.where(inside, z - centre, 0.0)
    scatter = tl.sum(off * off, 0)
    inv = 1.0 / tl.sqrt(scatter / rows + epsilon)
    y = off * inv
    if AFFINE:
        y = y * tl.load(scale + feature) + tl.load(shift + feature)
    if RELU:
        y = tl.maximum(y, 0.0)
    tl.store(out + at, y, mask=inside)
    tl.store(mean + feature, centre)
    tl.store(inverse + feature, inv)
    count = tl.load(seen + feature) + 1
    tl.store(seen + feature, count)
    share = tl.maximum(1.0 / count.to(tl.float32), newest)
    old = tl.load(running_mean + feature)
    tl.store(running_mean + feature, old + share * (centre - old))
    old = tl.load(running_var + feature)
    tl.store(running_var + feature, old + share * (scatter / (rows - 1) - old))


@triton.jit
def _normalize_gradient_kernel(
    grad_out,
    raw,
    out,
    mean,
    inverse,
    scale,
    grad_raw,
    grad_scale,
    grad_shift,
    rows,
    AFFINE: tl.constexpr,
    RELU: tl.constexpr,
    BLOCK: tl.constexpr,
):
    feature = tl.program_id(0)
    r = tl.arange(0, BLOCK)
    inside = r < rows
    at = feature.to(tl.int64) * rows + r
    g = tl.load(grad_out + at, mask=inside, other=0.0)
    if RELU:
        g = tl.where(tl.load(out + at, mask=inside, other=0.0) > 0, g, 0.0)
    inv = tl.load(inverse + feature)
    h = (tl.load(raw + at, mask=inside, other=0.0) - tl.load(mean + feature)) * inv
    total = tl.sum(g, 0)
    along = tl.sum(g * h, 0)
    factor = inv
    if AFFINE:
        tl.store(grad_scale + feature, along)
        tl.store(grad_shift + feature, total)
        factor = inv * tl.load(scale + feature)
    tl.store(grad_raw + at, factor * (g - total / rows - h * (along / rows)), mask=inside)


@triton.jit
def _bias_relu_kernel(raw, bias, out, rows, BLOCK: tl.constexpr):
    feature = tl.program_id(0)
    r = tl.arange(0, BLOCK)
    inside = r < rows
    at = feature.to(tl.int64) * rows + r
    z = tl.load(raw + at, mask=inside, other=0.0) + tl.load(bias + feature)
    tl.store(out + at, tl.maximum(z, 0.0), mask=inside)


@triton.jit
def _bias_relu_gradient_kernel(grad_out, out, grad_raw, grad_bias, rows, BLOCK: tl.constexpr):
    feature = tl.program_id(0)
    r = tl.arange(0, BLOCK)
    inside = r < rows
    at = feature.to(tl.int64) * rows + r
    g = tl.load(grad_out + at, mask=inside, other=0.0)
    g = tl.where(tl.load(out + at, mask=inside, other=0.0) > 0, g, 0.0)
    tl.store(grad_raw + at, g, mask=inside)
    tl.store(grad_bias + feature, tl.sum(g, 0))


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        raw: Tensor,
        scale: Tensor | None,
        shift: Tensor | None,
        running: tuple[Tensor, Tensor, Tensor],
        epsilon: float,
        newest_weight: float,
        relu: bool,
    ) -> Tensor:
        raw = raw.contiguous()
        members, width, rows = raw.shape
        out = torch.empty_like(raw)
        mean, inverse = raw.new_empty(2, members, width)
        with torch.cuda.device_of(raw):
            _normalize_kernel[(members * width,)](
                raw,
                # A kernel needs some pointer even where it will not look.
                mean if scale is None else scale,
                mean if shift is None else shift,
                out,
                mean,
                inverse,
                *running,
                rows,
                epsilon,
                newest_weight,
                AFFINE=scale is not None,
                RELU=relu,
                BLOCK=triton.next_power_of_2(rows),
                num_warps=WARPS,
            )
        ctx.save_for_backward(raw, out, mean, inverse, scale)
        ctx.relu = relu
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        raw, out, mean, inverse, scale = ctx.saved_tensors
        members, width, rows = raw.shape
        grad_raw = torch.empty_like(raw)
        grad_scale, grad_shift = torch.empty_like(mean), torch.empty_like(mean)
        with torch.cuda.device_of(raw):
            _normalize_gradient_kernel[(members * width,)](
                grad_out.contiguous(),
                raw,
                out,
                mean,
                inverse,
                mean if scale is None else scale,
                grad_raw,
                grad_scale,
                grad_shift,
                rows,
                AFFINE=scale is not None,
                RELU=ctx.relu,
                BLOCK=triton.next_power_of_2(rows),
                num_warps=WARPS,
            )
        affine = (None, None) if scale is None else (grad_scale, grad_shift)
        return grad_raw, *affine, None, None, None, None


class _BiasRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, raw: Tensor, bias: Tensor) -> Tensor:
        raw = raw.contiguous()
        members, width, rows = raw.shape
        out = torch.empty_like(raw)
        block = triton.next_power_of_2(rows)
        with torch.cuda.device_of(raw):
            _bias_relu_kernel[(members * width,)](
                raw, bias, out, rows, BLOCK=block, num_warps=WARPS
            )
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor, Tensor]:
        (out,) = ctx.saved_tensors
        members, width, rows = out.shape
        grad_raw = torch.empty_like(out)
        grad_bias = out.new_empty(members, width)
        with torch.cuda.device_of(out):
            _bias_relu_gradient_kernel[(members * width,)](
                grad_out.contiguous(),
                out,
                grad_raw,
                grad_bias,
                rows,
                BLOCK=triton.next_power_of_2(rows),
                num_warps=WARPS,
            )
        return grad_raw, grad_bias


def normalize(
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor | None,
    *,
    running: tuple[Tensor, Tensor, Tensor],
    epsilon: float,
    newest_weight: float,
    relu: bool,
) -> Tensor:
    """Normalize x (K, width, rows) over the rows, then cut at zero if ``relu``.

    scale, shift: (K, width) each. running: mean, variance and batches seen, (K, width) each,
    changed in place.
    """
    out: Tensor = _Normalize.apply(x, scale, shift, running, epsilon, newest_weight, relu)
    return out


def bias_relu(x: Tensor, bias: Tensor) -> Tensor:
    """Add a bias (K, width) to x (K, width, rows) and cut at zero."""
    out: Tensor = _BiasRelu.apply(x, bias)
    return out
