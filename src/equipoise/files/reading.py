"""Read a data file as a frame: all of it, or block by block in bounded memory.

pyarrow reads the tables. It is fast, but its errors give neither the line nor the byte. So this
module also reads the first line of every text file, and the rest if pyarrow has failed.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn, cast

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from equipoise.errors import InputError, did_you_mean
from equipoise.files.columns import as_names, check_columns
from equipoise.files.contents import FALSE_WORDS, TRUE_WORDS
from equipoise.tables.columns import REFUSED, kind_of

#: Text with more distinct values than this stays text; with at most this many it is categorical.
MAX_LEVELS = 1_000
#: Texts that mean a missing value in text files.
MISSING_WORDS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null")
#: Nullable types; otherwise whole numbers would be floats in blocks that have missing values.
_NULLABLE = {
    pa.type_for_alias(name.lower()): pd.api.types.pandas_dtype(name)
    for name in ["boolean", *(f"{kind}{n}" for kind in ("Int", "UInt") for n in (8, 16, 32, 64))]
}
#: Bytes of memory at the peak of reading: two copies of eight bytes for each value, plus twice the
#: bytes of a text file. Measured on a million rows: 0.47 GB for 17 mixed columns (estimate 0.51),
#: 0.90 GB for 50 columns of 0 and 1 (estimate 1.00).
_PER_VALUE = 16
_PER_TEXT_BYTE = 2
#: Tables of short numbers and few categories compress to about a fifth under gzip.
_GZIP_RATIO = 5
_SAMPLED_BYTES = 1 << 20
_GZIP_ERRORS = (EOFError, OSError, zlib.error)


def read_table(
    path: str | os.PathLike[str], *, sep: str | None = None, category: str | Iterable[str] = ()
) -> pd.DataFrame:
    """Read a CSV, TSV, Parquet, Arrow or Feather file; the text formats also as .gz.

    The name of the file decides the format; its first bytes must agree. The frame has at least one
    row, and its column names are distinct text. Text becomes a categorical column, or stays text
    if it has more than 1,000 distinct values. An empty field and words such as ``NA`` are missing
    values. Dates stay dates.

    ``sep`` is the character between the values of a text file, where its name says otherwise.
    ``category`` names columns of numbers that are codes: each number becomes a category.

    An `InputError` says where a file is damaged, or that it would not fit into memory.
    """
    file = find_data_file(path, sep)
    names = as_names("category", category)
    table = _read_text(file) if file.layout == "text" else _read_binary(file)
    if table.num_rows == 0:
        _refuse_without_rows(file)
    check_columns("category", names, table.column_names)
    columns = [_plain(column) for column in table.columns]
    plain = pa.table(columns, names=table.column_names)
    del table, columns  # to_pandas then frees each column after converting it
    frame: pd.DataFrame = plain.to_pandas(
        split_blocks=True, self_destruct=True, date_as_object=False, ignore_metadata=True
    )
    for name in names:
        frame[name] = _as_category(frame[name], name)
    return frame


def _as_category(values: pd.Series[Any], name: str) -> pd.Series[Any]:
    """Numbers as categories; text holds categories already."""
    kind = kind_of(values)
    if kind in ("text", "categorical"):
        return values
    if kind != "number":
        raise InputError(
            f"category must name columns of numbers, got {name!r}, which holds "
            f"{REFUSED.get(kind, ('true or false' if kind == 'boolean' else 'no values',))[0]}; "
            "leave it out"
        )
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    # A missing value makes whole numbers floats; as categories they are 1 and 2, not 1.0 and 2.0.
    whole = np.isnan(numbers) | ((numbers == np.floor(numbers)) & (np.abs(numbers) < 2**53))
    return (values.astype("Int64") if whole.all() else values).astype("category")


def iterate_table(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    rows: int = 65_536,
    sep: str | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield a data file of any size as frames of ``rows`` rows each; the last one may be shorter.

    No types are inferred, because later blocks may hold other values: all columns of a text file
    come as text, exactly as written; columns of other files keep their types.
    `equipoise.files.expected` converts them to what a model expects. ``columns`` names the columns
    to read, in this order; ``sep`` is that of `read_table`. A damaged file gives an `InputError`,
    at once or when the reader reaches the damage.
    """
    if rows < 1:
        raise InputError(f"rows must be at least 1, got {rows}; leave it out for the default")
    file = find_data_file(path, sep)
    names = column_names(file)
    chosen = names if columns is None else list(columns)
    check_columns("columns", chosen, names)
    text = file.layout == "text"
    batches = _text_batches(file, names, chosen) if text else _binary_batches(file, 16_384, chosen)
    return _frames(file, batches, rows)


