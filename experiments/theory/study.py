"""Theorem 1 as a number beside the error it bounds, on the synthetic family.

Small classes whose best predictor can be found: linear predictors and critics of one hidden layer,
with norms fixed beforehand. For several n the game is played to the end on samples of n rows, and
the population's objective of what comes out, with the best critic of the class for it, is measured
on fresh rows, many more than any sample has. The error is its distance to the smallest objective
that any training found, those on the largest sample included. Beside it: the bound with our
constants and with the printed ones, and our constants with complexities estimated from below.

At last the same bound around networks of the paper's sizes, trained by SBPPenalty.

Writes experiments/results/theory.json.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from benchmarks import environment
from equipoise import SBPPenalty
from equipoise.datasets import make_synthetic
from equipoise.networks import StackedMLP
from equipoise.training.data import generators
from experiments import RESULTS
from experiments.theory import (
    Game,
    NetworkClass,
    closed_form_complexities,
    estimate_complexities,
    estimation_bound,
    fold,
)
from experiments.theory.networks import critic_outputs, game_scores

RADIUS = 3.0
GAME = Game(
    predictor=NetworkClass((2, 1), (1.0,), has_constant=True),
    critic=NetworkClass((3, 8, 1), (1.5, 1.5), has_constant=True),
    radius=RADIUS,
)
STRENGTH = 0.5
DELTA = 0.05
SIZES = (100, 400, 1_600, 6_400, 25_600)
REPEATS = 5
REFERENCE_ROWS = 51_200
FRESH_ROWS = 20_000
ITERATIONS = 200
CRITIC_STEPS = 3
CRITIC_ITERATIONS = 200
#: Critics of one predictor, from different starts; the best of them counts.
STARTS = 4
#: How complexities are estimated.
ASCENT = {"draws": 8, "starts": 2, "steps": 120}


@dataclass(frozen=True)
class Rows:
    """Rows in the domain of the theorem: x (K, n, 2), y (K, n), a (K, n, 2), one sample a member.

    The attributes are the rank of age in the population and whether the group is "a".
    """

    x: Tensor
    y: Tensor
    a: Tensor


def draw(n: int, seeds: Sequence[int]) -> Rows:
    """Draw one sample of n rows for each seed, longer rows of x cut to the radius."""
    samples = [make_synthetic(n, n_features=2, random_state=seed) for seed in seeds]
    x = torch.tensor(np.stack([sample.X.to_numpy() for sample in samples]), dtype=torch.float32)
    a = [
        np.stack([ndtr(sample.A["age"].to_numpy()), sample.A["group"].to_numpy() == "a"], axis=1)
        for sample in samples
    ]
    return Rows(
        x=x * (RADIUS / x.norm(dim=-1, keepdim=True)).clamp(max=1),
        y=torch.tensor(np.stack([sample.y.to_numpy() for sample in samples]), dtype=torch.float32),
        a=torch.tensor(np.stack(a), dtype=torch.float32),
    )


def task_loss(scores: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy (K,) of logits (K, n)."""
    return (softplus(scores) - y * scores).mean(-1)


def penalties(game: Game, critics: Sequence[Tensor], scores: Tensor, a: Tensor) -> Tensor:
    """R_F (K, STARTS) by every critic of a predictor, 0 for a guess.

    Every row's attribute goes to the next row. scores: (K, n). a: (1 or K, n, l).
    """
    seen = scores.repeat_interleave(STARTS, 0)
    own = a if len(a) == 1 else a.repeat_interleave(STARTS, 0)
    real = critic_outputs(game, critics, seen, own)
    resampled = critic_outputs(game, critics, seen, own.roll(1, -2))
    value: Tensor = (logsigmoid(real) + logsigmoid(-resampled)).mean(-1) + 2 * math.log(2)
    return value.view(-1, STARTS)


def _start(network: NetworkClass, members: int, starts: int) -> list[Tensor]:
    """Random weights (members * starts, out, in), the same ``starts`` networks for each member.

    Members then differ by their rows alone, not by which of the critic's local maxima they are in.
    """
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(starts, *shape, generator=generator) / shape[1] ** 0.5).repeat(members, 1, 1)
        for shape in network.shapes
    ]


@torch.no_grad()
def _into_balls(weights: Sequence[Tensor], norms: Sequence[float]) -> None:
    for stack, norm in zip(weights, norms, strict=True):
        length = stack.flatten(1).norm(dim=1).clamp_min(1e-12)
        stack *= (norm / length).clamp(max=1)[:, None, None]


