"""What tells one member of a stack from another: strength, seed, rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from equipoise.errors import InputError, check_number


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
        check_number(
            "strength",
            self.strength,
            "must lie in [0, 1)",
            lambda strength: 0 <= strength < 1,
            "; 0 is plain training, values near 1 leave little of the task",
        )


#: What a member draws random numbers for; each has its own stream, so a new one changes no other.
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


#: Seed and rows of a member: members that share both share what is drawn or trained for them.
Stream = tuple[int, tuple[int, ...]]


def streams_of(members: Sequence[Member]) -> tuple[list[Stream], list[int]]:
    """Distinct streams of the members, and which of them each member has."""
    streams = list(dict.fromkeys((member.seed, member.rows) for member in members))
    return streams, [streams.index((member.seed, member.rows)) for member in members]


def row_numbers(rows: tuple[int, ...], n: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """Return the row numbers (m,) that ``rows`` stand for: all of n when empty."""
    return torch.tensor(rows, device=device) if rows else torch.arange(n, device=device)


def set_aside(
    seed: int, rows: tuple[int, ...], n: int, share: float, *, asked_by: str
) -> tuple[tuple[int, ...], torch.Tensor]:
    """Return rows to fit on and rows to stop on, in an order drawn from the member's seed.

    ``rows`` are those of n that the member may see, all when empty; ``asked_by`` is the option that
    wants them set aside.
    """
    available = row_numbers(rows, n)
    order = torch.randperm(len(available), generator=generator(seed, "held-out rows"), device="cpu")
    aside = max(2, round(share * len(available)))
    if len(available) - aside < 2:
        raise InputError(f"{asked_by} needs at least 4 rows, got n_samples={len(available)}")
    return tuple(available[order[aside:]].tolist()), available[order[:aside]]
