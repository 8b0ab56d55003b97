"""The training rows of one of several workers, from files: all of them, or a window at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from equipoise.distributed.sources import Piece
from equipoise.distributed.survey import Draws, FitColumns, Integers
from equipoise.errors import InputError
from equipoise.estimators.fitting import Fitting
from equipoise.training import TrainingData

#: Pieces that are read at the same time, and rows of a piece before those of the next one: rows of
#: a window come from several places of the table.
AT_ONCE, IN_TURN = 8, 2**15


@dataclass(frozen=True, kw_only=True)
class TableRows:
    """Where the training rows of a table are, and how they are spread over workers."""

    pieces: tuple[Piece, ...]
    training: tuple[int, ...]  # training rows of each piece
    columns: FitColumns
    draws: Draws
    weight: float  # mean weight of the training rows; 1 without weights
    window: int  # most rows that a worker has in memory
    seed: int
    in_sample: bool  # whether the sample is all training rows

    @property
    def total(self) -> int:
        """Number of training rows."""
        return sum(self.training)

    def check(self, workers: int) -> None:
        """Refuse more workers than there are rows, or pieces to give each worker one."""
        if self.total < 2 * workers:
            raise InputError(
                f"workers must leave each at least 2 training rows, got {workers} for "
                f"{self.total} rows; use fewer workers"
            )
        pieces = sum(rows > 0 for rows in self.training)
        if self.total > workers * self.window and pieces < workers:
            raise InputError(
                f"the files must have at least one row group for each worker, got {pieces} for "
                f"workers={workers}; write smaller files or row groups, or raise window"
            )

    def shares(self, workers: int) -> list[list[int]]:
        """Positions of the pieces of each worker; the largest are given out first."""
        found: list[list[int]] = [[] for _ in range(workers)]
        sizes = [0] * workers
        for place in sorted(range(len(self.pieces)), key=lambda k: (-self.training[k], k)):
            if self.training[place]:
                least = sizes.index(min(sizes))
                found[least].append(place)
                sizes[least] += self.training[place]
        return found


def rows_of(fitting: Fitting[Any], table: TableRows, worker: int, workers: int) -> TrainingData:
    """The rows that a worker trains on; ``fitting`` has learned from a sample of all.

    All workers have the same number of rows. Those that are left over do not train.
    """
    sample, each = fitting.data, fitting.total // workers
    if table.in_sample:
        if workers == 1:
            return sample
        own = torch.arange(worker, each * workers, workers)
        return replace(_taken(sample, own), built_for=sample)
    if table.total <= workers * table.window:
        done, found = 0, []
        for _, frame in _training_rows(table, table.pieces):
            place = np.arange(done, done + len(frame))
            mine = (place % workers == worker) & (place < each * workers)
            if mine.any():
                found.append(_encoded(fitting, table, frame[mine]))
            done += len(frame)
        return replace(_joined(found), built_for=sample)
    rows = Windows(fitting, table, worker, workers)
    return replace(rows.data, built_for=sample, window=rows)


class Windows:
    """A window of the rows of one worker, in memory; the others come after it.

    Pieces are read in a random order, in every pass in another one, some of them at the same time.
    While a window trains, a thread reads the next one.
    """

    def __init__(self, fitting: Fitting[Any], table: TableRows, worker: int, workers: int) -> None:
        self._fitting, self._table, self._worker = fitting, table, worker
        shares = table.shares(workers)
        self._own = shares[worker]
        sizes = [sum(table.training[place] for place in share) for share in shares]
        self._size = min(table.window, *sizes)
        self._kept = np.zeros(0, dtype=np.int64)  # numbers, in the table, of rows that stay
        self._stream: Iterator[tuple[Integers, pd.DataFrame]] = iter(())
        self._position, self._rest = -1, list[tuple[Integers, pd.DataFrame]]()
        numbers, self.data = self._read(0, self._size)
        self._numbers, self._places = numbers, torch.arange(self._size)
        self._shown = 0
        self._thread = ThreadPoolExecutor(1)
        self._next: tuple[int, Future[TrainingData]] | None = None

    def keep(self, rows: Tensor) -> None:
        """Leave these rows where they are; they are in no further window."""
        self._kept = np.sort(self._numbers[rows.numpy()])
        change = torch.ones(self._size, dtype=torch.bool)
        change[rows] = False
        self._places = change.nonzero()[:, 0]

    def show(self, number: int) -> None:
        """Write the rows of a window into the tensors."""
        if number == self._shown:
            return
        ahead, self._next = self._next, None
        if ahead is not None and ahead[0] != number:
            ahead[1].result()
        found = ahead[1].result() if ahead and ahead[0] == number else self._window(number)
        for name, values in vars(found).items():
            if isinstance(values, Tensor):
                getattr(self.data, name)[self._places] = values
        self._shown = number
        self._next = number + 1, self._thread.submit(self._window, number + 1)

    def _window(self, number: int) -> TrainingData:
        changed = len(self._places)
        if number == 0:  # only in a run that is resumed there
            numbers, found = self._read(0, self._size)
            return _taken(found, torch.from_numpy(~np.isin(numbers, self._kept)))
        return self._read(self._size + (number - 1) * changed, changed)[1]

    def _read(self, position: int, rows: int) -> tuple[Integers, TrainingData]:
        """Numbers and values of so many rows, from a position in the stream of passes on."""
        if position != self._position:
            self._stream, self._rest = self._from(position), []
        found, count = self._rest, sum(len(numbers) for numbers, _ in self._rest)
        while count < rows:
            found.append(next(self._stream))
            count += len(found[-1][0])
        numbers, frame = found.pop()
        end = len(numbers) - (count - rows)
        self._rest = [(numbers[end:], frame.iloc[end:])] if end < len(numbers) else []
        found.append((numbers[:end], frame.iloc[:end]))
        self._position = position + rows
        data = [_encoded(self._fitting, self._table, part) for _, part in found if len(part)]
        return np.concatenate([numbers for numbers, _ in found]), _joined(data)

    def _from(self, position: int) -> Iterator[tuple[Integers, pd.DataFrame]]:
        """Rows from this position on, without end; after the first pass without those that stay."""
        table = self._table
        seed = [table.seed, self._worker]
        first = sum(table.training[place] for place in self._own)
        number = 0 if position < first else 1 + (position - first) // (first - len(self._kept))
        if number:
            position = (position - first) % (first - len(self._kept))
        while True:
            order = np.random.default_rng([*seed, number]).permutation(self._own)
            for start in range(0, len(order), AT_ONCE):
                places = order[start : start + AT_ONCE].tolist()
                pieces = [table.pieces[place] for place in places]
                kept = self._kept if number else self._kept[:0]
                held = sum(_count_in(piece, kept) for piece in pieces)
                size = sum(table.training[place] for place in places) - held
                if position >= size:
                    position -= size
                    continue
                for numbers, frame in _in_turn(table, pieces):
                    if len(kept):
                        stays = np.isin(numbers, kept)
                        numbers, frame = numbers[~stays], frame[~stays]
                    if position < len(numbers):
                        yield numbers[position:], frame.iloc[position:]
                    position = max(0, position - len(numbers))
            number += 1


def _count_in(piece: Piece, numbers: Integers) -> int:
    low, high = np.searchsorted(numbers, (piece.first, piece.first + piece.rows))
    return int(high - low)


def _in_turn(table: TableRows, pieces: Sequence[Piece]) -> Iterator[tuple[Integers, pd.DataFrame]]:
    """Training rows of several pieces, some of each in turn."""
    streams = [_training_rows(table, [piece], IN_TURN) for piece in pieces]
    while streams:
        still = []
        for stream in streams:
            frame = next(stream, None)
            if frame is not None:
                still.append(stream)
                yield frame
        streams = still


def _training_rows(
    table: TableRows, pieces: Sequence[Piece], rows: int = 2**17
) -> Iterator[tuple[Integers, pd.DataFrame]]:
    """Numbers and values of the training rows of pieces, in order."""
    names = table.columns.names
    frames = ((piece, each) for piece in pieces for each in piece.frames(names, rows))
    for piece, (before, frame) in frames:
        numbers = piece.numbers(before, len(frame))
        trains = table.draws.parts(table.columns, frame, numbers) == 0
        yield numbers[trains], frame[trains]


def _encoded(fitting: Fitting[Any], table: TableRows, frame: pd.DataFrame) -> TrainingData:
    columns = table.columns
    weights = None
    if columns.weight is not None:
        weights = frame[columns.weight].to_numpy(dtype=np.float64) / table.weight
    sensitive = frame[list(columns.sensitive)] if columns.sensitive else None
    with _without_warnings():
        return fitting.further(
            frame[list(columns.features)], frame[columns.target], sensitive, weights
        )


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Leave out notes about values that the sample lacks; the page says how they are treated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _joined(parts: Sequence[TrainingData]) -> TrainingData:
    names = [name for name, values in vars(parts[0]).items() if isinstance(values, Tensor)]
    joined: dict[str, Any] = {n: torch.cat([getattr(part, n) for part in parts]) for n in names}
    return TrainingData(**joined)


def _taken(data: TrainingData, rows: Tensor) -> TrainingData:
    taken: dict[str, Any] = {
        name: values[rows] for name, values in vars(data).items() if isinstance(values, Tensor)
    }
    return TrainingData(**taken)
