"""Training in several threads on a quiet machine, and beside other programs that are busy.

45 networks of the default kind on 1 000 rows, and the four boosted models of a default fit, each
with as many threads as there are cores and with one. The busy programs are processes that do
nothing but count. Then 25 of the paper's networks beside a plain loop over one of them, as in
``training``. All is measured in one run of about three minutes, and only ratios mean anything; run
it while nothing else runs:

    python -m benchmarks busy

Writes benchmarks/results/busy.json.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

import torch

from benchmarks import environment
from benchmarks.boosting import drawn
from benchmarks.training import adult_rows, plain_loop, together
from equipoise import FairBoostingClassifier, FairClassifier
from equipoise.cores import allowed_cores
from equipoise.errors import ConvergenceWarning
from equipoise.training import Progress

#: Numbers of busy programs, and the most that an iteration may take as a multiple of that on a
#: quiet machine. With several threads it may never take longer than with one.
LIMITS = {0: 1.0, 1: 2.0, 3: 4.0}
MEMBERS, ROWS, TREE_ROWS = 45, 1_000, 26_000
#: Repeats of networks, of trees and of the plain loop.
REPEATS = {"networks": 2, "trees": 3, "loop": 5}
#: Least times that 25 members together must be as fast as a plain loop over one.
LEAST_TIMES_PLAIN = 8.0


@contextmanager
def busy_programs(count: int) -> Iterator[None]:
    """Let this many processes count while the block runs."""
    counting = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(counting) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def milliseconds(fit: Callable[..., Any], jobs: int) -> float:
    """Return the time of an iteration between the first and the last check of a fit."""
    seen: list[tuple[int, float]] = []

    def note(progress: Progress) -> None:
        seen.append((progress.iteration, time.perf_counter()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit(n_jobs=jobs, callback=note)
    (first, begun), (last, ended) = seen[0], seen[-1]
    return 1000 * (ended - begun) / (last - first)


def networks(n_jobs: int, callback: Callable[[Progress], None]) -> None:
    X, y, A = drawn(ROWS)
    model = FairClassifier(
        members=MEMBERS,
        iterations=100,
        early_stopping=None,
        random_state=0,
        device="cpu",
        n_jobs=n_jobs,
    )
    model.fit(X, y, sensitive_features=A[["race"]], callback=callback)


def trees(n_jobs: int, callback: Callable[[Progress], None]) -> None:
    X, y, A = drawn(TREE_ROWS)
    model = FairBoostingClassifier(
        strength=0.9, rounds=60, early_stopping=None, members=4, random_state=0, n_jobs=n_jobs
    )
    model.fit(X, y, sensitive_features=A[["age", "race", "sex"]], callback=callback)


def beside(programs: int, cores: int) -> dict[str, dict[str, float]]:
    """Return the milliseconds of an iteration with all cores and with one thread."""
    found = {}
    with busy_programs(programs):
        for name, fit in {"networks": networks, "trees": trees}.items():
            pairs = [(milliseconds(fit, cores), milliseconds(fit, 1)) for _ in range(REPEATS[name])]
            threads, one = (median(each) for each in zip(*pairs, strict=True))
            found[name] = {"threads_ms": round(threads, 2), "one_thread_ms": round(one, 2)}
            print(f"{programs} busy programs, {name}: {found[name]}", flush=True)
    return found


def against_plain_loop() -> dict[str, float]:
    """Return the milliseconds of the plain loop and of 25 members, and their ratio."""
    data, loop, stack = adult_rows(), [], []
    plain_loop(data, 20)
    for _ in range(REPEATS["loop"]):
        loop.append(plain_loop(data, 100) / 100)
        run = partial(together, data, 25)
        stack.append((run(40) - run(10)) / 30)
    plain, each = 1000 * median(loop), 1000 * median(stack)
    return {
        "plain_loop_ms": round(plain, 3),
        "members_25_ms": round(each, 3),
        "times_plain_loop": round(25 * plain / each, 2),
    }


def main() -> None:
    cores = allowed_cores()
    torch.set_num_threads(cores)
    load = os.getloadavg()[0]
    milliseconds(trees, cores)  # loads what both fits need
    beside_programs = {str(count): beside(count, cores) for count in LIMITS}
    plain = against_plain_loop()
    print(plain, flush=True)
    environment.write(
        "busy",
        {
            "device": environment.device_name("cpu"),
            "versions": environment.versions(),
            "cores": cores,
            "load_before": round(load, 2),
            "members": MEMBERS,
            "limits": {str(count): limit for count, limit in LIMITS.items()},
            "least_times_plain_loop": LEAST_TIMES_PLAIN,
            "beside": beside_programs,
            "plain_loop": plain,
        },
    )


if __name__ == "__main__":
    main()
