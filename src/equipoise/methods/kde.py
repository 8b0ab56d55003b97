"""Kernel density estimation: differentiable rates of positive decisions, group by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.errors import InputError
from equipoise.methods.declaration import Capabilities, Declaration
from equipoise.methods.shared.batch_statistics import Strata
from equipoise.notions import Notion
from equipoise.training import Member, TrainingData


@dataclass(frozen=True, kw_only=True)
class KDESettings:
    """Bandwidth of the kernel, threshold of decisions, corner of the Huber loss."""

    bandwidth: float = 0.02
    threshold: float = 0.5
    huber_corner: float = 1.0


SETTINGS = KDESettings()


class KernelDensity:
    """Cho, Hwang and Suh 2020: DDP for independence, DEO for separation.

    The sum over groups z (and classes y) of Huber(P(decision = 1 | z, y) - P(decision = 1 | y)),
    probabilities from a Gaussian kernel density estimate of the score. They are exact normal tails
    here; the paper approximates these for speed.
    """

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
        if data.attribute_cell is None:
            raise InputError("method='kde' needs discrete sensitive features")
        # Cells that nobody is in would cost time and change nothing.
        occupied, self._group = torch.unique(data.attribute_cell.clamp_min(0), return_inverse=True)
        self._groups = len(occupied)
        self.networks: nn.Module = nn.Module()

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Return DDP or DEO of the batch, (K,)."""
        weight, _ = self._strata(rows)
        number = torch.arange(self._groups, device=rows.device)[:, None]
        group = (self._group[rows][:, None] == number).to(penalized.dtype)
        positive = positive_probability(penalized.squeeze(-1), SETTINGS)
        return unequal_rates(positive, group, weight, SETTINGS)


def positive_probability(score: Tensor, settings: KDESettings) -> Tensor:
    """Each row's share in the estimate of P(score > threshold): a normal tail, shape of score.

    >>> positive_probability(torch.tensor([0.5, 0.54]), KDESettings()).numpy().round(4)
    array([0.5   , 0.9772], dtype=float32)
    """
    probability: Tensor = torch.special.ndtr((score - settings.threshold) / settings.bandwidth)
    return probability


def unequal_rates(positive: Tensor, group: Tensor, weight: Tensor, settings: KDESettings) -> Tensor:
    """Sum over groups and strata of Huber(rate in the group - rate in the stratum), (K,).

    positive: (K, B). group: (K, G, B) of zeros and ones. weight: (K, C, B). A group that a stratum
    of this batch lacks adds nothing.
    """
    overall = (weight * positive[:, None]).sum(-1, keepdim=True)
    size = weight @ group.transpose(1, 2)
    rate = (weight * positive[:, None]) @ group.transpose(1, 2) / size.clamp_min(1e-12)
    difference = torch.where(size > 0, rate - overall, 0)
    loss = huber_loss(
        difference, torch.zeros_like(difference), reduction="none", delta=settings.huber_corner
    )
    return loss.sum((-2, -1))


DECLARATION = Declaration(
    name="kde",
    title="Kernel density estimation",
    reference="Cho, Hwang and Suh (2020), A fair classifier using kernel density estimation, "
    "NeurIPS",
    summary="Penalizes differences between groups in a smooth estimate of the rate of positive "
    "decisions at the threshold 0.5; under separation, within classes of Y.",
    capabilities=Capabilities(
        continuous=False,
        mixed=False,
        many_classes=False,
        numbers=False,
        representation=False,
        controls="decisions",
    ),
    build=KernelDensity,
)
