"""Permutation tests of independence and of separation, for any sensitive attribute.

**Statistic.** Scores become ranks within their stratum, in at most `SCORE_BINS` bins. Attributes
become cells: levels of discrete columns crossed with bins of continuous ones. Columns get so few
bins that there are at most `CELLS` cells. In each stratum of y the counts of (bin, cell), less what
the margins predict, form a matrix D. The statistic is the Hilbert-Schmidt norm of all D (Gretton
et al. 2005) under three kernels: of bins, of cells and of strata. It is 0 if and only if every
count is as predicted. Kernels over several variables are products of (1 + k), so that the effect of
one variable counts, and so does an effect that only their combination shows.

**Permuting.** Only the counts of a stratum matter. The counts of a uniformly permuted A are a
random table with the same margins, which scipy draws directly (Boyett 1979, Patefield 1981). So
after one sort, the cost of a permutation is the number of cells, for any n.

**Level.** p = (1 + #{permuted >= observed}) / (1 + permutations) is valid at every n for
independence and for separation with discrete y, because under the hypothesis the rows of a stratum
are exchangeable (Lehmann and Romano 2005, section 15.2). For a continuous y rows are permuted
within 2 n^(1/3) groups of neighboring y (a local permutation: Kim, Neykov, Balakrishnan and
Wasserman 2022), where they are only approximately exchangeable. To remove the effect of y inside a
group, the score is first replaced by its residual from a straight line in y, fitted in each group.
The level is then approximate; docs/uncertainty.md shows how close it is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import random_table, rankdata

from equipoise.errors import InputError, check_whole
from equipoise.inference.estimate import Estimate
from equipoise.metrics.arrays import Floats, Integers, as_scores
from equipoise.metrics.outcome import (
    OutcomeKind,
    crossed,
    kind_where_given,
    outcome_array,
    ranks_within,
    rows_of,
    strata_of,
)
from equipoise.scales import reduced
from equipoise.tables import SensitiveColumn, SensitiveTable

SCORE_BINS = 24
#: Bins of a single continuous column.
ATTRIBUTE_BINS = 12
#: Most cells with bins of continuous columns, if these have at least two bins each.
CELLS = 240
#: Most cells of any kind; the kernel between cells is a matrix of this order.
LARGEST_CELLS = 2_000
# Width of the Gaussian kernel on ranks in [0, 1]; the median distance of two random ranks is 0.29.
_KERNEL_WIDTH = 0.25
# Most table entries drawn at once, to limit memory.
_BLOCK_ENTRIES = 4_000_000


def permutation_test(
    scores: Any,
    sensitive_features: SensitiveTable,
    *,
    y: Any = None,
    outcome: OutcomeKind | None = None,
    permutations: int = 999,
    random_state: int = 0,
) -> Estimate:
    """Test whether scores are independent of A, or of A given y.

    Parameters
    ----------
    scores : array of shape (n,)
    sensitive_features : SensitiveTable
        All columns jointly; rows with a missing value are left out.
    y : array of shape (n,), optional
        Test separation instead of independence.
    outcome : {"binary", "multiclass", "continuous"}, optional
        Kind of y; by default the rules of `equipoise.metrics.outcome` decide.
    permutations : int
        The smallest possible p-value is 1 / (1 + permutations).
    random_state : int
        Same state, same p-value.

    Returns
    -------
    Estimate
        `p` is the p-value, `value` the statistic, and `n` the number of rows used. The note says if
        the level of the test is approximate.

    Examples
    --------
    >>> table = SensitiveTable.from_data(["a"] * 10 + ["b"] * 10)
    >>> permutation_test(range(20), table, permutations=199).p
    0.005
    """
    check_whole("permutations", permutations)
    check_whole("random_state", random_state, least=0)
    matrix = as_scores(scores).cpu().numpy()
    if len(matrix) != 1:
        raise InputError(
            f"scores must have shape (n,), got {matrix.shape}; test each score by itself"
        )
    rows = rows_of(matrix, sensitive_features, y)
    score = matrix[0, rows]
    kind = kind_where_given(y, outcome)
    strata = np.zeros(len(rows), dtype=np.int64)
    if kind is not None:
        known_y = outcome_array(y)[rows]
        strata = strata_of(known_y, kind, groups=max(1, round(2 * len(rows) ** (1 / 3))))
        if kind == "continuous":
            known_y = reduced(known_y.astype(np.float64))[0]
            score = _residuals(reduced(score)[0], known_y, strata)
    cells, cell_factor = _cells(sensitive_features.take(rows))
    stratum_factor = _stratum_factor(strata, ordered=kind == "continuous")
    random = np.random.default_rng(random_state)
    statistic, p = _test(score, cells, strata, cell_factor, stratum_factor, permutations, random)
    return Estimate(
        value=statistic,
        p=p,
        p_floor=1 / (1 + permutations),
        n=len(rows),
        note="the test has an approximate level for a continuous y" if kind == "continuous" else "",
    )


def _test(
    score: Floats,
    cells: Integers,
    strata: Integers,
    cell_factor: Floats,
    stratum_factor: Floats,
    permutations: int,
    random: np.random.Generator,
) -> tuple[float, float]:
    """Statistic and p-value of one score (n,)."""
    ranks = ranks_within(score, strata)
    bins, centers = _bins_of_ranks(ranks)
    bin_factor = _factor(_gaussian(centers))
    shape = len(stratum_factor), len(centers), len(cell_factor)
    flat = np.ravel_multi_index((strata, bins, cells), shape)
    counts = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
    # Sums over strata s of factor[s, m] * bins' * D_s * cells, for observed and permuted counts.
    projected = np.zeros(
        (1 + permutations, stratum_factor.shape[1], bin_factor.shape[1], cell_factor.shape[1])
    )
    for table, weight in zip(counts, stratum_factor, strict=True):
        used_bins, used_cells = table.sum(axis=1) > 0, table.sum(axis=0) > 0
        small = table[np.ix_(used_bins, used_cells)]
        if 1 in small.shape:  # the margins determine it; and scipy 1.17 draws such tables wrongly
            continue
        margins = small.sum(axis=1), small.sum(axis=0)
        block = max(1, _BLOCK_ENTRIES // small.size)
        for start in range(0, 1 + permutations, block):
            size = min(block, 1 + permutations - start)
            tables = random_table.rvs(*margins, size=size, random_state=random)
            if start == 0:
                tables[0] = small
            excess = tables - np.outer(*margins) / small.sum()
            image = bin_factor[used_bins].T @ excess @ cell_factor[used_cells]
            projected[start : start + size] += weight[:, None, None] * image[:, None]
    norms = np.square(projected).sum(axis=(1, 2, 3)) / len(score) ** 2
    # Equal tables must count as equal even if their norms differ by rounding.
    reached = norms[1:] >= norms[0] * (1 - 1e-9)
    return float(norms[0]), float((1 + reached.sum()) / (1 + permutations))


def _residuals(score: Floats, y: Floats, strata: Integers) -> Floats:
    """The score (n,) less a straight line in y fitted within each stratum; (n,)."""
    residuals = np.empty_like(score)
    for rows in np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1]):
        within = score[rows] - score[rows].mean()
        place = y[rows] - y[rows].mean()
        spread = float(place @ place)
        explained = float(within @ place) / spread * place if spread > 0 else 0.0
        residuals[rows] = within - explained
    return residuals


def _bins_of_ranks(ranks: Floats) -> tuple[Integers, Floats]:
    """Bin (n,) of every rank, and the mean rank of each occupied bin."""
    raw = np.minimum((ranks * SCORE_BINS).astype(np.int64), SCORE_BINS - 1)
    _, bins = np.unique(raw, return_inverse=True)
    return bins.astype(np.int64), np.bincount(bins, weights=ranks) / np.bincount(bins)


def _cells(table: SensitiveTable) -> tuple[Integers, Floats]:
    """Cell (n,) of every row, and a factor (cells, r) of the kernel between cells."""
    continuous = [column for column in table.columns if column.values is not None]
    levels = math.prod(len(each.categories) for each in table.columns if each.codes is not None)
    share = (CELLS / levels) ** (1 / max(len(continuous), 1))  # of each continuous column
    bins = int(np.clip(share, 2, ATTRIBUTE_BINS))
    codes = [_codes(column, bins) for column in table.columns]
    cells, combinations = crossed(codes)
    if len(combinations) > LARGEST_CELLS:
        raise InputError(
            f"sensitive_features must form at most {LARGEST_CELLS} cells, got {len(combinations)} "
            f"from {', '.join(map(repr, table.names))}; leave out a column or merge its levels"
        )
    kernel = np.ones((len(combinations), len(combinations)))
    for column, number in zip(table.columns, combinations.T, strict=True):
        if column.kind == "continuous":
            kernel *= 1 + _gaussian((number + 0.5) / bins)
        else:
            kernel *= 1 + (number[:, None] == number)
    return cells, _factor(kernel)


def _codes(column: SensitiveColumn, bins: int) -> Integers:
    if column.codes is not None:
        return column.codes
    assert column.values is not None
    ranks = (rankdata(column.values) - 0.5) / len(column.values)
    return np.minimum((ranks * bins).astype(np.int64), bins - 1)


def _stratum_factor(strata: Integers, *, ordered: bool) -> Floats:
    """Factor (strata, r) of the kernel 1 + k between strata of y."""
    count = int(strata.max()) + 1
    if count == 1:
        return np.ones((1, 1))
    kernel = _gaussian((np.arange(count) + 0.5) / count) if ordered else np.eye(count)
    return _factor(1 + kernel)


def _gaussian(place: Floats) -> Floats:
    """Gaussian kernel between places in [0, 1]; (m,) to (m, m)."""
    return np.asarray(np.exp(-np.square(place[:, None] - place) / (2 * _KERNEL_WIDTH**2)))


def _factor(kernel: Floats) -> Floats:
    """L (m, r) with L L' = kernel, without directions of weight below 1e-6 of the largest."""
    weights, vectors = np.linalg.eigh(kernel)
    kept = weights > 1e-6 * weights[-1]
    return np.asarray(vectors[:, kept] * np.sqrt(weights[kept]))
