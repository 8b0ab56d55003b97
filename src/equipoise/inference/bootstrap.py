"""Bootstrap intervals for every registered metric.

A draw is a vector of row counts, so all draws share one sorting of the scores. Rows are drawn with
replacement; the deciles of A and Y, the reference group and the decision threshold stay those of
the sample, so that the interval is about one fixed question.

Unfairness is the size of a departure from fairness: a largest difference, an absolute value. Near 0
the bootstrap distribution of a size lies too far up and the usual intervals fail: percentile ones
never contain 0, basic ones too rarely. The departure itself, with its sign, behaves. So the draws
measure d = size(departure of the draw - departure of the sample), and since two sizes differ by at
most the size of the difference, [value - q, value + q] with q the `level` quantile of d covers the
truth with at least that probability in large samples, fair or not. Coverage is measured in
docs/metrics.md. (The bootstrap of empirical distribution functions: Gine and Zinn 1990.)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import check_level, check_whole
from equipoise.metrics.outcome import OutcomeKind
from equipoise.metrics.partition import Partition, everybody, rank
from equipoise.metrics.registry import Metric, find_metric
from equipoise.metrics.sample import Sample, Scored, Threshold, prepare
from equipoise.tables import SensitiveColumn, SensitiveTable

# Up to this many rows every row is drawn by itself; above it, rows are summed up first.
EXACT_ROWS = 20_000
# Draws are taken in blocks of about this many counts: 32 MiB, whatever the number of rows.
_BLOCK = 2**22


@dataclass(frozen=True)
class Interval:
    """A metric of one member against one column, with its bootstrap interval.

    Attributes
    ----------
    metric, attribute : str
    member : int
        Which of the K scores.
    value : float
        Of the sample; NaN where undefined.
    low, high : float
        NaN where the value is undefined.
    reason : str or None
        Why the value is undefined.
    undefined_draws : int
        Draws in which the metric was undefined; the interval rests on the others.
    bin_share : float
        0 where every row was drawn by itself; else how far a Kolmogorov-Smirnov distance can move
        because scores were cut into bins (`equipoise.inference.bootstrap.Compressed`).
    """

    metric: str
    attribute: str
    member: int
    value: float
    low: float
    high: float
    reason: str | None
    undefined_draws: int
    bin_share: float


def bootstrap(
    metrics: Iterable[str | Metric],
    scores: Any,
    columns: SensitiveTable | Sequence[SensitiveColumn],
    y: Any = None,
    *,
    weights: Any = None,
    draws: int = 200,
    level: float = 0.95,
    random_state: int = 0,
    threshold: Threshold = "paper",
    outcome: OutcomeKind | None = None,
    references: Mapping[str, Hashable] | None = None,
) -> tuple[Interval, ...]:
    """Intervals of metrics for K scores against sensitive columns.

    Parameters
    ----------
    metrics : iterable of str or Metric
    scores : array or tensor, shape (n,) or (K, n)
    columns : SensitiveTable or sequence of SensitiveColumn
    y, threshold, outcome
        As in `equipoise.metrics.measure`.
    weights : array of shape (n,), optional
        How many rows each row stands for. Rows are drawn with equal chances, each with its weight.
    draws : int
        At least 2; fewer than level / (1 - level) cannot reach the level.
    level : float
        Strictly between 0 and 1.
    random_state : int
        The same number gives the same intervals.
    references : mapping of column name to category, optional
        Reference groups of SP and EO; the largest group where not named.

    Returns
    -------
    tuple of Interval
        For every column, metric and member, in this order. A metric that is not defined for a
        column is there too, with the reason.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = SensitiveTable.from_data({"sex": np.arange(400) % 2})
    >>> scores = rng.normal(size=400) + table["sex"].codes
    >>> (interval,) = bootstrap(["KS-GSP"], scores, table)
    >>> round(interval.low, 2), round(interval.value, 2), round(interval.high, 2)
    (0.34, 0.46, 0.59)
    """
    check_whole("draws", draws, least=2)
    check_level(level)
    chosen = [find_metric(metric) if isinstance(metric, str) else metric for metric in metrics]
    attributes = columns.columns if isinstance(columns, SensitiveTable) else tuple(columns)
    scored = prepare(scores, y, weights=weights, threshold=threshold, outcome=outcome)
    out: list[Interval] = []
    for column in attributes:
        sample = scored.against(column, (references or {}).get(column.name))
        out.extend(intervals_of(chosen, sample, draws, level, random_state))
    return tuple(out)


def deviation_interval(
    value: float, deviations: NDArray[np.float64], level: float, metric: Metric
) -> tuple[float, float]:
    """Value plus and minus the `level` quantile of the deviations, cut to the metric's range.

    The quantile is the smallest deviation that a further one exceeds with probability at most
    1 - level, if all are alike: number ceil(level (R + 1)) of R in order, or the largest.
    Ratios exp(-size) are treated on the scale of the size. deviations: (R,) without NaN.
    """
    position = min(math.ceil(level * (len(deviations) + 1)), len(deviations))
    reach = float(np.sort(deviations)[position - 1])
    if metric.is_ratio:
        return value * math.exp(-reach), min(value * math.exp(reach), 1.0)
    smallest, largest = metric.range
    return max(value - reach, smallest), min(value + reach, largest)


def basic_interval(
    value: float, draws: NDArray[np.float64], level: float, limits: tuple[float, float]
) -> tuple[float, float]:
    """The basic (reflected) bootstrap interval, cut to the range of the metric.

    [2 value - q(1 - t), 2 value - q(t)], with t = (1 - level) / 2 and q the quantiles of the draws
    (Davison and Hinkley 1997, section 5.2.1). For metrics that are no seminorm of departures.

    draws: (R,) without NaN; NaN without draws.

    >>> basic_interval(0.1, np.array([0.05, 0.1, 0.15, 0.3]), 0.5, (0.0, 1.0))
    (0.012..., 0.1125)
    """
    if len(draws) == 0:
        return np.nan, np.nan
    tail = (1 - level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    smallest, largest = limits
    return (
        float(np.clip(2 * value - high, smallest, largest)),
        float(np.clip(2 * value - low, smallest, largest)),
    )


def intervals_of(
    metrics: Sequence[Metric], sample: Sample, draws: int, level: float, seed: int
) -> Iterator[Interval]:
    """Intervals of all metrics and members; every draw serves all metrics."""
    members, n = sample.scored.scores.shape
    problems = {metric.name: metric.why_not(sample) for metric in metrics}
    exact = {m.name: m.compute(sample) for m in metrics if problems[m.name] is None}
    # A summed-up row stands for whole rows, which rows with weights are not.
    many = n > EXACT_ROWS and bool((sample.scored.weights == 1).all())
    by_count = [m for m in metrics if m.name in exact and m.deviation and many]
    by_row = [m for m in metrics if m.name in exact and m not in by_count]
    drawn, shares = _draw_counts(by_count, sample, draws, seed)
    drawn |= _draw_rows(by_row, sample, draws, seed)
    for metric in metrics:
        for k in range(members):
            value, low, high, undefined = np.nan, np.nan, np.nan, 0
            reason = problems[metric.name]
            if reason is None:
                value = float(exact[metric.name].values[0, k])
                reason = exact[metric.name].reasons[k]
            if reason is None:
                column = drawn[metric.name][:, k]
                undefined = int(np.isnan(column).sum())
                if undefined < draws:
                    kept = column[~np.isnan(column)]
                    if metric.deviation is None:
                        low, high = basic_interval(value, kept, level, metric.range)
                    else:
                        low, high = deviation_interval(value, kept, level, metric)
            yield Interval(
                metric=metric.name,
                attribute=sample.column.name,
                member=k,
                value=value,
                low=low,
                high=high,
                reason=reason,
                undefined_draws=undefined,
                bin_share=float(shares[k]) if metric in by_count else 0.0,
            )


def _draw_rows(
    metrics: Sequence[Metric], sample: Sample, draws: int, seed: int
) -> dict[str, NDArray[np.float64]]:
    """Deviations, or else values, (draws, K) of each metric on rows drawn with replacement."""
    if not metrics:
        return {}
    n = sample.weights.shape[-1]
    generator = np.random.default_rng(seed)
    device = sample.weights.device
    values: dict[str, list[Tensor]] = {metric.name: [] for metric in metrics}
    for size in _blocks(draws, n):
        picked = [generator.integers(n, size=n) for _ in range(size)]
        counts = np.stack([np.bincount(rows, minlength=n) for rows in picked])
        drawn = torch.from_numpy(counts.astype(np.float64)).to(device)
        weighted = sample.reweight(drawn * sample.scored.weights)
        for metric in metrics:
            if metric.deviation is not None:
                values[metric.name].append(metric.deviation(weighted, sample))
            elif metric.weighted:
                values[metric.name].append(metric.compute(weighted).values)
            for rows in () if metric.weighted else picked:
                taken = sample.take(torch.from_numpy(rows).to(device))
                values[metric.name].append(metric.compute(taken).values)
    return {name: torch.cat(parts).cpu().numpy() for name, parts in values.items()}


def _draw_counts(
    metrics: Sequence[Metric], sample: Sample, draws: int, seed: int
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]]:
    """Deviations (draws, K) of each metric on rows summed up, and the heaviest bin's share (K,).

    Drawing single rows with replacement amounts to drawing the counts of summed-up rows from a
    multinomial.
    """
    members = len(sample.scored.scores)
    shares = np.zeros(members)
    values = {metric.name: np.empty((draws, members)) for metric in metrics}
    for k in range(members if metrics else 0):
        small = compress(sample, k)
        shares[k] = small.bin_share
        counts = small.sample.weights[0].cpu().numpy()
        total = int(counts.sum())
        generator = np.random.default_rng(seed)
        done = 0
        for size in _blocks(draws, len(counts)):
            drawn = generator.multinomial(total, counts / total, size=size).astype(np.float64)
            weights = torch.from_numpy(drawn).to(sample.weights.device)
            resampled = replace(small.sample, weights=weights)
            for metric in metrics:
                assert metric.deviation is not None
                found = metric.deviation(resampled, small.sample)[:, 0].cpu().numpy()
                values[metric.name][done : done + size, k] = found
            done += size
    return values, shares


def _blocks(draws: int, n: int) -> list[int]:
    """Sizes of the blocks the draws are taken in."""
    size = max(1, min(draws, _BLOCK // n))
    full, rest = divmod(draws, size)
    return [size] * full + ([rest] if rest else [])


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
