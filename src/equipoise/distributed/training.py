"""Processes of a cluster that train together, and begin again when one of them is lost.

Each process has rows of its own; gradients are averaged by torch.distributed (Gloo). The first one
hands its checkpoints to the process that waits for the answer. If a process or a machine is lost,
all are started again and go on from the latest checkpoint.
"""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from equipoise.cluster import RETRIES, Cluster
from equipoise.distributed.rows import TableRows, rows_of
from equipoise.errors import InputError
from equipoise.estimators.fitting import FitRun, Fitting, Work
from equipoise.training.loop import catch_first_interrupt
from equipoise.training.progress import Progress, progress_shown
from equipoise.training.workers import agreed, train_together

#: Seconds to wait for processes to start, and between two looks at how they get on.
START, LOOK = 60.0, 0.2
#: Seconds that one waits for another, which may be reading its rows.
PATIENCE = 1800.0


class WorkerLost(Exception):
    """Another process that trains along cannot be reached."""


class NoRoom(WorkerLost):
    """The cluster has too few free cores, or does not know yet how few it has."""


@dataclass(frozen=True)
class Assignment:
    """What every process does."""

    work: Work[Any]
    fitting: Fitting[Any]
    table: TableRows
    options: Mapping[str, Any]  # what a checkpoint must share
    seconds: float  # least time between checkpoints
    place: str  # where checkpoints are kept, in words


@dataclass(frozen=True)
class News:
    """What has happened since the last look."""

    progress: list[Progress]
    state: dict[str, Any] | None  # the latest checkpoint, if it is new


class GlooWorkers:
    """Processes that train together, as `equipoise.training.workers` needs them."""

    def __init__(self, number: int, count: int, store: Any) -> None:
        self.number, self.count = number, count
        with _lost_if_it_fails():
            torch.distributed.init_process_group(
                "gloo",
                store=store,
                rank=number,
                world_size=count,
                timeout=timedelta(seconds=PATIENCE),
            )

    def add(self, values: Tensor) -> None:
        """Replace the values by their sum over all processes."""
        with _lost_if_it_fails():
            torch.distributed.all_reduce(values)


@contextmanager
def _lost_if_it_fails() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # the connection was closed
        raise WorkerLost(str(error).splitlines()[0]) from None


class Process:
    """One of the processes that train together; its methods are called from another process."""

    def __init__(self, number: int, count: int) -> None:
        self._number, self._count = number, count
        self._store: Any = None
        self._kept: dict[str, Any] | None = None
        self._lock, self._stops = threading.Lock(), False
        self._progress: list[Progress] = []
        self._new = False
        self._place = ""

    def meet(self) -> tuple[str, int]:
        """Return address and port where the others find the first process."""
        import ray

        address: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        self._store = TCPStore(address, 0, self._count, is_master=True, wait_for_workers=False)
        return address, self._store.port

    def train(
        self, task: Assignment, at: tuple[str, int] | None, state: dict[str, Any] | None
    ) -> Any:
        """Train to the end; the first process returns what is left of the members."""
        self._kept, self._place = state, task.place
        together: Any = nullcontext()
        if at is not None:
            if self._store is None:
                with _lost_if_it_fails():
                    waits = timedelta(seconds=START)
                    self._store = TCPStore(*at, self._count, is_master=False, timeout=waits)
            together = train_together(GlooWorkers(self._number, self._count, self._store))
        fitting = task.fitting
        if not task.table.in_sample:
            fitting.total = task.table.total
        fitting.recipe = replace(fitting.recipe, n_jobs=1)
        fitting.data = rows_of(fitting, task.table, self._number, self._count)
        run = FitRun(
            callback=self._callback, options=task.options, store=self, seconds=task.seconds
        )
        with together:
            found = task.work(fitting, run, verbose=0)
        return found if self._number == 0 else None

    def news(self) -> News:
        """What has happened since the last call."""
        with self._lock:
            progress, self._progress = self._progress, []
            state = self._kept if self._new else None
            self._new = False
        return News(progress, state)

    def stop(self) -> None:
        """End training at the next check."""
        self._stops = True

    def _callback(self, progress: Progress) -> bool:
        if self._number == 0:
            with self._lock:
                self._progress.append(replace(progress, snapshots=None))
        return agreed(self._stops)

    # The process is the store of its checkpoints.

    def __str__(self) -> str:
        return self._place

    def read(self) -> dict[str, Any] | None:
        """Return the checkpoint to go on from."""
        return self._kept

    def write(self, state: dict[str, Any]) -> None:
        """Keep a checkpoint until somebody asks for news."""
        if self._number == 0:
            kept = copy.deepcopy(state)
            with self._lock:
                self._kept, self._new = kept, True

    def refuse(self, error: Exception) -> NoReturn:
        """Refuse a checkpoint that is not that of a run."""
        raise InputError(
            f"resume must continue from the state of a run, got {self} ({error}); remove the file "
            "to start anew"
        )


