"""Checkpoints: the whole state of a run, written regularly and restored bit for bit."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor, nn

from equipoise.errors import InputError
from equipoise.networks.stack import member_tensors
from equipoise.training.data import BatchStream
from equipoise.training.loop import RunState, Step

#: Characters of an option that a message quotes.
_LONGEST_SHOWN = 200


class Stateful(Protocol):
    """Something whose state is tensors, plain values, lists, tuples and dicts.

    A state may share memory with tensors that go on changing; loading copies it into those that
    are there.
    """

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Store(Protocol):
    """Where the latest state of a run is kept; printed, it names the place."""

    def write(self, state: dict[str, Any]) -> None:
        """Replace the state kept so far, all at once."""

    def read(self) -> dict[str, Any] | None:
        """Return the state kept last, or None."""

    def refuse(self, error: Exception) -> NoReturn:
        """Say that what is kept is no state of a run, with the error that it led to."""


@dataclass(frozen=True)
class Identity:
    """What a run is: runs of equal identity are the same run."""

    stated: Mapping[str, str]  # options and versions, by name, in words
    hashed: Mapping[str, str]  # digests of data, by name

    def changes(self, later: Identity) -> list[str]:
        """Say in words what differs in a later run.

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
    """SHA-256 of values, types and shapes."""
    total = hashlib.sha256()
    for tensor in tensors:
        values = tensor.detach().cpu().contiguous()
        total.update(f"{values.dtype}{tuple(values.shape)}".encode())
        total.update(values.numpy().data)
    return total.hexdigest()


class Checkpoints:
    """Keeps the state of a run and of its phases in a store, at most every so many seconds.

    loops: the `parts_of` each, by name.
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
        self._due = time.monotonic()  # the first one is written as soon as there is a state

    def _read(self) -> Any:
        """Return the kept state of all loops; refuse that of another run."""
        kept = self._store.read()
        if kept is None:
            return None
        try:
            changes = Identity(**kept["identity"]).changes(self._identity)
        except Exception as error:  # somebody made this state by hand
            self._store.refuse(error)
        if changes:
            raise InputError(
                f"resume must go on with the run that wrote '{self._store}', but "
                f"{', '.join(changes)}; fit as that run did, or remove the file to start anew"
            )
        return kept

    def restore(self, name: str) -> None:
        """Let one loop go on from its kept state, if there is one and the loop had begun."""
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
        """Write the state if it is time, or if a loop has just ``ended``."""
        if time.monotonic() < self._due and not ended:
            return
        parts = {
            name: {part: own.state_dict() for part, own in loop.items()}
            for name, loop in self._loops.items()
        }
        self._store.write({"identity": asdict(self._identity), "parts": parts})
        self._due = time.monotonic() + self._seconds


def parts_of(
    step: Step, batches: BatchStream, state: RunState, more: Mapping[str, Stateful]
) -> dict[str, Stateful]:
    """Name everything that a loop over this step must remember, and ``more``."""
    return {
        "state": state,
        "weights": ModuleState(step.modules),
        "optimizers": OptimizerState(tuple(step.optimizers())),
        "batches": batches,
        **more,
    }


def _check_form(kept: Any, own: Any) -> None:
    """Refuse a state unlike that of the run that is to go on from it: names, types, shapes.

    Where the run has nothing yet, such as optimizers before their first step, any state passes.
    """
    if isinstance(own, Tensor):
        if not isinstance(kept, Tensor) or (kept.dtype, kept.shape) != (own.dtype, own.shape):
            raise ValueError(f"a tensor must be of {own.dtype} and shape {tuple(own.shape)}")
    elif isinstance(own, Mapping):
        if not isinstance(kept, dict) or (own and kept.keys() != own.keys()):
            raise ValueError(f"a part must have {', '.join(map(str, own)) or 'names'}")
        for name, part in own.items():
            _check_form(kept[name], part)
    elif isinstance(own, list):
        if not isinstance(kept, list) or (own and len(kept) != len(own)):
            raise ValueError(f"a part must have {len(own)} entries")
        for mine, theirs in zip(own, kept, strict=False):
            _check_form(theirs, mine)
    elif type(kept) is not type(own):
        raise ValueError(f"a value must be {type(own).__name__}, not {type(kept).__name__}")


@dataclass(frozen=True)
class ModuleState:
    """All weights and buffers of a module, those left out of its ``state_dict`` included."""

    module: nn.Module

    def state_dict(self) -> dict[str, Any]:
        return dict(member_tensors(self.module))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        # Overwritten, for a captured step reads the tensors where they are.
        with torch.no_grad():
            for name, tensor in member_tensors(self.module):
                tensor.copy_(state[name])


@dataclass(frozen=True)
class OptimizerState:
    """What optimizers remember of earlier steps; learning rates come from the settings."""

    optimizers: tuple[torch.optim.Optimizer, ...]

    def state_dict(self) -> dict[str, Any]:
        return {str(n): each.state_dict()["state"] for n, each in enumerate(self.optimizers)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for number, each in enumerate(self.optimizers):
            groups = each.state_dict()["param_groups"]
            memory = state[str(number)]
            _check_memory(memory, each)
            each.load_state_dict({"state": memory, "param_groups": groups})


def _check_memory(memory: Mapping[Any, Any], optimizer: torch.optim.Optimizer) -> None:
    """Refuse a memory that does not fit the weights, which torch itself does not look at."""
    adam = isinstance(optimizer, torch.optim.Adam)
    names = {"step", "exp_avg", "exp_avg_sq"} if adam else {"momentum_buffer"}
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    if not set(memory) <= set(range(len(weights))):
        raise ValueError("an optimizer remembers weights that are not there")
    for place, found in memory.items():
        if set(found) != names:
            raise ValueError(f"an optimizer must remember {', '.join(sorted(names))}")
        for name, tensor in found.items():
            shape = () if name == "step" else weights[place].shape
            if tensor is not None and (tensor.shape != shape or not tensor.is_floating_point()):
                raise ValueError(f"the {name} of an optimizer has another shape or type")
