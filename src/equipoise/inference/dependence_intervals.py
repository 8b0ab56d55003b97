"""Intervals for measures of dependence, of one column or of all jointly.

GDP, HGR, dCor and the root of HSIC are sizes of signed departures from independence, so their
intervals are made as those of the parity metrics (`equipoise.inference.bootstrap`): each draw
measures the size of the difference between the departures of draw and sample. Such intervals also
hold at independence, where the values are biased upwards and an ordinary bootstrap fails. Cells,
strata and their shares stay those of the sample.

* Distance covariance and the root of HSIC are the length of E[f(score) g(A)'] - E f(score) E g(A)',
  with features f, g of the kernels (Gretton et al. 2005; for distances Sejdinovic et al. 2013).
* HGR is the largest singular value of the correlations between functions of the score and of A.
* GDP averages over many cells of few rows, to whose means a bootstrap would leave too little room.
  Its draws are normal errors of the cell means instead, with the variance found in the cell and,
  where the cell is small, in all cells of the stratum.

Where strata or groups have few rows, draws say too little about the size that chance alone gives.
So the reach is at least the `level` quantile of the sizes that the measure has after A was permuted
within strata. Hence an interval excludes 0 at independence (or separation) no more often than the
permutation test with this measure would.

HGR, dCor and HSIC are drawn on at most `DRAWN_ROWS` rows m. Such a size falls as 1 / sqrt(rows), so
it is scaled by sqrt(m / rows) to the number of rows the value was computed on; likewise for at most
`PERMUTED_ROWS`. Measured coverage is in docs/uncertainty.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from equipoise.errors import InputError
from equipoise.inference.estimate import Estimate, upper_quantile
from equipoise.metrics.dependence import (
    OUTCOME_STRATA,
    attribute_functions,
    beyond_outcome,
    double_centered,
    gaussian_kernel,
    kernel_vectors,
    measure_dependence,
    orthonormal,
    parity_cells,
    score_functions,
)
from equipoise.metrics.outcome import OutcomeKind, outcome_array, outcome_kind, strata_of
from equipoise.scales import reduced
from equipoise.tables import SensitiveTable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Most rows that draws of HGR, dCor and HSIC are made from.
DRAWN_ROWS = 1_000
#: Most rows that A is permuted on for HGR, dCor and HSIC.
PERMUTED_ROWS = 250
#: Most rows for which A is permuted for GDP; with more, every cell has many.
PARITY_ROWS = 5_000
# The variance of a cell is drawn towards the pooled one, as by so many further rows.
_POOLED_ROWS = 10
# Directions that a draw has less than this share of the sample's variance in are left out.
_NEGLIGIBLE = 1e-6


def dependence_interval(
    measure: str,
    scores: Floats,
    sensitive_features: SensitiveTable,
    *,
    y: Any = None,
    outcome: OutcomeKind | None = None,
    draws: int = 200,
    level: float = 0.95,
    random_state: int = 0,
) -> Estimate:
    """Measure how scores (n,) depend on all columns jointly, with an interval.

    The first arguments are those of `measure_dependence`, the others those of `bootstrap`.

    >>> random = np.random.default_rng(0)
    >>> age = random.normal(size=1000)
    >>> table = SensitiveTable.from_data({"age": age})
    >>> found = dependence_interval("HGR", 0.5 * age + random.normal(size=1000), table)
    >>> found.low < 0.447 < found.high  # 0.5 / sqrt(1.25), the correlation of the two
    True
    """
    known = sensitive_features.known
    scores, table = scores[known], sensitive_features.take(known)
    strata = np.zeros(len(scores), dtype=np.int64)
    if y is not None:
        y = outcome_array(y)[known]
        outcome = outcome_kind(y, outcome)
        strata = strata_of(y, outcome, groups=OUTCOME_STRATA)
    try:
        found = measure_dependence(measure, scores, table, y=y, outcome=outcome)
    except InputError as undefined:
        return Estimate(level=level, n=len(scores), reason=str(undefined))
    random = np.random.default_rng(random_state)
    value = float(found.value)
    scores, power = reduced(scores)
    if outcome == "continuous":
        scores = beyond_outcome(measure, scores[None], y)[0]
    if measure == "GDP":
        deviations = np.ldexp(_parity_deviations(scores, table, strata, draws, random), power)
    else:
        deviations = _deviations(measure, scores, table, strata, draws, random)
        deviations *= math.sqrt(min(len(scores), DRAWN_ROWS) / found.rows)
    reach = upper_quantile(deviations, level)
    if measure != "GDP" or len(scores) <= PARITY_ROWS:
        by_chance = _permuted_sizes(measure, scores, table, strata, draws, random)
        scale = math.sqrt(min(len(scores), PERMUTED_ROWS) / found.rows)
        by_chance = np.ldexp(by_chance, power) if measure == "GDP" else by_chance * scale
        reach = max(reach, upper_quantile(by_chance, level))
    size = math.sqrt(value) if measure == "HSIC" else value
    low, high = max(size - reach, 0.0), size + reach
    if measure == "HSIC":
        low, high = low**2, high**2
    if measure != "GDP":
        high = min(high, 1.0)
    return Estimate(value=value, low=low, high=high, level=level, n=found.rows)


def _deviations(
    measure: str,
    scores: Floats,
    table: SensitiveTable,
    strata: Integers,
    draws: int,
    random: np.random.Generator,
) -> Floats:
    """Deviations (draws,) of all strata together, averaged by size as the measure is."""
    scores, table, strata = _at_most(DRAWN_ROWS, scores, table, strata, random)
    m = len(scores)
    counts = random.multinomial(m, np.full(m, 1 / m), size=draws).astype(np.float64)
    total = np.zeros(draws)
    power = 2 if measure == "HSIC" else 1  # HSIC averages squares of lengths
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        drawn = counts[:, rows]
        # A draw without a row of the stratum shows no departure there.
        some_drawn = drawn.sum(axis=1) > 0
        found = _DEVIATIONS[measure](scores[rows], table.take(rows), drawn[some_drawn])
        total[some_drawn] += len(rows) / m * found**power
    return np.asarray(total ** (1 / power))


def _permuted_sizes(
    measure: str,
    scores: Floats,
    table: SensitiveTable,
    strata: Integers,
    draws: int,
    random: np.random.Generator,
) -> Floats:
    """Sizes (draws,) of the measure with A permuted within strata."""
    if measure != "GDP":
        scores, table, strata = _at_most(PERMUTED_ROWS, scores, table, strata, random)
    total = np.zeros(draws)
    power = 2 if measure == "HSIC" else 1
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        orders = random.permuted(np.tile(np.arange(len(rows)), (draws, 1)), axis=1)
        found = _SIZES[measure](scores[rows], table.take(rows), orders)
        total += len(rows) / len(scores) * found**power
    return np.asarray(total ** (1 / power))


def _at_most(
    most: int,
    scores: Floats,
    table: SensitiveTable,
    strata: Integers,
    random: np.random.Generator,
) -> tuple[Floats, SensitiveTable, Integers]:
    """All rows, or so many drawn without replacement."""
    if len(scores) <= most:
        return scores, table, strata
    some = np.sort(random.choice(len(scores), most, replace=False))
    return scores[some], table.take(some), strata[some]


def _size_of_parity(score: Floats, table: SensitiveTable, orders: Integers) -> Floats:
    cell = parity_cells(table)
    sizes = np.bincount(cell)
    centered = score - score.mean()
    inside = (cell[:, None] == np.arange(len(sizes))).astype(np.float64)
    return np.asarray(np.abs(centered[orders] @ inside).sum(axis=1) / len(score))


def _size_of_correlation(score: Floats, table: SensitiveTable, orders: Integers) -> Floats:
    left, right = (orthonormal(f) for f in (score_functions(score), attribute_functions(table)))
    if 0 in (left.shape[1], right.shape[1]):
        return np.zeros(len(orders))
    products = np.einsum("mp,rmq->rpq", left, right[orders], optimize=True)
    return np.asarray(np.linalg.norm(products, ord=2, axis=(1, 2)))


def _size_of_distances(score: Floats, table: SensitiveTable, orders: Integers) -> Floats:
    left, right, scale = _distance_kernels(score, table)
    if scale == 0.0:
        return np.zeros(len(orders))
    return _kernel_sizes(left, right, orders) / math.sqrt(scale)


def _size_of_kernels(score: Floats, table: SensitiveTable, orders: Integers) -> Floats:
    left, right = (gaussian_kernel(v) for v in (score[:, None], kernel_vectors(table)))
    return _kernel_sizes(left, right, orders)


def _kernel_sizes(left: Floats, right: Floats, orders: Integers) -> Floats:
    """Root of the mean product of two centered kernels (m, m), the second in each of the orders."""
    products = [float(np.vdot(left, right[np.ix_(order, order)])) for order in orders]
    return np.asarray(np.sqrt(np.maximum(np.array(products), 0.0)) / len(left))


_SIZES = {
    "GDP": _size_of_parity,
    "HGR": _size_of_correlation,
    "dCor": _size_of_distances,
    "HSIC": _size_of_kernels,
}


def _of_correlation(score: Floats, table: SensitiveTable, counts: Floats) -> Floats:
    return correlation_deviations(score_functions(score), attribute_functions(table), counts)


def _of_distances(score: Floats, table: SensitiveTable, counts: Floats) -> Floats:
    """Deviations of distance covariance, in units of what makes it a correlation."""
    left, right, scale = _distance_kernels(score, table)
    if scale == 0.0:
        return np.zeros(len(counts))
    return kernel_deviations(left, right, counts) / math.sqrt(scale)


def _distance_kernels(score: Floats, table: SensitiveTable) -> tuple[Floats, Floats, float]:
    """Centered kernels of score and A, and what makes their mean product a squared correlation."""
    if table.is_discrete:
        cells = table.cells()
        between = (cells[:, None] != cells).astype(np.float64)
    else:
        vectors = kernel_vectors(table)
        between = cdist(vectors, vectors)
    # A distance is minus a kernel, up to terms that centering removes.
    left = -double_centered(cdist(score[:, None], score[:, None]))
    right = -double_centered(between)
    scale = math.sqrt(float(np.square(left).mean() * np.square(right).mean()))
    return left, right, scale


def _of_kernels(score: Floats, table: SensitiveTable, counts: Floats) -> Floats:
    left, right = (gaussian_kernel(v) for v in (score[:, None], kernel_vectors(table)))
    return kernel_deviations(left, right, counts)


_DEVIATIONS = {"HGR": _of_correlation, "dCor": _of_distances, "HSIC": _of_kernels}


def _parity_deviations(
    scores: Floats,
    table: SensitiveTable,
    strata: Integers,
    draws: int,
    random: np.random.Generator,
) -> Floats:
    """Sizes (draws,) of normal errors of the cell means, less those of their stratum's mean."""
    cell = _cells_within(table, strata)
    sizes = np.bincount(cell)
    stratum_of = np.zeros(len(sizes), dtype=np.int64)
    stratum_of[cell] = strata
    member = (stratum_of == np.arange(strata.max() + 1)[:, None]).astype(float)  # (strata, cells)
    means = np.bincount(cell, weights=scores) / sizes
    squares = np.bincount(cell, weights=np.square(scores - means[cell]))
    pooled = member @ squares / np.maximum(member @ (sizes - 1), 1.0)
    variances = squares + _POOLED_ROWS * pooled[stratum_of]
    variances /= sizes - 1 + _POOLED_ROWS
    errors = random.normal(size=(draws, len(sizes))) * np.sqrt(variances / sizes)
    shares = sizes / (member @ sizes)[stratum_of]  # of a cell in its stratum
    overall = (errors * shares) @ member.T
    return np.asarray(np.abs(errors - overall[:, stratum_of]) @ sizes / len(scores))


