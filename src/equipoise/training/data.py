"""The training rows as tensors on one device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Rows ready to train on; each tensor has the n rows first.

    x: (n, p) features. target: (n,) what the task loss compares with (float, or class numbers).
    outcome: (n, v) the outcome Y as a critic sees it. outcome_class: (n,) class numbers where Y is
    discrete. attribute: (n, q) the sensitive attributes as a critic sees them. attribute_cell:
    (n,) joint cell numbers where every attribute is discrete. weight: (n,) sample weights, mean
    one; None when all are one. known: (n,) whether every sensitive attribute is known; None when
    all are.
    """

    x: Tensor
    target: Tensor
    outcome: Tensor
    outcome_class: Tensor | None = None
    attribute: Tensor | None = None
    attribute_cell: Tensor | None = None
    weight: Tensor | None = None
    known: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    def to(self, device: torch.device) -> TrainingData:
        """Return the same rows on ``device``."""
        return self._map(lambda tensor: tensor.to(device))

    def sample(self, n: int) -> TrainingData:
        """Return n rows drawn at random, always the same ones; all if there are no more."""
        if len(self) <= n:
            return self
        draws = torch.Generator().manual_seed(0)
        rows = torch.randperm(len(self), generator=draws, device="cpu")[:n].to(self.x.device)
        return self._map(lambda tensor: tensor[rows])

    def _map(self, change: Callable[[Tensor], Tensor]) -> TrainingData:
        changed: dict[str, Any] = {
            name: None if tensor is None else change(tensor) for name, tensor in vars(self).items()
        }
        return TrainingData(**changed)

    def task_weight(self, rows: Tensor) -> Tensor | None:
        """Weights of the task loss for these rows (K, B), averaging one; None if all are one."""
        return None if self.weight is None else mean_one(take(self.weight, rows))

    def pair_weights(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Weights of real pairs (i, i) and resampled pairs (i, j), each (K, B) averaging one.

        Real pairs are weighted by w_i. Resampled pairs follow the product of two weighted laws, so
        their weight is w_i * w_j. A row whose attribute is unknown has weight 0.
        """
        weight = self._penalty_weight()
        if weight is None:
            return None, None
        real = take(weight, rows)
        return mean_one(real), mean_one(real * take(weight, resampled))

    def row_weights(self, rows: Tensor) -> Tensor:
        """Weights of the rows of a batch (K, B), summing to one; zero where A is unknown."""
        weight, _ = self.pair_weights(rows, rows)
        if weight is None:
            return torch.full_like(rows, 1 / rows.shape[1], dtype=self.x.dtype)
        return weight / weight.sum(-1, keepdim=True).clamp_min(1e-12)

    def _penalty_weight(self) -> Tensor | None:
        if self.known is None:
            return self.weight
        known = self.known.to(self.x.dtype)
        return known if self.weight is None else known * self.weight


def take(values: Tensor, rows: Tensor) -> Tensor:
    """Return the ``values`` (n, ...) of rows (K, B) as (K, B, ...), faster than indexing does."""
    return values.index_select(0, rows.reshape(-1)).view(*rows.shape, *values.shape[1:])


def mean_one(weight: Tensor) -> Tensor:
    """Scale weights (K, B) to average one over B; all zeros stay zeros."""
    return weight / weight.mean(-1, keepdim=True).clamp_min(1e-12)
