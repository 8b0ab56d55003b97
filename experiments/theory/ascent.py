"""Rademacher complexities estimated from below: random signs, and ascent to the supremum.

For drawn signs the supremum over all networks of a class is looked for by gradient ascent from
random starts; all draws and starts climb together, stacked along the first axis. What is found is
attained by some network, so it is at most the supremum: the average over draws is an estimate from
below, with the standard error of a mean on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from equipoise.errors import InputError
from experiments.theory.classes import Game, NetworkClass
from experiments.theory.complexity import Complexities
from experiments.theory.stacks import check_rows, critic_outputs, game_scores, on_spheres

_LEARNING_RATE = 0.05


def estimate_complexities(
    game: Game,
    x: Tensor,
    attributes: Tensor,
    *,
    draws: int = 20,
    starts: int = 2,
    steps: int = 200,
    random_state: int = 0,
) -> Complexities:
    """Estimate both complexities from below on given rows, in double precision.

    Parameters
    ----------
    game : Game
        The classes; widths count here, too.
    x : Tensor (n, p)
        Rows of features, of norm ``game.radius`` at most.
    attributes : Tensor (n, l)
        Sensitive attributes in [0, 1].
    draws, starts, steps : int
        Sign vectors, random starts for each, and steps of ascent.
    random_state : int
        Seed of signs and starts.
    """
    x, attributes = check_rows(game, x, attributes)
    if draws < 2 or starts < 1 or steps < 1:
        raise InputError(
            "draws must be at least 2, starts and steps at least 1, got "
            f"draws={draws}, starts={starts}, steps={steps}"
        )
    generator = torch.Generator().manual_seed(random_state)
    coins = torch.randint(0, 2, (draws, len(x)), generator=generator)
    signs = (2.0 * coins.double() - 1).repeat_interleave(starts, 0)

    def start(network: NetworkClass) -> list[Tensor]:
        return [
            torch.randn(draws * starts, *shape, generator=generator, dtype=torch.double)
            for shape in network.shapes
        ]

    predictor, critic = start(game.predictor), start(game.critic)
    split = len(predictor)
    alone = _climb(
        lambda weights: game_scores(game, weights, x), predictor, signs, steps, game.predictor.norms
    )
    pair = _climb(
        lambda weights: critic_outputs(
            game, weights[split:], game_scores(game, weights[:split], x), attributes
        ),
        [*predictor, *critic],
        signs,
        steps,
        (*game.predictor.norms, *game.critic.norms),
    )
    best = [found.view(draws, starts).amax(1) for found in (alone, pair)]
    errors = [float(found.std() / math.sqrt(draws)) for found in best]
    return Complexities(
        n=len(x),
        predictor=float(best[0].mean()),
        pair=float(best[1].mean()),
        is_upper_bound=False,
        predictor_error=errors[0],
        pair_error=errors[1],
    )


def _climb(
    outputs: Callable[[list[Tensor]], Tensor],
    starts: Sequence[Tensor],
    signs: Tensor,
    steps: int,
    norms: Sequence[float],
) -> Tensor:
    """Largest |mean of signs times outputs| met on the way, (K,)."""
    directions = [start.clone().requires_grad_() for start in starts]
    optimizer = torch.optim.Adam(directions, lr=_LEARNING_RATE)
    best = torch.zeros(len(signs), dtype=torch.double)
    for _ in range(steps):
        # A network is linear in the size of each layer, so the supremum is on the spheres.
        value = (signs * outputs(on_spheres(directions, norms))).mean(1).abs()
        best = torch.maximum(best, value.detach())
        optimizer.zero_grad()
        (-value.sum()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return best
