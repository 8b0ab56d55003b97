"""Many rows summed up into few, so that a bootstrap of a million rows costs what one of few does.

Metrics that need only the weight of every (score, set of A, set of Y) do not change when rows that
agree in all three become one row that counts for all. Scores are first cut into bins, narrow enough
that the metrics hardly move; the bound is computed and reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.metrics.partition import Partition, everybody
from equipoise.metrics.ranking import rank
from equipoise.metrics.sample import Sample, Scored

# Score bins per sample, shared out among the sets of Y. At 4096 the bound below is at most 1/2048
# per distance with a binary Y, and what it bounds is far smaller: see docs/metrics.md.
SCORE_EDGES = 4096


@dataclass(frozen=True, eq=False)
class Compressed:
    """One member's sample, summed up.

    Attributes
    ----------
    sample : Sample
        Scores (1, m), weights (1, m): how many rows each stands for. Its column is still that of
        all rows, so only metrics with a `deviation` may look at it.
    bin_share : float
        Largest share that scores of one bin have of a set of Y, bins of one score left out. A
        Kolmogorov-Smirnov distance computed from bins lies at most this much below the exact one:
        inside a bin, F(score | set) - F(score) stays within the pooled share of the bin from its
        value at one of the two ends. Decision rates do not move; a mean score moves by at most the
        width of its bin.
    """

    sample: Sample
    bin_share: float


def compress(sample: Sample, member: int) -> Compressed:
    """Sum up the rows of one member that share score bin, set of A and set of Y.

    Rows of weight 0 under the first weighting are left out. The threshold is a bin edge, so that
    every bin is decided as a whole.
    """
    scored = sample.scored
    kept = (sample.weights[0] > 0).nonzero()[:, 0]
    scores, weights = scored.scores[member, kept], sample.weights[0, kept]
    outcome = scored.outcome if scored.outcome is not None else sample.everybody
    outcome, attribute = outcome.take(kept), sample.attribute.take(kept)
    edges = _edges(scores, outcome)
    if scored.threshold is not None:
        threshold = scored.threshold[member]
        below = scores[scores <= threshold]  # the last score that is not decided positive
        if len(below):
            edges = torch.cat([edges, below.max()[None]])
    edges = torch.unique(edges)
    # Even bins lie strictly between two edges, odd bins are one edge: a score of its own.
    bins = torch.searchsorted(edges, scores, side="left") + torch.searchsorted(
        edges, scores, side="right"
    )
    n_bins = 2 * len(edges) + 1
    cells = (bins * attribute.n_bins + attribute.codes) * outcome.n_bins + outcome.codes
    n_cells = n_bins * attribute.n_bins * outcome.n_bins
    counts = torch.bincount(cells, weights=weights, minlength=n_cells)
    occupied = counts.nonzero()[:, 0]
    means = _means(scores, weights, bins, n_bins)
    bin_of = occupied // (attribute.n_bins * outcome.n_bins)
    summed = means[bin_of][None]
    summed_scored = Scored(
        scores=summed,
        ranking=rank(summed),
        weights=counts[occupied][None],
        threshold=None if scored.threshold is None else scored.threshold[member : member + 1],
        outcome=Partition(occupied % outcome.n_bins, outcome.labels, outcome.nested)
        if scored.outcome is not None
        else None,
        outcome_kind=scored.outcome_kind,
        y=None,
    )
    groups = Partition(
        occupied // outcome.n_bins % attribute.n_bins, attribute.labels, attribute.nested
    )
    rows = Sample(summed_scored, sample.column, summed_scored.weights, groups, sample.references)
    return Compressed(rows, _bin_share(bins, weights, n_bins, outcome))


def _edges(scores: Tensor, outcome: Partition) -> Tensor:
    """Scores at equal steps of rank inside each bin of Y, so that no set of Y has a heavy bin."""
    edges = []
    for code in range(outcome.n_bins):
        inside = scores[outcome.codes == code].sort().values
        step = max(1, len(inside) * outcome.n_bins // SCORE_EDGES)
        edges.append(inside[step - 1 :: step])
    return torch.cat(edges)


def _means(scores: Tensor, weights: Tensor, bins: Tensor, n_bins: int) -> Tensor:
    """Mean score of each bin, kept between its smallest and largest score despite rounding."""
    totals = torch.bincount(bins, weights=weights * scores, minlength=n_bins)
    means = totals / torch.bincount(bins, weights=weights, minlength=n_bins)
    low = torch.full_like(means, torch.inf).scatter_reduce(0, bins, scores, "amin")
    high = torch.full_like(means, -torch.inf).scatter_reduce(0, bins, scores, "amax")
    return torch.minimum(torch.maximum(means, low), high)


def _bin_share(bins: Tensor, weights: Tensor, n_bins: int, outcome: Partition) -> float:
    """Largest share of a bin between edges in all rows or in a set of Y; 0 without such bins."""
    largest = 0.0
    for sets in (outcome, everybody(len(bins), bins.device)):
        cells = bins * sets.n_bins + sets.codes
        sums = torch.bincount(cells, weights=weights, minlength=n_bins * sets.n_bins)
        pooled = sets.pool(sums.view(n_bins, sets.n_bins), -1)
        shares = (pooled / pooled.sum(0))[::2]
        largest = max(largest, float(shares.max()))
    return largest
