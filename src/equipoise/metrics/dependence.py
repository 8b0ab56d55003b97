"""How strongly a score depends on sensitive attributes of any kind, one column or all jointly.

Four measures compare K scores with a :class:`~equipoise.tables.SensitiveTable`. Several columns are
measured jointly, which includes dependence that no single column shows. All measures are 0 in the
population if the score is independent of A. Given the outcome y they measure separation: the value
within each stratum of y, averaged by size. Strata are the levels of a discrete y, or five groups of
equal size of a continuous y. Inside such a group y still varies, and score and A may vary with it.
So `beyond_outcome` first removes from the score what a continuous y explains.

Measures that cost more than sorting use a limited number of rows, drawn without replacement; the
result says how many.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.polynomial.hermite_e import hermevander
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.spatial.distance import cdist, pdist, squareform
from scipy.special import ndtri
from scipy.stats import rankdata

from equipoise.errors import InputError
from equipoise.metrics.arrays import Floats, Integers, as_scores
from equipoise.metrics.outcome import (
    OutcomeKind,
    crossed,
    equal_frequency,
    kind_where_given,
    outcome_array,
    ranks_within,
    rows_of,
    strata_of,
)
from equipoise.metrics.registry import Computed, Metric, register_metric
from equipoise.metrics.sample import Sample
from equipoise.notions import Notion
from equipoise.scales import reduced
from equipoise.tables import MAX_DISCRETE_NUMBERS, SensitiveColumn, SensitiveTable

#: Most rows for a measure of cost O(n log n); maximal correlation takes about a second for them.
SORTED_ROWS = 100_000
#: Most rows for distance correlation with one column.
DISTANCE_ROWS = 10_000
#: Most rows for a measure of cost O(n^2): HSIC, and distance correlation with a mixed vector.
PAIRED_ROWS = 2_000
#: Number of strata of a continuous outcome.
OUTCOME_STRATA = 5
#: Degree of the polynomials that maximal correlation uses for continuous variables.
DEGREE = 5
# Smaller values are rounding errors: of a mean of n^2 products, and relative to n^2 distances.
_KERNEL_ROUNDING = 1e-15
_DISTANCE_ROUNDING = 1e-13
# If a curve in y leaves at most this share of a score's variance, y is said to explain all of it.
_CURVE_ERROR = 1e-4
# Decimals to which residuals are rounded; scores are of size one.
_RESIDUAL_DIGITS = 10


class Dependence(NamedTuple):
    """A measure of dependence, and what it was computed from."""

    value: Floats  # (K,) for scores (K, n), a scalar array for scores (n,)
    rows: int  # rows used: those without a missing sensitive value, up to the measure's limit


def measure_dependence(
    measure: str,
    scores: Any,
    sensitive_features: SensitiveTable,
    *,
    y: Any = None,
    outcome: OutcomeKind | None = None,
) -> Dependence:
    """Measure how scores depend on all columns jointly, within strata of y if it is given.

    measure: a name in `MEASURES`. scores: (n,) or (K, n); rows with a missing sensitive value are
    left out. outcome: kind of y (n,); by default the rules of `equipoise.metrics.outcome` decide.

    >>> table = SensitiveTable.from_data(["a", "a", "b", "b"])
    >>> round(float(measure_dependence("GDP", [0.0, 0.2, 0.4, 0.6], table).value), 6)
    0.2
    """
    kind = kind_where_given(y, outcome)
    matrix = as_scores(scores).cpu().numpy()
    rows = rows_of(matrix, sensitive_features, y)
    most = _most_rows(measure, sensitive_features)
    if len(rows) > most:
        rows = rows[np.sort(np.random.default_rng(0).choice(len(rows), most, replace=False))]
    strata = np.zeros(len(rows), np.int64)
    if kind is not None:
        strata = strata_of(outcome_array(y)[rows], kind, groups=OUTCOME_STRATA)
    # Squares of numbers of size one neither overflow nor vanish.
    matrix, powers = map(np.array, zip(*map(reduced, matrix[:, rows]), strict=True))
    if kind == "continuous":
        matrix = beyond_outcome(measure, matrix, outcome_array(y)[rows])
    value = np.zeros(len(matrix))
    for stratum in range(int(strata.max()) + 1):
        inside = np.flatnonzero(strata == stratum)
        table = sensitive_features.take(rows[inside])
        value += len(inside) / len(rows) * MEASURES[measure].compute(matrix[:, inside], table)
    if measure == "GDP":  # the only one in units of the score
        value = np.ldexp(value, powers)
    return Dependence(value.reshape(np.shape(scores)[:-1]), len(rows))  # K axis only if given


def beyond_outcome(measure: str, scores: Floats, y: NDArray[Any]) -> Floats:
    """Remove from scores (K, n) what a continuous y (n,) explains, for a measure given y.

    GDP compares means in units of the score, so it uses the residual from a smooth curve in y. The
    others compare distributions, whose spread may also vary with y. They use an estimate of
    U = F(score | y): the rank of such a residual among about 2 sqrt(n) rows of nearly equal y.
    Before, normal scores replace score and y, so that only their order matters. If score and A are
    independent given y, U is independent of (A, y), so that no stratum of y shows a dependence
    (Rosenblatt 1952 has the transform).
    """
    if measure == "GDP":
        return _residuals(scores, reduced(y.astype(np.float64))[0])
    near = equal_frequency(y, max(1, round(math.sqrt(len(y)) / 2)))
    residuals = _residuals(np.stack([_normal_scores(score) for score in scores]), _normal_scores(y))
    return ranks_within(residuals, near)


def _residuals(scores: Floats, y: Floats) -> Floats:
    """Residuals of the scores (K, n) from a cubic spline in y (n,) with n^(1/3) knots.

    >>> y = np.linspace(0, 1, 50)
    >>> _residuals((y**3)[None], y).any()
    np.False_
    """
    inner = np.unique(np.quantile(y, np.linspace(0, 1, round(len(y) ** (1 / 3)) + 2)))
    knots = np.concatenate([[inner[0]] * 3, inner, [inner[-1]] * 3])
    curves = orthonormal(BSpline.design_matrix(y, knots, 3).toarray())
    centered = _centered(scores)
    residuals = centered - centered @ curves @ curves.T
    # If y determines the score, the residuals are errors of the curve, which depend on y.
    residuals[residuals.var(axis=1) <= _CURVE_ERROR * centered.var(axis=1)] = 0.0
    # Equal residuals must not differ by rounding errors.
    return np.asarray(residuals.round(_RESIDUAL_DIGITS))


def _most_rows(measure: str, table: SensitiveTable) -> int:
    if measure == "dCor" and (len(table.columns) == 1 or table.is_discrete):
        return DISTANCE_ROWS
    return {"GDP": sys.maxsize, "HGR": SORTED_ROWS}.get(measure, PAIRED_ROWS)


# ------------------------------------------------------------------- generalized demographic parity


def generalized_demographic_parity(scores: Floats, table: SensitiveTable) -> Floats:
    """Mean distance between the average score at one's A and the average score: E abs(m(A) - m).

    Here m(a) = E[score | A = a] and m = E[score] (Jiang et al. 2022, weighted total variation), in
    the units of the score. For decisions 0 / 1 it is a difference of acceptance rates; for two
    groups of shares p and 1 - p it is 2 p (1 - p) times the demographic parity difference. The
    estimate of m(a) is the mean in a cell: a combination of levels of discrete columns and bins of
    equal frequency of continuous ones. Each of d continuous columns has n^(1 / (d + 2)) bins, the
    rate of regression on a partition (Gyorfi et al. 2002, theorem 4.3). At independence, the noise
    of C cell means makes the value about sd(score) sqrt(2 C / (pi n)). All rows are used.
    """
    cell = parity_cells(table)
    scores = scores - scores.mean(axis=1, keepdims=True)  # keeps digits if scores are far from 0
    sizes = np.bincount(cell)
    shares = sizes / len(cell)
    means = np.stack([np.bincount(cell, weights=score) for score in scores]) / sizes
    return np.asarray(np.abs(means - (means @ shares)[:, None]) @ shares)


def parity_cells(table: SensitiveTable) -> Integers:
    """Cell (n,) of every row, for the means of generalized demographic parity; none is empty.

    The table must have no missing values.
    """
    dimensions = sum(column.kind == "continuous" for column in table.columns)
    bins = max(2, round(table.n_rows ** (1 / (dimensions + 2))))
    codes = [
        equal_frequency(column.values, bins) if column.values is not None else column.codes
        for column in table.columns
    ]
    return crossed([each for each in codes if each is not None])[0]


# ------------------------------------------------------------------------------ maximal correlation


def maximal_correlation(scores: Floats, table: SensitiveTable) -> Floats:
    """Hirschfeld-Gebelein-Renyi maximal correlation, max over f, g of corr(f(score), g(A)).

    It lies in [0, 1]: 0 exactly at independence, 1 if a function of the score is a function of A.
    One-to-one maps of either side do not change it, and it is abs(rho) for a bivariate Gaussian of
    correlation rho (Renyi 1959). Here f and g are linear combinations of finitely many functions,
    which makes it the first canonical correlation between two bases, in O(n log n):

    * a discrete variable: every function of it, so that the value for two discrete variables is
      exact (the second singular value of the joint table over the roots of its margins;
      Witsenhausen 1975). A score with at most 10 distinct values is discrete;
    * a continuous variable: polynomials of degree up to 5 in its normal score, the normal quantile
      of its rank. The maximal functions of a bivariate Gaussian are linear in normal scores;
    * several columns: functions of one column, and products of functions of two columns.

    The estimate is biased upwards: at independence, with p and q functions, it is about
    (sqrt(p) + sqrt(q)) / sqrt(n), the largest singular value of a p x q matrix of noise. A
    permutation test shows whether a value is larger than that.
    """
    correlations = []
    attribute = attribute_functions(table)
    for score in scores:
        basis = score_functions(score)
        functions = basis.shape[1] + attribute.shape[1]
        if functions + 1 >= len(score):  # the correlation would be 1 for any data
            raise InputError(
                "maximal correlation needs more rows than functions of score and "
                f"sensitive_features, got {len(score)} rows in a stratum and {functions} "
                "functions; leave out columns or merge levels"
            )
        values = np.linalg.svd(orthonormal(basis).T @ orthonormal(attribute), compute_uv=False)
        # A basis without variation has no correlation.
        correlations.append(min(1.0, float(values[0])) if values.size else 0.0)
    return np.array(correlations)


def attribute_functions(table: SensitiveTable) -> Floats:
    """The functions of A for maximal correlation, (n, q)."""
    bases = [
        _indicators(column.codes) if column.codes is not None else _polynomials(_values(column))
        for column in table.columns
    ]
    products = [
        (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)
        for left, right in combinations(bases, 2)
    ]
    return np.concatenate([*bases, *products], axis=1)


def score_functions(score: Floats) -> Floats:
    """The functions of a score (n,) for maximal correlation, (n, p)."""
    few = len(np.unique(score)) <= MAX_DISCRETE_NUMBERS
    return _indicators(score) if few else _polynomials(score)


def orthonormal(basis: Floats) -> Floats:
    """Orthonormal columns (n, rank) that span the centered columns of a basis (n, p)."""
    centered = basis - basis.mean(axis=0)
    length = np.linalg.norm(centered, axis=0)
    varying = length > 1e-12 * np.linalg.norm(basis, axis=0)
    left, values, _ = np.linalg.svd(centered[:, varying] / length[varying], full_matrices=False)
    return np.asarray(left[:, values > 1e-8 * values.max(initial=0.0)])


def _polynomials(values: Floats) -> Floats:
    """Hermite polynomials of degree 1 to `DEGREE` of the normal scores of `values` (n,)."""
    return np.asarray(hermevander(_normal_scores(values), DEGREE)[:, 1:])


def _normal_scores(values: NDArray[Any]) -> Floats:
    """Normal quantile of the rank of every value (n,)."""
    return np.asarray(ndtri((rankdata(values) - 0.5) / len(values)))


def _indicators(labels: NDArray[np.generic]) -> Floats:
    """One 0/1 column for each level of `labels` (n,) except the first, which the others imply."""
    levels, codes = np.unique(labels, return_inverse=True)
    return np.asarray(codes[:, None] == np.arange(1, len(levels)), dtype=np.float64)


# ----------------------------------------------------------------------------- distance correlation


def distance_correlation(scores: Floats, table: SensitiveTable) -> Floats:
    """Distance correlation (Szekely, Rizzo and Bakirov 2007), in [0, 1], 0 exactly at independence.

    With pairwise distances a_ij of the scores and b_ij of the attribute, the squared distance
    covariance of the sample is

        V(a, b) = mean_ij(a_ij b_ij) - 2 mean_i(a_i. b_i.) + a.. b..,

    where a dot is a mean over an index, and the distance correlation is
    sqrt(V(a, b) / sqrt(V(a, a) V(b, b))). At independence it is positive and falls as 1 / sqrt(n).

    Distances are those between the values of one continuous column, or between the labels of a
    discrete column (or of the intersection of several). Then only row sums of distances and one sum
    of products are needed, in O(n log n) (an idea of Huo and Szekely 2016 and of Chaudhuri and Hu
    2019). For a mixed vector or several continuous columns, distances are those between the rows of
    `SensitiveTable.encode`, in O(n^2).
    """
    if table.is_discrete:
        return distance_correlation_with_label(scores, table.cells())
    if len(table.columns) == 1:
        return distance_correlation_with_number(scores, _values(table.columns[0]))
    return distance_correlation_with_vector(scores, table.encode().astype(np.float64))


def distance_correlation_with_number(scores: Floats, values: Floats) -> Floats:
    """Distance correlation (K,) of scores (K, n) with numbers (n,); 0 if either is constant."""
    values = _centered(values)
    by_value = np.argsort(values, kind="stable")
    return _correlations(
        scores,
        lambda score, _: _sum_of_products(values[by_value], score[by_value]),
        _distance_sums(values),
        _squared_distances(values),
    )


def distance_correlation_with_label(scores: Floats, labels: Integers) -> Floats:
    """Distance correlation (K,) of scores (K, n) with labels (n,); different labels are 1 apart.

    This is also the distance correlation with the one-hot vector of the label.
    """
    _, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    sums = (len(codes) - sizes[codes]).astype(np.float64)
    by_label = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])

    def products(score: Floats, score_sums: Floats) -> float:
        """Sum over all pairs, without the pairs of equal labels, which are 0 apart."""
        within = sum(float(_distance_sums(score[rows]).sum()) for rows in by_label)
        return float(score_sums.sum()) - within

    return _correlations(scores, products, sums, sums.sum())


def distance_correlation_with_vector(scores: Floats, vectors: Floats) -> Floats:
    """Distance correlation (K,) of scores (K, n) with Euclidean vectors (n, q)."""
    distances = cdist(vectors, vectors)
    return _correlations(
        scores,
        lambda score, _: float(np.vdot(cdist(score[:, None], score[:, None]), distances)),
        distances.sum(axis=1),
        float(np.vdot(distances, distances)),
    )


def _correlations(
    scores: Floats, products: Callable[[Floats, Floats], float], sums: Floats, squares: float
) -> Floats:
    """Distance correlations (K,) of scores (K, n) with an attribute.

    sums: row sums of the attribute's distances, (n,); squares: the sum of their squares. products:
    takes a score and the row sums of its distances and returns the sum over all pairs of the
    products of both distances.
    """
    variance = _covariance(squares, sums, sums)
    found = []
    for score in _centered(scores):
        own = _distance_sums(score)
        covariance = _covariance(products(score, own), own, sums)
        both = np.sqrt(_covariance(_squared_distances(score), own, own) * variance)
        found.append(min(1.0, float(np.sqrt(covariance / both))) if both else 0.0)
    return np.array(found)


def _covariance(products: float, left: Floats, right: Floats) -> float:
    """V of two distances, from their sum of products over all pairs and their row sums (n,)."""
    n = len(left)
    mean_product = products / n**2
    value = mean_product - 2 * float(left @ right) / n**3 + left.sum() * right.sum() / n**4
    return float(value) if value > _DISTANCE_ROUNDING * mean_product else 0.0


def _centered(values: Floats) -> Floats:
    """Numbers (..., n) less their mean, in two steps: far from zero the first is not exact."""
    near = values - values.mean(axis=-1, keepdims=True)
    return np.asarray(near - near.mean(axis=-1, keepdims=True))


def _squared_distances(centered: Floats) -> float:
    """Sum over all pairs of squared differences of centered numbers (n,)."""
    return float(2 * len(centered) * (centered @ centered))


def _distance_sums(values: Floats) -> Floats:
    """Sum over j of abs(values_i - values_j) for every i, (n,), from one sort."""
    n = len(values)
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    running = np.cumsum(ascending)
    sums = np.empty(n)
    # With r values up to x_i: r x_i - (their sum) + (sum of the others) - (n - r) x_i.
    sums[order] = (2 * np.arange(1, n + 1) - n) * ascending - 2 * running + running[-1]
    return sums


def _sum_of_products(x: Floats, y: Floats) -> float:
    """Sum over all pairs of abs(x_i - x_j) abs(y_i - y_j), for x ascending; both (n,).

    A pair i < j has abs(x_j - x_i) = x_j - x_i and abs(y_j - y_i) = (y_j - y_i)(2 [y_i < y_j] - 1).
    So sums of 1, x, y and x y are needed over earlier rows, and over earlier rows of smaller y. The
    latter come from a merge sort by y, all blocks of one width at once. Rows of equal y add 0,
    whether they are counted or not.
    """
    n = len(x)
    padded = 1 << (n - 1).bit_length()
    keys = np.pad(y, (0, padded - n), constant_values=np.inf)
    terms = np.pad(np.stack([np.ones(n), x, y, x * y]), ((0, 0), (0, padded - n)))
    below = np.zeros_like(terms)
    order = np.arange(padded)
    width = 1
    while width < padded:
        blocks = order.reshape(-1, 2 * width)  # each has two sorted halves, to be merged
        merged = np.argsort(keys[blocks], axis=1, kind="stable")
        from_left = (merged < width).ravel()
        order = np.take_along_axis(blocks, merged, axis=1).ravel()
        left_terms = np.where(from_left, terms[:, order], 0.0).reshape(4, -1, 2 * width)
        running = left_terms.cumsum(axis=2).reshape(4, -1)
        below[:, order[~from_left]] += running[:, ~from_left]
        width *= 2
    before = np.cumsum(terms, axis=1) - terms
    count, sum_x, sum_y, sum_xy = (2 * below - before)[:, :n]
    return float(2 * np.sum(count * x * y - sum_y * x - sum_x * y + sum_xy))


# --------------------------------------------------------------------------------------------- HSIC


def hilbert_schmidt(scores: Floats, table: SensitiveTable) -> Floats:
    """Hilbert-Schmidt independence criterion with Gaussian kernels (Gretton et al. 2005), up to 1.

    HSIC = mean_ij(k_ij l_ij) - 2 mean_i(k_i. l_i.) + k.. l.., the biased estimate (a V-statistic),
    where k is a kernel of the scores, l a kernel of the attribute, and a dot a mean over an index.
    The width of a kernel is the median of the positive distances between rows. In the population
    HSIC is 0 exactly at independence; in a sample it is then about (1 - k..)(1 - l..) / n.

    The kernel of one continuous column uses its values, all others use `SensitiveTable.encode`.
    """
    attribute = gaussian_kernel(kernel_vectors(table))
    products = [float(np.vdot(gaussian_kernel(score[:, None]), attribute)) for score in scores]
    mean = np.array(products) / len(attribute) ** 2
    return np.where(mean > _KERNEL_ROUNDING, mean, 0.0)


def kernel_vectors(table: SensitiveTable) -> Floats:
    """The vectors (n, q) for the Gaussian kernel of A."""
    alone = len(table.columns) == 1 and not table.is_discrete
    return _values(table.columns[0])[:, None] if alone else table.encode().astype(np.float64)


def _values(column: SensitiveColumn) -> Floats:
    assert column.values is not None
    return reduced(column.values)[0]


def gaussian_kernel(vectors: Floats) -> Floats:
    """Double-centered exp(-d^2 / (2 w^2)) between rows of (n, q), w the median positive distance.

    If all rows are equal, w is 1.
    """
    squares = pdist(vectors, "sqeuclidean")  # one of each pair; most of the time goes into these
    positive = squares[squares > 0]
    width = _median(np.sqrt(positive, out=positive)) if positive.size else 1.0
    squares /= -2 * width**2
    kernel = squareform(np.exp(squares, out=squares), checks=False)
    np.fill_diagonal(kernel, 1.0)
    return double_centered(kernel)


def _median(values: Floats) -> float:
    """The median of numbers (n,), in less than half the time of `numpy.median`."""
    middle = len(values) // 2
    ordered = np.partition(values, middle)
    upper = float(ordered[middle])
    return upper if len(values) % 2 else (float(ordered[:middle].max()) + upper) / 2


def double_centered(matrix: Floats) -> Floats:
    """A symmetric matrix (m, m) less its row and column means.

    >>> double_centered(np.array([[0.0, 1.0], [1.0, 0.0]]))
    array([[-0.5,  0.5], [ 0.5, -0.5]])
    """
    mean = matrix.mean(axis=0)
    centered: Floats = matrix - mean[:, None]
    centered -= mean
    centered += mean.mean()
    return centered


# ---------------------------------------------------------------------------------------- registry


class _Measure(NamedTuple):
    compute: Callable[[Floats, SensitiveTable], Floats]
    description: str
    formula: str


#: The measures by their names in tables; given the outcome, "|Y" is added.
MEASURES = {
    "GDP": _Measure(
        generalized_demographic_parity,
        "Average distance between the mean score at one's A and the mean score.",
        "E |E[score | A] - E[score]|, by level or by bins of equal frequency of A",
    ),
    "HGR": _Measure(
        maximal_correlation,
        "Largest correlation between a function of the score and a function of A.",
        "max over f, g of corr(f(score), g(A)); degree 5 in normal scores where continuous",
    ),
    "dCor": _Measure(
        distance_correlation,
        "Correlation of distances between scores with distances between values of A.",
        "sqrt(V(score, A) / sqrt(V(score, score) V(A, A))), V the squared distance covariance",
    ),
    "HSIC": _Measure(
        hilbert_schmidt,
        "Distance of the joint distribution of (score, A) from independence, by Gaussian kernels.",
        "mean(k l) - 2 mean(k. l.) + k.. l.., Gaussian kernels, median heuristic",
    ),
}


def _compute(sample: Sample, *, name: str, conditional: bool) -> Computed:
    """The measure for a sample; NaN and the reason if it is undefined."""
    scored = sample.scored
    if bool((scored.weights != 1).any()):
        full = f"{name}|Y" if conditional else name
        raise InputError(f"{full} does not take row weights; leave weights out")
    y = scored.y.cpu().numpy() if conditional and scored.y is not None else None
    kind = scored.outcome_kind if conditional else None
    table = SensitiveTable((sample.column,))
    value = np.full(len(scored.scores), np.nan)
    reasons: list[str | None] = [None] * len(value)
    try:
        value = measure_dependence(name, scored.scores, table, y=y, outcome=kind).value
    except InputError:  # undefined for some score; the others may have a value
        for member, score in enumerate(scored.scores):
            try:
                value[member] = measure_dependence(name, score, table, y=y, outcome=kind).value
            except InputError as undefined:
                reasons[member] = str(undefined)
    return Computed(torch.from_numpy(value)[None].to(scored.scores.device), tuple(reasons))


for _name, _measure in MEASURES.items():
    for _notion in Notion:
        _given = _notion.conditions_on_outcome
        _within = (
            "mean over strata of Y (levels, or fifths of a continuous Y, whose effect on the score "
            "is first removed) of: "
        )
        _averaged = (
            " Within strata of the outcome, averaged by size. What a continuous outcome explains "
            "is first removed from the score, so that the value is 0 if separation holds."
        )
        register_metric(
            Metric(
                name=f"{_name}|Y" if _given else _name,
                notion=_notion,
                description=_measure.description + (_averaged if _given else ""),
                formula=(_within if _given else "") + _measure.formula,
                compute=partial(_compute, name=_name, conditional=_given),
                range=(0.0, float("inf") if _name == "GDP" else 1.0),
                rank_based=_name == "HGR",
                weighted=False,
            )
        )
