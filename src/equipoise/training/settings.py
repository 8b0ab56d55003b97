"""How long, in what batches, by which optimizer and at what learning rate to train."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import nn

from equipoise.errors import check_choice, check_number, check_whole


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Adam, or stochastic gradient descent with momentum as in the paper.

    ``weight_decay`` is for Adam alone: before a step every weight shrinks by this share of the
    learning rate (decoupled; Loshchilov and Hutter 2019).
    """

    kind: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.2
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_choice("optimizer", self.kind, ("adam", "sgd"))
        check_number("learning_rate", self.learning_rate, "must be positive", lambda rate: rate > 0)
        check_number("momentum", self.momentum, "must lie in [0, 1)", lambda m: 0 <= m < 1)
        check_number("weight_decay", self.weight_decay, "must not be negative", lambda d: d >= 0)
        # torch takes no whole numbers beyond 64 bits.
        for name in ("learning_rate", "momentum", "weight_decay"):
            object.__setattr__(self, name, float(getattr(self, name)))

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimizer over these parameters, which are on their device already."""
        weights = list(parameters)
        if weights[0].is_cuda:
            return self._build_on_gpu(weights)
        if self.kind == "adam":
            return torch.optim.Adam(weights, lr=self.learning_rate)
        return torch.optim.SGD(weights, lr=self.learning_rate, momentum=self.momentum)

    def _build_on_gpu(self, weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        """One kernel for all weights, and a learning rate that a CUDA graph reads anew."""
        rate = torch.tensor(self.learning_rate, dtype=torch.float32, device=weights[0].device)
        if self.kind == "sgd":
            return torch.optim.SGD(weights, lr=rate, momentum=self.momentum, fused=True)
        adam = torch.optim.Adam(weights, lr=rate, fused=True, capturable=True)
        # torch warns of steps before the capture; ours are on purpose.
        adam._warned_capturable_if_run_uncaptured = True
        return adam


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of one training run.

    ``schedule="decay"`` lowers the predictor's learning rate linearly to zero over the second half
    of the run, so that the last iterate is settled; ``"constant"`` is the paper's.
    """

    iterations: int = 1_500
    batch_size: int = 300
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    schedule: Literal["decay", "constant"] = "decay"
    check_every: int = 50

    def __post_init__(self) -> None:
        for name, least in (("iterations", 1), ("batch_size", 2), ("check_every", 1)):
            check_whole(name, getattr(self, name), least=least)
        check_choice("schedule", self.schedule, ("decay", "constant"))

    def learning_rate_share(self, iteration: int) -> float:
        """Which share of the learning rate applies after ``iteration`` steps."""
        if self.schedule == "constant":
            return 1.0
        return min(1.0, 2 * (1 - iteration / self.iterations))
