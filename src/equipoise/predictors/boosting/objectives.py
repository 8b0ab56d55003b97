"""Slopes and curvatures of the task losses, as LightGBM itself has them.

With these a member of tiny strength grows almost the trees that LightGBM grows for the task alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from equipoise.training import TASKS

#: Slope and curvature (K, m, o) of the loss in outputs (K, m, o), for targets (K, m) in units (K,).
Slopes = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class TreeObjective:
    """One task as boosting sees it.

    Attributes
    ----------
    task : str
    name : str
        LightGBM's own objective of this task.
    slopes : callable
    start : callable
        Targets and weights (m,) each -> (o,), the constant that boosting starts from.
    largest_curvature : callable
        Number of outputs -> the most that the curvature of one output can be.
    to_output : callable
        What LightGBM's own objective shows of its training rows -> outputs.
    has_units : bool
        Whether outputs are in the units of the target.
    share : float
        Of the task loss that LightGBM minimizes: half of a squared error.
    """

    task: str
    name: str
    slopes: Slopes
    start: Callable[[Tensor, Tensor], Tensor]
    largest_curvature: Callable[[int], float]
    to_output: Callable[[Tensor], Tensor]
    has_units: bool = False
    share: float = 1.0

    def loss(
        self, output: Tensor, target: Tensor, weight: Tensor | None, level: Tensor, unit: Tensor
    ) -> Tensor:
        """What rounds minimize, (K,): the mean task loss, in standard units of the outcome.

        Its slope in one output is that of `slopes` over the number of rows and the square of the
        unit. output: (K, m, o). target, weight: (K, m). level, unit: (K,), 0 and 1 without units.
        """
        if self.has_units:
            output = (output - level[:, None, None]) / unit[:, None, None]
            target = (target - level[:, None]) / unit[:, None]
        return self.share * TASKS[self.task].loss(output, target, weight)


def _binary(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    chance = output.sigmoid()
    return chance - target[..., None], chance * (1 - chance)


def _multiclass(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    chance = output.softmax(-1)
    actual = functional.one_hot(target, output.shape[-1]).to(output)
    return chance - actual, _multiclass_factor(output.shape[-1]) * chance * (1 - chance)


def _multiclass_factor(classes: int) -> float:
    """What LightGBM multiplies the diagonal of the Hessian by, after Friedman (2001)."""
    return classes / (classes - 1)


def _squared(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    slope = output - target[..., None]
    return slope, torch.ones_like(slope)


def _absolute(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    # A slope of one unit of the outcome: a step would not know otherwise how far to go.
    slope = (output - target[..., None]).sign() * unit[:, None, None]
    return slope, torch.ones_like(slope)


def _huber(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    width = unit[:, None, None]
    slope = (output - target[..., None]).clamp(-width, width)
    return slope, torch.ones_like(slope)


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


OBJECTIVES: Mapping[str, TreeObjective] = MappingProxyType(
    {
        "binary": TreeObjective(
            task="binary",
            name="binary",
            slopes=_binary,
            start=_log_odds,
            largest_curvature=lambda _: 0.25,
            to_output=torch.logit,
        ),
        "multiclass": TreeObjective(
            task="multiclass",
            name="multiclass",
            slopes=_multiclass,
            start=_log_shares,
            largest_curvature=lambda classes: 0.25 * _multiclass_factor(classes),
            to_output=torch.log,
        ),
        **{
            task: TreeObjective(
                task=task,
                name=name,
                slopes=slopes,
                start=start,
                largest_curvature=lambda _: 1.0,
                to_output=torch.clone,
                has_units=True,
                share=share,
            )
            for task, name, slopes, start, share in (
                ("squared", "regression", _squared, _mean, 0.5),
                ("absolute", "regression_l1", _absolute, _median, 1.0),
                ("huber", "huber", _huber, _mean, 1.0),
            )
        },
    }
)
