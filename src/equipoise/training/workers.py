"""Processes that train the same members together, each on rows of its own.

All begin with the same weights. Before an optimizer takes a step, gradients are averaged over the
processes, so weights stay the same. Losses that decide something are averaged, too; any other
decision is that of the first process. A process that trains alone is not affected.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import torch
from torch import Tensor


class Workers(Protocol):
    """The processes that train together, as one of them sees it."""

    number: int  # of this process, from 0
    count: int

    def add(self, values: Tensor) -> None:
        """Replace the values, in place, by their sum over all processes."""


_TOGETHER: ContextVar[Workers | None] = ContextVar("workers that train together", default=None)


@contextmanager
def train_together(workers: Workers) -> Iterator[None]:
    """Train as one of these processes inside; all must do so with the same settings."""
    token = _TOGETHER.set(workers)
    try:
        yield
    finally:
        _TOGETHER.reset(token)


def worker_count() -> int:
    """Return how many processes train together; 1 for a process alone."""
    workers = _TOGETHER.get()
    return 1 if workers is None else workers.count


def total(values: Tensor) -> Tensor:
    """Return the sum of values over the processes."""
    workers = _TOGETHER.get()
    if workers is None:
        return values
    values = values.clone()
    workers.add(values)
    return values


def mean(values: Tensor) -> Tensor:
    """Return the mean of values over the processes."""
    workers = _TOGETHER.get()
    return values if workers is None else total(values) / workers.count


def agreed(answer: bool) -> bool:
    """Return the answer of the first process."""
    workers = _TOGETHER.get()
    if workers is None:
        return answer
    return bool(total(torch.tensor([float(answer and workers.number == 0)]))[0] > 0)


def average_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Average the gradients of the optimizer's weights over the processes, all at once."""
    workers = _TOGETHER.get()
    if workers is None:
        return
    groups = (group["params"] for group in optimizer.param_groups)
    weights = [weight for group in groups for weight in group if weight.grad is not None]
    flat = torch.cat([weight.grad.reshape(-1) for weight in weights])
    workers.add(flat)
    flat /= workers.count
    parts = torch.split(flat, [weight.numel() for weight in weights])
    for weight, part in zip(weights, parts, strict=True):
        weight.grad = part.view_as(weight)
