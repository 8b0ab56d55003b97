"""The format of a data file, by its name and first bytes, and where exactly a text file is broken.

pyarrow reads the tables. It is fast, but names neither line nor byte of a fault. This module reads
the first line of every text file, and the rest only when reading has failed.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn, cast

from equipoise.errors import InputError, did_you_mean

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
_PROMISED = {"text": "text", "parquet": "Parquet", "arrow": "Arrow"}


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
    remedy = did_you_mean(place.name, beside) or "; check the name"
    _refuse(place, f"must exist, but there is none in '{place.parent}'{remedy}")


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
    # Text has no first bytes of its own: anything that is not known is taken for it.
    found = [(name, remedy) for mark, name, remedy in _SIGNATURES if start.startswith(mark)]
    name, remedy = found[0] if found else ("text", "")
    promised = "gzip" if file.gzipped else _PROMISED[file.layout]
    if found and name != promised:
        file.refuse(f"must be {promised} by its name, but its first bytes are {name}; {remedy}")
    if name != promised:
        file.refuse(
            f"must be {promised} by its name, but its first bytes are not; it is another format or "
            "was damaged, so write it again"
        )


_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 26
#: Byte order marks, the longer first: that of UTF-32 begins as that of UTF-16 does.
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
#: Bytes that Windows-1252 leaves undefined (https://encoding.spec.whatwg.org, windows-1252).
_UNDEFINED_IN_1252 = frozenset(b"\x81\x8d\x8f\x90\x9d")
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}


def read_header(file: DataFile) -> list[str]:
    """Return the names of the columns of a text file, distinct and none empty."""
    try:
        with file.open() as raw:
            _refuse_wide_encoding(file, raw.read(4))
        with _records(file) as records:
            names: list[str] | None = next(records, None)
    except UnicodeDecodeError:
        refuse_encoding(file)
    except csv.Error as error:
        refuse_structure(file, error)
    except (EOFError, OSError, zlib.error) as error:  # of gzip
        file.refuse_damaged(error)
    if not names:
        file.refuse("must begin with a line of column names, got an empty line; write it again")
    _refuse_other_delimiter(file, names)
    check_names(file, names)
    return names


def check_names(file: DataFile, names: Sequence[str]) -> None:
    """Refuse columns without a name, and names that occur twice."""
    unnamed = [position for position, name in enumerate(names, start=1) if not name.strip()]
    if unnamed:
        file.refuse(
            f"must name every column, got none for column {unnamed[0]} of {len(names)}; give it a "
            "name, or leave it out (pandas writes such a column unless told index=False)"
        )
    twice = [f"'{name}'" for name, count in Counter(names).items() if count > 1]
    if twice:
        file.refuse(
            f"must have distinct column names, got {', '.join(twice)} more than once; rename them"
        )


def refuse_encoding(file: DataFile) -> NoReturn:
    """Say which byte is not UTF-8, on which line, and what the encoding seems to be."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset, line = 0, 1
    with file.open() as raw:
        while chunk := raw.read(_CHUNK):
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError as error:
                at = offset - pending + error.start
                line += chunk[: max(error.start - pending, 0)].count(b"\n")
                byte = error.object[error.start]
                _refuse_byte(file, byte, at, line, chunk)
            offset += len(chunk)
            line += chunk.count(b"\n")
    file.refuse("must be UTF-8 text, but its last character is cut off; write it again")


def refuse_structure(file: DataFile, error: Exception) -> NoReturn:
    """Say which line of a text file has too many or too few values, or a misplaced quote.

    ``error`` is what its reader said; it is shown for other faults.
    """
    expected, before = 0, 0
    with _records(file) as records:
        try:
            for values in records:
                expected = expected or len(values)
                if values and len(values) != expected:
                    file.refuse(
                        f"must have {expected} values in every line, got {len(values)} in line "
                        f"{before + 1}; put values that hold a separator in double quotes"
                    )
                before = records.line_num
        except csv.Error as fault:
            _refuse_quote(file, before, fault)
        except UnicodeDecodeError:
            refuse_encoding(file)
    words = str(error).splitlines()[0].rstrip(".")
    file.refuse(f"cannot be read as a table ({words}); write it again")


