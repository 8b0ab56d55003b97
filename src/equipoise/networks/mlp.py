"""The built-in networks for K members at once: layers, perceptrons, votes of linear classifiers.

Layers work on activations (K, width, rows). With the rows last, a dense layer is one ``baddbmm``
call and batch normalization one native call over K * width channels, without any transposing or
copying in between.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import batch_norm, normalize

from equipoise.networks.stack import OnnxGraph, Saved, Stack, of_member

#: Initial weights are made with these options, whatever torch's defaults are.
SINGLE: Mapping[str, Any] = MappingProxyType({"dtype": torch.float32, "device": "cpu"})


#: Most rows that one program of a Triton kernel can hold; larger batches use torch's operations.
MOST_ROWS = 8192


def fused_kernels(x: Tensor) -> Any:
    """Return the module of Triton kernels if they can work on x (..., rows), else None.

    Where this returns None (on a CPU, in double precision, without Triton), callers use torch's
    operations.
    """
    fits = x.dtype == torch.float32 and x.shape[-1] <= MOST_ROWS
    return kernels_on(x.device) if fits else None


def kernels_on(device: torch.device, module: str = "equipoise.networks.kernels") -> Any:
    """Return a module of Triton kernels if they run on this device, else None."""
    return _kernels(module) if device.type == "cuda" else None


@functools.cache
def _kernels(module: str) -> Any:
    installed = find_spec("triton") is not None
    return import_module(module) if installed else None


class StackedLinear(nn.Module):
    """K dense layers: (K, n_in, rows) -> (K, n_out, rows).

    Initial weights are Glorot uniform and biases zero. Each member has its own generator, so that
    its initial weights do not depend on the other members. With ``spectral`` every member's weight
    is divided by its largest singular value, estimated by power iteration (Miyato et al. 2018).
    """

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        generators: Sequence[torch.Generator],
        bias: bool = True,
        spectral: bool = False,
        twice_differentiable: bool = False,
    ) -> None:
        super().__init__()
        bound = math.sqrt(6.0 / (n_in + n_out))
        weight = [
            (2 * torch.rand(n_out, n_in, generator=generator, **SINGLE) - 1) * bound
            for generator in generators
        ]
        self.weight = nn.Parameter(torch.stack(weight))
        self.bias = nn.Parameter(torch.zeros(len(generators), n_out, **SINGLE)) if bias else None
        self._twice_differentiable = twice_differentiable
        self.spectral = spectral
        if spectral:
            left = [torch.randn(n_out, generator=generator, **SINGLE) for generator in generators]
            self.left: Tensor
            self.register_buffer("left", normalize(torch.stack(left), dim=-1))

    def forward(self, x: Tensor, *, relu: bool = False, groups: Sequence[int] = ()) -> Tensor:
        """Apply every member's layer to its own rows; with ``relu`` apply ReLU as well.

        If x is (G, n_in, rows), groups of consecutive members of these sizes share rows.
        """
        weight = self._unit_weight() if self.spectral else self.weight
        if len(x) != len(weight):
            shared = self._on_shared_rows(weight, x, groups)
            return torch.relu_(shared) if relu else shared
        kernels = None if self._twice_differentiable else fused_kernels(x)
        if self.bias is None:
            out = torch.bmm(weight, x)
        elif kernels is not None and relu:
            activated: Tensor = kernels.BiasRelu.apply(torch.bmm(weight, x), self.bias)
            return activated
        elif kernels is not None and weight.shape[1] == 1:
            single: Tensor = kernels.Output.apply(x, weight, self.bias)
            return single
        else:
            out = torch.baddbmm(self.bias.unsqueeze(-1), weight, x)
        # In place, which is faster; the values before ReLU are not needed.
        return torch.relu_(out) if relu else out

    def _on_shared_rows(self, weight: Tensor, x: Tensor, groups: Sequence[int]) -> Tensor:
        """Multiply the weights of a group by its rows in one product, which is faster than many."""
        products = []
        ends = list(accumulate(groups, initial=0))
        for rows, (first, last) in zip(x, pairwise(ends), strict=True):
            of_group = weight[first:last].flatten(0, 1)
            if self.bias is None:
                products.append(of_group @ rows)
            else:
                bias = self.bias[first:last].reshape(-1, 1)
                products.append(torch.addmm(bias, of_group, rows))
        (out, *others) = products
        out = torch.cat(products) if others else out
        return out.view(*weight.shape[:2], -1)

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        parts = [self.weight] if self.bias is None else [self.weight, self.bias]
        weights = [graph.constant(of_member(part, member)) for part in parts]
        return graph.add("Gemm", rows, *weights, transB=1)

    def _unit_weight(self) -> Tensor:
        """Weights divided by an estimate of their largest singular value, (K, n_out, n_in)."""
        with torch.no_grad():
            left = self.left
            # Several iterations per call, so that the estimate keeps up with a fast critic.
            for _ in range(3 if self.training else 1):
                right = normalize(torch.einsum("koi,ko->ki", self.weight, left), dim=-1)
                left = normalize(torch.einsum("koi,ki->ko", self.weight, right), dim=-1)
            if self.training:
                self.left.copy_(left)
        largest = torch.einsum("ko,koi,ki->k", left, self.weight, right)
        return self.weight / largest.clamp_min(1e-12)[:, None, None]


class StackedBatchNorm(nn.Module):
    """Batch normalization of (K, width, rows), separately for each member and feature.

    Running statistics are plain averages over the first batches, so that short runs are not biased
    towards the initial values. Later they are exponential averages with weight 0.01 for the newest
    batch, as in the paper's networks. If ``batches`` is above one, the rows consist of that many
    consecutive batches of equal length, which are normalized separately.
    """

    newest_weight = 0.01

    def __init__(
        self,
        members: int,
        width: int,
        *,
        affine: bool = True,
        epsilon: float = 1e-3,
        batches: int = 1,
    ) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.batches = batches
        self.weight = nn.Parameter(torch.ones(members, width, **SINGLE)) if affine else None
        self.bias = nn.Parameter(torch.zeros(members, width, **SINGLE)) if affine else None
        self.running_mean: Tensor
        self.running_var: Tensor
        self.batches_seen: Tensor
        channels = width * batches
        self.register_buffer("running_mean", torch.zeros(members, channels, **SINGLE))
        self.register_buffer("running_var", torch.ones(members, channels, **SINGLE))
        self.register_buffer(
            "batches_seen", torch.zeros(members, channels, dtype=torch.long, device="cpu")
        )

    def forward(self, x: Tensor, *, relu: bool = False) -> Tensor:
        """Normalize by the rows in training, else by running statistics; then ReLU if ``relu``."""
        members, width, rows = x.shape
        # Every feature of every batch is a channel.
        channels = x.reshape(members, width * self.batches, rows // self.batches)
        if self.training and (kernels := fused_kernels(x)) is not None:
            given = channels, self.weight, self.bias, *self.settings, relu
            out: Tensor = kernels.Normalize.apply(*given)
        else:
            weight, bias = self._of_channels(self.weight), self._of_channels(self.bias)
            out = self._by_library(channels, weight, bias, relu)
        return out.view(members, width, rows)

    @property
    def settings(self) -> tuple[tuple[Tensor, Tensor, Tensor], float, float]:
        """Running statistics, and the numbers that kernels need."""
        running = self.running_mean, self.running_var, self.batches_seen
        return running, self.epsilon, self.newest_weight

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        """Add one member's layer; with running statistics it is x * factor + shift."""
        assert self.weight is not None and self.bias is not None
        weight, bias, mean, variance = (
            of_member(part, member)
            for part in (self.weight, self.bias, self.running_mean, self.running_var)
        )
        factor = weight / np.sqrt(variance + self.epsilon)
        rows = graph.add("Mul", rows, graph.constant(factor))
        return graph.add("Add", rows, graph.constant(bias - factor * mean))

    def _of_channels(self, values: Tensor | None) -> Tensor | None:
        """Repeat values (K, width) for every channel, (K, width * batches)."""
        if values is None or self.batches == 1:
            return values
        return values.repeat_interleave(self.batches, 1)

    def _by_library(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, relu: bool
    ) -> Tensor:
        members, width, rows = x.shape
        if self.training:
            # The native call writes this batch's statistics to these tensors. `_remember` mixes
            # them into the running ones, with a weight that is a tensor on the device.
            mean, variance = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = batch_norm(
            x.reshape(1, members * width, rows),
            mean.view(-1),
            variance.view(-1),
            None if weight is None else weight.view(-1),
            None if bias is None else bias.view(-1),
            training=self.training,
            momentum=1.0,
            eps=self.epsilon,
        )
        if self.training:
            self._remember(mean, variance)
        # Before the view, since an in-place operation on a view would cost four more copies.
        if relu:
            normalized = torch.relu_(normalized)
        return normalized.view(members, width, rows)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Mix a batch's statistics (K, channels) into the running statistics."""
        self.batches_seen += 1
        share = self.batches_seen.to(mean.dtype).reciprocal().clamp_min(self.newest_weight)
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)


