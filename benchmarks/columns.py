"""Time of all steps that depend on the number of columns; it must not grow faster than linearly.

500 rows; nine of ten columns are numbers, and one has three categories. The steps are reading a CSV
file, deciding the role of each column, and fits of five iterations, each size in its own process.
Processor time is measured, so that other programs on the machine do not count. "growth" is the
ratio of times for the most and the fewest columns, divided by the ratio of their numbers: 1 is
linear.

Writes benchmarks/results/columns.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import environment
from equipoise import FairClassifier, FairFrontier
from equipoise.files import read_columns, read_table

COLUMNS = (1_000, 4_000, 20_000)
ROWS = 500
#: The first fit imports much of torch, which does not depend on columns.
WARM_COLUMNS = 10


def table(columns: int) -> pd.DataFrame:
    """Return uninformative columns, an outcome and a sensitive column."""
    random = np.random.default_rng(0)
    found: dict[str, Any] = {
        f"c{place}": random.choice(list("abc"), ROWS)
        if place % 10 == 0
        else random.normal(size=ROWS)
        for place in range(columns)
    }
    return pd.DataFrame(
        {**found, "y": random.integers(0, 2, ROWS), "a": random.choice(["f", "m"], ROWS)}
    )


def seconds(work: Callable[[], object]) -> float:
    """Processor time of some work."""
    begun = time.process_time()
    work()
    return round(time.process_time() - begun, 3)


def fits(frame: pd.DataFrame) -> dict[str, float]:
    """Seconds of short fits."""
    X, given = frame.drop(columns=["y", "a"]), {"sensitive_features": frame["a"]}
    model = FairClassifier(strength=0.5, iterations=5, random_state=0)
    frontier = FairFrontier(
        FairClassifier(iterations=4),
        strengths=(0.0, 0.5),
        seeds=1,
        evaluate_every=2,
        random_state=0,
    )
    return {
        "FairClassifier.fit": seconds(lambda: model.fit(X, frame["y"], **given)),
        "FairClassifier.predict": seconds(lambda: model.predict(X)),
        "FairFrontier.fit": seconds(lambda: frontier.fit(X, frame["y"], **given)),
    }


def one_size(columns: int) -> dict[str, float]:
    """Seconds of each part, for one number of columns."""
    warnings.simplefilter("ignore")
    fits(table(WARM_COLUMNS))
    frame = table(columns)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.csv"
        frame.to_csv(path, index=False)
        reading = seconds(lambda: read_table(path))
    deciding = seconds(lambda: read_columns(frame, target="y", sensitive="a"))
    return {"read_table": reading, "read_columns": deciding, **fits(frame)}


def main() -> None:
    found = {}
    for columns in COLUMNS:
        command = [sys.executable, "-m", "benchmarks.columns", str(columns)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        found[columns] = json.loads(run.stdout.splitlines()[-1])
        print(f"{columns:,} columns: {found[columns]}", flush=True)
    few, many = found[COLUMNS[0]], found[COLUMNS[-1]]
    times = COLUMNS[-1] / COLUMNS[0]
    growth = {part: round(many[part] / few[part] / times, 2) for part in few}
    print(f"growth: {growth}", flush=True)
    document = {
        "device": environment.device_name("cpu"),
        "versions": environment.versions(),
        "rows": ROWS,
        "seconds": found,
        "growth": growth,
    }
    environment.write("columns", document)


if __name__ == "__main__":
    print(json.dumps(one_size(int(sys.argv[1]))))
