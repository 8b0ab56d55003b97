"""Theorem 1 and Corollary 1: how far training can end from the best, and what utility that costs.

`estimation_bound` has the constants that we can prove ("corrected") and those that the paper prints
("printed"); docs/theory.md derives the former.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from scipy.special import expit

from equipoise.errors import InputError
from experiments.theory.complexity import Complexities, closed_form_complexities
from experiments.theory.networks import Game


@dataclass(frozen=True)
class EstimationBound:
    """A bound on d(h_hat) - inf d, term by term, for d = (1 - strength) R + strength R_F.

    The four terms add up to ``total``; complexity terms do not depend on delta, confidence terms
    are what log(1/delta) adds. The bound holds with probability ``probability`` at least, for
    predictors and critics that minimize and maximize exactly.
    """

    game: Game
    n: int
    strength: float
    delta: float
    loss: Loss
    version: Version
    constants: Constants
    complexities: Complexities

    @property
    def loss_complexity(self) -> float:
        """What the richness of the predictors adds to the task part."""
        own = self.constants.loss_complexity * self.complexities.predictor
        return (1 - self.strength) * (own + self.constants.loss_offset / math.sqrt(self.n))

    @property
    def loss_confidence(self) -> float:
        """What log(1/delta) adds to the task part."""
        return (1 - self.strength) * self.constants.loss_confidence * self._deviation

    @property
    def penalty_complexity(self) -> float:
        """What the richness of critics and predictors adds to the penalty part."""
        if self.strength == 0:
            return 0.0
        return self.strength * self.constants.pair_complexity * self.complexities.pair

    @property
    def penalty_confidence(self) -> float:
        """What log(1/delta) adds to the penalty part."""
        if self.strength == 0:
            return 0.0
        return self.strength * self.constants.pair_confidence * self._deviation

    @property
    def total(self) -> float:
        """The bound."""
        task = self.loss_complexity + self.loss_confidence
        return task + self.penalty_complexity + self.penalty_confidence

    @property
    def probability(self) -> float:
        """Probability with which the bound holds, at least."""
        plain, all_events = self.constants.plain_events, self.constants.events
        return 1 - (all_events if self.strength else plain) * self.delta

    @property
    def largest_possible(self) -> float:
        """What the error cannot exceed anyway: a bound above this says nothing.

        A loss lies in an interval, and R_F (0 at independence) between 0 and twice
        log sigmoid(c) + log 2, since a critic that guesses is in the class.
        """
        surest = math.log(2) - math.log1p(math.exp(-self.game.critic_bound))
        return (1 - self.strength) * loss_range(self.game, self.loss) + 2 * self.strength * surest

    def rows_for(self, error: float) -> float:
        """Return the number of rows from which on the bound is below ``error``.

        Every term falls like one over the root of the number of rows.
        """
        return self.n * (self.total / error) ** 2

    @property
    def rows_needed(self) -> float:
        """Number of rows from which on the bound is below ``largest_possible``."""
        return self.rows_for(self.largest_possible)

    @property
    def _deviation(self) -> float:
        return math.sqrt(math.log(1 / self.delta) / (2 * self.n))

    def __str__(self) -> str:
        """Explain the bound in words."""
        kind = "upper bounds from norms" if self.complexities.is_upper_bound else "estimates"
        lines = [
            f"Estimation error of {1 - self.strength:g} R + {self.strength:g} R_F at n = {self.n} "
            f"({self.version} constants):",
            f"at most {self.total:.4g} with probability {self.probability:.4g} or more.",
            f"  {self.loss_complexity:<10.4g} task, complexity: {self.complexities.predictor:.4g} "
            "for the predictors",
            f"  {self.loss_confidence:<10.4g} task, confidence: log(1/{self.delta:g})",
            f"  {self.penalty_complexity:<10.4g} penalty, complexity: "
            f"{self.complexities.pair:.4g} for critics on predictors",
            f"  {self.penalty_confidence:<10.4g} penalty, confidence: log(1/{self.delta:g})",
            f"Complexities are {kind}; scores lie within {self.game.score_bound:.4g} of 0, critic "
            f"outputs within {self.game.critic_bound:.4g}.",
        ]
        if not self.complexities.is_upper_bound:
            lines.append("Estimates are from below, so this sum is no bound.")
        if self.total >= self.largest_possible:
            lines.append(
                f"The error cannot exceed {self.largest_possible:.4g} anyway: this says nothing "
                f"below {_rows(self.rows_needed)} rows."
            )
        return "\n".join(lines)


def _rows(number: float) -> str:
    return f"{number:,.0f}" if number < 1e6 else f"{number:.1e}"


def estimation_bound(
    game: Game,
    *,
    n: int,
    strength: float,
    delta: float = 0.05,
    loss: Loss = "log",
    version: Version = "corrected",
    complexities: Complexities | None = None,
) -> EstimationBound:
    """Bound the estimation error, Theorem 1 of Sohn, Song and Lin (2024).

    Parameters
    ----------
    game : Game
        Classes of predictors and critics, and the domain.
    n : int
        Number of training rows.
    strength : float
        Weight of the penalty in [0, 1), as everywhere; the paper's lambda is
        strength / (1 - strength), and its objective this one over 1 - strength.
    delta : float
        Probability with which one of the bound's events may fail, in (0, 1/3).
    loss : "log" or "absolute"
        Cross-entropy of logits for y in {0, 1}, or absolute error for y in [0, 1].
    version : "corrected" or "printed"
        Our constants, for attributes that were permuted (each row's used once, none by itself), or
        the paper's, for attributes drawn anew and independently.
    complexities : Complexities, optional
        Estimates for the same n in place of the closed forms; the sum is then no longer a bound.

    Examples
    --------
    >>> from experiments.theory import Game, NetworkClass
    >>> game = Game(NetworkClass((1, 1), (2.0,)), NetworkClass((2, 1), (1.0,)), radius=1.0)
    >>> bound = estimation_bound(game, n=10_000, strength=0.5, delta=0.05)
    >>> round(bound.total, 3), round(bound.largest_possible, 3), bound.probability
    (0.235, 1.592, 0.9)
    """
    if n < 1:
        raise InputError(f"n must be at least 1, got {n}")
    if not 0 <= strength < 1:
        raise InputError(f"strength must lie in [0, 1), got {strength}; 0 is plain training")
    if not 0 < delta < 1 / 3:
        raise InputError(f"delta must lie in (0, 1/3), got {delta}; three events may fail")
    if complexities is None:
        complexities = closed_form_complexities(game, n)
    elif complexities.n != n:
        raise InputError(f"complexities must be those at n={n} rows, got n={complexities.n}")
    return EstimationBound(
        game=game,
        n=n,
        strength=strength,
        delta=delta,
        loss=loss,
        version=version,
        constants=constants_of(game, loss=loss, version=version),
        complexities=complexities,
    )


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


def loss_gradient(game: Game, loss: Loss) -> float:
    """Return the largest gradient of the loss in the score, in size."""
    return 1.0 if loss == "absolute" else float(expit(game.score_bound))


def _corrected(game: Game, loss: Loss) -> Constants:
    gradient = float(expit(game.critic_bound))
    return Constants(
        # Only one of the two deviations is over all h, and contraction without absolute values
        # costs nothing beside the gradient.
        loss_complexity=2 * loss_gradient(game, loss),
        loss_offset=0.0,
        loss_confidence=2 * loss_range(game, loss),
        # Both are over all critics. Resampled pairs fall into at most three independent parts.
        pair_complexity=4 * (1 + math.sqrt(3)) * gradient,
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
        # 4 R(L), where R(L) <= E |mean of eps L(y, 0)| + 2 gradient R(H); absolute values cost 2.
        loss_complexity=4 * 2 * loss_gradient(game, loss),
        loss_offset=4 * (math.log(2) if loss == "log" else 1.0),
        loss_confidence=2 * row,
        pair_complexity=2 * 2 * both,
        pair_confidence=2 * both * game.critic.lipschitz * longest,
        events=3,
        plain_events=1,
    )


def _one_plus_exp(exponent: float) -> float:
    return 1 + math.exp(exponent) if exponent < _LARGEST_EXPONENT else math.inf


@dataclass(frozen=True)
class UtilityBound:
    """A bound on R(h_hat) - R(h_0), h_0 being the best predictor without any penalty.

    ``plain_penalty`` is R_F of h_0 and ``trained_penalty`` R_F of h_hat, both in the population and
    0 at independence.
    """

    estimation: EstimationBound
    plain_penalty: float
    trained_penalty: float

    @property
    def sampling(self) -> float:
        """What the sample costs: all of Theorem 1, over the weight of the task."""
        return self.estimation.total / (1 - self.estimation.strength)

    @property
    def price(self) -> float:
        """What the penalty costs: the paper's lambda times how much it is lowered."""
        strength = self.estimation.strength
        return strength / (1 - strength) * (self.plain_penalty - self.trained_penalty)

    @property
    def total(self) -> float:
        """The bound, with the probability of the estimation bound."""
        return self.sampling + self.price

    @property
    def printed_total(self) -> float:
        """The sum that Corollary 1 prints, which leaves out the critics' part of the sampling.

        It is no bound in general, see docs/theory.md.
        """
        task = self.estimation.loss_complexity + self.estimation.loss_confidence
        return task / (1 - self.estimation.strength) + self.price

    def __str__(self) -> str:
        """Explain the bound in words."""
        return (
            f"Loss of utility at strength {self.estimation.strength:g}: at most {self.total:.4g} "
            f"with probability {self.estimation.probability:.4g} or more.\n"
            f"  {self.sampling:<10.4g} sampling: the estimation error over the weight of the task\n"
            f"  {self.price:<10.4g} price of fairness: R_F lowered from {self.plain_penalty:.4g} "
            f"to {self.trained_penalty:.4g}"
        )


def utility_bound(
    estimation: EstimationBound, *, plain_penalty: float, trained_penalty: float = 0.0
) -> UtilityBound:
    """Bound the loss of utility, Corollary 1 of Sohn, Song and Lin (2024), as it can be proved.

    Parameters
    ----------
    estimation : EstimationBound
        Theorem 1 for the same training.
    plain_penalty, trained_penalty : float
        R_F in [0, 2 log 2] of the best plain predictor and of the trained one, such as a critic
        finds on many fresh rows. ``trained_penalty=0`` is always allowed: it gives a larger bound.

    Examples
    --------
    >>> from experiments.theory import Game, NetworkClass, estimation_bound
    >>> game = Game(NetworkClass((1, 1), (2.0,)), NetworkClass((2, 1), (1.0,)), radius=1.0)
    >>> estimation = estimation_bound(game, n=10_000, strength=0.5)
    >>> bound = utility_bound(estimation, plain_penalty=0.3, trained_penalty=0.1)
    >>> round(bound.sampling, 3), round(bound.price, 3)
    (0.469, 0.2)
    """
    for name, value in {"plain_penalty": plain_penalty, "trained_penalty": trained_penalty}.items():
        if not 0 <= value <= 2 * math.log(2):
            raise InputError(
                f"{name} must lie in [0, 2 log 2], 0 being independence, got {value}; the paper's "
                "R_F is 2 log 2 lower"
            )
    return UtilityBound(estimation, plain_penalty, trained_penalty)
