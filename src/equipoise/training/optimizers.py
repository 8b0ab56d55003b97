"""Optimisers for stacked weights: element-wise rules, so members never touch each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from equipoise.errors import InputError


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Adam, or stochastic gradient descent with momentum as in the paper."""

    kind: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.2

    def __post_init__(self) -> None:
        if self.kind not in ("adam", "sgd"):
            raise InputError(f"optimizer must be 'adam' or 'sgd', got {self.kind!r}")
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate must be positive, got {self.learning_rate}")
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum must lie in [0, 1), got {self.momentum}")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimiser over these parameters."""
        if self.kind == "adam":
            return torch.optim.Adam(parameters, lr=self.learning_rate)
        return torch.optim.SGD(parameters, lr=self.learning_rate, momentum=self.momentum)


def minimise(losses: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Take one step down the losses (K,); their sum has each member's own gradient."""
    optimizer.zero_grad(set_to_none=True)
    losses.sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
