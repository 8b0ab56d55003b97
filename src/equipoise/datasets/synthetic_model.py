r"""The probability model behind the synthetic family.

.. code-block:: text

    A = (age, group) -> circumstance Q -> outcome Y -> evidence M

    age ~ N(0, 1); group in {a, b, c} with probabilities 0.5, 0.3, 0.2
    B = 0.6 age + 0.8 shift(group), shift standardized: E B = 0, Var B = 1
    Q = u B + sqrt(1 - u^2) noise, so E Q = 0, Var Q = 1 for every unfairness u
    classification: logit P(Y = 1 | Q) = 1.2 Q           M = 1.5 (Y - 1/2) + N(0, 1)
    regression:     Y = 0.5 Q + N(0, 0.75), Var Y = 1    M = 1.5 Y + N(0, 1)

The columns of X are p/2 evidence columns with sum sqrt(p/2) M and p/2 proxy columns with sum
sqrt(p/2) Q; everything else in them is noise. So M and Q hold all that X knows, evidence measures
the outcome of everybody alike (M is independent of A given Y), and only Q carries A.

This is statistical discrimination (Phelps 1972; Arrow 1973): the best predictor uses Q as prior
knowledge, so that two persons with equal evidence get different scores by their circumstance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from equipoise.datasets.description import Task

Floats = NDArray[np.float64]

GROUPS: Final = ("a", "b", "c")
GROUP_PROBABILITIES: Final = np.array([0.5, 0.3, 0.2])
_RAW_SHIFTS: Final = np.array([0.8, -0.4, -1.4])
GROUP_SHIFTS: Final = _RAW_SHIFTS / math.sqrt(float(GROUP_PROBABILITIES @ _RAW_SHIFTS**2))
AGE_SHARE: Final = 0.6
GROUP_SHARE: Final = 0.8
EVIDENCE_STRENGTH: Final = 1.5
LOGIT_SLOPE: Final = 1.2
OUTCOME_SLOPE: Final = 0.5
OUTCOME_NOISE_VARIANCE: Final = 1.0 - OUTCOME_SLOPE**2
LARGEST_UNFAIRNESS: Final = 0.95


@dataclass(frozen=True)
class SyntheticModel:
    """The model at one ``unfairness`` u; conditional laws as functions of circumstance q."""

    task: Task
    unfairness: float

    @property
    def plain_coefficients(self) -> tuple[float, float]:
        """Weights of (M, Q) in the best score: the logit of P(Y = 1 | X), or E(Y | X).

        Both are exactly linear, whatever the law of Q. Classification: the log likelihood ratio of
        M is 1.5 M, the prior logit 1.2 Q. Regression: normal prior given Q, normal evidence.
        """
        if self.task == "classification":
            return EVIDENCE_STRENGTH, LOGIT_SLOPE
        precision = 1.0 / OUTCOME_NOISE_VARIANCE + EVIDENCE_STRENGTH**2
        of_circumstance = OUTCOME_SLOPE / OUTCOME_NOISE_VARIANCE / precision
        return EVIDENCE_STRENGTH / precision, of_circumstance

    def evidence_mean(self, y: Floats) -> Floats:
        """Return E(M | Y = y)."""
        return EVIDENCE_STRENGTH * (y - 0.5 if self.task == "classification" else y)

    def outcome_density(self, y: Floats, q: Floats) -> Floats:
        """Return p(y | q): probability of y in {0, 1}, or density; arrays broadcast."""
        if self.task == "classification":
            return np.asarray(expit(LOGIT_SLOPE * q * (2.0 * y - 1.0)), dtype=np.float64)
        spread = math.sqrt(OUTCOME_NOISE_VARIANCE)
        return np.asarray(norm.pdf(y, OUTCOME_SLOPE * q, spread), dtype=np.float64)

    def group_density(self, q: Floats) -> Floats:
        """Return p(q | group) of shape (3, len(q)): normal with the variance left within groups."""
        means = self.unfairness * GROUP_SHARE * GROUP_SHIFTS[:, None]
        return np.asarray(norm.pdf(q, means, math.sqrt(self._variance_in_group)), dtype=np.float64)

    def density(self, q: Floats) -> Floats:
        """Return p(q), shape (len(q),)."""
        return np.asarray(GROUP_PROBABILITIES @ self.group_density(q), dtype=np.float64)

    def density_below_age(self, q: Floats, age: Floats) -> Floats:
        """Return p(q | age <= a) of shape (len(age), len(q)).

        Given group and q, age is normal, so each term is a normal density times a normal cdf.
        """
        slope = self.unfairness * AGE_SHARE / self._variance_in_group
        means = self.unfairness * GROUP_SHARE * GROUP_SHIFTS[:, None]
        centre = slope * (q - means)
        spread = math.sqrt(1.0 - slope * self.unfairness * AGE_SHARE)
        below = norm.cdf((age[:, None, None] - centre) / spread)
        joint = np.einsum("g,gq,agq->aq", GROUP_PROBABILITIES, self.group_density(q), below)
        return np.asarray(joint / norm.cdf(age)[:, None], dtype=np.float64)

    @property
    def _variance_in_group(self) -> float:
        return 1.0 - (GROUP_SHARE * self.unfairness) ** 2
