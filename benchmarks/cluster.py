"""Audit and predict over files on a Ray cluster on this machine: time and memory by rows.

    python -m benchmarks.cluster --folder FOLDER --audit 1000000 10000000 --predict 1000000

Writes synthetic rows of 12 columns to the folder, a million in a file, where they are not there
yet; then benchmarks/results/cluster.json, which docs/ray.md quotes: results of other numbers of
rows stay in it. The score differs between two
groups as two normal distributions do whose means are half a standard deviation apart, so the true
distance is known: 2 Phi(1/4) - 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

from equipoise import FairClassifier, audit_files
from equipoise.runs.scoring import score_files

#: Needs a folder for its files.
LONG = True
RESULTS = Path(__file__).parent / "results" / "cluster.json"
PACKAGES = ("numpy", "pandas", "pyarrow", "ray", "torch")
IN_FILE = 1_000_000
FEATURES = [f"x{k}" for k in range(6)]
SENSITIVE = ["age", "sex", "region"]
#: Distance between the distributions of two normal scores whose means are 1/2 apart.
TRUE_DISTANCE = erf(0.25 / 2**0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--audit", type=int, nargs="*", default=[10**6, 10**7], metavar="ROWS")
    parser.add_argument("--predict", type=int, nargs="*", default=[10**6, 10**7], metavar="ROWS")
    options = parser.parse_args()
    model = fitted()
    content: dict[str, Any] = {
        "what": "audit_files and score_files, 12 columns, a million rows in a file",
        "device": f"{platform.machine()} CPU, {os.cpu_count()} cores, shared with other jobs",
        "true_distance": TRUE_DISTANCE,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "audit": [],
        "predict": [],
    }
    earlier = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else content
    for name, again in (("audit", options.audit), ("predict", options.predict)):
        content[name] = [row for row in earlier[name] if row["rows"] not in again]
    runs = [("audit", rows, audited) for rows in options.audit]
    runs += [("predict", rows, predicted(model)) for rows in options.predict]
    for name, rows, function in runs:
        paths = written(options.folder, rows)
        for workers in (1, 2):
            with cluster(workers):
                function(paths[:1])  # workers start and load what they need
                found = measured(lambda paths=paths, function=function: function(paths))  # type: ignore[misc]
            row = {"rows": rows, "workers": workers, **found}
            content[name] = sorted([*content[name], row], key=lambda r: (r["rows"], r["workers"]))
            print(name, row, flush=True)
            RESULTS.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def rows_of(number: int, rows: int = IN_FILE) -> pd.DataFrame:
    """One file: its number is the seed."""
    random = np.random.default_rng(number)
    male = random.random(rows) < 0.5
    columns: dict[str, Any] = {
        name: random.normal(size=rows).astype(np.float32) for name in FEATURES
    }
    latent = random.normal(size=rows) + 0.5 * male
    return pd.DataFrame(
        {
            **columns,
            "age": random.integers(18, 90, rows).astype(np.int16),
            "income": random.lognormal(size=rows).astype(np.float32),
            "sex": pd.Categorical.from_codes(male.astype(np.int8), ["F", "M"]),
            "region": pd.Categorical.from_codes(random.integers(0, 5, rows), list("ABCDE")),
            "y": (random.random(rows) < 1 / (1 + np.exp(-columns["x0"] - latent))).astype(np.int8),
            "score": 1 / (1 + np.exp(-latent)),
        }
    )


def written(
    folder: Path,
    rows: int,
    name: str = "part",
    table: Callable[[int], pd.DataFrame] = rows_of,
) -> list[Path]:
    """The first files of the folder that hold so many rows; ``table`` makes one by its number."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}-{number:04d}.parquet" for number in range(rows // IN_FILE)]
    for number, path in enumerate(paths):
        if not path.exists():
            table(number).to_parquet(path.with_suffix(".new"), index=False)
            path.with_suffix(".new").rename(path)
    return paths


def fitted() -> FairClassifier:
    rows = rows_of(10**6, 20_000)
    estimator = FairClassifier(members=1, early_stopping=None, iterations=300, random_state=0)
    return estimator.fit(rows[FEATURES], rows["y"], sensitive_features=rows[["sex"]])


def audited(paths: list[Path]) -> dict[str, Any]:
    """The distance by sex that the audit finds, beside the true one."""
    found = audit_files(paths, score="score", target="y", sensitive=SENSITIVE).to_frame()
    (gap,) = found.query("metric == 'gap' and attribute == 'sex'").to_dict("records")
    (note,) = [each for each in gap["note"].split("; ") if "hides at most" in each]
    return {
        "distance": round(float(gap["where"].split(", ")[1].split()[0]) / 100, 4),
        "low": round(gap["low"], 5),
        "high": round(gap["high"], 5),
        "hidden_by_bins": float(note.partition("hides at most ")[2].split()[0]),
    }


def predicted(model: FairClassifier) -> Callable[[list[Path]], dict[str, Any]]:
    def run(paths: list[Path]) -> dict[str, Any]:
        out = paths[0].parent / "scores"
        shutil.rmtree(out, ignore_errors=True)
        report = score_files(model, paths, out, model_digest="benchmark")
        shutil.rmtree(out)
        return {"scored": report.document["scored"]}

    return run


@contextmanager
def cluster(workers: int) -> Iterator[None]:
    """A cluster on this machine of so many cores."""
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        address="local",  # not one that others use
        num_cpus=workers,
        include_dashboard=False,
        object_store_memory=256 * 2**20,
        logging_level="ERROR",
        log_to_driver=False,
    )
    try:
        yield
    finally:
        ray.shutdown()


def measured(function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Seconds, and the largest memory of a worker and of this process; what was found."""
    peak, done = {"worker": 0, "driver": 0}, threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
                try:
                    name = process.cmdline()[:1]
                    role = "worker" if name[:1] and name[0].startswith("ray::") else "driver"
                    if role == "worker" or process.pid == os.getpid():
                        peak[role] = max(peak[role], process.memory_info().rss)
                except psutil.Error:
                    continue

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    begun = time.perf_counter()
    found = function()
    seconds = time.perf_counter() - begun
    done.set()
    thread.join()
    gib = {f"{role}_gib": round(size / 2**30, 2) for role, size in peak.items()}
    return {"seconds": round(seconds, 1), **gib, **found}


if __name__ == "__main__":
    main()
