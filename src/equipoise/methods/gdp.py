"""Generalized demographic parity, by a kernel on A."""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.methods.declaration import Capabilities, Declaration
from equipoise.methods.shared.batch import BatchPenalty, gaussian_kernel

#: Width of the kernel on A, whose continuous columns have variance one. It is small enough to keep
#: groups apart (at their distance of at least 1 the kernel is below 0.004), and about what suits a
#: batch of 300: 300^(-1/5) standard deviations.
PARITY_WIDTH = 0.3


class GeneralizedParity(BatchPenalty):
    """E abs(m(A) - m) with m(a) = E[score given A = a], m = E[score] (Jiang et al. 2022).

    m(a) by kernel regression on the batch. For separation within strata of Y; for several columns
    of scores, their mean.
    """

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        weight, shares = self._stratified(rows)
        kernel = gaussian_kernel(self._attribute[rows], PARITY_WIDTH)
        return (parity(penalized, kernel, weight) * shares).sum(-1)


def parity(score: Tensor, kernel: Tensor, weight: Tensor) -> Tensor:
    """Mean distance of local from overall means, (K, C).

    score: (K, B, w). kernel: (K, B, B) between the rows' attributes. weight: (K, C, B).
    """
    near = weight[:, :, None] * kernel[:, None]
    sums = near @ score[:, None]
    local = sums / near.sum(-1, keepdim=True).clamp_min(1e-12)
    overall = torch.einsum("kcb,kbw->kcw", weight, score)
    return torch.einsum("kcb,kcbw->kcw", weight, (local - overall[:, :, None]).abs()).mean(-1)


DECLARATION = Declaration(
    name="gdp",
    title="Generalized demographic parity",
    reference="Jiang, Han, Fan, Yang, Mostafavi and Hu (2022), Generalized demographic parity for "
    "group fairness, ICLR",
    summary="Penalizes how far the mean score among people of similar A lies from the mean score; "
    "under separation, within strata of Y.",
    # It is in units of the score; a representation has none and could shrink without changing.
    capabilities=Capabilities(representation=False, controls="mean"),
    build=GeneralizedParity,
)
