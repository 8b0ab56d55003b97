"""Fits from files: time by rows and workers, and how near the best fair curve they come.

    python -m benchmarks.files --folder FOLDER --rows 1000000 10000000 --curve 10000000

Writes synthetic rows of 12 columns to the folder, a million in a file, where they are not there
yet; then benchmarks/results/files.json, which docs/ray.md quotes. What is in it already is not
measured again: a run that was stopped goes on, and --again measures anew.

The outcome is x0 + x1 / 2 + a + noise with a = -1/2 or 1/2. So the best R2 of scores of two groups
that differ by at most a given Wasserstein distance is known in closed form, see `best_utility`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import ks_2samp

from benchmarks.cluster import IN_FILE, PACKAGES, cluster, measured, written
from equipoise import FairClassifier, FairFrontier, FairRegressor, load_dataset
from equipoise.distributed.fitting import WINDOW, FitRequest
from equipoise.estimators.fitting import fit_elsewhere

#: Needs a folder for its files.
LONG = True
RESULTS = Path(__file__).parent / "results" / "files.json"
FEATURES = [f"x{k}" for k in range(8)]
NOISE, SPREAD = 1.0, 1.25**0.5
BUDGETS = (0.05, 0.1, 0.2)
STRENGTHS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="*", default=[10**6, 10**7])
    parser.add_argument("--curve", type=int, nargs="*", default=[], metavar="ROWS")
    parser.add_argument("--adult", action="store_true", help="the curve of Adult, too")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--again", action="store_true", help="measure what is there already, too")
    options = parser.parse_args()
    content: dict[str, Any] = {"pass": [], "curve": [], "adult": []}
    if RESULTS.exists():
        content = json.loads(RESULTS.read_text("utf-8"))
    content |= {
        "what": "fit_files, 12 columns, a million rows in a file",
        "device": f"{platform.machine()} CPU, {os.cpu_count()} cores",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
    }
    measures = [("pass", rows, one_pass) for rows in options.rows]
    measures += [("curve", rows, curve) for rows in options.curve]
    measures += [("adult", 32_561, adult)] if options.adult else []
    for name, rows, measure in measures:
        paths = (
            [options.folder] if name == "adult" else written(options.folder, rows, "fit", rows_of)
        )
        for workers in options.workers:
            key = {"rows": rows, "workers": workers}
            others = [row for row in content[name] if {k: row[k] for k in key} != key]
            if len(others) < len(content[name]) and not options.again:
                continue
            # A worker also reads ahead, so on a free core beside it it would be faster.
            with on_cores(workers if name == "pass" else None), cluster(max(options.workers)):
                row = {**key, **measure(paths, workers)}
            print(name, row, flush=True)
            content[name] = sorted([*others, row], key=lambda r: (r["rows"], r["workers"]))
            RESULTS.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@contextmanager
def on_cores(count: int | None) -> Iterator[None]:
    """Keep this process, and those that it starts, to so many cores."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def rows_of(number: int, rows: int = IN_FILE) -> pd.DataFrame:
    """One file: its number is the seed."""
    random = np.random.default_rng([7, number])
    male = random.random(rows) < 0.5
    columns: dict[str, Any] = {
        name: random.normal(size=rows).astype(np.float32) for name in FEATURES
    }
    best = columns["x0"] + columns["x1"] / 2 + (male - 0.5)
    return pd.DataFrame(
        {
            **columns,
            "sex": pd.Categorical.from_codes(male.astype(np.int8), ["F", "M"]),
            "age": random.integers(18, 90, rows).astype(np.int16),
            "region": pd.Categorical.from_codes(random.integers(0, 5, rows), list("ABCDE")),
            "y": (best + NOISE * random.normal(size=rows)).astype(np.float32),
        }
    )


def best_utility(distance: float) -> float:
    """The largest R2 of a score, which may see the attribute, within a Wasserstein distance.

    The best score of all has normal scores in both groups, 1 apart. Moving each group towards the
    other costs least by moving all its scores alike (Chzhen and Schreuder 2022, A minimax framework
    for quantifying risk-fairness trade-off in regression): the squared error grows by the square of
    half of what the means come nearer.
    """
    loss = max(0.0, 1 - distance) ** 2 / 4
    return 1 - (NOISE**2 + loss) / (SPREAD**2 + 0.25 + NOISE**2)


