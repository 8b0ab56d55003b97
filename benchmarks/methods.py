"""Time of each method relative to plain training, as in Tables 4 and 6 of the paper.

Adult, A = race (White or not), batch 300, the paper's networks and optimizer, five members at once.
The time is per member and iteration; on a shared machine only ratios to plain training (strength 0)
mean anything. Pre-training does not count: the clock is read between checks of the run itself.

Writes benchmarks/results/methods.json, which docs/methods.md quotes.
"""

from __future__ import annotations

import json
import os
import platform
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import torch

from benchmarks.training import BATCH, SGD, adult_rows
from equipoise.critic import CriticSettings
from equipoise.methods import METHODS
from equipoise.notions import Notion
from equipoise.predictors import Inputs
from equipoise.predictors.network import NetworkRecipe
from equipoise.training import Member, Predictor, TrainingData, TrainingSettings

MEMBERS = 5
#: Iterations between two readings of the clock, readings in a run, and runs.
ITERATIONS = 20
LOOKS = 5
REPEATS = 2
RESULTS = Path(__file__).parent / "results" / "methods.json"
PACKAGES = ("numpy", "torch")
ON_CUDA = torch.cuda.is_available()
# On a shared CPU the time that other processes take must not count.
CLOCK = time.perf_counter if ON_CUDA else time.process_time


def scenario_one() -> TrainingData:
    """Return Adult with Y and A as classes, which methods for groups need."""
    data = adult_rows()
    assert data.attribute is not None
    rows = TrainingData(
        x=data.x,
        target=data.target,
        outcome=data.outcome,
        outcome_class=data.target.long(),
        attribute=data.attribute,
        attribute_cell=(data.attribute[:, 0] > data.attribute.mean()).long(),
    )
    return rows.to(torch.device("cuda" if ON_CUDA else "cpu"))


def seconds(data: TrainingData, method: str, notion: Notion, strength: float) -> float:
    """Shortest time of ``ITERATIONS`` iterations within one run."""
    recipe = NetworkRecipe(
        notion=notion,
        method=method,
        density_ratio="auto",
        critic=CriticSettings(normalization="batch", optimizer=SGD),
        training=TrainingSettings(
            iterations=LOOKS * ITERATIONS,
            check_every=ITERATIONS,
            batch_size=BATCH,
            optimizer=SGD,
            schedule="constant",
        ),
        hidden=(64, 64, 64),
    )
    stack = [Member(strength, seed) for seed in range(MEMBERS)]
    moments: list[float] = []

    def look(iteration: int, predictor: Predictor) -> bool:
        moments.append(CLOCK())
        return False

    recipe.train(data, stack, Inputs(task="binary", n_outputs=1), on_check=look)
    return min(later - earlier for earlier, later in pairwise(moments))


def main() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    data = scenario_one()
    cases = [
        (notion, name)
        for notion in Notion
        for name, method in METHODS.items()
        if getattr(method.capabilities, str(notion)) and method.capabilities.neural
    ]
    # The methods take turns, so that a slow minute of the machine affects all of them.
    runs = [(Notion.INDEPENDENCE, "sbp", 0.0), *((*case, 0.5) for case in cases)]
    shortest = dict.fromkeys(runs, float("inf"))
    for _ in range(REPEATS):
        for notion, name, strength in runs:
            taken = seconds(data, name, notion, strength)
            run = notion, name, strength
            shortest[run] = min(shortest[run], taken)
    torch.set_num_threads(threads)
    base, *costs = (shortest[run] / ITERATIONS / MEMBERS for run in runs)
    rows = [
        {"notion": str(notion), "method": name, "times_plain": round(found / base, 1)}
        for (notion, name), found in zip(cases, costs, strict=True)
    ]
    print(f"plain training: {1e6 * base:.0f} microseconds per member-iteration")
    for row in rows:
        print(f"{row['notion']:13s} {row['method']:16s} {row['times_plain']:4.1f} times plain")
    content = {
        "what": "time per member-iteration relative to plain training (strength 0), without "
        "pre-training; Adult, A = race (White or not), the paper's networks and optimizer",
        "members": MEMBERS,
        "batch_size": BATCH,
        "iterations": ITERATIONS,
        "times_are": f"the shortest of {REPEATS * (LOOKS - 1)} stretches of a run",
        "clock": CLOCK.__name__,
        "threads": 1,
        "device": torch.cuda.get_device_name()
        if ON_CUDA
        else f"{platform.machine()} CPU, {os.cpu_count()} cores",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "plain_microseconds": round(1e6 * base),
        "rows": rows,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