def column_names(file: DataFile) -> list[str]:
    """Return the names of the columns of a data file without reading its rows."""
    if file.layout == "text":
        return read_header(file)
    opened, schema = _open_binary(file)
    with opened:
        return list(schema.names)


def column_types(file: DataFile) -> dict[str, pa.DataType]:
    """Return names and types of the columns of a Parquet or Arrow file without reading rows."""
    opened, schema = _open_binary(file)
    with opened:
        return dict(zip(schema.names, schema.types, strict=True))


def row_groups(file: DataFile) -> list[int]:
    """Return the number of rows of each part of a file that can be read without the others.

    These are the row groups of a Parquet file, or the batches of an Arrow file.
    """
    opened, _ = _open_binary(file)
    with opened, _errors_explained(file):
        if file.layout == "parquet":
            groups = map(opened.metadata.row_group, range(opened.metadata.num_row_groups))
            return [group.num_rows for group in groups]
        return [opened.get_batch(k).num_rows for k in range(opened.num_record_batches)]


def iterate_group(
    path: str | os.PathLike[str], group: int, *, columns: Sequence[str], rows: int
) -> Iterator[pd.DataFrame]:
    """Yield one of the `row_groups` of a file as frames of ``rows`` rows, as `iterate_table` does.

    Text comes as categories.
    """
    file = find_data_file(path)
    return _frames(file, _group_batches(file, group, list(columns), rows), rows)


def _group_batches(
    file: DataFile, group: int, columns: list[str], rows: int
) -> Iterator[pa.RecordBatch]:
    opened, schema = _open_binary(file)
    with opened, _errors_explained(file):
        if file.layout != "parquet":
            yield opened.get_batch(group).select(columns)
            return
        text = [name for name in columns if _is_text(schema.field(name).type)]
        with pq.ParquetFile(
            file.path, buffer_size=1 << 20, pre_buffer=False, read_dictionary=text
        ) as parts:
            yield from parts.iter_batches(batch_size=rows, row_groups=[group], columns=columns)


def _frames(file: DataFile, batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pd.DataFrame]:
    """Regroup batches of any length into frames of ``rows`` rows."""
    waiting: list[pa.RecordBatch] = []
    count = total = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, rows - count)
            waiting.append(part)
            start, count = start + part.num_rows, count + part.num_rows
            if count == rows:
                yield _frame(waiting)
                waiting, count = [], 0
        total += batch.num_rows
    if total == 0:
        _refuse_without_rows(file)
    if waiting:
        yield _frame(waiting)


def _frame(batches: Sequence[pa.RecordBatch]) -> pd.DataFrame:
    table = pa.Table.from_batches(batches).unify_dictionaries()
    for place, kind in enumerate(table.schema.types):
        if pa.types.is_decimal(kind):  # as `read_table` reads it, to the last bit
            table = table.set_column(place, table.column_names[place], _plain(table.column(place)))
    frame: pd.DataFrame = table.to_pandas(
        date_as_object=False, ignore_metadata=True, types_mapper=_NULLABLE.get
    )
    return frame


def _refuse_without_rows(file: DataFile) -> None:
    file.refuse("must have at least one row, got column names only; check how it was written")