@dataclass(frozen=True)
class ClusterTraining:
    """Lets processes of a cluster train the members of a fit."""

    cluster: Cluster
    table: TableRows
    workers: int

    def __call__(self, work: Work[Any], fitting: Fitting[Any], run: FitRun, verbose: int) -> Any:
        """Train until all is done; begin again from the latest checkpoint where one is lost."""
        place = "the checkpoint" if run.store is None else str(run.store)
        task = Assignment(work, fitting, self.table, dict(run.options), run.seconds, place)
        state = None if run.store is None else run.store.read()
        shared, losses = self.cluster.ray.put(task), 0
        with catch_first_interrupt() as interrupted, progress_shown(verbose) as show:
            while True:
                # Ray may not know yet which cores were lost with a machine.
                cores = self.cluster.cores / (2 if losses else 1)
                crew = _Crew(self.cluster.ray, self.workers, cores)
                try:
                    for news in crew.train(shared, state, interrupted):
                        if news.state is not None and not interrupted():
                            losses, state = 0, news.state
                            if run.store is not None:
                                run.store.write(state)
                        for progress in news.progress if show is not None else ():
                            show(progress)  # type: ignore[misc]
                    return crew.result(interrupted())
                except WorkerLost as lost:
                    losses += 3 if isinstance(lost, NoRoom) else 1
                    if losses > RETRIES:
                        raise InputError(
                            f"the cluster must have {self.workers} workers that live until the "
                            f"next checkpoint, got none again and again ({lost}); use fewer "
                            "workers, give them more memory, or lower window or checkpoint_every"
                        ) from None
                finally:
                    crew.end()


class _Crew:
    """Processes that are started, and ended, together."""

    def __init__(self, ray: Any, count: int, cores: float) -> None:
        self._ray = ray
        # Where there are fewer cores than processes, these share them.
        share = 1 / ceil(count / cores) if count > cores else 1
        actor = ray.remote(
            num_cpus=share, max_restarts=0, max_concurrency=3, scheduling_strategy="SPREAD"
        )(Process)
        self._processes = [actor.remote(number, count) for number in range(count)]
        self._found: Any = None
        self._last: Progress | None = None

    def train(self, task: Any, state: Any, interrupted: Any) -> Iterator[News]:
        """Yield what happens until all have trained; then `result` is there."""
        first = self._processes[0]
        # All must run before one of them waits for the others.
        self._get([each.news.remote() for each in self._processes], START)
        at = self._get(first.meet.remote()) if len(self._processes) > 1 else None
        kept = self._ray.put(state)
        waiting = [each.train.remote(task, at, kept) for each in self._processes]
        answer, look, told = waiting[0], first.news.remote(), False
        while waiting:
            done, waiting = self._ray.wait(waiting, timeout=LOOK)
            for each in done:
                found = self._get(each)
                self._found = found if each == answer else self._found
            if interrupted() and not told:
                told = True
                for process in self._processes:
                    process.stop.remote()
            if not waiting or self._ray.wait([look], timeout=0)[0]:
                yield self._noted(self._get(look))
                look = first.news.remote()
        yield self._noted(self._get(look))

    def _noted(self, news: News) -> News:
        self._last = news.progress[-1] if news.progress else self._last
        return news

    def result(self, interrupted: bool) -> Any:
        """What the first process has found."""
        last = self._last
        if not interrupted or last is None:
            return self._found
        return replace(self._found, interrupted_at=last.iteration, interrupted_in=last.phase)

    def _get(self, answer: Any, timeout: float | None = None) -> Any:
        """An answer, or the error that its function raised."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(answer, timeout=timeout)
        except errors.GetTimeoutError:
            raise NoRoom(f"they had not all started after {timeout:.0f} seconds") from None
        except errors.RayTaskError as failed:
            raise (failed.cause or failed) from None
        except errors.RayError as lost:
            why = next(iter(str(lost).strip().splitlines()), "no reason given")
            raise WorkerLost(f"{type(lost).__name__}: {why}") from None

    def end(self) -> None:
        """End all processes, also those that wait for one that is lost."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for process in self._processes:
                self._ray.kill(process)
