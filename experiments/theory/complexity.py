r"""Rademacher complexities of the predictors, and of critics fed by predictors, in closed form.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from equipoise.errors import InputError
from experiments.theory.classes import Game


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
