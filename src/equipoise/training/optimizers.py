"""Optimizers for stacked weights: element-wise rules, so members never touch each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from equipoise.errors import check_choice, check_number


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Adam, or stochastic gradient descent with momentum as in the paper.

    ``weight_decay`` goes with Adam: before a step every weight loses this share of the learning
    rate (decoupled; Loshchilov and Hutter 2019), see `decay`. Descent without Adam's scaling has
    no use for it.
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
        # Steps before the capture are no mistake that torch would have to warn of.
        adam._warned_capturable_if_run_uncaptured = True
        return adam


def minimize(
    losses: Tensor | Sequence[Tensor],
    optimizer: torch.optim.Optimizer,
    shares: Sequence[Tensor] | None = None,
) -> None:
    """Take one step down the losses (K,), or down their sum weighed by shares (K,) each.

    Members add up: the sum over them has each member's own gradient.
    """
    terms = [losses] if isinstance(losses, Tensor) else list(losses)
    optimizer.zero_grad(set_to_none=True)
    # Shares enter as gradients, which costs no arithmetic forward or back.
    torch.autograd.backward(
        terms, [torch.ones_like(term) for term in terms] if shares is None else list(shares)
    )
    optimizer.step()


@torch.no_grad()
def decay(optimizer: torch.optim.Optimizer, shares: Tensor) -> None:
    """Take the shares (K,) of the learning rate off the weights of each member."""
    for group in optimizer.param_groups:
        kept = 1 - group["lr"] * shares
        for weight in group["params"]:
            weight.mul_(kept.view(-1, *[1] * (weight.dim() - 1)))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate from the next step on."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
