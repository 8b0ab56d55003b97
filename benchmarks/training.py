"""Members trained together against a plain PyTorch loop over one member, in one run.

Adult, independence from race (White or not), batch 300, the paper's networks and optimizer. The
plain loop is ordinary code for one model: torch's own layers, two optimizers, one model after the
other. Speeds are member-iterations per second; on a shared machine only their ratio means anything.
On a GPU it also times the paper's plan: 25 members for 20 000 iterations, judged every 100.

Writes benchmarks/results/training_cpu.json or training_cuda.json.
"""

from __future__ import annotations

import time
import warnings
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks import environment
from equipoise import FairFrontier, load_dataset
from equipoise.critic import CriticSettings
from equipoise.errors import ConvergenceWarning
from equipoise.notions import Notion
from equipoise.predictors import Inputs
from equipoise.predictors.network import NetworkRecipe
from equipoise.training import Member, OptimizerSettings, TrainingData, TrainingSettings

SGD = OptimizerSettings(kind="sgd", learning_rate=0.005, momentum=0.2)
BATCH = 300
#: Numbers of members, and of the iterations by which two runs differ.
PLAN = {"cpu": {1: 200, 5: 60, 25: 30}, "cuda": {1: 1000, 25: 1000, 128: 1000, 512: 500}}
REPEATS = 5


def adult_rows() -> TrainingData:
    data = load_dataset("adult", preprocessing="paper")
    x = torch.tensor(np.ascontiguousarray(data.X, dtype=np.float32))
    y = torch.tensor(data.y.to_numpy(np.float32))
    race = torch.tensor(data.A[["race"]].to_numpy(np.float32))
    return TrainingData(x=x, target=y, outcome=y[:, None], attribute=race)


def paper_network(n_in: int, depth: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(n_in, 64), nn.BatchNorm1d(64, eps=1e-3), nn.ReLU()]
        n_in = 64
    return nn.Sequential(*layers, nn.Linear(64, 1))


def plain_loop(data: TrainingData, iterations: int) -> float:
    """Return the seconds of ``iterations`` iterations of one model in a plain loop."""
    assert data.attribute is not None
    x, y, a = data.x, data.target, data.attribute
    h, critic = (paper_network(*size).to(x.device) for size in ((x.shape[1], 3), (2, 2)))
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.2) for net in (h, critic)]
    loss = nn.functional.binary_cross_entropy_with_logits
    ones, zeros = x.new_ones(BATCH, 1), x.new_zeros(BATCH, 1)

    def penalty(s: torch.Tensor, a: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        real = loss(critic(torch.cat([s, a], 1)), ones)
        return -real - loss(critic(torch.cat([s, drawn], 1)), zeros)

    start = _now(x)
    for _ in range(iterations):
        rows = torch.randint(len(x), (BATCH,), device=x.device)
        drawn = a[torch.randint(len(x), (BATCH,), device=x.device)]
        s = torch.sigmoid(h(x[rows])).detach()
        optimizers[1].zero_grad()
        (-penalty(s, a[rows], drawn)).backward()
        optimizers[1].step()
        output = h(x[rows])
        task = loss(output, y[rows, None])
        optimizers[0].zero_grad()
        (0.5 * task + 0.5 * penalty(torch.sigmoid(output), a[rows], drawn)).backward()
        optimizers[0].step()
    return _now(x) - start


def together(data: TrainingData, members: int, iterations: int) -> float:
    """Return the seconds of ``iterations`` iterations of all members in the engine."""
    recipe = NetworkRecipe(
        notion=Notion.INDEPENDENCE,
        method="sbp",
        density_ratio="none",
        critic=CriticSettings(normalization="batch", optimizer=SGD),
        training=TrainingSettings(
            iterations=iterations, batch_size=BATCH, optimizer=SGD, schedule="constant"
        ),
        hidden=(64, 64, 64),
    )
    stack = [Member(0.1 + 0.8 * (k % 5) / 4, seed=k // 5) for k in range(members)]
    start = _now(data.x)
    recipe.train(data, stack, Inputs(task="binary", n_outputs=1))
    return _now(data.x) - start


def _now(x: torch.Tensor) -> float:
    """Return the time after the device has finished its work."""
    if x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter()


def seconds_per_iteration(data: TrainingData, members: int, iterations: int) -> float:
    """Return the median over repeats, as a difference without start-up costs."""
    return median(
        (together(data, members, 2 * iterations) - together(data, members, iterations)) / iterations
        for _ in range(REPEATS)
    )


def full_run() -> float:
    """Seconds of ``fit`` for the paper's plan, from the data frame to the fronts."""
    data = load_dataset("adult", preprocessing="paper")
    strengths = (0.1, 0.3, 0.5, 0.7, 0.9)
    frontier = FairFrontier.as_in_paper(
        strengths=strengths, seeds=5, metrics=("KS-GSP", "SP"), random_state=0
    )
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        frontier.fit(data.X, data.y, sensitive_features=data.A[["race"]])
    return time.perf_counter() - start


def main() -> None:
    """Measure, print and write the results."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = adult_rows().to(torch.device(device))
    plain_loop(data, 20)
    together(data, 1, 20)
    plain = median(plain_loop(data, 200) / 200 for _ in range(REPEATS))
    print(f"plain loop, one member: {1000 * plain:.2f} ms an iteration")
    document: dict[str, Any] = {
        "device": environment.device_name(device),
        "versions": environment.versions(),
        "settings": {"data": "adult", "rows": len(data), "batch": BATCH, "repeats": REPEATS},
        "plain_loop_ms": 1000 * plain,
        "engine": {},
    }
    for members, iterations in PLAN[device].items():
        each = seconds_per_iteration(data, members, iterations)
        ratio = members * plain / each
        document["engine"][str(members)] = {"ms": 1000 * each, "times_plain_loop": ratio}
        print(
            f"engine, {members:3d} members: {1000 * each:.3f} ms an iteration, "
            f"{ratio:.1f} times the plain loop",
            flush=True,
        )
    if device == "cuda":
        document["full_run_seconds"] = full_run()
        print(f"25 members, 20 000 iterations, judged: {document['full_run_seconds']:.1f} s")
    environment.write(f"training_{device}", document)


if __name__ == "__main__":
    main()
