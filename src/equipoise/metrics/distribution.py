"""Kolmogorov-Smirnov distances between score distributions: KS-GSP and KS-GEO of the paper.

They compare whole distributions of the score, not decisions at one threshold. Formulas: section 5
and supplements D.2, D.3 of Sohn, Song and Lin (2024).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import get_args

import torch
from torch import Tensor

from equipoise.metrics.outcome import OutcomeKind
from equipoise.metrics.partition import Partition, Ranking
from equipoise.metrics.registry import Computed, Metric, register_metric
from equipoise.metrics.sample import SMALL_GROUP, Sample
from equipoise.notions import Notion

# Members are processed in blocks of about this many (weighting, member, row) numbers: 4 MiB of
# float64 fit into the processor's cache, and memory does not grow with K.
_BLOCK = 2**19
# In rows of a set: the largest value of a random walk, read at its steps, is below that of the
# limiting Brownian motion by 0.5826 steps (Chernoff 1965), that of an empirical distribution
# function by 1/6 (Smirnov's expansion).
_MISSED = 0.5826 - 1 / 6


def ks_distances(
    ranking: Ranking, sets: Partition, weights: Tensor, center: Tensor | None = None
) -> Tensor:
    """Largest |F(score | set) - F(score)| over all scores, for each set.

    Both are weighted empirical distribution functions of the ranked rows, compared at distinct
    scores. With a center, the same difference under the center's weights is subtracted first.

    ranking: of K scores over m rows; sets: of all n rows; weights: (R, n); center: (1, n).
    Returns (R, K, sets), NaN for a set without weight.
    """
    members, m = ranking.order.shape
    draws = len(weights)
    out = torch.empty((draws, members, sets.n_sets), dtype=weights.dtype, device=weights.device)
    ends = ranking.ends
    block = max(1, _BLOCK // (draws * m))
    for start in range(0, members, block):
        some = slice(start, start + block)
        order, end = ranking.order[some], ends[some].to(weights.dtype)
        ranked = _ranked(weights, order)
        pooled = _distribution(ranked.clone())
        pooled_center = None if center is None else _distribution(_ranked(center, order))
        for j in range(sets.n_sets):
            inside = sets.inside(j).to(weights.dtype)[None]
            # With several weightings, it is faster to sort the set than all the weights.
            gap = _distribution(
                ranked * _ranked(inside, order) if draws > 1 else _ranked(weights * inside, order)
            )
            gap -= pooled
            if center is not None and pooled_center is not None:
                gap -= _distribution(_ranked(center * inside, order)) - pooled_center
            gap *= end
            out[:, some, j] = gap.abs_().amax(-1)
    return out


def _ranked(weights: Tensor, order: Tensor) -> Tensor:
    """Weight at each place, (R, K, m), for weights (R, n), order (K, m)."""
    shape = (len(weights), *order.shape)
    return weights[:, None].expand(*shape[:2], -1).gather(-1, order.expand(shape))


def _distribution(ranked: Tensor) -> Tensor:
    """Cumulative share of the weights at places (R, K, m), computed in place."""
    running = ranked.cumsum_(-1)
    return running.div_(running[..., -1:].clone())


def ks_gap(sample: Sample, center: Sample | None = None, *, notion: Notion) -> Tensor:
    """Combine the KS distances of A inside each set of rows, as in the paper; (R, K)."""
    around = None if center is None else center.weights

    def distances(ranking: Ranking, _rows: Tensor) -> Tensor:
        return ks_distances(ranking, sample.attribute, sample.weights, around)

    return _combined(sample, notion, distances)


def _combined(
    sample: Sample, notion: Notion, of_sets: Callable[[Ranking, Tensor], Tensor]
) -> Tensor:
    """Combine numbers (R, K, sets of A) inside each set of rows, as the paper does; (R, K).

    of_sets takes the ranking of the rows inside, and which they are, (n,).
    """
    within = sample.within(notion)
    gaps = []
    for s in range(within.n_sets):
        rows = within.inside(s)
        ranking = sample.scored.ranking
        if not bool(rows.all()):
            ranking = ranking.restrict(rows)
        gaps.append(sample.attribute.combine(of_sets(ranking, rows), -1))
    return within.combine(torch.stack(gaps, dim=-1), -1)


def ks_missed(sample: Sample, *, notion: Notion) -> Tensor:
    """How much `ks_gap` of a bootstrap draw around the sample falls short, on average, (K,).

    A draw puts its rows on the scores of the sample. So their distance is read at these scores
    only, and what lies between is missed. Nothing lies between equal scores, and draws of sets with
    fewer than `SMALL_GROUP` rows are not limited to their scores.
    """
    people = sample.scored.people

    def missed(ranking: Ranking, rows: Tensor) -> Tensor:
        weights = sample.weights[0] * rows
        inside = [weights * sample.attribute.inside(j) for j in range(sample.attribute.n_sets)]
        of_sets = torch.stack(
            [
                ((each.square() / people).sum() / each.sum() ** 2)
                * (people[each > 0].sum() >= SMALL_GROUP)
                for each in inside
            ]
        )
        distinct = ranking.ends.to(weights.dtype).sum(-1) / people[rows].sum()
        return _MISSED * distinct[None, :, None] * of_sets

    return _combined(sample, notion, missed)[0]


def _compute(sample: Sample, notion: Notion) -> Computed:
    values = ks_gap(sample, notion=notion)
    # Sets do not depend on the score, so all members have the same reason.
    undefined = bool(values[0].isnan().any())
    reason = sample.empty_set(sample.within(notion)) if undefined else None
    return Computed(values, (reason,) * len(values[0]))


for _name, _notion, _description, _formula in (
    (
        "KS-GSP",
        Notion.INDEPENDENCE,
        "Distance between the score distributions of the groups and that of everybody.",
        "discrete A: sum over a of max over s of |P(score<=s | A=a) - P(score<=s)|; "
        "continuous A: mean over the nine deciles a, with A<=a instead of A=a",
    ),
    (
        "KS-GEO",
        Notion.SEPARATION,
        "KS-GSP among rows of equal outcome, summed over the outcomes.",
        "discrete Y: sum over y of KS-GSP among the rows with Y=y; "
        "continuous Y: mean over the nine deciles y of KS-GSP among the rows with Y<=y",
    ),
):
    register_metric(
        Metric(
            name=_name,
            notion=_notion,
            description=_description,
            formula=_formula,
            compute=partial(_compute, notion=_notion),
            # Among rows with Y <= y the groups differ in Y itself, and so do their scores.
            exact_for=frozenset(
                {"binary", "multiclass"} if _notion is Notion.SEPARATION else get_args(OutcomeKind)
            ),
            rank_based=True,
            deviation=partial(ks_gap, notion=_notion),
            missed=partial(ks_missed, notion=_notion),
        )
    )
