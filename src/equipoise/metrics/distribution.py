"""Kolmogorov-Smirnov distances between score distributions: KS-GSP and KS-GEO of the paper.

They look at the whole distribution of the score, not at one threshold, so they see unfairness that
no decision shows yet. Formulas: section 5 and supplements D.2, D.3 of Sohn, Song and Lin (2024).
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.metrics.partition import Partition, Ranking
from equipoise.metrics.registry import Computed, Metric, register_metric
from equipoise.metrics.sample import Sample
from equipoise.notions import Notion

# Members are taken in blocks of about this many (weighting, member, row) numbers: 4 MiB of float64
# stay in the processor's cache, and memory does not grow with K.
_BLOCK = 2**19


def ks_distances(
    ranking: Ranking, sets: Partition, weights: Tensor, center: Tensor | None = None
) -> Tensor:
    """Largest |F(score | set) - F(score)| over all scores, for each set.

    Both are weighted empirical distribution functions over the ranked rows, compared at distinct
    scores. With a center, that difference under the center's weights is subtracted before the
    largest is taken.

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
            inside = sets.contains(sets.codes, j).to(weights.dtype)[None]
            # Of several weightings, one set of rows is put in order rather than all the weights.
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
    """Share of the weight at or before each place, for weights at places (R, K, m); in place."""
    running = ranked.cumsum_(-1)
    return running.div_(running[..., -1:].clone())


def ks_gap(sample: Sample, within: Partition, center: Sample | None = None) -> Tensor:
    """Combine, as the paper does, the KS distances of A inside each set of `within`; (R, K)."""
    around = None if center is None else center.weights
    gaps = []
    for s in range(within.n_sets):
        rows = within.contains(within.codes, s)
        ranking = sample.scored.ranking
        if not bool(rows.all()):
            ranking = ranking.restrict(rows)
        distances = ks_distances(ranking, sample.attribute, sample.weights, around)
        gaps.append(sample.attribute.combine(distances, -1))
    return within.combine(torch.stack(gaps, dim=-1), -1)


def explain(sample: Sample, within: Partition, values: Tensor) -> tuple[str | None, ...]:
    """Why the values are undefined under the first weighting: a set of rows is empty.

    Which rows belong to a set does not depend on the score, so all members share the reason.
    """
    if not bool(values[0].isnan().any()):
        return (None,) * len(values[0])
    present = sample.weights[0] > 0
    for s, place in enumerate(within.labels):
        inside = present & within.contains(within.codes, s)
        for g, group in enumerate(sample.attribute.labels):
            if not bool((inside & sample.attribute.contains(sample.attribute.codes, g)).any()):
                return (f"no row has {group} in {place}",) * len(values[0])
    raise AssertionError("an undefined KS distance has an empty set")


def _ks_gsp(sample: Sample) -> Computed:
    values = ks_gap(sample, sample.everybody)
    return Computed(values, explain(sample, sample.everybody, values))


def _ks_geo(sample: Sample) -> Computed:
    values = ks_gap(sample, sample.outcome)
    return Computed(values, explain(sample, sample.outcome, values))


register_metric(
    Metric(
        name="KS-GSP",
        notion=Notion.INDEPENDENCE,
        description="Distance between the groups' score distributions and that of everybody.",
        formula=(
            "discrete A: sum over a of max over s of |P(score<=s | A=a) - P(score<=s)|; "
            "continuous A: mean over the nine deciles a, with A<=a instead of A=a"
        ),
        compute=_ks_gsp,
        attributes=frozenset({"discrete", "continuous"}),
        outcomes=frozenset({"binary", "multiclass", "continuous"}),
        needs_decisions=False,
        rank_based=True,
        deviation=lambda sample, center: ks_gap(sample, sample.everybody, center),
    )
)
register_metric(
    Metric(
        name="KS-GEO",
        notion=Notion.SEPARATION,
        description="KS-GSP among rows of equal outcome, added up over the outcomes.",
        formula=(
            "discrete Y: sum over y of KS-GSP among the rows with Y=y; "
            "continuous Y: mean over the nine deciles y of KS-GSP among the rows with Y<=y"
        ),
        compute=_ks_geo,
        attributes=frozenset({"discrete", "continuous"}),
        outcomes=frozenset({"binary", "multiclass", "continuous"}),
        needs_decisions=False,
        rank_based=True,
        deviation=lambda sample, center: ks_gap(sample, sample.outcome, center),
    )
)
