"""Triton kernels for operations that would otherwise take many small GPU launches.

Four operations have kernels, forward and backward: batch normalization with ReLU after the matrix
product of a hidden layer, the pairs that critics compare, their Jensen-Shannon value, and the log
loss. Gradients of gradients are not supported. A kernel runs on the device of its tensors, whatever
the current device.

For batch normalization each program handles all rows of one feature of one member, so that it reads
the rows once for the statistics, running averages, ReLU and gradient sums. For the others each
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
#: Inputs that one program multiplies at a time, and rows, in a last layer.
OUTPUT_INPUTS, OUTPUT_ROWS = 32, 64
#: Rows and columns that one program takes.
TAKEN_ROWS, TAKEN_COLUMNS = 64, 32
LOG_2 = tl.constexpr(math.log(2.0))


def _launch(kernel: Any, rows: int, programs: int, *given: Any, **values: Any) -> None:
    """Run a kernel as ``programs`` programs of ``rows`` rows, on the device of the first tensor."""
    values |= {"rows": rows, "BLOCK": triton.next_power_of_2(rows)}
    with torch.cuda.device_of(given[0]):
        kernel[(programs,)](*given, **values)


class Normalize(torch.autograd.Function):
    """Normalize x (K, width * batches, rows) over the rows, then apply ReLU if ``relu``.

    scale, shift: (K, width) each, or None. running: mean, variance and number of batches,
    (K, width * batches) each, changed in place.
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
        batches = 1 if scale is None else raw.shape[1] // scale.shape[1]
        ctx.constants = {"AFFINE": scale is not None, "RELU": relu, "BATCHES": batches}
        ctx.constants["num_warps"] = WARPS
        given = {"epsilon": epsilon, "newest": newest_weight, **ctx.constants}
        tensors = (raw, *_affine(scale, shift, mean), out, mean, inverse, *running)
        _launch(_normalize_kernel, raw.shape[-1], mean.numel(), *tensors, **given)
        ctx.save_for_backward(raw, mean, inverse, scale, shift)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        raw, mean, inverse, scale, shift = ctx.saved_tensors
        grad_raw = torch.empty_like(raw)
        gradients: tuple[Tensor | None, Tensor | None] = None, None
        if scale is not None:
            gradients = torch.empty_like(scale), torch.empty_like(scale)
        seen = grad_out.contiguous(), raw, mean, inverse, *_affine(scale, shift, mean)
        filled = grad_raw, *_affine(*gradients, mean)
        rows, programs = raw.shape[-1], mean.numel() // ctx.constants["BATCHES"]
        _launch(_normalize_gradient_kernel, rows, programs, *seen, *filled, **ctx.constants)
        return grad_raw, *gradients, None, None, None, None


def _affine(scale: Tensor | None, shift: Tensor | None, unread: Tensor) -> tuple[Tensor, Tensor]:
    """A kernel needs a pointer even for arguments that it does not read."""
    return (unread, unread) if scale is None or shift is None else (scale, shift)


