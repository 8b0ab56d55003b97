"""Where exactly a text file is broken: encoding, header, rows of another length, open quotes.

pyarrow reads the tables. It is fast, but names neither line nor byte. This module reads the first
line of every text file, and the rest only when reading has failed.
"""

from __future__ import annotations

import codecs
import csv
import io
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from equipoise.files.formats import DataFile

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