def check_last_quote(file: DataFile, last: object) -> None:
    """Refuse a file whose last value holds further lines because its quote is never closed."""
    if not isinstance(last, str) or "\n" not in last:
        return
    before = 0
    with _records(file) as records:
        try:
            for _ in records:
                before = records.line_num
        except csv.Error as error:
            if not _is_misplaced(error):
                _refuse_quote(file, before, error)


@contextmanager
def _records(file: DataFile) -> Iterator[Any]:
    """The `csv.reader` of a text file, which yields lists of text and counts the lines read."""
    with io.TextIOWrapper(file.open(), encoding="utf-8-sig", newline="") as text:
        yield csv.reader(_lines(file, text), delimiter=file.delimiter, strict=True)


def _lines(file: DataFile, text: io.TextIOWrapper) -> Iterator[str]:
    """Yield lines; refuse one that could fill the memory."""
    for number, line in enumerate(iter(lambda: text.readline(_LONGEST_LINE), ""), 1):
        if len(line) == _LONGEST_LINE:
            file.refuse(
                f"must have lines of fewer than {_LONGEST_LINE:,} characters, but line {number} is "
                "longer; write each row on a line of its own"
            )
        yield line


def _is_misplaced(error: csv.Error) -> bool:
    """Whether text follows a closed quote; other faults are quotes that are never closed."""
    return "expected after" in str(error)


def _refuse_quote(file: DataFile, before: int, error: csv.Error) -> NoReturn:
    line = before + 1
    if _is_misplaced(error):
        file.refuse(
            f"must have nothing between a closing quote and the next separator, got text there in "
            f'line {line}; double every " inside values'
        )
    if "limit" in str(error):
        file.refuse(
            f"must have values of at most {csv.field_size_limit():,} characters, but one that "
            f"begins in line {line} is longer; perhaps a quote is opened there and never closed"
        )
    file.refuse(
        f"must close every quoted value, but one that begins in line {line} does not end; close "
        'it, or double every " inside values'
    )


def _refuse_wide_encoding(file: DataFile, start: bytes) -> None:
    name = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    if name is None and b"\0" in start:
        if start.count(b"\0") != 2:
            file.refuse("must be text by its name, but it holds zero bytes; write it again as CSV")
        name = "UTF-16LE" if start[1:2] == b"\0" else "UTF-16BE"
    if name is not None:
        file.refuse(f"must be UTF-8 text, got {name}; {_recode(file, name)}")


def _refuse_byte(file: DataFile, byte: int, offset: int, line: int, around: bytes) -> NoReturn:
    windows = not _UNDEFINED_IN_1252.intersection(around)
    name = "WINDOWS-1252" if windows else "ISO-8859-1"
    words = "Windows-1252 or Latin-1" if windows else "Latin-1"
    file.refuse(
        f"must be UTF-8 text, got byte 0x{byte:02x} at offset {offset} (line {line}), perhaps "
        f"{words}; {_recode(file, name)}"
    )


def _recode(file: DataFile, name: str) -> str:
    unpack = f"gunzip -c '{file.path.name}' | " if file.gzipped else ""
    source = "" if file.gzipped else f" '{file.path.name}'"
    ending = ".tsv" if file.delimiter == "\t" else ".csv"
    return f"convert it with: {unpack}iconv -f {name} -t UTF-8{source} > utf8{ending}"


def _refuse_other_delimiter(file: DataFile, names: Sequence[str]) -> None:
    if len(names) != 1:
        return
    for mark, words in _OTHER_DELIMITERS.items():
        if mark != file.delimiter and mark in names[0]:
            expected = _OTHER_DELIMITERS[file.delimiter]
            remedy = "rename it to end in .tsv" if mark == "\t" else f"write it with {expected}"
            file.refuse(
                f"must separate values by {expected} by its name, but its first line has "
                f"{words}; {remedy}"
            )
