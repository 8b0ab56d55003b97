"""Training rows, the members that train on them, and the batches that members see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from equipoise.errors import InputError, check_number
from equipoise.networks import kernels_on


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Encoded training rows on one device; the first axis of every tensor is the n rows."""

    x: Tensor  # (n, p) features
    target: Tensor  # (n,) target of the task loss: a number, or the number of a class
    outcome: Tensor  # (n, v) the outcome Y as a critic sees it
    outcome_class: Tensor | None = None  # (n,) number of the class, if Y is discrete
    attribute: Tensor | None = None  # (n, q) sensitive attributes as a critic sees them
    attribute_cell: Tensor | None = None  # (n,) joint cell, if every attribute is discrete
    weight: Tensor | None = None  # (n,) sample weights with mean one; None if all are one
    known: Tensor | None = None  # (n,) whether all attributes are known; None if they always are
    #: Rows for which networks are built, the same in all processes that train together, if not
    #: these.
    built_for: TrainingData | None = None
    #: Where further rows come from, if these are a part of those to train on.
    window: Window | None = None

    def __len__(self) -> int:
        return len(self.x)

    @property
    def to_build_for(self) -> TrainingData:
        """The rows that decide how networks are built."""
        return self if self.built_for is None else self.built_for

    def to(self, device: torch.device) -> TrainingData:
        return self._map(lambda tensor: tensor.to(device))

    def sample(self, n: int, rows: RowSet | None = None) -> TrainingData:
        """Return n of these ``rows`` (None stands for all), drawn at random with a fixed seed.

        If there are n rows or fewer, return all of them.
        """
        available = row_numbers(rows, len(self))
        if len(available) > n:
            draws = torch.Generator().manual_seed(0)
            available = available[torch.randperm(len(available), generator=draws, device="cpu")[:n]]
        elif rows is None:
            return self
        chosen = available.to(self.x.device)
        return self._map(lambda tensor: tensor[chosen])

    def _map(self, change: Callable[[Tensor], Tensor]) -> TrainingData:
        changed: dict[str, Any] = {
            name: change(tensor)
            for name, tensor in vars(self).items()
            if isinstance(tensor, Tensor)
        }
        return TrainingData(**changed)

    def task_weight(self, rows: Tensor) -> Tensor | None:
        """Weights of the task loss for these rows (K, B), with mean one; None if all are one."""
        return None if self.weight is None else mean_one(take(self.weight, rows))

    def pair_weights(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Weights of real pairs (i, i) and of resampled pairs (i, j), each (K, B) with mean one.

        A real pair has weight w_i. A resampled pair joins two rows drawn independently, so its
        weight is w_i * w_j. A row whose attributes are unknown has weight 0.
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
        """Weights of the rows of a batch (K, B) with sum one; zero if A is unknown."""
        weight, _ = self.pair_weights(rows, rows)
        if weight is None:
            return torch.full_like(rows, 1 / rows.shape[1], dtype=self.x.dtype)
        return weight / weight.sum(-1, keepdim=True).clamp_min(1e-12)


class Window(Protocol):
    """Training rows beyond those in memory: each epoch of a run trains on the next window of them.

    What reads rows must read them batch by batch, from the tensors of the data.
    """

    def show(self, number: int) -> None:
        """Write the rows of this window, from 0 on, into the tensors of the data, in place."""

    def keep(self, rows: Tensor) -> None:
        """Leave the rows of these numbers as they are; they are in no further window."""


def take(values: Tensor, rows: Tensor) -> Tensor:
    """Return ``values[rows]``, (K, B, ...), from values (n, ...); faster than indexing."""
    if kernels := kernels_on(values.device):
        taken: Tensor = kernels.take(values, rows)
        return taken
    return values.index_select(0, rows.reshape(-1)).view(*rows.shape, *values.shape[1:])


def mean_one(weight: Tensor) -> Tensor:
    """Scale weights (K, B) to mean one over B; zeros stay zeros."""
    return weight / weight.mean(-1, keepdim=True).clamp_min(1e-12)


class RowSet:
    """Numbers of rows (m,). Sets of the same numbers in the same order are equal."""

    def __init__(self, numbers: Tensor | Iterable[int]) -> None:
        given = numbers if isinstance(numbers, Tensor) else torch.tensor([*numbers])
        self.numbers = given.to("cpu", torch.long)
        self._hash = hash(self.numbers.numpy().tobytes())

    def __len__(self) -> int:
        return len(self.numbers)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowSet) and torch.equal(self.numbers, other.numbers)


@dataclass(frozen=True)
class Member:
    """One model of a stack."""

    strength: float  # weight of the penalty against the task loss
    seed: int  # decides initial weights and the order of rows
    rows: RowSet | None = None  # the training rows it may see; None means all
    aside: RowSet | None = None  # rows that decide when it stops; None means that it trains on

    def __post_init__(self) -> None:
        remedy = "; 0 is plain training, values near 1 leave little of the task"
        check_number("strength", self.strength, "must lie in [0, 1)", lambda s: 0 <= s < 1, remedy)


#: Purposes of random numbers. Each has its own stream, so a new purpose changes no other stream.
PURPOSES = (
    *("predictor", "critic", "batches", "density ratio", "held-out rows", "user module"),
    *("conditional distribution", "attribute draws", "ranks"),
)


def stream_seed(seed: int, purpose: str) -> int:
    """Derive the seed for one purpose from a member's seed."""
    sequence = np.random.SeedSequence([seed, PURPOSES.index(purpose)])
    return int(sequence.generate_state(1, np.uint64)[0] >> 1)


