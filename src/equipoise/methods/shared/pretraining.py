"""Networks that a method trains before training starts, through the one loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch

from equipoise.methods.shared.conditional import Stream
from equipoise.training import BatchStream, Member, TrainingSettings, run
from equipoise.training.health import tell_of_failures
from equipoise.training.loop import Step
from equipoise.training.step import set_learning_rate

BATCH_SIZE = 300
#: However few or many rows there are, so many steps at least and at most.
FEWEST_STEPS, MOST_STEPS = 400, 3_000


class PretrainingStep(Step, Protocol):
    """A step whose learning rates can be lowered."""

    #: Learning rate at the start of each optimizer.
    rates: Mapping[torch.optim.Optimizer, float]


def pretrain(
    step: PretrainingStep,
    streams: Sequence[Stream],
    n: int,
    *,
    epochs: int,
    device: torch.device,
    asked_by: str,
) -> None:
    """Train the networks of ``step``, one member for each stream, for about so many epochs.

    Learning rates fall to zero over the second half, so that the last iterate is settled.
    ``asked_by`` is the option that needs them, for what is said of networks that fail.
    """
    batches = BatchStream(
        [Member(0.0, seed, rows) for seed, rows in streams],
        n,
        batch_size=BATCH_SIZE,
        device=device,
    )
    steps = min(max(epochs * batches.batches_per_epoch, FEWEST_STEPS), MOST_STEPS)
    schedule = TrainingSettings(iterations=steps, schedule="decay")

    def prepare(iteration: int) -> None:
        share = schedule.learning_rate_share(iteration - 1)
        for optimizer, rate in step.rates.items():
            set_learning_rate(optimizer, share * rate)

    history = run(
        step, batches, iterations=steps, check_every=schedule.check_every, prepare=prepare
    )
    tell_of_failures(history, asked_by=asked_by)
