"""Training members together: data, predictor and method in, trained stack out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch

from equipoise.errors import InputError
from equipoise.networks import GlobalStreams, member_tensors
from equipoise.training.batches import BatchStream
from equipoise.training.checkpoints import (
    Checkpoints,
    Identity,
    ModuleState,
    OptimizerState,
    Stateful,
    Store,
    digest,
)
from equipoise.training.data import TrainingData
from equipoise.training.health import Health, diagnose
from equipoise.training.loop import History, Standing, Step, first_interrupt_asks, run
from equipoise.training.members import Member, stream_seed
from equipoise.training.predictor import Predictor
from equipoise.training.progress import Callback, Progress
from equipoise.training.settings import TrainingSettings
from equipoise.training.step import Method, Objective, PredictorStep, Pretrains

#: Rows, drawn at random, that health is judged by; more would not change a verdict.
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
    supervision = Supervision() if supervision is None else supervision
    pretrain = None
    if isinstance(method, Pretrains):
        pretrain = method.pretrain
        kept = {**supervision.parts, "pretrained": ModuleState(method.pretrained)}
        supervision = replace(supervision, parts=kept)
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
        pretrain=pretrain,
    )


class TrainingStep(Step, Protocol):
    """A step that changes a predictor and, maybe, the networks of a method."""

    def prepare(self, iteration: int) -> None:
        """Get ready for an iteration, counted from 1."""
        ...

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """All optimizers whose memory a resumed run needs."""
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
    pretrain: Callable[..., None] | None = None,
) -> Trained:
    """Run the step that trains ``predictor``, as far as Ctrl-C lets it, and judge how it went.

    ``given_outcome`` says that the notion conditions on Y, ``has_critic`` that the penalty is what
    a critic can tell. ``pretrain(resumed=...)`` is called before the first step.
    """
    supervision = Supervision() if supervision is None else supervision
    predictor.train()
    batches = BatchStream(members, len(data), batch_size=settings.batch_size, device=data.x.device)
    standing = Standing.at_start(batches)
    streams = None
    if predictor.network.of_user:
        # Layers of a user's own, such as dropout, draw from the global generators.
        streams = GlobalStreams(stream_seed(members[0].seed, "user module"), batches.device)
    alone = streams or nullcontext()
    checkpoints = _checkpoints(supervision, step, batches, standing, streams)
    resumed = checkpoints is not None and checkpoints.restore(settings.iterations)
    if pretrain is not None:
        pretrain(resumed=resumed)
    with first_interrupt_asks() as interrupted:
        report = reporter(supervision.callbacks, standing, settings.iterations)

        def look(iteration: int) -> bool:
            with alone:
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
            around=alone,
        )
    predictor.eval()
    with alone:
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
    supervision: Supervision,
    step: TrainingStep,
    batches: BatchStream,
    standing: Standing,
    streams: GlobalStreams | None,
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
            **({} if streams is None else {"generators": streams}),
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
    seen = data.sample(HEALTH_ROWS)
    _, penalized = predictor.evaluate(seen.x)
    seen, penalized = seen.to(torch.device("cpu")), penalized.cpu()
    return tuple(
        diagnose(
            penalized[k],
            seen,
            member,
            history,
            k,
            given_outcome=given_outcome,
            has_critic=has_critic,
        )
        for k, member in enumerate(members)
    )


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


def solved(
    data: TrainingData,
    members: Sequence[Member],
    *,
    predictor: Predictor,
    given_outcome: bool,
    on_check: Callable[[int, Predictor], bool] | None = None,
    supervision: Supervision | None = None,
) -> Trained:
    """Judge solved models as trained ones are: one check, at iteration 1, then their health."""
    supervision = Supervision() if supervision is None else supervision
    if supervision.store is not None:
        raise InputError(
            "checkpoint must be left out for a method that is solved at once, got "
            f"'{supervision.store}': there is nothing to resume"
        )
    predictor.eval()
    output, _ = predictor.evaluate(data.x)
    count = len(members)
    weight = None if data.weight is None else data.weight.expand(count, -1)
    with torch.no_grad():
        task = predictor.task.loss(output, data.target.expand(count, -1), weight)
    standing = Standing(torch.zeros(count, dtype=torch.long, device=data.x.device))
    report = reporter(supervision.callbacks, standing, 1)
    standing.checked, standing.ended = 1, True
    standing.records.append((1, torch.stack([task, torch.zeros_like(task)])))
    # As in a training run, callbacks are told of what the check has seen.
    if on_check is not None:
        on_check(1, predictor)
    report(1)
    history = standing.history()
    health = judge_health(
        predictor, data, members, history, given_outcome=given_outcome, has_critic=False
    )
    return Trained(predictor, history, health)
