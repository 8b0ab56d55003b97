"""Rows of a batch by the outcome: what separation compares like with like in.

Independence has one stratum, all rows. Separation has one for each class of a discrete outcome,
and for a continuous one as many of equal frequency as :data:`OUTCOME_PARTS`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.errors import InputError
from equipoise.notions import Notion
from equipoise.training import Member, TrainingData

#: Parts of equal frequency that a continuous outcome is cut into. More parts follow Y more closely
#: and leave fewer rows of a batch in each.
OUTCOME_PARTS = 5


class Strata:
    """Which rows a batch compares with which, with their weights.

    Rows without known attributes weigh nothing, the others their sample weight.
    """

    def __init__(self, data: TrainingData, notion: Notion) -> None:
        if data.attribute is None:
            raise InputError("sensitive_features is required unless strength=0")
        self._data = data
        self._stratum = _stratum(data, notion)
        self._count = int(self._stratum.max()) + 1

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights of rows within strata (K, C, B), and shares of the strata (K, C).

        rows: (K, B). Weights sum to one in every stratum that has rows and to zero in the others;
        shares sum to one.
        """
        weight = row_weights(self._data, rows)
        number = torch.arange(self._count, device=rows.device)[:, None]
        member = weight[:, None] * (self._stratum[rows][:, None] == number)
        share = member.sum(-1)
        return member / share.clamp_min(1e-12)[..., None], share


class WithoutNetworks:
    """What methods share whose penalty is a formula of the batch: they train nothing themselves."""

    def __init__(
        self,
        data: TrainingData,
        members: Sequence[Member],
        *,
        penalized_width: int,
        notion: Notion,
        critic: CriticSettings,
        density_ratio: RatioKind,
    ) -> None:
        self._strata = Strata(data, notion)
        self._data = data
        self.networks: nn.Module = nn.Module()


def row_weights(data: TrainingData, rows: Tensor) -> Tensor:
    """Weights of the rows of a batch (K, B), summing to one; zero where A is unknown."""
    weight, _ = data.pair_weights(rows, rows)
    if weight is None:
        return torch.full_like(rows, 1 / rows.shape[1], dtype=data.x.dtype)
    return weight / weight.sum(-1, keepdim=True).clamp_min(1e-12)


def over_strata(values: Tensor, shares: Tensor) -> Tensor:
    """Average of values (K, C) over strata by their shares (K, C); (K,)."""
    return (values * shares).sum(-1)


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
