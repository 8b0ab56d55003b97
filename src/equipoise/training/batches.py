"""Mini-batches and resampled attributes for K members (the paper's Algorithm "MC")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equipoise.errors import InputError
from equipoise.training.members import Member, generator, row_numbers, streams_of


class BatchStream:
    """An endless stream of row numbers: (rows, resampled rows), each (K, B).

    Every epoch shuffles each member's rows. A row gets its resampled attribute from the row one
    batch further in the shuffled order. That is a simple random draw from outside the batch, never
    the row itself, and over an epoch every row is drawn exactly once. With a single batch an epoch
    the draw comes from the other half of the batch. Members of equal seed and rows share an order.
    """

    def __init__(
        self, members: Sequence[Member], n: int, *, batch_size: int, device: torch.device
    ) -> None:
        streams, which = streams_of(members)
        self._rows = [row_numbers(rows, n) for _, rows in streams]
        sizes = {len(rows) for rows in self._rows}
        if len(sizes) > 1:
            raise InputError(
                f"members must train on equally many rows, got {sorted(sizes)}; "
                "leave out rows to even the splits"
            )
        (size,) = sizes
        if size < 2:
            raise InputError(
                f"X must have at least 2 rows to train on, those of sample_weight 0 apart, got "
                f"n_samples={size}"
            )
        self.batch_size = min(batch_size, size)
        self.batches_per_epoch = size // self.batch_size
        self._generators = [generator(seed, "batches") for seed, _ in streams]
        self._which = torch.tensor(which, device=device)
        self._shared = len(streams) == 1
        self._shuffle()

    @property
    def members(self) -> int:
        """Number of members K."""
        return len(self._which)

    @property
    def device(self) -> torch.device:
        """Where the row numbers are."""
        return self._which.device

    def draw(self) -> Tensor:
        """Return the next batch of every stream: (2, streams, B), rows and resampled rows."""
        if self._position == self.batches_per_epoch:
            self._shuffle()
        batch = self._epoch[self._position]
        self._position += 1
        return batch

    def spread(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Hand a batch (2, streams, B) out to the members, (K, B) each."""
        if self._shared:
            rows, resampled = batch.expand(2, self.members, -1)
        else:
            rows, resampled = batch[:, self._which]
        return rows, resampled

    def state_dict(self) -> dict[str, Any]:
        """Where the stream is: generators before this epoch's shuffle, and batches drawn since."""
        return {"generators": self._before_epoch, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the stream of `state_dict` was, by shuffling its epoch again."""
        if not 0 <= state["position"] <= self.batches_per_epoch:
            raise ValueError(f"an epoch has {self.batches_per_epoch} batches")
        for random, kept in zip(self._generators, state["generators"], strict=True):
            random.set_state(kept)
        self._shuffle()
        self._position = state["position"]

    def _shuffle(self) -> None:
        """Draw the next epoch: (batches, 2, streams, B) row numbers, moved to the device once."""
        self._before_epoch = [random.get_state() for random in self._generators]
        used = self.batches_per_epoch * self.batch_size
        order = torch.stack(
            [
                rows[torch.randperm(len(rows), generator=random, device="cpu")[:used]]
                for rows, random in zip(self._rows, self._generators, strict=True)
            ]
        )
        shift = self.batch_size if self.batches_per_epoch > 1 else self.batch_size // 2
        both = torch.stack([order, order.roll(-shift, dims=1)])
        batches = both.view(2, len(order), self.batches_per_epoch, self.batch_size)
        epoch = batches.permute(2, 0, 1, 3).contiguous()
        if self.device.type == "cuda":
            # A copy from pinned memory does not block the host.
            with torch.cuda.device(self.device):
                epoch = epoch.pin_memory()
        self._epoch = epoch.to(self.device, non_blocking=True)
        self._position = 0
