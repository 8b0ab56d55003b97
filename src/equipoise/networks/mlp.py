"""The built-in networks: perceptrons, and votes among linear classifiers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.networks.layers import Pieces, PiecewiseLinear, StackedBatchNorm, StackedLinear
from equipoise.networks.stack import OnnxGraph, Saved, Stack, of_member

Normalization = Literal["batch", "spectral", "none"]


class StackedMLP(Stack):
    """K multi-layer perceptrons: (K, rows, n_in) -> (K, rows, n_out).

    ``hidden=()`` is a linear model. ``n_out=None`` leaves out the head: the output is then the
    last hidden layer, which is how an encoder is built. ``normalization="batch"`` is the
    paper's [Dense-BN-ReLU]; ``"spectral"`` bounds every layer's gradient by one (for critics). With
    ``pieces`` the first layer also sees the inputs cut into them. ``batches`` is how many batches
    the rows are that normalization takes one by one. ``twice_differentiable`` keeps to operations
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
        batch, spectral = (normalization == each for each in ("batch", "spectral"))
        dense = partial(
            StackedLinear,
            generators=generators,
            spectral=spectral,
            twice_differentiable=twice_differentiable,
        )
        layers: list[nn.Module] = []
        width = n_in
        if pieces is not None:
            layers.append(PiecewiseLinear(pieces, members=self.members))
            width += len(pieces.start)
        for wider in hidden:
            # Normalization takes any constant out again, so there is no bias before it.
            layers.append(dense(width, wider, bias=not batch))
            if batch:
                layers.append(StackedBatchNorm(self.members, wider, batches=batches))
            layers.append(nn.ReLU())
            width = wider
        if n_out is not None:
            layers.append(dense(width, n_out))
        #: Width of the output.
        self.width = width if n_out is None else n_out
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

    def hidden_layers(self, asked_by: str) -> StackedMLP:
        """Return this network, if it has hidden layers."""
        if not any(isinstance(layer, nn.ReLU) for layer in self.layers):
            raise self._no_hidden_layers(asked_by, "hidden=()")
        return self

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        """Add the layers of one member."""
        for layer in self.layers:
            if isinstance(layer, nn.ReLU):
                rows = graph.add("Relu", rows)
            else:
                rows = layer.to_onnx(graph, rows, member)  # type: ignore[operator]
        return rows

    @classmethod
    def restored(cls, saved: Saved, *, head: bool = True) -> Self:
        """Return a network of the same layers; without a ``head`` it is an encoder.

        A width is that of weights that are really there: an array without numbers can have any
        shape.
        """
        state, pieces = saved.state, _saved_pieces(saved)
        width = saved.inputs + (0 if pieces is None else len(pieces.start))
        widths = []
        for layer in _dense_layers(state):
            if layer.shape != (saved.members, layer.shape[1], width) or layer.numel() == 0:
                raise ValueError("the layers of a network do not fit one another")
            width = layer.shape[1]
            widths.append(width)
        saved.check_outputs(widths[-1])
        batch = any(re.fullmatch(r"layers\.\d+\.running_mean", name) for name in state)
        return cls(
            saved.inputs,
            widths[:-1] if head else widths,
            widths[-1] if head else None,
            generators=[torch.Generator()] * saved.members,
            normalization="batch" if batch else "none",
            pieces=pieces,
        )

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


def _dense_layers(state: Mapping[str, Tensor]) -> list[Tensor]:
    """Weights of the dense layers, first to last."""
    found = [(re.fullmatch(r"layers\.(\d+)\.weight", key), each) for key, each in state.items()]
    # Batch normalization has weights as well, of two dimensions: (K, width).
    dense = {int(match[1]): each for match, each in found if match and each.dim() == 3}
    return [dense[position] for position in sorted(dense)]


def _saved_pieces(saved: Saved) -> Pieces | None:
    """Return the pieces that the first layer cuts its inputs into, which all members share."""
    names = [f"layers.0.{field.name}" for field in fields(Pieces)]
    if names[0] not in saved.state:
        return None
    check_columns(saved.state[names[0]], saved.inputs)
    pieces = Pieces(*(saved.state[name][0].numpy() for name in names))
    kinds = {"column": np.int64, "start": np.float64, "slope": np.float64}
    for name, values in vars(pieces).items():
        if values.shape != (len(pieces.start),) or values.dtype != kinds[name]:
            raise ValueError("the pieces of columns do not fit one another")
    return pieces


def check_columns(columns: Tensor, inputs: int) -> None:
    """Refuse pieces of columns that are not among the inputs."""
    if not bool(((columns >= 0) & (columns < inputs)).all()):
        raise ValueError("a piece is of a column that is not there")


#: A probability of a positive decision is kept this far from 0 and 1, so that its log odds exist.
CERTAIN = 1e-12


class StackedVote(Stack):
    """K weighted votes among T linear classifiers: (K, rows, n_in) -> log odds (K, rows, 1).

    The probability of a positive decision is the share of the votes of the classifiers whose value
    w x + b is positive. Nothing here trains.
    """

    def __init__(
        self, weight: NDArray[np.float64], bias: NDArray[np.float64], share: NDArray[np.float64]
    ) -> None:
        """weight: (K, T, n_in). bias, share: (K, T); shares are positive or 0 and sum to one."""
        super().__init__()
        self.members = len(weight)
        self.weight, self.bias, self.share = (
            nn.Parameter(torch.tensor(values, device="cpu"), requires_grad=False)
            for values in (weight, bias, share)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the log odds of a positive decision."""
        value = torch.baddbmm(self.bias.unsqueeze(1), x, self.weight.transpose(1, 2))
        votes = (value > 0).to(x.dtype) @ self.share.unsqueeze(-1)
        return votes.logit(CERTAIN)

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        """Add the log odds of the share of votes, kept off 0 and 1 as here."""
        weight, bias, share = (
            graph.constant(of_member(part, member))
            for part in (self.weight, self.bias, self.share[..., None])
        )
        value = graph.add("Gemm", rows, weight, bias, transB=1)
        positive = graph.add("Greater", value, graph.constant(np.array(0.0)))
        votes = graph.add("MatMul", graph.cast(positive, np.float64), share)
        ends = (graph.constant(np.array(end)) for end in (CERTAIN, 1 - CERTAIN))
        votes = graph.add("Clip", votes, *ends)
        against = graph.add("Sub", graph.constant(np.array(1.0)), votes)
        return graph.add("Log", graph.add("Div", votes, against))

    @classmethod
    def restored(cls, saved: Saved) -> Self:
        """Return a vote of the saved shape."""
        saved.check_outputs(1)
        weight, bias, share = (saved.state[name] for name in ("weight", "bias", "share"))
        if weight.shape != (*bias.shape, saved.inputs) or bias.shape != share.shape:
            raise ValueError("the weights of a vote do not fit one another")
        return cls(*(part.double().numpy() for part in (weight, bias, share)))
