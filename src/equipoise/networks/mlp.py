"""The built-in network: [dense - normalisation - ReLU] x depth, then a dense head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from equipoise.networks.layers import StackedBatchNorm, StackedLinear

Normalization = Literal["batch", "spectral", "none"]


class StackedMLP(nn.Module):
    """K multi-layer perceptrons: (K, rows, n_in) -> (K, rows, n_out).

    ``hidden=()`` is a linear model. ``n_out=None`` leaves out the head: the output is then the
    last hidden layer, which is how an encoder is built. ``normalization="batch"`` is the
    paper's [Dense-BN-ReLU]; ``"spectral"`` bounds every layer's slope by one (for critics).
    """

    def __init__(
        self,
        n_in: int,
        hidden: Sequence[int],
        n_out: int | None,
        *,
        generators: Sequence[torch.Generator],
        normalization: Normalization = "batch",
    ) -> None:
        super().__init__()
        self.members = len(generators)
        spectral = normalization == "spectral"
        layers: list[nn.Module] = []
        width = n_in
        for wider in hidden:
            layers.append(StackedLinear(width, wider, generators=generators, spectral=spectral))
            if normalization == "batch":
                layers.append(StackedBatchNorm(self.members, wider))
            # In place: nobody needs the layer's output before the cut, and memory costs time.
            layers.append(nn.ReLU(inplace=True))
            width = wider
        if n_out is not None:
            layers.append(StackedLinear(width, n_out, generators=generators, spectral=spectral))
        self.layers = nn.Sequential(*layers)

    @property
    def head_weight(self) -> Tensor:
        """Weights of the last layer, (K, n_out, width)."""
        last = self.layers[-1]
        assert isinstance(last, StackedLinear)
        return last.weight

    def forward(self, x: Tensor) -> Tensor:
        """Return every member's output on its own rows."""
        out: Tensor = self.layers(x.transpose(1, 2))
        return out.transpose(1, 2)
