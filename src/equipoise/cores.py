"""How many cores a computation may use: the only place that decides this."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from equipoise.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Where Linux says which share of the processor a container may use: microseconds of processor time
#: in a period, or "max".
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def allowed_cores() -> int:
    """Return the number of cores that this process may use, by its affinity and its container."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = (os.cpu_count() or 1) if affinity is None else len(affinity(0))
    try:
        quota, period = _QUOTA.read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def count_jobs(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` asks for.

    None is as many as torch uses (``OMP_NUM_THREADS``) if so many cores are allowed. As in
    scikit-learn, -1 is all allowed cores, and -2 all but one.
    """
    cores = allowed_cores()
    if n_jobs is None:
        return min(torch.get_num_threads(), cores)
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise InputError(
            "n_jobs must be None or a whole number, at least 1 or negative (-1 is all cores), got "
            f"{n_jobs!r}; leave it out to use the cores that this process may use"
        )
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads inside, and as many as before afterwards.

    Threads that share one product wait for each other at every operation. Beside another busy
    program they wait for the slowest, so that two of them are slower than one. So small operations
    run in one thread, and parts that do not need each other in several.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], jobs: int
) -> Iterator[Result]:
    """Yield ``work(item)`` of every item in order, computed in so many threads.

    In each of them torch has one thread, also if there is only one, so that results do not depend
    on ``jobs``. Items are made one after the other, and no more than are computed at once.
    """

    def alone(item: Item) -> Result:
        torch.set_num_threads(1)
        return work(item)

    if jobs == 1:
        for item in items:
            with torch_threads(1):
                result = work(item)
            yield result
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(jobs) as pool:
        for item in items:
            waiting.append(pool.submit(alone, item))
            if len(waiting) == jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
