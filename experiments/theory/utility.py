"""Corollary 1: how much utility the penalty and the sample can cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from equipoise.errors import InputError
from experiments.theory.estimation import EstimationBound


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
