"""Linear classifiers that vote: what a randomised choice among them decides, on average."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

#: A probability of a positive decision is kept this far from 0 and 1, so that its log odds exist.
CERTAIN = 1e-12


class StackedVote(nn.Module):
    """K weighted votes among T linear classifiers: (K, rows, n_in) -> log odds (K, rows, 1).

    The probability of a positive decision is the share of the votes of the classifiers whose value
    w x + b is positive. Nothing here trains.
    """

    def __init__(
        self, weight: NDArray[np.float64], bias: NDArray[np.float64], share: NDArray[np.float64]
    ) -> None:
        """weight: (K, T, n_in). bias, share: (K, T); shares are positive or 0 and sum to one."""
        super().__init__()
        self.members = len(weight)
        self.weight, self.bias, self.share = (
            nn.Parameter(torch.tensor(values, device="cpu"), requires_grad=False)
            for values in (weight, bias, share)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the log odds of a positive decision."""
        value = torch.baddbmm(self.bias.unsqueeze(1), x, self.weight.transpose(1, 2))
        votes = (value > 0).to(x.dtype) @ self.share.unsqueeze(-1)
        return votes.logit(CERTAIN)
