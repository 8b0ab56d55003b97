r"""Simulated data whose unfairness and achievable utility are known.

.. code-block:: text

    A = (age, group) -> circumstance Q -> outcome Y -> evidence M

    age ~ N(0, 1); group in {a, b, c} with probabilities 0.5, 0.3, 0.2
    B = 0.6 age + 0.8 shift(group), shift standardized: E B = 0, Var B = 1
    Q = u B + sqrt(1 - u^2) noise, so E Q = 0, Var Q = 1 for every unfairness u
    classification: logit P(Y = 1 | Q) = 1.2 Q           M = 1.5 (Y - 1/2) + N(0, 1)
    regression:     Y = 0.5 Q + N(0, 0.75), Var Y = 1    M = 1.5 Y + N(0, 1)

The columns of X are p/2 evidence columns with sum sqrt(p/2) M and p/2 proxy columns with sum
sqrt(p/2) Q; everything else in them is noise. So M and Q hold all the information in X. Evidence
measures everybody's outcome alike (M is independent of A given Y); only Q depends on A.

This is statistical discrimination (Phelps 1972; Arrow 1973): the best predictor uses Q as prior
knowledge, so two persons with equal evidence but different circumstance get different scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtr
from scipy.stats import norm

from equipoise.datasets.dataset import Dataset, DatasetDescription, Task
from equipoise.errors import InputError, check_choice, check_number, check_whole
from equipoise.notions import Notion

Attribute = Literal["age", "group"]
Floats = NDArray[np.float64]

GROUPS: Final = ("a", "b", "c")
GROUP_PROBABILITIES: Final = np.array([0.5, 0.3, 0.2])
_RAW_SHIFTS: Final = np.array([0.8, -0.4, -1.4])
GROUP_SHIFTS: Final = _RAW_SHIFTS / math.sqrt(float(GROUP_PROBABILITIES @ _RAW_SHIFTS**2))
_AGE_SHARE, _GROUP_SHARE = 0.6, 0.8
_EVIDENCE, _LOGIT_SLOPE, _OUTCOME_SLOPE = 1.5, 1.2, 0.5
_OUTCOME_VARIANCE: Final = 1.0 - _OUTCOME_SLOPE**2  # of Y given Q, in regression
_LARGEST_UNFAIRNESS: Final = 0.95
_NOTES: Final = (
    "circumstance depends on age and group, the outcome on circumstance, evidence on the outcome "
    "alone; truth has the dependence and utility of the best scores",
)

# Integrals over Q are sums over this grid. The trapezoidal rule is exponentially accurate for such
# smooth densities, and less than 1e-14 lies beyond 8 standard deviations.
_Q: Final = np.linspace(-8.0, 8.0, 161)
_STEP: Final = float(_Q[1] - _Q[0])
_RATE: Final = np.asarray(expit(_LOGIT_SLOPE * _Q), dtype=np.float64)  # P(Y = 1 | Q)
_DECILES: Final = np.arange(1, 10) / 10
_NODES_PER_SEGMENT, _SCORE_POINTS = 16, 241
_AUC_OF_EVIDENCE: Final = float(ndtr(_EVIDENCE / math.sqrt(2.0)))


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticDataset(Dataset):
    """A simulated data set, with the truth about its population."""

    truth: SyntheticTruth


def make_synthetic(
    n: int = 10_000,
    *,
    task: Task = "classification",
    unfairness: float = 0.8,
    n_features: int = 8,
    random_state: int = 0,
) -> SyntheticDataset:
    """Draw ``n`` rows whose unfairness and achievable utility are known.

    Evidence columns measure everybody's outcome alike. Proxy columns measure circumstance, which
    depends on ``age`` (continuous) and ``group`` (three levels) and influences the outcome. The
    docstring of ``equipoise.datasets.synthetic`` has the whole model.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    task : {"classification", "regression"}
        Whether y is 0/1 or a number with mean 0 and variance 1.
    unfairness : float
        Correlation of circumstance with a weighted sum of age and group, in [0, 0.95]. At 0
        features and outcome are exactly independent of the sensitive attributes.
    n_features : int
        Even number of columns of X: half evidence, half proxies. It does not change the difficulty
        of the task.
    random_state : int
        Seed; the same seed gives the same rows.

    Examples
    --------
    >>> data = make_synthetic(1000, unfairness=0.8)
    >>> round(data.truth.ks_gsp("group"), 3), round(data.truth.ks_gsp("age"), 3)
    (0.581, 0.118)
    >>> round(data.truth.plain_utility, 3), round(data.truth.fair_utility("independence"), 3)
    (0.903, 0.775)
    """
    check_whole("n", n)
    check_choice("task", task, get_args(Task))
    largest, remedy = _LARGEST_UNFAIRNESS, "; 0 is exactly fair"
    rule = f"must lie in [0, {largest}]"
    check_number("unfairness", unfairness, rule, lambda share: 0 <= share <= largest, remedy)
    if check_whole("n_features", n_features, least=2) % 2:
        raise InputError(
            f"n_features must be even and at least 2, got {n_features}; half of the columns are "
            "evidence, half are proxies"
        )
    rng = np.random.default_rng(check_whole("random_state", random_state, least=0))
    age = rng.standard_normal(n)
    group = rng.choice(len(GROUPS), size=n, p=GROUP_PROBABILITIES)
    of_attributes = _AGE_SHARE * age + _GROUP_SHARE * GROUP_SHIFTS[group]
    luck = rng.standard_normal(n)
    circumstance = unfairness * of_attributes + math.sqrt(1.0 - unfairness**2) * luck
    if task == "classification":
        outcome = np.asarray(rng.random(n) < expit(_LOGIT_SLOPE * circumstance), dtype=np.float64)
    else:
        noise = math.sqrt(_OUTCOME_VARIANCE) * rng.standard_normal(n)
        outcome = _OUTCOME_SLOPE * circumstance + noise
    evidence = _evidence_mean(task, outcome) + rng.standard_normal(n)
    half = n_features // 2
    X = pd.DataFrame(
        np.hstack([_spread(evidence, half, rng), _spread(circumstance, half, rng)]),
        columns=[f"{kind}_{i}" for kind in ("evidence", "proxy") for i in range(1, half + 1)],
    )
    A = pd.DataFrame(
        {"age": age, "group": pd.Categorical(np.array(GROUPS)[group], categories=list(GROUPS))}
    )
    y_type = np.int64 if task == "classification" else np.float64
    return SyntheticDataset(
        X=X,
        y=pd.Series(outcome, name="outcome").astype(y_type),
        A=A,
        description=_about(task, unfairness).of(X, A, _NOTES),
        origin="simulated",
        truth=SyntheticTruth(task, unfairness, n_features),
    )


def _evidence_mean(task: Task, y: Floats) -> Floats:
    """E(M | Y = y)."""
    return _EVIDENCE * (y - 0.5 if task == "classification" else y)


def _spread(total: Floats, columns: int, rng: np.random.Generator) -> Floats:
    """Columns (n, k) of independent noise, except that their sum is sqrt(k) * total."""
    noise = rng.standard_normal((len(total), columns))
    centered = noise - noise.mean(axis=1, keepdims=True)
    return np.asarray(total[:, None] / math.sqrt(columns) + centered, dtype=np.float64)


def _about(task: Task, unfairness: float) -> DatasetDescription:
    return DatasetDescription(
        name="synthetic",
        title=f"statistical discrimination, simulated with unfairness {unfairness}",
        task=task,
        target="outcome",
        positive="1 = success" if task == "classification" else "a number, mean 0, variance 1",
        source="simulated by equipoise",
        licence="MIT, as equipoise",
        citation="the model of statistical discrimination goes back to Phelps, E. S. (1972), The "
        "Statistical Theory of Racism and Sexism, American Economic Review 62(4), 659-661",
    )


@dataclass(frozen=True)
class SyntheticTruth:
    """The truth about the population of a synthetic sample.

    There are three scores. The *plain* score is the best of all: logit of P(Y = 1 | X), or
    E(Y | X). For each notion, the *fair* score is the best one without any dependence on A. For
    independence it is the rank of the evidence among persons of the same circumstance, for
    separation the evidence alone. No fair score has a higher utility: any score of X that is
    independent of A (given Y, for separation) is independent of Q, because the normal location
    family Q given A is complete. (For separation in regression, this holds among scores linear in
    X.) At unfairness 0 nothing depends on A, so the plain score is fair, too, and better.
    """

    task: Task
    unfairness: float
    n_features: int

    def plain_score(self, X: ArrayLike) -> Floats:
        """Return the best score of each row of ``X`` (n, p): logit of P(Y = 1), or E Y."""
        of_evidence, of_circumstance = self._plain_weights
        evidence, circumstance = self._summaries(X)
        return of_evidence * evidence + of_circumstance * circumstance

    def fair_score(self, X: ArrayLike, notion: str) -> Floats:
        """Return the best score of each row of ``X`` (n, p) without any dependence on A.

        Regression: an estimate of y. Classification: only the order of the scores matters.
        """
        evidence, circumstance = self._summaries(X)
        separation = Notion.parse(notion).conditions_on_outcome
        if self.task == "regression":
            if separation:
                return _EVIDENCE / (_EVIDENCE**2 + 1.0) * evidence
            surprise = evidence - _EVIDENCE * _OUTCOME_SLOPE * circumstance
            signal = _EVIDENCE * _OUTCOME_VARIANCE
            return signal / (_EVIDENCE * signal + 1.0) * surprise
        if separation:
            return evidence
        half = _EVIDENCE / 2.0
        positive = expit(_LOGIT_SLOPE * circumstance)
        rank = positive * ndtr(evidence - half) + (1.0 - positive) * ndtr(evidence + half)
        return np.asarray(rank)

    @property
    def plain_utility(self) -> float:
        """AUC (classification) or R squared (regression) of the plain score."""
        if self.task == "regression":
            return 1.0 - 1.0 / (1.0 / _OUTCOME_VARIANCE + _EVIDENCE**2)
        weight = self._weight
        positive = weight * _RATE / (weight @ _RATE)
        negative = weight * (1.0 - _RATE) / (weight @ (1.0 - _RATE))
        # Given both circumstances, the difference in score, positive minus negative, is normal.
        lead = _LOGIT_SLOPE * (_Q[:, None] - _Q) + _EVIDENCE**2
        return float(positive @ ndtr(lead / (_EVIDENCE * math.sqrt(2.0))) @ negative)

    def fair_utility(self, notion: str) -> float:
        """Return the AUC or R squared of ``fair_score``: the best without any dependence."""
        separation = Notion.parse(notion).conditions_on_outcome
        if self.task == "regression":
            noise = 1.0 if separation else _OUTCOME_VARIANCE
            signal = _EVIDENCE**2 * noise
            return noise * signal / (signal + 1.0)
        if separation:
            return _AUC_OF_EVIDENCE
        # The score is uniform given Q, so its AUC follows from E(score Y) (Mann-Whitney).
        base = self.base_rate
        expected = float(self._weight @ (_RATE * (_RATE / 2.0 + (1.0 - _RATE) * _AUC_OF_EVIDENCE)))
        return (expected - base**2 / 2.0) / (base * (1.0 - base))

    @property
    def base_rate(self) -> float:
        """Mean of Y: P(Y = 1), or 0 in regression."""
        return 0.0 if self.task == "regression" else float(self._weight @ _RATE)

    @property
    def correlation_with_age(self) -> float:
        """Pearson correlation of the plain score and age."""
        of_evidence, of_circumstance = self._plain_weights
        if self.task == "regression":
            outcome_slope, outcome_circumstance, variance = _OUTCOME_SLOPE, _OUTCOME_SLOPE, 1.0
        else:
            # Stein's lemma: cov(age, f(Q)) = cov(age, Q) E f'(Q); (age, Q) is normal in a group.
            outcome_slope = _LOGIT_SLOPE * float(self._weight @ (_RATE * (1.0 - _RATE)))
            outcome_circumstance = float(self._weight @ (_RATE * _Q))
            variance = self.base_rate * (1.0 - self.base_rate)
        reach = of_evidence * _EVIDENCE
        with_age = self.unfairness * _AGE_SHARE * (reach * outcome_slope + of_circumstance)
        total = of_evidence**2 + reach**2 * variance + of_circumstance**2
        total += 2.0 * reach * of_circumstance * outcome_circumstance
        return with_age / math.sqrt(total)

    def ks_gsp(self, attribute: Attribute) -> float:
        """Return KS-GSP of the plain score, as Sohn, Song and Lin (2024) define it.

        group: sum over groups of max |P(score <= s | group) - P(score <= s)|. age: the mean over
        the nine deciles a of max |P(score <= s | age <= a) - P(score <= s)|.
        """
        gaps = _largest_gaps(attribute, self._cumulative[:, -1])
        return float(gaps.sum() if attribute == "group" else gaps.mean())

    def ks_geo(self, attribute: Attribute) -> float:
        """Return KS-GEO of the plain score: ``ks_gsp`` within events of Y, combined over them.

        Classification: the sum over Y = 0 and Y = 1. Regression: the mean over the events
        Y <= y for the nine deciles y of Y (their Scenario III).
        """
        below = self._cumulative
        if self.task == "classification":
            events = [below[:, 0], below[:, 1] - below[:, 0]]
        else:
            events = [below[:, place] for place in range(9)]
        gaps = np.stack([_largest_gaps(attribute, event) for event in events])
        per_event = gaps.sum(axis=1) if attribute == "group" else gaps.mean(axis=1)
        return float(per_event.sum() if self.task == "classification" else per_event.mean())

    @property
    def _plain_weights(self) -> tuple[float, float]:
        """Weights of (M, Q) in the plain score, which is linear in them for any distribution of Q.

        Classification: the log likelihood ratio of M is 1.5 M, the prior logit is 1.2 Q.
        Regression: the prior given Q and the evidence are normal.
        """
        if self.task == "classification":
            return _EVIDENCE, _LOGIT_SLOPE
        precision = 1.0 / _OUTCOME_VARIANCE + _EVIDENCE**2
        return _EVIDENCE / precision, _OUTCOME_SLOPE / _OUTCOME_VARIANCE / precision

    def _summaries(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """M and Q of each row, (n,) each."""
        values = np.asarray(X, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.n_features:
            raise InputError(
                f"X must have shape (n, {self.n_features}), got {values.shape}; pass the X of the "
                "synthetic data set"
            )
        half = self.n_features // 2
        root = math.sqrt(half)
        return values[:, :half].sum(axis=1) / root, values[:, half:].sum(axis=1) / root

    @cached_property
    def _density_in_groups(self) -> Floats:
        """p(q | group) on the grid, (3, 161): normal, with the variance within groups."""
        means = self.unfairness * _GROUP_SHARE * GROUP_SHIFTS[:, None]
        spread = math.sqrt(1.0 - (_GROUP_SHARE * self.unfairness) ** 2)
        return np.asarray(norm.pdf(_Q, means, spread), dtype=np.float64)

    @cached_property
    def _weight(self) -> Floats:
        """p(q) times the step of the grid, (161,)."""
        return np.asarray((GROUP_PROBABILITIES @ self._density_in_groups) * _STEP)

    def _density_below_ages(self, age: Floats) -> Floats:
        """p(q | age <= a) on the grid, (len(age), 161).

        Age is normal given group and q, so each term is a normal density times a normal cdf.
        """
        slope = self.unfairness * _AGE_SHARE / (1.0 - (_GROUP_SHARE * self.unfairness) ** 2)
        center = slope * (_Q - self.unfairness * _GROUP_SHARE * GROUP_SHIFTS[:, None])
        spread = math.sqrt(1.0 - slope * self.unfairness * _AGE_SHARE)
        below = norm.cdf((age[:, None, None] - center) / spread)
        joint = np.einsum("g,gq,agq->aq", GROUP_PROBABILITIES, self._density_in_groups, below)
        return np.asarray(joint / norm.cdf(age)[:, None], dtype=np.float64)

    @cached_property
    def _cumulative(self) -> Floats:
        """P(score <= s, Y <= y | subset), (13 subsets, thresholds y, points s).

        The subsets are the three groups, the nine age ranges and everybody. The values come from
        quadrature over y and q, given which the score is normal. The last threshold is the largest
        y, and the last point exceeds every score.
        """
        of_evidence, of_circumstance = self._plain_weights
        below_ages = self._density_below_ages(norm.ppf(_DECILES))
        everybody = GROUP_PROBABILITIES @ self._density_in_groups
        subsets = np.concatenate([self._density_in_groups, below_ages, everybody[None]])
        scale = of_evidence * math.sqrt(1.0 + _EVIDENCE**2) + of_circumstance
        points = np.append(np.linspace(-8.0, 8.0, _SCORE_POINTS) * scale, np.inf)
        standardized = (points[:, None] - of_circumstance * _Q) / of_evidence
        total = np.zeros((len(subsets), len(points)))
        thresholds = []
        for nodes, weights in self._outcome_segments():
            for y, weight in zip(nodes, weights, strict=True):
                given_outcome = ndtr(standardized - _evidence_mean(self.task, y))
                share = subsets * self._outcome_density(y) * (weight * _STEP)
                total = total + share @ given_outcome.T
            thresholds.append(total)
        return np.stack(thresholds, axis=1)

    def _outcome_density(self, y: float) -> Floats:
        """p(y | q) on the grid, (161,): probability of y in {0, 1}, or density."""
        if self.task == "classification":
            return np.asarray(expit(_LOGIT_SLOPE * _Q * (2.0 * y - 1.0)), dtype=np.float64)
        return np.asarray(norm.pdf(y, _OUTCOME_SLOPE * _Q, math.sqrt(_OUTCOME_VARIANCE)))

    def _outcome_segments(self) -> list[tuple[Floats, Floats]]:
        """Nodes and weights for integrals over Y, in segments between the thresholds of Y."""
        if self.task == "classification":
            return [(np.array([y]), np.ones(1)) for y in (0.0, 1.0)]
        cuts = [-8.0, *(self._outcome_quantile(level) for level in _DECILES), 8.0]
        nodes, weights = np.polynomial.legendre.leggauss(_NODES_PER_SEGMENT)
        halves = [(low, (high - low) / 2.0) for low, high in pairwise(cuts)]
        return [(low + half * (nodes + 1.0), half * weights) for low, half in halves]

    def _outcome_quantile(self, level: float) -> float:
        def excess(y: float) -> float:
            standardized = (y - _OUTCOME_SLOPE * _Q) / math.sqrt(_OUTCOME_VARIANCE)
            return float(self._weight @ ndtr(standardized)) - level

        return float(brentq(excess, -8.0, 8.0, xtol=1e-12))


def _largest_gaps(attribute: Attribute, mass: Floats) -> Floats:
    """Largest gap between each subset's score cdf and that of all, (subsets of the attribute,).

    mass: P(score <= s, event | subset), (13, points).
    """
    check_choice("attribute", attribute, get_args(Attribute))
    cdf = mass / mass[:, -1:]
    chosen = cdf[:3] if attribute == "group" else cdf[3:12]
    return np.array([_peak(np.abs(curve - cdf[12])) for curve in chosen])


def _peak(curve: Floats) -> float:
    """Maximum of a smooth curve given at equal steps, by a parabola through its highest points."""
    top = int(np.argmax(curve))
    if top in (0, len(curve) - 1):
        return float(curve[top])
    left, middle, right = curve[top - 1 : top + 2]
    bend = left - 2.0 * middle + right
    return float(middle - (right - left) ** 2 / (8.0 * bend)) if bend < 0.0 else float(middle)
