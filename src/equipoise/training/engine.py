"""Training members together: data, predictor and method in, trained stack out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from equipoise.networks.members import member_tensors
from equipoise.training.batches import BatchStream
from equipoise.training.checkpoints import (
    Checkpoints,
    GlobalGenerators,
    ModuleState,
    OptimizerState,
    digest,
)
from equipoise.training.data import TrainingData
from equipoise.training.health import Health, diagnose
from equipoise.training.interrupts import first_interrupt_asks
from equipoise.training.loop import History, Standing, Step, run
from equipoise.training.members import Member, stream_seed
from equipoise.training.predictor import Predictor
from equipoise.training.settings import TrainingSettings
from equipoise.training.step import Method, Objective, PredictorStep
from equipoise.training.supervision import Supervision, reporter

#: Rows looked at to judge health; more would not change a verdict.
HEALTH_ROWS = 8_000


@dataclass(frozen=True)
class Trained:
    """The trained stack, what the checks saw and how each member ended.

    interrupted_at: iteration at which Ctrl-C ended the run, 0 if nothing did. called_off: whether a
    callback ended it.
    """

    predictor: Predictor
    history: History
    health: tuple[Health, ...]
    interrupted_at: int = 0
    called_off: bool = False


def train(
    data: TrainingData,
    members: Sequence[Member],
    *,
    predictor: Predictor,
    method: Method | Objective | None,
    settings: TrainingSettings,
    given_outcome: bool = False,
    has_critic: bool = True,
    on_check: Callable[[int, Predictor], bool] | None = None,
    supervision: Supervision | None = None,
) -> Trained:
    """Train all members at once by gradient steps, as far as Ctrl-C lets it."""
    step = PredictorStep(predictor, data, members, method=method, settings=settings)
    return run_supervised(
        step,
        predictor,
        data,
        members,
        settings=settings,
        given_outcome=given_outcome,
        has_critic=has_critic,
        on_check=on_check,
        supervision=supervision,
    )


class TrainingStep(Step, Protocol):
    """A step that changes a predictor and, maybe, the networks of a method."""

    def prepare(self, iteration: int) -> None:
        """Get ready for an iteration, counted from 1."""
        ...

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """All optimisers whose memory a resumed run needs."""
        ...


def run_supervised(
    step: TrainingStep,
    predictor: Predictor,
    data: TrainingData,
    members: Sequence[Member],
    *,
    settings: TrainingSettings,
    given_outcome: bool,
    has_critic: bool,
    on_check: Callable[[int, Predictor], bool] | None = None,
    supervision: Supervision | None = None,
) -> Trained:
    """Run the step that trains ``predictor``, as far as Ctrl-C lets it, and judge how it went.

    ``given_outcome`` says that the notion conditions on Y, ``has_critic`` that the penalty is what
    a critic can tell.
    """
    supervision = Supervision() if supervision is None else supervision
    predictor.train()
    batches = BatchStream(members, len(data), batch_size=settings.batch_size, device=data.x.device)
    standing = Standing.at_start(batches)
    seed = stream_seed(members[0].seed, "user module")
    with _private_global_generator(seed), first_interrupt_asks() as interrupted:
        checkpoints = _checkpoints(supervision, step, batches, standing)
        if checkpoints is not None:
            checkpoints.restore(settings.iterations)
        report = reporter(supervision.callbacks, standing, settings.iterations)

        def look(iteration: int) -> bool:
            enough = on_check is not None and on_check(iteration, predictor)
            standing.called_off = report(iteration)
            return standing.called_off or enough

        history = run(
            step,
            batches,
            iterations=settings.iterations,
            check_every=settings.check_every,
            prepare=step.prepare,
            on_check=look,
            standing=standing,
            keep=None if checkpoints is None else checkpoints.keep,
            interrupted=interrupted,
        )
    predictor.eval()
    health = judge_health(
        predictor, data, members, history, given_outcome=given_outcome, has_critic=has_critic
    )
    return Trained(
        predictor,
        history,
        health,
        interrupted_at=0 if standing.ended else standing.checked,
        called_off=standing.called_off,
    )


def _checkpoints(
    supervision: Supervision, step: TrainingStep, batches: BatchStream, standing: Standing
) -> Checkpoints | None:
    """Name everything that a run must remember, where there is a store for it."""
    if supervision.store is None:
        return None
    start = digest(tensor for _, tensor in member_tensors(step.modules))
    identity = supervision.identity
    return Checkpoints(
        supervision.store,
        identity=replace(identity, hashed={**identity.hashed, "start weights": start}),
        seconds=supervision.seconds,
        standing=standing,
        parts={
            "weights": ModuleState(step.modules),
            "optimizers": OptimizerState(tuple(step.optimizers())),
            "batches": batches,
            "generators": GlobalGenerators(batches.device),
            **supervision.parts,
        },
    )


def judge_health(
    predictor: Predictor,
    data: TrainingData,
    members: Sequence[Member],
    history: History,
    *,
    given_outcome: bool,
    has_critic: bool,
) -> tuple[Health, ...]:
    """Judge every member of ``predictor`` by its training rows and the history up to here."""
    seen = data.first(HEALTH_ROWS)
    _, penalised = predictor.evaluate(seen.x)
    return tuple(
        diagnose(
            penalised[k],
            seen,
            member,
            history,
            k,
            given_outcome=given_outcome,
            has_critic=has_critic,
        )
        for k, member in enumerate(members)
    )


@contextmanager
def _private_global_generator(seed: int) -> Iterator[None]:
    """Seed torch's global generators for a user's own layers (dropout) and put them back after."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
