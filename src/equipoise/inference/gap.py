"""The gap of `equipoise.metrics.gap` with its interval, p-value and certificate.

There is one rule for all groups together: with probability `level` the distance D(g) of every group
is within c(g) of its value in the population. Here c(g) is the level's quantile under permutations
times the scale of the group. So the largest D in the population lies in

    [max over g of D(g) - c(g), max over g of D(g) + c(g)],

limited to [0, 1]. At a level of 95 % the lower end is above 0 if and only if the gap is above 0,
and if and only if p is at most 0.05: interval, p-value and gap cannot contradict each other.

Permutations give the distribution of D if score and attribute are independent. Otherwise D varies
no more than that if scores have many values, as simulations in docs/uncertainty.md show. Decisions
and scores of few values may vary up to w(g) times as much (`GroupComparison.widening`). Their
error is taken to grow from c(g) to w(g) c(g) as the true difference grows from 0 to D(g). The lower
end is the difference that is just one error below D(g), (D - c) / (1 + (w - 1) c / D). The upper
end is D(g) + w(g) c(g).

**Certificate.** An upper bound for the largest D in the population, at every number of rows. Given
the values of A, the scores in a group and those of the others are independent samples. Scores of
one level have the same distribution, and P(sup |F_n - F| > e) <= 2 exp(-2 n e^2) (Massart 1990). In
a range of a continuous attribute distributions differ. Then F is the mean distribution of these
people, and the probability is at most e = 2.718... times as large (Bretagnolle 1980). All groups
and all candidates share the error probability equally.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from equipoise.errors import check_level, check_whole
from equipoise.inference.certificate import radius
from equipoise.inference.estimate import Estimate, notes
from equipoise.metrics.gap import GAPS, LEVEL, PERMUTATIONS, Gaps, gaps_of, listed_sizes, too_few
from equipoise.metrics.registry import Metric
from equipoise.metrics.sample import Sample
from equipoise.words import points


def gap_estimates(
    metric: Metric,
    *samples: Sample,
    level: float = LEVEL,
    permutations: int = PERMUTATIONS,
    candidates: int = 1,
    random_state: int = 0,
) -> list[Estimate]:
    """One of the gap metrics for each of K scores.

    `where` names the group with the gap, and the score above which it differs most; `chance` is the
    chance level of this group. The interval and the certificate are about the largest difference of
    all judged groups in the population.

    Parameters
    ----------
    metric : Metric
        One of the metrics in `equipoise.metrics.gap.GAPS`.
    samples : Sample
        The same scores (K, n) with each sensitive column whose groups are judged.
    level : float
        Of interval and certificate.
    permutations : int
        The smallest possible p-value is 1 / (1 + permutations).
    candidates : int
        Number of scores for which the certificates hold together.
    random_state : int
        Same state, same numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from equipoise.metrics import find_metric, prepare
    >>> from equipoise.tables import SensitiveTable
    >>> age = np.linspace(18, 90, 2000).round()
    >>> scores = np.random.default_rng(0).normal(size=2000) + (age > 60)
    >>> sample = prepare(scores).against(SensitiveTable.from_data({"age": age})["age"])
    >>> (found,) = gap_estimates(find_metric("gap"), sample)
    >>> print(f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f}), {found.where}")
    0.37 (0.29 to 0.56), age 62 to 90, 38.5 points at scores above 0.587 (9.1 by chance)
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
    n = _known_rows(samples)
    if not found.comparisons:
        return [Estimate(level=level, n=n, reason=too_few(found))] * members
    reach = found.reach(level)[0]
    distances = found.distances[0]
    widening = torch.stack(
        [torch.cat([each.widening(k) for each in found.comparisons]) for k in range(members)]
    )
    blur = torch.stack(
        [torch.cat([each.blur(k) for each in found.comparisons]) for k in range(members)]
    )
    beyond = distances > reach * (1 + 1e-9)  # as for the gap itself
    per_distance = reach * (widening - 1) / distances.clamp(min=1e-300)
    lows = torch.where(beyond, (distances - reach) / (1 + per_distance), 0.0).amax(-1).tolist()
    highs = (distances + blur + reach * widening).clamp(max=1).amax(-1).tolist()
    values = found.beyond[0].amax(-1).tolist()
    observed = found.standardized[0, :, None]
    reached = (found.permuted >= observed * (1 - 1e-9) - 1e-12).sum(-1).tolist()
    bounds, remark = _certificates(found, distances + blur, level, candidates)
    decides = GAPS[metric.name] and samples[0].scored.threshold_found
    taken = "the threshold was found on these rows but is treated as given" if decides else ""
    estimates = []
    for k, chance in enumerate(found.reach(LEVEL)[0]):
        where, by_chance = _where(found, k, chance, decisions=GAPS[metric.name])
        estimates.append(
            Estimate(
                value=values[k],
                low=lows[k],
                high=highs[k],
                level=level,
                chance=by_chance,
                resolution=float(chance.amin()),
                p=(1 + reached[k]) / (1 + permutations),
                p_floor=1 / (1 + permutations),
                certificate=bounds[k],
                n=n,
                unjudged=listed_sizes(found) if found.small else "",
                note=notes(taken, remark, in_bins(float(blur[k].max()))),
                where=where,
            )
        )
    return estimates