def generator(seed: int, purpose: str) -> torch.Generator:
    """Return a CPU generator for one purpose of the member with this seed."""
    return torch.Generator().manual_seed(stream_seed(seed, purpose))


def generators(seeds: Sequence[int], purpose: str) -> list[torch.Generator]:
    """Return one generator for each seed."""
    return [generator(seed, purpose) for seed in seeds]


#: Seed and rows of a member. Members with the same stream share batches and auxiliary networks.
Stream = tuple[int, RowSet | None]


def streams_of(members: Sequence[Member]) -> tuple[list[Stream], list[int]]:
    """Return the distinct streams of the members, and the position of each member's stream."""
    streams = list(dict.fromkeys((member.seed, member.rows) for member in members))
    return streams, [streams.index((member.seed, member.rows)) for member in members]


def row_numbers(rows: RowSet | None, n: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """Return ``rows`` as a tensor (m,); None stands for all n."""
    return torch.arange(n, device=device) if rows is None else rows.numbers.to(device)


class BatchStream:
    """An endless stream of row numbers: (rows, resampled rows), each (K, B).

    Each member's rows are shuffled in every epoch. A row gets its resampled attribute from the row
    one batch later in the shuffled order. So the draw is a simple random one from outside the
    batch, never the row itself, and every row is drawn exactly once per epoch. If an epoch has a
    single batch, the draw comes from the other half of it. Members with the same seed and the same
    rows share an order. With a ``window`` every epoch has other rows of the same numbers.
    """

    def __init__(
        self,
        members: Sequence[Member],
        n: int,
        *,
        batch_size: int,
        device: torch.device,
        window: Window | None = None,
    ) -> None:
        streams, which = streams_of(members)
        self._rows = [row_numbers(rows, n) for _, rows in streams]
        sizes = {len(rows) for rows in self._rows}
        if len(sizes) > 1:
            raise InputError(
                f"members must train on the same number of rows, got {sorted(sizes)}; leave out "
                "rows to make the splits equal"
            )
        (size,) = sizes
        if size < 2:
            raise InputError(
                f"X must have at least 2 rows with a positive sample_weight, got n_samples={size}; "
                "give more rows"
            )
        self.batch_size = min(batch_size, size)
        self.batches_per_epoch = size // self.batch_size
        self._generators = [generator(seed, "batches") for seed, _ in streams]
        # The places of the members' rows in a batch, then of their resampled rows.
        self._which = torch.tensor(
            [which, [len(streams) + stream for stream in which]], device="cpu"
        ).to(device)
        self.members, self.device = len(members), self._which.device
        self._shared = len(streams) == 1
        self._window, self._epochs = window, 0
        self._threads = ThreadPoolExecutor(max_workers=1)
        self._coming: Future[tuple[list[Tensor], Tensor]] | None = None
        self._shuffle()

    def draw(self) -> Tensor:
        """Return the next batch of every stream, (2, streams, B): rows, then resampled rows."""
        if self._position == self.batches_per_epoch:
            self._epochs += 1
            self._shuffle()
        batch = self._epoch[self._position]
        self._position += 1
        return batch

    def spread(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows and resampled rows of every member, (K, B) each, from `draw`'s batch."""
        if self._shared:
            rows, resampled = batch.expand(2, self.members, -1)
        else:
            rows, resampled = take(batch.flatten(0, 1), self._which)
        return rows, resampled

    def state_dict(self) -> dict[str, Any]:
        """Return the generators before this epoch's shuffle, and the batches drawn since."""
        state = {"generators": self._before_epoch, "position": self._position}
        return state if self._window is None else {**state, "window": self._epochs}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved position, by shuffling its epoch again."""
        if not 0 <= state["position"] <= self.batches_per_epoch:
            raise ValueError(f"an epoch has {self.batches_per_epoch} batches")
        if self._coming is not None:
            self._coming.result()
            self._coming = None
        for random, kept in zip(self._generators, state["generators"], strict=True):
            random.set_state(kept)
        self._epochs = state.get("window", 0)
        self._shuffle()
        self._position = state["position"]

    def _shuffle(self) -> None:
        """Go to the next epoch, on the device."""
        if self._window is not None:
            self._window.show(self._epochs)
        if self.device.type != "cuda":
            self._before_epoch, epoch = self._drawn()
            self._epoch = epoch.to(self.device)
        else:
            # A GPU is fast enough to wait for shuffled rows, so threads draw them an epoch ahead.
            coming = self._coming or self._threads.submit(self._drawn)
            self._before_epoch, epoch = coming.result()
            self._coming = self._threads.submit(self._drawn)
            # A copy from pinned memory does not block the host. The threads must not pin it: while
            # a graph is captured, no other thread may allocate.
            with torch.cuda.device(self.device):
                epoch = epoch.pin_memory()
            self._epoch = epoch.to(self.device, non_blocking=True)
        self._position = 0

    def _drawn(self) -> tuple[list[Tensor], Tensor]:
        """Draw the row numbers of an epoch, (batches, 2, streams, B).

        Return the generators before it, too.
        """
        before = [random.get_state() for random in self._generators]
        used = self.batches_per_epoch * self.batch_size
        shift = self.batch_size if self.batches_per_epoch > 1 else self.batch_size // 2
        shape = self.batches_per_epoch, 2, len(self._rows), self.batch_size
        epoch = torch.empty(shape, dtype=torch.long, device="cpu")
        for stream, (rows, random) in enumerate(zip(self._rows, self._generators, strict=True)):
            order = rows[torch.randperm(len(rows), generator=random, device="cpu")[:used]]
            for part, moved in enumerate((order, order.roll(-shift))):
                epoch[:, part, stream] = moved.view(-1, self.batch_size)
        return before, epoch