class Pairs(torch.autograd.Function):
    """What critics compare, (K, 2 B, w + q + v): real pairs, then resampled pairs.

    score (K, B, w) is normalized over the rows; attribute, resampled (K, B, q) and outcome
    (K, B, v), which may be None, are copied. running: as for `Normalize`, (K, w) each.
    """

    @staticmethod
    def forward(
        ctx: Any,
        score: Tensor,
        attribute: Tensor,
        resampled: Tensor,
        outcome: Tensor | None,
        running: tuple[Tensor, Tensor, Tensor],
        epsilon: float,
        newest_weight: float,
    ) -> Tensor:
        (members, rows, scores), attributes = score.shape, attribute.shape[-1]
        outcomes = 0 if outcome is None else outcome.shape[-1]
        out = score.new_empty(members, 2 * rows, scores + attributes + outcomes)
        inverse = score.new_empty(members, scores)
        given = score, attribute, resampled, attribute if outcome is None else outcome
        strides = [stride for each in given for stride in each.stride()]
        tensors = *given, *strides, out, inverse, *running
        sizes = {"SCORES": scores, "ATTRIBUTES": attributes, "OUTCOMES": outcomes}
        more = {"epsilon": epsilon, "newest": newest_weight, "num_warps": WARPS}
        _launch(_pairs_kernel, rows, members, *tensors, **more, **sizes)
        ctx.save_for_backward(out, inverse)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        out, inverse = ctx.saved_tensors
        (members, both, inputs), scores = out.shape, inverse.shape[1]
        found = out.new_empty(members, both // 2, scores)
        tensors = grad_out, *grad_out.stride(), out, inverse, found, inputs
        sizes = {"SCORES": scores, "num_warps": WARPS}
        _launch(_pairs_gradient_kernel, both // 2, members, *tensors, **sizes)
        return found, None, None, None, None, None, None


class LogLoss(torch.autograd.Function):
    """Mean log loss (K,) of logits (K, n) for targets (K, n), with weights (K, n) or None."""

    @staticmethod
    def forward(ctx: Any, logit: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        tensors = [
            each.contiguous() for each in (logit, target, target if weight is None else weight)
        ]
        ctx.weighed = weight is not None
        value = logit.new_empty(len(logit))
        _launch(_log_loss_kernel, logit.shape[1], len(logit), *tensors, value, WEIGHED=ctx.weighed)
        ctx.save_for_backward(*tensors)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_value: Tensor) -> tuple[Tensor, None, None]:
        logit, *others = ctx.saved_tensors
        found = torch.empty_like(logit)
        tensors = grad_value.contiguous(), logit, *others, found
        rows, members = logit.shape[1], len(logit)
        _launch(_log_loss_gradient_kernel, rows, members, *tensors, WEIGHED=ctx.weighed)
        return found, None, None


def take(values: Tensor, rows: Tensor) -> Tensor:
    """Return ``values[rows]``, (K, B, ...), from values (n, ...) and row numbers (K, B)."""
    values = values.contiguous()
    (members, count), columns = rows.shape, values[0].numel()
    out = values.new_empty(*rows.shape, *values.shape[1:])
    blocks = triton.cdiv(count, TAKEN_ROWS), triton.cdiv(columns, TAKEN_COLUMNS), members
    with torch.cuda.device_of(values):
        _take_kernel[blocks](
            values,
            rows,
            *rows.stride(),
            out,
            count,
            columns,
            ROWS=TAKEN_ROWS,
            COLUMNS=TAKEN_COLUMNS,
        )
    return out


def record(entries: Tensor, place: Tensor, task: Tensor, penalty: Tensor) -> None:
    """Write losses (K,) to entry ``place`` of entries (T, 2, K), and go to the next place."""
    members = len(task)
    _launch(_record_kernel, members, 1, entries, place, task.contiguous(), penalty.contiguous())


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


class Output(torch.autograd.Function):
    """A last layer of one output: weights (K, 1, n_in) @ x (K, n_in, rows) + bias (K, 1)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        x = x.contiguous()
        members, inputs, rows = x.shape
        out = x.new_empty(members, 1, rows)
        with torch.cuda.device_of(x):
            _output_kernel[(members, triton.cdiv(rows, OUTPUT_ROWS))](
                x, weight, bias, out, inputs, rows, INPUTS=OUTPUT_INPUTS, ROWS=OUTPUT_ROWS
            )
        ctx.save_for_backward(x, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_rows, trains, _ = ctx.needs_input_grad
        found, of_weight = torch.empty_like(x), torch.empty_like(weight)
        of_bias = weight.new_empty(len(weight), 1)
        given = grad_out.contiguous(), x, weight, found, of_weight, of_bias
        rows, programs = x.shape[-1], weight.numel()
        more = {"inputs": x.shape[1], "TRAINS": trains, "num_warps": WARPS}
        _launch(_output_gradient_kernel, rows, programs, *given, **more)
        return (found if needs_rows else None, *((of_weight, of_bias) if trains else (None, None)))


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
    BATCHES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    channel, at, inside = _rows_of_program(rows, BLOCK)
    z = tl.load(raw + at, mask=inside, other=0.0)
    center = tl.sum(z, 0) / rows
    off = tl.where(inside, z - center, 0.0)
    scatter = tl.sum(off * off, 0)
    inv = 1.0 / tl.sqrt(scatter / rows + epsilon)
    y = off * inv
    if AFFINE:
        feature = channel // BATCHES
        y = y * tl.load(scale + feature) + tl.load(shift + feature)
    if RELU:
        y = tl.maximum(y, 0.0)
    tl.store(out + at, y, mask=inside)
    tl.store(mean + channel, center)
    tl.store(inverse + channel, inv)
    _remember(running_mean, running_var, seen, channel, center, scatter, rows, newest)


@triton.jit
def _normalize_gradient_kernel(
    grad_out,
    raw,
    mean,
    inverse,
    scale,
    shift,
    grad_raw,
    grad_scale,
    grad_shift,
    rows,
    AFFINE: tl.constexpr,
    RELU: tl.constexpr,
    BATCHES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    feature, place, inside = _rows_of_program(rows, BLOCK)
    a, c = 1.0, 0.0
    if AFFINE:
        a, c = tl.load(scale + feature), tl.load(shift + feature)
    # The batches of a feature lie one after the other.
    place += feature.to(tl.int64) * (BATCHES - 1) * rows
    all_total, all_along = 0.0, 0.0
    for batch in range(BATCHES):
        channel = feature * BATCHES + batch
        at = place + batch * rows
        inv = tl.load(inverse + channel)
        h = (tl.load(raw + at, mask=inside, other=0.0) - tl.load(mean + channel)) * inv
        g = tl.load(grad_out + at, mask=inside, other=0.0)
        if RELU:
            g = tl.where(h * a + c > 0, g, 0.0)
        total, along = tl.sum(g, 0), tl.sum(g * h, 0)
        all_total += total
        all_along += along
        centered = g - total / rows - h * (along / rows)
        tl.store(grad_raw + at, inv * a * centered, mask=inside)
    if AFFINE:
        tl.store(grad_scale + feature, all_along)
        tl.store(grad_shift + feature, all_total)


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
def _output_kernel(x, weight, bias, out, inputs, rows, INPUTS: tl.constexpr, ROWS: tl.constexpr):
    member = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    total = tl.zeros((ROWS,), tl.float32) + tl.load(bias + member)
    for first in range(0, inputs, INPUTS):
        i = first + tl.arange(0, INPUTS)
        w = tl.load(weight + member * inputs + i, mask=i < inputs, other=0.0)
        here = (i < inputs)[:, None] & inside
        v = tl.load(x + member * inputs * rows + i[:, None] * rows + row, mask=here, other=0.0)
        total += tl.sum(v * w[:, None], 0)
    tl.store(out + member * rows + row, total, mask=inside)


@triton.jit
def _output_gradient_kernel(
    grad_out,
    x,
    weight,
    found,
    of_weight,
    of_bias,
    rows,
    inputs,
    TRAINS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    place, at, inside = _rows_of_program(rows, BLOCK)
    member = (place // inputs).to(tl.int64)
    row = tl.arange(0, BLOCK)
    g = tl.load(grad_out + member * rows + row, mask=inside, other=0.0)
    tl.store(found + at, g * tl.load(weight + place), mask=inside)
    if TRAINS:
        v = tl.load(x + at, mask=inside, other=0.0)
        tl.store(of_weight + place, tl.sum(g * v, 0))
        if place % inputs == 0:
            tl.store(of_bias + member, tl.sum(g, 0))


@triton.jit
def _remember(running_mean, running_var, seen, channel, center, scatter, rows, newest):
    """Mix statistics of a batch into the running ones."""
    count = tl.load(seen + channel) + 1
    tl.store(seen + channel, count)
    share = tl.maximum(1.0 / count.to(tl.float32), newest)
    old = tl.load(running_mean + channel)
    tl.store(running_mean + channel, old + share * (center - old))
    old = tl.load(running_var + channel)
    tl.store(running_var + channel, old + share * (scatter / (rows - 1) - old))


@triton.jit
def _pairs_kernel(
    score,
    attribute,
    resampled,
    outcome,
    score_member,
    score_row,
    score_column,
    attribute_member,
    attribute_row,
    attribute_column,
    resampled_member,
    resampled_row,
    resampled_column,
    outcome_member,
    outcome_row,
    outcome_column,
    out,
    inverse,
    running_mean,
    running_var,
    seen,
    rows,
    epsilon,
    newest,
    SCORES: tl.constexpr,
    ATTRIBUTES: tl.constexpr,
    OUTCOMES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    member = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, BLOCK)
    inside = row < rows
    # The resampled pairs of a member follow its real pairs.
    inputs = SCORES + ATTRIBUTES + OUTCOMES
    at = out + (member * 2 * rows + row) * inputs
    to_resampled = rows * inputs
    for column in range(SCORES):
        place = score + member * score_member + row * score_row + column * score_column
        z = tl.load(place, mask=inside, other=0.0)
        center = tl.sum(z, 0) / rows
        off = tl.where(inside, z - center, 0.0)
        scatter = tl.sum(off * off, 0)
        inv = 1.0 / tl.sqrt(scatter / rows + epsilon)
        channel = member * SCORES + column
        tl.store(inverse + channel, inv)
        _remember(running_mean, running_var, seen, channel, center, scatter, rows, newest)
        tl.store(at, off * inv, mask=inside)
        tl.store(at + to_resampled, off * inv, mask=inside)
        at += 1
    for column in range(ATTRIBUTES):
        place = attribute + member * attribute_member + row * attribute_row
        tl.store(at, tl.load(place + column * attribute_column, mask=inside), mask=inside)
        place = resampled + member * resampled_member + row * resampled_row
        drawn = tl.load(place + column * resampled_column, mask=inside)
        tl.store(at + to_resampled, drawn, mask=inside)
        at += 1
    for column in range(OUTCOMES):
        place = outcome + member * outcome_member + row * outcome_row
        y = tl.load(place + column * outcome_column, mask=inside)
        tl.store(at, y, mask=inside)
        tl.store(at + to_resampled, y, mask=inside)
        at += 1


@triton.jit
def _pairs_gradient_kernel(
    grad_out,
    grad_member,
    grad_row,
    grad_input,
    out,
    inverse,
    found,
    inputs,
    rows,
    SCORES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    member = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, BLOCK)
    inside = row < rows
    for column in range(SCORES):
        place = grad_out + member * grad_member + column * grad_input + row * grad_row
        g = tl.load(place, mask=inside, other=0.0)
        g += tl.load(place + rows * grad_row, mask=inside, other=0.0)
        at = out + (member * 2 * rows + row) * inputs + column
        h = tl.load(at, mask=inside, other=0.0)
        centered = g - tl.sum(g, 0) / rows - h * (tl.sum(g * h, 0) / rows)
        inv = tl.load(inverse + member * SCORES + column)
        tl.store(found + (member * rows + row) * SCORES + column, inv * centered, mask=inside)


@triton.jit
def _log_loss_kernel(
    logit, target, weight, value, rows, WEIGHED: tl.constexpr, BLOCK: tl.constexpr
):
    member, at, inside = _rows_of_program(rows, BLOCK)
    c = tl.load(logit + at, mask=inside, other=0.0)
    # log(1 + exp(c)) - c y, without overflow.
    loss = -_log_sigmoid(-c) - c * tl.load(target + at, mask=inside, other=0.0)
    if WEIGHED:
        loss *= tl.load(weight + at, mask=inside, other=0.0)
    tl.store(value + member, tl.sum(tl.where(inside, loss, 0.0), 0) / rows)


@triton.jit
def _log_loss_gradient_kernel(
    grad_value, logit, target, weight, found, rows, WEIGHED: tl.constexpr, BLOCK: tl.constexpr
):
    member, at, inside = _rows_of_program(rows, BLOCK)
    g = tl.load(grad_value + member) / rows
    c = tl.load(logit + at, mask=inside, other=0.0)
    g *= tl.sigmoid(c) - tl.load(target + at, mask=inside, other=0.0)
    if WEIGHED:
        g *= tl.load(weight + at, mask=inside, other=0.0)
    tl.store(found + at, g, mask=inside)


@triton.jit
def _take_kernel(
    values,
    rows,
    rows_member,
    rows_row,
    out,
    count,
    columns,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    member = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    number = tl.load(rows + member * rows_member + row * rows_row, mask=row < count, other=0)
    inside = (row < count)[:, None] & (column < columns)
    taken = tl.load(values + number[:, None] * columns + column, mask=inside)
    tl.store(out + (member * count + row)[:, None] * columns + column, taken, mask=inside)


@triton.jit
def _record_kernel(entries, place, task, penalty, rows, BLOCK: tl.constexpr):
    member = tl.arange(0, BLOCK)
    exists = member < rows
    now = tl.load(place)
    at = entries + now * 2 * rows + member
    precision = entries.dtype.element_ty
    tl.store(at, tl.load(task + member, mask=exists).to(precision), mask=exists)
    tl.store(at + rows, tl.load(penalty + member, mask=exists).to(precision), mask=exists)
    tl.debug_barrier()
    tl.store(place, now + 1)


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
