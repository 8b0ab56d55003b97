"""Intervals for measures of dependence, on one column or on all jointly.

GDP, HGR, dCor and the root of HSIC are sizes of signed departures from independence. So their
intervals are made like those of the parity metrics (`equipoise.inference.bootstrap`): each draw
measures the size of the difference between the departures of draw and sample. Such intervals also
hold at independence, where the values are biased upwards and an ordinary bootstrap fails. Cells,
strata and their shares stay those of the sample.

* Distance covariance and the root of HSIC are the length of E[f(score) g(A)'] - E f(score) E g(A)',
  with features f, g of the kernels (Gretton et al. 2005; for distances Sejdinovic et al. 2013).
* HGR is the largest singular value of the correlations between functions of the score and of A.
* GDP averages over many cells of few rows, for which bootstrap intervals would be too short. So its
  draws are normal errors of the cell means. Their variance is that of the cell and, if the cell is
  small, also of the other cells of the stratum.

If strata or groups have few rows, draws underestimate the sizes that occur by chance. So the reach
is at least the `level` quantile of the sizes after A was permuted within strata. Hence, at
independence (or separation), an interval excludes 0 no more often than the permutation test with
this measure would.

HGR, dCor and HSIC are drawn on at most `DRAWN_ROWS` rows m. Such a size falls as 1 / sqrt(rows), so
it is multiplied by sqrt(m / rows), with the number of rows of the value; likewise for permutations
on at most `PERMUTED_ROWS`. docs/uncertainty.md shows the coverage in simulations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from equipoise.errors import InputError
from equipoise.inference.estimate import Estimate, upper_quantile
from equipoise.metrics.arrays import Floats, Integers
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

#: Most rows that draws of HGR, dCor and HSIC are made from.
DRAWN_ROWS = 1_000
#: Most rows that A is permuted on for HGR, dCor and HSIC.
PERMUTED_ROWS = 250
#: With more rows than this, A is not permuted for GDP, since every cell has many rows.
PARITY_ROWS = 5_000
# The pooled variance counts like this many further rows of a cell.
_POOLED_ROWS = 10
# Directions in which a draw has less than this share of the sample's variance are left out.
_NEGLIGIBLE = 1e-6


class _Rows(NamedTuple):
    scores: Floats  # (n,)
    table: SensitiveTable
    strata: Integers  # (n,)

    def take(self, rows: Integers) -> _Rows:
        return _Rows(self.scores[rows], self.table.take(rows), self.strata[rows])


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

    Arguments are those of `measure_dependence` and `bootstrap`.
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
    rows = _Rows(scores, table, strata)
    if measure == "GDP":
        deviations = np.ldexp(_parity_deviations(rows, draws, random), power)
    else:
        deviations = _deviations(measure, rows, draws, random)
        deviations *= math.sqrt(min(len(scores), DRAWN_ROWS) / found.rows)
    reach = upper_quantile(deviations, level)
    if measure != "GDP" or len(scores) <= PARITY_ROWS:
        by_chance = _permuted_sizes(measure, rows, draws, random)
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


def _deviations(measure: str, rows: _Rows, draws: int, random: np.random.Generator) -> Floats:
    """Deviations (draws,) of all strata together, averaged by size as the measure is."""
    rows = _at_most(DRAWN_ROWS, rows, random)
    m = len(rows.scores)
    counts = random.multinomial(m, np.full(m, 1 / m), size=draws).astype(np.float64)

    def within(positions: Integers) -> Floats:
        # A draw without a row of the stratum shows no departure there.
        drawn = counts[:, positions].sum(axis=1) > 0
        found = np.zeros(draws)
        own_counts = counts[drawn][:, positions]
        found[drawn] = _drawn_deviations(measure, rows.take(positions), own_counts)
        return found

    return _averaged(measure, rows.strata, within)


def _permuted_sizes(measure: str, rows: _Rows, draws: int, random: np.random.Generator) -> Floats:
    """Sizes (draws,) of the measure with A permuted within strata."""
    if measure != "GDP":
        rows = _at_most(PERMUTED_ROWS, rows, random)

    def within(positions: Integers) -> Floats:
        orders = random.permuted(np.tile(np.arange(len(positions)), (draws, 1)), axis=1)
        return _reordered_sizes(measure, rows.take(positions), orders)

    return _averaged(measure, rows.strata, within)


def _averaged(measure: str, strata: Integers, within: Callable[[Integers], Floats]) -> Floats:
    """Average over strata of what `within` returns for their rows, weighted by size."""
    power = 2 if measure == "HSIC" else 1  # HSIC averages squared lengths
    total = np.zeros(())
    for stratum in np.unique(strata):
        positions = np.flatnonzero(strata == stratum)
        total = total + len(positions) / len(strata) * within(positions) ** power
    return np.asarray(total ** (1 / power))


def _at_most(most: int, rows: _Rows, random: np.random.Generator) -> _Rows:
    """All rows, or `most` of them drawn without replacement."""
    n = len(rows.scores)
    return rows if n <= most else rows.take(np.sort(random.choice(n, most, replace=False)))


def _reordered_sizes(measure: str, rows: _Rows, orders: Integers) -> Floats:
    """Sizes (draws,) of the measure with the rows of A in each of the orders (draws, m)."""
    score, table = rows.scores, rows.table
    if measure == "GDP":
        cell = parity_cells(table)
        centered = score - score.mean()
        inside = (cell[:, None] == np.arange(cell.max() + 1)).astype(np.float64)
        return np.asarray(np.abs(centered[orders] @ inside).sum(axis=1) / len(score))
    if measure == "HGR":
        left, right = orthonormal(score_functions(score)), orthonormal(attribute_functions(table))
        if 0 in (left.shape[1], right.shape[1]):
            return np.zeros(len(orders))
        products = np.einsum("mp,rmq->rpq", left, right[orders], optimize=True)
        return np.asarray(np.linalg.norm(products, ord=2, axis=(1, 2)))
    left, right, unit = _kernels(measure, score, table)
    if unit == 0.0:
        return np.zeros(len(orders))
    # Rows first, then columns: three times as fast as both at once (`right[np.ix_(order, order)]`).
    sums = np.array([float(np.vdot(left, right.take(o, 0).take(o, 1))) for o in orders])
    return np.asarray(np.sqrt(np.maximum(sums, 0.0)) / len(left) / unit)


def _drawn_deviations(measure: str, rows: _Rows, counts: Floats) -> Floats:
    """Deviations (draws,) of HGR, dCor or the root of HSIC for drawn counts (draws, m)."""
    score, table = rows.scores, rows.table
    if measure == "HGR":
        return correlation_deviations(score_functions(score), attribute_functions(table), counts)
    left, right, unit = _kernels(measure, score, table)
    if unit == 0.0:
        return np.zeros(len(counts))
    return kernel_deviations(left, right, counts) / unit


def _kernels(measure: str, score: Floats, table: SensitiveTable) -> tuple[Floats, Floats, float]:
    """Centered kernels (m, m) of score and A, and the unit in which dCor or HSIC is measured.

    The root of the kernels' mean product, in this unit, is the size of the measure.
    """
    if measure == "HSIC":
        return gaussian_kernel(score[:, None]), gaussian_kernel(kernel_vectors(table)), 1.0
    if table.is_discrete:
        cells = table.cells()
        distances = (cells[:, None] != cells).astype(np.float64)
    else:
        vectors = kernel_vectors(table)
        distances = cdist(vectors, vectors)
    # A distance is minus a kernel, up to terms that centering removes.
    left = -double_centered(cdist(score[:, None], score[:, None]))
    right = -double_centered(distances)
    variances = float(np.square(left).mean() * np.square(right).mean())
    return left, right, math.sqrt(math.sqrt(variances))


def _parity_deviations(rows: _Rows, draws: int, random: np.random.Generator) -> Floats:
    """Sizes (draws,) of normal errors of the cell means, less those of their stratum's mean."""
    scores, table, strata = rows
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
    """Cell (n,) of every row; different strata have different cells."""
    cells = np.empty(len(strata), dtype=np.int64)
    done = 0
    for stratum in range(int(strata.max()) + 1):
        rows = np.flatnonzero(strata == stratum)
        inside = parity_cells(table.take(rows))
        cells[rows] = done + inside
        done += int(inside.max()) + 1
    return cells


