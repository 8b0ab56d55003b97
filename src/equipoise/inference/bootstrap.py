"""Bootstrap intervals for every registered metric, and for utility.

A draw is a vector of row counts, so all draws share one sorting of the scores. Rows are drawn with
replacement. The deciles of A and Y, the reference group and the decision threshold stay those of
the sample: the interval is about one fixed question.

Unfairness is the size of a departure from fairness. Near 0 a size is biased upwards in draws, and
the usual intervals fail; the signed departure behaves. So every draw measures d = size(departure of
the draw - departure of the sample). Two sizes differ by at most the size of the difference. So
[value - q, value + q], with q the `level` quantile of d, covers the truth with at least that
probability in large samples, fair or not (bootstrap of empirical distribution functions: Gine and
Zinn 1990). docs/metrics.md says more.

Many rows are first summed up. A metric that needs only the weight of every (score, set of A, set of
Y) does not change when rows that agree in all three become one row that counts for all of them.
Scores are cut into bins for that; how far a distance can move is computed and reported.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import check_level, check_whole
from equipoise.inference.estimate import Estimate, notes
from equipoise.metrics.outcome import OutcomeKind, equal_frequency
from equipoise.metrics.partition import Partition, everybody, rank
from equipoise.metrics.registry import Metric, find_metric
from equipoise.metrics.sample import Sample, Scored, Threshold, UtilityMeasure, prepare
from equipoise.tables import SensitiveColumn, SensitiveTable

Floats = NDArray[np.float64]

#: Up to this many rows every row is drawn by itself; above it, rows are summed up first.
EXACT_ROWS = 20_000
#: Bins of the score, shared out among the sets of Y. With 4096 a distance moves by at most 1/2048
#: for a binary Y, and by far less in practice: see docs/metrics.md.
SCORE_EDGES = 4096
# Draws are taken in blocks of about this many counts: 32 MiB, whatever the number of rows.
_BLOCK = 2**22
_LIMITS = {"AUC": (0.0, 1.0), "R2": (-math.inf, 1.0), "MAE": (0.0, math.inf)}


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
) -> tuple[Estimate, ...]:
    """Metrics of K scores against sensitive columns, with intervals.

    Parameters
    ----------
    metrics : iterable of str or Metric
    scores : array or tensor, shape (n,) or (K, n)
    columns : SensitiveTable or sequence of SensitiveColumn
    y, threshold, outcome
        As in `equipoise.metrics.measure`.
    weights : array of shape (n,), optional
        How many rows each row stands for. Every row is drawn with the same probability and keeps
        its weight.
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
    tuple of Estimate
        For every column, metric and member, in this order. A metric that is not defined for a
        column is there too, with the reason.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = SensitiveTable.from_data({"sex": np.arange(400) % 2})
    >>> scores = rng.normal(size=400) + table["sex"].codes
    >>> (found,) = bootstrap(["KS-GSP"], scores, table)
    >>> round(found.low, 2), round(found.value, 2), round(found.high, 2)
    (0.34, 0.46, 0.59)
    """
    check_whole("draws", draws, least=2)
    check_level(level)
    chosen = [find_metric(metric) if isinstance(metric, str) else metric for metric in metrics]
    attributes = columns.columns if isinstance(columns, SensitiveTable) else tuple(columns)
    scored = prepare(scores, y, weights=weights, threshold=threshold, outcome=outcome)
    out: list[Estimate] = []
    for column in attributes:
        sample = scored.against(column, (references or {}).get(column.name))
        out.extend(estimates_of(chosen, sample, draws, level, random_state))
    return tuple(out)


def estimates_of(
    metrics: Sequence[Metric], sample: Sample, draws: int, level: float, seed: int
) -> Iterator[Estimate]:
    """Every metric of every member, in this order; each draw serves all metrics."""
    members, n = sample.scored.scores.shape
    known = int((~sample.column.missing).sum())
    problems = {metric.name: metric.why_not(sample) for metric in metrics}
    exact = {m.name: m.compute(sample) for m in metrics if problems[m.name] is None}
    # A summed-up row stands for whole rows, which rows with weights are not.
    many = n > EXACT_ROWS and bool((sample.scored.weights == 1).all())
    by_count = [m for m in metrics if m.name in exact and m.deviation and m.from_counts and many]
    by_row = [m for m in metrics if m.name in exact and m not in by_count]
    drawn, shares = _draw_counts(by_count, sample, draws, seed)
    drawn |= _draw_rows(by_row, sample, draws, seed)
    for metric in metrics:
        for k in range(members):
            reason = problems[metric.name] or exact[metric.name].reasons[k]
            if reason is not None:
                yield Estimate(level=level, n=known, reason=reason)
                continue
            value = float(exact[metric.name].values[0, k])
            found = drawn[metric.name][:, k]
            kept = found[~np.isnan(found)]
            low, high = (
                basic_interval(value, kept, level, metric.range)
                if metric.deviation is None
                else deviation_interval(value, kept, level, metric)
            )
            undefined, share = draws - len(kept), shares[k] if metric in by_count else 0.0
            left_out = f"undefined in {undefined} of {draws} draws, which are left out"
            binned = f"draws from binned scores, which move a distance by at most {share:.2g}"
            note = notes(left_out if undefined else "", binned if share else "")
            yield Estimate(value=value, low=low, high=high, level=level, n=known, note=note)


def deviation_interval(
    value: float, deviations: Floats, level: float, metric: Metric
) -> tuple[float, float]:
    """Value plus and minus the `level` quantile of the deviations (R,), cut to the metric's range.

    Ratios exp(-size) are treated on the scale of the size.
    """
    if len(deviations) == 0:
        return np.nan, np.nan
    reach = upper_quantile(deviations, level)
    if metric.is_ratio:
        return value * math.exp(-reach), min(value * math.exp(reach), 1.0)
    smallest, largest = metric.range
    return max(value - reach, smallest), min(value + reach, largest)


def upper_quantile(deviations: Floats, level: float) -> float:
    """The deviation that a further one exceeds with probability at most 1 - level."""
    # Of R + 1 that are alike, number ceil(level (R + 1)) in order; at most the largest of R.
    position = min(math.ceil(level * (len(deviations) + 1)), len(deviations))
    return float(np.sort(deviations)[position - 1])


def basic_interval(
    value: float, draws: Floats, level: float, limits: tuple[float, float]
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
    low, high = np.clip(2 * value - np.quantile(draws, [1 - tail, tail]), *limits).tolist()
    return low, high


def row_counts(draws: int, n: int, seed: int) -> Iterator[tuple[Floats, list[NDArray[np.int64]]]]:
    """Rows drawn with replacement, in blocks: counts (block, n), and the rows of each draw."""
    random = np.random.default_rng(seed)
    for size in _blocks(draws, n):
        picked = [random.integers(n, size=n) for _ in range(size)]
        counts = np.stack([np.bincount(rows, minlength=n) for rows in picked])
        yield counts.astype(np.float64), picked


def _draw_rows(
    metrics: Sequence[Metric], sample: Sample, draws: int, seed: int
) -> dict[str, Floats]:
    """Deviations, or else values, (draws, K) of each metric on rows drawn with replacement."""
    device = sample.weights.device
    values: dict[str, list[Tensor]] = {metric.name: [] for metric in metrics}
    for counts, picked in row_counts(draws, sample.weights.shape[-1], seed) if metrics else ():
        drawn = torch.from_numpy(counts).to(device)
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
) -> tuple[dict[str, Floats], Floats]:
    """Deviations (draws, K) of each metric on rows summed up, and the heaviest bin's share (K,)."""
    members = len(sample.scored.scores)
    shares = np.zeros(members)
    values = {metric.name: np.empty((draws, members)) for metric in metrics}
    for k in range(members if metrics else 0):
        small, shares[k] = compress(sample, k)
        done = 0
        for drawn in multinomial_counts(small.weights[0].cpu().numpy(), draws, seed):
            resampled = replace(small, weights=torch.from_numpy(drawn).to(small.weights.device))
            for metric in metrics:
                assert metric.deviation is not None
                found = metric.deviation(resampled, small)[:, 0].cpu().numpy()
                values[metric.name][done : done + len(drawn), k] = found
            done += len(drawn)
    return values, shares


