"""The Triton kernels of networks against ``torch.compile``, on a GPU.

Runs the same training in three ways: with the kernels, with torch's operations alone, and with
these compiled by ``torch.compile``. Each way trains in its own process, one after the other,
several times; the ratios of medians count. The engine captures each way as a CUDA graph, so the
comparison is about the work on the device. Start-up is the time to the first check, with
compilation; the compiler's caches are empty in every process.

``python -m benchmarks compiled --out FILE`` writes a JSON file; benchmarks/results/compiled.json
without ``--out``. ``--device cpu`` tries the script without a GPU, where there are no kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks import environment

LONG = True
WAYS = ("kernels", "library", "compiled")
MEMBERS = (25, 128, 512)
#: Iterations between two readings of the clock, and number of readings; the first are warm-up.
ITERATIONS = {"cpu": 5, "cuda": 300}
LOOKS, WARM = 8, 2
ROWS = 50_000
#: Seconds that one process may take, and how often each way runs.
LIMIT, REPEATS = 900, 3
#: The kernels are worth their code if they are faster by this factor.
WORTH = 1.2


def use(way: str) -> None:
    """Make networks compute in this way from now on."""
    from equipoise.critic import CriticGame
    from equipoise.networks import mlp
    from equipoise.training import Predictor

    if way != "kernels":
        mlp._kernels = lambda: None
    if way == "compiled":
        for part in (Predictor, CriticGame):
            part.forward = torch.compile(part.forward, dynamic=False)  # type: ignore[method-assign]


def one_run(way: str, members: int, device: str, normalization: str) -> dict[str, Any]:
    """Milliseconds an iteration, and seconds to the first check."""
    use(way)
    from benchmarks.scaling import simulated
    from equipoise.critic import CriticSettings
    from equipoise.notions import Notion
    from equipoise.predictors import Inputs
    from equipoise.predictors.network import NetworkRecipe
    from equipoise.training import Member, Predictor, TrainingSettings

    iterations = ITERATIONS[device]
    moments: list[float] = []

    def look(iteration: int, predictor: Predictor) -> bool:
        if device == "cuda":
            torch.cuda.synchronize()
        moments.append(time.perf_counter())
        return False

    recipe = NetworkRecipe(
        notion=Notion.INDEPENDENCE,
        method="sbp",
        density_ratio="none",
        critic=CriticSettings(normalization=normalization),
        training=TrainingSettings(iterations=LOOKS * iterations, check_every=iterations),
        hidden=(64, 64, 64),
        normalization=normalization,
    )
    stack = [Member(0.1 + 0.8 * (k % 5) / 4, seed=k // 5) for k in range(members)]
    data = simulated(ROWS, device)
    begun = time.perf_counter()
    trained = recipe.train(data, stack, Inputs(task="binary", n_outputs=1), on_check=look)
    steps = [later - earlier for earlier, later in pairwise(moments[WARM:])]
    memory = torch.cuda.max_memory_allocated() / 1e6 if device == "cuda" else None
    return {
        "ms": 1000 * median(steps) / iterations,
        "start_up_seconds": moments[0] - begun,
        "megabytes": memory,
        # The three ways must have done the same work.
        "last_task_loss": float(trained.history.task[-1].mean()),
    }


def in_a_process(way: str, members: int, device: str, normalization: str) -> dict[str, Any]:
    """Run one way in its own process; an error is part of the result."""
    with tempfile.TemporaryDirectory() as empty:
        told = {"TORCHINDUCTOR_CACHE_DIR": empty, "TRITON_CACHE_DIR": f"{empty}/triton"}
        command = [sys.executable, "-m", "benchmarks.compiled", way, str(members), device]
        try:
            ran = subprocess.run(
                [*command, normalization],
                env={**os.environ, **told},
                capture_output=True,
                text=True,
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"took longer than {LIMIT} seconds"}
    if ran.returncode:
        return {"error": ran.stderr.strip()[-2000:]}
    found: dict[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    return found


def measure(members: int, device: str, normalization: str, repeats: int) -> dict[str, Any]:
    """Medians of every way, and how they compare."""
    ways = WAYS if device == "cuda" else WAYS[1:]
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way in ways:
            if not any("error" in run for run in runs[way]):
                runs[way].append(in_a_process(way, members, device, normalization))
    found: dict[str, Any] = {"members": members, "normalization": normalization}
    for way, each in runs.items():
        errors = [run["error"] for run in each if "error" in run]
        found[way] = (
            {"error": errors[0]}
            if errors
            else {name: median(run[name] for run in each) for name in each[0] if each[0][name]}
        )
        print(f"{members} members, normalization {normalization}, {way}: {found[way]}", flush=True)
    for other in ("kernels", "library"):
        if "ms" in found.get(other, {}) and "ms" in found["compiled"]:
            found[f"compiled_over_{other}"] = found["compiled"]["ms"] / found[other]["ms"]
    if "compiled_over_kernels" in found:
        found["kernels_worth_it"] = found["compiled_over_kernels"] > WORTH
    return found


def main() -> None:
    """Measure all sizes; write the file after each, so that nothing is lost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compiled")
    parser.add_argument("--out", type=Path, default=environment.RESULTS / "compiled.json")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--members", type=int, nargs="+", default=MEMBERS)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("compiled needs a GPU; --device cpu tries it without kernels")
    document: dict[str, Any] = {
        "device": environment.device_name(options.device),
        "versions": environment.versions(),
        "settings": {"rows": ROWS, "hidden": [64, 64, 64], "repeats": options.repeats},
        "sizes": [],
    }
    for normalization in ("none", "batch"):
        for members in options.members:
            size = measure(members, options.device, normalization, options.repeats)
            document["sizes"].append(size)
            options.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    way, count, where, layers = sys.argv[1:]
    print(json.dumps(one_run(way, int(count), where, layers)))
