"""Steps that train on one batch, and the loop over them: checks, failing members, Ctrl-C.

A step of the predictor computes its outputs once, adds the method's penalty, and updates the
weights. There is no other training loop.
"""

from __future__ import annotations

import copy
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from types import FrameType
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.errors import check_choice, check_whole
from equipoise.networks import copy_members, fused_kernels, member_tensors
from equipoise.training.data import BatchStream, Member, TrainingData, streams_of, take
from equipoise.training.optimizers import OptimizerSettings, decay, minimize, set_learning_rate
from equipoise.training.predictor import Predictor
from equipoise.training.workers import mean


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of one training run."""

    iterations: int = 1_500
    batch_size: int = 300
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    #: "decay" lowers the predictor's learning rate linearly to zero over the second half of the
    #: run, so that the weights settle. "constant" is the paper's schedule.
    schedule: Literal["decay", "constant"] = "decay"
    check_every: int = 50
    #: Iterations without a better result on rows set aside after which a member stops; None: never.
    patience: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("iterations", 1), ("batch_size", 2), ("check_every", 1)):
            check_whole(name, getattr(self, name), least=least)
        if self.patience is not None:
            check_whole("early_stopping", self.patience)
        check_choice("schedule", self.schedule, ("decay", "constant"))

    def learning_rate_share(self, iteration: int) -> float:
        """Return the factor on the learning rate after ``iteration`` steps."""
        if self.schedule == "constant":
            return 1.0
        return min(1.0, 2 * (1 - iteration / self.iterations))


class Method(Protocol):
    """A fairness method that adds a penalty to the task loss.

    On a GPU the step is captured once as a CUDA graph and replayed. So nothing in :meth:`penalty`
    may wait for a value from the device, or let a value decide a shape. A method that trains
    networks before the run has an attribute ``phases``, a sequence of `Phase`.
    """

    #: The auxiliary networks it trains, so that a failing member can be restored as a whole and a
    #: run can be resumed. Their optimizers are attributes of the method or of these networks.
    networks: nn.Module

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Update the auxiliary networks, then return the penalty (K,).

        penalized: (K, B, w), score or representation of the batch. rows: (K, B), row numbers of the
        batch. resampled: (K, B), row numbers of the resampled attributes.
        """
        ...


