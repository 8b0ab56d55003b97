"""Time and memory of a run against the number of members K and of rows n.

Simulated rows like Adult's (6 numbers, 72 columns of 0 and 1), independence from one attribute,
batch 300, the default network and optimizer. Each size trains in its own process, so that its peak
memory can be measured; on a GPU it is the memory that torch allocated.

Writes benchmarks/results/scaling_cpu.json or scaling_cuda.json.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from itertools import pairwise
from statistics import median
from typing import Any

import torch

from benchmarks import environment
from equipoise.critic import CriticSettings
from equipoise.notions import Notion
from equipoise.predictors import Inputs
from equipoise.predictors.network import NetworkRecipe
from equipoise.training import Member, Predictor, TrainingData, TrainingSettings

NUMBERS, FLAGS = 6, 72
MEMBERS = (1, 5, 25, 125)
ROWS = (10_000, 100_000, 1_000_000)
#: Members if the rows vary, and rows if the members vary.
USUAL_MEMBERS, USUAL_ROWS = 5, 100_000
#: Iterations between two readings of the clock, and number of readings.
ITERATIONS = {"cpu": 20, "cuda": 500}
CHECKS = 6


def simulated(rows: int, device: str) -> TrainingData:
    """Rows whose outcome depends on two columns and on the attribute."""
    random = torch.Generator().manual_seed(0)
    numbers = torch.randn(rows, NUMBERS, generator=random)
    x = torch.cat([numbers, torch.rand(rows, FLAGS, generator=random).round()], 1)
    attribute = torch.rand(rows, 1, generator=random).round()
    chance = torch.sigmoid(x[:, 0] - x[:, 1] + attribute[:, 0])
    y = (torch.rand(rows, generator=random) < chance).float()
    data = TrainingData(x=x, target=y, outcome=y[:, None], attribute=attribute)
    return data.to(torch.device(device))


def one_size(members: int, rows: int, device: str) -> dict[str, float]:
    """Return milliseconds per iteration and the peak memory of one run."""
    data = simulated(rows, device)
    stack = [Member(0.1 + 0.8 * (k % 5) / 4, seed=k // 5) for k in range(members)]

    moments: list[float] = []

    def look(iteration: int, predictor: Predictor) -> bool:
        moments.append(time.perf_counter())
        return False

    iterations = ITERATIONS[device]
    recipe = NetworkRecipe(
        notion=Notion.INDEPENDENCE,
        method="sbp",
        density_ratio="none",
        critic=CriticSettings(),
        training=TrainingSettings(iterations=CHECKS * iterations, check_every=iterations),
        hidden=(64, 64, 64),
        embedding="pieces",
        normalization="none",
    )
    recipe.train(data, stack, Inputs(task="binary", n_outputs=1), on_check=look)
    between = [later - earlier for earlier, later in pairwise(moments)]
    each = median(between) / iterations
    memory = (
        torch.cuda.max_memory_allocated()
        if device == "cuda"
        else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    )
    return {"members": members, "rows": rows, "ms": 1000 * each, "megabytes": memory / 1e6}


def main() -> None:
    """Measure every size in a process of its own, print and write the results."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = [(members, USUAL_ROWS) for members in MEMBERS]
    sizes += [(USUAL_MEMBERS, rows) for rows in ROWS]
    document: dict[str, Any] = {
        "device": environment.device_name(device),
        "versions": environment.versions(),
        "settings": {"numbers": NUMBERS, "flags": FLAGS, "batch": 300, "network": "default"},
        "sizes": [],
    }
    for members, rows in dict.fromkeys(sizes):
        child = subprocess.run(
            [sys.executable, "-m", "benchmarks.scaling", str(members), str(rows), device],
            check=True,
            capture_output=True,
            text=True,
        )
        found = json.loads(child.stdout)
        document["sizes"].append(found)
        print(
            f"{members:4d} members, {rows:8d} rows: {found['ms']:.2f} ms an iteration, "
            f"{found['megabytes']:.0f} MB",
            flush=True,
        )
    environment.write(f"scaling_{device}", document)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(one_size(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
    else:
        main()
