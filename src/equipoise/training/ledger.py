"""The losses since the last check, kept on the device so that nobody waits for them."""

from __future__ import annotations

import torch
from torch import Tensor


class Ledger:
    """Losses of K members, one entry an iteration.

    Every tensor is changed in place: on a GPU the entries are part of a captured step, which can
    not be told by Python which entry it writes. In double precision where the device has it.
    """

    def __init__(self, members: int, device: torch.device, *, entries: int) -> None:
        precision = torch.float32 if device.type == "mps" else torch.float64
        self._losses = torch.zeros(entries, 2, members, dtype=precision, device=device)
        self._next = torch.zeros(1, dtype=torch.long, device=device)

    def add(self, task: Tensor, penalty: Tensor) -> None:
        """Enter the losses of one iteration, each (K,)."""
        self._losses.index_copy_(0, self._next, torch.stack([task, penalty])[None].to(self._losses))
        self._next += 1

    def close(self, iterations: int) -> tuple[Tensor, Tensor]:
        """Start anew; return averages (2, K), and after how many iterations losses ended, (K,).

        A member's losses end with the first that is not finite; ``iterations`` if none is.
        """
        entered = self._losses[:iterations]
        finite = entered.isfinite().all(1).cumprod(0).sum(0)
        self._next.zero_()
        return entered.mean(0), finite
