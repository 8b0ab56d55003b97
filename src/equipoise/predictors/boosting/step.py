"""One boosting round: slopes of task and penalty, then a tree for every member."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from equipoise.predictors.boosting.growing import Growing
from equipoise.predictors.boosting.objectives import OBJECTIVES
from equipoise.predictors.boosting.trees import BoostedTrees
from equipoise.training import Member, Method, Predictor
from equipoise.training.data import mean_one
from equipoise.training.step import optimizers_of


class BoostingStep:
    """(1 - strength) * task + strength * penalty, for every member, as a round of trees.

    The task has slope and curvature on all rows. The penalty is that of a batch, so its slope on
    the rows of the batch, scaled up to all rows, is right on average; its curvature is a constant,
    the most that the task's can be. Over the first ``warmup`` rounds the strength grows from 0:
    scores that are still constant have no dependence to take away.
    """

    def __init__(
        self,
        predictor: Predictor,
        trees: BoostedTrees,
        growing: Growing,
        members: Sequence[Member],
        *,
        method: Method | None,
        warmup: int,
    ) -> None:
        self._trees = trees
        self._task = predictor.task
        self._growing = growing
        self._method = method
        objective = OBJECTIVES[predictor.task.name]
        self._objective = objective
        self._curvature = objective.largest_curvature(growing.outputs.shape[-1])
        self._strength = torch.tensor(
            [member.strength for member in members], dtype=torch.float64, device="cpu"
        )
        weight = growing.weight
        self._task_weight = None if bool((weight == 1).all()) else mean_one(weight)
        self._warmup = warmup
        self._share = 1.0
        networks = [] if method is None else [method.networks]
        self.modules: nn.Module = nn.ModuleList([predictor, *networks])

    def prepare(self, iteration: int) -> None:
        """Set the share of the strength in this round, counted from 1."""
        self._share = min(1.0, (iteration - 1) / self._warmup) if self._warmup else 1.0

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """All optimizers: those of the method."""
        return [] if self._method is None else optimizers_of(self._method)

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Grow a round; return task loss and penalty before it, each (K,)."""
        growing = self._growing
        strength = self._share * self._strength[:, None, None]
        weight = growing.weight[..., None]
        slope, curvature = self._objective.slopes(growing.outputs, growing.target, growing.unit)
        slope = (1 - strength) * weight * slope
        curvature = weight * torch.lerp(
            curvature, torch.full_like(curvature, self._curvature), strength
        )
        penalty = torch.zeros(len(slope), dtype=slope.dtype, device=slope.device)
        if self._method is not None:
            places = growing.places(rows)[..., None].expand(-1, -1, slope.shape[-1])
            penalty, push = self._penalty(growing.outputs.gather(1, places), rows, resampled)
            # Slopes count every row by its weight, and are in units of the outcome as the task's
            # are: the penalty weighs against it as if it had been scaled.
            scale = growing.weight.sum(-1) * growing.unit
            slope = slope.scatter_add(1, places, strength * scale[:, None, None] * push)
        task = self._objective.loss(
            growing.outputs, growing.target, self._task_weight, growing.level, growing.unit
        )
        self._grow(slope, curvature)
        return task, penalty

    def _penalty(self, output: Tensor, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Let the method train on the batch; return its penalty (K,) and the slope (K, B, o).

        It sees a continuous outcome in standard units, as networks have it, and so is the slope.
        """
        assert self._method is not None
        level, unit = (each[:, None, None] for each in (self._growing.level, self._growing.unit))
        seen = ((output - level) / unit).float().requires_grad_()
        penalty = self._method.penalty(self._task.score(seen), rows, resampled)
        (slope,) = torch.autograd.grad(penalty.sum(), seen)
        return penalty.detach().double(), slope.double()

    def _grow(self, slope: Tensor, curvature: Tensor) -> None:
        """Add a round to every member that is still what it has grown to."""
        # A sum is finite where all of its terms are, and one number a member is cheap to look at.
        finite = (slope + curvature).flatten(1).sum(1).isfinite().tolist()
        for member, kept in enumerate(self._trees.rounds.tolist()):
            # A member that was put back to earlier rounds stays there.
            if finite[member] and kept == self._growing.rounds(member):
                self._growing.grow(member, slope[member], curvature[member])
                self._trees.rounds[member] = self._growing.rounds(member)
