"""Checkpoints: the complete state of a run, written regularly and restored bit for bit."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor, nn

from equipoise.errors import InputError
from equipoise.networks.stack import member_tensors
from equipoise.training.data import BatchStream
from equipoise.training.loop import Lane, RunState, Step
from equipoise.training.optimizers import SGD, Adam

#: Longest value of an option, in characters, that a message quotes in full.
_LONGEST_SHOWN = 200


class Stateful(Protocol):
    """An object whose state consists of tensors, plain values, lists, tuples and dicts.

    The state may share memory with tensors that change later. Loading copies it into the existing
    tensors.
    """

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Store(Protocol):
    """Keeps the latest state of a run; ``str`` of it names the place."""

    def write(self, state: dict[str, Any]) -> None:
        """Replace the kept state in one step."""

    def read(self) -> dict[str, Any] | None:
        """Return the kept state, or None."""

    def refuse(self, error: Exception) -> NoReturn:
        """Raise an error: the kept state is not that of a run, as ``error`` shows."""


@dataclass(frozen=True)
class Identity:
    """Everything that identifies a run; only a run with the same identity may continue it."""

    stated: Mapping[str, str]  # options and versions by name, as text
    hashed: Mapping[str, str]  # digests of data by name

    def changes(self, later: Identity) -> list[str]:
        """Return what differs in a later run, as text.

        >>> first = Identity({"iterations": "100"}, {"features": digest([torch.zeros(2)])})
        >>> later = Identity({"iterations": "200"}, {"features": digest([torch.ones(2)])})
        >>> first.changes(later)
        ['iterations was 100, is 200', 'features differ']
        """
        stated = [
            f"{name} was {_shown(self.stated.get(name, 'not given'))}, is {_shown(value)}"
            for name, value in later.stated.items()
            if self.stated.get(name) != value
        ]
        names = dict.fromkeys([*self.hashed, *later.hashed])
        hashed = [
            f"{name} differ" for name in names if self.hashed.get(name) != later.hashed.get(name)
        ]
        return stated + hashed


def _shown(value: str) -> str:
    return value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}..."


def digest(tensors: Iterable[Tensor]) -> str:
    """Return the SHA-256 of the values, types and shapes of these tensors."""
    sha256 = hashlib.sha256()
    for tensor in tensors:
        values = tensor.detach().cpu().contiguous()
        sha256.update(f"{values.dtype}{tuple(values.shape)}".encode())
        sha256.update(values.numpy().data)
    return sha256.hexdigest()


class Checkpoints:
    """Keeps the state of a run and of its phases in a store, at most once every ``seconds``.

    loops: for the run and for each phase, by name, its `parts_of`.
    """

    def __init__(
        self,
        store: Store,
        *,
        identity: Identity,
        seconds: float,
        loops: Mapping[str, Mapping[str, Stateful]],
    ) -> None:
        self._store, self._identity = store, identity
        self._seconds, self._loops = seconds, loops
        self._kept = self._read()
        self._due = time.monotonic()  # the first checkpoint is written at the first check

    def _read(self) -> Any:
        """Return the kept state of all loops; refuse the state of another run."""
        kept = self._store.read()
        if kept is None:
            return None
        try:
            changes = Identity(**kept["identity"]).changes(self._identity)
        except Exception as error:  # a forged state can raise anything
            self._store.refuse(error)
        if changes:
            raise InputError(
                f"resume must continue the run that wrote '{self._store}', but "
                f"{', '.join(changes)}; use the data and options of that run, or remove the file "
                "to start anew"
            )
        return kept

    def restore(self, name: str) -> None:
        """Restore one loop from its kept state, if there is one and the loop had begun."""
        if self._kept is None:
            return
        try:
            kept = self._kept["parts"][name]
            if kept["state"]["checked"] == 0:
                return
            for part, own in self._loops[name].items():
                _check_form(kept[part], own.state_dict())
                own.load_state_dict(kept[part])
        except InputError:
            raise
        except Exception as error:
            self._store.refuse(error)

    def keep(self, ended: bool) -> None:
        """Write the state if a checkpoint is due, or if a loop has just ``ended``."""
        if time.monotonic() < self._due and not ended:
            return
        parts = {
            name: {part: own.state_dict() for part, own in loop.items()}
            for name, loop in self._loops.items()
        }
        self._store.write({"identity": asdict(self._identity), "parts": parts})
        self._due = time.monotonic() + self._seconds


def parts_of(
    step: Step,
    batches: BatchStream,
    state: RunState,
    more: Mapping[str, Stateful],
    lanes: Sequence[Lane] = (),
) -> dict[str, Stateful]:
    """Return everything that a resumed loop over this step needs, by name, and ``more``."""
    optimizers = OptimizerState(tuple(step.optimizers()))
    return {
        "state": state,
        "weights": ModuleState(step.modules),
        "optimizers": LaneOptimizers(tuple(lanes)) if lanes else optimizers,
        "batches": batches,
        **more,
    }


def _check_form(kept: Any, own: Any) -> None:
    """Refuse a kept state whose names, types or shapes differ from those of this run.

    Where this run has no state yet, as optimizers before their first step, any state passes.
    """
    if isinstance(own, Tensor):
        if not isinstance(kept, Tensor) or (kept.dtype, kept.shape) != (own.dtype, own.shape):
            raise ValueError(f"a tensor must have type {own.dtype} and shape {tuple(own.shape)}")
    elif isinstance(own, Mapping):
        if not isinstance(kept, dict) or (own and kept.keys() != own.keys()):
            raise ValueError(f"a part must have {', '.join(map(str, own)) or 'names'}")
        for name, part in own.items():
            _check_form(kept[name], part)
    elif isinstance(own, list):
        if not isinstance(kept, list) or (own and len(kept) != len(own)):
            raise ValueError(f"a part must have {len(own)} entries")
        for own_entry, kept_entry in zip(own, kept, strict=False):
            _check_form(kept_entry, own_entry)
    elif type(kept) is not type(own):
        raise ValueError(f"a value must be {type(own).__name__}, not {type(kept).__name__}")


@dataclass(frozen=True)
class ModuleState:
    """All weights and buffers of a module, including those that its ``state_dict`` leaves out."""

    module: nn.Module

    def state_dict(self) -> dict[str, Any]:
        return dict(member_tensors(self.module))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        # In place, since a captured CUDA graph reads these very tensors.
        with torch.no_grad():
            for name, tensor in member_tensors(self.module):
                tensor.copy_(state[name])


@dataclass(frozen=True)
class OptimizerState:
    """Momentum and step counts of optimizers; learning rates come from the settings."""

    optimizers: tuple[torch.optim.Optimizer, ...]

    def state_dict(self) -> dict[str, Any]:
        return {
            str(number): {
                place: dict(optimizer.state[weight])
                for place, weight in enumerate(_weights_of(optimizer))
                if optimizer.state.get(weight)
            }
            for number, optimizer in enumerate(self.optimizers)
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for number, optimizer in enumerate(self.optimizers):
            kept = state[str(number)]
            _check_fits(kept, optimizer)
            for place, weight in enumerate(_weights_of(optimizer)):
                if place in kept:
                    optimizer.state[weight] = {
                        name: None if tensor is None else tensor.to(weight.device, copy=True)
                        for name, tensor in kept[place].items()
                    }


@dataclass(frozen=True)
class LaneOptimizers:
    """The optimizers of all lanes, in the form that they would have without lanes.

    So a run can be resumed with another number of threads.
    """

    lanes: tuple[Lane, ...]

    def state_dict(self) -> dict[str, Any]:
        joined: dict[str, Any] = _joined([own.state_dict() for own in self._of_lanes()])
        return joined

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for lane, own in zip(self.lanes, self._of_lanes(), strict=True):
            own.load_state_dict(_taken(state, lane.members))

    def _of_lanes(self) -> list[OptimizerState]:
        return [OptimizerState(tuple(lane.step.optimizers())) for lane in self.lanes]


def _joined(states: Sequence[Any]) -> Any:
    """Join states of the same form along the member axis; a count of steps is that of all."""
    first = states[0]
    if isinstance(first, Mapping):
        return {name: _joined([state[name] for state in states]) for name in first}
    return torch.cat(list(states)) if isinstance(first, Tensor) and first.dim() else first


def _taken(state: Any, members: slice) -> Any:
    """Return the part of a state that belongs to these members."""
    if isinstance(state, Mapping):
        return {name: _taken(value, members) for name, value in state.items()}
    if not isinstance(state, Tensor):
        return state
    return (state[members] if state.dim() else state).clone()


def _weights_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def _check_fits(kept: Mapping[Any, Any], optimizer: torch.optim.Optimizer) -> None:
    """Refuse a state that does not fit the weights of the optimizer; torch does not check it."""
    adam = isinstance(optimizer, Adam | torch.optim.Adam)
    names = set(Adam.kept if adam else SGD.kept)
    weights = _weights_of(optimizer)
    if not set(kept) <= set(range(len(weights))):
        raise ValueError("the state of an optimizer has more weights than the optimizer")
    for position, tensors in kept.items():
        if set(tensors) != names:
            raise ValueError(f"the state of an optimizer must hold {', '.join(sorted(names))}")
        for name, tensor in tensors.items():
            shape = () if name == "step" else weights[position].shape
            if tensor is not None and (tensor.shape != shape or not tensor.is_floating_point()):
                raise ValueError(f"the {name} of an optimizer has a wrong shape or type")
