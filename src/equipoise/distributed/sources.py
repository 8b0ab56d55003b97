"""The files of one table: found, and compared before anything runs."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from equipoise.errors import InputError
from equipoise.files.columns import nearest
from equipoise.files.reading import column_types, find_data_file, iterate_table, layout_of

#: Rows of a file in memory at a time.
ROWS = 2**19


@dataclass(frozen=True)
class FilePart:
    """One of the files that a table is made of."""

    path: Path
    number: int  # 0, 1, ... in the order of the names

    def __str__(self) -> str:
        return f"'{self.path}'"

    def frames(self, columns: Sequence[str]) -> Iterator[tuple[int, pd.DataFrame]]:
        """The number of rows before each frame, and the frame; errors say how far rows go."""
        done = 0
        try:
            for frame in iterate_table(self.path, columns=columns, rows=ROWS):
                yield done, frame
                done += len(frame)
        except InputError as damaged:
            if not done:
                raise
            raise InputError(f"{damaged} (read up to row {done:,})") from None


def find_files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    columns: Sequence[str],
) -> tuple[FilePart, ...]:
    """The files that a path, a glob or several of them name, in the order of their names.

    All must have the ``columns``, each of one kind in all files. Only the beginnings and ends of
    files are read for that.
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
    _check_alike(files, columns)
    return files


def _check_alike(files: Sequence[FilePart], columns: Sequence[str]) -> None:
    """Refuse files without one of the columns, or with another kind of values in it."""
    kinds: dict[str, tuple[str, FilePart]] = {}
    for file in files:
        layout, _ = layout_of(file.path)
        if layout == "text":
            raise InputError(
                f"paths must name Parquet or Arrow files, whose columns have types, got {file}; "
                "write it as Parquet"
            )
        types = column_types(find_data_file(file.path))
        for name in columns:
            where = f"data file {file} ({file.number + 1} of {len(files)})"
            if name not in types:
                raise InputError(
                    f"{where} must have the column {name!r}, as all of them must, got none; "
                    f"{nearest(name, list(types))}"
                )
            kind = _kind(types[name])
            before, first = kinds.setdefault(name, (kind, file))
            if before == "nothing":
                kinds[name] = (kind, file)
            elif kind not in (before, "nothing"):
                raise InputError(
                    f"{where} must hold {before} in column {name!r}, as {first} does, got {kind} "
                    f"({types[name]}); write the file again with one type"
                )


def _kind(kind: pa.DataType) -> str:
    """What a column holds, in words: files may differ in its width, not in this."""
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    tests = {
        "nothing": (pa.types.is_null,),
        "booleans": (pa.types.is_boolean,),
        "numbers": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    }
    return next(
        (words for words, are in tests.items() if any(is_it(kind) for is_it in are)), str(kind)
    )
