"""Steps that train on one batch, and the loop over them: checks, members that fail, Ctrl-C.

A step of the predictor runs it forward once, lets the method add its penalty, and updates. There is
no other loop.
"""

from __future__ import annotations

import copy
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.errors import check_choice, check_number, check_whole
from equipoise.networks import copy_members
from equipoise.training.data import BatchStream, Member, TrainingData, take
from equipoise.training.predictor import Predictor


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Adam, or stochastic gradient descent with momentum as in the paper.

    ``weight_decay`` is for Adam alone: before a step every weight shrinks by this share of the
    learning rate (decoupled; Loshchilov and Hutter 2019).
    """

    kind: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.2
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_choice("optimizer", self.kind, ("adam", "sgd"))
        check_number("learning_rate", self.learning_rate, "must be positive", lambda rate: rate > 0)
        check_number("momentum", self.momentum, "must lie in [0, 1)", lambda m: 0 <= m < 1)
        check_number("weight_decay", self.weight_decay, "must not be negative", lambda d: d >= 0)
        # torch takes no whole numbers beyond 64 bits.
        for name in ("learning_rate", "momentum", "weight_decay"):
            object.__setattr__(self, name, float(getattr(self, name)))

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimizer over these parameters, which are on their device already."""
        weights = list(parameters)
        rate: float | Tensor = self.learning_rate
        fused = None
        if weights[0].is_cuda:
            # One kernel for all weights, and a learning rate that a CUDA graph reads anew.
            fused = True
            rate = torch.tensor(rate, dtype=torch.float32, device=weights[0].device)
        if self.kind == "sgd":
            return torch.optim.SGD(weights, lr=rate, momentum=self.momentum, fused=fused)
        adam = torch.optim.Adam(weights, lr=rate, fused=fused, capturable=bool(fused))
        # torch warns of steps before the capture; ours are on purpose.
        adam._warned_capturable_if_run_uncaptured = True
        return adam


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of one training run.

    ``schedule="decay"`` lowers the predictor's learning rate linearly to zero over the second half
    of the run, so that the last iterate is settled; ``"constant"`` is the paper's.
    """

    iterations: int = 1_500
    batch_size: int = 300
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    schedule: Literal["decay", "constant"] = "decay"
    check_every: int = 50

    def __post_init__(self) -> None:
        for name, least in (("iterations", 1), ("batch_size", 2), ("check_every", 1)):
            check_whole(name, getattr(self, name), least=least)
        check_choice("schedule", self.schedule, ("decay", "constant"))

    def learning_rate_share(self, iteration: int) -> float:
        """Which share of the learning rate applies after ``iteration`` steps."""
        if self.schedule == "constant":
            return 1.0
        return min(1.0, 2 * (1 - iteration / self.iterations))


class Method(Protocol):
    """What a fairness method adds to a step.

    Nothing in :meth:`penalty` may wait for a value from the device or choose a shape by one: on a
    GPU the step is captured once, as a CUDA graph, and replayed. A method that trains networks
    before the run has them in an attribute ``phases``, a sequence of `Phase`.
    """

    #: The auxiliary networks it trains, so that a failing member can be put back as a whole and a
    #: run can be resumed. Their optimizers are attributes of the method or of these networks.
    networks: nn.Module

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Update the auxiliary networks, then return the penalty (K,) of ``penalized``.

        penalized: (K, B, w) score or representation of the batch. rows, resampled: (K, B) row
        numbers of the batch and of the rows whose attributes stand in for it.
        """
        ...