def _cells_within(table: SensitiveTable, strata: Integers) -> Integers:
    """Cell (n,) of every row, numbered through all strata."""
    cells = np.empty(len(strata), dtype=np.int64)
    done = 0
    for stratum in range(int(strata.max()) + 1):
        rows = np.flatnonzero(strata == stratum)
        inside = parity_cells(table.take(rows))
        cells[rows] = done + inside
        done += int(inside.max()) + 1
    return cells


def kernel_deviations(score_kernel: Floats, attribute_kernel: Floats, counts: Floats) -> Floats:
    """Length of the difference between a draw's and the sample's covariance of features.

    score_kernel, attribute_kernel: (m, m) with rows and columns of mean 0 (`double_centered`).

    With d the drawn shares less 1 / m, the difference is sum d_i f_i g_i' less
    (sum d_i f_i)(sum d_i g_i)', whose squared length needs only the two kernels.
    """
    m = counts.shape[1]
    shares = (counts / counts.sum(axis=1, keepdims=True) - 1 / m).T  # (m, R)
    of_score, of_attribute = score_kernel @ shares, attribute_kernel @ shares
    joint = np.einsum("mr,mr->r", shares, (score_kernel * attribute_kernel) @ shares)
    crossed = np.einsum("mr,mr,mr->r", shares, of_score, of_attribute)
    product = np.einsum("mr,mr->r", shares, of_score) * np.einsum("mr,mr->r", shares, of_attribute)
    return np.asarray(np.sqrt(np.maximum(joint - 2 * crossed + product, 0.0)))