#: Inputs of the first layer: the value of each column only, or its pieces as well.
Embedding = Literal["pieces", "none"]

#: Rows used to find knots; more rows would hardly move them.
KNOT_ROWS = 50_000
#: This many of the most frequent values become knots, if at least _FREQUENT_ROWS rows have them.
_FREQUENT = 24
_FREQUENT_ROWS = 10
#: Knots spread evenly over the distinct values.
_EVEN = 8
#: Most pieces of all columns together. With many columns, each is cut less finely or not at all,
#: because the first layer has weights for every piece of every member.
MOST_PIECES = 16_384
#: Smallest distance of two knots, as a share of the column's range, and smallest range that is cut.
_CLOSEST = 1e-6
_SMALLEST_RANGE = 1e-24


@dataclass(frozen=True, eq=False)
class Pieces:
    """Intervals between neighboring knots of the columns, (m,) each."""

    column: NDArray[np.int64]  # the column of an interval
    start: NDArray[np.float64]  # its lower end
    slope: NDArray[np.float64]  # one over its length


def find_pieces(x: Tensor, *, most: int = MOST_PIECES) -> Pieces:
    """Cut the columns of encoded rows x (n, p) at their knots; 0/1 columns are not cut.

    There are at most ``most`` pieces of all columns together.

    Amounts and counts are often equal to a few values (zero, round numbers, a tax bracket), whose
    outcome can differ from that of values nearby. Quantiles of the rows would spend all knots on
    the most frequent value. So frequent values become knots, and a few more knots are spread evenly
    over the distinct values.
    """
    step = -(-len(x) // KNOT_ROWS)
    rows = x[::step].cpu().double().numpy()
    knots_of = {position: find_knots(rows[:, position]) for position in range(rows.shape[1])}
    cut = {position: knots for position, knots in knots_of.items() if len(knots) > 2}
    if sum(len(knots) - 1 for knots in cut.values()) > most:
        each = most // len(cut)
        cut = {position: _thinned(knots, each) for position, knots in cut.items() if each > 1}
    column, start, slope = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0)]
    for position, knots in cut.items():
        column.append(np.full(len(knots) - 1, position))
        start.append(knots[:-1])
        slope.append(1 / np.diff(knots))
    return Pieces(np.concatenate(column), np.concatenate(start), np.concatenate(slope))