def kernel_deviations(score_kernel: Floats, attribute_kernel: Floats, counts: Floats) -> Floats:
    """Length of the difference between the covariances of features in each draw and the sample.

    score_kernel, attribute_kernel: (m, m) with rows and columns of mean 0 (`double_centered`).

    Let d be the drawn shares less 1 / m. Then the difference is
    sum d_i f_i g_i' - (sum d_i f_i)(sum d_i g_i)', and its squared length needs only the kernels.
    """
    m = counts.shape[1]
    shares = (counts / counts.sum(axis=1, keepdims=True) - 1 / m).T  # (m, R)
    of_score, of_attribute = score_kernel @ shares, attribute_kernel @ shares
    joint = np.einsum("mr,mr->r", shares, (score_kernel * attribute_kernel) @ shares)
    crossed = np.einsum("mr,mr,mr->r", shares, of_score, of_attribute)
    product = np.einsum("mr,mr->r", shares, of_score) * np.einsum("mr,mr->r", shares, of_attribute)
    return np.asarray(np.sqrt(np.maximum(joint - 2 * crossed + product, 0.0)))


def correlation_deviations(left: Floats, right: Floats, counts: Floats) -> Floats:
    """Largest singular value of the difference between the correlations in a draw and the sample.

    left: functions of the score, (m, p); right: functions of A, (m, q). Both are made orthonormal
    on the sample, and again on each draw, by the symmetric root of its covariance.
    """
    m = counts.shape[1]
    left, right = orthonormal(left) * np.sqrt(m), orthonormal(right) * np.sqrt(m)
    if 0 in (left.shape[1], right.shape[1]):
        return np.zeros(len(counts))
    both = np.concatenate([left, right], axis=1)
    p, functions = left.shape[1], both.shape[1]
    products = (both[:, :, None] * both[:, None, :]).reshape(m, -1)
    shares = counts / counts.sum(axis=1, keepdims=True)
    means = shares @ both
    covariances = (shares @ products).reshape(-1, functions, functions)
    covariances -= means[:, :, None] * means[:, None, :]
    found = _inverse_roots(covariances[:, :p, :p]) @ covariances[:, :p, p:]
    found = found @ _inverse_roots(covariances[:, p:, p:]) - left.T @ right / m
    return np.asarray(np.linalg.norm(found, ord=2, axis=(1, 2)))


def _inverse_roots(covariances: Floats) -> Floats:
    """Symmetric inverse square roots (R, k, k), each on the directions that vary."""
    values, vectors = np.linalg.eigh(covariances)
    varying = values > _NEGLIGIBLE
    scales = np.where(varying, 1 / np.sqrt(np.where(varying, values, 1.0)), 0.0)
    return np.asarray((vectors * scales[:, None, :]) @ vectors.transpose(0, 2, 1))