def _known_rows(samples: Sequence[Sample]) -> int:
    """Rows in which one of the columns is known; at least so many, of rows that stand for many."""
    known = [torch.from_numpy(~sample.column.missing) for sample in samples]
    if len({len(each) for each in known}) == 1:
        return int(samples[0].scored.people[torch.stack(known).any(0)].sum())
    pairs = zip(samples, known, strict=True)
    return max(int(sample.scored.people[each].sum()) for sample, each in pairs)


def in_bins(blur: float) -> str:
    """How far scores in bins may hide a distance, for a note; "" where no bin has several."""
    if blur == 0:
        return ""
    return f"scores are in bins, which hides at most {blur:.2g} of a distance; intervals count it"


def _where(found: Gaps, member: int, chance: Tensor, *, decisions: bool) -> tuple[str, float]:
    """The group with the gap in words, and its chance level; `chance`: (groups,)."""
    comparison, group, number = found.located(member)
    distance, by_chance = float(found.distances[0, member, number]), float(chance[number])
    at = ""
    if not decisions:
        what = "scores above" if comparison.strata is None else "ranks among similar y above"
        at = f" at {what} {comparison.threshold(member, group):.3g}"
    label = comparison.groups.labels[group]
    return f"{label}, {points(distance)} points{at} ({points(by_chance)} by chance)", by_chance


def _certificates(
    found: Gaps, distances: Tensor, level: float, candidates: int
) -> tuple[list[float], str]:
    """Upper bounds (K,) of the largest of D (K, G), or NaN and a note that says why."""
    none = [math.nan] * len(distances)
    per_person = torch.cat(
        [each.weights[0, each.rows] / each.people[each.rows] for each in found.comparisons]
    )
    if bool((per_person != per_person[0]).any()):
        return none, "no certificate: it holds only for rows of equal weight"
    if any(comparison.strata is not None for comparison in found.comparisons):
        return none, "no certificate: ranks among people of similar y are estimated"
    error = (1 - level) / (distances.shape[-1] * candidates)
    radii = []
    for comparison in found.comparisons:
        inside = comparison.groups.sizes(comparison.people.long()).tolist()
        others = [int(comparison.people.sum()) - size for size in inside]
        # The tail of Bretagnolle's inequality is that of Massart's at an error e times smaller.
        share = error if comparison.groups.spans.levels else error / math.e
        radii += [radius(m, n, share) for m, n in zip(inside, others, strict=True)]
    bounds = distances + distances.new_tensor(radii)
    return bounds.clamp(max=1).amax(-1).tolist(), ""
