"""Task losses, (K,) per batch, and how outputs become scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Task:
    """A loss per row and the map from network outputs to scores.

    row_loss: outputs (K, B, o) and targets (K, B) -> (K, B).
    score: outputs (K, B, o) -> (K, B, s), what must not depend on the sensitive attribute.
    """

    name: str
    row_loss: Callable[[Tensor, Tensor], Tensor]
    score: Callable[[Tensor], Tensor]

    def loss(self, output: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """Mean loss of every member, (K,)."""
        losses = self.row_loss(output, target)
        return (losses if weight is None else losses * weight).mean(-1)


def _binary_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    # log(1 + exp(c)) - c y: the same as binary_cross_entropy_with_logits in half the kernels.
    logit = output.squeeze(-1)
    return torch.addcmul(functional.softplus(logit), logit, target, value=-1)


def _cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.movedim(-1, 1), target, reduction="none")


def _absolute(output: Tensor, target: Tensor) -> Tensor:
    return (output.squeeze(-1) - target).abs()


def _squared(output: Tensor, target: Tensor) -> Tensor:
    return (output.squeeze(-1) - target).square()


def _huber(output: Tensor, target: Tensor) -> Tensor:
    return functional.huber_loss(output.squeeze(-1), target, reduction="none")


def _softmax(output: Tensor) -> Tensor:
    return output.softmax(-1)


def _identity(output: Tensor) -> Tensor:
    return output


TASKS: Mapping[str, Task] = MappingProxyType(
    {
        task.name: task
        for task in (
            Task("binary", _binary_cross_entropy, torch.sigmoid),
            Task("multiclass", _cross_entropy, _softmax),
            Task("absolute", _absolute, _identity),
            Task("squared", _squared, _identity),
            Task("huber", _huber, _identity),
        )
    }
)