class _Player:
    """Weights of K members of a class, moved by Adam with a falling rate and kept in the class."""

    def __init__(self, network: NetworkClass, members: int, *, moves: int, starts: int = 1) -> None:
        self._norms = network.norms
        self.weights = [start.requires_grad_() for start in _start(network, members, starts)]
        _into_balls(self.weights, self._norms)
        self._optimizer = torch.optim.Adam(self.weights, lr=0.03)
        self._rate = torch.optim.lr_scheduler.CosineAnnealingLR(self._optimizer, moves)

    def minimize(self, loss: Tensor) -> None:
        gradients = torch.autograd.grad(loss.sum(), self.weights)
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.grad = gradient
        self._optimizer.step()
        self._rate.step()
        _into_balls(self.weights, self._norms)


def train(game: Game, rows: Rows, *, strength: float, iterations: int) -> list[Tensor]:
    """Play the game on every member's own rows; returns the predictors' weights."""
    members = len(rows.x)
    predictor = _Player(game.predictor, members, moves=iterations)
    moves = iterations * CRITIC_STEPS
    critics = _Player(game.critic, members, moves=moves, starts=STARTS)
    for _ in range(iterations):
        with torch.no_grad():
            seen = game_scores(game, predictor.weights, rows.x)
        for _ in range(CRITIC_STEPS if strength else 0):
            critics.minimize(-penalties(game, critics.weights, seen, rows.a))
        scores = game_scores(game, predictor.weights, rows.x)
        loss = (1 - strength) * task_loss(scores, rows.y)
        if strength:
            loss = loss + strength * penalties(game, critics.weights, scores, rows.a).amax(1)
        predictor.minimize(loss)
    return [weight.detach() for weight in predictor.weights]


def population(
    game: Game, predictors: Sequence[Tensor], *, n: int, iterations: int, seed: int
) -> tuple[Tensor, Tensor]:
    """R and R_F (K,) of predictors: critics learn on n fresh rows and are read on n others."""
    learn, read = draw(n, [seed]), draw(n, [seed + 1])
    critics = _Player(game.critic, len(predictors[0]), moves=iterations, starts=STARTS)
    with torch.no_grad():
        scores = game_scores(game, predictors, learn.x)
    for _ in range(iterations):
        critics.minimize(-penalties(game, critics.weights, scores, learn.a))
    with torch.no_grad():
        scores = game_scores(game, predictors, read.x)
        found = penalties(game, critics.weights, scores, read.a).amax(1)
        return task_loss(scores, read.y), found


def errors(
    game: Game,
    *,
    sizes: Sequence[int],
    repeats: int,
    strength: float,
    reference_rows: int,
    fresh_rows: int,
    iterations: int,
    critic_iterations: int,
) -> dict[str, Any]:
    """Estimation errors by size, each above the least objective that any training found."""
    found = []
    for number, n in enumerate((*sizes, reference_rows)):
        seeds = range(1000 * (number + 1), 1000 * (number + 1) + (repeats if n in sizes else 1))
        rows = draw(n, seeds)
        found.append(train(game, rows, strength=strength, iterations=iterations))
        print(f"trained on {n} rows", flush=True)
    values = [
        population(game, weights, n=fresh_rows, iterations=critic_iterations, seed=77)
        for weights in found
    ]
    task, unfairness = (torch.cat(parts) for parts in zip(*values, strict=True))
    objective = (1 - strength) * task + strength * unfairness
    above = (objective - objective.min())[: len(sizes) * repeats].view(len(sizes), repeats)
    return {
        "least_objective": float(objective.min()),
        "reference_above_least": float(objective[-1] - objective.min()),
        "errors": {str(n): values.tolist() for n, values in zip(sizes, above, strict=True)},
    }


