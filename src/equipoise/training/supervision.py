"""Who looks after a run: a store for its checkpoints, and whoever wants to hear of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from equipoise.errors import InputError
from equipoise.training.checkpoints import Identity, Stateful, Store
from equipoise.training.loop import Standing
from equipoise.training.progress import Callback, Progress


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """How one run is looked after; nothing of it changes what is trained.

    store: keeps the state of the run, which begins from the one that is there. seconds: least time
    between checkpoints. identity: what a state in the store must be of. parts: more that the run
    must remember. callbacks: are told after every check.
    """

    store: Store | None = None
    seconds: float = 60.0
    identity: Identity = field(default_factory=lambda: Identity({}, {}))
    parts: Mapping[str, Stateful] = field(default_factory=dict)
    callbacks: tuple[Callback, ...] = ()


def reporter(
    callbacks: Sequence[Callback], standing: Standing, iterations: int
) -> Callable[[int], bool]:
    """Return what tells all callbacks of an iteration, with the clock started now.

    It returns whether one of them wants training to end.
    """
    begun, resumed_at = time.monotonic(), standing.checked

    def report(iteration: int) -> bool:
        if not callbacks:
            return False
        task, penalty = standing.latest()
        progress = Progress(
            iteration=iteration,
            iterations=iterations,
            resumed_at=resumed_at,
            seconds=time.monotonic() - begun,
            task=task,
            penalty=penalty,
        )
        answers = [_read_answer(callback(progress)) for callback in callbacks]
        return any(answers)

    return report


def _read_answer(answer: object) -> bool:
    if not isinstance(answer, bool | np.bool_ | None):
        raise InputError(
            "callback must return True to end training, or False or None to go on, got "
            f"{type(answer).__name__}"
        )
    return bool(answer)
