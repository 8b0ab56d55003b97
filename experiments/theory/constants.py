r"""What multiplies complexities and confidence in Theorem 1: as printed, and as we find it.

Scores lie in [-b, b], critic outputs f in [-c, c], D = sigmoid(f); sigmoid(f) then lies between
nu_0 = sigmoid(-c) and nu_1 = sigmoid(c), and the same with gamma for the score. docs/theory.md
derives the second column line by line.

===================== ============================================== ========================
what                  printed                                        ours
===================== ============================================== ========================
log loss, one row     max(2 gamma_1 - 1, 2 B prod M_v) / gamma_01    b
absolute, one row     1 + 2 B prod M_v                               1 + b
log D, one pair       prod M_w sqrt(l + (2 B prod M_v)^2) / nu_0     c
pairs a row is in     1 real, 1 resampled                            1 real, 2 resampled
slope of log D        1 / nu_0                                       sigmoid(c)
resampled complexity  1                                              sqrt(3)
===================== ============================================== ========================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from scipy.special import expit

from equipoise.errors import InputError
from experiments.theory.classes import Game

Loss = Literal["log", "absolute"]
Version = Literal["corrected", "printed"]

#: Beyond this the exponential leaves floating point; the printed constants are infinite there.
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class Constants:
    """Factors of the bound on (1 - strength) R + strength R_F, before the two weights.

    The bound of the task part is ``loss_complexity`` R(H) + ``loss_offset`` / sqrt(n) +
    ``loss_confidence`` sqrt(log(1/delta) / (2 n)), that of the penalty ``pair_complexity`` R(D) +
    ``pair_confidence`` sqrt(log(1/delta) / (2 n)). Each event of ``events`` fails with probability
    delta at most; without the penalty there are ``plain_events``.
    """

    loss_complexity: float
    loss_offset: float
    loss_confidence: float
    pair_complexity: float
    pair_confidence: float
    events: int
    plain_events: int


def constants_of(game: Game, *, loss: Loss, version: Version) -> Constants:
    """Return the factors for a class of predictors and critics."""
    if loss not in get_args(Loss):
        raise InputError(f"loss must be 'log' or 'absolute', got {loss!r}")
    if version not in get_args(Version):
        raise InputError(f"version must be 'corrected' or 'printed', got {version!r}")
    return (_corrected if version == "corrected" else _printed)(game, loss)


def loss_range(game: Game, loss: Loss) -> float:
    """Return how far two values of the loss can be apart.

    log(1 + exp(b)) - log(1 + exp(-b)) is b; |y - h| with y in [0, 1] lies in [0, 1 + b].
    """
    return game.score_bound + (1 if loss == "absolute" else 0)


def loss_slope(game: Game, loss: Loss) -> float:
    """Return the steepest slope of the loss in the score."""
    return 1.0 if loss == "absolute" else float(expit(game.score_bound))


def _corrected(game: Game, loss: Loss) -> Constants:
    slope = float(expit(game.critic_bound))
    return Constants(
        # Only one of the two deviations is over all h, and contraction without absolute values
        # costs nothing beside the slope.
        loss_complexity=2 * loss_slope(game, loss),
        loss_offset=0.0,
        loss_confidence=2 * loss_range(game, loss),
        # Both are over all critics. Resampled pairs fall into at most three independent parts.
        pair_complexity=4 * (1 + math.sqrt(3)) * slope,
        # A row is in one real and in two resampled pairs.
        pair_confidence=2 * 3 * game.critic_bound,
        events=2,
        plain_events=2,
    )


def _printed(game: Game, loss: Loss) -> Constants:
    twice_score = 2 * game.predictor.lipschitz * game.radius
    if loss == "log":
        # 1 / gamma_01 = 1 + exp(b), and (2 gamma_1 - 1) = tanh(b / 2).
        row = _one_plus_exp(game.score_bound) * max(math.tanh(game.score_bound / 2), twice_score)
    else:
        row = 1 + twice_score
    # 1 / nu_0 + 1 / (1 - nu_1)
    both = 2 * _one_plus_exp(game.critic_bound)
    longest = math.hypot(math.sqrt(game.attribute_columns), twice_score)
    return Constants(
        # 4 R(L), where R(L) <= E |mean of eps L(y, 0)| + 2 slope R(H): absolute values cost the 2.
        loss_complexity=4 * 2 * loss_slope(game, loss),
        loss_offset=4 * (math.log(2) if loss == "log" else 1.0),
        loss_confidence=2 * row,
        pair_complexity=2 * 2 * both,
        pair_confidence=2 * both * game.critic.lipschitz * longest,
        events=3,
        plain_events=1,
    )


def _one_plus_exp(exponent: float) -> float:
    return 1 + math.exp(exponent) if exponent < _LARGEST_EXPONENT else math.inf
