"""How strongly a score depends on sensitive attributes of any kind, one column or all jointly.

Four measures of K scores against a :class:`~equipoise.tables.SensitiveTable`; a table of several
columns is measured jointly, which sees what no single column shows. All are 0 when the score
ignores A. Given the outcome y they measure separation: the value within each stratum of y, averaged
by size. Strata are the levels of a discrete y, and ten groups of equal size (cut at the deciles) of
a continuous one; since y still varies inside such a group, a dependence that runs through y alone
can leave a trace in the value then.

Some measures cost more than sorting and run on a stated number of rows at most, drawn without
replacement by `random_state`; the result always says how many rows were used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.errors import InputError, check_whole
from equipoise.metrics.arrays import as_scores
from equipoise.metrics.distance_correlation import (
    distance_correlation_with_label,
    distance_correlation_with_number,
    distance_correlation_with_vector,
)
from equipoise.metrics.hsic import gaussian_hsic
from equipoise.metrics.maximal_correlation import (
    canonical_correlation,
    indicators,
    polynomials,
    with_products,
)
from equipoise.metrics.outcome import OutcomeKind, kind_where_given, outcome_array
from equipoise.metrics.registry import Computed, Metric, register
from equipoise.metrics.sample import Sample
from equipoise.metrics.strata import crossed, rows_of, strata_of
from equipoise.notions import Notion
from equipoise.scales import reduced
from equipoise.tables import SensitiveColumn, SensitiveTable
from equipoise.tables.kinds import MAX_DISCRETE_NUMBERS

Floats = NDArray[np.float64]

#: Most rows a measure of cost O(n log n) uses; maximal correlation on them takes about a second.
SORTED_ROWS = 100_000
#: Most rows distance correlation with one column uses.
DISTANCE_ROWS = 10_000
#: Most rows a measure of cost O(n^2) uses: HSIC, and distance correlation with a mixed vector.
PAIRED_ROWS = 2_000
#: Groups of equal size that a continuous outcome is cut into.
OUTCOME_STRATA = 10


@dataclass(frozen=True)
class Dependence:
    """A measure of dependence, and what it was computed from.

    Attributes
    ----------
    value : ndarray of float64
        (K,) for scores (K, n), a scalar array for scores (n,).
    rows : int
        How many rows were used: those with every sensitive value known, up to the measure's limit.
    strata : int
        Number of strata of y the value is averaged over; 1 when y was not given.
    """

    value: Floats
    rows: int
    strata: int


def generalised_demographic_parity(
    scores: Any,
    sensitive_features: SensitiveTable,
    *,
    y: Any = None,
    outcome: OutcomeKind | None = None,
) -> Dependence:
    """Mean distance between the average score near one's A and the average score: E abs(m(A) - m).

    Here m(a) = E[score | A = a] and m = E[score] (Jiang et al. 2022, weighted total variation), in
    the units of the score; for decisions 0 / 1 it is a difference of acceptance rates, and for two
    groups of shares p and 1 - p it is 2 p (1 - p) times the demographic parity difference. m(a) is
    estimated by the mean over cells: levels of discrete columns crossed with bins of equal
    frequency of continuous ones, n^(1 / (d + 2)) of them for each of d continuous columns, the rate
    of regression on a partition (Gyorfi et al. 2002, theorem 4.3). The noise of C cell means makes
    the value at independence about sd(score) sqrt(2 C / (pi n)). All rows are used.

    Parameters
    ----------
    scores : array of shape (n,) or (K, n)
    sensitive_features : SensitiveTable
        Rows with a missing value are left out.
    y : array of shape (n,), optional
        Measure separation, within strata of this outcome.
    outcome : {"binary", "multiclass", "continuous"}, optional
        Kind of y, by the rules of `equipoise.metrics.outcome` unless given.

    Returns
    -------
    Dependence

    Examples
    --------
    >>> table = SensitiveTable.from_data(["a", "a", "b", "b"])
    >>> round(float(generalised_demographic_parity([0.0, 0.2, 0.4, 0.6], table).value), 6)
    0.2
    """
    return _measure(_parity, None, scores, sensitive_features, y, outcome, random_state=0)


def maximal_correlation(
    scores: Any,
    sensitive_features: SensitiveTable,
    *,
    y: Any = None,
    outcome: OutcomeKind | None = None,
    random_state: int = 0,
) -> Dependence:
    """Hirschfeld-Gebelein-Renyi maximal correlation, in [0, 1], in O(n log n).

    Which functions it ranges over and how it is biased is said in
    `equipoise.metrics.maximal_correlation`. A score with at most 10 distinct values is discrete.
    At most `SORTED_ROWS` rows are used. Parameters are those of `generalised_demographic_parity`.
    """
    return _measure(
        _maximal_correlation, SORTED_ROWS, scores, sensitive_features, y, outcome, random_state
    )


def distance_correlation(
    scores: Any,
    sensitive_features: SensitiveTable,
    *,
    y: Any = None,
    outcome: OutcomeKind | None = None,
    random_state: int = 0,
) -> Dependence:
    """Distance correlation, in [0, 1] (`equipoise.metrics.distance_correlation` has the formula).

    One continuous column enters by its values, a discrete one (or the intersection of several) by
    its label; both on at most `DISTANCE_ROWS` rows. A mixed vector or several continuous columns
    enter as `SensitiveTable.encode` scales them, on at most `PAIRED_ROWS` rows. At independence the
    value is positive and falls as 1 / sqrt(n). Parameters are those of
    `generalised_demographic_parity`.
    """
    single = len(sensitive_features.columns) == 1 or sensitive_features.is_discrete
    limit = DISTANCE_ROWS if single else PAIRED_ROWS
    return _measure(
        _distance_correlation, limit, scores, sensitive_features, y, outcome, random_state
    )


def hilbert_schmidt(
    scores: Any,
    sensitive_features: SensitiveTable,
    *,
    y: Any = None,
    outcome: OutcomeKind | None = None,
    random_state: int = 0,
) -> Dependence:
    """HSIC with Gaussian kernels and the median heuristic (`equipoise.metrics.hsic`), in [0, 1].

    One continuous column enters by its values, everything else as `SensitiveTable.encode` scales
    it, on at most `PAIRED_ROWS` rows. Parameters are those of `generalised_demographic_parity`.
    """
    return _measure(
        _hilbert_schmidt, PAIRED_ROWS, scores, sensitive_features, y, outcome, random_state
    )


def _measure(
    formula: Callable[[Floats, SensitiveTable], Floats],
    limit: int | None,
    scores: Any,
    table: SensitiveTable,
    y: Any,
    outcome: OutcomeKind | None,
    random_state: int,
) -> Dependence:
    """Apply `formula` to at most `limit` known rows, stratum by stratum."""
    check_whole("random_state", random_state, least=0)
    kind = kind_where_given(y, outcome)
    matrix = as_scores(scores).cpu().numpy()
    rows = rows_of(matrix, table, y)
    if limit is not None and len(rows) > limit:
        drawn = np.random.default_rng(random_state).choice(len(rows), limit, replace=False)
        rows = rows[np.sort(drawn)]
    strata = np.zeros(len(rows), np.int64)
    if kind is not None:
        strata = strata_of(outcome_array(y)[rows], kind, groups=OUTCOME_STRATA)
    # In numbers of size one squares neither overflow nor vanish.
    matrix, powers = map(np.array, zip(*map(reduced, matrix), strict=True))
    value = np.zeros(len(matrix))
    count = int(strata.max()) + 1
    for stratum in range(count):
        chosen = rows[strata == stratum]
        value += len(chosen) / len(rows) * formula(matrix[:, chosen], table.take(chosen))
    if formula is _parity:  # the only one in units of the score
        value = np.ldexp(value, powers)
    value = value.reshape(np.shape(scores)[:-1])  # no K axis where none was given
    return Dependence(value, len(rows), count)


def _parity(scores: Floats, table: SensitiveTable) -> Floats:
    cell = parity_cells(table)
    scores = scores - scores.mean(axis=1, keepdims=True)  # small differences far from 0 keep digits
    sizes = np.bincount(cell)
    shares = sizes / len(cell)
    means = np.stack([np.bincount(cell, weights=score) for score in scores]) / sizes
    return np.asarray(np.abs(means - (means @ shares)[:, None]) @ shares)


def parity_cells(table: SensitiveTable) -> NDArray[np.int64]:
    """Cell (n,) of every row in which generalised demographic parity takes a mean; none is empty.

    The table must have no missing values.
    """
    dimensions = sum(column.kind == "continuous" for column in table.columns)
    bins = max(2, round(table.n_rows ** (1 / (dimensions + 2))))
    return crossed([_bins(column, bins) for column in table.columns])[0]


def _bins(column: SensitiveColumn, bins: int) -> NDArray[np.int64]:
    """Number of the level, or of the bin of equal frequency, of every row; (n,)."""
    if column.codes is not None:
        return column.codes
    assert column.values is not None
    cuts = np.quantile(column.values, np.arange(1, bins) / bins)
    return np.searchsorted(cuts, column.values, side="left").astype(np.int64)


def _maximal_correlation(scores: Floats, table: SensitiveTable) -> Floats:
    correlations = []
    attribute = attribute_functions(table)
    for score in scores:
        basis = score_functions(score)
        functions = basis.shape[1] + attribute.shape[1]
        if functions + 1 >= len(score):  # the two spans would meet, whatever the data
            raise InputError(
                "maximal correlation needs more rows than functions of score and "
                f"sensitive_features, got {len(score)} rows in a stratum and {functions} "
                "functions; leave out columns or merge levels"
            )
        correlations.append(canonical_correlation(basis, attribute))
    return np.array(correlations)


def attribute_functions(table: SensitiveTable) -> Floats:
    """The functions of A that maximal correlation ranges over, (n, q)."""
    return with_products(
        [
            indicators(column.codes) if column.codes is not None else polynomials(_values(column))
            for column in table.columns
        ]
    )


def score_functions(score: Floats) -> Floats:
    """The functions of a score (n,) that maximal correlation ranges over, (n, p)."""
    few = len(np.unique(score)) <= MAX_DISCRETE_NUMBERS
    return indicators(score) if few else polynomials(score)


def _distance_correlation(scores: Floats, table: SensitiveTable) -> Floats:
    if table.is_discrete:
        return distance_correlation_with_label(scores, table.cells())
    if len(table.columns) == 1:
        return distance_correlation_with_number(scores, _values(table.columns[0]))
    return distance_correlation_with_vector(scores, table.encode().astype(np.float64))


def _hilbert_schmidt(scores: Floats, table: SensitiveTable) -> Floats:
    return gaussian_hsic(scores, kernel_vectors(table))


def kernel_vectors(table: SensitiveTable) -> Floats:
    """What the Gaussian kernel of A is taken of, (n, q)."""
    alone = len(table.columns) == 1 and not table.is_discrete
    return _values(table.columns[0])[:, None] if alone else table.encode().astype(np.float64)


def _values(column: SensitiveColumn) -> Floats:
    assert column.values is not None
    return reduced(column.values)[0]


class _Measure(Protocol):
    def __call__(
        self,
        scores: Any,
        sensitive_features: SensitiveTable,
        *,
        y: Any = None,
        outcome: OutcomeKind | None = None,
    ) -> Dependence: ...


def _compute(measure: _Measure, name: str, sample: Sample, *, conditional: bool) -> Computed:
    """The measure on a registry sample, NaN with the reason where it is undefined."""
    scored = sample.scored
    if bool((scored.weights != 1).any()):
        raise InputError(f"{name} does not take row weights; leave weights out")
    y = scored.y.cpu().numpy() if conditional and scored.y is not None else None
    kind = scored.outcome_kind if conditional else None
    table = SensitiveTable((sample.column,))
    try:
        value = measure(scored.scores, table, y=y, outcome=kind).value
        reasons: list[str | None] = [None] * len(value)
    except InputError:  # of some score; the others may have a value
        value = np.full(len(scored.scores), np.nan)
        reasons = [None] * len(value)
        for member, score in enumerate(scored.scores):
            try:
                value[member] = measure(score, table, y=y, outcome=kind).value
            except InputError as undefined:
                reasons[member] = str(undefined)
    return Computed(torch.from_numpy(value)[None].to(scored.scores.device), tuple(reasons))


def _register(
    measure: _Measure,
    name: str,
    description: str,
    formula: str,
    *,
    largest: float = 1.0,
    rank_based: bool = False,
) -> None:
    """Enrol a measure under both notions; `largest` is the largest value it can take."""
    for conditional in (False, True):
        full_name = f"{name}|Y" if conditional else name
        register(
            Metric(
                name=full_name,
                notion=Notion.SEPARATION if conditional else Notion.INDEPENDENCE,
                description=(
                    f"{description} Within strata of the outcome, averaged by size."
                    if conditional
                    else description
                ),
                formula=(
                    f"mean over strata of Y (levels, or tenths of a continuous Y) of: {formula}"
                    if conditional
                    else formula
                ),
                compute=partial(_compute, measure, full_name, conditional=conditional),
                attributes=frozenset({"discrete", "continuous"}),
                outcomes=frozenset({"binary", "multiclass", "continuous"}),
                needs_decisions=False,
                range=(0.0, largest),
                rank_based=rank_based,
                weighted=False,
            )
        )


_register(
    generalised_demographic_parity,
    "GDP",
    "How far the mean score near one's A lies from the mean score, on average.",
    "E |E[score | A] - E[score]|, by level or by bins of equal frequency of A",
    largest=float("inf"),
)
_register(
    maximal_correlation,
    "HGR",
    "Largest correlation between a function of the score and a function of A.",
    "max over f, g of corr(f(score), g(A)); degree 5 in normal scores where continuous",
    rank_based=True,
)
_register(
    distance_correlation,
    "dCor",
    "Correlation of distances between scores with distances between values of A.",
    "sqrt(V(score, A) / sqrt(V(score, score) V(A, A))), V the squared distance covariance",
)
_register(
    hilbert_schmidt,
    "HSIC",
    "Distance of the joint law of (score, A) from independence, seen through Gaussian kernels.",
    "mean(k l) - 2 mean(k. l.) + k.. l.., Gaussian kernels, median heuristic",
)
