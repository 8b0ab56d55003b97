"""What tells one member of a stack from another: strength, seed, rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from equipoise.errors import InputError


@dataclass(frozen=True)
class Member:
    """One model of a stack.

    ``strength`` weighs penalty against task loss, ``seed`` fixes start weights and order of rows,
    ``rows`` are the training rows it may see (all when empty).
    """

    strength: float
    seed: int
    rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.strength < 1:
            raise InputError(
                f"strength must lie in [0, 1), got {self.strength}; 0 is plain training, "
                "values near 1 leave little of the task"
            )


#: Purposes a member needs randomness for; each gets a stream of its own, so that adding one
#: never changes another.
PURPOSES = (
    "predictor",
    "critic",
    "batches",
    "density ratio",
    "held-out rows",
    "user module",
    "conditional law",
    "attribute draws",
)


def stream_seed(seed: int, purpose: str) -> int:
    """Derive the seed of one purpose's stream from a member's seed."""
    sequence = np.random.SeedSequence([seed, PURPOSES.index(purpose)])
    return int(sequence.generate_state(1, np.uint64)[0] >> 1)


def generator(seed: int, purpose: str) -> torch.Generator:
    """Return a CPU generator for one purpose of the member with this seed."""
    return torch.Generator().manual_seed(stream_seed(seed, purpose))


def generators(seeds: Sequence[int], purpose: str) -> list[torch.Generator]:
    """Return one generator per seed."""
    return [generator(seed, purpose) for seed in seeds]
