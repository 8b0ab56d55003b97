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
