"""Bootstrap intervals for every registered metric, and for utility.

Rows are drawn with replacement. A draw is a vector of row counts, so all draws share one sorting of
the scores. The deciles of A and Y, the reference group and a given threshold stay those of the
sample: the interval answers one fixed question. A threshold that was found on the rows (Youden's)
is found again in every draw, so that the interval is about the metric at the best threshold of the
population.

Unfairness is the size of a departure from fairness. Near 0 the sizes of draws are biased upwards,
and the usual intervals fail. Signed departures have no such bias. So every draw measures
d = size(departure of the draw - departure of the sample). Two sizes differ by at most the size of
the difference. Hence [value - q, value + q], with q the `level` quantile of d, covers the truth
with at least this probability in large samples, fair or not (bootstrap of empirical distribution
functions: Gine and Zinn 1990). docs/metrics.md says more.

A group of a few rows does not show its own spread: all draws of a single row are the same. So if a
group or range (within a set of Y) has fewer than `SMALL_GROUP` rows, its rows are drawn from the
scores of all rows there, as if the group were like everybody. The largest error of a distribution
function has the same distribution for all of them. The error of a rate is largest near one half; so
for decisions rows are drawn a second time, half of them above the threshold, and the longer
interval counts.

Many rows are first summed up. A metric that needs only the weight of every (score, set of A, set of
Y) does not change if rows that agree in all three become one row with their total weight. For that,
scores are divided into bins; how much this can change a distance is computed and reported. Where
rows that were summed up have different weights, they become two rows, so that draws vary as much
(`of_equal_weight`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import ndtri
from torch import Tensor

from equipoise.errors import InputError, check_level, check_whole
from equipoise.inference.certificate import CERTIFIED, largest_distance
from equipoise.inference.dependence_intervals import dependence_interval
from equipoise.inference.estimate import Estimate, notes, upper_quantile
from equipoise.inference.gap import gap_estimates, in_bins
from equipoise.metrics.arrays import Floats, Integers
from equipoise.metrics.dependence import MEASURES
from equipoise.metrics.gap import GAPS
from equipoise.metrics.outcome import OutcomeKind, equal_frequency
from equipoise.metrics.partition import Partition, everybody, rank
from equipoise.metrics.registry import Computed, Metric, find_metric
from equipoise.metrics.sample import (
    SMALL_GROUP,
    Repeats,
    Sample,
    Scored,
    Threshold,
    UtilityMeasure,
    of_equal_weight,
    prepare,
)
from equipoise.metrics.utility import youden_of_weightings
from equipoise.notions import Notion
from equipoise.tables import SensitiveColumn, SensitiveTable
from equipoise.training.health import auc_spread

#: With more rows than this, rows are summed up before drawing.
EXACT_ROWS = 20_000
#: Bins of the score, divided among the sets of Y. With 4096 a distance changes by at most 1/2048
#: for a binary Y, and by far less in practice: see docs/metrics.md.
SCORE_EDGES = 4096
#: Note beside a metric of decisions at a threshold that was found on these rows.
THRESHOLD_FOUND = "the threshold was found on these rows, and again in every draw"
# Most rows that replace those of a small group.
_STAND_INS = 300
# Draws are made in blocks of about this many counts: 32 MiB, whatever the number of rows.
_BLOCK = 2**22
_LIMITS: Mapping[UtilityMeasure, tuple[float, float]] = {
    "AUC": (0.0, 1.0),
    "macro AUC": (0.0, 1.0),
    "R2": (-math.inf, 1.0),
    "D2 absolute error": (-math.inf, 1.0),
    "MAE": (0.0, math.inf),
}


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
        How many rows each row counts for. Every row is drawn with the same probability and keeps
        its weight.
    draws : int
        At least 2; with fewer than level / (1 - level) intervals cannot reach the level.
    level : float
        Strictly between 0 and 1.
    random_state : int
        The same number gives the same intervals.
    references : mapping of column name to category, optional
        Reference groups of SP and EO; the largest group by default.

    Returns
    -------
    tuple of Estimate
        For every column, metric and member, in this order. If a metric is not defined for a column,
        the estimate gives the reason.

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
    repeats = sample.scored.repeats
    known = int(sample.scored.people[torch.from_numpy(~sample.column.missing)].sum())
    problems = {metric.name: metric.why_not(sample) for metric in metrics}
    # Rows can be summed up only if each counts once; some arrive summed up.
    once = n > EXACT_ROWS and bool((sample.scored.weights == 1).all())
    many = repeats is not None or once
    exact: dict[str, Computed] = {}
    by_row: list[Metric] = []
    by_count: list[Metric] = []
    careful: list[Metric] = []
    for metric in metrics:
        # Gaps and measures of dependence have intervals of their own kinds.
        if problems[metric.name] or metric.name in GAPS or _dependence_measure(metric):
            continue
        exact[metric.name] = metric.compute(sample)
        countable = metric.deviation and metric.from_counts
        deviates = countable if many else metric.deviation
        found_here = metric.needs_decisions and sample.scored.threshold_found
        if deviates and (found_here or _small_cells(sample, metric.notion)):
            careful.append(metric)
        else:
            (by_count if many and countable else by_row).append(metric)
    drawn, shares = _draw_counts(by_count, sample, draws, seed)
    drawn |= _draw_rows(by_row, sample, draws, seed)
    drawn |= _draw_carefully(careful, sample, draws, seed, many=many)
    for metric in metrics:
        problem = problems[metric.name]
        short = np.zeros(members)
        if metric.missed is not None and metric.name in exact:
            blur = hidden_in_bins(sample, metric.notion)
            short = metric.missed(sample).cpu().numpy() + blur
        if problem is None and metric.name in GAPS:
            yield from gap_estimates(metric, sample, level=level, random_state=seed)
            continue
        for k in range(members):
            if problem is None and _dependence_measure(metric):
                yield _dependence(metric, sample, k, draws, level, seed)
                continue
            reason = problem or exact[metric.name].reasons[k]
            if reason is not None:
                yield Estimate(level=level, n=known, reason=reason)
                continue
            value = float(exact[metric.name].values[0, k])
            found = drawn[metric.name][:, k]
            kept = found[~np.isnan(found)] + short[k]
            low, high = (
                basic_interval(value, kept, level, metric.range)
                if metric.deviation is None
                else deviation_interval(value, kept, level, metric)
            )
            if metric.name in CERTIFIED:
                high = min(high, max(value, largest_distance(sample, metric.notion)))
            remarks = []
            if len(kept) < draws:
                undefined = draws - len(kept)
                remarks.append(f"undefined in {undefined} of {draws} draws, which are left out")
            if metric in by_count and shares[k]:
                remarks.append(
                    f"drawn from binned scores, which change a distance by at most {shares[k]:.2g}"
                )
            if metric in careful and metric.needs_decisions and sample.scored.threshold_found:
                remarks.append(THRESHOLD_FOUND)
            if metric.missed is not None:
                remarks.append(in_bins(blur))
            note = notes(*remarks)
            yield Estimate(value=value, low=low, high=high, level=level, n=known, note=note)


def hidden_in_bins(sample: Sample, notion: Notion | None) -> float:
    """By how much KS-GSP or KS-GEO may be too small because scores are in bins.

    Each of its distances may be, by at most the share of the set of Y that is in one bin
    (`compress`).
    """
    repeats = sample.scored.repeats
    if repeats is None:
        return 0.0
    bins = torch.from_numpy(np.unique(repeats.lowest, return_inverse=True)[1])
    within = sample.within(notion)
    cells = bins * within.n_bins + within.codes
    n_bins = int(bins.max()) + 1
    people = torch.bincount(cells, sample.weights[0], n_bins * within.n_bins)
    pooled = within.pool(people.view(n_bins, -1), -1)
    coarse = torch.bincount(bins, torch.from_numpy(repeats.coarse).to(people), n_bins) > 0
    shares = (pooled / pooled.sum(0) * coarse[:, None]).amax(0)
    of_sets = shares[:, None].expand(-1, sample.attribute.n_sets)
    return float(within.combine(sample.attribute.combine(of_sets, -1), -1))


def _dependence_measure(metric: Metric) -> str | None:
    """The measure of dependence behind a metric; None if it is another metric."""
    name = metric.name.removesuffix("|Y")
    return name if name in MEASURES else None


def _dependence(
    metric: Metric, sample: Sample, member: int, draws: int, level: float, seed: int
) -> Estimate:
    """Dependence of one member on the sample's column, with its interval."""
    scored = sample.scored
    y = scored.y if metric.needs_outcome else None
    if bool((scored.weights != 1).any()):
        raise InputError(f"{metric.name} does not take row weights; leave weights out")
    return dependence_interval(
        metric.name.removesuffix("|Y"),
        scored.scores[member].cpu().numpy(),
        SensitiveTable((sample.column,)),
        y=None if y is None else y.cpu().numpy(),
        outcome=None if y is None else scored.outcome_kind,
        draws=draws,
        level=level,
        random_state=seed,
    )


