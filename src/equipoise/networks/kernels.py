"""Triton kernels for operations that would otherwise take many small GPU launches.

Two operations have kernels, one forward and one backward each: batch normalization or bias with
ReLU after the matrix product of a hidden layer, and the Jensen-Shannon value of critics. Gradients
of gradients are not supported. A kernel runs on the device of its tensors, whatever the current
device.

After a matrix product, each Triton program handles all rows of one feature of one member. So it
reads the rows once for the statistics, running averages, ReLU and gradient sums. For critics, each
program handles one member.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Few warps per program, so that sums over rows need little shared memory.
WARPS = 2
LOG_2 = tl.constexpr(math.log(2.0))


def _launch(kernel: Any, rows: int, programs: int, *tensors: Tensor, **values: Any) -> None:
    """Run a kernel as ``programs`` programs of ``rows`` rows, on the device of the tensors."""
    values |= {"rows": rows, "BLOCK": triton.next_power_of_2(rows)}
    with torch.cuda.device_of(tensors[0]):
        kernel[(programs,)](*tensors, **values)


class Normalize(torch.autograd.Function):
    """Normalize x (K, width, rows) over the rows, then apply ReLU if ``relu``.

    scale, shift: (K, width) each. running: mean, variance and number of batches, (K, width) each,
    changed in place.
    """

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
        out = torch.empty_like(raw)
        mean, inverse = raw.new_empty(2, *raw.shape[:2])
        # A kernel needs a pointer even for arguments that it does not read.
        affine = (mean if each is None else each for each in (scale, shift))
        ctx.constants = {"AFFINE": scale is not None, "RELU": relu, "num_warps": WARPS}
        given = {"epsilon": epsilon, "newest": newest_weight, **ctx.constants}
        tensors = (raw, *affine, out, mean, inverse, *running)
        _launch(_normalize_kernel, raw.shape[-1], mean.numel(), *tensors, **given)
        ctx.save_for_backward(raw, out, mean, inverse, scale)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        raw, out, mean, inverse, scale = ctx.saved_tensors
        grad_raw, grad_scale, grad_shift = (torch.empty_like(each) for each in (raw, mean, mean))
        seen = (grad_out.contiguous(), raw, out, mean, inverse, mean if scale is None else scale)
        gradients = (grad_raw, grad_scale, grad_shift)
        rows, programs = raw.shape[-1], mean.numel()
        _launch(_normalize_gradient_kernel, rows, programs, *seen, *gradients, **ctx.constants)
        affine = (None, None) if scale is None else (grad_scale, grad_shift)
        return grad_raw, *affine, None, None, None, None


class BiasRelu(torch.autograd.Function):
    """Add a bias (K, width) to x (K, width, rows), then apply ReLU."""

    @staticmethod
    def forward(ctx: Any, raw: Tensor, bias: Tensor) -> Tensor:
        raw = raw.contiguous()
        out = torch.empty_like(raw)
        rows = raw.shape[-1]
        _launch(_bias_relu_kernel, rows, bias.numel(), raw, bias, out, num_warps=WARPS)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor, Tensor]:
        (out,) = ctx.saved_tensors
        gradients = torch.empty_like(out), out.new_empty(out.shape[:2])
        tensors = (grad_out.contiguous(), out, *gradients)
        rows, programs = out.shape[-1], gradients[1].numel()
        _launch(_bias_relu_gradient_kernel, rows, programs, *tensors, num_warps=WARPS)
        return gradients


class JensenShannon(torch.autograd.Function):
    """The value (K,) from critic outputs (K, 2 n): n real pairs, then n resampled pairs.

    It is ``DIVERGENCES["js"]``, with weights (K, n) each.
    """

    @staticmethod
    def forward(
        ctx: Any, output: Tensor, real_weight: Tensor | None, drawn_weight: Tensor | None
    ) -> Tensor:
        output = output.contiguous()
        members, rows = len(output), output.shape[1] // 2
        ctx.weighed = real_weight is not None or drawn_weight is not None
        weights = [
            (torch.ones_like(output[:, :rows]) if weight is None else weight).contiguous()
            if ctx.weighed
            else output
            for weight in (real_weight, drawn_weight)
        ]
        value = output.new_empty(members)
        _launch(_js_kernel, rows, members, output, *weights, value, WEIGHED=ctx.weighed)
        ctx.save_for_backward(output, *weights)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_value: Tensor) -> tuple[Tensor, None, None]:
        output, *weights = ctx.saved_tensors
        members, rows = len(output), output.shape[1] // 2
        found = torch.empty_like(output)
        tensors = (grad_value.contiguous(), output, *weights, found)
        _launch(_js_gradient_kernel, rows, members, *tensors, WEIGHED=ctx.weighed)
        return found, None, None


@triton.jit
def _rows_of_program(rows, BLOCK: tl.constexpr):
    """Number of this program, positions of its rows in memory, and a mask of existing rows."""
    program = tl.program_id(0)
    row = tl.arange(0, BLOCK)
    return program, program.to(tl.int64) * rows + row, row < rows


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
    feature, at, inside = _rows_of_program(rows, BLOCK)
    z = tl.load(raw + at, mask=inside, other=0.0)
    center = tl.sum(z, 0) / rows
    off = tl.where(inside, z - center, 0.0)
    scatter = tl.sum(off * off, 0)
    inv = 1.0 / tl.sqrt(scatter / rows + epsilon)
    y = off * inv
    if AFFINE:
        y = y * tl.load(scale + feature) + tl.load(shift + feature)
    if RELU:
        y = tl.maximum(y, 0.0)
    tl.store(out + at, y, mask=inside)
    tl.store(mean + feature, center)
    tl.store(inverse + feature, inv)
    count = tl.load(seen + feature) + 1
    tl.store(seen + feature, count)
    share = tl.maximum(1.0 / count.to(tl.float32), newest)
    old = tl.load(running_mean + feature)
    tl.store(running_mean + feature, old + share * (center - old))
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
    feature, at, inside = _rows_of_program(rows, BLOCK)
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
    feature, at, inside = _rows_of_program(rows, BLOCK)
    z = tl.load(raw + at, mask=inside, other=0.0) + tl.load(bias + feature)
    tl.store(out + at, tl.maximum(z, 0.0), mask=inside)


@triton.jit
def _bias_relu_gradient_kernel(grad_out, out, grad_raw, grad_bias, rows, BLOCK: tl.constexpr):
    feature, at, inside = _rows_of_program(rows, BLOCK)
    g = tl.load(grad_out + at, mask=inside, other=0.0)
    g = tl.where(tl.load(out + at, mask=inside, other=0.0) > 0, g, 0.0)
    tl.store(grad_raw + at, g, mask=inside)
    tl.store(grad_bias + feature, tl.sum(g, 0))


@triton.jit
def _log_sigmoid(c):
    return tl.minimum(c, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(c)))


@triton.jit
def _js_kernel(
    output, real_weight, drawn_weight, value, rows, WEIGHED: tl.constexpr, BLOCK: tl.constexpr
):
    member, at, inside = _rows_of_program(rows, BLOCK)
    # The resampled pairs of a member follow its real pairs.
    first = at + member.to(tl.int64) * rows
    real = _log_sigmoid(tl.load(output + first, mask=inside, other=0.0)) + LOG_2
    drawn = _log_sigmoid(-tl.load(output + first + rows, mask=inside, other=0.0)) + LOG_2
    if WEIGHED:
        real *= tl.load(real_weight + at, mask=inside, other=0.0)
        drawn *= tl.load(drawn_weight + at, mask=inside, other=0.0)
    tl.store(value + member, tl.sum(tl.where(inside, real + drawn, 0.0), 0) / rows)


@triton.jit
def _js_gradient_kernel(
    grad_value,
    output,
    real_weight,
    drawn_weight,
    grad_output,
    rows,
    WEIGHED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    member, at, inside = _rows_of_program(rows, BLOCK)
    # The resampled pairs of a member follow its real pairs.
    first = at + member.to(tl.int64) * rows
    g = tl.load(grad_value + member) / rows
    real = g * tl.sigmoid(-tl.load(output + first, mask=inside, other=0.0))
    drawn = -g * tl.sigmoid(tl.load(output + first + rows, mask=inside, other=0.0))
    if WEIGHED:
        real *= tl.load(real_weight + at, mask=inside, other=0.0)
        drawn *= tl.load(drawn_weight + at, mask=inside, other=0.0)
    tl.store(grad_output + first, real, mask=inside)
    tl.store(grad_output + first + rows, drawn, mask=inside)
