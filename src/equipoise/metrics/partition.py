"""Sets of rows: levels of a discrete variable, or "at most the r-th decile" of a continuous one.

Every metric of the paper compares sets of rows by A inside sets of rows by Y. Either set is stored
as a bin number per row, so that sums over bins are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# The paper's A* and Y*: the 10 %, 20 %, ..., 90 % quantiles (supplement D.2 and D.3).
DECILES = tuple(r / 10 for r in range(1, 10))


@dataclass(frozen=True, eq=False)
class Partition:
    """Sets of rows by one variable.

    Set j is {code = j} (levels) or, if nested, {code <= j} (quantiles). If nested, the last bin is
    above every quantile and belongs to no set.
    """

    codes: Tensor  # int64 (n,): bin of each row
    labels: tuple[str, ...]  # one for each set, in words
    nested: bool

    @property
    def n_sets(self) -> int:
        """Number of sets."""
        return len(self.labels)

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return self.n_sets + self.nested

    def take(self, rows: Tensor) -> Partition:
        """The same sets among these rows (positions)."""
        return Partition(self.codes[rows], self.labels, self.nested)

    def inside(self, j: int) -> Tensor:
        """Which rows belong to set j, boolean (n,)."""
        return self.codes <= j if self.nested else self.codes == j

    def pool(self, sums: Tensor, dim: int) -> Tensor:
        """Turn sums per bin into sums per set, along `dim`."""
        return sums.cumsum(dim).narrow(dim, 0, self.n_sets) if self.nested else sums

    def combine(self, values: Tensor, dim: int) -> Tensor:
        """Combine the values of the sets as in the paper: sum over levels, average over deciles."""
        return values.mean(dim) if self.nested else values.sum(dim)


def everybody(n: int, device: torch.device) -> Partition:
    """The one set of all n rows."""
    return Partition(torch.zeros(n, dtype=torch.int64, device=device), ("all rows",), nested=False)


def by_decile(values: Tensor, weights: Tensor, name: str) -> Partition:
    """Nine nested sets {value <= r-th decile}, r = 10 %, ..., 90 %.

    values, weights: (n,); a weight is the number of rows that a row counts for. Rows of weight 0 do
    not affect the deciles.
    """
    cuts = quantiles(values, weights, DECILES)
    codes = torch.searchsorted(cuts, values.contiguous(), side="left")
    labels = tuple(f"{name} <= {float(cut):.6g}" for cut in cuts)
    return Partition(codes, labels, nested=True)


def quantiles(values: Tensor, weights: Tensor, levels: Sequence[float]) -> Tensor:
    """Linearly interpolated quantiles of rows repeated `weights` times.

    With W the sum of weights, the quantile at level p is at position h = (W - 1) p of the sorted,
    repeated values, counted from 0, interpolated between its two neighbors. This is definition 7 of
    Hyndman and Fan (1996), the default of ``numpy.quantile``.

    values, weights: (n,); weights need not be whole numbers. Returns (len(levels),).

    >>> quantiles(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([1.0, 2.0, 0.0]), (0.25, 0.5))
    tensor([1.5000, 2.0000])
    """
    present = weights > 0
    order = values[present].argsort()
    sorted_values = values[present][order]
    reached = weights[present][order].cumsum(0)  # the value fills positions [previous, reached)
    position = (reached[-1] - 1) * torch.tensor(levels, dtype=reached.dtype, device=values.device)
    below = position.floor()
    last = len(sorted_values) - 1
    low = sorted_values[torch.searchsorted(reached, below, side="right").clamp(max=last)]
    high = sorted_values[torch.searchsorted(reached, below + 1, side="right").clamp(max=last)]
    # The formula of numpy.quantile, so that both agree to the last bit and pick the same rows.
    fraction = position - below
    step = high - low
    return torch.where(fraction < 0.5, low + step * fraction, high - step * (1 - fraction))


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rows in ascending order of score, for each of K members."""

    order: Tensor  # int64 (K, m): row at each place
    values: Tensor  # (K, m): score at each place

    @property
    def ends(self) -> Tensor:
        """Whether a place is the last one with its score, boolean (K, m).

        Empirical distribution functions are read only there: before, a running sum does not include
        all equal scores. ``scipy.stats.ks_2samp`` treats ties in the same way.
        """
        last = torch.ones_like(self.values[:, :1], dtype=torch.bool)
        return torch.cat([self.values[:, 1:] != self.values[:, :-1], last], dim=1)

    @property
    def ties(self) -> tuple[Tensor, Tensor]:
        """First and last place with the same score as each place, int64 (K, m)."""
        ends = self.ends
        starts = torch.cat([torch.ones_like(ends[:, :1]), ends[:, :-1]], dim=1)
        place = torch.arange(ends.shape[-1], device=ends.device)
        first = torch.where(starts, place, 0).cummax(-1).values
        # From the highest score downwards, the latest end.
        last = torch.where(ends, place, len(place) - 1).flip(-1).cummin(-1).values.flip(-1)
        return first, last

    def restrict(self, rows: Tensor) -> Ranking:
        """The ranking of some rows, a boolean mask (n,), without sorting again."""
        members = len(self.order)
        # Every member ranks the same rows, so each keeps the same number of rows.
        keep = rows.take(self.order)
        return Ranking(
            self.order.masked_select(keep).view(members, -1),
            self.values.masked_select(keep).view(members, -1),
        )


def rank(scores: Tensor) -> Ranking:
    """Sort each of K scores (K, n) once."""
    values, order = torch.sort(scores, dim=-1)
    return Ranking(order, values)