@contextmanager
def _errors_explained(file: DataFile) -> Iterator[None]:
    """Turn errors of pyarrow into errors that say where the file is damaged."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if file.layout != "text" or not isinstance(error, pa.ArrowInvalid):
            file.refuse_damaged(error)
        if "UTF8" in str(error):
            refuse_encoding(file)
        refuse_structure(file, error)


def _read_text(file: DataFile) -> pa.Table:
    available = memory_available()
    refuse_too_large(file, available)
    names = read_header(file)
    source = pa.input_stream(str(file.path), compression="gzip" if file.gzipped else None)
    with _errors_explained(file):
        table = pyarrow.csv.read_csv(
            pa.PythonFile(_Metered(file, source, available), "r") if file.gzipped else source,
            read_options=pyarrow.csv.ReadOptions(block_size=_block_size(len(names), 1_024)),
            parse_options=_parse_options(file),
            convert_options=pyarrow.csv.ConvertOptions(
                null_values=MISSING_WORDS,
                true_values=TRUE_WORDS,
                false_values=FALSE_WORDS,
                strings_can_be_null=True,
                auto_dict_encode=True,
                auto_dict_max_cardinality=MAX_LEVELS,
            ),
        )
    # pyarrow reads text that is not UTF-8 as bytes, and nothing else in a text file.
    kinds = (k.value_type if pa.types.is_dictionary(k) else k for k in table.schema.types)
    if any(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) for kind in kinds):
        refuse_encoding(file)
    if table.num_rows:
        check_last_quote(file, table.column(table.num_columns - 1)[-1].as_py())
    return table


def _text_batches(
    file: DataFile, names: Sequence[str], chosen: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    # The last column is always read: an unclosed quote there hides the rest of the file.
    included = [*chosen, *(name for name in names[-1:] if name not in chosen)]
    place, last = included.index(names[-1]), None
    with (
        _errors_explained(file),
        pyarrow.csv.open_csv(
            pa.input_stream(str(file.path), compression="gzip" if file.gzipped else None),
            # pyarrow reads 32 blocks ahead.
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=_block_size(len(names), 512)
            ),
            parse_options=_parse_options(file),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=included,
                column_types=dict.fromkeys(included, pa.string()),
                strings_can_be_null=False,
            ),
        ) as reader,
    ):
        for batch in reader:
            if batch.num_rows:
                last = batch.column(place)[-1].as_py()
            yield batch.select(chosen)
    check_last_quote(file, last)


def _block_size(columns: int, each: int) -> int:
    """Bytes of a text file to parse at a time: one mebibyte, or ``each`` bytes per column if more.

    Each block makes one piece of every column. If blocks had a fixed size, many columns would leave
    few rows for a block, and the number of pieces would grow with the square of the columns. A line
    must fit into a block.
    """
    return max(1 << 20, each * columns)


def _parse_options(file: DataFile) -> pyarrow.csv.ParseOptions:
    return pyarrow.csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=True)


def _read_binary(file: DataFile) -> pa.Table:
    opened, schema = _open_binary(file)
    with opened:
        pass  # only its schema is needed before its size is checked
    available = memory_available()
    refuse_too_large(file, available)
    batches = metered(file, _binary_batches(file, 65_536), available)
    with _errors_explained(file):
        return pa.Table.from_batches(batches, schema).unify_dictionaries()


def _binary_batches(
    file: DataFile, rows: int, chosen: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Batches of ``rows`` rows of a Parquet file, or the batches of an Arrow file as stored."""
    opened, _ = _open_binary(file)
    with opened, _errors_explained(file):
        if file.layout == "parquet":
            yield from opened.iter_batches(batch_size=rows, columns=chosen)
            return
        for number in range(opened.num_record_batches):
            batch = opened.get_batch(number)
            yield batch if chosen is None else batch.select(chosen)


def _open_binary(file: DataFile) -> tuple[Any, pa.Schema]:
    """Open a Parquet or Arrow file and check its column names."""
    with _errors_explained(file):
        if file.layout == "parquet":
            # Buffered: a column chunk may be as large as the file and is not loaded at once.
            opened = pq.ParquetFile(file.path, buffer_size=1 << 20, pre_buffer=False)
            schema = opened.schema_arrow
        else:
            # Not memory-mapped: data read must not change if somebody overwrites the file.
            opened = pa.ipc.open_file(pa.OSFile(str(file.path)))
            schema = opened.schema
    check_names(file, schema.names)
    return opened, schema


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Encode text of few distinct values as a dictionary; convert exact decimals to floats."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        column = column.unify_dictionaries()
        many = any(len(chunk.dictionary) > MAX_LEVELS for chunk in column.chunks)
        return column.cast(kind.value_type) if many else column
    # Counted first: unifying dictionaries of many identifiers takes many seconds.
    if _is_text(kind) and pc.count_distinct(column).as_py() <= MAX_LEVELS:
        return column.dictionary_encode().unify_dictionaries()
    return column


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def memory_available() -> int:
    """Return the free memory in bytes, within the limit of a container if there is one."""
    free = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((group / f"memory.{n}").read_text("ascii")) for n in ("max", "current"))
    except (OSError, ValueError):  # no container (control groups version 2), or no limit
        return free
    return min(free, max(limit - used, 0))


