"""The Hilbert-Schmidt independence criterion (Gretton, Bousquet, Smola and Scholkopf 2005).

HSIC = mean_ij(k_ij l_ij) - 2 mean_i(k_i. l_i.) + k.. l.., the biased estimate (a V-statistic),
with k a kernel of the scores and l one of the attribute, dots standing for means over an index.
Both kernels are Gaussian, exp(-d^2 / (2 w^2)), so that in the population HSIC is 0 exactly at
independence; in a sample it is above 0, by about (1 - k..)(1 - l..) / n at independence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist

Floats = NDArray[np.float64]

# Means of n^2 products carry a rounding error of about this size; less than it is zero.
_ROUNDING = 1e-15


def gaussian_hsic(
    scores: Floats,
    vectors: Floats,
    *,
    score_width: float | None = None,
    vector_width: float | None = None,
) -> Floats:
    """HSIC of K scores (K, n) and vectors (n, q), in O(n^2) time and memory; (K,).

    Widths w not given are the median of the positive distances between rows (the median
    heuristic; zero distances, of equal rows, say nothing about scale).

    >>> gaussian_hsic(np.array([[0.0, 1.0]]), np.array([[0.0], [1.0]])).round(4)
    array([0.0387])
    """
    attribute = _centred_kernel(vectors, vector_width)
    values = [
        float(np.vdot(_centred_kernel(score[:, None], score_width), attribute)) for score in scores
    ]
    mean = np.array(values) / len(vectors) ** 2
    return np.where(mean > _ROUNDING, mean, 0.0)


def median_distance(vectors: Floats) -> float:
    """Median of the positive Euclidean distances between rows of (n, q); 1 if all are equal.

    >>> median_distance(np.array([[0.0], [0.0], [3.0], [7.0]]))
    4.0
    """
    distances = pdist(vectors)
    positive = distances[distances > 0]
    return float(np.median(positive)) if positive.size else 1.0


def _centred_kernel(vectors: Floats, width: float | None) -> Floats:
    """Gaussian kernel matrix (n, n) less its row and column means."""
    width = median_distance(vectors) if width is None else width
    kernel = np.exp(cdist(vectors, vectors, "sqeuclidean") / (-2 * width**2))
    mean = kernel.mean(axis=0)
    kernel -= mean[:, None]
    kernel -= mean[None, :]
    kernel += mean.mean()
    return kernel
