"""How one call of ``fit`` is looked after: checkpoints, resuming, a callback, Ctrl-C."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor

from equipoise.errors import ConvergenceWarning, InputError, check_flag, check_number
from equipoise.storage import CheckpointFile
from equipoise.training import Callback, Supervision, Trained, TrainingData
from equipoise.training.checkpoints import Identity, Stateful, Store, digest

#: Options that change nothing about what is trained, or that other parts of an identity cover.
_NOT_OF_THE_RUN = ("verbose", "progress_budget", "device", "network")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What ``fit`` was asked to do beside training; checked before any data is touched."""

    checkpoint: str | PathLike[str] | None = None
    checkpoint_every: float = 60.0
    resume: bool = False
    callback: Callback | None = None

    def __post_init__(self) -> None:
        check_number(
            "checkpoint_every",
            self.checkpoint_every,
            "must be a number of seconds of at least 0",
            lambda seconds: seconds >= 0,
        )
        check_flag("resume", self.resume)
        if self.callback is not None and not callable(self.callback):
            raise InputError(
                "callback must be a function of one argument, the progress, got "
                f"{type(self.callback).__name__}"
            )
        if self.resume and self.checkpoint is None:
            raise InputError(
                "resume=True needs the file to go on from, got checkpoint=None; call "
                "fit(..., checkpoint=path, resume=True)"
            )

    @contextmanager
    def store(self, random_state: Any) -> Iterator[CheckpointFile | None]:
        """Yield the file to keep checkpoints in, if asked for; nobody else writes to it then."""
        if self.checkpoint is None:
            yield None
            return
        file = CheckpointFile(self.checkpoint)
        if not isinstance(random_state, int | np.integer):
            raise InputError(
                "random_state must be a whole number when checkpoints are kept, got "
                f"{random_state!r}: a resumed run has to draw what the first one drew"
            )
        with file.in_use():
            if file.exists() and not self.resume:
                raise InputError(
                    f"checkpoint must be new unless resume=True, got '{file}', which is there; "
                    "call fit(..., resume=True) to go on from it, or remove it to start anew"
                )
            yield file

    def supervision(
        self,
        store: Store | None,
        options: Mapping[str, Any],
        data: TrainingData,
        *,
        more: Mapping[str, Iterable[Tensor]] = MappingProxyType({}),
        parts: Mapping[str, Stateful] = MappingProxyType({}),
        callbacks: Sequence[Callback | None] = (),
    ) -> Supervision:
        """Return the supervision of a run with these options of its estimator on these rows.

        ``more`` are further rows that the run depends on, ``parts`` what else it must remember.
        """
        told = tuple(callback for callback in callbacks if callback is not None)
        if store is None:
            return Supervision(callbacks=told)
        return Supervision(
            store=store,
            seconds=self.checkpoint_every,
            identity=_identity(options, data, more),
            parts=parts,
            callbacks=told,
        )


def same_form(value: Any) -> Any:
    """Return an option in the one form in which equal options are equal.

    A list, an array and a tuple of the same numbers ask for the same, and so do 1 and 1.0.

    >>> same_form([64, 64.0]) == same_form(np.array([64, 64])) == (64, 64)
    True
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(same_form(item) for item in value)
    if isinstance(value, Mapping):
        return {name: same_form(item) for name, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _identity(
    options: Mapping[str, Any], data: TrainingData, more: Mapping[str, Iterable[Tensor]]
) -> Identity:
    """Return what makes a run of these options on these rows the run it is."""
    stated = {
        name: repr(same_form(value))
        for name, value in options.items()
        if name not in _NOT_OF_THE_RUN
    }
    stated |= {f"version of {name}": version(name) for name in ("equipoise", "torch")}
    tensors: dict[str, list[Tensor | None]] = {
        "features": [data.x],
        "outcomes": [data.target, data.outcome],
        "sensitive features": [data.attribute, data.known],
        "sample weights": [data.weight],
    }
    given: dict[str, Iterable[Tensor]] = {
        name: [tensor for tensor in group if tensor is not None] for name, group in tensors.items()
    }
    return Identity(
        stated | {"device": data.x.device.type},
        {name: digest(group) for name, group in {**given, **more}.items()},
    )


def warn_if_interrupted(trained: Trained, iterations: int, store: CheckpointFile | None) -> None:
    """Say that Ctrl-C ended training, and what can be done about it."""
    if not trained.interrupted_at:
        return
    remedy = (
        f"call fit(..., checkpoint='{store}', resume=True) to go on from the last checkpoint"
        if store is not None and store.exists()
        else "it can not be resumed, since no checkpoint was kept: fit(..., checkpoint=path) does"
    )
    unit = trained.predictor.network.unit
    moment = f"{unit} {trained.interrupted_at} of {iterations}"
    warnings.warn(
        f"training was interrupted at {moment} and returns what it had until then; {remedy}",
        ConvergenceWarning,
        stacklevel=3,
    )
