"""The interface of every stack of K models, and functions that select and copy members.

Every tensor of a stack has the member axis K first.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.networks.mlp import StackedMLP

Module = TypeVar("Module", bound=nn.Module)
#: A user's function that makes a network: (n_inputs, n_outputs) -> module.
NetworkFactory = Callable[[int, int], nn.Module]


class Stack(nn.Module, ABC):
    """K models behind one interface: rows (K, B, n_in) -> outputs (K, B, n_out).

    Its attributes and methods tell callers all they need, so that nobody asks for the subclass.
    """

    #: Whether a user's function makes it. Then its code is not in a saved file, and its layers may
    #: draw from the global generators.
    of_user: ClassVar[bool] = False
    #: Whether `forward` also takes rows (1, B, n_in) that all members share, and rows (G, B, n_in)
    #: of ``groups``.
    shares_rows: ClassVar[bool] = False
    #: Sizes of the G groups of consecutive members that share rows.
    groups: tuple[int, ...] = ()

    members: int
    #: Width of the output, where it is known before the first rows.
    width: int

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Return every member's output on its own rows."""

    @abstractmethod
    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        """Add one member to a graph; return its output (rows, n_out) for ``rows`` (rows, n_in)."""

    @classmethod
    @abstractmethod
    def restored(cls, saved: Saved) -> Self:
        """Return a stack of the size of the saved tensors; ValueError if they do not fit."""

    def arrays(self, needed: Sequence[Mapping[str, Tensor]]) -> dict[str, NDArray[Any]]:
        """Return arrays that a file must hold besides tensors, for members with these states."""
        return {}

    def try_on(self, x: Tensor, n_outputs: int) -> None:
        """Raise an InputError if it cannot train on rows x (n, n_in) with ``n_outputs`` outputs."""

    def hidden_layers(self, reason: str) -> StackedMLP:
        """Return the network if it has hidden layers; else an error that begins with ``reason``."""
        raise self._no_hidden_layers(reason, "a network of your own")

    def start_linear(self, member: int, weight: Tensor, bias: Tensor) -> None:
        """Let a member begin near weight (n_out, n_in) @ inputs + bias (n_out,), if it can."""
        raise NotImplementedError

    @staticmethod
    def _no_hidden_layers(reason: str, got: str) -> InputError:
        return InputError(
            f"{reason} of the built-in network, got {got}; set hidden, such as "
            "hidden=(64, 64, 64), and leave network out"
        )

    def never_missing(self) -> frozenset[int]:
        """Columns for which the members learned no rule for missing values."""
        return frozenset()


class OnnxGraph(Protocol):
    """An ONNX graph to add operations to; values are referred to by name."""

    def constant(self, array: NDArray[Any]) -> str: ...

    def add(self, operation: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator with one output; return the name of that output."""
        ...

    def cast(self, value: str, dtype: type) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A stack as read from a file."""

    state: Mapping[str, Tensor]  # its tensors by name, members first
    inputs: int
    outputs: int | None  # None: any number
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # everything else
    needed: Sequence[Mapping[str, Tensor]] = ()  # states that it may be filled with
    factory: NetworkFactory | None = None  # the user's function that makes the network

    @property
    def members(self) -> int:
        """Number of members, which must be the same for every tensor."""
        (members,) = {len(tensor) for tensor in self.state.values()}
        return members

    def part(self, name: str, *, inputs: int | None = None, outputs: int | None = None) -> Saved:
        """Return the stack that is this part of it, an attribute of this name."""
        state = {
            key.removeprefix(f"{name}."): tensor
            for key, tensor in self.state.items()
            if key.startswith(f"{name}.")
        }
        inputs = self.inputs if inputs is None else inputs
        return Saved(state=state, inputs=inputs, outputs=outputs)

    def check_outputs(self, found: int) -> None:
        """Raise a ValueError if the number of outputs is wrong."""
        if self.outputs is not None and found != self.outputs:
            raise ValueError(f"the network must have {self.outputs} outputs")


def of_member(weight: Tensor, member: int) -> NDArray[np.float64]:
    """Return the weights of one member in double precision."""
    array: NDArray[np.float64] = weight[member].detach().cpu().double().numpy()
    return array


def member_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield all parameters and buffers, each with the member axis K first."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def select_members(module: Module, members: Sequence[int]) -> Module:
    """Return a copy of ``module`` with only these members, in this order."""
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
    """Copy the members marked True in ``members`` (K,) from ``source`` to ``target``."""
    with torch.no_grad():
        pairs = zip(member_tensors(source), member_tensors(target), strict=True)
        for (_, new), (_, old) in pairs:
            mask = members.view(-1, *[1] * (old.dim() - 1))
            old.copy_(torch.where(mask, new, old))
