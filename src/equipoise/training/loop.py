"""The loop: steps, regular checks, members that fail, early stopping. There is no other."""

from __future__ import annotations

import copy
import signal
import threading
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
from equipoise.training.batches import BatchStream
from equipoise.training.cuda_graph import CapturedIteration


class Step(Protocol):
    """Something that trains on one batch."""

    #: Everything whose weights change, member axis first.
    modules: nn.Module

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Train on one batch; return task loss and penalty, each (K,)."""
        ...


@dataclass(frozen=True)
class History:
    """What the checks saw.

    iterations: (T,) when. task, penalty: (T, K) averages since the check before. stopped_at: (K,)
    the iteration at which a member's loss was no longer finite, 0 for members that went on.
    """

    iterations: NDArray[np.int64]
    task: NDArray[np.float64]
    penalty: NDArray[np.float64]
    stopped_at: NDArray[np.int64]


@dataclass
class Standing:
    """Where a run stands after its latest check: all that the loop itself remembers.

    checked: iteration of that check. ended: whether there is nothing left to do. called_off:
    whether a callback ended it. stopped_at: (K,) as in `History`. records: iterations and averages
    (2, K) of every check.
    """

    stopped_at: Tensor
    checked: int = 0
    ended: bool = False
    called_off: bool = False
    records: list[tuple[int, Tensor]] = field(default_factory=list)

    @classmethod
    def at_start(cls, batches: BatchStream) -> Standing:
        """Return the standing of a run that has yet to begin."""
        return cls(torch.zeros(batches.members, dtype=torch.long, device=batches.device))

    def latest(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Task loss and penalty (K,) each, averaged between the two latest checks."""
        task, penalty = self.records[-1][1].cpu().double().numpy()
        return task, penalty

    def history(self) -> History:
        """Return what the checks saw."""
        recorded = torch.stack([average for _, average in self.records]).cpu().double().numpy()
        return History(
            iterations=np.array([iteration for iteration, _ in self.records]),
            task=recorded[:, 0],
            penalty=recorded[:, 1],
            stopped_at=self.stopped_at.cpu().numpy(),
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything, as tensors and plain values."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Stand where the run of `state_dict` stood, on the device of this one."""
        device = self.stopped_at.device
        for iteration, averages in state["records"]:
            if type(iteration) is not int or averages.shape != (2, len(self.stopped_at)):
                raise ValueError("a record must be an iteration and its averages")
        self.stopped_at = state["stopped_at"].to(device)
        self.checked, self.ended = state["checked"], state["ended"]
        self.called_off = state["called_off"]
        self.records = [(iteration, average.to(device)) for iteration, average in state["records"]]


def _never() -> bool:
    return False


@contextmanager
def gradients_on() -> Iterator[None]:
    """Let what is in here train, also where the caller has switched gradients off."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


@gradients_on()
def run(
    step: Step,
    batches: BatchStream,
    *,
    iterations: int,
    check_every: int,
    prepare: Callable[[int], None] | None = None,
    on_check: Callable[[int], bool] | None = None,
    standing: Standing | None = None,
    keep: Callable[[], None] | None = None,
    interrupted: Callable[[], bool] = _never,
    around: AbstractContextManager[None] | None = None,
) -> History:
    """Train for ``iterations`` steps, or until ``on_check(iteration)`` returns True.

    ``prepare(iteration)`` is called before each step, on the host. Losses are looked at only at
    checks, so an accelerator is never waited for in between. A member whose loss was not finite
    since the last check goes back to its weights at that check and stays there; weights are
    stacked, so nothing it computes meanwhile reaches the others.

    ``standing`` says where to begin, and is kept up to date; ``keep()`` is called at the end of
    every regular check, when it, ``step`` and ``batches`` hold all that is needed to go on from
    there. Once ``interrupted()`` is true the run is checked and left as soon as a step is complete.
    ``around`` is entered for the steps from one check to the next.
    """
    standing = Standing.at_start(batches) if standing is None else standing
    good = copy.deepcopy(step.modules)
    ledger = Ledger(batches.members, batches.device, entries=check_every)

    def iterate(batch: Tensor) -> None:
        ledger.add(*step(*batches.spread(batch)))

    advance = CapturedIteration(iterate) if batches.device.type == "cuda" else iterate
    iteration = standing.checked
    while not standing.ended:
        regular = False
        with around or nullcontext():
            while not regular and (iteration == standing.checked or not interrupted()):
                iteration += 1
                if prepare is not None:
                    prepare(iteration)
                advance(batches.draw())
                regular = iteration % check_every == 0 or iteration == iterations
        _check(step.modules, good, ledger, standing, iteration)
        enough = on_check is not None and on_check(iteration)
        standing.ended = standing.ended or enough or iteration == iterations
        # A check out of turn is no place to resume from: an uninterrupted run has none there.
        if regular and keep is not None:
            keep()
        if interrupted():
            break
    return standing.history()


def _check(
    modules: nn.Module, good: nn.Module, ledger: Ledger, standing: Standing, iteration: int
) -> None:
    """Record the losses, and put members that fail back to their ``good`` weights."""
    since = iteration - standing.checked
    averages, finite = ledger.close(since)
    standing.records.append((iteration, averages))
    stopped_at = standing.stopped_at
    failing = (finite < since) & (stopped_at == 0)
    stopped_at = torch.where(failing, standing.checked + finite + 1, stopped_at)
    blown_up = ~_finite_weights(modules) & (stopped_at == 0)
    stopped_at = torch.where(blown_up, iteration, stopped_at)
    copy_members(modules, good, stopped_at == 0)
    copy_members(good, modules, stopped_at > 0)
    standing.stopped_at, standing.checked = stopped_at, iteration
    standing.ended = bool((stopped_at > 0).all())


def _finite_weights(modules: nn.Module) -> Tensor:
    """Whether every weight of each member is finite, (K,)."""
    finite = [
        # A weight without axes of its own, such as a temperature, is (K,) here.
        tensor.detach().reshape(len(tensor), -1).isfinite().all(1)
        for tensor in (*modules.parameters(), *modules.buffers())
        if tensor.is_floating_point()
    ]
    return torch.stack(finite).all(0)


class Ledger:
    """Losses of K members, one entry an iteration.

    Every tensor is changed in place: on a GPU the entries are part of a captured step, which can
    not be told by Python which entry it writes. In double precision where the device has it.
    """

    def __init__(self, members: int, device: torch.device, *, entries: int) -> None:
        precision = torch.float32 if device.type == "mps" else torch.float64
        self._losses = torch.zeros(entries, 2, members, dtype=precision, device=device)
        self._next = torch.zeros(1, dtype=torch.long, device=device)

    def add(self, task: Tensor, penalty: Tensor) -> None:
        """Enter the losses of one iteration, each (K,)."""
        self._losses.index_copy_(0, self._next, torch.stack([task, penalty])[None].to(self._losses))
        self._next += 1

    def close(self, iterations: int) -> tuple[Tensor, Tensor]:
        """Start anew; return averages (2, K), and after how many iterations losses ended, (K,).

        A member's losses end with the first that is not finite; ``iterations`` if none is.
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
