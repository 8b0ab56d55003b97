"""The format of a data file: decided by its name, checked against its first bytes."""

from __future__ import annotations

import difflib
import gzip
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NoReturn, cast

from equipoise.errors import InputError

Layout = Literal["text", "parquet", "arrow"]

#: How names end, what that means, and what separates the values of a text format.
_ENDINGS: dict[str, tuple[Layout, str]] = {
    ".csv": ("text", ","),
    ".tsv": ("text", "\t"),
    ".parquet": ("parquet", ""),
    ".arrow": ("arrow", ""),
    ".feather": ("arrow", ""),
}
_KNOWN = ".csv, .tsv, .csv.gz, .tsv.gz, .parquet, .arrow and .feather"

#: First bytes of formats, from their specifications.
_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"PAR1", "Parquet", "rename it to end in .parquet"),
    (b"PARE", "encrypted Parquet", "decrypt it first"),
    (b"ARROW1", "Arrow", "rename it to end in .arrow"),
    (b"FEA1", "Feather version 1", "write it again as Feather version 2"),
    (b"\xff\xff\xff\xff", "an Arrow stream", "write it as an Arrow file or as Parquet"),
    (b"\x1f\x8b", "gzip", "rename it to end in .csv.gz if it holds a CSV file"),
    (b"PK\x03\x04", "a zip archive or an Excel workbook", "unpack it, or save it as CSV"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook", "save it as CSV"),
)
_EXPECTED = {"parquet": "Parquet", "arrow": "Arrow"}


@dataclass(frozen=True)
class DataFile:
    """A data file that exists and begins as its name promises."""

    path: Path
    layout: Layout
    delimiter: str  # what separates values in a text file; "" in other files
    gzipped: bool

    def open(self) -> BinaryIO:
        """Open the bytes of the table, decompressed."""
        return cast(BinaryIO, gzip.open(self.path)) if self.gzipped else self.path.open("rb")

    def refuse(self, found: str) -> NoReturn:
        """Raise the error that says what is wrong with this file, and what to do."""
        _refuse(self.path, found)

    def refuse_damaged(self, error: Exception) -> NoReturn:
        """Say that the file is cut off or damaged, with the first line of the reader's error."""
        words = str(error).splitlines()[0].rstrip(".")
        if self.gzipped:
            words = "its gzip stream does not end well"
        self.refuse(f"is cut off or damaged ({words}); write or copy it again")


def _refuse(path: Path, found: str) -> NoReturn:
    raise InputError(f"data file '{path}' {found}")


def find_data_file(path: str | os.PathLike[str]) -> DataFile:
    """Return the data file at ``path``; refuse one that is missing or not what its name says."""
    place = Path(path)
    if place.is_dir():
        _refuse(place, "must be a file, got a folder; name the file in it")
    if place.exists() and not place.is_file():
        _refuse(
            place,
            "must be a file on disk, got a pipe, socket or device, which cannot be read more than "
            "once; write what it gives into a file first",
        )
    if not place.is_file():
        _refuse_absent(place)
    file = _by_name(place)
    if place.stat().st_size == 0:
        _refuse(place, "must hold a table, got an empty file; write it again")
    _check_signature(file)
    return file


def _refuse_absent(place: Path) -> NoReturn:
    if not place.parent.is_dir():
        _refuse(place, f"must exist, but there is no folder '{place.parent}'")
    beside = sorted(entry.name for entry in place.parent.iterdir() if entry.is_file())
    near = difflib.get_close_matches(place.name, beside, n=1)
    remedy = f"did you mean '{near[0]}'?" if near else "check the name"
    _refuse(place, f"must exist, but there is none in '{place.parent}'; {remedy}")


def _by_name(place: Path) -> DataFile:
    name = place.name.lower()
    gzipped = name.endswith(".gz")
    ending = Path(name.removesuffix(".gz")).suffix
    layout, delimiter = _ENDINGS.get(ending, (None, ""))
    if layout is None or (gzipped and layout != "text"):
        found = "".join(place.suffixes[-2:]) if gzipped else place.suffix
        said = repr(found) if found else "no ending"
        _refuse(place, f"must end in {_KNOWN}, got {said}; save it in one of these formats")
    return DataFile(place, layout, delimiter, gzipped)


def _check_signature(file: DataFile) -> None:
    with file.path.open("rb") as raw:
        start = raw.read(8)
    found = next((entry for entry in _SIGNATURES if start.startswith(entry[0])), None)
    name = found[1] if found else "something else"
    expected = "gzip" if file.gzipped else _EXPECTED.get(file.layout)
    if name == expected or (expected is None and found is None):
        return
    promised = expected if expected else "text"
    if found:
        file.refuse(f"must be {promised} by its name, but its first bytes are {name}; {found[2]}")
    file.refuse(
        f"must be {promised} by its name, but its first bytes are not; it is another format or was "
        "damaged, so write it again"
    )
