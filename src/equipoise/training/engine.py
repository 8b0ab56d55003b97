"""Training members together: data, predictor and method in, trained stack out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from equipoise.errors import InputError
from equipoise.networks import GlobalStreams, member_tensors
from equipoise.training.checkpoints import Checkpoints, Identity, Parts, Stateful, Store, digest
from equipoise.training.data import BatchStream, Member, TrainingData, stream_seed
from equipoise.training.health import Failure, Health, diagnose, failures_in
from equipoise.training.loop import History, RunState, Step, first_interrupt_asks, gradients_on, run
from equipoise.training.predictor import Predictor
from equipoise.training.progress import Callback, Progress
from equipoise.training.step import (
    Method,
    Objective,
    PredictorStep,
    TrainingSettings,
    set_learning_rate,
)

#: Rows, drawn at random, that health is judged by; more would not change a verdict.
HEALTH_ROWS = 8_000


@dataclass(frozen=True)
class Trained:
    """The trained stack, what the checks saw and how each member ended.

    failures: for each member, networks of phases before the run that failed. interrupted_at:
    iteration at which Ctrl-C ended the run, 0 if nothing did. interrupted_in: the phase that Ctrl-C
    ended, if it was one. called_off: whether a callback ended the run.
    """

    predictor: Predictor
    history: History
    health: tuple[Health, ...]
    failures: tuple[tuple[Failure, ...], ...]
    interrupted_at: int = 0
    interrupted_in: str = ""
    called_off: bool = False


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """How one run is looked after; nothing of it changes what is trained.

    store: keeps the state of the run, which goes on from the one that is there. seconds: least time
    between checkpoints. identity: what run a state in the store must be of. parts: what else the
    run must remember. callbacks: called after every check, of phases before the run as well.
    """

    store: Store | None = None
    seconds: float = 60.0
    identity: Identity = field(default_factory=lambda: Identity({}, {}))
    parts: Mapping[str, Stateful] = field(default_factory=dict)
    callbacks: tuple[Callback, ...] = ()


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
    """Train all members at once by gradient steps, until the end or Ctrl-C."""
    return run_supervised(
        PredictorStep(predictor, data, members, method=method, settings=settings),
        predictor,
        data,
        members,
        settings=settings,
        given_outcome=given_outcome,
        has_critic=has_critic,
        on_check=on_check,
        supervision=supervision,
        phases=phases_of(method),
    )


def run_supervised(
    step: Step,
    predictor: Predictor,
    data: TrainingData,
    members: Sequence[Member],
    *,
    settings: TrainingSettings,
    given_outcome: bool,
    has_critic: bool,
    on_check: Callable[[int, Predictor], bool] | None = None,
    supervision: Supervision | None = None,
    phases: Sequence[Phase] = (),
) -> Trained:
    """Run the phases, then the step that trains ``predictor``, and judge how it went.

    ``given_outcome`` says that the notion conditions on Y, ``has_critic`` that the penalty is what
    a critic can tell. Ctrl-C, or a callback, in a phase leaves it as it is and ends the run after
    one iteration; a resumed run goes on inside the phase.
    """
    supervision = Supervision() if supervision is None else supervision
    predictor.train()
    batches = BatchStream(members, len(data), batch_size=settings.batch_size, device=data.x.device)
    state = RunState.at_start(batches, settings.iterations)
    states = [RunState.at_start(phase.batches, phase.settings.iterations) for phase in phases]
    parts = dict(supervision.parts)
    streams = None
    if predictor.network.of_user:
        # Layers of a user's own, such as dropout, draw from the global generators.
        streams = GlobalStreams(stream_seed(members[0].seed, "user module"), batches.device)
        parts["generators"] = streams
    alone = streams or nullcontext()
    checkpoints = None
    if supervision.store is not None:
        start = digest(tensor for _, tensor in member_tensors(step.modules))
        identity = supervision.identity
        checkpoints = Checkpoints(
            supervision.store,
            identity=replace(identity, hashed={**identity.hashed, "start weights": start}),
            seconds=supervision.seconds,
            parts={
                "run": Parts.of(step, batches, state, parts),
                **{
                    f"phase {n}": Parts.of(phase.step, phase.batches, states[n], phase.parts)
                    for n, phase in enumerate(phases)
                },
            },
        )
    keep = None if checkpoints is None else checkpoints.keep
    with first_interrupt_asks() as interrupted:
        failures: list[tuple[Failure, ...]] = [() for _ in members]
        interrupted_in = ""
        for n, phase in enumerate(phases):
            if checkpoints is not None:
                checkpoints.restore(f"phase {n}")
            report = _reporter(supervision.callbacks, states[n], phase.label)
            seen = run_phase(phase, states[n], report=report, keep=keep, interrupted=interrupted)
            found = failures_in(seen, phase.serves, asked_by=phase.asked_by, label=phase.label)
            failures = [before + now for before, now in zip(failures, found, strict=True)]
            if interrupted() and not states[n].ended:
                interrupted_in = interrupted_in or phase.label
        _stop_untrained(state, failures)
        # After the phases: the weights of a run that had begun replace what a phase started it at.
        if checkpoints is not None:
            checkpoints.restore("run")
        state.called_off = state.called_off or any(each.called_off for each in states)
        called_off = state.called_off
        report = _reporter(supervision.callbacks, state)

        def look(iteration: int) -> bool:
            with alone:
                enough = on_check is not None and on_check(iteration, predictor)
            state.called_off = report(iteration) or called_off
            return state.called_off or enough

        history = run(
            step,
            batches,
            state,
            check_every=settings.check_every,
            on_check=look,
            keep=keep,
            interrupted=lambda: interrupted() or called_off,
            around=alone,
        )
    predictor.eval()
    with alone:
        health = judge_health(
            predictor,
            data,
            members,
            history,
            given_outcome=given_outcome,
            has_critic=has_critic,
            failures=failures,
        )
    return Trained(
        predictor,
        history,
        health,
        tuple(failures),
        interrupted_at=0 if state.ended else state.checked,
        interrupted_in=interrupted_in,
        called_off=state.called_off,
    )


def _stop_untrained(state: RunState, failures: Sequence[Sequence[Failure]]) -> None:
    """Stop members before the first iteration that need a network which never learned anything."""
    untrained = [[each for each in found if each.untrained] for found in failures]
    if untrained and all(untrained):
        raise InputError(str(untrained[0][0]))
    stopped = torch.tensor([bool(found) for found in untrained], device=state.stopped_at.device)
    state.stopped_at = torch.where(stopped, 1, state.stopped_at)


def _reporter(
    callbacks: Sequence[Callback], state: RunState, phase: str = ""
) -> Callable[[int], bool]:
    """Return what tells all callbacks of an iteration, with the clock started now.

    It returns whether one of them wants training to end.
    """
    begun, resumed_at = time.monotonic(), state.checked

    def report(iteration: int) -> bool:
        if not callbacks:
            return False
        task, penalty = state.latest()
        progress = Progress(
            iteration=iteration,
            iterations=state.iterations,
            resumed_at=resumed_at,
            seconds=time.monotonic() - begun,
            task=task,
            penalty=penalty,
            phase=phase,
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


def judge_health(
    predictor: Predictor,
    data: TrainingData,
    members: Sequence[Member],
    history: History,
    *,
    given_outcome: bool,
    has_critic: bool,
    failures: Sequence[Sequence[Failure]] | None = None,
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
            failures=() if failures is None else failures[k],
        )
        for k, member in enumerate(members)
    )


def solved(
    data: TrainingData,
    members: Sequence[Member],
    *,
    predictor: Predictor,
    given_outcome: bool,
    on_check: Callable[[int, Predictor], bool] | None = None,
    supervision: Supervision | None = None,
) -> Trained:
    """Judge models that were solved, not trained: one check, at iteration 1, then their health."""
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
    state = RunState(1, torch.zeros(count, dtype=torch.long, device=data.x.device))
    report = _reporter(supervision.callbacks, state)
    state.records.append((1, torch.stack([task, torch.zeros_like(task)])))
    # As in a training run, callbacks are told of what the check has seen.
    if on_check is not None:
        on_check(1, predictor)
    report(1)
    history = state.history()
    health = judge_health(
        predictor, data, members, history, given_outcome=given_outcome, has_critic=False
    )
    return Trained(predictor, history, health, tuple(() for _ in members))


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
