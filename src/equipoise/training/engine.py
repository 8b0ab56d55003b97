"""Training members together, from data, predictor and method to a trained stack."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import nn

from equipoise.cores import torch_threads
from equipoise.errors import InputError
from equipoise.networks import GlobalStreams, member_tensors
from equipoise.training.checkpoints import Checkpoints, Identity, Stateful, Store, digest, parts_of
from equipoise.training.data import BatchStream, Member, TrainingData, stream_seed
from equipoise.training.health import Failure, Health, failures_in, judge_health
from equipoise.training.loop import (
    History,
    Lane,
    Method,
    Objective,
    PredictorStep,
    RunState,
    Step,
    TrainingSettings,
    catch_first_interrupt,
    gradients_on,
    run,
    share_weights,
)
from equipoise.training.predictor import Predictor
from equipoise.training.progress import Callback, Progress
from equipoise.training.stopping import EarlyStopping


@dataclass(frozen=True)
class Trained:
    """The trained stack, its losses at the checks, and how training ended for each member."""

    predictor: Predictor
    history: History
    health: tuple[Health, ...]
    failures: tuple[tuple[Failure, ...], ...]  # for each member, failures of phases before the run
    members: tuple[Member, ...]  # with the rows they trained on
    interrupted_at: int = 0  # iteration at which Ctrl-C ended the run, 0 if it did not
    interrupted_in: str = ""  # the phase that Ctrl-C ended, if any
    called_off: bool = False  # whether a callback ended the run


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """Checkpoints and callbacks of one run; they do not change what is trained."""

    store: Store | None = None  # where checkpoints are kept; the run continues from a kept one
    seconds: float = 60.0  # least time between checkpoints
    identity: Identity = field(default_factory=lambda: Identity({}, {}))  # must match a kept state
    parts: Mapping[str, Stateful] = field(default_factory=dict)  # more state to keep
    callbacks: tuple[Callback, ...] = ()  # called after every check, also in phases


def train(
    data: TrainingData,
    members: Sequence[Member],
    *,
    predictor: Predictor,
    method: Method | Objective | None,
    settings: TrainingSettings,
    step: Step | None = None,
    given_outcome: bool = False,
    has_critic: bool = True,
    on_check: Callable[[int, Predictor], bool] | None = None,
    stopping: EarlyStopping | None = None,
    supervision: Supervision | None = None,
    lanes: Sequence[Lane] = (),
) -> Trained:
    """Run the phases of the method, train all members at once, and judge their health.

    Members train by gradient steps unless another ``step`` is given. ``given_outcome`` says whether
    the notion conditions on Y, ``has_critic`` whether the penalty is the value of a critic. With
    ``stopping`` every member ends at its best. With ``lanes`` threads train parts of the members,
    whose weights become those of ``predictor`` and ``method``. If Ctrl-C or a callback ends a
    phase, the run ends after one iteration; a resumed run continues inside the phase.
    """
    # What a GPU trains before it is known whether training goes on cannot be resumed.
    lasting = supervision is not None and supervision.store is not None
    ahead = data.x.is_cuda and on_check is not None and step is None
    ahead = ahead and not (lasting or stopping is not None or predictor.network.of_user)
    if step is None:
        step = PredictorStep(predictor, data, members, method=method, settings=settings)
    for lane in lanes:
        share_weights(step.modules, lane)
    phases = phases_of(method)
    supervision = supervision or Supervision()
    predictor.train()
    batches = BatchStream(
        members,
        len(data),
        batch_size=settings.batch_size,
        device=data.x.device,
        window=data.window,
    )
    state = RunState.at_start(batches, settings.iterations)
    phase_states = [RunState.at_start(phase.batches, phase.settings.iterations) for phase in phases]
    parts = {**supervision.parts, **_stopping_part(stopping)}
    random_state: GlobalStreams | nullcontext[None] = nullcontext()
    if predictor.network.of_user:
        # Layers of a user's network, such as dropout, draw from the global generators.
        random_state = GlobalStreams(stream_seed(members[0].seed, "user module"), batches.device)
        parts["generators"] = random_state
    checkpoints = None
    if supervision.store is not None:
        start = digest(tensor for _, tensor in member_tensors(step.modules))
        identity = supervision.identity
        checkpoints = Checkpoints(
            supervision.store,
            identity=replace(identity, hashed={**identity.hashed, "start weights": start}),
            seconds=supervision.seconds,
            loops={
                "run": parts_of(step, batches, state, parts, lanes),
                **{
                    f"phase {n}": parts_of(
                        phase.step, phase.batches, phase_states[n], _stopping_part(phase.stopping)
                    )
                    for n, phase in enumerate(phases)
                },
            },
        )
    keep = None if checkpoints is None else checkpoints.keep
    with catch_first_interrupt() as interrupted, torch_threads(1) if lanes else nullcontext():
        failures: list[tuple[Failure, ...]] = [() for _ in members]
        interrupted_in = ""
        for n, (phase, phase_state) in enumerate(zip(phases, phase_states, strict=True)):
            if checkpoints is not None:
                checkpoints.restore(f"phase {n}")
            report = _reporter(supervision.callbacks, phase_state, phase.label)
            seen = run_phase(phase, phase_state, report=report, keep=keep, interrupted=interrupted)
            found = failures_in(seen, phase.serves, needed_by=phase.needed_by, label=phase.label)
            failures = [before + now for before, now in zip(failures, found, strict=True)]
            if interrupted() and not phase_state.ended:
                interrupted_in = interrupted_in or phase.label
        _stop_untrained(state, failures)
        # Phases set the initial weights of the run, so its kept weights are restored after them.
        if checkpoints is not None:
            checkpoints.restore("run")
        called_off = state.called_off or any(each.called_off for each in phase_states)
        state.called_off = called_off
        report = _reporter(supervision.callbacks, state)

        def check(iteration: int, modules: nn.Module) -> bool:
            with random_state:
                seen = predictor if modules is step.modules else next(modules.children())
                assert isinstance(seen, Predictor)
                enough = on_check is not None and on_check(iteration, seen)
                if stopping is not None:
                    enough |= stopping(iteration, state.records[-1][1][1])
            state.called_off = report(iteration) or called_off
            return state.called_off or enough

        history = run(
            step,
            batches,
            state,
            check_every=settings.check_every,
            on_check=check,
            keep=keep,
            interrupted=lambda: interrupted() or called_off,
            around=random_state,
            lanes=lanes,
            ahead=ahead,
        )
    if stopping is not None:
        stopping.restore()
    predictor.eval()
    with random_state:
        health = judge_health(
            predictor,
            data,
            members,
            history,
            given_outcome=given_outcome,
            has_critic=has_critic,
            failures=failures,
        )
    interrupted_at = 0 if state.ended else state.checked
    ends = interrupted_at, interrupted_in, state.called_off
    return Trained(predictor, history, health, tuple(failures), tuple(members), *ends)


def _stopping_part(stopping: EarlyStopping | None) -> dict[str, Stateful]:
    """Return the state of early stopping that a checkpoint keeps."""
    return {} if stopping is None else {"early stopping": stopping}


def _stop_untrained(state: RunState, failures: Sequence[Sequence[Failure]]) -> None:
    """Stop members whose phase failed before it learned anything; an error if all did."""
    untrained = [[each for each in found if each.untrained] for found in failures]
    if untrained and all(untrained):
        raise InputError(str(untrained[0][0]))
    stopped = torch.tensor([bool(found) for found in untrained], device=state.stopped_at.device)
    state.stopped_at = torch.where(stopped, 1, state.stopped_at)


def _reporter(
    callbacks: Sequence[Callback], state: RunState, phase: str = ""
) -> Callable[[int], bool]:
    """Return a function that calls all callbacks; it returns True if one of them ends training."""
    begun, resumed_at = time.monotonic(), state.checked

    def report(iteration: int) -> bool:
        if not callbacks:
            return False
        task, penalty = state.records[-1][1].cpu().double().numpy()
        progress = Progress(
            iteration=iteration,
            iterations=state.iterations,
            resumed_at=resumed_at,
            seconds=time.monotonic() - begun,
            task=task,
            penalty=penalty,
            phase=phase,
        )
        answers = [callback(progress) for callback in callbacks]
        for answer in answers:
            if not isinstance(answer, bool | np.bool_ | None):
                raise InputError(
                    "callback must return True to end training, or False or None to continue, got "
                    f"{type(answer).__name__}"
                )
        return any(answers)

    return report


def solved(
    data: TrainingData,
    members: Sequence[Member],
    *,
    predictor: Predictor,
    given_outcome: bool,
    on_check: Callable[[int, Predictor], bool] | None = None,
    supervision: Supervision | None = None,
) -> Trained:
    """Check models that were solved for instead of trained: one check, at iteration 1."""
    supervision = supervision or Supervision()
    if supervision.store is not None:
        raise InputError(
            "checkpoint must be left out for a method that does not train in iterations, got "
            f"'{supervision.store}'; there would be nothing to resume"
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
    # As in a training run, callbacks come after the check.
    if on_check is not None:
        on_check(1, predictor)
    report(1)
    history = state.history()
    health = judge_health(
        predictor, data, members, history, given_outcome=given_outcome, has_critic=False
    )
    return Trained(predictor, history, health, tuple(() for _ in members), tuple(members))


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Networks that a method trains before the run, one for each member of ``batches``.

    The same loop trains them, so Ctrl-C, checkpoints, progress and failing members work there, too.
    """

    label: str  # the name that progress shows
    needed_by: str  # the option that needs it
    step: Step
    batches: BatchStream
    settings: TrainingSettings
    serves: Sequence[int]  # (K,) which of the networks each member of the run uses
    #: Called when the networks are trained, and again in a resumed run. It prepares what the method
    #: needs from them, and returns the history, to which it may add failures.
    finish: Callable[[History], History]
    stopping: EarlyStopping | None = None


def phases_of(method: object) -> tuple[Phase, ...]:
    """Return the phases of a method in order; most methods have none."""
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
    """Train the networks of a phase from ``state`` on, and finish it; see `run`.

    ``report(iteration)`` is called after every check and returns True to end training.
    """
    if state is None:
        state = RunState.at_start(phase.batches, phase.settings.iterations)

    def check(iteration: int, _: nn.Module) -> bool:
        enough = phase.stopping is not None and phase.stopping(iteration, state.records[-1][1][1])
        state.called_off = report(iteration)
        return enough or state.called_off

    history = run(
        phase.step,
        phase.batches,
        state,
        check_every=phase.settings.check_every,
        on_check=check,
        keep=keep,
        interrupted=interrupted,
    )
    if phase.stopping is not None:
        phase.stopping.restore()
    return phase.finish(history)