def bounds(n: int) -> dict[str, Any]:
    """All bounds at n rows, term by term where they are ours."""
    ours = estimation_bound(GAME, n=n, strength=STRENGTH, delta=DELTA)
    printed = estimation_bound(GAME, n=n, strength=STRENGTH, delta=DELTA, version="printed")
    rows = draw(n, [n])
    below = estimate_complexities(GAME, rows.x[0], rows.a[0], **ASCENT)
    estimated = estimation_bound(GAME, n=n, strength=STRENGTH, delta=DELTA, complexities=below)
    return {
        "n": n,
        "corrected": ours.total,
        "loss_complexity": ours.loss_complexity,
        "loss_confidence": ours.loss_confidence,
        "penalty_complexity": ours.penalty_complexity,
        "penalty_confidence": ours.penalty_confidence,
        "printed": printed.total,
        "largest_possible": ours.largest_possible,
        "rows_needed": ours.rows_needed,
        "rows_needed_printed": printed.rows_needed,
        "closed_form": {"predictor": ours.complexities.predictor, "pair": ours.complexities.pair},
        "estimated": {
            "predictor": below.predictor,
            "predictor_error": below.predictor_error,
            "pair": below.pair,
            "pair_error": below.pair_error,
            "total": estimated.total,
        },
    }


def paper_sized(n: int = 10_000, iterations: int = 300, batch: int = 300) -> dict[str, Any]:
    """The bound around networks of the paper's sizes, trained on the same kind of rows."""
    rows = draw(n, [0])
    hidden, critic_hidden = (64, 64, 64), (64, 64)
    predictor = StackedMLP(
        2, hidden, 1, generators=generators([0], "predictor"), normalization="none"
    )
    optimizer = torch.optim.Adam(predictor.parameters(), lr=1e-3)
    fairness = SBPPenalty(hidden=critic_hidden)
    order = torch.Generator().manual_seed(0)
    for _ in range(iterations):
        some = torch.randint(n, (batch,), generator=order)
        score = predictor(rows.x[:, some]).squeeze(-1)
        loss = (1 - STRENGTH) * task_loss(score, rows.y[:, some]).squeeze()
        loss = loss + STRENGTH * fairness(score[0], rows.a[0, some])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    h, f = fold(predictor), fold(fairness)
    game = Game(NetworkClass.around(h), NetworkClass.around(f), radius=RADIUS)
    bound = estimation_bound(game, n=n, strength=STRENGTH, delta=DELTA)
    largest = float(h(rows.x[0]).detach().abs().max())
    return {
        "n": n,
        "hidden": list(hidden),
        "critic_hidden": list(critic_hidden),
        "frobenius_norms": list(h.frobenius_norms),
        "spectral_norms": list(h.spectral_norms),
        "lipschitz_of_the_fitted": h.lipschitz,
        "lipschitz_of_the_class": game.predictor.lipschitz,
        "largest_score_seen": largest,
        "score_bound": game.score_bound,
        "critic_bound": game.critic_bound,
        "complexity_of_the_pair": closed_form_complexities(game, n).pair,
        "corrected": bound.total,
        "largest_possible": bound.largest_possible,
        "rows_needed": bound.rows_needed,
    }


def main() -> None:
    """Measure, print and write the results."""
    measured = errors(
        GAME,
        sizes=SIZES,
        repeats=REPEATS,
        strength=STRENGTH,
        reference_rows=REFERENCE_ROWS,
        fresh_rows=FRESH_ROWS,
        iterations=ITERATIONS,
        critic_iterations=CRITIC_ITERATIONS,
    )
    by_size = []
    for n in SIZES:
        by_size.append(bounds(n))
        largest = max(measured["errors"][str(n)])
        print(f"n={n}: error {largest:.2g} at most, bound {by_size[-1]['corrected']:.3g}")
    document = {
        "device": environment.device_name("cpu"),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": version("numpy"),
        },
        "settings": {
            "data": "make_synthetic(n, n_features=2), rows cut to the radius",
            "attributes": "population rank of age, whether the group is a",
            "radius": RADIUS,
            "predictor_norms": list(GAME.predictor.norms),
            "critic_norms": list(GAME.critic.norms),
            "critic_widths": list(GAME.critic.widths),
            "strength": STRENGTH,
            "delta": DELTA,
            "repeats": REPEATS,
            "reference_rows": REFERENCE_ROWS,
            "fresh_rows": FRESH_ROWS,
            "iterations": ITERATIONS,
            "critic_steps": CRITIC_STEPS,
            "critic_starts": STARTS,
            "critic_iterations": CRITIC_ITERATIONS,
            "ascent": ASCENT,
        },
        "score_bound": GAME.score_bound,
        "critic_bound": GAME.critic_bound,
        **measured,
        "bounds": by_size,
        "paper_sized": paper_sized(),
    }
    text = json.dumps(document, indent=2) + "\n"
    (RESULTS / "theory.json").write_text(text, encoding="utf-8")