@runtime_checkable
class Objective(Protocol):
    """A method that replaces the task loss as well; it knows the predictor that it trains.

    What :class:`Method` says of a step and of ``networks`` holds here, too.
    """

    networks: nn.Module

    def losses(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Return what takes the place of task loss and penalty, each (K,)."""
        ...


class Step(Protocol):
    """Something that trains on one batch."""

    #: Everything whose weights change, member axis first.
    modules: nn.Module

    def prepare(self, iteration: int) -> None:
        """Get ready for an iteration, counted from 1; called on the host before each step."""

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """All optimizers whose memory a resumed run needs."""
        ...

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Train on one batch; return task loss and penalty before the update, each (K,)."""
        ...


class PredictorStep:
    """(1 - strength) * task + strength * penalty, for every member at once.

    The predictor runs forward once; the method's own updates use that score detached.
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
        self._predictor = predictor
        self._data = data
        self._method = method
        strength = data.x.new_tensor([member.strength for member in members])
        self._shares = 1 - strength, strength
        # Decay counters overfitting to the task, so it counts with the task: a member that mostly
        # follows the penalty would lose its weights to it.
        decays = settings.optimizer.kind == "adam" and settings.optimizer.weight_decay > 0
        self._decay = settings.optimizer.weight_decay * (1 - strength) if decays else None
        self._settings = settings
        self._share = 1.0
        self._optimizer = settings.optimizer.build(
            weight for weight in predictor.parameters() if weight.requires_grad
        )
        self.modules: nn.Module = nn.ModuleList([predictor, *([method.networks] if method else [])])

    def prepare(self, iteration: int) -> None:
        share = self._settings.learning_rate_share(iteration - 1)
        if share != self._share:
            set_learning_rate(self._optimizer, share * self._settings.optimizer.learning_rate)
            self._share = share

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [self._optimizer, *([] if self._method is None else optimizers_of(self._method))]

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        data = self._data
        if self._decay is not None:
            decay(self._optimizer, self._decay)
        method, predictor = self._method, self._predictor
        if isinstance(method, Objective):
            task, penalty = method.losses(rows, resampled)
        else:
            output, penalized = predictor(take(data.x, rows))
            task = predictor.task.loss(output, take(data.target, rows), data.task_weight(rows))
            if method is None:
                minimize(task, self._optimizer)
                return task.detach(), torch.zeros_like(task)
            penalty = method.penalty(penalized, rows, resampled)
        minimize((task, penalty), self._optimizer, self._shares)
        return task.detach(), penalty.detach()


class NetworkStep:
    """A step by ``update(rows, resampled)``, which takes it and returns two losses, each (K,).

    modules: what it trains. optimizers: those of ``update``, with the learning rates of the start.
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
    """Optimizers that the method or its networks hold; together they train all of its weights."""
    holders: list[Any] = [method, *method.networks.modules()]
    held = [value for holder in holders for value in vars(holder).values()]
    found = [value for value in held if isinstance(value, torch.optim.Optimizer)]
    trained = {
        id(weight) for each in found for group in each.param_groups for weight in group["params"]
    }
    assert all(id(weight) in trained for weight in method.networks.parameters()), (
        f"{type(method).__name__} hides an optimizer: make it an attribute"
    )
    return found


def minimize(
    losses: Tensor | Sequence[Tensor],
    optimizer: torch.optim.Optimizer,
    shares: Sequence[Tensor] | None = None,
) -> None:
    """Take one step down the losses (K,), or down their sum weighed by shares (K,) each.

    Members add up: the sum over them has each member's own gradient.
    """
    terms = [losses] if isinstance(losses, Tensor) else list(losses)
    optimizer.zero_grad(set_to_none=True)
    # Shares enter as gradients, which saves a multiplication.
    torch.autograd.backward(
        terms, [torch.ones_like(term) for term in terms] if shares is None else list(shares)
    )
    optimizer.step()


@torch.no_grad()
def decay(optimizer: torch.optim.Optimizer, shares: Tensor) -> None:
    """Take the shares (K,) of the learning rate off the weights of each member."""
    for group in optimizer.param_groups:
        kept = 1 - group["lr"] * shares
        for weight in group["params"]:
            weight.mul_(kept.view(-1, *[1] * (weight.dim() - 1)))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate from the next step on."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


@dataclass(frozen=True)
class History:
    """What the checks saw."""

    iterations: NDArray[np.int64]  # (T,) when
    task: NDArray[np.float64]  # (T, K) average since the check before
    penalty: NDArray[np.float64]  # (T, K), too
    stopped_at: NDArray[np.int64]  # (K,) when a loss was no longer finite, 0 if it always was


@dataclass
class RunState:
    """All that the loop itself remembers of a run of so many iterations, as of its latest check."""

    iterations: int
    stopped_at: Tensor  # (K,) as in `History`
    checked: int = 0  # iteration of that check
    ended: bool = False  # whether there is nothing left to do
    called_off: bool = False  # whether a callback ended it
    records: list[tuple[int, Tensor]] = field(default_factory=list)  # averages (2, K) of checks

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
    """Let what is in here train, also where the caller has switched gradients off."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


@gradients_on()
def run(
    step: Step,
    batches: BatchStream,
    state: RunState,
    *,
    check_every: int,
    on_check: Callable[[int], bool] | None = None,
    keep: Callable[[bool], None] | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    around: AbstractContextManager[None] | None = None,
) -> History:
    """Train to the last iteration of ``state``, or until ``on_check(iteration)`` returns True.

    Losses are read only at checks, so nothing waits for an accelerator in between. A member whose
    loss was not finite since the last check goes back to its weights at that check and stays there.
    Weights are stacked, so nothing it computes meanwhile reaches the others.

    ``state`` says where to begin and is kept up to date. ``keep(ended)`` is called at the end of
    every regular check, when ``state``, ``step`` and ``batches`` hold all that is needed to go on
    from there. Once ``interrupted()`` is true the run is checked and left after the current step.
    ``around`` is entered for the steps from one check to the next.
    """
    good = copy.deepcopy(step.modules)
    losses = _Losses(batches.members, batches.device, entries=check_every)

    def iterate(batch: Tensor) -> None:
        losses.add(*step(*batches.spread(batch)))

    advance = CapturedIteration(iterate) if batches.device.type == "cuda" else iterate
    iteration = state.checked
    while not state.ended:
        regular = False
        with around or nullcontext():
            while not regular and (iteration == state.checked or not interrupted()):
                iteration += 1
                step.prepare(iteration)
                advance(batches.draw())
                regular = iteration % check_every == 0 or iteration == state.iterations
        _check(step.modules, good, losses, state, iteration)
        enough = on_check is not None and on_check(iteration)
        state.ended = state.ended or enough or iteration == state.iterations
        # An irregular check is no place to resume from: an uninterrupted run has none there.
        if regular and keep is not None:
            keep(state.ended)
        if interrupted():
            break
    return state.history()


def _check(
    modules: nn.Module, good: nn.Module, losses: _Losses, state: RunState, iteration: int
) -> None:
    """Record the losses, and put members that fail back to their ``good`` weights."""
    since = iteration - state.checked
    averages, finite = losses.close(since)
    state.records.append((iteration, averages))
    stopped_at = state.stopped_at
    failing = (finite < since) & (stopped_at == 0)
    stopped_at = torch.where(failing, state.checked + finite + 1, stopped_at)
    blown_up = ~_finite_weights(modules) & (stopped_at == 0)
    stopped_at = torch.where(blown_up, iteration, stopped_at)
    copy_members(modules, good, stopped_at == 0)
    copy_members(good, modules, stopped_at > 0)
    state.stopped_at, state.checked = stopped_at, iteration
    state.ended = bool((stopped_at > 0).all())


def _finite_weights(modules: nn.Module) -> Tensor:
    """Whether every weight of each member is finite, (K,)."""
    finite = [
        # A weight without axes of its own, such as a temperature, is (K,) here.
        tensor.detach().reshape(len(tensor), -1).isfinite().all(1)
        for tensor in (*modules.parameters(), *modules.buffers())
        if tensor.is_floating_point()
    ]
    return torch.stack(finite).all(0)


class _Losses:
    """Losses of K members since the last check, one entry an iteration, kept on the device.

    Every tensor is changed in place: on a GPU the entries are part of a captured step, and Python
    cannot tell it which entry to write. In double precision where the device has it.
    """

    def __init__(self, members: int, device: torch.device, *, entries: int) -> None:
        precision = torch.float32 if device.type == "mps" else torch.float64
        self._losses = torch.zeros(entries, 2, members, dtype=precision, device=device)
        self._next = torch.zeros(1, dtype=torch.long, device=device)

    def add(self, task: Tensor, penalty: Tensor) -> None:
        self._losses.index_copy_(0, self._next, torch.stack([task, penalty])[None].to(self._losses))
        self._next += 1

    def close(self, iterations: int) -> tuple[Tensor, Tensor]:
        """Start anew; return averages (2, K), and how many iterations had finite losses, (K,).

        A member's losses end with the first that is not finite.
        """
        entered = self._losses[:iterations]
        finite = entered.isfinite().all(1).cumprod(0).sum(0)
        self._next.zero_()
        return entered.mean(0), finite


@contextmanager
def first_interrupt_asks() -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C set what the yielded function returns; a second one raises.

    Only where Ctrl-C would raise KeyboardInterrupt: in the main thread, and not where somebody
    ignores or handles the signal in a way of their own.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            signal.default_int_handler(number, frame)
        asked = True

    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


#: Iterations run eagerly first, in which optimizers and libraries allocate what they need.
WARM_UP = 3


class CapturedIteration:
    """Calls ``iterate(batch)``; from the fourth call on by replaying what it launched.

    Products of float32 go through tensor cores (TF32, ten bits of mantissa); the error is far below
    the noise of mini-batches. Evaluation does not go through here and is exact. Streams and graph
    are on the device of the batch, whichever device is current.

    ``iterate`` must do the same work on the same tensors at every call. Where it cannot be
    captured, since a user's network reads values back, it runs eagerly, with a warning.
    """

    def __init__(self, iterate: Callable[[Tensor], None]) -> None:
        self._iterate = iterate
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: Tensor

    def __call__(self, batch: Tensor) -> None:
        self._calls += 1
        with torch.cuda.device(batch.device), _tensor_cores():
            if self._calls <= WARM_UP:
                self._run_aside(batch)
                return
            if self._calls == WARM_UP + 1:
                self._capture(batch)
            if self._graph is None:
                self._iterate(batch)
                return
            self._batch.copy_(batch)
            self._graph.replay()

    def _run_aside(self, batch: Tensor) -> None:
        """Run on a stream of its own, as CUDA asks of what is captured later."""
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self._iterate(batch)
        torch.cuda.current_stream().wait_stream(aside)

    def _capture(self, batch: Tensor) -> None:
        self._batch = batch.clone()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._iterate(self._batch)
        except RuntimeError as problem:
            reason = str(problem).splitlines()[0]
            warnings.warn(
                "the training step could not be captured as a CUDA graph, so every iteration is "
                f"launched anew, which is several times slower ({reason}); a network of your own "
                "must not read values back (.item(), print) while it trains",
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
