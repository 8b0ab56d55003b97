"""Whether a table fits into memory, estimated before it is read."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pyarrow.parquet as pq

from equipoise.datafiles.formats import DataFile

#: Peak memory of reading: two copies of eight bytes for each value, and of a text file its bytes
#: twice. Measured on a million rows of 17 mixed columns (0.47 GB, estimated 0.51) and of 50 columns
#: of 0 and 1 (0.90 GB, estimated 1.00).
_PER_VALUE = 16
_PER_TEXT_BYTE = 2
#: Tables of short numbers and few categories shrink to about a fifth under gzip.
_GZIP = 5
_SAMPLED_BYTES = 1 << 20


def memory_needed(file: DataFile) -> int:
    """Estimate the bytes that reading a whole file takes at its peak."""
    size = file.path.stat().st_size
    if file.layout == "text":
        length = size * _GZIP if file.gzipped else size
        return int(length * (_PER_TEXT_BYTE + _PER_VALUE * _values_per_byte(file)))
    if file.layout == "parquet":
        metadata = pq.read_metadata(file.path)
        groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
        encoded = sum(group.total_byte_size for group in groups)
        # Dictionaries make files small; in memory every value takes eight bytes or so.
        return int(max(2 * encoded, _PER_VALUE * metadata.num_rows * metadata.num_columns))
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
    needed = memory_needed(file)
    if available is not None and needed > available:
        size = file.path.stat().st_size
        file.refuse(
            f"has {_gigabytes(size)} and would need about {_gigabytes(needed)} of memory, but "
            f"{_gigabytes(available)} are free; take a random sample of its rows, or keep fewer "
            "columns (only scoring with a fitted model reads files of any size)"
        )


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
    return f"{count / 1e9:,.1f} GB"