def _thinned(knots: NDArray[np.float64], pieces: int) -> NDArray[np.float64]:
    """Choose knots evenly for at most this many pieces; the outermost knots stay."""
    if len(knots) - 1 <= pieces:
        return knots
    return knots[np.linspace(0, len(knots) - 1, pieces + 1).round().astype(np.int64)]


def find_knots(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the knots of a column (n,) in ascending order, from its least to its largest value."""
    distinct, counts = np.unique(values, return_counts=True)
    frequent = np.argsort(-counts, kind="stable")[:_FREQUENT]
    frequent = frequent[counts[frequent] >= _FREQUENT_ROWS]
    even = np.linspace(0, len(distinct) - 1, _EVEN).round().astype(np.int64)
    knots = distinct[np.union1d(frequent, even)]
    # Knots that single precision can hardly tell apart would make a piece nearly infinitely steep.
    apart = np.diff(knots, prepend=-np.inf) > _CLOSEST * max(np.ptp(knots), _SMALLEST_RANGE)
    return knots[apart]


class PiecewiseLinear(nn.Module):
    """Adds the m pieces to the p columns: (K, p, rows) -> (K, p + m, rows).

    A piece is 0 below its interval, 1 above it and linear in between. This is the piecewise linear
    encoding of Gorishniy, Rubachev and Babenko (2022, "On embeddings for numerical features in
    tabular deep learning"). Pieces are computed for each batch, since those of all rows may not fit
    into memory. Nothing here trains; all members share the pieces.
    """

    def __init__(self, pieces: Pieces, *, members: int) -> None:
        super().__init__()
        self.column: Tensor
        self.start: Tensor
        self.slope: Tensor
        for name in ("column", "start", "slope"):
            values = torch.from_numpy(getattr(pieces, name))
            if values.is_floating_point():
                values = values.float()
            self.register_buffer(name, values.repeat(members, 1))

    def forward(self, x: Tensor) -> Tensor:
        pieces = x.index_select(1, self.column[0])
        # All members have the same pieces, and may share rows.
        start, slope = (each[: len(x)].unsqueeze(-1) for each in (self.start, self.slope))
        pieces = (pieces - start) * slope
        return torch.cat([x, pieces.clamp_(0, 1)], 1)

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        pieces = graph.add("Gather", rows, graph.constant(self.column[0].cpu().numpy()), axis=1)
        pieces = graph.add("Sub", pieces, graph.constant(of_member(self.start, member)))
        pieces = graph.add("Mul", pieces, graph.constant(of_member(self.slope, member)))
        zero, one = (graph.constant(np.array(end)) for end in (0.0, 1.0))
        return graph.add("Concat", rows, graph.add("Clip", pieces, zero, one), axis=1)


Normalization = Literal["batch", "spectral", "none"]

#: Beside a linear path the initial weights of the last layer are reduced to this share, so that the
#: layers begin by correcting the linear model a little.
BESIDE_LINEAR = 0.3
#: Name of the array in a file that says that the network has a linear path.
LINEAR_PATH = "linear_path"


class StackedMLP(Stack):
    """K multi-layer perceptrons: (K, rows, n_in) -> (K, rows, n_out).

    ``hidden=()`` is a linear model. ``n_out=None`` leaves out the head, as in an encoder: the
    output is the last hidden layer. ``normalization="batch"`` is the paper's [Dense-BN-ReLU];
    ``"spectral"`` bounds the gradient of every layer by one (for critics). With ``pieces`` the
    first layer also sees the pieces of its inputs. With ``linear_path`` a linear model of the
    inputs is added to the output; it is zero until `start_linear`. ``batches`` is the number of
    batches among the rows that are normalized separately. ``twice_differentiable`` uses only
    operations that have gradients of gradients on a GPU, too.
    """

    shares_rows = True

    def __init__(
        self,
        n_in: int,
        hidden: Sequence[int],
        n_out: int | None,
        *,
        generators: Sequence[torch.Generator],
        normalization: Normalization = "batch",
        pieces: Pieces | None = None,
        linear_path: bool = False,
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
        for n_hidden in hidden:
            # Batch normalization would remove a bias before it, so there is none.
            layers.append(dense(width, n_hidden, bias=not batch))
            if batch:
                layers.append(StackedBatchNorm(self.members, n_hidden, batches=batches))
            layers.append(nn.ReLU())
            width = n_hidden
        if n_out is not None:
            layers.append(dense(width, n_out))
        #: Width of the output.
        self.width = width if n_out is None else n_out
        self.layers = nn.Sequential(*layers)
        #: Weights of the linear path, (K, n_out, n_in); None without one.
        self.linear: nn.Parameter | None = None
        if linear_path:
            self.linear = nn.Parameter(torch.zeros(self.members, self.width, n_in, **SINGLE))
            with torch.no_grad():
                self.head.weight.mul_(BESIDE_LINEAR)

    @property
    def head(self) -> StackedLinear:
        """The last layer."""
        last = self.layers[-1]
        assert isinstance(last, StackedLinear)
        return last

    @torch.no_grad()
    def start_linear(self, member: int, weight: Tensor, bias: Tensor) -> None:
        """Let the linear path of a member be weight (n_out, n_in) @ inputs + bias (n_out,)."""
        assert self.linear is not None and self.head.bias is not None
        self.linear[member], self.head.bias[member] = weight, bias

    def forward(self, x: Tensor) -> Tensor:
        return self._with_linear(self._through(list(self.layers), x), x)

    def first_hidden(self, x: Tensor) -> Tensor:
        """Return the values of the first hidden layer, (K, rows, width)."""
        return self._through(list(self.layers)[: self._behind_first], x)

    def behind_first_hidden(self, hidden: Tensor) -> Tensor:
        """Return the output for values of the first hidden layer."""
        return self._through(list(self.layers)[self._behind_first :], hidden)

    def with_last_hidden(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output and the values of the last hidden layer, (K, rows, width)."""
        layers = list(self.layers)
        hidden = self._through(layers[:-1], x)
        return self._with_linear(self._through(layers[-1:], hidden), x), hidden

    def hidden_layers(self, reason: str) -> StackedMLP:
        """Return this network if it has hidden layers; else an error."""
        if not any(isinstance(layer, nn.ReLU) for layer in self.layers):
            raise self._no_hidden_layers(reason, "hidden=()")
        return self

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        inputs = rows
        for layer in self.layers:
            if isinstance(layer, nn.ReLU):
                rows = graph.add("Relu", rows)
            else:
                rows = layer.to_onnx(graph, rows, member)  # type: ignore[operator]
        if self.linear is None:
            return rows
        weight = graph.constant(of_member(self.linear, member))
        return graph.add("Gemm", inputs, weight, rows, transB=1)

    def arrays(self, needed: Sequence[Mapping[str, Tensor]]) -> dict[str, NDArray[Any]]:
        # Layers without a linear path are a network, too; so a file says that there must be one.
        return {} if self.linear is None else {LINEAR_PATH: np.ones(1, dtype=bool)}

    @classmethod
    def restored(cls, saved: Saved, *, head: bool = True) -> Self:
        """Return a network with the same layers; without a ``head`` it is an encoder.

        Empty weights are refused, since an empty array can claim any shape.
        """
        state, pieces = saved.state, _saved_pieces(saved)
        width = saved.inputs + (0 if pieces is None else len(pieces.start))
        widths = []
        for layer in _dense_layers(state):
            if layer.shape != (saved.members, layer.shape[1], width) or layer.numel() == 0:
                raise ValueError("the layers of a network do not fit together")
            width = layer.shape[1]
            widths.append(width)
        saved.check_outputs(widths[-1])
        linear = state.get("linear")
        if (linear is not None) != (LINEAR_PATH in saved.arrays):
            raise ValueError("the linear path of a network is missing, or not its own")
        if linear is not None and linear.shape != (saved.members, widths[-1], saved.inputs):
            raise ValueError("the linear path of a network does not fit its layers")
        batch = any(re.fullmatch(r"layers\.\d+\.running_mean", name) for name in state)
        return cls(
            saved.inputs,
            widths[:-1] if head else widths,
            widths[-1] if head else None,
            generators=[torch.Generator()] * saved.members,
            normalization="batch" if batch else "none",
            pieces=pieces,
            linear_path=linear is not None,
        )

    def _with_linear(self, out: Tensor, x: Tensor) -> Tensor:
        """Add the linear path of x (K or G, rows, n_in) to the output of the layers."""
        if self.linear is None:
            return out
        if len(x) != len(out):
            x = x.repeat_interleave(torch.tensor(self._sizes(x), device=x.device), 0)
        return torch.baddbmm(out, x, self.linear.transpose(1, 2))

    def _sizes(self, x: Tensor) -> tuple[int, ...]:
        """Return how many members share each of the rows x (G, ...)."""
        return (self.members,) if len(x) == 1 else self.groups

    def _through(self, layers: Sequence[nn.Module], x: Tensor) -> Tensor:
        """Apply these layers to x (K, rows, n_in), or (G, rows, n_in) if groups share rows."""
        out = x.transpose(1, 2)
        for layer, following in zip(layers, [*layers[1:], None], strict=True):
            # The layer before a ReLU applies it in the same call.
            options: dict[str, Any] = {"relu": True} if isinstance(following, nn.ReLU) else {}
            if isinstance(layer, StackedLinear):
                options["groups"] = self._sizes(out)
            if not isinstance(layer, nn.ReLU):
                out = layer(out, **options)
        return out.transpose(1, 2)

    @property
    def _behind_first(self) -> int:
        """Number of modules up to the ReLU of the first hidden layer."""
        return 1 + next(n for n, layer in enumerate(self.layers) if isinstance(layer, nn.ReLU))


def _dense_layers(state: Mapping[str, Tensor]) -> list[Tensor]:
    """Return the weights of the dense layers, first to last."""
    found = [(re.fullmatch(r"layers\.(\d+)\.weight", key), each) for key, each in state.items()]
    # Weights of batch normalization have two dimensions, (K, width).
    dense = {int(match[1]): each for match, each in found if match and each.dim() == 3}
    return [dense[position] for position in sorted(dense)]


def _saved_pieces(saved: Saved) -> Pieces | None:
    """Return the pieces of the inputs, which all members share; None if there are none."""
    names = [f"layers.0.{field.name}" for field in fields(Pieces)]
    if names[0] not in saved.state:
        return None
    check_columns(saved.state[names[0]], saved.inputs)
    pieces = Pieces(*(saved.state[name][0].numpy() for name in names))
    kinds = {"column": np.int64, "start": np.float64, "slope": np.float64}
    for name, values in vars(pieces).items():
        if values.shape != (len(pieces.start),) or values.dtype != kinds[name]:
            raise ValueError("the pieces of columns do not fit together")
    return pieces


def check_columns(columns: Tensor, inputs: int) -> None:
    """Raise a ValueError if pieces belong to columns that do not exist."""
    if not bool(((columns >= 0) & (columns < inputs)).all()):
        raise ValueError("a piece belongs to a column that does not exist")


#: Probabilities of a positive decision are kept this far from 0 and 1, so that log odds are finite.
CERTAIN = 1e-12


class StackedVote(Stack):
    """K weighted votes of T linear classifiers: (K, rows, n_in) -> log odds (K, rows, 1).

    A classifier votes for a positive decision if w x + b is positive. The share of these votes is
    the probability of a positive decision. Nothing here trains.
    """

    def __init__(
        self, weight: NDArray[np.float64], bias: NDArray[np.float64], share: NDArray[np.float64]
    ) -> None:
        """weight: (K, T, n_in). bias, share: (K, T); shares are not negative and sum to one."""
        super().__init__()
        self.members = len(weight)
        self.weight, self.bias, self.share = (
            nn.Parameter(torch.tensor(values, device="cpu"), requires_grad=False)
            for values in (weight, bias, share)
        )

    def forward(self, x: Tensor) -> Tensor:
        value = torch.baddbmm(self.bias.unsqueeze(1), x, self.weight.transpose(1, 2))
        votes = (value > 0).to(x.dtype) @ self.share.unsqueeze(-1)
        return votes.logit(CERTAIN)

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        """Add one member's log odds, clipped as in `forward`."""
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
        saved.check_outputs(1)
        weight, bias, share = (saved.state[name] for name in ("weight", "bias", "share"))
        if weight.shape != (*bias.shape, saved.inputs) or bias.shape != share.shape:
            raise ValueError("the weights of a vote do not fit together")
        return cls(*(part.double().numpy() for part in (weight, bias, share)))
