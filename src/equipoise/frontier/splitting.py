"""Split rows into training, validation and test rows: at random, by groups, or by time."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.estimators.fitting import Positions
from equipoise.frontier.snapshots import Split
from equipoise.tables.columns import kind_of
from equipoise.training.data import stream_seed

#: The share of rows to draw, or the positions of the rows.
Part = float | Sequence[int] | NDArray[np.integer[Any]]
#: Arguments of ``fit``, as errors name them.
GROUPS, TIMES = "groups (--group-split)", "times (--time-split)"


def split_rows(
    n: int,
    *,
    validation: Part,
    test: Part,
    seed: int,
    counted: NDArray[np.bool_] | None = None,
    groups: Any = None,
    times: Any = None,
) -> Split:
    """Split n rows into training, validation and test rows.

    ``validation`` and ``test`` are positions of rows, or shares of all rows. Shares are drawn
    without regard to values: the test rows are a simple random sample of the rows that are not
    validation rows. All other rows train. Only rows that are ``counted`` (n,) are used.

    With ``groups`` (n,), whole groups are drawn, so that no group is in two parts. With ``times``
    (n,), the latest rows are test rows, those before them validation rows, and rows of the same
    time are in the same part. Parts then have nearly the size that was asked for.

    >>> split = split_rows(10, validation=[0, 1], test=0.3, seed=0)
    >>> split.validation.tolist(), len(split.test), len(split.train)
    ([0, 1], 3, 5)
    >>> split = split_rows(10, validation=0.2, test=0.2, seed=0, times=range(10))
    >>> split.train.tolist(), split.validation.tolist(), split.test.tolist()
    ([0, 1, 2, 3, 4, 5], [6, 7], [8, 9])
    """
    free = np.ones(n, dtype=bool) if counted is None else counted.copy()
    total = int(free.sum())
    random = np.random.default_rng(stream_seed(seed, "held-out rows"))
    parts = {"validation": validation, "test": test}
    if groups is not None or times is not None:
        held = _by_column(parts, free, groups, times, random)
    else:
        held = _at_random(parts, free, random)
    for rows in held.values():
        free[rows] = False
    train = np.flatnonzero(free)
    if len(train) < 2:
        raise InputError(
            f"validation and test must leave at least 2 of the {total} rows to train on, got "
            f"{len(train)}; lower the shares"
        )
    return Split(train, held["validation"], held["test"])


def _at_random(
    parts: Mapping[str, Part], counted: NDArray[np.bool_], random: np.random.Generator
) -> dict[str, Positions]:
    free, total = counted.copy(), int(counted.sum())
    # Rows given by position are taken out before any are drawn.
    held: dict[str, Positions] = {
        name: _given_rows(name, part, len(free)) for name, part in parts.items() if np.ndim(part)
    }
    both = np.intersect1d(held.get("validation", []), held.get("test", [])).astype(int)
    if len(both):
        raise InputError(
            f"validation and test must share no row, got {len(both)} in both (first {both[0]}); "
            "leave them out of one"
        )
    held = {name: rows[free[rows]] for name, rows in held.items()}
    for rows in held.values():
        free[rows] = False
    for name, part in parts.items():
        if name not in held:
            size = _number_to_draw(name, part, total)
            held[name] = np.sort(random.permutation(np.flatnonzero(free))[:size])
            free[held[name]] = False
    return held


def _by_column(
    parts: Mapping[str, Part],
    counted: NDArray[np.bool_],
    groups: Any,
    times: Any,
    random: np.random.Generator,
) -> dict[str, Positions]:
    """Draw parts of whole groups, or of the latest times."""
    name = TIMES if groups is None else GROUPS
    if groups is not None and times is not None:
        raise InputError(f"{GROUPS} must stand alone, got {TIMES} too; leave one out")
    for part, rows in parts.items():
        if np.ndim(rows):
            raise InputError(
                f"{part} must be a share where {name} splits the rows, got positions; leave out one"
            )
    total = int(counted.sum())
    sizes = {part: _number_to_draw(part, share, total) for part, share in parts.items()}
    codes, levels = numbered(name, times if groups is None else groups, counted)
    counts = np.bincount(codes[counted], minlength=len(levels))
    order = np.flatnonzero(counts)
    if groups is None:
        order, sizes = order[::-1], {part: sizes[part] for part in ("test", "validation")}
    else:
        order = random.permutation(order)
        order = _without_large(order, counts, levels, sizes)
    held = {}
    for part, size in sizes.items():
        sums = np.cumsum(counts[order])
        # Whole groups or times, as many as come nearest to the size; at least one.
        taken = int(np.abs(sums - size).argmin()) + 1 if len(order) else 0
        held[part] = np.flatnonzero(np.isin(codes, order[:taken]) & counted)
        order = order[taken:]
        _check_size(name, part, len(held[part]), size)
    left = total - sum(map(len, held.values()))
    _check_size(name, "training", left, total - sum(sizes.values()))
    return held


def _without_large(
    order: NDArray[np.intp],
    counts: NDArray[np.int64],
    levels: Sequence[Any],
    sizes: Mapping[str, int],
) -> NDArray[np.intp]:
    """The groups that fit into every part; larger ones train, and a note says so."""
    part = min(sizes, key=lambda each: sizes[each])
    large = np.sort(order[counts[order] > sizes[part]])
    if len(large):
        first = f"{str(levels[large[0]])!r} with {counts[large[0]]:,} rows"
        warnings.warn(
            f"{len(large)} of {len(order)} groups ({GROUPS}) have more rows than the {sizes[part]} "
            f"of {part}, the first is {first}; such groups only train, so the report says nothing "
            "about them",
            stacklevel=5,
        )
    return order[counts[order] <= sizes[part]]


def _check_size(name: str, part: str, found: int, asked: int) -> None:
    if found < 2:
        raise InputError(
            f"{name} must have groups or times for every part, got {found} rows for {part}, which "
            f"should have {asked}; name a column with more and smaller ones, or leave it out"
        )
    if abs(found - asked) > asked / 2:
        warnings.warn(
            f"{part} has {found:,} rows instead of {asked:,}: {name} keeps equal values together, "
            "and too many rows are equal to come nearer",
            stacklevel=5,
        )


def numbered(name: str, values: Any, counted: NDArray[np.bool_]) -> tuple[NDArray[np.intp], Any]:
    """Number the values (n,) in sorted order; return the numbers and the sorted values."""
    native = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame) and native.shape[1] == 1:
        native = next(native.iter_columns())
    column = native.to_pandas() if isinstance(native, nw.Series) else pd.Series(list(values))
    column = column.reset_index(drop=True)
    if len(column) != len(counted):
        raise InputError(
            f"{name} must have one value for each of the {len(counted)} rows, got {len(column)}; "
            "pass those of the same rows in the same order"
        )
    missing = np.flatnonzero(column.isna() & counted)
    if len(missing):
        raise InputError(
            f"{name} must not have missing values, got {len(missing)} (first in row {missing[0]}); "
            "fill them in, or leave these rows out"
        )
    kind = kind_of(column)
    if " and " in kind or (name == TIMES and kind not in ("number", "temporal")):
        rule = "be numbers or dates" if name == TIMES else "hold values of one type"
        example = column[np.flatnonzero(counted)[0]]
        raise InputError(
            f"{name} must {rule}, got {kind} such as {str(example)!r}; write "
            f"{'dates as 2020-01-31' if name == TIMES else 'all as text'}"
        )
    codes, levels = pd.factorize(column, sort=True)
    return codes, levels


def _given_rows(name: str, part: Any, n: int) -> Positions:
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


def _number_to_draw(name: str, share: Any, n: int) -> int:
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
