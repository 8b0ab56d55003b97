"""Phases: networks that a method trains before the run, by the same loop.

A density ratio, a law of A given Y and a plain start are phases. The engine runs them before the
predictor's own training, so that Ctrl-C, checkpoints, progress and failing members work there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from equipoise.training.batches import BatchStream
from equipoise.training.checkpoints import Stateful
from equipoise.training.loop import History, RunState, Step, gradients_on, run
from equipoise.training.settings import TrainingSettings
from equipoise.training.step import set_learning_rate


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Networks to train before the run, one for each member of ``batches``.

    label: what progress calls it. asked_by: the option that needs it. step: trains on one batch.
    serves: (K,) which of the networks each member of the run uses. on_check: called at every check;
    ends the phase by returning True. parts: what else a resumed run must remember. finish: called
    once the networks are trained, and again when a later run is resumed; makes of them what the
    method needs, and returns the history, maybe with more failures in it.
    """

    label: str
    asked_by: str
    step: Step
    batches: BatchStream
    settings: TrainingSettings
    serves: Sequence[int]
    finish: Callable[[History], History]
    on_check: Callable[[int], bool] | None = None
    parts: Mapping[str, Stateful] = field(default_factory=dict)


class NetworkStep:
    """A step by ``update(rows, resampled)``, which takes it and returns two losses, each (K,).

    modules: what it trains. rates: its optimizers and their learning rates at the start.
    """

    def __init__(
        self,
        modules: nn.Module,
        update: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
        rates: Mapping[torch.optim.Optimizer, float],
        settings: TrainingSettings,
    ) -> None:
        self.modules = modules
        self._update = update
        self._rates = rates
        self._settings = settings

    def prepare(self, iteration: int) -> None:
        """Set the learning rates of this iteration, counted from 1."""
        share = self._settings.learning_rate_share(iteration - 1)
        for optimizer, rate in self._rates.items():
            set_learning_rate(optimizer, share * rate)

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """All optimizers, in the order given."""
        return list(self._rates)

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Train on one batch."""
        return self._update(rows, resampled)


def phases_of(method: object) -> tuple[Phase, ...]:
    """Return the phases of a method, in their order; most have none."""
    return tuple(getattr(method, "phases", ()))


@gradients_on()
def run_phase(
    phase: Phase,
    state: RunState | None = None,
    *,
    report: Callable[[int], bool] = lambda _: False,
    keep: Callable[[bool], None] | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> History:
    """Train the networks of a phase, from ``state`` on, and finish it; see `run`.

    ``report(iteration)`` tells of every check and returns whether training is called off.
    """
    if state is None:
        state = RunState.at_start(phase.batches, phase.settings.iterations)

    def look(iteration: int) -> bool:
        enough = phase.on_check is not None and phase.on_check(iteration)
        state.called_off = report(iteration)
        return enough or state.called_off

    history = run(
        phase.step,
        phase.batches,
        state,
        check_every=phase.settings.check_every,
        on_check=look,
        keep=keep,
        interrupted=interrupted,
    )
    return phase.finish(history)
