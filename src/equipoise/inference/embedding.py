"""Departures from independence as vectors, and how far those of a draw are from the sample's.

A measure of dependence that is the length of a vector is a size of signed departures, like the
parity metrics: two lengths differ by at most the length of the difference. Lengths of differences
between draws and sample therefore give intervals that hold at independence too, where the value
itself is biased upwards and an ordinary bootstrap fails.

* Distance covariance and the root of HSIC are the length of E[f(score) g(A)'] - E f(score) E g(A)',
  with features f, g of the kernels (Gretton et al. 2005; for distances Sejdinovic et al. 2013).
* Maximal correlation is the largest singular value of the correlation matrix between functions of
  the score and functions of A.

Each function here takes `counts` (R, m): how often each of m rows was drawn. Returns (R,).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.metrics.maximal_correlation import orthonormal

Floats = NDArray[np.float64]

# Directions that a draw has less than this share of the sample's variance in are left out.
_NEGLIGIBLE = 1e-6


def kernel_deviations(score_kernel: Floats, attribute_kernel: Floats, counts: Floats) -> Floats:
    """Length of the difference between a draw's and the sample's covariance of features.

    score_kernel, attribute_kernel: (m, m) with rows and columns of mean 0 (`double_centred`).

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


def double_centred(matrix: Floats) -> Floats:
    """A symmetric matrix (m, m) less its row and column means.

    >>> double_centred(np.array([[0.0, 1.0], [1.0, 0.0]]))
    array([[-0.5,  0.5], [ 0.5, -0.5]])
    """
    mean = matrix.mean(axis=0)
    return np.asarray(matrix - mean[:, None] - mean[None, :] + mean.mean())


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
    centre = left.T @ right / m
    for draw, count in enumerate(counts):
        share = count / count.sum()
        mean = share @ both
        covariance = (both * share[:, None]).T @ both - np.outer(mean, mean)
        found = _inverse_root(covariance[:p, :p]) @ covariance[:p, p:]
        found = found @ _inverse_root(covariance[p:, p:])
        deviations[draw] = np.linalg.norm(found - centre, ord=2)
    return deviations


def _inverse_root(covariance: Floats) -> Floats:
    """Symmetric inverse square root, on the directions that vary."""
    values, vectors = np.linalg.eigh(covariance)
    varying = values > _NEGLIGIBLE
    return np.asarray((vectors[:, varying] / np.sqrt(values[varying])) @ vectors[:, varying].T)
