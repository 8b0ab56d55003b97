"""Dependence from matrices of pairs (K, B, B), weighted and within strata.

Distance covariance and HSIC are one formula with different matrices (Sejdinovic et al. 2013).
"""

from __future__ import annotations

import torch
from torch import Tensor

#: Added to variances, so that roots have slopes where these are zero.
_TINY = 1e-6


def standardized(values: Tensor, weight: Tensor) -> Tensor:
    """Columns of (K, B, w) moved and scaled to weighted mean 0 and variance 1.

    A score can then not escape a penalty by shrinking. weight: (K, B), summing to one.
    """
    centered = values - _mean(values, weight)
    return centered / (_mean(centered.square(), weight) + _TINY).sqrt()


def squared_distances(values: Tensor) -> Tensor:
    """Squared Euclidean distances between rows of (K, B, w); (K, B, B)."""
    square = values.square().sum(-1)
    product = values @ values.transpose(1, 2)
    return (square[:, :, None] + square[:, None, :] - 2 * product).clamp_min(0)


def distances(values: Tensor) -> Tensor:
    """Euclidean distances between rows of (K, B, w), without slope at zero; (K, B, B).

    From differences: trees score many rows alike, and the rounding of products would be all there
    is to the slope between these.
    """
    return torch.cdist(values, values, compute_mode="donot_use_mm_for_euclid_dist")


def gaussian_kernel(values: Tensor, width: float) -> Tensor:
    """exp(-d^2 / (2 width^2)) for rows of (K, B, w); (K, B, B)."""
    return (squared_distances(values) / (-2 * width**2)).exp()


def pair_covariance(left: Tensor, right: Tensor, weight: Tensor) -> Tensor:
    """Covariance of two matrices of pairs after centering both doubly, (K, C).

    sum_ij w_i w_j l_ij r_ij - 2 sum_i w_i l_i. r_i. + l.. r.., dots standing for weighted means: a
    V-statistic, never negative for distances and for kernels. left, right: (K, B, B).
    weight: (K, C, B), summing to one over rows.
    """
    of_left, of_right = weight @ left, weight @ right
    products = (weight @ (left * right) * weight).sum(-1)
    means = (of_left * weight).sum(-1) * (of_right * weight).sum(-1)
    return products - 2 * (of_left * of_right * weight).sum(-1) + means


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    """Weighted mean over the rows of (K, B, w); (K, 1, w)."""
    return torch.einsum("kb,kbw->kw", weight, values).unsqueeze(1)
