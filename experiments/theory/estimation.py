"""Theorem 1: how far the objective of the trained predictor can be from the best in its class."""

from __future__ import annotations

import math
from dataclasses import dataclass

from equipoise.errors import InputError
from experiments.theory.classes import Game
from experiments.theory.complexity import Complexities, closed_form_complexities
from experiments.theory.constants import Constants, Loss, Version, constants_of, loss_range


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
        """What the error can not exceed anyway: a bound above this says nothing.

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
                f"The error can not exceed {self.largest_possible:.4g} anyway: this says nothing "
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
