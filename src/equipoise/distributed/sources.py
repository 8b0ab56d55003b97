"""The files of one table: found, and compared before anything runs."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.files.columns import nearest
from equipoise.files.reading import (
    column_types,
    find_data_file,
    iterate_group,
    iterate_table,
    layout_of,
    row_groups,
)

if TYPE_CHECKING:
    from ray.data import Dataset

Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
Table: TypeAlias = "Paths | Dataset"
Columns: TypeAlias = Sequence[str] | Callable[[Sequence[str]], Sequence[str]]

#: Rows of a file in memory at a time.
ROWS = 2**19
#: Most answers of workers that the process that waits for them has to add up.
RUNS = 1024
#: Rows of a row group of the files that a dataset is written to.
GROUP = 2**17


@dataclass(frozen=True)
class FilePart:
    """One of the files that a table is made of."""

    path: Path
    number: int  # 0, 1, ... in the order of the names

    def __str__(self) -> str:
        return f"'{self.path}'"

    def frames(self, columns: Sequence[str]) -> Iterator[tuple[int, pd.DataFrame]]:
        """The number of rows before each frame, and the frame; errors say how far rows go."""
        yield from _counted(iterate_table(self.path, columns=columns, rows=ROWS), 0)


@dataclass(frozen=True)
class FileRun:
    """Consecutive files that one worker reads; what it learns of them comes as one answer."""

    files: tuple[FilePart, ...]

    def __str__(self) -> str:
        first, last = self.files[0], self.files[-1]
        return str(first) if first == last else f"{first} to {last}"


def runs_of(files: Sequence[FilePart]) -> tuple[FileRun, ...]:
    """The files in runs of one each, or longer ones where there are very many files.

    They do not depend on the cluster, and so neither does the rounding of sums over their rows.
    """
    size = -(-len(files) // RUNS)
    return tuple(FileRun(tuple(files[k : k + size])) for k in range(0, len(files), size))


def _counted(frames: Iterator[pd.DataFrame], done: int) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of a file before each frame, and the frame; errors say how far rows go."""
    try:
        for frame in frames:
            yield done, frame
            done += len(frame)
    except InputError as damaged:
        if not done:
            raise
        raise InputError(f"{damaged} (read up to row {done:,})") from None


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of one file that can be read without those before them."""

    file: FilePart
    group: int  # number of the row group of the file
    before: int  # rows of the file before it
    first: int  # number of its first row among the rows of all files
    rows: int

    def frames(
        self, columns: Sequence[str], rows: int = ROWS
    ) -> Iterator[tuple[int, pd.DataFrame]]:
        """The number of rows of the file before each frame, and the frame."""
        frames = iterate_group(self.file.path, self.group, columns=columns, rows=rows)
        yield from _counted(frames, self.before)

    def numbers(self, before: int, rows: int) -> NDArray[np.int64]:
        """The numbers, among the rows of all files, of rows after so many rows of the file."""
        first = self.first - self.before + before
        return np.arange(first, first + rows)


@dataclass(frozen=True)
class FilePieces:
    """The pieces of one file."""

    file: FilePart
    pieces: tuple[Piece, ...]

    def __str__(self) -> str:
        return str(self.file)


def pieces_of(files: Sequence[FilePart]) -> tuple[FilePieces, ...]:
    """The pieces of files, whose rows are numbered in the order of the files."""
    found, first = [], 0
    for file in files:
        pieces, before = [], 0
        for group, rows in enumerate(row_groups(find_data_file(file.path))):
            if rows:
                pieces.append(Piece(file, group, before, first, rows))
            before, first = before + rows, first + rows
        if not pieces:
            raise InputError(
                f"data file {file} must have at least one row, got column names only; check how "
                "it was written"
            )
        found.append(FilePieces(file, tuple(pieces)))
    return tuple(found)


def hashed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that look random, each from one of these alone; different ones remain different.

    This is splitmix64 (Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators).
    """
    mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    found: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return found