def memory_needed(file: DataFile) -> int:
    """Estimate the memory in bytes that reading a whole file takes at its peak."""
    size = file.path.stat().st_size
    if file.layout == "text":
        length = size * _GZIP_RATIO if file.gzipped else size
        return int(length * (_PER_TEXT_BYTE + _PER_VALUE * _values_per_byte(file)))
    if file.layout == "arrow":
        return 2 * size
    metadata = pq.read_metadata(file.path)
    encoded = listed = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        encoded += group.total_byte_size
        listed += sum(group.column(place).num_values for place in range(group.num_columns))
    # A file with dictionaries is small, but in memory every value takes about eight bytes. In a
    # column of lists, a row has many values.
    values = max(metadata.num_rows * metadata.num_columns, listed)
    return int(max(2 * encoded, _PER_VALUE * values))


def _values_per_byte(file: DataFile) -> float:
    """Number of values per byte of text, estimated from the beginning of a file."""
    try:
        with file.open() as raw:
            start = raw.read(_SAMPLED_BYTES)
    except _GZIP_ERRORS as error:
        file.refuse_damaged(error)
    separators = start.count(file.delimiter.encode()) + start.count(b"\n")
    return separators / max(len(start), 1)


def refuse_too_large(
    file: DataFile, available: int, needed: int | None = None, about: str = "more than"
) -> None:
    """Refuse a file that needs more than the ``available`` bytes of memory."""
    if needed is None:
        needed, about = memory_needed(file), "about"
    if needed > available:
        size = file.path.stat().st_size
        file.refuse(
            f"has {_gigabytes(size)} and would need {about} {_gigabytes(needed)} of memory, but "
            f"{_gigabytes(available)} are free; take a random sample of its rows, or keep fewer "
            "columns (scoring with a fitted model reads files of any size)"
        )


class _Metered(io.RawIOBase):
    """A compressed text file that is refused while it is read, once it needs too much memory.

    Its size is known only after unpacking: a small file can hold the same line any number of times.
    """

    def __init__(self, file: DataFile, source: Any, available: int) -> None:
        super().__init__()
        self._file = file
        self._source = source
        self._available = available
        self._delimiter = file.delimiter.encode()
        self._needed = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        chunk: bytes = self._source.read(size)
        values = chunk.count(self._delimiter) + chunk.count(b"\n")
        self._needed += _PER_TEXT_BYTE * len(chunk) + _PER_VALUE * values
        refuse_too_large(self._file, self._available, self._needed)
        return chunk


def metered(
    file: DataFile, batches: Iterator[pa.RecordBatch], available: int
) -> Iterator[pa.RecordBatch]:
    """Pass on the batches of a binary file; refuse it once they need too much memory."""
    needed = 0
    for batch in batches:
        needed += 2 * batch.nbytes
        refuse_too_large(file, available, needed)
        yield batch


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 5e7 else f"{count / 1e6:,.1f} MB"


Layout = Literal["text", "parquet", "arrow"]

#: Layout of a file and separator of its values, by the ending of its name.
_ENDINGS: dict[str, tuple[Layout, str]] = {
    ".csv": ("text", ","),
    ".tsv": ("text", "\t"),
    ".parquet": ("parquet", ""),
    ".arrow": ("arrow", ""),
    ".feather": ("arrow", ""),
}
_KNOWN = ".csv, .tsv, .csv.gz, .tsv.gz, .parquet, .arrow or .feather"

#: First bytes of formats, from their specifications, with name and remedy.
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
_FORMAT_NAMES = {"text": "text", "parquet": "Parquet", "arrow": "Arrow"}


@dataclass(frozen=True)
class DataFile:
    """A data file that exists and whose first bytes match its name."""

    path: Path
    layout: Layout
    delimiter: str  # what separates values in a text file; "" in other files
    gzipped: bool

    def open(self) -> BinaryIO:
        """Open the bytes of the table, decompressed."""
        return cast(BinaryIO, gzip.open(self.path)) if self.gzipped else self.path.open("rb")

    def refuse(self, found: str) -> NoReturn:
        """Raise an error that names this file."""
        _refuse(self.path, found)

    def refuse_damaged(self, error: Exception) -> NoReturn:
        """Say that the file is truncated or damaged, with the first line of the reader's error."""
        words = str(error).splitlines()[0].rstrip(".")
        if self.gzipped:
            words = "its gzip stream is broken"
        self.refuse(f"is cut off or damaged ({words}); write or copy it again")


