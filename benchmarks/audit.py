"""Time and peak memory of an audit, for several numbers of rows, each in its own process.

Writes benchmarks/results/audit.json, which docs/auditing.md quotes.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
from importlib.metadata import version
from math import log2
from pathlib import Path
from time import perf_counter

SIZES = (10_000, 100_000, 1_000_000)
DRAWS = 200
REPEATS = 2
RESULTS = Path(__file__).parent / "results" / "audit.json"
PACKAGES = ("numpy", "pandas", "scipy", "torch")


def main() -> None:
    rows = by_rows()
    RESULTS.parent.mkdir(exist_ok=True)
    content = {
        "what": "audit(scores, y, A), binary y, A = (continuous, 5 levels), defaults otherwise",
        "draws": DRAWS,
        "threads": 1,
        "seconds_are": f"the shortest of {REPEATS} runs",
        "device": f"{platform.machine()} CPU, {os.cpu_count()} cores",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def by_rows() -> list[dict[str, float]]:
    rows = [json.loads(_in_own_process(n)) for n in SIZES]
    first = rows[0]
    for row in rows:
        growth = row["seconds"] / first["seconds"]
        expected = row["n"] * log2(row["n"]) / (first["n"] * log2(first["n"]))
        row["times_the_first"], row["n_log_n_times_the_first"] = round(growth, 1), round(expected)
        print(
            f"audit, n={row['n']:>9,}, A=(continuous, 5 levels), {DRAWS} draws: "
            f"{row['seconds']:6.1f} s ({growth:5.1f} x the first; n log n: {expected:5.0f} x), "
            f"peak {row['peak_gib']:.2f} GiB",
            flush=True,
        )
    return rows


def _in_own_process(n: int) -> str:
    """Run each size in its own process, since the peak memory of a process never falls.

    Use one thread: a second one waits by spinning, so that times depend on other programs.
    """
    command = [sys.executable, "-m", "benchmarks.audit", str(n)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return done.stdout


def measure(n: int) -> dict[str, float]:
    """Audit n simulated rows."""
    import numpy as np

    from equipoise.auditing import audit

    rng = np.random.default_rng(0)
    age, level, y = rng.normal(size=n), rng.integers(0, 5, n), rng.integers(0, 2, n)
    scores = rng.normal(size=n) + 0.1 * age + 0.1 * level + 0.5 * y
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        str(audit(scores, y, {"age": age, "level": level}, draws=DRAWS))
        times.append(perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"n": n, "seconds": round(min(times), 2), "peak_gib": round(peak, 2)}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]))))
    else:
        main()
