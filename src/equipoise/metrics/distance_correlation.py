"""Distance correlation (Szekely, Rizzo and Bakirov 2007): zero exactly at independence.

With pairwise distances a_ij of the scores and b_ij of the attribute, the squared distance
covariance of the sample is

    V(a, b) = mean_ij(a_ij b_ij) - 2 mean_i(a_i. b_i.) + a.. b..,

dots standing for means over an index, and the distance correlation is
sqrt(V(a, b) / sqrt(V(a, a) V(b, b))), in [0, 1]. Only sums over rows of distances and the one sum
of products are needed, which two numbers or a number and a label give in O(n log n) (the idea of
Huo and Szekely 2016 and of Chaudhuri and Hu 2019); other pairs cost O(n^2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

Floats = NDArray[np.float64]

# Sums of n^2 distances carry a rounding error of about this share; less than it is zero.
_ROUNDING = 1e-13


def distance_correlation_with_number(scores: Floats, values: Floats) -> Floats:
    """Distance correlation of K scores (K, n) with one number per row (n,), in O(n log n); (K,).

    A constant on either side gives 0.

    >>> distance_correlation_with_number(np.array([[1.0, 2.0, 3.0]]), np.array([2.0, 4.0, 6.0]))
    array([1.])
    """
    values = _centred(values)
    attribute_sums = _distance_sums(values)
    attribute_variance = _covariance(_squared_distances(values), attribute_sums, attribute_sums)
    by_value = np.argsort(values, kind="stable")
    return np.array(
        [
            _correlation(
                _covariance(
                    _sum_of_products(values[by_value], score[by_value]),
                    _distance_sums(score),
                    attribute_sums,
                ),
                _score_variance(score),
                attribute_variance,
            )
            for score in _centred(scores)
        ]
    )


def distance_correlation_with_label(scores: Floats, labels: NDArray[np.int64]) -> Floats:
    """Distance correlation of K scores (K, n) with labels (n,), any two of them 1 apart; (K,).

    This is also the distance correlation with the one-hot vector of the label. O(n log n).
    """
    _, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    n = len(codes)
    attribute_sums = (n - sizes[codes]).astype(np.float64)
    attribute_variance = _covariance(attribute_sums.sum(), attribute_sums, attribute_sums)
    correlations = []
    for score in _centred(scores):
        score_sums = _distance_sums(score)
        # Pairs of different labels are all pairs less the pairs within a label.
        products = score_sums.sum() - _distances_within(score, codes, sizes)
        covariance = _covariance(products, score_sums, attribute_sums)
        correlations.append(_correlation(covariance, _score_variance(score), attribute_variance))
    return np.array(correlations)


def distance_correlation_with_vector(scores: Floats, vectors: Floats) -> Floats:
    """Distance correlation of K scores (K, n) with Euclidean vectors (n, q), in O(n^2); (K,)."""
    distances = cdist(vectors, vectors)
    attribute_sums = distances.sum(axis=1)
    attribute_variance = _covariance(
        float(np.vdot(distances, distances)), attribute_sums, attribute_sums
    )
    correlations = []
    for score in _centred(scores):
        products = float(np.vdot(cdist(score[:, None], score[:, None]), distances))
        covariance = _covariance(products, _distance_sums(score), attribute_sums)
        correlations.append(_correlation(covariance, _score_variance(score), attribute_variance))
    return np.array(correlations)


def _centred(values: Floats) -> Floats:
    """Numbers (..., n) less their mean, which far from zero is not exact the first time."""
    near = values - values.mean(axis=-1, keepdims=True)
    return np.asarray(near - near.mean(axis=-1, keepdims=True))


def _covariance(products: float, left: Floats, right: Floats) -> float:
    """V of two distances from their sum of products over all pairs and their row sums (n,)."""
    n = len(left)
    mean_product = products / n**2
    value = mean_product - 2 * float(left @ right) / n**3 + left.sum() * right.sum() / n**4
    return float(value) if value > _ROUNDING * mean_product else 0.0


def _correlation(covariance: float, left_variance: float, right_variance: float) -> float:
    if left_variance == 0.0 or right_variance == 0.0:
        return 0.0
    return float(min(1.0, np.sqrt(covariance / np.sqrt(left_variance * right_variance))))


def _score_variance(score: Floats) -> float:
    sums = _distance_sums(score)
    return _covariance(_squared_distances(score), sums, sums)


def _squared_distances(centred: Floats) -> float:
    """Sum over all pairs of squared differences of centred numbers (n,)."""
    return float(2 * len(centred) * (centred @ centred))


def _distance_sums(values: Floats) -> Floats:
    """Sum over j of abs(values_i - values_j) for every i, (n,), from one sort."""
    n = len(values)
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    running = np.cumsum(ascending)
    sums = np.empty(n)
    # With r values below or at i: r x_i - (their sum) + (sum of the others) - (n - r) x_i.
    sums[order] = (2 * np.arange(1, n + 1) - n) * ascending - 2 * running + running[-1]
    return sums


def _distances_within(score: Floats, codes: NDArray[np.intp], sizes: NDArray[np.intp]) -> float:
    """Sum of distances over all pairs of rows that share a label."""
    order = np.lexsort((score, codes))
    first = np.cumsum(sizes) - sizes
    place = np.arange(len(score)) - first[codes[order]]
    return float(2 * (score[order] @ (2 * place - sizes[codes[order]] + 1)))


def _sum_of_products(x: Floats, y: Floats) -> float:
    """Sum over all pairs of abs(x_i - x_j) abs(y_i - y_j), for x ascending; both (n,).

    A pair i < j has abs(x_j - x_i) = x_j - x_i and abs(y_j - y_i) = (y_j - y_i)(2 [y_i < y_j] - 1),
    so what is needed are sums of 1, x, y and x y over earlier rows, and over earlier rows of
    smaller y. The latter come from a merge sort by y, all blocks of one width at once.
    """
    terms = np.stack([np.ones_like(x), x, y, x * y])
    before = np.cumsum(terms, axis=1) - terms
    below = _sums_of_earlier_and_smaller(y, terms)
    count, sum_x, sum_y, sum_xy = 2 * below - before
    return float(2 * np.sum(count * x * y - sum_y * x - sum_x * y + sum_xy))


def _sums_of_earlier_and_smaller(y: Floats, terms: Floats) -> Floats:
    """Sums of `terms` (m, n) over rows i < j with y_i < y_j, for every j; (m, n).

    Rows of equal y may be counted or not: they add nothing to the sums they are used in.
    """
    n = len(y)
    padded = 1 << (n - 1).bit_length()
    keys = np.concatenate([y, np.full(padded - n, np.inf)])
    weights = np.zeros((len(terms), padded))
    weights[:, :n] = terms
    sums = np.zeros_like(weights)
    order = np.arange(padded)
    width = 1
    while width < padded:
        blocks = order.reshape(-1, 2 * width)  # two sorted halves each, which merge in linear time
        merged = np.argsort(keys[blocks], axis=1, kind="stable")
        from_left = (merged < width).ravel()
        order = np.take_along_axis(blocks, merged, axis=1).ravel()
        left_terms = np.where(from_left, weights[:, order], 0.0).reshape(len(terms), -1, 2 * width)
        running = left_terms.cumsum(axis=2).reshape(len(terms), -1)
        right = order[~from_left]
        sums[:, right] += running[:, ~from_left]
        width *= 2
    return sums[:, :n]
