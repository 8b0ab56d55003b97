"""The loop: steps, regular checks, members that fail, Ctrl-C, early stopping. There is no other."""

from __future__ import annotations

import copy
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.networks import copy_members
from equipoise.training.data import BatchStream


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
