"""A certificate: an upper confidence bound for KS-GSP and KS-GEO that holds at every sample size.

What is bounded
---------------
The population values of the paper's metrics (Sohn, Song and Lin 2024, section 5, D.2 and D.3).
With F the distribution function of the score, these are:

* discrete A: the sum over groups a of sup abs(F_a - F);
* continuous A: the mean over nine thresholds t of sup abs(F_{A <= t} - F);
* KS-GEO: the same within Y = y, summed over y; within Y <= u for a continuous outcome, averaged
  over nine thresholds u.

The caller passes the thresholds, or they are the deciles of the rows themselves, as in KS-GSP and
KS-GEO. So the bound is about the same sets of people as the estimate. All thresholds between two
neighboring values of A give the same sets in the sample; the bound is for the highest of them, just
below the next value.

Why it holds
------------
One comparison is between a set B of rows (a group, or A <= t) and the other rows R of its stratum.
With p = P(B), F = p F_B + (1 - p) F_R, so sup abs(F_B - F) = (1 - p) D with
D = sup abs(F_B - F_R). Given which rows are in B, the n_B scores in B and the n_R scores in R are
two independent samples, each of independent, identically distributed scores. By the
Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant (Massart 1990), the largest error X of
an empirical distribution function has P(X > e) <= min(1, 2 exp(-2 n e^2)), for every distribution
of scores, with or without ties. And D <= D_hat + X_B + X_R. The two errors are independent, so
P(X_B + X_R > r) is at most the same probability for two independent variables that have exactly
these tails. `radius` solves this for r, which is smaller than with a union bound over the two. The
exact upper confidence limit of Clopper and Pearson (1934) replaces the factor 1 - p. With two
groups none is needed: both comparisons have the same D, and their factors 1 - p and p add up to 1.

*A threshold found on the rows.* Let all values of A differ, and let t be the value of rank k + 1.
Given t, the k rows with A < t are independent draws from the population with A < t, the n - k - 1
rows with A > t are independent draws from the population with A > t, and both are independent of
each other: order statistics are a Markov chain (David and Nagaraja 2003, theorem 2.5). So the
argument above holds for this t as for a fixed one. The row with A = t counts among R and changes
the estimate by at most 1 / n_R, which is added. The same holds for ranges of Y, and for both at
once: given the rows that define the thresholds of A and Y, and the number of rows in each of the
four quadrants, the rows of a quadrant are independent draws from it. There the share p of a stratum
is bounded for all t at once, by the inequality of Dvoretzky, Kiefer and Wolfowitz for A in the
stratum. If values of A repeat, t is one of the values that A can take, and the union bound counts
as many sets A <= t as A has distinct values in the rows. This is valid if A can take no other
values.

The union bound divides the probability of error 1 - level: a twentieth goes to the factors, if
these are needed, and the rest equally to the comparisons of all candidates. Hence the bounds of all
candidates hold together with probability `level`, and so does the bound of any candidate picked by
looking at the same rows.

docs/uncertainty.md says what the certificate does not cover.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erf
from scipy.stats import beta

from equipoise.errors import InputError, check_level, check_whole
from equipoise.metrics.arrays import Floats, Mask, as_scores
from equipoise.metrics.outcome import (
    OutcomeKind,
    kind_where_given,
    outcome_array,
    repeated_quantiles,
    rows_of,
)
from equipoise.metrics.partition import DECILES
from equipoise.metrics.registry import Metric
from equipoise.metrics.sample import Sample
from equipoise.notions import Notion
from equipoise.tables import SensitiveColumn, SensitiveTable

#: Metrics that have a certificate.
CERTIFIED = ("KS-GSP", "KS-GEO")
#: Share of the error probability that goes to the factors 1 - p.
_FACTOR_SHARE = 0.05


@dataclass(frozen=True)
class Certificate:
    """An upper confidence bound; `print` shows it in words."""

    metric: str  # "KS-GSP" or "KS-GEO"
    attribute: str
    estimate: Floats  # on the rows used; (K,) for scores (K, n), a scalar array for (n,)
    upper: Floats  # the bound, of the same shape
    level: float  # probability with which all bounds hold together
    candidates: int  # number of scores for which the bounds hold together
    rows: int  # number of rows used, without those with a missing value
    thresholds: tuple[float, ...]  # of a continuous attribute; () for a discrete one
    outcome_thresholds: tuple[float, ...]

    def __str__(self) -> str:
        bounds = ", ".join(f"{bound:.3f}" for bound in np.atleast_1d(self.upper))
        cuts = ", ".join(f"{cut:.4g}" for cut in self.thresholds)
        at = f" at {self.attribute} <= {cuts}" if cuts else ""
        of = f", for all {self.candidates} candidates together" if self.candidates > 1 else ""
        return (
            f"With {100 * self.level:g}% confidence {self.metric} by {self.attribute} is at most "
            f"{bounds}{at}{of}, in the population from which these {self.rows} rows were drawn. "
            "This is not valid for rows used for training or for picking other candidates, nor "
            "after drift."
        )


class _Comparison(NamedTuple):
    """The rows `inside` (n,) of a stratum compared with its other rows."""

    stratum: Mask  # (n,)
    inside: Mask
    weight: float  # in the metric
    factor_known: bool  # two groups: the factors of both comparisons add up to one
    by_rank: bool  # the threshold of A is a value of the rows themselves, none of which repeats
    of_all: bool  # the stratum is everybody
    name: str


class _Cuts(NamedTuple):
    """Thresholds of a continuous variable."""

    at: tuple[float, ...]  # () for a discrete variable
    family: int  # number of possible sets among which these were picked, for the union bound
    by_rank: bool


def certify(
    scores: Any,
    column: SensitiveColumn,
    *,
    y: Any = None,
    outcome: OutcomeKind | None = None,
    level: float = 0.95,
    candidates: int | None = None,
    thresholds: Sequence[float] | None = None,
    outcome_thresholds: Sequence[float] | None = None,
    people: Floats | None = None,
) -> Certificate:
    """Bound KS-GSP, or KS-GEO when y is given, in the population.

    Parameters
    ----------
    scores : array of shape (n,) or (K, n)
        Of rows that were not used for training, nor for picking except among these K scores.
    column : SensitiveColumn
        Rows in which it is missing are left out.
    y : array of shape (n,), optional
        Bound KS-GEO instead of KS-GSP.
    outcome : {"binary", "multiclass", "continuous"}, optional
        Kind of y; by default the rules of `equipoise.metrics.outcome` decide.
    level : float
        Confidence, in (0, 1).
    candidates : int, optional
        Number of scores among which one was or will be picked on these rows; by default K.
    thresholds, outcome_thresholds : sequence of float, optional
        Thresholds of a continuous column or outcome; must not be chosen on these rows. By default
        the deciles of these rows, as in KS-GSP and KS-GEO.
    people : array of shape (n,), optional
        How many equal rows each row stands for; by default one.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> column = SensitiveTable.from_data({"sex": random.permutation(["f", "m"] * 5000)})["sex"]
    >>> print(certify(random.normal(size=10_000), column))
    With 95% confidence KS-GSP by sex is at most 0.043, in the population from which these ...
    """
    matrix = as_scores(scores).cpu().numpy()
    check_level(level)
    candidates = len(matrix) if candidates is None else check_whole("candidates", candidates)
    if candidates < len(matrix):
        raise InputError(
            f"candidates must be at least {len(matrix)}, the number of scores, got {candidates}; "
            "count every score among which one is picked"
        )
    kind = kind_where_given(y, outcome)
    rows = rows_of(matrix, SensitiveTable((column,)), y)
    known_y = None if y is None else outcome_array(y)
    of_column = None if column.values is None else column.values[rows]
    counts = np.ones(len(column.missing)) if people is None else people
    column_cuts = _cuts(of_column, thresholds, "thresholds", counts[rows])
    # The deciles of y count every row, also those with a missing attribute.
    of_outcome = known_y if kind == "continuous" else None
    outcome_cuts = _cuts(of_outcome, outcome_thresholds, "outcome_thresholds", counts)
    used_y = None if known_y is None else known_y[rows]
    comparisons = list(_comparisons(column.take(rows), column_cuts, used_y, outcome_cuts))
    # Number of possible sets for each set that is compared.
    of_each = column_cuts.family / max(len(column_cuts.at), 1)
    of_each *= outcome_cuts.family / max(len(outcome_cuts.at), 1)
    error = (1 - level) / of_each
    estimate, upper = _bound(matrix[:, rows], counts[rows], comparisons, error, candidates)
    if column.codes is not None:  # distances of G groups add up to at most G - 1
        classes = 1 if used_y is None or outcome_cuts.at else len(np.unique(used_y))
        upper = np.minimum(upper, classes * (len(column.categories) - 1))
    shape = np.shape(scores)[:-1]  # without a K axis if scores have none
    return Certificate(
        metric="KS-GSP" if y is None else "KS-GEO",
        attribute=column.name,
        estimate=estimate.reshape(shape),
        upper=upper.reshape(shape),
        level=level,
        candidates=candidates,
        rows=int(counts[rows].sum()),
        thresholds=column_cuts.at,
        outcome_thresholds=outcome_cuts.at,
    )


def certificate_of(
    metric: Metric,
    scores: Floats,
    column: SensitiveColumn,
    y: Any,
    outcome: OutcomeKind | None,
    *,
    level: float,
    candidates: int,
    weights: Floats | None = None,
    people: Floats | None = None,
) -> tuple[float, str]:
    """Largest bound of a metric for scores (n,) or (K, n), or NaN and a note that says why.

    `people` is as in `certify`.
    """
    if metric.name not in CERTIFIED:
        return math.nan, ""
    if weights is not None:
        return math.nan, "no certificate: it holds only for rows of equal weight"
    given = metric.needs_outcome
    try:
        found = certify(
            scores,
            column,
            y=y if given else None,
            outcome=outcome if given else None,
            level=level,
            candidates=candidates,
            people=people,
        )
    except InputError as impossible:
        return math.nan, f"no certificate: {impossible}"
    return float(np.max(found.upper)), ""


def largest_distance(sample: Sample, notion: Notion | None) -> float:
    """The largest value that KS-GSP or KS-GEO can have, given the shares of the sets of A.

    sup abs(F_B - F) is at most 1 - P(B): for G groups the sum is at most G - 1.
    """
    within, attribute, weights = sample.within(notion), sample.attribute, sample.weights[0]
    totals = []
    for s in range(within.n_sets):
        rows = weights * within.inside(s)
        shares = [float((rows * attribute.inside(j)).sum()) for j in range(attribute.n_sets)]
        most = 1 - torch.tensor(shares, dtype=torch.float64) / max(float(rows.sum()), 1e-300)
        totals.append(attribute.combine(most, -1))
    return float(within.combine(torch.stack(totals), -1))


@lru_cache(4096)  # many groups have the same sizes
def radius(n_inside: int, n_others: int, probability: float) -> float:
    """Smallest r with P(X_B + X_R > r) <= probability.

    X_B and X_R are independent with P(X > e) = min(1, 2 exp(-2 n e^2)), see the module docstring.
    """
    most = sum(math.sqrt(math.log(4 / probability) / (2 * n)) for n in (n_inside, n_others))
    root = brentq(
        lambda r: _tail_of_sum(r, n_inside, n_others) - probability, 0.0, most, xtol=1e-12
    )
    return float(root) + 1e-11  # never below the exact root


def _tail_of_sum(r: float, m: int, n: int) -> float:
    """P(X + Y > r) for independent X and Y with tails min(1, 2 exp(-2 m e^2)), and n for Y.

    X has density 8 m x exp(-2 m x^2) above x0 = sqrt(log 2 / 2 m) and no mass below; likewise Y.
    """
    x0, y0 = (math.sqrt(math.log(2) / (2 * size)) for size in (m, n))
    if r <= x0 + y0:
        return 1.0
    # If x > r - y0, then Y > r - x for certain.
    certain = 2 * math.exp(-2 * m * (r - y0) ** 2)
    # The integral of 16 m x exp(-2 m x^2 - 2 n (r - x)^2) over x0 <= x <= r - y0. The exponent is
    # -2 s (x - center)^2 - 2 (m n / s) r^2 with s = m + n.
    s = m + n
    center = n * r / s
    low, high = x0 - center, r - y0 - center
    gaussian = math.sqrt(math.pi / (8 * s)) * (
        erf(math.sqrt(2 * s) * high) - erf(math.sqrt(2 * s) * low)
    )
    slope = (math.exp(-2 * s * low**2) - math.exp(-2 * s * high**2)) / (4 * s)
    integral = 16 * m * math.exp(-2 * m * n / s * r**2) * (center * gaussian + slope)
    return float(min(1.0, certain + integral))


def _bound(
    scores: Floats,
    people: Floats,
    comparisons: Sequence[_Comparison],
    error: float,
    candidates: int,
) -> tuple[Floats, Floats]:
    """Estimate and bound, (K,) each, for scores (K, n) of rows that stand for people (n,)."""
    factors = sum(not comparison.factor_known for comparison in comparisons)
    factor_error = _FACTOR_SHARE * error / factors if factors else 0.0
    radius_error = (1 - _FACTOR_SHARE * bool(factors)) * error / (len(comparisons) * candidates)
    estimate, upper = np.zeros(len(scores)), np.zeros(len(scores))
    orders = np.argsort(scores, axis=1, kind="stable")
    for comparison in comparisons:
        n = int(people[comparison.stratum].sum())
        n_inside = int(people[comparison.inside & comparison.stratum].sum())
        n_others = n - n_inside
        if n_inside == 0 or (n_others == 0 and comparison.factor_known):
            raise InputError(
                f"a certificate needs rows inside and outside of every compared set, got "
                f"{n_inside} of {n} with {comparison.name}; merge groups or choose other thresholds"
            )
        if comparison.factor_known:
            share = largest_share = 1.0
        else:
            share = n_others / n
            largest_share = float(beta.ppf(1 - factor_error, n_others + 1, n_inside))
            if comparison.by_rank and not comparison.of_all:
                largest_share = min(1.0, share + math.sqrt(-math.log(factor_error) / (2 * n)))
        if n_others == 0:  # everybody is inside: the distance is unknown, but few can be outside
            upper += comparison.weight * largest_share
            continue
        pairs = zip(scores, orders, strict=True)
        distance = np.array([_largest_difference(*pair, people, comparison) for pair in pairs])
        # The row that defines the threshold is not a draw from the others.
        at_cut = int(comparison.by_rank and n_others > 1)
        reach = radius(n_inside, n_others - at_cut, radius_error) + at_cut / n_others
        bounded = np.minimum(1.0, distance + reach)
        estimate += comparison.weight * share * distance
        upper += comparison.weight * largest_share * bounded
    return estimate, upper


def _largest_difference(
    score: Floats, order: NDArray[np.intp], people: Floats, comparison: _Comparison
) -> float:
    """Largest abs(F_B - F_R) of the two samples of one comparison."""
    rows = order[comparison.stratum[order]]
    inside = comparison.inside[rows]
    ascending = score[rows]
    last_of_ties = np.append(ascending[1:] != ascending[:-1], True)
    below_inside = np.cumsum(people[rows] * inside)[last_of_ties]
    below_others = np.cumsum(people[rows])[last_of_ties] - below_inside
    return float(np.abs(below_inside / below_inside[-1] - below_others / below_others[-1]).max())


def _comparisons(
    column: SensitiveColumn, cuts: _Cuts, y: NDArray[Any] | None, y_cuts: _Cuts
) -> Iterator[_Comparison]:
    """Every comparison of the metric."""
    if y is None:
        strata = [(np.ones(len(column.missing), dtype=bool), 1.0, "")]
    elif y_cuts.at:
        strata = [(y <= cut, 1 / len(y_cuts.at), f" and y <= {cut:g}") for cut in y_cuts.at]
    else:
        strata = [(y == level, 1.0, f" and y = {level}") for level in np.unique(y)]
    two_groups = len(column.categories) == 2
    if column.values is not None:
        sets = [(column.values <= cut, f"{column.name} <= {cut:g}") for cut in cuts.at]
    else:
        assert column.codes is not None
        groups = column.categories[:1] if two_groups else column.categories
        sets = [
            (column.codes == code, f"{column.name} = {group}") for code, group in enumerate(groups)
        ]
    for stratum, weight, where in strata:
        for inside, name in sets:
            yield _Comparison(
                stratum,
                inside,
                weight / max(len(cuts.at), 1),
                factor_known=two_groups,
                by_rank=cuts.by_rank,
                of_all=y is None,
                name=name + where,
            )


def _cuts(
    values: NDArray[Any] | None, given: Sequence[float] | None, argument: str, people: Floats
) -> _Cuts:
    """The given thresholds, or those at the deciles of the values; none for a discrete variable."""
    if values is None:
        if given is not None:
            raise InputError(
                f"{argument} must not be given without a continuous variable, got {given!r}; "
                "leave it out"
            )
        return _Cuts((), 1, by_rank=False)
    if given is not None:
        cuts = np.asarray(given, np.float64)
        if cuts.ndim != 1 or len(cuts) == 0 or not np.isfinite(cuts).all():
            raise InputError(
                f"{argument} must be a sequence of finite numbers, got {given!r}; pass a list"
            )
        return _Cuts(tuple(cuts.tolist()), len(cuts), by_rank=False)
    distinct = np.unique(values)
    deciles = repeated_quantiles(values, people, DECILES)
    place = np.searchsorted(distinct, deciles, side="right")  # number of values up to a decile
    if len(distinct) < people.sum():
        return _Cuts(
            tuple(distinct[np.maximum(place, 1) - 1].tolist()), len(distinct), by_rank=False
        )
    above = distinct[np.minimum(place, len(distinct) - 1)]
    return _Cuts(tuple(np.nextafter(above, -np.inf).tolist()), len(deciles), by_rank=True)
