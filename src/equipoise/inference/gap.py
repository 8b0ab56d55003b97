"""The gap of `equipoise.metrics.gap` with its interval, p-value and certificate.

One rule, for all groups together: with probability `level` the distance D(g) of every group is
within c(g) of its value in the population, c(g) being the level's quantile under permutations times
the scale of the group. So the largest D in the population lies in

    [max over g of D(g) - c(g), max over g of D(g) + c(g)],

cut to [0, 1]. At a level of 95 % the lower end is above 0 exactly where the gap is, and where p is
at most 0.05: interval, p-value and gap cannot contradict each other. Permutations give the law of
D where score and attribute are independent. Where they are not, D varies no more, which
docs/uncertainty.md shows by simulation.

**Certificate.** An upper bound for the largest D in the population, at every number of rows. Given
the values of A, the scores in a group and those of the others are independent samples. Scores of
one level are equally distributed, and P(sup |F_n - F| > e) <= 2 exp(-2 n e^2) (Massart 1990). In a
range of a continuous attribute they are not, and the bound is e times as large (Bretagnolle 1980),
F being the mean distribution of the people at hand. The error probability is shared equally by all
groups, and by all candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from equipoise.errors import check_level, check_whole
from equipoise.inference.certificate import radius
from equipoise.inference.estimate import Estimate, notes
from equipoise.metrics.gap import GAPS, LEVEL, PERMUTATIONS, Gaps, gaps_of, listed_sizes, too_few
from equipoise.metrics.registry import Metric
from equipoise.metrics.sample import SMALL_GROUP, Sample


def gap_estimates(
    metric: Metric,
    *samples: Sample,
    level: float = LEVEL,
    permutations: int = PERMUTATIONS,
    candidates: int = 1,
    random_state: int = 0,
) -> list[Estimate]:
    """One of the gap metrics for each of K scores.

    `chance` is that of the group where the gap is attained, and `where` names it, with the score
    above which it differs most. The interval and the certificate are about the largest difference
    of all judged groups in the population.

    Parameters
    ----------
    metric : Metric
        A name in `equipoise.metrics.gap.GAPS`, looked up.
    samples : Sample
        The same scores (K, n) beside each sensitive column whose groups are judged.
    level : float
        Of interval and certificate.
    permutations : int
        The smallest possible p-value is 1 / (1 + permutations).
    candidates : int
        How many scores the certificate holds for together.
    random_state : int
        Same state, same numbers.

    Examples
    --------
    >>> from equipoise.metrics import find_metric, prepare
    >>> from equipoise.tables import SensitiveTable
    >>> age = np.linspace(18, 90, 2000).round()
    >>> scores = np.random.default_rng(0).normal(size=2000) + (age > 60)
    >>> sample = prepare(scores).against(SensitiveTable.from_data({"age": age})["age"])
    >>> (found,) = gap_estimates(find_metric("gap"), sample)
    >>> print(f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f}), {found.where}")
    0.37 (0.29 to 0.55), age 62 to 90: 38.5 points at scores above 0.587, 9 by chance
    """
    check_level(level)
    check_whole("permutations", permutations)
    check_whole("candidates", candidates)
    assert metric.notion is not None
    found = gaps_of(
        *samples,
        notion=metric.notion,
        decisions=GAPS[metric.name],
        permutations=permutations,
        seed=random_state,
    )
    members = len(samples[0].scored.scores)
    missing = np.logical_and.reduce([sample.column.missing for sample in samples])
    n = int((~missing).sum())
    if not found.comparisons:
        return [Estimate(level=level, n=n, reason=too_few(found))] * members
    reach = found.reach(level)[0]
    beyond = found.distances[0] > reach * (1 + 1e-9)  # as for the gap itself
    lows = torch.where(beyond, found.distances[0] - reach, 0.0).amax(-1).tolist()
    highs = (found.distances[0] + reach).clamp(max=1).amax(-1).tolist()
    values = found.beyond[0].amax(-1).tolist()
    observed = found.standardized[0, :, None]
    reached = (found.permuted >= observed * (1 - 1e-9) - 1e-12).sum(-1).tolist()
    bounds, remark = _certificates(found, members, level, candidates)
    decides = GAPS[metric.name] and samples[0].scored.threshold_found
    taken = "the threshold was found on these rows and is taken as given" if decides else ""
    note = notes(small_groups(found), taken, remark)
    return [
        Estimate(
            value=values[k],
            low=lows[k],
            high=highs[k],
            level=level,
            chance=place.chance,
            p=(1 + reached[k]) / (1 + permutations),
            p_floor=1 / (1 + permutations),
            certificate=bounds[k],
            n=n,
            note=note,
            where=str(place),
        )
        for k, place in enumerate(places_of(found, decisions=GAPS[metric.name]))
    ]


@dataclass(frozen=True)
class Place:
    """Where the gap is attained."""

    group: str  # in words
    size: int  # rows in the group
    distance: float  # D of the group
    chance: float
    threshold: float  # the score above which the shares of people differ by `distance`
    what: str  # "scores above", or what else the threshold is about; "" for decisions

    def __str__(self) -> str:
        at = f" at {self.what} {self.threshold:.3g}" if self.what else ""
        return f"{self.group}: {points(self.distance)} points{at}, {points(self.chance)} by chance"


def points(share: float) -> str:
    """A share in percentage points.

    >>> points(0.2349), points(0.74)
    ('23.5', '74')
    """
    return f"{100 * share:.1f}".removesuffix(".0")


def places_of(found: Gaps, *, decisions: bool) -> list[Place]:
    """Where each of K scores has its gap; where none is beyond chance, where it comes nearest."""
    chance = found.reach(LEVEL)[0]
    places = []
    for k in range(len(chance)):
        comparison, group, number = found.located(k)
        what = "scores above" if comparison.strata is None else "ranks among similar y above"
        places.append(
            Place(
                group=comparison.groups.labels[group],
                size=int(comparison.groups.sizes(comparison.rows.long())[group]),
                distance=float(found.distances[0, k, number]),
                chance=float(chance[k, number]),
                threshold=comparison.threshold(k, group),
                what="" if decisions else what,
            )
        )
    return places


def small_groups(found: Gaps) -> str:
    """Which groups have too few rows to be judged."""
    if not found.small:
        return ""
    return f"too few rows to say, fewer than {SMALL_GROUP} in or outside: {listed_sizes(found)}"


def _certificates(
    found: Gaps, members: int, level: float, candidates: int
) -> tuple[list[float], str]:
    """Upper bounds (K,) of the largest D, or NaN and a note why there are none."""
    none = [math.nan] * members
    weights = found.comparisons[0].weights[0]
    counted = weights[weights > 0]
    if bool((counted != counted[0]).any()):
        return none, "no certificate: its inequality is for rows that count the same"
    if any(comparison.strata is not None for comparison in found.comparisons):
        return none, "no certificate: ranks among people of similar y are estimated"
    error = (1 - level) / (found.distances.shape[-1] * candidates)
    radii = []
    for comparison in found.comparisons:
        inside = comparison.groups.sizes(comparison.rows.long()).tolist()
        others = [int(comparison.rows.sum()) - size for size in inside]
        # The tail of Bretagnolle's inequality is that of Massart's at an error e times smaller.
        share = error if comparison.groups.spans.levels else error / math.e
        radii += [radius(m, n, share) for m, n in zip(inside, others, strict=True)]
    bounds = found.distances[0] + weights.new_tensor(radii)
    return bounds.clamp(max=1).amax(-1).tolist(), ""
