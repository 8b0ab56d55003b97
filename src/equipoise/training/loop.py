"""The loop: steps, regular checks, members that fail, early stopping. There is no other."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.networks import copy_members
from equipoise.training.batches import BatchStream


class Step(Protocol):
    """Something that trains on one batch."""

    #: Everything whose weights change, member axis first.
    modules: nn.Module

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Train on one batch; return task loss and penalty, each (K,)."""
        ...


@dataclass(frozen=True)
class History:
    """What the checks saw.

    iterations: (T,) when. task, penalty: (T, K) averages since the check before. stopped_at: (K,)
    the iteration at which a member's loss was no longer finite, 0 for members that went on.
    """

    iterations: NDArray[np.int64]
    task: NDArray[np.float64]
    penalty: NDArray[np.float64]
    stopped_at: NDArray[np.int64]


def run(
    step: Step,
    batches: BatchStream,
    *,
    iterations: int,
    check_every: int,
    on_check: Callable[[int], bool] | None = None,
) -> History:
    """Train for ``iterations`` steps, or until ``on_check(iteration)`` returns True.

    Losses are looked at only at checks, so an accelerator is never waited for in between. A member
    whose loss was not finite since the last check goes back to its weights at that check and stays
    there; weights are stacked, so nothing it computes meanwhile reaches the others.
    """
    good = copy.deepcopy(step.modules)
    sums: Tensor | None = None
    stopped_at: Tensor | None = None
    since = 0
    records: list[tuple[int, Tensor]] = []
    for iteration in range(1, iterations + 1):
        losses = torch.stack(step(*batches.next()))
        if sums is None or stopped_at is None:
            sums = torch.zeros_like(losses)
            stopped_at = torch.zeros(losses.shape[1], dtype=torch.long, device=losses.device)
        sums += losses
        since += 1
        failed_now = ~losses.isfinite().all(0) & (stopped_at == 0)
        stopped_at = torch.where(failed_now, iteration, stopped_at)
        if iteration % check_every and iteration < iterations:
            continue
        stopped_at = torch.where(
            ~_finite_weights(step.modules) & (stopped_at == 0), iteration, stopped_at
        )
        records.append((iteration, sums / since))
        sums, since = torch.zeros_like(sums), 0
        copy_members(step.modules, good, stopped_at == 0)
        copy_members(good, step.modules, stopped_at > 0)
        if (on_check is not None and on_check(iteration)) or bool((stopped_at > 0).all()):
            break
    assert stopped_at is not None
    averages = torch.stack([average for _, average in records]).double().cpu().numpy()
    return History(
        iterations=np.array([iteration for iteration, _ in records]),
        task=averages[:, 0],
        penalty=averages[:, 1],
        stopped_at=stopped_at.cpu().numpy(),
    )


def _finite_weights(modules: nn.Module) -> Tensor:
    """Whether every weight of each member is finite, (K,)."""
    finite = [
        tensor.detach().flatten(1).isfinite().all(1)
        for tensor in (*modules.parameters(), *modules.buffers())
        if tensor.is_floating_point()
    ]
    return torch.stack(finite).all(0)
