"""Time of one fair boosted model beside plain LightGBM with the same number of rounds.

26 000 rows drawn from Adult, one member at strength 0.9, otherwise default options. The fits, from
data frame to model, run one after the other; on a shared machine only their ratios mean anything.
LightGBM is plain with its own defaults, and once more with the smaller trees of the fair model.
Then a default fit of a million rows, drawn with replacement. In a process of two threads:

    OMP_NUM_THREADS=2 python -m benchmarks boosting

Writes benchmarks/results/boosting.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from statistics import median
from typing import Any

import lightgbm
import numpy as np
import torch

from benchmarks import environment
from equipoise import FairBoostingClassifier, load_dataset
from equipoise.predictors.boosting.lightgbm import REPRODUCIBLE, LightGBM

ROWS, MANY_ROWS = 26_000, 1_000_000
STRENGTH, REPEATS = 0.9, 5
#: Notion and sensitive columns. The weights beta are counted if all columns are discrete, else a
#: network learns them before the first round.
MEMBERS = {
    "independence, A = age, race, sex": ("independence", ["age", "race", "sex"]),
    "separation, A = race, sex": ("separation", ["race", "sex"]),
    "separation, A = age, race, sex": ("separation", ["age", "race", "sex"]),
}
#: Limits: time of one fair member as a multiple of plain LightGBM, and minutes for a million rows.
LIMIT, MINUTES = 6.0, 15.0


def drawn(rows: int) -> tuple[Any, Any, Any]:
    """Return rows of Adult, drawn without replacement if it has enough."""
    data = load_dataset("adult")
    random = np.random.default_rng(0)
    chosen = random.choice(len(data.y), rows, replace=rows > len(data.y))
    return data.X.iloc[chosen], data.y.iloc[chosen], data.A.iloc[chosen]


def seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def plain_fit(X: Any, y: Any, parameters: Mapping[str, Any] | None = None) -> None:
    defaults = FairBoostingClassifier()
    lightgbm.LGBMClassifier(
        n_estimators=defaults.rounds,
        learning_rate=defaults.learning_rate,
        n_jobs=torch.get_num_threads(),
        verbose=-1,
        **REPRODUCIBLE,
        **(parameters or {}),
    ).fit(X, y)


def fair_fit(X: Any, y: Any, A: Any, **options: Any) -> None:
    model = FairBoostingClassifier(strength=STRENGTH, random_state=0, **options)
    model.fit(X, y, sensitive_features=A)


def ratios() -> dict[str, dict[str, float]]:
    """Return seconds of the fits and the median ratios of consecutive fits, for each member."""
    X, y, A = drawn(ROWS)
    plain_fit(X, y)
    found = {}
    for name, (notion, columns) in MEMBERS.items():
        given = A[columns]
        one = {"notion": notion, "members": 1, "early_stopping": None}
        fits = [
            (
                seconds(lambda: plain_fit(X, y)),
                seconds(lambda: plain_fit(X, y, LightGBM.chosen)),
                seconds(lambda given=given, one=one: fair_fit(X, y, given, **one)),
            )
            for _ in range(REPEATS)
        ]
        plain, alike, fair = (median(each) for each in zip(*fits, strict=True))
        found[name] = {
            "plain_seconds": round(plain, 3),
            "same_trees_seconds": round(alike, 3),
            "fair_seconds": round(fair, 3),
            "times_plain": round(median(fair / plain for plain, _, fair in fits), 2),
            "times_same_trees": round(median(fair / alike for _, alike, fair in fits), 2),
        }
        print(name, found[name], flush=True)
    return found


def main() -> None:
    defaults = FairBoostingClassifier()
    cost = ratios()
    X, y, A = drawn(MANY_ROWS)
    minutes = seconds(lambda: fair_fit(X, y, A)) / 60
    print(f"{MANY_ROWS:,} rows: {minutes:.1f} minutes", flush=True)
    environment.write(
        "boosting",
        {
            "device": environment.device_name("cpu"),
            "versions": {**environment.versions(), "lightgbm": version("lightgbm")},
            "rows": ROWS,
            "many_rows": MANY_ROWS,
            "rounds": defaults.rounds,
            "strength": STRENGTH,
            "repeats": REPEATS,
            "limit_times_plain": LIMIT,
            "limit_minutes": MINUTES,
            "cost": cost,
            "many_rows_minutes": round(minutes, 2),
        },
    )


if __name__ == "__main__":
    main()