def correlation_deviations(left: Floats, right: Floats, counts: Floats) -> Floats:
    """Largest singular value of the difference between a draw's and the sample's correlations.

    left: functions of the score, (m, p); right: functions of A, (m, q). Both are made orthonormal
    on the sample; a draw is made so again, by the symmetric root of its own covariance.
    """
    m = counts.shape[1]
    left, right = orthonormal(left) * np.sqrt(m), orthonormal(right) * np.sqrt(m)
    if 0 in (left.shape[1], right.shape[1]):
        return np.zeros(len(counts))
    both = np.concatenate([left, right], axis=1)
    p = left.shape[1]
    deviations = np.empty(len(counts))
    center = left.T @ right / m
    for draw, count in enumerate(counts):
        share = count / count.sum()
        mean = share @ both
        covariance = (both * share[:, None]).T @ both - np.outer(mean, mean)
        found = _inverse_root(covariance[:p, :p]) @ covariance[:p, p:]
        found = found @ _inverse_root(covariance[p:, p:])
        deviations[draw] = np.linalg.norm(found - center, ord=2)
    return deviations


def _inverse_root(covariance: Floats) -> Floats:
    """Symmetric inverse square root, on the directions that vary."""
    values, vectors = np.linalg.eigh(covariance)
    varying = values > _NEGLIGIBLE
    return np.asarray((vectors[:, varying] / np.sqrt(values[varying])) @ vectors[:, varying].T)
