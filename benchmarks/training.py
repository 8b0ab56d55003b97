"""Members trained together against a plain PyTorch loop over one member, in one run.

Adult, independence from race (White or not), batch 300, the paper's networks and optimiser. The
plain loop is what a person writes for one model: torch's own layers, two optimisers, one model
after the other. Speeds are member-iterations per second; only their ratio means anything on a
shared machine.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import nn

from equipoise import load_dataset
from equipoise.critic import CriticSettings
from equipoise.notions import Notion
from equipoise.recipe import Recipe
from equipoise.training import Member, OptimizerSettings, TrainingData, TrainingSettings

SGD = OptimizerSettings(kind="sgd", learning_rate=0.005, momentum=0.2)
BATCH = 300
MEMBERS = (1, 5, 25)


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
    """Seconds for ``iterations`` iterations of one model, written plainly."""
    assert data.attribute is not None
    x, y, a = data.x, data.target, data.attribute
    h, critic = paper_network(x.shape[1], 3), paper_network(2, 2)
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.2) for net in (h, critic)]
    loss = nn.functional.binary_cross_entropy_with_logits
    ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)

    def penalty(s: torch.Tensor, a: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        real = loss(critic(torch.cat([s, a], 1)), ones)
        return -real - loss(critic(torch.cat([s, drawn], 1)), zeros)

    start = time.perf_counter()
    for _ in range(iterations):
        rows = torch.randint(len(x), (BATCH,))
        drawn = a[torch.randint(len(x), (BATCH,))]
        s = torch.sigmoid(h(x[rows])).detach()
        optimizers[1].zero_grad()
        (-penalty(s, a[rows], drawn)).backward()
        optimizers[1].step()
        output = h(x[rows])
        task = loss(output, y[rows, None])
        optimizers[0].zero_grad()
        (0.5 * task + 0.5 * penalty(torch.sigmoid(output), a[rows], drawn)).backward()
        optimizers[0].step()
    return time.perf_counter() - start


def together(data: TrainingData, members: int, iterations: int) -> float:
    """Seconds for ``iterations`` iterations of all members in the engine."""
    recipe = Recipe(
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
    start = time.perf_counter()
    recipe.train(data, stack, task="binary", n_outputs=1)
    return time.perf_counter() - start


def main() -> None:
    data = adult_rows()
    plain_loop(data, 20)
    together(data, 1, 20)
    plain = 200 / plain_loop(data, 200)
    print(f"plain loop, one member: {plain:.0f} member-iterations per second")
    for members in MEMBERS:
        iterations = max(30, 200 // members)
        # What a run costs beside its iterations (set-up, a look at its health) cancels out.
        seconds = together(data, members, 2 * iterations) - together(data, members, iterations)
        speed = members * iterations / seconds
        print(
            f"engine, {members:3d} members: {speed:.0f}, {speed / plain:.1f} times the plain loop"
        )


if __name__ == "__main__":
    main()
