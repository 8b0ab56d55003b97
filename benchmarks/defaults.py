"""What a default fit costs beside the defaults before it: one model, on all rows, to the end.

Adult, independence from race. Both in turns in one process, so that other programs on the machine
slow both alike. By the clock, as users see it, with as many threads as torch has, and by processor
time.

``python -m benchmarks defaults`` writes benchmarks/results/defaults.json.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import environment
from equipoise import FairBoostingClassifier, FairClassifier, load_dataset

ROWS = (2_000, 20_000)
STRENGTHS = (0.0, 0.5)
TURNS = 3
#: LightGBM's own parameters, which default trees had before.
OWN = {"num_leaves": 31, "min_data_in_leaf": 20, "lambda_l2": 0.0, "cat_smooth": 10, "cat_l2": 10}
NOW: dict[str, Any] = {"random_state": 0}
ONE: dict[str, Any] = {"members": 1, "early_stopping": None, **NOW}
MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "networks": (
        FairClassifier,
        {**ONE, "linear_path": False, "weight_decay": 1.0, "batch_size": 300},
    ),
    "trees": (
        FairBoostingClassifier,
        {**ONE, "rounds": 400, "learning_rate": 0.08, "lightgbm": OWN},
    ),
}


def seconds(model: Any, X: Any, y: Any, A: Any) -> NDArray[np.float64]:
    """Seconds of one fit by the clock, and of the processor."""
    clocks = time.perf_counter, time.process_time
    start = [clock() for clock in clocks]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, sensitive_features=A)
    return np.array([clock() for clock in clocks]) - start


def measured() -> list[dict[str, Any]]:
    """Median seconds of both defaults, for each kind of model, number of rows and strength."""
    data = load_dataset("adult")
    found = []
    for rows in ROWS:
        drawn = np.random.default_rng(0).permutation(len(data.X))[:rows]
        table = data.X.iloc[drawn], data.y.iloc[drawn], data.A[["race"]].iloc[drawn]
        for name, (kind, before) in MODELS.items():
            for strength in STRENGTHS:
                before_and_now = np.array(
                    [
                        [seconds(kind(strength=strength, **each), *table) for each in (before, NOW)]
                        for _ in range(TURNS)
                    ]
                )  # (turns, 2, 2)
                one, now = np.median(before_and_now[..., 0], axis=0).round(2).tolist()
                times = np.median(before_and_now[:, 1] / before_and_now[:, 0], axis=0).round(2)
                line = {"model": name, "rows": rows, "strength": strength}
                line |= {"one_model_seconds": one, "default_seconds": now}
                line |= dict(zip(("times", "times_of_processor"), times.tolist(), strict=True))
                found.append(line)
                print(line, flush=True)
    return found


def main() -> None:
    environment.write(
        "defaults",
        {
            "device": environment.device_name("cpu"),
            "versions": environment.versions(),
            "fits": measured(),
        },
    )


if __name__ == "__main__":
    main()
