"""Whether a table fits into memory, estimated before it is read."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from equipoise.files.formats import DataFile

#: Peak memory of reading: two copies of eight bytes for each value, and of a text file its bytes
#: twice. Measured on a million rows of 17 mixed columns (0.47 GB, estimated 0.51) and of 50 columns
#: of 0 and 1 (0.90 GB, estimated 1.00).
_PER_VALUE = 16
_PER_TEXT_BYTE = 2
#: Tables of short numbers and few categories shrink to about a fifth under gzip.
_GZIP = 5
_SAMPLED_BYTES = 1 << 20


class Readable(Protocol):
    """What bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""
        ...


def memory_needed(file: DataFile) -> int:
    """Estimate the bytes that reading a whole file takes at its peak."""
    size = file.path.stat().st_size
    if file.layout == "text":
        length = size * _GZIP if file.gzipped else size
        return int(length * (_PER_TEXT_BYTE + _PER_VALUE * _values_per_byte(file)))
    if file.layout == "parquet":
        metadata = pq.read_metadata(file.path)
        groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
        encoded, values = 0, metadata.num_rows * metadata.num_columns
        listed = 0
        for group in groups:
            encoded += group.total_byte_size
            listed += sum(group.column(place).num_values for place in range(group.num_columns))
        # Dictionaries make files small; in memory every value takes eight bytes or so. A row may
        # have many values in one column, where it holds a list.
        return int(max(2 * encoded, _PER_VALUE * max(values, listed)))
    return 2 * size


def _values_per_byte(file: DataFile) -> float:
    """How many values a byte of text holds, going by the beginning of a file."""
    try:
        with file.open() as raw:
            start = raw.read(_SAMPLED_BYTES)
    except (EOFError, OSError, zlib.error) as error:  # of gzip
        file.refuse_damaged(error)
    separators = start.count(file.delimiter.encode()) + start.count(b"\n")
    return separators / max(len(start), 1)


def memory_available() -> int | None:
    """Return the bytes that programs may still take here; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvail"))
    except (OSError, StopIteration):
        return _physical_memory()
    limits = [free, *_control_group_room(Path("/sys/fs/cgroup"))]
    return min(limits)


def refuse_too_large(file: DataFile, available: int | None) -> None:
    """Refuse a file that needs more than the ``available`` bytes of memory; None: no limit."""
    _refuse_above(file, memory_needed(file), available, "about")


def _refuse_above(file: DataFile, needed: int, available: int | None, about: str) -> None:
    if available is not None and needed > available:
        size = file.path.stat().st_size
        file.refuse(
            f"has {_gigabytes(size)} and would need {about} {_gigabytes(needed)} of memory, but "
            f"{_gigabytes(available)} are free; take a random sample of its rows, or keep fewer "
            "columns (only scoring with a fitted model reads files of any size)"
        )


class Metered(io.RawIOBase):
    """A compressed text file as its parser reads it, refused once it is more than memory can hold.

    How large it is only shows when it is unpacked: a small file can hold any amount of one line.
    """

    def __init__(self, file: DataFile, source: Readable, available: int | None) -> None:
        super().__init__()
        self._file = file
        self._source = source
        self._available = available
        self._delimiter = file.delimiter.encode()
        self._needed = 0

    def readable(self) -> bool:
        """Bytes can be read from it."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, decompressed."""
        chunk = self._source.read(size)
        values = chunk.count(self._delimiter) + chunk.count(b"\n")
        self._needed += _PER_TEXT_BYTE * len(chunk) + _PER_VALUE * values
        _refuse_above(self._file, self._needed, self._available, "more than")
        return chunk


def metered(
    file: DataFile, batches: Iterator[pa.RecordBatch], available: int | None
) -> Iterator[pa.RecordBatch]:
    """Hand on batches of a binary file, until they take more memory than there is."""
    needed = 0
    for batch in batches:
        needed += 2 * batch.nbytes
        _refuse_above(file, needed, available, "more than")
        yield batch


def _physical_memory() -> int | None:
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _control_group_room(folder: Path) -> list[int]:
    """What a container may still take (control groups version 2), in a list of at most one."""
    try:
        limit = int((folder / "memory.max").read_text("ascii"))
        used = int((folder / "memory.current").read_text("ascii"))
    except (OSError, ValueError):  # no control group, or its limit is "max"
        return []
    return [max(limit - used, 0)]


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 5e7 else f"{count / 1e6:,.1f} MB"