def deviation_interval(
    value: float, deviations: Floats, level: float, metric: Metric
) -> tuple[float, float]:
    """Value plus and minus the `level` quantile of the deviations (R,), within the metric's range.

    For a ratio exp(-size), the interval is made for the size.
    """
    if len(deviations) == 0:
        return np.nan, np.nan
    reach = upper_quantile(deviations, level)
    if metric.is_ratio and (value == 0 or math.isinf(reach)):
        return 0.0, 1.0  # a rate of 0 has no logarithm, and does not show how small the truth is
    if metric.is_ratio:
        return value * math.exp(-reach), min(value * math.exp(reach), 1.0)
    smallest, largest = metric.range
    return max(value - reach, smallest), min(value + reach, largest)


def basic_interval(
    value: float, draws: Floats, level: float, limits: tuple[float, float]
) -> tuple[float, float]:
    """The basic (reflected) bootstrap interval, within the limits of the metric.

    [2 value - q(1 - t), 2 value - q(t)], with t = (1 - level) / 2 and q the quantiles of the draws
    (Davison and Hinkley 1997, section 5.2.1), extended to include the value. It is for metrics
    without a `deviation`.

    draws: (R,) without NaN. Without draws, the interval is NaN.

    >>> basic_interval(0.5, np.array([0.4, 0.5, 0.7]), 0.5, (0.0, 1.0))
    (0.3..., 0.6)
    """
    if len(draws) == 0:
        return np.nan, np.nan
    tail = (1 - level) / 2
    # Position p (R + 1): a further draw exceeds this quantile with probability 1 - p.
    quantiles = np.quantile(draws, [1 - tail, tail], method="weibull")
    low, high = np.clip(2 * value - quantiles, *limits).tolist()
    return min(low, value), max(high, value)


