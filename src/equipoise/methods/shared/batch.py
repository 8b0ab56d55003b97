"""What penalties that are a formula of the batch share: strata, distances, kernels.

Separation compares rows within strata of the outcome: each class of a discrete one, and of a
continuous one :data:`OUTCOME_PARTS` parts of equal frequency. Independence has one stratum, all
rows. Distance covariance and HSIC are one formula of matrices of pairs (K, B, B), weighted and
within strata (Sejdinovic et al. 2013).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equipoise.methods.declaration import Context
from equipoise.notions import Notion
from equipoise.training import TrainingData

#: Parts of equal frequency that a continuous outcome is cut into. More parts follow Y more closely
#: and leave fewer rows of a batch in each.
OUTCOME_PARTS = 5
#: Added to variances, so that roots have gradients where these are zero.
TINY = 1e-6


class BatchPenalty:
    """What these methods share: strata, and no networks."""

    def __init__(self, context: Context) -> None:
        self._attribute = context.attribute
        self._data = context.data
        self._stratum = _stratum(context.data, context.notion)
        self._strata = int(self._stratum.max()) + 1
        self.networks: nn.Module = nn.Module()

    def _stratified(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights of rows within strata (K, C, B), and shares of the strata (K, C).

        rows: (K, B). Weights sum to one in every stratum that has rows and to zero in the others;
        shares sum to one. Rows without known attributes weigh nothing, the others their sample
        weight.
        """
        weight = self._data.row_weights(rows)
        number = torch.arange(self._strata, device=rows.device)[:, None]
        member = weight[:, None] * (self._stratum[rows][:, None] == number)
        share = member.sum(-1)
        return member / share.clamp_min(1e-12)[..., None], share


def _stratum(data: TrainingData, notion: Notion) -> Tensor:
    """Number of the stratum of every training row, (n,)."""
    if not notion.conditions_on_outcome:
        return torch.zeros(len(data), dtype=torch.long, device=data.x.device)
    if data.outcome_class is not None:
        return data.outcome_class
    outcome = data.outcome[:, 0].contiguous()
    order = outcome.sort().values
    places = torch.arange(1, OUTCOME_PARTS, device=order.device) * len(order) // OUTCOME_PARTS
    # Equal outcomes fall into one part, whatever their number.
    return torch.searchsorted(torch.unique(order[places]), outcome, right=True)


def standardized(values: Tensor, weight: Tensor) -> Tensor:
    """Columns of (K, B, w) moved and scaled to weighted mean 0 and variance 1.

    A score then cannot escape a penalty by shrinking. weight: (K, B), summing to one.
    """
    centered = values - weighted_mean(values, weight)
    return centered / (weighted_mean(centered.square(), weight) + TINY).sqrt()


def distances(values: Tensor) -> Tensor:
    """Euclidean distances between rows of (K, B, w), with gradient 0 at zero; (K, B, B).

    Computed from differences. Trees score many rows alike, and a product's rounding error would be
    the whole gradient between them.
    """
    return torch.cdist(values, values, compute_mode="donot_use_mm_for_euclid_dist")


def gaussian_kernel(values: Tensor, width: float) -> Tensor:
    """exp(-d^2 / (2 width^2)) for rows of (K, B, w); (K, B, B)."""
    square = values.square().sum(-1)
    product = values @ values.transpose(1, 2)
    squared_distance = (square[:, :, None] + square[:, None, :] - 2 * product).clamp_min(0)
    return (squared_distance / (-2 * width**2)).exp()


def pair_covariance(left: Tensor, right: Tensor, weight: Tensor) -> Tensor:
    """Covariance of two matrices of pairs after centering both doubly, (K, C).

    sum_ij w_i w_j l_ij r_ij - 2 sum_i w_i l_i. r_i. + l.. r.., where a dot is a weighted mean: a
    V-statistic, never negative for distances and for kernels. left, right: (K, B, B).
    weight: (K, C, B), summing to one over rows.
    """
    of_left, of_right = weight @ left, weight @ right
    products = (weight @ (left * right) * weight).sum(-1)
    means = (of_left * weight).sum(-1) * (of_right * weight).sum(-1)
    return products - 2 * (of_left * of_right * weight).sum(-1) + means


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Weighted mean over the rows of (K, B, w); (K, 1, w)."""
    return torch.einsum("kb,kbw->kw", weight, values).unsqueeze(1)