def _refuse(path: Path, found: str) -> NoReturn:
    raise InputError(f"data file '{path}' {found}")


def check_separator(name: str, sep: str) -> str:
    """Return the character that ``sep`` stands for; a tab may be written as a backslash and t."""
    mark = "\t" if sep == "\\t" else sep
    if not isinstance(mark, str) or len(mark) != 1 or not mark.isascii() or mark in '"\r\n\0':
        raise InputError(
            f"{name} must be one character, such as ';' or '\\t' for a tab, and no quote or line "
            f"break, got {sep!r}; leave it out where the name of the file says it"
        )
    return mark


def find_data_file(path: str | os.PathLike[str], sep: str | None = None) -> DataFile:
    """Return the data file at ``path``; refuse a missing file or one of another format.

    ``sep`` separates the values of a text file, where its name says otherwise.
    """
    place = Path(path)
    mark = None if sep is None else check_separator("sep", sep)
    if place.is_dir():
        _refuse(place, "must be a file, got a folder; name the file in it")
    if place.exists() and not place.is_file():
        _refuse(
            place,
            "must be a file on disk, got a pipe, socket or device, which can be read only once; "
            "write its output into a file first",
        )
    if not place.parent.is_dir():
        _refuse(place, f"must exist, but there is no folder '{place.parent}'; check the name")
    if not place.is_file():
        beside = sorted(entry.name for entry in place.parent.iterdir() if entry.is_file())
        remedy = did_you_mean(place.name, beside) or "; check the name"
        _refuse(place, f"must exist, but there is none in '{place.parent}'{remedy}")
    file = _by_name(place)
    if mark is not None:
        if file.layout != "text":
            raise InputError(
                f"sep (--sep) is for text files, got {sep!r} for '{place}'; leave it out"
            )
        file = replace(file, delimiter=mark)
    if place.stat().st_size == 0:
        _refuse(place, "must hold a table, got an empty file; write it again")
    _check_signature(file)
    return file


def layout_of(path: str | os.PathLike[str]) -> tuple[Layout | None, str]:
    """What the name of a file says: its layout and separator; None for an unknown ending."""
    name = Path(path).name.lower()
    return _ENDINGS.get(Path(name.removesuffix(".gz")).suffix, (None, ""))


def _by_name(place: Path) -> DataFile:
    gzipped = place.name.lower().endswith(".gz")
    layout, delimiter = layout_of(place)
    if layout is None or (gzipped and layout != "text"):
        found = "".join(place.suffixes[-2:]) if gzipped else place.suffix
        shown = repr(found) if found else "no ending"
        _refuse(place, f"must end in {_KNOWN}, got {shown}; save it in one of these formats")
    return DataFile(place, layout, delimiter, gzipped)


def _check_signature(file: DataFile) -> None:
    with file.path.open("rb") as raw:
        start = raw.read(8)
    # Text has no signature: any other beginning counts as text.
    found = [(name, remedy) for mark, name, remedy in _SIGNATURES if start.startswith(mark)]
    name, remedy = found[0] if found else ("text", "write it again")
    expected = "gzip" if file.gzipped else _FORMAT_NAMES[file.layout]
    if name != expected:
        file.refuse(f"must be {expected} by its name, but its first bytes are {name}; {remedy}")


_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 26
#: Byte order marks; the longer ones come first, since UTF-32's begins like UTF-16's.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
#: Bytes that Windows-1252 leaves undefined (https://encoding.spec.whatwg.org, windows-1252).
_UNDEFINED_IN_1252 = frozenset(b"\x81\x8d\x8f\x90\x9d")
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}


def read_header(file: DataFile) -> list[str]:
    """Return the names of the columns of a text file, which are distinct and not empty."""
    try:
        with file.open() as raw:
            _refuse_wide_encoding(file, raw.read(4))
        with _records(file) as records:
            names: list[str] | None = next(records, None)
    except UnicodeDecodeError:
        refuse_encoding(file)
    except csv.Error as error:
        refuse_structure(file, error)
    except _GZIP_ERRORS as error:
        file.refuse_damaged(error)
    if not names:
        file.refuse("must begin with a line of column names, got an empty line; write it again")
    _refuse_other_delimiter(file, names)
    check_names(file, names)
    return names


