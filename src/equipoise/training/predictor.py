"""The predictor: a stacked network, what it is for, and where the penalty sits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equipoise.networks import OnnxGraph, Stack, member_tensors
from equipoise.training.tasks import Task

#: Rows evaluated at once: bounds the memory of predicting on tables of any length.
EVALUATION_ROWS = 16_384


def exact_device(device: torch.device) -> torch.device:
    """Where double precision is computed for this device: there, or on the CPU.

    >>> exact_device(torch.device("cuda", 1)), exact_device(torch.device("mps"))
    (device(type='cuda', index=1), device(type='cpu'))
    """
    return torch.device("cpu") if device.type == "mps" else device


class Predictor(nn.Module):
    """K networks for one task; with an ``encoder`` the penalty sits on the encoder's output.

    Without one it sits on the score, or after :meth:`penalize_hidden` on the last hidden layer.
    """

    #: What a description of it ends in.
    note = ""

    def __init__(self, network: Stack, task: Task, *, encoder: Stack | None = None) -> None:
        super().__init__()
        self.network = network
        self.task = task
        self.encoder = encoder
        self._penalizes_hidden = False

    def penalize_hidden(self, *, method: str) -> None:
        """Let the penalty sit on the last hidden layer, where there is no encoder."""
        if self.encoder is not None:
            return
        self.network.hidden_layers(f"method={method!r} penalizes the last hidden layer")
        self._penalizes_hidden = True

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs (K, B, o) and what the penalty looks at (K, B, w)."""
        if self._penalizes_hidden:
            return self.network.hidden_layers("the penalty sits on one").with_last_hidden(x)
        if self.encoder is None:
            output = self.network(x)
            return output, self.task.score(output)
        representation = self.encoder(x)
        return self.network(representation), representation

    @property
    def weight(self) -> Tensor:
        """One of the tensors of numbers, K members first: its device and type are those of all."""
        return next(each for _, each in member_tensors(self) if each.is_floating_point())

    def settled(self) -> Predictor:
        """Return this predictor after its training: without gradients, in double precision.

        A row's score then does not depend on the rows predicted along with it.
        """
        return self.requires_grad_(False).to(exact_device(self.weight.device)).double()

    def to_onnx(self, graph: OnnxGraph, rows: str) -> str:
        """Add what a predictor of one member answers: its output, or its representation."""
        answering = self.network if self.encoder is None else self.encoder
        return answering.to_onnx(graph, rows, 0)

    @torch.no_grad()
    def evaluate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs and penalized values of every member on the same rows x (n, p)."""
        was_training = self.training
        self.eval()
        weight = self.weight
        parts = [
            self(rows.to(weight.dtype).expand(len(weight), *rows.shape))
            for rows in torch.split(x, EVALUATION_ROWS)
        ]
        self.train(was_training)
        return torch.cat([part[0] for part in parts], 1), torch.cat([part[1] for part in parts], 1)
