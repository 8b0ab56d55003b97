"""Layers for K members at once, on feature-major activations (K, width, rows).

With the rows last, a dense layer is one ``baddbmm`` and batch normalisation is one native call
over K * width channels; nothing is ever transposed or copied between the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, normalize


class StackedLinear(nn.Module):
    """K dense layers: (K, n_in, rows) -> (K, n_out, rows).

    Weights start Glorot uniform and biases zero, each member from its own generator, so that a
    member's start does not depend on who else is in the stack. With ``spectral`` every member's
    weight is divided by its largest singular value, followed by power iteration
    (Miyato et al. 2018).
    """

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        generators: Sequence[torch.Generator],
        spectral: bool = False,
    ) -> None:
        super().__init__()
        bound = math.sqrt(6.0 / (n_in + n_out))
        weight = [
            (2 * torch.rand(n_out, n_in, generator=generator) - 1) * bound
            for generator in generators
        ]
        self.weight = nn.Parameter(torch.stack(weight))
        self.bias = nn.Parameter(torch.zeros(len(generators), n_out))
        self.spectral = spectral
        if spectral:
            left = [torch.randn(n_out, generator=generator) for generator in generators]
            self.left: Tensor
            self.register_buffer("left", normalize(torch.stack(left), dim=-1))

    def forward(self, x: Tensor) -> Tensor:
        """Apply every member's layer to its own rows."""
        weight = self._unit_weight() if self.spectral else self.weight
        return torch.baddbmm(self.bias.unsqueeze(-1), weight, x)

    def _unit_weight(self) -> Tensor:
        """Weights divided by an estimate of their largest singular value, (K, n_out, n_in)."""
        with torch.no_grad():
            left = self.left
            # A few iterations per call: the estimate must not lag behind a fast critic.
            for _ in range(3 if self.training else 1):
                right = normalize(torch.einsum("koi,ko->ki", self.weight, left), dim=-1)
                left = normalize(torch.einsum("koi,ki->ko", self.weight, right), dim=-1)
            if self.training:
                self.left.copy_(left)
        largest = torch.einsum("ko,koi,ki->k", left, self.weight, right)
        return self.weight / largest.clamp_min(1e-12)[:, None, None]


class StackedBatchNorm(nn.Module):
    """Batch normalisation of (K, width, rows), each member and feature by itself.

    Running statistics are plain averages over the first batches and exponential ones after
    that (weight 0.01 for the newest batch, as the paper's networks have): short runs are then
    not biased towards the start values.
    """

    newest_weight = 0.01

    def __init__(
        self, members: int, width: int, *, affine: bool = True, epsilon: float = 1e-3
    ) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(members, width)) if affine else None
        self.bias = nn.Parameter(torch.zeros(members, width)) if affine else None
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("running_mean", torch.zeros(members, width))
        self.register_buffer("running_var", torch.ones(members, width))
        self.batches_seen = 0

    def forward(self, x: Tensor) -> Tensor:
        """Normalise over the rows in training, by running statistics in evaluation."""
        members, width, rows = x.shape
        if self.training:
            self.batches_seen += 1
        normalised = batch_norm(
            x.reshape(1, members * width, rows),
            self.running_mean.view(-1),
            self.running_var.view(-1),
            None if self.weight is None else self.weight.view(-1),
            None if self.bias is None else self.bias.view(-1),
            training=self.training,
            momentum=max(self.newest_weight, 1.0 / max(self.batches_seen, 1)),
            eps=self.epsilon,
        )
        return normalised.view(members, width, rows)

    def get_extra_state(self) -> Tensor:
        """How many batches the running statistics have seen."""
        return torch.tensor(self.batches_seen)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the number of batches seen."""
        self.batches_seen = int(state)
