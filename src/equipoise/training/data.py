"""Rows to train on, the members that see them, and the batches they come in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.errors import InputError, check_number


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Rows ready to train on, on one device; each tensor has the n rows first."""

    x: Tensor  # (n, p) features
    target: Tensor  # (n,) what the task loss compares with: numbers, or numbers of classes
    outcome: Tensor  # (n, v) the outcome Y as a critic sees it
    outcome_class: Tensor | None = None  # (n,) where Y is discrete
    attribute: Tensor | None = None  # (n, q) sensitive attributes as a critic sees them
    attribute_cell: Tensor | None = None  # (n,) joint cells where every attribute is discrete
    weight: Tensor | None = None  # (n,) sample weights, mean one; None when all are one
    known: Tensor | None = None  # (n,) whether all attributes of a row are; None when always

    def __len__(self) -> int:
        return len(self.x)

    def to(self, device: torch.device) -> TrainingData:
        return self._map(lambda tensor: tensor.to(device))

    def sample(self, n: int, rows: tuple[int, ...] = ()) -> TrainingData:
        """Return n of these ``rows`` (of all when empty) drawn at random, always the same ones.

        All of them if there are no more than n.
        """
        available = row_numbers(rows, len(self))
        if len(available) > n:
            draws = torch.Generator().manual_seed(0)
            available = available[torch.randperm(len(available), generator=draws, device="cpu")[:n]]
        elif not rows:
            return self
        places = available.to(self.x.device)
        return self._map(lambda tensor: tensor[places])

    def _map(self, change: Callable[[Tensor], Tensor]) -> TrainingData:
        changed: dict[str, Any] = {
            name: None if tensor is None else change(tensor) for name, tensor in vars(self).items()
        }
        return TrainingData(**changed)

    def task_weight(self, rows: Tensor) -> Tensor | None:
        """Weights of the task loss for these rows (K, B), averaging one; None if all are one."""
        return None if self.weight is None else mean_one(take(self.weight, rows))

    def pair_weights(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Weights of real pairs (i, i) and resampled pairs (i, j), each (K, B) averaging one.

        Real pairs are weighted by w_i. Resampled pairs follow the product of two weighted laws, so
        their weight is w_i * w_j. A row whose attribute is unknown has weight 0.
        """
        weight = self.weight
        if self.known is not None:
            known = self.known.to(self.x.dtype)
            weight = known if weight is None else known * weight
        if weight is None:
            return None, None
        real = take(weight, rows)
        return mean_one(real), mean_one(real * take(weight, resampled))

    def row_weights(self, rows: Tensor) -> Tensor:
        """Weights of the rows of a batch (K, B), summing to one; zero where A is unknown."""
        weight, _ = self.pair_weights(rows, rows)
        if weight is None:
            return torch.full_like(rows, 1 / rows.shape[1], dtype=self.x.dtype)
        return weight / weight.sum(-1, keepdim=True).clamp_min(1e-12)


def take(values: Tensor, rows: Tensor) -> Tensor:
    """Return the ``values`` (n, ...) of rows (K, B) as (K, B, ...), faster than indexing does."""
    return values.index_select(0, rows.reshape(-1)).view(*rows.shape, *values.shape[1:])


def mean_one(weight: Tensor) -> Tensor:
    """Scale weights (K, B) to average one over B; all zeros stay zeros."""
    return weight / weight.mean(-1, keepdim=True).clamp_min(1e-12)


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
    """A CPU generator for one purpose of the member with this seed."""
    return torch.Generator().manual_seed(stream_seed(seed, purpose))


def generators(seeds: Sequence[int], purpose: str) -> list[torch.Generator]:
    """One generator per seed."""
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
        self.members, self.device = len(members), self._which.device
        self._shared = len(streams) == 1
        self._shuffle()

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
