"""Which rows train, which pick and which report; and the two held-out parts as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError
from equipoise.estimators.fitting import Positions
from equipoise.estimators.inputs import Outcome
from equipoise.metrics.outcome import OutcomeKind
from equipoise.tables import SensitiveTable
from equipoise.training.data import stream_seed

#: A share of all rows to draw, or the positions of the rows.
Part = float | Sequence[int] | NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Split:
    """Positions of the rows of each part, ascending; no row is in two parts."""

    train: Positions
    validation: Positions
    test: Positions


def split_rows(
    n: int,
    *,
    validation: Part,
    test: Part,
    seed: int,
    counted: NDArray[np.bool_] | None = None,
) -> Split:
    """Give every one of n rows to one part; rows that nobody named or drew train.

    Shares are of all rows, drawn without a look at any value, so that the test rows are a simple
    random sample of what is left when the validation rows are gone. Rows that are not ``counted``
    (n,) are in no part, as if they had not been there.

    >>> split = split_rows(10, validation=[0, 1], test=0.3, seed=0)
    >>> split.validation.tolist(), len(split.test), len(split.train)
    ([0, 1], 3, 5)
    """
    free = np.ones(n, dtype=bool) if counted is None else counted.copy()
    total = int(free.sum())
    random = np.random.default_rng(stream_seed(seed, "held-out rows"))
    parts = {"validation": validation, "test": test}
    # Rows that were named are taken out before any are drawn.
    held: dict[str, Positions] = {
        name: _named(name, part, n) for name, part in parts.items() if np.ndim(part) > 0
    }
    if len(held) == 2:
        both = np.intersect1d(held["validation"], held["test"])
        if len(both):
            raise InputError(
                f"validation and test must share no row, got {len(both)} in both (first {both[0]})"
            )
    held = {name: rows[free[rows]] for name, rows in held.items()}
    for rows in held.values():
        free[rows] = False
    for name, part in parts.items():
        if name not in held:
            size = _size(name, part, total)
            left = np.flatnonzero(free)
            held[name] = np.sort(random.permutation(left)[:size])
            free[held[name]] = False
    train = np.flatnonzero(free)
    if len(train) < 2:
        raise InputError(
            f"validation and test must leave at least 2 of the {total} rows to train on, "
            f"they leave {len(train)}; lower the shares"
        )
    return Split(train, held["validation"], held["test"])


def _named(name: str, part: Any, n: int) -> Positions:
    rows = np.asarray(part)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) < 2:
        raise InputError(
            f"{name} must be a share of the rows or the positions of at least two rows, got an "
            f"array of {rows.dtype} and shape {rows.shape}"
        )
    outside = rows[(rows < 0) | (rows >= n)]
    if len(outside):
        raise InputError(f"{name} must hold positions from 0 to {n - 1}, got {outside[0]}")
    unique = np.unique(rows)
    if len(unique) < len(rows):
        raise InputError(f"{name} must name every row once, got {len(rows) - len(unique)} repeats")
    return unique.astype(np.intp)


def _size(name: str, share: Any, n: int) -> int:
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise InputError(
            f"{name} must be a share strictly between 0 and 1, or positions of rows, got {share!r}"
        )
    size = round(share * n)
    if size < 2:
        raise InputError(
            f"{name} must hold at least 2 of the {n} rows, got {size}; raise the share"
        )
    return size


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Outcome, weights and sensitive columns of n rows that do not train."""

    part: str  # "validation" or "test"
    # Class numbers, 1 being the positive of two classes; else numbers in the user's units.
    y: NDArray[Any]
    outcome: OutcomeKind
    table: SensitiveTable
    # How many rows each stands for, one on average; None when all are one.
    weights: NDArray[np.float64] | None

    @classmethod
    def read(
        cls,
        part: str,
        y: NDArray[Any],
        table: SensitiveTable,
        weights: NDArray[np.float64] | None,
        outcome: Outcome,
    ) -> HeldOut:
        """Read y (n,) as the training rows' outcome was read."""
        if weights is not None:
            weights = weights / weights.mean()
        if outcome.classes is None:
            return cls(part, y.astype(np.float64), "continuous", table, weights)
        kind: OutcomeKind = "binary" if len(outcome.classes) == 2 else "multiclass"
        present = np.unique(y)
        strange, absent = (
            np.setdiff1d(*pair).tolist()
            for pair in ((present, outcome.classes), (outcome.classes, present))
        )
        if strange:
            raise InputError(
                f"y must have every class among the rows that train, got {strange[0]!r} among the "
                f"{part} rows only; merge rare classes, or lower {part}"
            )
        if absent:
            raise InputError(
                f"the {len(y)} {part} rows do not suffice: none has y = {absent[0]!r}; merge rare "
                f"classes, or raise {part}"
            )
        return cls(part, np.searchsorted(outcome.classes, y), kind, table, weights)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def counts(self) -> NDArray[np.float64]:
        """How many rows each row stands for, (n,)."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def tensors(self) -> list[Tensor]:
        """What snapshots are judged and reported by, for a resumed run to be the same run."""
        seen = [self.y, self.table.encode(), self.table.known]
        weights = [] if self.weights is None else [self.weights]
        return [torch.from_numpy(values.copy()) for values in [*seen, *weights]]
