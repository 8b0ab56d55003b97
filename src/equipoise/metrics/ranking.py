"""Sorted order of K scores, found once and shared by everything that needs it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rows in ascending order of score, for each of K members.

    Attributes
    ----------
    order : Tensor of int64, shape (K, m)
        Row at each place.
    values : Tensor, shape (K, m)
        Score at each place.
    """

    order: Tensor
    values: Tensor

    @property
    def ends(self) -> Tensor:
        """Whether a place is the last of its distinct score, boolean (K, m).

        Empirical distribution functions are read there only: between equal scores a running sum
        has not reached its value yet. This is how ``scipy.stats.ks_2samp`` treats ties.
        """
        last = torch.ones_like(self.values[:, :1], dtype=torch.bool)
        return torch.cat([self.values[:, 1:] != self.values[:, :-1], last], dim=1)

    @property
    def ties(self) -> tuple[Tensor, Tensor]:
        """First and last place of the scores that equal the one at each place, int64 (K, m)."""
        ends = self.ends
        starts = torch.cat([torch.ones_like(ends[:, :1]), ends[:, :-1]], dim=1)
        place = torch.arange(ends.shape[-1], device=ends.device)
        first = torch.where(starts, place, 0).cummax(-1).values
        # From the highest score down, the last end passed.
        last = torch.where(ends, place, len(place) - 1).flip(-1).cummin(-1).values.flip(-1)
        return first, last

    def restrict(self, rows: Tensor) -> Ranking:
        """The ranking of the rows where the boolean `rows` (n,) holds, without sorting again."""
        members = len(self.order)
        # Every member ranks the same rows, so each keeps the same number of them.
        keep = rows.take(self.order)
        return Ranking(
            self.order.masked_select(keep).view(members, -1),
            self.values.masked_select(keep).view(members, -1),
        )


def rank(scores: Tensor) -> Ranking:
    """Sort each of K scores (K, n) once."""
    values, order = torch.sort(scores, dim=-1)
    return Ranking(order, values)