def request(model: Any, workers: int) -> FitRequest:
    return FitRequest.of(
        model,
        target="y",
        sensitive=("sex",),
        features=None,
        drop=("age", "region"),
        weight=None,
        key=None,
        workers=workers,
        window=WINDOW,
    ).of_task()


def one_pass(paths: list[Path], workers: int) -> dict[str, Any]:
    """Seconds of the survey, and of one pass of training with batches of 8,192 rows."""
    model = FairRegressor(
        strength=0.9,
        iterations=10**9,
        epochs=1,
        batch_size=8_192,
        members=1,
        early_stopping=None,
        random_state=0,
        device="cpu",
    )
    begun = time.perf_counter()
    with request(model, workers).read(paths) as read:
        surveyed = time.perf_counter() - begun
        with fit_elsewhere(model) as fit:
            found = measured(lambda: read.fit(model, fit) or {})
        rows = read.rows
    return {
        "survey_seconds": round(surveyed, 1),
        **found,
        "rows_a_second": round(rows / found["seconds"]),
        "rows_a_second_and_worker": round(rows / found["seconds"] / workers),
    }


def curve(paths: list[Path], workers: int) -> dict[str, Any]:
    """What a frontier picks within each gap: R2 and distance on fresh rows, and the best R2."""
    network = FairRegressor(
        sensitive_at_prediction=True,
        iterations=3_000,
        batch_size=1_024,
        hidden=(32, 32),
        device="cpu",
    )
    frontier = FairFrontier(network, strengths=STRENGTHS, seeds=1, random_state=0, verbose=1)
    begun = time.perf_counter()
    with fit_elsewhere(frontier) as fit, request(frontier, workers).read(paths) as read:
        read.fit(frontier, fit)
    seconds = round(time.perf_counter() - begun, 1)
    fresh = rows_of(10**6)
    male = (fresh["sex"] == "M").to_numpy()
    picked = []
    for budget in BUDGETS:
        model = frontier.select(max_gap=budget, allow_nearest=True, draws=2).model
        scores = model.predict(fresh[FEATURES], sensitive_features=fresh[["sex"]])
        groups = np.sort(scores[male]), np.sort(scores[~male])
        levels = (np.arange(100_000) + 0.5) / 100_000
        apart = np.subtract(*(np.quantile(group, levels) for group in groups))
        distance = float(np.sqrt(np.mean(apart**2)))
        utility = model.score(
            fresh[FEATURES], fresh["y"].to_numpy(np.float64), sensitive_features=fresh[["sex"]]
        )
        picked.append(
            {
                "budget": budget,
                "strength": model.strength,
                "R2": round(utility, 4),
                "best_R2": round(best_utility(distance), 4),
                "Wasserstein": round(distance, 4),
                "KS": round(float(ks_2samp(*groups).statistic), 4),
            }
        )
    return {"seconds": seconds, "picked": picked}


def adult(folders: list[Path], workers: int) -> dict[str, Any]:
    """What a frontier on Adult picks within each budget: AUC on test rows, with its interval."""
    data = load_dataset("adult")
    path = folders[0] / "adult.parquet"
    columns = [*data.X.columns]
    table = data.X.assign(income=np.asarray(data.y), **{f"A {n}": data.A[n] for n in data.A})
    sensitive = tuple(f"A {name}" for name in data.A)
    table.to_parquet(path, index=False)
    network = FairClassifier(device="cpu")
    frontier = FairFrontier(network, strengths=STRENGTHS, seeds=1, random_state=0, verbose=1)
    asked = FitRequest.of(
        frontier,
        target="income",
        sensitive=sensitive,
        features=tuple(columns),
        drop=(),
        weight=None,
        key=None,
        workers=workers,
        window=WINDOW,
    ).of_task()
    begun = time.perf_counter()
    with fit_elsewhere(frontier) as fit, asked.read(path) as read:
        read.fit(frontier, fit)
    seconds = round(time.perf_counter() - begun, 1)
    picked = []
    for budget in BUDGETS:
        utility = frontier.select(max_gap=budget, allow_nearest=True).rows[0].estimate
        interval = {"low": round(utility.low, 4), "high": round(utility.high, 4)}
        picked.append({"budget": budget, "AUC": round(utility.value, 4), **interval})
    return {"seconds": seconds, "picked": picked}


if __name__ == "__main__":
    main()
