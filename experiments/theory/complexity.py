"""Rademacher complexities of the predictors, and of critics fed by predictors.

R = E sup | (1/n) sum_i eps_i g(Z_i) | over the class, with independent signs eps_i (the paper's
definition). Both classes contain -g with every g, so the absolute value changes nothing.

Peeling a ReLU layer off inside an exponential costs a factor 2 there, which becomes a square root
of the number of layers outside (Golowich, Rakhlin and Shamir 2018, "Size-independent sample
complexity of neural networks", theorem 1 and lemma 1; the last layer has no ReLU and costs none):

    R(H) <= (1 + sqrt(2 log 2 r)) b / sqrt(n)

for predictors of r hidden layers with outputs in [-b, b]. A critic's attribute enters behind the
predictor; but it is not negative, so a network may carry it through every ReLU unchanged, and the
pair is a plain network of r + q hidden layers whose layers j <= r are block diagonal, (V_j, s_j I).
With the scales s_j that make the product of Frobenius norms least this gives

    R(D) <= (1 + sqrt(2 log 2 (r + q))) prod_k M_w(k) (b^(2/(r+1)) + k)^((r+1)/2) / sqrt(n)

where k counts the columns carried: the attributes and, if the critic has biases, the constant.

`estimate_complexities` estimates them from below: for drawn signs it looks for the supremum by
gradient ascent from random starts. What it finds is attained by some network, so it is at most the
supremum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.errors import InputError
from experiments.theory.networks import (
    Game,
    NetworkClass,
    check_rows,
    critic_outputs,
    game_scores,
    on_spheres,
)


@dataclass(frozen=True)
class Complexities:
    """Rademacher complexities at n rows: of the predictors, and of critic and predictor as a pair.

    ``is_upper_bound`` tells closed forms from estimates, which are too small where the search for
    the supremum falls short; the errors are standard errors of such an estimate over its signs.
    """

    n: int
    predictor: float
    pair: float
    is_upper_bound: bool
    predictor_error: float = 0.0
    pair_error: float = 0.0


def closed_form_complexities(game: Game, n: int) -> Complexities:
    """Return upper bounds of both complexities from the norms alone.

    Examples
    --------
    >>> from experiments.theory import NetworkClass
    >>> game = Game(NetworkClass((1, 1), (2.0,)), NetworkClass((2, 1), (3.0,)), radius=1.0)
    >>> found = closed_form_complexities(game, n=9)
    >>> round(found.predictor, 4), round(found.pair, 4)  # 2 / 3 and 3 * sqrt(2**2 + 1) / 3
    (0.6667, 2.2361)
    """
    if n < 1:
        raise InputError(f"n must be at least 1, got {n}")
    layers, critic_layers = game.predictor.activations, game.critic.activations
    score = game.score_bound
    carried = game.attribute_columns + int(game.critic.has_constant)
    joined: float = (score ** (2 / (layers + 1)) + carried) ** ((layers + 1) / 2)
    root = math.sqrt(n)
    return Complexities(
        n=n,
        predictor=_cost_of_peeling(layers) * score / root,
        pair=_cost_of_peeling(layers + critic_layers) * game.critic.lipschitz * joined / root,
        is_upper_bound=True,
    )


def _cost_of_peeling(activations: int) -> float:
    return 1 + math.sqrt(2 * math.log(2) * activations)


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