def row_counts(draws: int, n: int, seed: int) -> Iterator[tuple[Floats, list[Integers]]]:
    """Draw rows with replacement, in blocks: counts (block, n), and the rows of each draw."""
    random = np.random.default_rng(seed)
    for size in _blocks(draws, n):
        picked = [random.integers(n, size=n) for _ in range(size)]
        counts = np.stack([np.bincount(rows, minlength=n) for rows in picked])
        yield counts.astype(np.float64), picked


def _draw_rows(
    metrics: Sequence[Metric], sample: Sample, draws: int, seed: int
) -> dict[str, Floats]:
    """Deviations (draws, K) of each metric, or its values, on rows drawn with replacement."""
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
    """Deviations (draws, K) of each metric on summed-up rows, and the largest bin's share (K,)."""
    members = len(sample.scored.scores)
    shares = np.zeros(members)
    values = {metric.name: np.empty((draws, members)) for metric in metrics}
    for k in range(members if metrics else 0):
        small, shares[k] = compress(sample, k)
        done = 0
        people = small.scored.people
        unit = small.weights[0] / people
        for drawn in multinomial_counts(people.cpu().numpy(), draws, seed):
            resampled = replace(small, weights=torch.from_numpy(drawn).to(unit.device) * unit)
            for metric in metrics:
                assert metric.deviation is not None
                found = metric.deviation(resampled, small)[:, 0].cpu().numpy()
                values[metric.name][done : done + len(drawn), k] = found
            done += len(drawn)
    return values, shares


