"""One iteration: forward once, let the method add its penalty, update the predictor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from equipoise.training.data import TrainingData
from equipoise.training.members import Member
from equipoise.training.optimizers import minimise
from equipoise.training.predictor import Predictor
from equipoise.training.settings import TrainingSettings


class Method(Protocol):
    """What a fairness method adds to a step."""

    #: The auxiliary networks it trains, so that a failing member can be put back as a whole.
    networks: nn.Module

    def penalty(self, penalised: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Update the auxiliary networks, then return the penalty (K,) of ``penalised``.

        penalised: (K, B, w) score or representation of the batch. rows, resampled: (K, B) row
        numbers of the batch and of the rows whose attributes stand in for it.
        """
        ...


class PredictorStep:
    """(1 - strength) * task + strength * penalty, for every member at once.

    The predictor runs forward once; the method's own updates use that score detached.
    """

    def __init__(
        self,
        predictor: Predictor,
        data: TrainingData,
        members: Sequence[Member],
        *,
        method: Method | None,
        settings: TrainingSettings,
    ) -> None:
        self._predictor = predictor
        self._data = data
        self._method = method
        self._strength = data.x.new_tensor([member.strength for member in members])
        self._optimizer = settings.optimizer.build(predictor.parameters())
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, settings.learning_rate_share
        )
        self.modules: nn.Module = nn.ModuleList([predictor, *([method.networks] if method else [])])

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Train on one batch; return task loss and penalty before the update, each (K,)."""
        data = self._data
        output, penalised = self._predictor(data.x[rows])
        task = self._predictor.task.loss(output, data.target[rows], data.task_weight(rows))
        if self._method is None:
            penalty = torch.zeros_like(task)
            objective = task
        else:
            penalty = self._method.penalty(penalised, rows, resampled)
            objective = (1 - self._strength) * task + self._strength * penalty
        minimise(objective, self._optimizer)
        self._schedule.step()
        return task.detach(), penalty.detach()
