"""Gradients and Hessians of the task losses, as libraries of boosted trees have them.

With these a member of tiny strength grows almost the trees that a library grows for the task alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from equipoise.training import TASKS


@dataclass(frozen=True, kw_only=True)
class TreeObjective:
    """One task as boosting sees it.

    Attributes
    ----------
    task : str
    gradients : callable
        Outputs (K, m, o), targets (K, m) and units (K,) -> gradient and Hessian (K, m, o). The
        gradient is that of the task loss of a row, times ``share`` and the square of the unit.
    start : callable
        Targets and weights (m,) each -> (o,), the constant that boosting starts from.
    largest_hessian : float
        The most that the Hessian of one output can be.
    has_units : bool
        Whether outputs are in the units of the target.
    share : float
        Of the task loss that libraries minimize: half of a squared error.
    """

    task: str
    gradients: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    start: Callable[[Tensor, Tensor], Tensor]
    largest_hessian: float
    has_units: bool = False
    share: float = 1.0

    def loss(
        self, output: Tensor, target: Tensor, weight: Tensor | None, level: Tensor, unit: Tensor
    ) -> Tensor:
        """Mean task loss (K,) in standard units of the outcome, the same as a network's.

        output: (K, m, o). target, weight: (K, m). level, unit: (K,), 0 and 1 without units.
        """
        if self.has_units:
            output = (output - level[:, None, None]) / unit[:, None, None]
            target = (target - level[:, None]) / unit[:, None]
        return TASKS[self.task].loss(output, target, weight)


def _binary(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    probability = output.sigmoid()
    return probability - target[..., None], probability * (1 - probability)


def _multiclass(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    probability = output.softmax(-1)
    actual = functional.one_hot(target, output.shape[-1]).to(output)
    return probability - actual, probability * (1 - probability)


def _squared(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    gradient = output - target[..., None]
    return gradient, torch.ones_like(gradient)


def _absolute(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    # One unit of the outcome: a step would not know otherwise how far to go.
    gradient = (output - target[..., None]).sign() * unit[:, None, None]
    return gradient, torch.ones_like(gradient)


def _huber(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    width = unit[:, None, None]
    gradient = (output - target[..., None]).clamp(-width, width)
    return gradient, torch.ones_like(gradient)


def level_and_unit(target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Means and standard deviations (K,) of targets (K, m) of weights (K, m).

    The standard deviation of a constant outcome is 1.

    >>> level_and_unit(torch.tensor([[0.0, 4.0], [3.0, 3.0]]), torch.ones(2, 2))
    (tensor([2., 3.]), tensor([2., 1.]))
    """
    share = weight / weight.sum(-1, keepdim=True)
    level = (share * target).sum(-1)
    spread = (share * (target - level[:, None]).square()).sum(-1).sqrt()
    return level, torch.where((target == target[:, :1]).all(-1), 1.0, spread)


def _log_odds(target: Tensor, weight: Tensor) -> Tensor:
    return torch.logit((target * weight).sum() / weight.sum())[None]


def _log_shares(target: Tensor, weight: Tensor) -> Tensor:
    return torch.log(torch.bincount(target, weight) / weight.sum())


def _mean(target: Tensor, weight: Tensor) -> Tensor:
    return ((target * weight).sum() / weight.sum())[None]


def _median(target: Tensor, weight: Tensor) -> Tensor:
    order = target.argsort()
    share = weight[order].cumsum(0) / weight.sum()
    return target[order][torch.searchsorted(share, 0.5)][None]


_CLASSES = (("binary", _binary, _log_odds), ("multiclass", _multiclass, _log_shares))
_NUMBERS = (
    ("squared", _squared, _mean, 0.5),
    ("absolute", _absolute, _median, 1.0),
    ("huber", _huber, _mean, 1.0),
)
OBJECTIVES: Mapping[str, TreeObjective] = MappingProxyType(
    {
        task: TreeObjective(task=task, gradients=gradients, start=start, largest_hessian=0.25)
        for task, gradients, start in _CLASSES
    }
    | {
        task: TreeObjective(
            task=task,
            gradients=gradients,
            start=start,
            largest_hessian=1.0,
            has_units=True,
            share=share,
        )
        for task, gradients, start, share in _NUMBERS
    }
)
