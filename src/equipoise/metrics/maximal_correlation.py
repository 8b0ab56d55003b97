"""The Hirschfeld-Gebelein-Renyi maximal correlation: max over f, g of corr(f(score), g(A)).

It is 0 exactly at independence, 1 when a function of the score is a function of A, unchanged by
one-to-one maps of either side, and abs(rho) for a bivariate Gaussian of correlation rho (Renyi
1959). For two discrete variables it is the second singular value of the joint table divided by
the roots of its margins (Witsenhausen 1975).

Here f and g range over stated, finite sets of functions, which makes it the first canonical
correlation between two bases, in O(n log n):

* a discrete variable: every function of it, so that two of them are treated exactly;
* a continuous variable: polynomials of degree up to 5 in its normal score, the normal quantile of
  its rank. A strictly increasing map changes nothing, and a bivariate Gaussian is treated exactly
  up to sampling, since its maximal pair of functions is linear in normal scores;
* several columns: sums of functions of one column and of products of functions of two columns.

The estimate is biased upwards: at independence, with p and q functions, it is about
(sqrt(p) + sqrt(q)) / sqrt(n), the largest singular value of a p x q matrix of noise. A permutation
test tells whether a value is more than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

Floats = NDArray[np.float64]

DEGREE = 5


def canonical_correlation(left: Floats, right: Floats) -> float:
    """Largest correlation between combinations of columns of (n, p) and of (n, q).

    A basis without variation gives 0.
    """
    values = np.linalg.svd(orthonormal(left).T @ orthonormal(right), compute_uv=False)
    return min(1.0, float(values[0])) if values.size else 0.0


def orthonormal(basis: Floats) -> Floats:
    """Orthonormal columns (n, rank) that span the centred columns of a basis (n, p)."""
    centred = basis - basis.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    varying = length > 1e-12 * np.linalg.norm(basis, axis=0)
    left, values, _ = np.linalg.svd(centred[:, varying] / length[varying], full_matrices=False)
    return np.asarray(left[:, values > 1e-8 * values.max(initial=0.0)])


def polynomials(values: Floats) -> Floats:
    """Hermite polynomials of degree 1 to 5 of the normal scores of `values` (n,); (n, 5)."""
    normal_scores = ndtri((rankdata(values) - 0.5) / len(values))
    return np.asarray(hermevander(normal_scores, DEGREE)[:, 1:])


def indicators(labels: NDArray[np.generic]) -> Floats:
    """One column per level of `labels` (n,) but the first, which the others imply; (n, levels - 1).

    >>> indicators(np.array(["a", "b", "a", "c"]))
    array([[0., 0.], [1., 0.], [0., 0.], [0., 1.]])
    """
    levels, codes = np.unique(labels, return_inverse=True)
    return np.asarray(codes[:, None] == np.arange(1, len(levels)), dtype=np.float64)


def with_products(bases: Sequence[Floats]) -> Floats:
    """The bases (n, p_j) side by side, then all products of columns of two of them."""
    products = [
        (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)
        for left, right in combinations(bases, 2)
    ]
    return np.concatenate([*bases, *products], axis=1)
