"""Metrics: all members at once against a loop over scipy, and the bootstrap as rows grow."""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from equipoise.inference import bootstrap
from equipoise.metrics.registry import METRICS
from equipoise.metrics.sample import prepare
from equipoise.tables import SensitiveTable

KS = ("KS-GSP", "KS-GEO")
COUNTED = tuple(name for name, metric in METRICS.items() if metric.deviation is not None)


def main() -> None:
    # The loop over scipy has one thread, so ours gets one too; idle threads would also spin.
    torch.set_num_threads(1)
    ks_against_scipy()
    bootstrap_by_rows()


def ks_against_scipy(members: int = 25, n: int = 6_500) -> None:
    """Time KS-GSP and KS-GEO of 25 scores, for our code and for a plain loop over scipy."""
    rng = np.random.default_rng(0)
    age, sex, y = rng.normal(size=n), rng.integers(0, 2, n), rng.integers(0, 2, n)
    scores = rng.random((members, n)) + 0.1 * sex + 0.05 * age + 0.3 * y
    table = SensitiveTable.from_data({"age": age, "sex": sex})
    ours, ours_s = _best(partial(_ours, scores, table, y), repeats=5)
    fast, fast_s = _best(partial(_loop, scores, age, sex, y, "asymp"), repeats=1)
    _, default_s = _best(partial(_loop, scores[:2], age, sex, y, "auto"), repeats=1)
    default_s *= members / 2  # its exact p-values are slow: two members stand for all
    print(f"KS-GSP and KS-GEO, K={members}, n={n}, A=(continuous, binary): {ours_s:.3f} s")
    print(f"  loop over ks_2samp as it comes      {default_s:7.2f} s  {default_s / ours_s:6.0f} x")
    print(f"  loop over ks_2samp, asymptotic p    {fast_s:7.2f} s  {fast_s / ours_s:6.0f} x")
    print(f"  largest difference                  {np.abs(ours - fast).max():.1e}")


def bootstrap_by_rows(sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)) -> None:
    """Time intervals of all count metrics, A = (continuous, 5 levels), 200 draws."""
    for n in sizes:
        rng = np.random.default_rng(0)
        age, level, y = rng.normal(size=n), rng.integers(0, 5, n), rng.integers(0, 2, n)
        scores = rng.normal(size=n) + 0.1 * age + 0.1 * level + 0.5 * y
        table = SensitiveTable.from_data({"age": age, "level": level})
        start = perf_counter()
        bootstrap(COUNTED, scores, table, y, draws=200)
        took = perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"bootstrap, n={n:>9,}, A=(continuous, 5 levels), 200 draws, {len(COUNTED)} metrics: "
            f"{took:6.1f} s, {took / (n * np.log2(n)) * 1e9:8.1f} ns per n log2 n, "
            f"peak so far {peak:.2f} GiB"
        )


def _ours(scores: NDArray[np.float64], table: SensitiveTable, y: NDArray[np.int64]) -> NDArray:
    scored = prepare(scores, y, threshold=None)
    return np.stack(
        [
            METRICS[name].compute(scored.against(column)).values[0].numpy()
            for column in table.columns
            for name in KS
        ]
    )


def _loop(
    scores: NDArray[np.float64],
    age: NDArray[np.float64],
    sex: NDArray[np.int64],
    y: NDArray[np.int64],
    method: str,
) -> NDArray:
    def distance(part: NDArray, whole: NDArray) -> float:
        return float(ks_2samp(part, whole, method=method).statistic)

    deciles = np.quantile(age, np.arange(1, 10) / 10)
    out = []
    for s in scores:
        out.append(
            [
                np.mean([distance(s[age <= a], s) for a in deciles]),
                np.mean(
                    [
                        sum(distance(s[(age <= a) & (y == v)], s[y == v]) for v in (0, 1))
                        for a in deciles
                    ]
                ),
                sum(distance(s[sex == a], s) for a in (0, 1)),
                sum(distance(s[(sex == a) & (y == v)], s[y == v]) for a in (0, 1) for v in (0, 1)),
            ]
        )
    return np.array(out).T


def _best(work: Callable[[], NDArray], repeats: int) -> tuple[NDArray, float]:
    """The result, and the shortest of several times."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        result = work()
        times.append(perf_counter() - start)
    return result, min(times)


if __name__ == "__main__":
    main()