@runtime_checkable
class Objective(Protocol):
    """A fairness method that replaces both the task loss and the penalty.

    It knows the predictor that it trains. The rules of :class:`Method` hold here, too.
    """

    networks: nn.Module

    def losses(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Return the two losses, each (K,), that replace task loss and penalty."""
        ...


class Step(Protocol):
    """Something that trains on one batch."""

    #: All modules whose weights change, with the member axis first.
    modules: nn.Module

    def prepare(self, iteration: int) -> None:
        """Prepare for an iteration, counted from 1; called outside a captured CUDA graph."""

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Return all optimizers whose state a resumed run needs."""
        ...

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Train on one batch; return task loss and penalty before the update, each (K,)."""
        ...


class PredictorStep:
    """A step down (1 - strength) * task + strength * penalty, for every member at once.

    The predictor computes its outputs once; the method trains its networks on the detached score.
    """

    def __init__(
        self,
        predictor: Predictor,
        data: TrainingData,
        members: Sequence[Member],
        *,
        method: Method | Objective | None,
        settings: TrainingSettings,
    ) -> None:
        self._predictor, self._data, self._method = predictor, data, method
        strength = data.x.new_tensor([member.strength for member in members])
        self._shares = 1 - strength, strength
        # Weight decay works against overfitting the task, so it is weighted like the task loss. In
        # full it would shrink a member of large strength to nothing.
        decays = settings.optimizer.kind == "adam" and settings.optimizer.weight_decay > 0
        self._decay = settings.optimizer.weight_decay * (1 - strength) if decays else None
        self._settings, self._share = settings, 1.0
        self._optimizer = settings.optimizer.build(
            weight for weight in predictor.parameters() if weight.requires_grad
        )
        self.modules: nn.Module = nn.ModuleList([predictor, *([method.networks] if method else [])])
        # A GPU multiplies by the rows of each member.
        self._readers: Tensor | None = None
        if predictor.first.shares_rows and data.x.device.type == "cpu":
            _, which = streams_of(members)
            groups = [len(list(same)) for _, same in groupby(which)]
            predictor.first.groups = tuple(groups)
            self._readers = torch.tensor([0, *accumulate(groups[:-1])], device="cpu")

    def prepare(self, iteration: int) -> None:
        share = self._settings.learning_rate_share(iteration - 1)
        if share != self._share:
            set_learning_rate(self._optimizer, share * self._settings.optimizer.learning_rate)
            self._share = share

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [self._optimizer, *([] if self._method is None else optimizers_of(self._method))]

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        method, predictor, data = self._method, self._predictor, self._data
        if self._decay is not None:
            decay(self._optimizer, self._decay)
        if isinstance(method, Objective):
            task, penalty = method.losses(rows, resampled)
        else:
            own = rows if self._readers is None else rows.index_select(0, self._readers)
            output, penalized = predictor(take(data.x, own))
            task = predictor.task.loss(output, take(data.target, rows), data.task_weight(rows))
            if method is None:
                minimize(task, self._optimizer)
                return task.detach(), torch.zeros_like(task)
            penalty = method.penalty(penalized, rows, resampled)
        minimize((task, penalty), self._optimizer, self._shares)
        return task.detach(), penalty.detach()


class NetworkStep:
    """A step of other networks: ``update(rows, resampled)`` trains and returns two losses (K,).

    modules: the networks. optimizers: those of ``update``, with their initial learning rates.
    """

    def __init__(
        self,
        modules: nn.Module,
        update: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
        optimizers: Sequence[torch.optim.Optimizer],
        settings: TrainingSettings,
    ) -> None:
        self.modules, self._update, self._settings = modules, update, settings
        self._rates = {each: float(each.param_groups[0]["lr"]) for each in optimizers}

    def prepare(self, iteration: int) -> None:
        share = self._settings.learning_rate_share(iteration - 1)
        for optimizer, rate in self._rates.items():
            set_learning_rate(optimizer, share * rate)

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return list(self._rates)

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        return self._update(rows, resampled)


def optimizers_of(method: Method | Objective) -> list[torch.optim.Optimizer]:
    """Return the optimizers that are attributes of the method or of its networks.

    Together they must train all weights of the networks.
    """
    owners: list[Any] = [method, *method.networks.modules()]
    values = [value for owner in owners for value in vars(owner).values()]
    optimizers = [value for value in values if isinstance(value, torch.optim.Optimizer)]
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    trained = {id(weight) for group in groups for weight in group["params"]}
    assert all(id(weight) in trained for weight in method.networks.parameters()), (
        f"{type(method).__name__} must have every optimizer of its networks as an attribute"
    )
    return optimizers


@dataclass(frozen=True)
class History:
    """Losses at the T checks of a run."""

    iterations: NDArray[np.int64]  # (T,) iterations of the checks
    task: NDArray[np.float64]  # (T, K) average since the previous check
    penalty: NDArray[np.float64]  # (T, K) average since the previous check
    stopped_at: NDArray[np.int64]  # (K,) iteration of the first loss that was not finite, or 0

    def mean(self) -> History:
        """Return the history of the average of all members; it stopped when the first did."""
        stops = self.stopped_at[self.stopped_at > 0]
        return History(
            iterations=self.iterations,
            task=self.task.mean(axis=1, keepdims=True),
            penalty=self.penalty.mean(axis=1, keepdims=True),
            stopped_at=np.array([stops.min() if len(stops) else 0]),
        )


@dataclass
class RunState:
    """State of the loop itself at its latest check."""

    iterations: int  # of the whole run
    stopped_at: Tensor  # (K,) as in `History`
    checked: int = 0  # iteration of the latest check
    ended: bool = False  # whether the run is complete
    called_off: bool = False  # whether a callback ended it
    records: list[tuple[int, Tensor]] = field(default_factory=list)  # iteration, averages (2, K)

    @classmethod
    def at_start(cls, batches: BatchStream, iterations: int) -> RunState:
        stopped_at = torch.zeros(batches.members, dtype=torch.long, device=batches.device)
        return cls(iterations, stopped_at)

    def history(self) -> History:
        recorded = torch.stack([average for _, average in self.records]).cpu().double().numpy()
        return History(
            iterations=np.array([iteration for iteration, _ in self.records]),
            task=recorded[:, 0],
            penalty=recorded[:, 1],
            stopped_at=self.stopped_at.cpu().numpy(),
        )

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["iterations"] != self.iterations or not 0 <= state["checked"] <= self.iterations:
            raise ValueError(f"a run of {self.iterations} iterations cannot have this state")
        for iteration, averages in state["records"]:
            if type(iteration) is not int or averages.shape != (2, len(self.stopped_at)):
                raise ValueError("a record must be an iteration and its averages")
        device = self.stopped_at.device
        self.stopped_at = state["stopped_at"].to(device)
        self.checked, self.ended = state["checked"], state["ended"]
        self.called_off = state["called_off"]
        self.records = [(iteration, average.to(device)) for iteration, average in state["records"]]


@contextmanager
def gradients_on() -> Iterator[None]:
    """Compute gradients inside, even if the caller has switched them off."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


@gradients_on()
def run(
    step: Step,
    batches: BatchStream,
    state: RunState,
    *,
    check_every: int,
    on_check: Callable[[int, nn.Module], bool] | None = None,
    keep: Callable[[bool], None] | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    around: AbstractContextManager[None] | None = None,
    lanes: Sequence[Lane] = (),
    ahead: bool = False,
) -> History:
    """Train to the last iteration of ``state``, or until ``on_check`` returns True.

    Losses are read only at checks, so the host does not wait for an accelerator in between. If a
    loss of a member was not finite since the last check, the member returns to its weights at that
    check and stays there. Members share no weights, so the others are not affected.

    ``state`` says where to begin and is updated at each check. ``keep(ended)`` is called at the end
    of every regular check, when ``state``, ``step`` and ``batches`` hold everything needed to
    resume. Once ``interrupted()`` is true, the run ends after the current step, with a check.
    ``around`` is a context for the steps between two checks. With ``lanes``, which together are all
    members of ``step``, each lane trains in a thread of its own from one check to the next.

    ``on_check(iteration, modules)`` looks at the modules of the step. With ``ahead`` a GPU gets the
    steps up to the next check before, so that it does not wait for the host; ``on_check`` then
    looks at a copy, to which the modules return if it ends the run. This leaves nothing to resume.
    """
    good = copy.deepcopy(step.modules)
    losses = _Losses(batches.members, batches.device, entries=check_every)

    def iterate(batch: Tensor) -> None:
        losses.add(*step(*batches.spread(batch)))

    advance = CapturedIteration(iterate) if batches.device.type == "cuda" else iterate

    def to_next_check() -> tuple[int, bool]:
        """Train up to the next check; return its iteration, and whether it is a regular one."""
        iteration, regular = state.checked, False
        following = min(iteration - iteration % check_every + check_every, state.iterations)
        with around or nullcontext():
            while not regular and (iteration == state.checked or not interrupted()):
                if lanes:
                    last = min(following, iteration + TOGETHER)
                    block = range(iteration + 1, last + 1)
                    iteration = _in_lanes(lanes, batches, block, losses, state, interrupted)
                else:
                    iteration += 1
                    step.prepare(iteration)
                    advance(batches.draw())
                regular = iteration == following
        return iteration, regular

    coming: tuple[int, bool] | None = None
    while not state.ended:
        iteration, regular = coming or to_next_check()
        coming = None
        _check(step.modules, good, losses, state, iteration)
        state.ended = state.ended or iteration == state.iterations
        enough = False
        if on_check is not None and (not ahead or state.ended or interrupted()):
            enough = on_check(iteration, step.modules)
        elif on_check is not None:
            beside = torch.cuda.Stream(batches.device)  # type: ignore[no-untyped-call]
            beside.wait_stream(torch.cuda.current_stream(batches.device))
            coming = to_next_check()
            with torch.cuda.stream(beside):
                enough = on_check(iteration, good)
            # The copy is not to be changed before it was looked at.
            torch.cuda.current_stream(batches.device).wait_stream(beside)
            if enough:
                copy_members(good, step.modules, torch.ones_like(state.stopped_at).bool())
                coming = None
        state.ended = state.ended or enough
        # A run cannot resume from an irregular check, since an uninterrupted run has none there.
        if regular and keep is not None:
            keep(state.ended)
        if interrupted() and coming is None:
            break
    return state.history()


@dataclass(frozen=True)
class Lane:
    """Consecutive members that one thread trains; see `share_weights`."""

    members: slice
    step: Step


#: Most iterations for which batches are drawn beforehand, so that they need little memory.
TOGETHER = 100


def share_weights(whole: nn.Module, lane: Lane) -> None:
    """Make the weights of a lane views of those of ``whole``, which is then trained with it."""
    pairs = zip(member_tensors(whole), member_tensors(lane.step.modules), strict=True)
    for (_, of_all), (_, of_lane) in pairs:
        of_lane.data = of_all.data[lane.members]


def _in_lanes(
    lanes: Sequence[Lane],
    batches: BatchStream,
    block: range,
    losses: _Losses,
    state: RunState,
    interrupted: Callable[[], bool],
) -> int:
    """Train the iterations of ``block`` in every lane; return the last one that all have trained.

    After an interrupt the lanes that are behind catch up with the one that is furthest.
    """
    drawn = [batches.draw() for _ in block]
    furthest, failures = block[0], list[BaseException]()
    turn = threading.Lock()

    def goes_on(iteration: int) -> bool:
        nonlocal furthest
        with turn:
            if failures or (iteration > furthest and interrupted()):
                return False
            furthest = max(furthest, iteration)
            return True

    def train(lane: Lane) -> None:
        try:
            # Both settings belong to the thread.
            torch.set_num_threads(1)
            with gradients_on():
                for iteration, batch in zip(block, drawn, strict=True):
                    if not goes_on(iteration):
                        return
                    lane.step.prepare(iteration)
                    rows, resampled = batches.spread(batch)
                    found = lane.step(rows[lane.members], resampled[lane.members])
                    losses.put(iteration - state.checked - 1, lane.members, *found)
        except BaseException as failure:  # raised again below, in the thread of the caller
            failures.append(failure)

    others = [threading.Thread(target=train, args=(lane,), daemon=True) for lane in lanes[1:]]
    for thread in others:
        thread.start()
    train(lanes[0])
    for thread in others:
        try:
            thread.join()
        except BaseException as failure:  # a second Ctrl-C: the lanes stop after their step
            failures.append(failure)
            thread.join()
    if failures:
        raise failures[0]
    return furthest


def _check(
    modules: nn.Module, good: nn.Module, losses: _Losses, state: RunState, iteration: int
) -> None:
    """Record the losses, and return failing members to their last ``good`` weights."""
    steps = iteration - state.checked
    averages, finite_steps = losses.close(steps)
    state.records.append((iteration, averages))
    stopped_at = state.stopped_at
    failing = (finite_steps < steps) & (stopped_at == 0)
    stopped_at = torch.where(failing, state.checked + finite_steps + 1, stopped_at)
    diverged = ~_finite_weights(modules) & (stopped_at == 0)
    stopped_at = torch.where(diverged, iteration, stopped_at)
    stopped = stopped_at > 0
    if bool(stopped.any()):
        copy_members(modules, good, ~stopped)
        copy_members(good, modules, stopped)
    else:  # fewer operations, which a GPU has to wait for
        with torch.no_grad():
            pairs = zip(member_tensors(modules), member_tensors(good), strict=True)
            for (_, now), (_, before) in pairs:
                before.copy_(now)
    state.stopped_at, state.checked = stopped_at, iteration
    state.ended = bool(stopped.all())


def _finite_weights(modules: nn.Module) -> Tensor:
    """Whether every weight of each member is finite, (K,)."""
    # A sum is finite if and only if all that is added is; one operation for each tensor.
    sums = [
        # A scalar weight, such as a temperature, has shape (K,) here.
        tensor.detach().reshape(len(tensor), -1).sum(1, dtype=_precise(tensor.device))
        for tensor in (*modules.parameters(), *modules.buffers())
        if tensor.is_floating_point()
    ]
    return torch.stack(sums).isfinite().all(0)


def _precise(device: torch.device) -> torch.dtype:
    """Double precision if the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


class _Losses:
    """Losses of K members since the last check, one entry per iteration, kept on the device.

    Everything, including the position of the next entry, is a tensor changed in place, so that a
    captured CUDA graph can write entries. Double precision is used if the device has it.
    """

    def __init__(self, members: int, device: torch.device, *, entries: int) -> None:
        shape = entries, 2, members
        self._losses = torch.zeros(shape, dtype=_precise(device), device=device)
        self._next = torch.zeros(1, dtype=torch.long, device=device)

    def add(self, task: Tensor, penalty: Tensor) -> None:
        if kernels := fused_kernels(task):
            kernels.record(self._losses, self._next, task, penalty)
            return
        self._losses.index_copy_(0, self._next, torch.stack([task, penalty])[None].to(self._losses))
        self._next += 1

    def put(self, entry: int, members: slice, task: Tensor, penalty: Tensor) -> None:
        """Set the entry of an iteration for some of the members."""
        self._losses[entry, :, members] = torch.stack([task, penalty]).to(self._losses)

    def close(self, iterations: int) -> tuple[Tensor, Tensor]:
        """Clear the entries; return averages (2, K) and the number of finite steps (K,).

        Steps count up to the first loss that is not finite, in any process that trains along.
        """
        losses = mean(self._losses[:iterations])
        finite_steps = losses.isfinite().all(1).cumprod(0).sum(0)
        self._next.zero_()
        return losses.mean(0), finite_steps


@contextmanager
def catch_first_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True after the first Ctrl-C; a second Ctrl-C raises.

    This holds only where Ctrl-C would raise KeyboardInterrupt: in the main thread, if nobody
    ignores the signal or handles it in another way.
    """
    interrupted = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            signal.default_int_handler(number, frame)
        interrupted = True

    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


#: Iterations before the capture, in which optimizers and libraries allocate their memory.
WARM_UP = 3


class CapturedIteration:
    """Calls ``iterate(batch)``; from the fourth call on it replays a captured CUDA graph.

    Products in float32 use tensor cores (TF32, ten bits of mantissa). The error is far below the
    noise of mini-batches. Evaluation does not pass through here and is exact. Streams and graph are
    on the device of the batch, whatever the current device.

    ``iterate`` must do the same work on the same tensors at every call. If it cannot be captured,
    because a user's network reads values back, it runs without a graph, with a warning.
    """

    def __init__(self, iterate: Callable[[Tensor], None]) -> None:
        self._iterate = iterate
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: Tensor

    def __call__(self, batch: Tensor) -> None:
        if self._graph is not None:
            with torch.cuda.device(batch.device):
                self._batch.copy_(batch)
                self._graph.replay()
            return
        self._calls += 1
        with torch.cuda.device(batch.device), _tensor_cores():
            if self._calls <= WARM_UP:
                self._warm_up(batch)
                return
            if self._calls == WARM_UP + 1:
                self._capture(batch)
            if self._graph is None:
                self._iterate(batch)
            else:
                self._graph.replay()

    def _warm_up(self, batch: Tensor) -> None:
        """Run on a stream of its own, as CUDA requires before a capture."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._iterate(batch)
        torch.cuda.current_stream().wait_stream(stream)

    def _capture(self, batch: Tensor) -> None:
        self._batch = batch.clone()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._iterate(self._batch)
        except RuntimeError as problem:
            reason = str(problem).splitlines()[0]
            warnings.warn(
                "The training step could not be captured as a CUDA graph, so training is several "
                f"times slower ({reason}). A network of your own must not read values back "
                "(.item(), print) while it trains.",
                stacklevel=2,
            )
            return
        self._graph = graph


@contextmanager
def _tensor_cores() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
