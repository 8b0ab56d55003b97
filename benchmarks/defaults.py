"""What a default fit costs beside the defaults before it: one model, on all rows, to the end.

Adult, independence from race. Processor time of both, in turns in one process, so that other
programs on the machine slow both alike.

``python -m benchmarks defaults`` writes benchmarks/results/defaults.json.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks import environment
from equipoise import FairBoostingClassifier, FairClassifier, load_dataset

ROWS = (2_000, 20_000)
STRENGTHS = (0.0, 0.5)
TURNS = 3
#: LightGBM's own parameters, which default trees had before.
OWN = {"num_leaves": 31, "min_data_in_leaf": 20, "lambda_l2": 0.0, "cat_smooth": 10, "cat_l2": 10}
ONE: dict[str, Any] = {"members": 1, "early_stopping": None, "random_state": 0}
MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "networks": (
        FairClassifier,
        {**ONE, "linear_path": False, "weight_decay": 1.0, "batch_size": 300},
    ),
    "trees": (FairBoostingClassifier, {**ONE, "lightgbm": OWN}),
}


def seconds(model: Any, X: Any, y: Any, A: Any) -> float:
    """Processor time of one fit."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, sensitive_features=A)
    return time.process_time() - start


def measured() -> list[dict[str, Any]]:
    """Median seconds of both defaults, for each kind of model, number of rows and strength."""
    data = load_dataset("adult")
    found = []
    for rows in ROWS:
        drawn = np.random.default_rng(0).permutation(len(data.X))[:rows]
        table = data.X.iloc[drawn], data.y.iloc[drawn], data.A[["race"]].iloc[drawn]
        for name, (kind, before) in MODELS.items():
            for strength in STRENGTHS:
                pairs = [
                    (
                        seconds(kind(strength=strength, **before), *table),
                        seconds(kind(strength=strength, random_state=0), *table),
                    )
                    for _ in range(TURNS)
                ]
                one, now = (median(times) for times in zip(*pairs, strict=True))
                line = {"model": name, "rows": rows, "strength": strength}
                line |= {"one_model_seconds": round(one, 2), "default_seconds": round(now, 2)}
                line["times"] = round(median(b / a for a, b in pairs), 2)
                found.append(line)
                print(line, flush=True)
    return found


def main() -> None:
    torch.set_num_threads(1)
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
