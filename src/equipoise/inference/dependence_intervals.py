"""Intervals for measures of dependence, of one column or of all jointly.

GDP, HGR, dCor and the root of HSIC are sizes of signed departures from independence. As for the
parity metrics (`equipoise.inference.bootstrap`), draws measure the size of the difference between
the departures of draw and sample, and value plus and minus the `level` quantile of these sizes is
the interval: it also holds at independence, where the values are biased upwards and an ordinary
bootstrap fails. Cells, strata and their shares stay those of the sample.

GDP averages over many cells of few rows, whose means a bootstrap would leave too little room. Its
draws are normal errors of the cell means instead, with the variance found in the cell and, where it
is small, in all cells of the stratum.

HGR, dCor and HSIC are drawn on at most `DRAWN_ROWS` rows m. Such a size falls as 1 / sqrt(rows), so
it is scaled by sqrt(m / rows) to the number of rows the value was computed on. Measured coverage is
in docs/auditing.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from equipoise.errors import InputError
from equipoise.inference.embedding import correlation_deviations, double_centred, kernel_deviations
from equipoise.metrics.dependence import (
    OUTCOME_STRATA,
    Dependence,
    attribute_functions,
    distance_correlation,
    generalised_demographic_parity,
    hilbert_schmidt,
    kernel_vectors,
    maximal_correlation,
    parity_cells,
    score_functions,
)
from equipoise.metrics.hsic import median_distance
from equipoise.metrics.outcome import OutcomeKind, outcome_array, outcome_kind
from equipoise.metrics.strata import strata_of
from equipoise.scales import reduced
from equipoise.tables import SensitiveTable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Most rows that draws of HGR, dCor and HSIC are made from.
DRAWN_ROWS = 1_000
# The variance of a cell is drawn towards the pooled one, as by so many further rows.
_POOLED_ROWS = 10


class _Measure(Protocol):
    def __call__(
        self,
        scores: Any,
        sensitive_features: SensitiveTable,
        *,
        y: Any = None,
        outcome: OutcomeKind | None = None,
    ) -> Dependence: ...


#: The measures by the name they have in tables; "|Y" is added given the outcome.
MEASURES: dict[str, _Measure] = {
    "GDP": generalised_demographic_parity,
    "HGR": maximal_correlation,
    "dCor": distance_correlation,
    "HSIC": hilbert_schmidt,
}


@dataclass(frozen=True)
class DependenceInterval:
    """A measure of dependence with its interval.

    Attributes
    ----------
    value, low, high : float
        NaN where undefined.
    rows : int
        Rows the value was computed on.
    reason : str or None
        Why the value is undefined.
    """

    value: float
    low: float
    high: float
    rows: int
    reason: str | None


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
) -> DependenceInterval:
    """Measure how scores (n,) depend on all columns jointly, with an interval.

    Parameters
    ----------
    measure : {"GDP", "HGR", "dCor", "HSIC"}
    scores : ndarray of float64, shape (n,)
    sensitive_features : SensitiveTable
        Rows with a missing value are left out.
    y : array of shape (n,), optional
        Measure separation: within strata of this outcome.
    outcome : {"binary", "multiclass", "continuous"}, optional
        Kind of y, by the rules of `equipoise.metrics.outcome` unless given.
    draws, level, random_state
        As in `equipoise.inference.bootstrap`.

    Examples
    --------
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
        found = MEASURES[measure](scores, table, y=y, outcome=outcome)
    except InputError as undefined:
        return DependenceInterval(np.nan, np.nan, np.nan, len(scores), str(undefined))
    random = np.random.default_rng(random_state)
    value = float(found.value)
    scores, power = reduced(scores)
    if measure == "GDP":
        deviations = np.ldexp(_parity_deviations(scores, table, strata, draws, random), power)
    else:
        deviations = _deviations(measure, scores, table, strata, draws, random)
        deviations *= math.sqrt(min(len(scores), DRAWN_ROWS) / found.rows)
    position = min(math.ceil(level * (draws + 1)), draws)
    reach = float(np.sort(deviations)[position - 1])
    size = math.sqrt(value) if measure == "HSIC" else value
    low, high = max(size - reach, 0.0), size + reach
    if measure == "HSIC":
        low, high = low**2, high**2
    largest = math.inf if measure == "GDP" else 1.0
    return DependenceInterval(value, low, min(high, largest), found.rows, None)


def _deviations(
    measure: str,
    scores: Floats,
    table: SensitiveTable,
    strata: Integers,
    draws: int,
    random: np.random.Generator,
) -> Floats:
    """Deviations (draws,) of all strata together, averaged by size as the measure is."""
    if len(scores) > DRAWN_ROWS:
        some = np.sort(random.choice(len(scores), DRAWN_ROWS, replace=False))
        scores, table, strata = scores[some], table.take(some), strata[some]
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


def _of_correlation(score: Floats, table: SensitiveTable, counts: Floats) -> Floats:
    return correlation_deviations(score_functions(score), attribute_functions(table), counts)


def _of_distances(score: Floats, table: SensitiveTable, counts: Floats) -> Floats:
    """Deviations of distance covariance, in units of what makes it a correlation."""
    if table.is_discrete:
        cells = table.cells()
        between = (cells[:, None] != cells).astype(np.float64)
    else:
        vectors = kernel_vectors(table)
        between = cdist(vectors, vectors)
    # A distance is minus a kernel, up to terms that centring removes.
    left = -double_centred(cdist(score[:, None], score[:, None]))
    right = -double_centred(between)
    scale = math.sqrt(float(np.square(left).mean() * np.square(right).mean()))
    if scale == 0.0:
        return np.zeros(len(counts))
    return kernel_deviations(left, right, counts) / math.sqrt(scale)


def _of_kernels(score: Floats, table: SensitiveTable, counts: Floats) -> Floats:
    left, right = (
        double_centred(np.exp(cdist(v, v, "sqeuclidean") / (-2 * median_distance(v) ** 2)))
        for v in (score[:, None], kernel_vectors(table))
    )
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
    cells = len(sizes)
    stratum_of = np.zeros(cells, dtype=np.int64)
    stratum_of[cell] = strata
    squares = _sums(cell, np.square(scores - (_sums(cell, scores, cells) / sizes)[cell]), cells)
    pooled = _sums(stratum_of, squares, int(stratum_of.max()) + 1) / np.maximum(
        _sums(stratum_of, sizes - 1, int(stratum_of.max()) + 1), 1.0
    )
    prior = _POOLED_ROWS * pooled[stratum_of]
    variances = (squares + prior) / (sizes - 1 + _POOLED_ROWS)
    errors = random.normal(size=(draws, cells)) * np.sqrt(variances / sizes)
    member = stratum_of == np.arange(int(stratum_of.max()) + 1)[:, None]  # (strata, cells)
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


def _sums(codes: Integers, weights: NDArray[Any], count: int) -> Floats:
    """Sum of weights (m,) by code (m,); (count,)."""
    return np.asarray(np.bincount(codes, weights=weights, minlength=count), dtype=np.float64)
