"""The predictor: a stacked network, what it is for, and where the penalty sits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equipoise.training.tasks import Task

#: Rows evaluated at once: bounds the memory of predicting on tables of any length.
EVALUATION_ROWS = 16_384


class Predictor(nn.Module):
    """K networks for one task; with an ``encoder`` the penalty sits on the encoder's output."""

    def __init__(self, network: nn.Module, task: Task, *, encoder: nn.Module | None = None) -> None:
        super().__init__()
        self.network = network
        self.task = task
        self.encoder = encoder

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs (K, B, o) and what the penalty looks at (K, B, w)."""
        if self.encoder is None:
            output = self.network(x)
            return output, self.task.score(output)
        representation = self.encoder(x)
        return self.network(representation), representation

    @torch.no_grad()
    def evaluate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs and penalised values of every member on the same rows x (n, p)."""
        was_training = self.training
        self.eval()
        members = next(self.parameters()).shape[0]
        parts = [
            self(rows.expand(members, *rows.shape)) for rows in torch.split(x, EVALUATION_ROWS)
        ]
        self.train(was_training)
        return torch.cat([part[0] for part in parts], 1), torch.cat([part[1] for part in parts], 1)