def _small_cells(sample: Sample, notion: Notion | None) -> list[tuple[int, int]]:
    """Pairs of a bin of A and a bin of Y that have rows, but few in their sets of A and Y."""
    within, attribute = sample.within(notion), sample.attribute
    present = sample.weights[0] > 0
    bins = torch.bincount(
        (attribute.codes * within.n_bins + within.codes)[present],
        sample.scored.people[present],
        minlength=attribute.n_bins * within.n_bins,
    ).view(-1, within.n_bins)
    sets = within.pool(attribute.pool(bins, 0), 1)
    # The last bin of a nested variable ends no set.
    few = (sets < SMALL_GROUP) & (bins[: sets.shape[0], : sets.shape[1]] > 0)
    return [(group, part) for group, part in few.nonzero().tolist()]


def _draw_carefully(
    metrics: Sequence[Metric], sample: Sample, draws: int, seed: int, *, many: bool
) -> dict[str, Floats]:
    """Deviations (draws, K), with stand-ins for small groups and a threshold found in each draw."""
    members = len(sample.scored.scores)
    values = {metric.name: np.full((draws, members), np.nan) for metric in metrics}
    for notion in dict.fromkeys(metric.notion for metric in metrics):
        some = [metric for metric in metrics if metric.notion == notion]
        cells = _small_cells(sample, notion)
        twice = cells and sample.scored.threshold is not None
        for k, balanced in product(range(members), (False, True) if twice else (False,)):
            one = compress(sample, k)[0] if many else _member(sample, k)
            small = _with_stand_ins(one, notion, cells, balanced=balanced)
            random = np.random.default_rng(seed)
            blocks = [
                drawn_deviations(some, small.sample, weights)
                for weights in _drawn_weights(small, draws, random)
            ]
            for metric in some:
                found = torch.cat([block[metric.name] for block in blocks])
                # Sorted, so that the quantile of the maxima is the larger of the two quantiles.
                ordered = np.sort(found.cpu().numpy())
                values[metric.name][:, k] = np.fmax(values[metric.name][:, k], ordered)
    return values


def drawn_deviations(
    metrics: Sequence[Metric], sample: Sample, weights: Tensor
) -> dict[str, Tensor]:
    """Deviations (R,) of each metric of one member under weights (R, n)."""
    drawn = replace(sample, weights=weights, scored=replace(sample.scored, weights=weights))
    cuts = sample.scored.threshold
    if cuts is not None:
        own = cuts.expand(len(weights))
        if sample.scored.threshold_found:
            assert sample.scored.y is not None
            own = youden_of_weightings(sample.scored.ranking, sample.scored.y, weights)
        decided, center = _decided(sample, weights, own), _decided(sample, sample.weights, cuts)
    found = {}
    for metric in metrics:
        assert metric.deviation is not None
        if metric.needs_decisions and cuts is not None:
            found[metric.name] = metric.deviation(decided, center)[:, 0]
            found[metric.name].masked_fill_(own.isnan(), torch.nan)
        else:
            found[metric.name] = metric.deviation(drawn, sample)[:, 0]
    return found


