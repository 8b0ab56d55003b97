"""Checkpoints: the whole state of a run, kept every so often and put back bit for bit."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from equipoise.errors import InputError
from equipoise.networks.members import member_tensors
from equipoise.training.loop import Standing


class Stateful(Protocol):
    """Something whose state is tensors, plain values, lists, tuples and dicts."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state; it may share memory with what goes on changing."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state, into the tensors that are there."""
        ...


class Store(Protocol):
    """Where the latest state of a run is kept; printed, it names the place."""

    def write(self, state: dict[str, Any]) -> None:
        """Replace the state kept so far, all at once."""
        ...

    def read(self) -> dict[str, Any] | None:
        """Return the state kept last, or None."""
        ...


@dataclass(frozen=True)
class Identity:
    """What a run is: runs of equal identity are the same run.

    stated: options and versions, by name, in words. hashed: digests of data, by name.
    """

    stated: Mapping[str, str]
    hashed: Mapping[str, str]

    def changes(self, later: Identity) -> list[str]:
        """Say in words what differs in a later run.

        >>> first = Identity({"iterations": "100"}, {"features": digest([torch.zeros(2)])})
        >>> later = Identity({"iterations": "200"}, {"features": digest([torch.ones(2)])})
        >>> first.changes(later)
        ['iterations was 100, is 200', 'features differ']
        """
        stated = [
            f"{name} was {self.stated.get(name, 'not given')}, is {value}"
            for name, value in later.stated.items()
            if self.stated.get(name) != value
        ]
        names = dict.fromkeys([*self.hashed, *later.hashed])
        hashed = [
            f"{name} differ" for name in names if self.hashed.get(name) != later.hashed.get(name)
        ]
        return stated + hashed


def digest(tensors: Iterable[Tensor]) -> str:
    """SHA-256 of values, types and shapes."""
    total = hashlib.sha256()
    for tensor in tensors:
        values = tensor.detach().cpu().contiguous()
        total.update(f"{values.dtype}{tuple(values.shape)}".encode())
        total.update(values.numpy().data)
    return total.hexdigest()


class Checkpoints:
    """Keeps the state of all parts of a run in a store, at most every so many seconds."""

    def __init__(
        self,
        store: Store,
        *,
        identity: Identity,
        seconds: float,
        standing: Standing,
        parts: Mapping[str, Stateful],
    ) -> None:
        self._store = store
        self._identity = identity
        self._seconds = seconds
        self._standing = standing
        self._parts = {"standing": standing, **parts}
        self._due = time.monotonic()  # the first one is written as soon as there is a state

    def restore(self) -> bool:
        """Go on from the state in the store, if there is one and it is of this very run."""
        kept = self._store.read()
        if kept is None:
            return False
        changes = Identity(**kept["identity"]).changes(self._identity)
        if changes:
            raise InputError(
                f"resume must go on with the run that wrote '{self._store}', but "
                f"{', '.join(changes)}; fit as that run did, or remove the file to start anew"
            )
        for name, part in self._parts.items():
            part.load_state_dict(kept["parts"][name])
        return True

    def keep(self) -> None:
        """Write the state if it is time, or if the run has come to its end."""
        if time.monotonic() < self._due and not self._standing.ended:
            return
        parts = {name: part.state_dict() for name, part in self._parts.items()}
        self._store.write({"identity": asdict(self._identity), "parts": parts})
        self._due = time.monotonic() + self._seconds


@dataclass(frozen=True)
class ModuleState:
    """All weights and buffers of a module, those left out of its ``state_dict`` included."""

    module: nn.Module

    def state_dict(self) -> dict[str, Any]:
        """Return the tensors by name."""
        return dict(member_tensors(self.module))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Overwrite the tensors, which a captured step reads where they are."""
        with torch.no_grad():
            for name, tensor in member_tensors(self.module):
                tensor.copy_(state[name])


@dataclass(frozen=True)
class OptimizerState:
    """What optimisers remember of earlier steps; rates and the like come from the settings."""

    optimizers: tuple[torch.optim.Optimizer, ...]

    def state_dict(self) -> dict[str, Any]:
        """Return moments and counts of steps, by number of optimiser and weight."""
        return {str(n): each.state_dict()["state"] for n, each in enumerate(self.optimizers)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Hand every optimiser its memory; torch moves it to where its weights are."""
        for number, each in enumerate(self.optimizers):
            groups = each.state_dict()["param_groups"]
            each.load_state_dict({"state": state[str(number)], "param_groups": groups})
