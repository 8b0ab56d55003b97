"""What every stack of K models has in common, and the built-in networks: perceptrons and votes.

Every tensor of a stack has the member axis K first, so members are rows of its state.
"""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.errors import InputError
from equipoise.networks.layers import Pieces, PiecewiseLinear, StackedBatchNorm, StackedLinear

Module = TypeVar("Module", bound=nn.Module)
#: A user's function that makes a network: (n_inputs, n_outputs) -> module.
NetworkFactory = Callable[[int, int], nn.Module]


class Stack(nn.Module, ABC):
    """K models behind one interface: rows (K, B, n_in) -> outputs (K, B, n_out).

    A stack says of itself what others must know, so that nobody asks which kind it is.
    """

    #: Whether a user's function makes it. A file then lacks its code, and its layers may draw from
    #: the global generators.
    of_user: ClassVar[bool] = False

    members: int

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Return every member's output on its own rows."""

    @abstractmethod
    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        """Add one member to a graph; return its output (rows, n_out) for ``rows`` (rows, n_in)."""

    @classmethod
    @abstractmethod
    def restored(cls, saved: Saved) -> Self:
        """Return a stack with room for the saved tensors, and no larger; ValueError otherwise."""

    def arrays(self, needed: Sequence[Mapping[str, Tensor]]) -> dict[str, NDArray[Any]]:
        """Return what a file must hold besides the tensors for members of the states ``needed``."""
        return {}

    def try_on(self, x: Tensor, n_outputs: int) -> None:
        """Refuse in words to train on rows x (n, n_in) with so many outputs, where it cannot."""

    def hidden_layers(self, asked_by: str) -> StackedMLP:
        """Return access to the hidden layers, or refuse it in words that begin ``asked_by``."""
        raise self._no_hidden_layers(asked_by, "a network of your own")

    @staticmethod
    def _no_hidden_layers(asked_by: str, got: str) -> InputError:
        return InputError(
            f"{asked_by} of the built-in network, got {got}; set hidden, such as "
            "hidden=(64, 64, 64), and leave network out"
        )

    def never_missing(self) -> frozenset[int]:
        """Columns for which members have no rule when a value is missing."""
        return frozenset()


class OnnxGraph(Protocol):
    """A graph that operations are added to; values go by name."""

    def constant(self, array: NDArray[Any]) -> str:
        """Add an array."""
        ...

    def add(self, operation: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Apply an operator; return the name of its only output."""
        ...

    def cast(self, value: str, dtype: type) -> str:
        """Convert to another type."""
        ...


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What a file holds of a stack.

    state: its tensors by name, members first. arrays: everything else. inputs, outputs: how many
    it must have; None for any number. needed: states that it may be filled with. factory: the
    user's function that makes the network.
    """

    state: Mapping[str, Tensor]
    inputs: int
    outputs: int | None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    needed: Sequence[Mapping[str, Tensor]] = ()
    factory: NetworkFactory | None = None

    @property
    def members(self) -> int:
        """Number of members, the same for every tensor."""
        (members,) = {len(tensor) for tensor in self.state.values()}
        return members

    def check_outputs(self, found: int) -> None:
        """Refuse another number of outputs."""
        if self.outputs is not None and found != self.outputs:
            raise ValueError(f"the network must have {self.outputs} outputs")


def of_member(weight: Tensor, member: int) -> NDArray[np.float64]:
    """Weights of one member in double precision."""
    array: NDArray[np.float64] = weight[member].detach().cpu().double().numpy()
    return array


def member_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """All parameters and buffers, each with the member axis K first."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def select_members(module: Module, members: Sequence[int]) -> Module:
    """Return a copy of ``module`` that holds only these members, in this order."""
    chosen = copy.deepcopy(module)
    for part in chosen.modules():
        if hasattr(part, "members"):
            setattr(part, "members", len(members))  # noqa: B010 - nn.Module types it a Tensor
    index = torch.tensor(list(members), dtype=torch.long, device="cpu")
    for _, tensor in member_tensors(chosen):
        tensor.data = tensor.data[index.to(tensor.device)].clone()
        tensor.grad = None
    return chosen


def copy_members(source: nn.Module, target: nn.Module, members: Tensor) -> None:
    """Overwrite the members marked in the boolean (K,) ``members`` of ``target``."""
    with torch.no_grad():
        pairs = zip(member_tensors(source), member_tensors(target), strict=True)
        for (_, new), (_, old) in pairs:
            mask = members.view(-1, *[1] * (old.dim() - 1))
            old.copy_(torch.where(mask, new, old))


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