def multinomial_counts(counts: Floats, draws: int, seed: int) -> Iterator[Floats]:
    """Counts (block, m) of draws of as many rows as `counts` (m,) stand for, in blocks."""
    random = np.random.default_rng(seed)
    total = int(counts.sum())
    for size in _blocks(draws, len(counts)):
        yield random.multinomial(total, counts / total, size=size).astype(np.float64)


def _blocks(draws: int, n: int) -> Iterator[int]:
    size = max(1, _BLOCK // n)
    yield from (min(size, draws - done) for done in range(0, draws, size))


def compress(sample: Sample, member: int) -> tuple[Sample, float]:
    """Sum up the rows of one member that share score bin, set of A and set of Y.

    Returns a sample of m rows, whose weights say how many each stands for. Its column is still that
    of all rows, so only metrics with a `deviation` may look at it.

    Also returns the largest share that the scores of one bin have of a set of Y, bins of one score
    left out. A Kolmogorov-Smirnov distance computed from bins lies at most this much below the
    exact one: inside a bin, F(score | set) - F(score) stays within the pooled share of the bin from
    its value at one of the two ends. Decision rates do not move, since the threshold is an edge; a
    mean score moves by at most the width of its bin.
    """
    scored = sample.scored
    kept = (sample.weights[0] > 0).nonzero()[:, 0]
    scores, weights = scored.scores[member, kept], sample.weights[0, kept]
    outcome = scored.outcome if scored.outcome is not None else sample.everybody
    outcome, attribute = outcome.take(kept), sample.attribute.take(kept)
    edges = _edges(scores, outcome)
    threshold = None if scored.threshold is None else scored.threshold[member : member + 1]
    if threshold is not None:
        below = scores[scores <= threshold]  # the last score that is not decided positive
        edges = torch.cat([edges, below.max()[None]]) if len(below) else edges
    edges = torch.unique(edges)
    # Even bins lie strictly between two edges, odd bins are one edge: a score of its own.
    left, right = (torch.searchsorted(edges, scores, side=side) for side in ("left", "right"))
    bins = left + right
    n_bins = 2 * len(edges) + 1
    cells = (bins * attribute.n_bins + attribute.codes) * outcome.n_bins + outcome.codes
    n_cells = n_bins * attribute.n_bins * outcome.n_bins
    counts = torch.bincount(cells, weights=weights, minlength=n_cells)
    occupied = counts.nonzero()[:, 0]
    means = _means(scores, weights, bins, n_bins)
    summed = means[occupied // (attribute.n_bins * outcome.n_bins)][None]
    groups = replace(attribute, codes=occupied // outcome.n_bins % attribute.n_bins)
    of_outcome = replace(outcome, codes=occupied % outcome.n_bins)
    rows = Scored(
        summed,
        rank(summed),
        counts[occupied][None],
        threshold,
        None if scored.outcome is None else of_outcome,
        scored.outcome_kind,
        None,
    )
    small = Sample(rows, sample.column, rows.weights, groups, sample.references)
    return small, _bin_share(bins, weights, n_bins, outcome)


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


def utility_intervals(
    scored: Scored,
    measures: Sequence[UtilityMeasure],
    *,
    columns: int = 1,
    draws: int,
    level: float,
    random_state: int,
) -> tuple[tuple[Estimate, ...], ...]:
    """AUC, R2 or MAE of each of E models, scores (E * columns, n), by every measure.

    These are smooth functions of means, so the basic bootstrap interval is the right one. Every
    draw serves all models and measures; a model gets the interval it would get alone. `columns` is
    as in `Scored.utility`. AUC needs only how many positives and negatives have each score: above
    `EXACT_ROWS` rows, scores are first cut into bins of equal rank, which moves an AUC by at most
    half the share of a bin.

    >>> from equipoise.metrics import prepare
    >>> y = np.arange(400) % 2
    >>> scored = prepare(np.random.default_rng(0).normal(size=400) + y, y)
    >>> ((found,),) = utility_intervals(scored, ["AUC"], draws=200, level=0.95, random_state=0)
    >>> round(found.low, 2), round(found.value, 2), round(found.high, 2)
    (0.75, 0.79, 0.83)
    """
    n = scored.scores.shape[-1]
    countable = list(measures) == ["AUC"] and columns == 1 and bool((scored.weights == 1).all())
    drawn = (
        [_auc_of_counts(scored, draws, random_state)]
        if countable and n > EXACT_ROWS
        else _utilities(scored, measures, columns, draws, random_state)
    )
    found = []
    for measure, of_draws in zip(measures, drawn, strict=True):
        values = scored.utility(measure, columns=columns)[0].tolist()
        found.append(
            tuple(
                _utility_estimate(value, of_model, level, _LIMITS[measure], n)
                for value, of_model in zip(values, of_draws.T, strict=True)
            )
        )
    return tuple(found)


def _utility_estimate(
    value: float, drawn: Floats, level: float, limits: tuple[float, float], n: int
) -> Estimate:
    if not math.isfinite(value):
        reason = f"a float cannot hold it, {value}; rescale scores and y"
        return Estimate(level=level, n=n, reason=reason)
    # A draw without a class, or of a single outcome, says nothing about utility.
    low, high = basic_interval(value, drawn[np.isfinite(drawn)], level, limits)
    return Estimate(value=value, low=low, high=high, level=level, n=n)


def _utilities(
    scored: Scored, measures: Sequence[UtilityMeasure], columns: int, draws: int, seed: int
) -> list[Floats]:
    """Utilities (draws, E) of rows drawn with replacement, by every measure."""
    found: list[list[Tensor]] = [[] for _ in measures]
    for counts, _ in row_counts(draws, scored.scores.shape[-1], seed):
        weights = torch.from_numpy(counts).to(scored.weights.device) * scored.weights
        resampled = replace(scored, weights=weights)
        for values, measure in zip(found, measures, strict=True):
            values.append(resampled.utility(measure, columns=columns))
    return [torch.cat(values).cpu().numpy() for values in found]


def _auc_of_counts(scored: Scored, draws: int, seed: int) -> Floats:
    """AUC (draws, K) from drawn counts of (bin of the score, class), moved to the exact value."""
    assert scored.y is not None
    positive = scored.y.cpu().numpy().astype(np.int64)
    columns = []
    for score, value in zip(scored.scores.cpu().numpy(), scored.utility("AUC")[0], strict=True):
        bins = equal_frequency(score, SCORE_EDGES)
        levels = int(bins.max()) + 1
        counts = np.bincount(2 * bins + positive, minlength=2 * levels).astype(np.float64)
        scores = torch.arange(levels, dtype=torch.float64).repeat_interleave(2)[None]
        small = replace(
            scored,
            scores=scores,
            ranking=rank(scores),
            weights=torch.from_numpy(counts)[None],
            y=torch.tensor([0.0, 1.0], dtype=torch.float64).repeat(levels),
        )
        found = [
            replace(small, weights=torch.from_numpy(drawn)).utility("AUC")[:, 0]
            for drawn in multinomial_counts(counts, draws, seed)
        ]
        columns.append(torch.cat(found) - small.utility("AUC")[0, 0] + float(value))
    return torch.stack(columns, dim=1).numpy()
