"""What is known exactly about the synthetic family: dependence and utility of its best scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtr
from scipy.stats import norm

from equipoise.datasets.description import Task
from equipoise.datasets.synthetic_model import (
    AGE_SHARE,
    EVIDENCE_STRENGTH,
    LOGIT_SLOPE,
    OUTCOME_NOISE_VARIANCE,
    OUTCOME_SLOPE,
    SyntheticModel,
)
from equipoise.errors import InputError
from equipoise.notions import Notion

Floats = NDArray[np.float64]
Attribute = Literal["age", "group"]

_DECILES: Final = np.arange(1, 10) / 10
# The trapezoidal rule is exponentially accurate for these smooth densities, and 8 standard
# deviations leave out less than 1e-14.
_CIRCUMSTANCES: Final = np.linspace(-8.0, 8.0, 161)
_STEP: Final = float(_CIRCUMSTANCES[1] - _CIRCUMSTANCES[0])
_NODES_PER_SEGMENT: Final = 16
_SCORE_POINTS: Final = 241
_AUC_OF_EVIDENCE: Final = float(ndtr(EVIDENCE_STRENGTH / math.sqrt(2.0)))


@dataclass(frozen=True)
class SyntheticTruth:
    """Exact properties of the population a synthetic sample was drawn from.

    Three scores matter. The *plain* score is the best there is: logit of P(Y = 1 | X), or
    E(Y | X). The best *fair* score of each notion has no dependence at all: independence is
    reached by the rank of the evidence among persons of like circumstance, separation by the
    evidence alone. Any score of X independent of A (given Y, for separation) is independent of Q,
    because the normal location family Q given A is complete; therefore none has a higher utility
    (for separation in regression: none that is linear in X). At unfairness 0 nothing depends on
    A, so there the plain score is fair as well, and better.
    """

    task: Task
    unfairness: float
    n_features: int

    def plain_score(self, X: ArrayLike) -> Floats:
        """Return the best score of each row of ``X`` (n, p): logit of P(Y = 1), or E Y."""
        of_evidence, of_circumstance = self._model.plain_coefficients
        evidence, circumstance = self._summaries(X)
        return of_evidence * evidence + of_circumstance * circumstance

    def fair_score(self, X: ArrayLike, notion: str) -> Floats:
        """Return the best score of each row of ``X`` (n, p) without any dependence on A.

        Regression: an estimate of y. Classification: any monotone function of it does as well.
        """
        evidence, circumstance = self._summaries(X)
        separation = Notion.parse(notion).conditions_on_outcome
        if self.task == "regression":
            if separation:
                return EVIDENCE_STRENGTH / (EVIDENCE_STRENGTH**2 + 1.0) * evidence
            surprise = evidence - EVIDENCE_STRENGTH * OUTCOME_SLOPE * circumstance
            signal = EVIDENCE_STRENGTH * OUTCOME_NOISE_VARIANCE
            return signal / (EVIDENCE_STRENGTH * signal + 1.0) * surprise
        if separation:
            return evidence
        half = EVIDENCE_STRENGTH / 2.0
        positive = expit(LOGIT_SLOPE * circumstance)
        rank = positive * ndtr(evidence - half) + (1.0 - positive) * ndtr(evidence + half)
        return np.asarray(rank, dtype=np.float64)

    @property
    def plain_utility(self) -> float:
        """AUC (classification) or R squared (regression) of the plain score."""
        if self.task == "regression":
            return 1.0 - 1.0 / (1.0 / OUTCOME_NOISE_VARIANCE + EVIDENCE_STRENGTH**2)
        rate = self._rate_given_circumstance
        weight = self._model.density(_CIRCUMSTANCES) * _STEP
        positive = weight * rate / (weight @ rate)
        negative = weight * (1.0 - rate) / (weight @ (1.0 - rate))
        # Difference of a positive's and a negative's score, both circumstances given: normal.
        lead = LOGIT_SLOPE * (_CIRCUMSTANCES[:, None] - _CIRCUMSTANCES) + EVIDENCE_STRENGTH**2
        return float(positive @ ndtr(lead / (EVIDENCE_STRENGTH * math.sqrt(2.0))) @ negative)

    def fair_utility(self, notion: str) -> float:
        """Return the AUC or R squared of ``fair_score``: what is achievable at zero dependence."""
        separation = Notion.parse(notion).conditions_on_outcome
        if self.task == "regression":
            noise = 1.0 if separation else OUTCOME_NOISE_VARIANCE
            signal = EVIDENCE_STRENGTH**2 * noise
            return noise * signal / (signal + 1.0)
        if separation:
            return _AUC_OF_EVIDENCE
        # The score is uniform given Q; E(score Y) gives its AUC by Mann-Whitney.
        rate = self._rate_given_circumstance
        weight = self._model.density(_CIRCUMSTANCES) * _STEP
        base = float(weight @ rate)
        expected = float(weight @ (rate * (rate / 2.0 + (1.0 - rate) * _AUC_OF_EVIDENCE)))
        return (expected - base**2 / 2.0) / (base * (1.0 - base))

    @property
    def base_rate(self) -> float:
        """Mean of Y: P(Y = 1), or 0 in regression."""
        if self.task == "regression":
            return 0.0
        weight = self._model.density(_CIRCUMSTANCES) * _STEP
        return float(weight @ self._rate_given_circumstance)

    @property
    def correlation_with_age(self) -> float:
        """Pearson correlation of the plain score and age."""
        of_evidence, of_circumstance = self._model.plain_coefficients
        if self.task == "regression":
            outcome_slope, outcome_circumstance, variance = OUTCOME_SLOPE, OUTCOME_SLOPE, 1.0
        else:
            weight = self._model.density(_CIRCUMSTANCES) * _STEP
            rate = self._rate_given_circumstance
            # Stein's lemma: cov(age, f(Q)) = cov(age, Q) E f'(Q), as (age, Q) is normal per group.
            outcome_slope = LOGIT_SLOPE * float(weight @ (rate * (1.0 - rate)))
            outcome_circumstance = float(weight @ (rate * _CIRCUMSTANCES))
            variance = self.base_rate * (1.0 - self.base_rate)
        reach = of_evidence * EVIDENCE_STRENGTH
        with_age = self.unfairness * AGE_SHARE * (reach * outcome_slope + of_circumstance)
        total = of_evidence**2 + reach**2 * variance + of_circumstance**2
        total += 2.0 * reach * of_circumstance * outcome_circumstance
        return with_age / math.sqrt(total)

    def ks_gsp(self, attribute: Attribute) -> float:
        """Return KS-GSP of the plain score, as Sohn, Song and Lin (2024) define it.

        group: sum over groups of max |P(score <= s | group) - P(score <= s)|. age: the mean over
        the nine deciles a of max |P(score <= s | age <= a) - P(score <= s)|.
        """
        gaps = self._gaps(attribute, self._cumulative[:, -1])
        return float(gaps.sum() if attribute == "group" else gaps.mean())

    def ks_geo(self, attribute: Attribute) -> float:
        """Return KS-GEO of the plain score: ``ks_gsp`` within events of Y, combined over them.

        Classification: the sum over Y = 0 and Y = 1. Regression: the mean over the events
        Y <= y for the nine deciles y of Y (their Scenario III).
        """
        gaps = np.stack([self._gaps(attribute, event) for event in self._outcome_events])
        per_event = gaps.sum(axis=1) if attribute == "group" else gaps.mean(axis=1)
        return float(per_event.sum() if self.task == "classification" else per_event.mean())

    @property
    def _model(self) -> SyntheticModel:
        return SyntheticModel(self.task, self.unfairness)

    @property
    def _rate_given_circumstance(self) -> Floats:
        return np.asarray(expit(LOGIT_SLOPE * _CIRCUMSTANCES), dtype=np.float64)

    def _summaries(self, X: ArrayLike) -> tuple[Floats, Floats]:
        values = np.asarray(X, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.n_features:
            raise InputError(
                f"X must have shape (n, {self.n_features}), got {values.shape}; pass the X of the "
                "synthetic data set"
            )
        half = self.n_features // 2
        root = math.sqrt(half)
        return values[:, :half].sum(axis=1) / root, values[:, half:].sum(axis=1) / root

    def _gaps(self, attribute: Attribute, mass: Floats) -> Floats:
        """Largest gap between each subset's score cdf and that of all, (subsets,).

        mass: P(score <= s, event | subset), (13, points); the subsets are the three groups, the
        nine age ranges and all.
        """
        if attribute not in ("age", "group"):
            raise InputError(f"attribute must be 'age' or 'group', got {attribute!r}")
        cdf = mass / mass[:, -1:]
        chosen = cdf[:3] if attribute == "group" else cdf[3:12]
        return np.array([_peak(np.abs(curve - cdf[12])) for curve in chosen])

    @property
    def _outcome_events(self) -> tuple[Floats, ...]:
        cumulative = self._cumulative
        if self.task == "classification":
            return cumulative[:, 0], cumulative[:, 1] - cumulative[:, 0]
        return tuple(cumulative[:, event] for event in range(9))

    @cached_property
    def _cumulative(self) -> Floats:
        """P(score <= s, Y <= y | subset), (13 subsets, thresholds y, points s).

        By quadrature over y and q: given both, the score is normal. The last threshold is the
        largest y and the last point exceeds every score.
        """
        model = self._model
        of_evidence, of_circumstance = model.plain_coefficients
        subsets = np.concatenate(
            [
                model.group_density(_CIRCUMSTANCES),
                model.density_below_age(_CIRCUMSTANCES, norm.ppf(_DECILES)),
                model.density(_CIRCUMSTANCES)[None],
            ]
        )
        points = np.append(np.linspace(-8.0, 8.0, _SCORE_POINTS) * self._score_scale, np.inf)
        standardized = (points[:, None] - of_circumstance * _CIRCUMSTANCES) / of_evidence
        total = np.zeros((len(subsets), len(points)))
        thresholds = []
        for nodes, weights in self._outcome_segments():
            for y, weight in zip(nodes, weights, strict=True):
                given_outcome = ndtr(standardized - model.evidence_mean(y))
                share = subsets * model.outcome_density(y, _CIRCUMSTANCES) * (weight * _STEP)
                total = total + share @ given_outcome.T
            thresholds.append(total)
        return np.stack(thresholds, axis=1)

    @property
    def _score_scale(self) -> float:
        of_evidence, of_circumstance = self._model.plain_coefficients
        return of_evidence * math.sqrt(1.0 + EVIDENCE_STRENGTH**2) + of_circumstance

    def _outcome_segments(self) -> list[tuple[Floats, Floats]]:
        """Nodes and weights for sums over Y, cut where events of Y begin and end."""
        if self.task == "classification":
            return [(np.array([y]), np.ones(1)) for y in (0.0, 1.0)]
        cuts = [-8.0, *(self._outcome_quantile(level) for level in _DECILES), 8.0]
        nodes, weights = np.polynomial.legendre.leggauss(_NODES_PER_SEGMENT)
        pieces = []
        for low, high in pairwise(cuts):
            half = (high - low) / 2.0
            pieces.append((low + half * (nodes + 1.0), half * weights))
        return pieces

    def _outcome_quantile(self, level: float) -> float:
        weight = self._model.density(_CIRCUMSTANCES) * _STEP
        spread = math.sqrt(OUTCOME_NOISE_VARIANCE)

        def excess(y: float) -> float:
            return float(weight @ ndtr((y - OUTCOME_SLOPE * _CIRCUMSTANCES) / spread)) - level

        return float(brentq(excess, -8.0, 8.0, xtol=1e-12))


def _peak(curve: Floats) -> float:
    """Maximum of a smooth curve known at equal steps, by a parabola through its highest points."""
    top = int(np.argmax(curve))
    if top in (0, len(curve) - 1):
        return float(curve[top])
    left, middle, right = curve[top - 1 : top + 2]
    bend = left - 2.0 * middle + right
    return float(middle - (right - left) ** 2 / (8.0 * bend)) if bend < 0.0 else float(middle)