def check_names(file: DataFile, names: Sequence[str]) -> None:
    """Refuse columns without a name and names that occur twice."""
    unnamed = [position for position, name in enumerate(names, start=1) if not name.strip()]
    if unnamed:
        file.refuse(
            f"must name every column, got none for column {unnamed[0]} of {len(names)}; give it a "
            "name, or leave it out (pandas writes such a column unless index=False is given)"
        )
    twice = [f"'{name}'" for name, count in Counter(names).items() if count > 1]
    if twice:
        file.refuse(
            f"must have distinct column names, got {', '.join(twice)} more than once; rename them"
        )


def refuse_encoding(file: DataFile) -> NoReturn:
    """Say which byte is not UTF-8, in which line, and which encoding it may be."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset, line = 0, 1
    with file.open() as raw:
        while chunk := raw.read(_CHUNK):
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError as error:
                windows = not _UNDEFINED_IN_1252.intersection(chunk)
                name = "WINDOWS-1252" if windows else "ISO-8859-1"
                line += chunk[: max(error.start - pending, 0)].count(b"\n")
                file.refuse(
                    f"must be UTF-8 text, got byte 0x{error.object[error.start]:02x} at offset "
                    f"{offset - pending + error.start} (line {line}), perhaps "
                    f"{'Windows-1252 or Latin-1' if windows else 'Latin-1'}; {_recode(file, name)}"
                )
            offset += len(chunk)
            line += chunk.count(b"\n")
    file.refuse("must be UTF-8 text, but its last character is cut off; write it again")


def refuse_structure(file: DataFile, error: Exception) -> NoReturn:
    """Say which line of a text file has too many or too few values, or a misplaced quote.

    If none has, the reader's ``error`` is shown.
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
    """Refuse a file whose last value includes further lines because its quote is never closed."""
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
    """A `csv.reader` of a text file."""
    with io.TextIOWrapper(file.open(), encoding="utf-8-sig", newline="") as text:
        yield csv.reader(_lines(file, text), delimiter=file.delimiter, strict=True)


def _lines(file: DataFile, text: io.TextIOWrapper) -> Iterator[str]:
    """Yield lines; refuse a line that could fill the memory."""
    for number, line in enumerate(iter(lambda: text.readline(_LONGEST_LINE), ""), 1):
        if len(line) == _LONGEST_LINE:
            file.refuse(
                f"must have lines of fewer than {_LONGEST_LINE:,} characters, but line {number} is "
                "longer; write each row on a line of its own"
            )
        yield line


def _is_misplaced(error: csv.Error) -> bool:
    """Whether text follows a closing quote; otherwise a quote is never closed."""
    return "expected after" in str(error)


def _refuse_quote(file: DataFile, before: int, error: csv.Error) -> NoReturn:
    line = before + 1
    if _is_misplaced(error):
        file.refuse(
            f"must have no text between a closing quote and the next separator, got some in line "
            f'{line}; double every " inside values'
        )
    if "limit" in str(error):
        file.refuse(
            f"must have values of at most {csv.field_size_limit():,} characters, but one that "
            f"begins in line {line} is longer; look for a quote that is never closed"
        )
    file.refuse(
        f"must close every quoted value, but one that begins in line {line} does not end; close "
        'it, or double every " inside values'
    )


def _refuse_wide_encoding(file: DataFile, start: bytes) -> None:
    name = next((name for mark, name in _BYTE_ORDER_MARKS if start.startswith(mark)), None)
    if name is None and b"\0" in start:
        if start.count(b"\0") != 2:
            file.refuse("must be text by its name, but it holds zero bytes; write it again as CSV")
        name = "UTF-16LE" if start[1:2] == b"\0" else "UTF-16BE"
    if name is not None:
        file.refuse(f"must be UTF-8 text, got {name}; {_recode(file, name)}")


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
            expected = _OTHER_DELIMITERS.get(file.delimiter, repr(file.delimiter))
            by_name = file.delimiter == _by_name(file.path).delimiter
            given = repr(mark)
            file.refuse(
                f"must separate values by {expected} {'by its name' if by_name else 'as sep says'},"
                f" but its first line has {words}; set sep={given} (--sep {given})"
            )
