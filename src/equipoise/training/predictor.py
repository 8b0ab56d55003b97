"""The predictor: a stacked network, what it is for, and where the penalty sits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equipoise.errors import InputError
from equipoise.networks import StackedMLP
from equipoise.networks.members import member_tensors
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

    def __init__(self, network: nn.Module, task: Task, *, encoder: nn.Module | None = None) -> None:
        super().__init__()
        self.network = network
        self.task = task
        self.encoder = encoder
        self._penalizes_hidden = False

    def penalize_hidden(self, *, method: str) -> None:
        """Let the penalty sit on the last hidden layer, where there is no encoder."""
        if self.encoder is not None:
            return
        if not isinstance(self.network, StackedMLP) or not self.network.has_hidden:
            given = "hidden=()" if isinstance(self.network, StackedMLP) else "a network of your own"
            raise InputError(
                f"method={method!r} penalizes the last hidden layer of the built-in network, got "
                f"{given}; set hidden, such as hidden=(64, 64, 64), and leave network out"
            )
        self._penalizes_hidden = True

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs (K, B, o) and what the penalty looks at (K, B, w)."""
        if self._penalizes_hidden:
            assert isinstance(self.network, StackedMLP)
            return self.network.with_last_hidden(x)
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
