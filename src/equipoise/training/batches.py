"""Mini-batches and resampled attributes for K members (the paper's Algorithm "MC")."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from equipoise.errors import InputError
from equipoise.training.members import Member, generator


class BatchStream:
    """An endless stream of row numbers: (rows, resampled rows), each (K, B).

    Every epoch shuffles each member's rows. The resampled attribute of a row is taken from the
    row one batch further in the shuffled order: a simple random draw from outside the batch,
    never the row itself, and over an epoch every row is drawn exactly once. (With a single batch
    an epoch the draw comes from the other half of that batch.) Members of equal seed and rows
    share their order.
    """

    def __init__(
        self, members: Sequence[Member], n: int, *, batch_size: int, device: torch.device
    ) -> None:
        streams = list(dict.fromkeys((member.seed, member.rows) for member in members))
        which = [streams.index((member.seed, member.rows)) for member in members]
        self._rows = [torch.tensor(rows) if rows else torch.arange(n) for _, rows in streams]
        sizes = {len(rows) for rows in self._rows}
        if len(sizes) > 1:
            raise InputError(
                f"members must train on equally many rows, got {sorted(sizes)}; "
                "leave out rows to even the splits"
            )
        (size,) = sizes
        if size < 2:
            raise InputError(f"training needs at least 2 rows, got n_samples={size}")
        self.batch_size = min(batch_size, size)
        self.batches_per_epoch = size // self.batch_size
        self._generators = [generator(seed, "batches") for seed, _ in streams]
        self._which = torch.tensor(which, device=device)
        self._shared = len(streams) == 1
        self._device = device
        self._position = self.batches_per_epoch
        self._order: Tensor
        self._resampled: Tensor

    def next(self) -> tuple[Tensor, Tensor]:
        """Return the next batch of every member."""
        if self._position == self.batches_per_epoch:
            self._shuffle()
        rows, resampled = self._order[self._position], self._resampled[self._position]
        self._position += 1
        if self._shared:
            members = len(self._which)
            return rows.expand(members, -1), resampled.expand(members, -1)
        return rows[self._which], resampled[self._which]

    def _shuffle(self) -> None:
        """Draw the next epoch: (batches, streams, B) row numbers, moved to the device once."""
        used = self.batches_per_epoch * self.batch_size
        order = torch.stack(
            [
                rows[torch.randperm(len(rows), generator=random)[:used]]
                for rows, random in zip(self._rows, self._generators, strict=True)
            ]
        )
        shift = self.batch_size if self.batches_per_epoch > 1 else self.batch_size // 2
        resampled = order.roll(-shift, dims=1)
        self._order, self._resampled = (
            flat.view(len(order), self.batches_per_epoch, self.batch_size)
            .transpose(0, 1)
            .contiguous()
            .to(self._device)
            for flat in (order, resampled)
        )
        self._position = 0
