"""Peak memory of a fit, its scores and their audit, for tables of a million rows and more.

A frame of 20 numbers in double precision, a binary outcome, and two sensitive columns. Each model
is fitted, predicts and is audited in a process of its own, with few iterations, which need no more
memory than many. Other numbers of rows are an option:

    python -m benchmarks memory --rows 1000000 10000000

Writes benchmarks/results/memory.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import environment
from equipoise import FairBoostingClassifier, FairClassifier, audit
from equipoise.errors import ConvergenceWarning

#: Takes long and needs 12 GB of memory.
LONG = True
ROWS, COLUMNS = (1_000_000, 10_000_000), 20
#: Most memory of the process for the most rows, in GB.
LIMIT = 12.0
MODELS: dict[str, Callable[[], Any]] = {
    "networks": lambda: FairClassifier(iterations=100, random_state=0, device="cpu"),
    "trees": lambda: FairBoostingClassifier(rounds=10, random_state=0),
}


def peak() -> float:
    """Return the largest memory of this process so far, in GB."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9


def measure(model: str, rows: int) -> dict[str, Any]:
    """Return the peak memory after each part, and the seconds of all."""
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(rows, COLUMNS))).add_prefix("x")
    A = pd.DataFrame({"age": random.normal(size=rows), "level": random.integers(0, 5, rows)})
    y = (X["x0"] + 0.3 * A["age"] + random.logistic(size=rows) > 0).to_numpy().astype(int)
    found: dict[str, Any] = {"model": model, "rows": rows, "data_gb": peak()}
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = MODELS[model]().fit(X, y, sensitive_features=A)
    found["fit_gb"] = peak()
    scores = fitted.predict_proba(X)[:, 1]
    found["predict_gb"] = peak()
    del X, fitted
    str(audit(scores, y, A))
    found["audit_gb"] = peak()
    seconds = time.perf_counter() - begun
    return {name: round(v, 3) if isinstance(v, float) else v for name, v in found.items()} | {
        "seconds": round(seconds)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    rows = parser.parse_args().rows
    document: dict[str, Any] = {
        "device": environment.device_name("cpu"),
        "versions": environment.versions(),
        "load_before": round(os.getloadavg()[0], 2),
        "columns": COLUMNS,
        "limit_gb": LIMIT,
        "runs": [],
    }
    for count in rows:
        for model in MODELS:
            command = [sys.executable, "-m", "benchmarks.memory", model, str(count)]
            child = subprocess.run(command, check=True, capture_output=True, text=True)
            document["runs"].append(json.loads(child.stdout))
            print(document["runs"][-1], flush=True)
    environment.write("memory", document)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
