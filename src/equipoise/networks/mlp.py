"""The built-in network: [dense - normalisation - ReLU] x depth, then a dense head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from equipoise.networks.embedding import Pieces, PiecewiseLinear
from equipoise.networks.layers import StackedBatchNorm, StackedLinear

Normalization = Literal["batch", "spectral", "none"]


class StackedMLP(nn.Module):
    """K multi-layer perceptrons: (K, rows, n_in) -> (K, rows, n_out).

    ``hidden=()`` is a linear model. ``n_out=None`` leaves out the head: the output is then the
    last hidden layer, which is how an encoder is built. ``normalization="batch"`` is the
    paper's [Dense-BN-ReLU]; ``"spectral"`` bounds every layer's slope by one (for critics). With
    ``pieces`` the first layer also sees the inputs cut into them. ``batches`` is how many batches
    the rows are that normalisation takes one by one. ``twice_differentiable`` keeps to operations
    that have gradients of gradients on a GPU, too.
    """

    def __init__(
        self,
        n_in: int,
        hidden: Sequence[int],
        n_out: int | None,
        *,
        generators: Sequence[torch.Generator],
        normalization: Normalization = "batch",
        pieces: Pieces | None = None,
        batches: int = 1,
        twice_differentiable: bool = False,
    ) -> None:
        super().__init__()
        self.members = len(generators)
        spectral = normalization == "spectral"
        layers: list[nn.Module] = []
        width = n_in
        if pieces is not None:
            layers.append(PiecewiseLinear(pieces, members=self.members))
            width += len(pieces.start)
        for wider in hidden:
            layers.append(
                StackedLinear(
                    width,
                    wider,
                    generators=generators,
                    # Normalisation takes any constant out again.
                    bias=normalization != "batch",
                    spectral=spectral,
                    twice_differentiable=twice_differentiable,
                )
            )
            if normalization == "batch":
                layers.append(StackedBatchNorm(self.members, wider, batches=batches))
            layers.append(nn.ReLU())
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
        return _through(list(self.layers), x)

    def first_hidden(self, x: Tensor) -> Tensor:
        """Return what the first hidden layer gives, (K, rows, width)."""
        return _through(list(self.layers)[: self._behind_first], x)

    def behind_first_hidden(self, hidden: Tensor) -> Tensor:
        """Return the output that follows from values of the first hidden layer."""
        return _through(list(self.layers)[self._behind_first :], hidden)

    def with_last_hidden(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output and what the last hidden layer gives, (K, rows, width)."""
        layers = list(self.layers)
        hidden = _through(layers[:-1], x)
        return _through(layers[-1:], hidden), hidden

    @property
    def has_hidden(self) -> bool:
        """Whether there is a hidden layer."""
        return any(isinstance(layer, nn.ReLU) for layer in self.layers)

    @property
    def _behind_first(self) -> int:
        """Number of modules up to the ReLU of the first hidden layer."""
        return 1 + next(n for n, layer in enumerate(self.layers) if isinstance(layer, nn.ReLU))


def _through(layers: Sequence[nn.Module], x: Tensor) -> Tensor:
    """Send (K, rows, n_in) through these layers."""
    out = x.transpose(1, 2)
    for layer, behind in zip(layers, [*layers[1:], None], strict=True):
        # Whoever stands before a ReLU cuts its own output, in the same go.
        if isinstance(behind, nn.ReLU):
            out = layer(out, relu=True)
        elif not isinstance(layer, nn.ReLU):
            out = layer(out)
    return out.transpose(1, 2)