@contextmanager
def files_of(table: Table, columns: Columns) -> Iterator[tuple[FilePart, ...]]:
    """As `find_files`; a `ray.data.Dataset` is in files as long as the block lasts.

    Several passes read the rows, some of them from the middle of the table. A dataset gives rows
    from its beginning, and may give others the next time: it may shuffle or draw them. So it is
    run once and written, by this process: neither rows nor files then depend on the cluster.
    """
    data = sys.modules.get("ray.data")
    if data is None or not isinstance(table, data.Dataset):
        yield find_files(table, columns)
        return
    with TemporaryDirectory(prefix="equipoise-") as folder:
        written: list[Path] = []
        for batch in _batches_in_order(table):
            written.append(Path(folder, f"{len(written):06}.parquet"))
            pq.write_table(batch, written[-1], row_group_size=GROUP)
            if len(written) == 1:
                find_files(written, columns)  # a column that is missing is found before the rest
        if not written:
            raise InputError(
                "paths must have at least one row, got a dataset without any; check its filters"
            )
        yield find_files(written, columns)


def _batches_in_order(dataset: Dataset) -> Iterator[pa.Table]:
    """All rows of a dataset in its own order, whichever part of the cluster is done first."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        yield from dataset.iter_batches(batch_size=ROWS, batch_format="pyarrow")
    finally:
        options.preserve_order = before


def find_files(paths: Paths, columns: Columns) -> tuple[FilePart, ...]:
    """The files that a path, a glob or several of them name, in the order of their names.

    All must have the ``columns``, each of one kind in all files. Only the beginnings and ends of
    files are read for that. A function chooses from the names of the columns of the first file.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: dict[Path, None] = {}
    for each in (os.fspath(path) for path in given):
        # A file may have a name that could be read as a glob.
        matches = [each] if os.path.exists(each) else sorted(glob.glob(each, recursive=True))
        if not matches:
            raise InputError(
                f"paths must name files that exist, got {each!r}, which matches none; check the "
                "folder and the pattern"
            )
        # Workers have working folders of their own.
        found |= dict.fromkeys(Path(match).absolute() for match in matches)
    if not found:
        raise InputError("paths must name at least one file, got none; name a file or a pattern")
    files = tuple(FilePart(path, number) for number, path in enumerate(sorted(found)))
    if callable(columns):
        _refuse_text(files[0])
        columns = columns(list(column_types(find_data_file(files[0].path))))
    _check_alike(files, columns)
    return files


def _refuse_text(file: FilePart) -> None:
    """Refuse a file whose columns have no types."""
    layout, _ = layout_of(file.path)
    if layout == "text":
        raise InputError(
            f"paths must name Parquet or Arrow files, whose columns have types, got {file}; "
            "write it as Parquet"
        )


def _check_alike(files: Sequence[FilePart], columns: Sequence[str]) -> None:
    """Refuse files without one of the columns, or with another kind of values in it."""
    kinds: dict[str, tuple[str, FilePart]] = {}
    for file in files:
        _refuse_text(file)
        types = column_types(find_data_file(file.path))
        for name in columns:
            where = f"data file {file} ({file.number + 1} of {len(files)})"
            if name not in types:
                raise InputError(
                    f"{where} must have the column {name!r}, as all of them must, got none; "
                    f"{nearest(name, list(types))}"
                )
            kind = kind_in_words(types[name])
            before, first = kinds.setdefault(name, (kind, file))
            if before == "nothing":
                kinds[name] = (kind, file)
            elif kind not in (before, "nothing"):
                raise InputError(
                    f"{where} must hold {before} in column {name!r}, as {first} does, got {kind} "
                    f"({types[name]}); write the file again with one type"
                )


def kind_in_words(kind: pa.DataType) -> str:
    """What a column holds, in words: files may differ in its width, not in this."""
    if pa.types.is_dictionary(kind):
        return kind_in_words(kind.value_type)
    tests = {
        "nothing": (pa.types.is_null,),
        "booleans": (pa.types.is_boolean,),
        "numbers": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    }
    return next(
        (words for words, are in tests.items() if any(is_it(kind) for is_it in are)), str(kind)
    )
