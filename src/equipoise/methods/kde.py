"""Rates of positive decisions by group, made smooth by a kernel."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from equipoise.errors import InputError
from equipoise.methods.declaration import Capabilities, Context, Declaration
from equipoise.methods.shared.batch import BatchPenalty

#: Width of the kernel, and the score above which a decision is positive.
BANDWIDTH = 0.02
THRESHOLD = 0.5


class KernelDensity(BatchPenalty):
    """Cho, Hwang and Suh 2020: DDP for independence, DEO for separation.

    The sum over groups z (and classes y) of Huber(P(decision = 1 | z, y) - P(decision = 1 | y)),
    probabilities from a Gaussian kernel density estimate of the score. They are exact normal tails
    here; the paper approximates these for speed.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        cell = context.data.attribute_cell
        if cell is None:
            raise InputError("method='kde' needs discrete sensitive features")
        # Cells that nobody is in would cost time and change nothing.
        occupied, self._group = torch.unique(cell.clamp_min(0), return_inverse=True)
        self._groups = len(occupied)

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        weight, _ = self._stratified(rows)
        number = torch.arange(self._groups, device=rows.device)[:, None]
        group = (self._group[rows][:, None] == number).to(penalized.dtype)
        return unequal_rates(positive_probability(penalized.squeeze(-1)), group, weight)


def positive_probability(score: Tensor) -> Tensor:
    """Each row's share in the estimate of P(score > threshold): a normal tail, shape of score.

    >>> positive_probability(torch.tensor([0.5, 0.54])).numpy().round(4)
    array([0.5   , 0.9772], dtype=float32)
    """
    probability: Tensor = torch.special.ndtr((score - THRESHOLD) / BANDWIDTH)
    return probability


def unequal_rates(positive: Tensor, group: Tensor, weight: Tensor) -> Tensor:
    """Sum over groups and strata of Huber(rate in the group - rate in the stratum), (K,).

    positive: (K, B). group: (K, G, B) of zeros and ones. weight: (K, C, B). A group that a stratum
    of this batch lacks adds nothing.
    """
    overall = (weight * positive[:, None]).sum(-1, keepdim=True)
    size = weight @ group.transpose(1, 2)
    rate = (weight * positive[:, None]) @ group.transpose(1, 2) / size.clamp_min(1e-12)
    difference = torch.where(size > 0, rate - overall, 0)
    loss = huber_loss(difference, torch.zeros_like(difference), reduction="none")
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