def _decided(sample: Sample, weights: Tensor, cuts: Tensor) -> Sample:
    """Sum up rows (R, n) by decision at each draw's threshold (R,), set of A and set of Y.

    A metric of decisions needs only these sums.
    """
    scored = sample.scored
    outcome = scored.outcome if scored.outcome is not None else sample.everybody
    attribute = sample.attribute
    n_cells = 2 * attribute.n_bins * outcome.n_bins
    cells = 2 * (attribute.codes * outcome.n_bins + outcome.codes)
    index = cells + (scored.scores > cuts[:, None]).to(torch.int64)
    sums = torch.zeros((len(weights), n_cells), dtype=weights.dtype, device=weights.device)
    sums.scatter_add_(1, index.expand(len(weights), -1), weights)
    numbers = torch.arange(n_cells, device=weights.device)
    decisions = (numbers % 2).to(torch.float64)[None]
    rows = replace(
        scored,
        scores=decisions,
        ranking=rank(decisions),
        weights=sums,
        threshold=torch.full_like(cuts[:1], 0.5),
        outcome=None
        if scored.outcome is None
        else replace(outcome, codes=numbers // 2 % outcome.n_bins),
        y=None,
        repeats=None,
    )
    groups = replace(attribute, codes=numbers // 2 // outcome.n_bins)
    return Sample(rows, sample.column, sums, groups, sample.references)


class _DrawnRows(NamedTuple):
    """A sample of one member, and how its rows are drawn."""

    sample: Sample
    unit: Tensor  # (n,): weight that a row gains each time it is drawn
    #: First row, row after the last, probability of each row, and number of draws.
    blocks: tuple[tuple[int, int, Floats, int], ...]


def _drawn_weights(rows: _DrawnRows, draws: int, random: np.random.Generator) -> Iterator[Tensor]:
    """Weights (block, n) of drawn rows, in blocks of draws."""
    n, device = len(rows.unit), rows.unit.device
    for size in _blocks(draws, n):
        counts = np.zeros((size, n))
        for start, stop, shares, number in rows.blocks:
            if (shares == shares[0]).all():  # faster than a multinomial draw
                places = random.integers(start, stop, size=(size, number))
                for draw, picked in zip(counts, places, strict=True):
                    draw += np.bincount(picked, minlength=n)
            else:
                counts[:, start:stop] = random.multinomial(number, shares, size=size)
        yield torch.from_numpy(counts).to(device) * rows.unit


def _member(sample: Sample, member: int) -> Sample:
    """One member's rows with known A."""
    kept = (sample.weights[0] > 0).nonzero()[:, 0]
    scored, some = sample.scored, slice(member, member + 1)
    threshold = None if scored.threshold is None else scored.threshold[some]
    one = replace(scored, scores=scored.scores[some], threshold=threshold)
    rows = one.take(kept, sample.weights[:, kept])
    return Sample(rows, sample.column, rows.weights, sample.attribute.take(kept), sample.references)


def _with_stand_ins(
    sample: Sample,
    notion: Notion | None,
    cells: Sequence[tuple[int, int]],
    *,
    balanced: bool,
) -> _DrawnRows:
    """Replace the rows of small cells by stand-ins.

    balanced: whether half of the stand-ins get a positive decision.
    """
    within, scored, attribute = sample.within(notion), sample.scored, sample.attribute
    number = attribute.codes * within.n_bins + within.codes
    small = torch.zeros(attribute.n_bins * within.n_bins, dtype=torch.bool, device=number.device)
    for group, part in cells:
        small[group * within.n_bins + part] = True
    kept = (~small[number]).nonzero()[:, 0]
    rows, weights, people = [kept], [sample.weights[0, kept]], scored.people
    unit, share = weights[0] / people[kept], people[kept].cpu().numpy()
    units = [unit]
    blocks = [(0, len(kept), share / share.sum(), int(share.sum()))] if len(kept) else []
    groups = [attribute.codes[kept]]
    for group, part in cells:
        inside = (number == group * within.n_bins + part).nonzero()[:, 0]
        total = float(sample.weights[0, inside].sum())
        size = round(float(people[inside].sum()))
        stand_ins, shares = _spread(scored, (within.codes == part).nonzero()[:, 0], balanced)
        start = sum(map(len, rows))
        blocks.append((start, start + len(stand_ins), shares, size))
        rows.append(stand_ins)
        weights.append(total * torch.from_numpy(shares).to(unit))
        units.append(unit.new_full((len(stand_ins),), total / size))
        groups.append(torch.full_like(stand_ins, group))
    weight = torch.cat(weights)[None]
    of_rows = scored.take(torch.cat(rows), weight)
    codes = replace(attribute, codes=torch.cat(groups))
    small_sample = Sample(of_rows, sample.column, weight, codes, sample.references)
    return _DrawnRows(small_sample, torch.cat(units), tuple(blocks))


def _spread(scored: Scored, rows: Tensor, balanced: bool) -> tuple[Tensor, Floats]:
    """Rows at even steps of the score, and their probabilities.

    balanced: whether positive and negative decisions get one half each, if there are both.
    """
    ordered = rows[scored.scores[0, rows].argsort()]
    parts = [ordered]
    if balanced and scored.threshold is not None:
        positive = scored.scores[0, ordered] > scored.threshold[0]
        parts = [part for part in (ordered[~positive], ordered[positive]) if len(part)]
    taken, shares = [], []
    for part in parts:
        size = min(_STAND_INS, len(part))
        steps = (torch.arange(size, dtype=torch.float64, device=rows.device) + 0.5) / size
        taken.append(part[(steps * len(part)).to(torch.int64)])
        shares.append(np.full(size, 1 / size / len(parts)))
    return torch.cat(taken), np.concatenate(shares)


def multinomial_counts(counts: Floats, draws: int, seed: int) -> Iterator[Floats]:
    """Draw as many rows as `counts` (m,) add up to; yields drawn counts (block, m)."""
    random = np.random.default_rng(seed)
    total = int(counts.sum())
    for size in _blocks(draws, len(counts)):
        yield random.multinomial(total, counts / total, size=size).astype(np.float64)


def _blocks(draws: int, n: int) -> Iterator[int]:
    size = max(1, _BLOCK // n)
    yield from (min(size, draws - done) for done in range(0, draws, size))


def compress(sample: Sample, member: int) -> tuple[Sample, float]:
    """Sum up the rows of one member that share score bin, set of A and set of Y.

    Returns a sample of m rows, which stand for the original ones. Its column still has all rows, so
    it is only for metrics with a `deviation`.

    Also returns the largest share of a set of Y that is in one bin; bins of a single score do not
    count. A Kolmogorov-Smirnov distance computed from bins is at most this much below the exact
    one: inside a bin, F(score | set) - F(score) differs from its value at one of the two ends by at
    most the pooled share of the bin. Decision rates do not change, since the threshold is an edge;
    a mean score changes by at most the width of its bin.
    """
    scored = sample.scored
    kept = (sample.weights[0] > 0).nonzero()[:, 0]
    scores, weights = scored.scores[member, kept], sample.weights[0, kept]
    outcome = scored.outcome if scored.outcome is not None else sample.everybody
    outcome, attribute = outcome.take(kept), sample.attribute.take(kept)
    edges = _edges(scores, outcome)
    threshold = None if scored.threshold is None else scored.threshold[member : member + 1]
    if threshold is not None:
        below = scores[scores <= threshold]  # its largest score is an edge
        edges = torch.cat([edges, below.max()[None]]) if len(below) else edges
    edges = torch.unique(edges)
    # Even bins lie strictly between two edges; odd bins are the edges, single scores.
    left, right = (torch.searchsorted(edges, scores, side=side) for side in ("left", "right"))
    bins = left + right
    n_bins = 2 * len(edges) + 1
    cells = (bins * attribute.n_bins + attribute.codes) * outcome.n_bins + outcome.codes
    n_cells = n_bins * attribute.n_bins * outcome.n_bins
    occupied, number, total = _summed(cells, n_cells, scored.people[kept], weights)
    means = _means(scores, weights, bins, n_bins)
    summed = means[occupied // (attribute.n_bins * outcome.n_bins)][None]
    exact = np.zeros(len(number), dtype=bool)
    groups = replace(attribute, codes=occupied // outcome.n_bins % attribute.n_bins)
    of_outcome = replace(outcome, codes=occupied % outcome.n_bins)
    rows = Scored(
        summed,
        rank(summed),
        total[None],
        threshold,
        None if scored.outcome is None else of_outcome,
        scored.outcome_kind,
        of_outcome.codes.to(torch.float64) if scored.threshold_found else None,
        scored.threshold_found,
        Repeats(number, summed[0].cpu().numpy(), exact),
    )
    small = Sample(rows, sample.column, rows.weights, groups, sample.references)
    return small, _bin_share(bins, weights, n_bins, outcome)


def _summed(
    cells: Tensor, n_cells: int, people: Tensor, weights: Tensor
) -> tuple[Tensor, Floats, Tensor]:
    """Rows that stand for those of the cells: their cell, number of people and total weight.

    cells, people, weights: (n,), those of the rows that are summed up.
    """
    sums = [
        torch.bincount(cells, weights=each, minlength=n_cells)
        for each in (people, weights, weights.square() / people)
    ]
    occupied = sums[0].nonzero()[:, 0]
    place, number, unit = of_equal_weight(*(each[occupied].cpu().numpy() for each in sums))
    found = torch.from_numpy(place).to(cells.device)
    return occupied[found], number, torch.from_numpy(number * unit).to(weights)


def _edges(scores: Tensor, outcome: Partition) -> Tensor:
    """Scores at equal steps of rank inside each bin of Y, so that no bin has many rows of a set."""
    edges = []
    for code in range(outcome.n_bins):
        inside = scores[outcome.codes == code].sort().values
        step = max(1, len(inside) * outcome.n_bins // SCORE_EDGES)
        edges.append(inside[step - 1 :: step])
    return torch.cat(edges)


def _means(scores: Tensor, weights: Tensor, bins: Tensor, n_bins: int) -> Tensor:
    """Mean score of each bin; rounding must not move it beyond its smallest or largest score."""
    totals = torch.bincount(bins, weights=weights * scores, minlength=n_bins)
    means = totals / torch.bincount(bins, weights=weights, minlength=n_bins)
    low = torch.full_like(means, torch.inf).scatter_reduce(0, bins, scores, "amin")
    high = torch.full_like(means, -torch.inf).scatter_reduce(0, bins, scores, "amax")
    return torch.minimum(torch.maximum(means, low), high)


def _bin_share(bins: Tensor, weights: Tensor, n_bins: int, outcome: Partition) -> float:
    """Largest share of all rows, or of a set of Y, in a bin between edges; 0 without such bins."""
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
    """Utility of each of E models with intervals, by measure and model.

    The scores are (E * columns, n), as in `Scored.utility`. Utility is a smooth function of means,
    so the basic bootstrap interval holds. For AUC, it is extended to include the interval of
    Newcombe (`auc_interval`): near 1 draws vary too little, and at 1 not at all. If all draws of
    another measure are equal, there is no interval. Every draw serves all models and measures; a
    model gets the same interval as alone. AUC needs only the numbers of positives and negatives at
    each score: above `EXACT_ROWS` rows, scores are first divided into bins of equal frequency,
    which changes an AUC by at most half the share of a bin.
    """
    n, repeats = scored.scores.shape[-1], scored.repeats
    countable = list(measures) == ["AUC"] and columns == 1
    many = repeats is not None or (n > EXACT_ROWS and bool((scored.weights == 1).all()))
    drawn = (
        [_auc_of_counts(scored, draws, random_state)]
        if countable and many
        else _utilities(scored, measures, columns, draws, random_state)
    )
    found = []
    for measure, of_draws in zip(measures, drawn, strict=True):
        pairs = zip(scored.utility(measure, columns=columns)[0].tolist(), of_draws.T, strict=True)
        found.append(tuple(_utility_estimate(measure, *pair, level, scored) for pair in pairs))
    return tuple(found)


def utility_differences(
    scored: Scored,
    measure: UtilityMeasure,
    *,
    columns: int = 1,
    draws: int,
    level: float,
    random_state: int,
) -> tuple[Estimate, ...]:
    """By how much each of K models is more useful than the first, with the first left out.

    The scores are (K * columns, n), as in `Scored.utility`. Rows are drawn for both models
    together, so that what they share cancels out. An interval that excludes 0 tells the two apart.
    More is better: of MAE, the first less the other.

    >>> from equipoise.metrics import prepare
    >>> y = np.arange(400) % 2
    >>> noise = np.random.default_rng(0).normal(size=(2, 400))
    >>> (found,) = utility_differences(
    ...     prepare(y * np.array([[1.0], [2.0]]) + noise, y),
    ...     "AUC", draws=200, level=0.95, random_state=0,
    ... )
    >>> round(found.low, 2), round(found.value, 2), round(found.high, 2)
    (0.08, 0.14, 0.19)
    """
    sign = -1.0 if measure == "MAE" else 1.0
    values = sign * scored.utility(measure, columns=columns)[0].cpu().numpy()
    (drawn,) = _utilities(scored, [measure], columns, draws, random_state)
    found = []
    n = scored.scores.shape[-1]
    for k in range(1, len(values)):
        apart = sign * (drawn[:, k] - drawn[:, 0])
        value = float(values[k] - values[0])
        low, high = basic_interval(value, apart[np.isfinite(apart)], level, (-math.inf, math.inf))
        found.append(Estimate(value=value, low=low, high=high, level=level, n=n))
    return tuple(found)


def _utility_estimate(
    measure: UtilityMeasure, value: float, drawn: Floats, level: float, scored: Scored
) -> Estimate:
    n = int(scored.people.sum())
    if not math.isfinite(value):
        reason = f"its value, {value}, is not finite; rescale scores and y"
        return Estimate(level=level, n=n, reason=reason)
    # Draws without a class, or with a single outcome, are undefined.
    kept = drawn[np.isfinite(drawn)]
    low, high = basic_interval(value, kept, level, _LIMITS[measure])
    note = ""
    if measure in ("AUC", "macro AUC"):
        assert scored.y is not None
        present = scored.weights[0] > 0
        people = torch.bincount(scored.y[present].to(torch.int64), scored.people[present])
        sizes = people[people > 0].to(torch.int64).tolist()
        # With several classes, the interval for the smallest class is long enough for the mean.
        near = auc_interval(value, min(sizes), sum(sizes) - min(sizes), level)
        # Positives and negatives that share a bin count half, as ties do.
        tied = _tied_in_bins(scored) / 2
        low = max(float(np.fmin(low, near[0])) - tied, 0.0)
        high = min(float(np.fmax(high, near[1])) + tied, 1.0)
        note = f"scores are in bins: {tied:.2g} of it is uncertain; intervals count it" * (tied > 0)
    elif len(kept) and np.ptp(kept) <= 1e-12 * abs(value):
        low = high = math.nan
        note = "no interval: all draws have the same value, so its error cannot be estimated"
    return Estimate(value=value, low=low, high=high, level=level, n=n, note=note)


def _tied_in_bins(scored: Scored) -> float:
    """Share of the pairs of a positive and a negative whose order bins of scores hide."""
    if scored.repeats is None or scored.y is None:
        return 0.0
    bins = np.unique(scored.repeats.lowest, return_inverse=True)[1]
    shares = []
    for positive in (0, 1):
        rows = (scored.y == positive).numpy()
        people = scored.weights[0].numpy() * rows
        coarse = np.bincount(bins, people * scored.repeats.coarse)
        shares.append(coarse / people.sum())
    return float(shares[0] @ shares[1])


def auc_interval(auc: float, positives: int, negatives: int, level: float) -> tuple[float, float]:
    """The interval of Newcombe (2006, method 5) for an AUC, which also holds near 0 and 1.

    It consists of all A with abs(auc - A) <= z sqrt(V(A)), V the variance by `auc_spread`.
    """
    z = float(ndtri((1 + level) / 2))

    def excess(true: float) -> float:
        spread = auc_spread(true, positives + negatives)
        return abs(auc - true) - z * math.sqrt(spread / positives / negatives)

    low = brentq(excess, 0.0, auc) if auc > 0 and excess(auc) < 0 else auc
    high = brentq(excess, auc, 1.0) if auc < 1 and excess(auc) < 0 else auc
    if auc in (0.0, 1.0):  # the variance is 0 at this end, so the end is one of two roots
        inner = brentq(excess, 1e-9, 1 - 1e-9)
        low, high = (0.0, inner) if auc == 0 else (inner, 1.0)
    return float(low), float(high)


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
    """AUC (draws, K) from drawn counts of (score bin, class), shifted to the exact value."""
    assert scored.y is not None
    positive = scored.y.to(torch.int64)
    columns = []
    for score, value in zip(scored.scores.cpu().numpy(), scored.utility("AUC")[0], strict=True):
        bins = torch.from_numpy(equal_frequency(score, SCORE_EDGES)).to(positive)
        levels = int(bins.max()) + 1
        cells, number, total = _summed(
            2 * bins + positive, 2 * levels, scored.people, scored.weights[0]
        )
        scores = (cells // 2).to(torch.float64)[None]
        small = replace(
            scored,
            scores=scores,
            ranking=rank(scores),
            weights=total[None],
            y=(cells % 2).to(torch.float64),
        )
        unit = total / torch.from_numpy(number).to(total)
        found = [
            replace(small, weights=torch.from_numpy(drawn).to(unit) * unit).utility("AUC")[:, 0]
            for drawn in multinomial_counts(number, draws, seed)
        ]
        columns.append(torch.cat(found) - small.utility("AUC")[0, 0] + float(value))
    return torch.stack(columns, dim=1).numpy()
