"""A data file as a frame: whole, or block by block in bounded memory whatever its size."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from equipoise.errors import InputError
from equipoise.files.columns import check_columns
from equipoise.files.formats import (
    DataFile,
    check_last_quote,
    check_names,
    find_data_file,
    read_header,
    refuse_encoding,
    refuse_structure,
)

#: Text with more distinct values than this stays text; with at most this many it is categorical.
MAX_LEVELS = 1_000
#: What stands for a missing value in text files, besides nothing at all.
MISSING_WORDS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null")
TRUE_WORDS = ("true", "True", "TRUE")
FALSE_WORDS = ("false", "False", "FALSE")
#: Otherwise whole numbers would be floats in those blocks that have missing values.
_NULLABLE = {
    pa.type_for_alias(name.lower()): pd.api.types.pandas_dtype(name)
    for name in ["boolean", *(f"{kind}{n}" for kind in ("Int", "UInt") for n in (8, 16, 32, 64))]
}
#: Peak memory of reading: two copies of eight bytes for each value, and of a text file its bytes
#: twice. Measured on a million rows of 17 mixed columns (0.47 GB, estimated 0.51) and of 50 columns
#: of 0 and 1 (0.90 GB, estimated 1.00).
_PER_VALUE = 16
_PER_TEXT_BYTE = 2
#: Tables of short numbers and few categories shrink to about a fifth under gzip.
_GZIP = 5
_SAMPLED_BYTES = 1 << 20


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a CSV, TSV, Parquet, Arrow or Feather file; the text formats also as .gz.

    Text becomes a categorical column, or stays text where it has more than 1,000 distinct values.
    An empty field and words such as ``NA`` are missing values. Dates stay dates.

    Parameters
    ----------
    path : path of a file
        Its name decides the format; its first bytes must agree.

    Returns
    -------
    pandas.DataFrame
        At least one row; column names are distinct text.

    Raises
    ------
    InputError
        When the file cannot be read as a table, or would not fit into memory. The message says
        where it is broken and what to do.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = f"{folder.name}/people.csv"
    >>> pd.DataFrame({"age": [31, 52], "job": ["cook", None]}).to_csv(path, index=False)
    >>> read_table(path)
       age   job
    0   31  cook
    1   52   NaN
    >>> folder.cleanup()
    """
    file = find_data_file(path)
    table = _read_text(file) if file.layout == "text" else _read_binary(file)
    if table.num_rows == 0:
        _refuse_without_rows(file)
    columns = [_plain(column) for column in table.columns]
    plain = pa.table(columns, names=table.column_names)
    del table, columns  # so that memory is handed over column by column
    frame: pd.DataFrame = plain.to_pandas(
        split_blocks=True, self_destruct=True, date_as_object=False, ignore_metadata=True
    )
    return frame


def iterate_table(
    path: str | os.PathLike[str], *, columns: Sequence[str] | None = None, rows: int = 65_536
) -> Iterator[pd.DataFrame]:
    """Yield a data file of any size as frames of ``rows`` rows each, the last one shorter.

    Nothing is inferred, because a block cannot know what later ones hold: all columns of a text
    file come as text, exactly as written; columns of other files keep their types.
    `equipoise.files.expected` turns them into what a model expects.

    Parameters
    ----------
    path : path of a file
        Of any format `read_table` reads.
    columns : names, optional
        Only these columns, in this order.
    rows : int
        How many rows a frame has.

    Raises
    ------
    InputError
        As `read_table` does, except for the size: at once where the beginning of the file shows
        it, otherwise when the place is reached.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = f"{folder.name}/codes.csv"
    >>> pd.DataFrame({"code": ["007", "008", "009"], "age": [31, 52, 47]}).to_csv(path, index=False)
    >>> [list(frame["code"]) for frame in iterate_table(path, columns=["code"], rows=2)]
    [['007', '008'], ['009']]
    >>> folder.cleanup()
    """
    if rows < 1:
        raise InputError(f"rows must be at least 1, got {rows}")
    file = find_data_file(path)
    names = column_names(file)
    chosen = names if columns is None else list(columns)
    check_columns("columns", chosen, names)
    text = file.layout == "text"
    batches = _text_batches(file, names, chosen) if text else _binary_batches(file, 16_384, chosen)
    return _frames(file, batches, rows)


def column_names(file: DataFile) -> list[str]:
    """Return the names of the columns of a data file, read from its beginning or end only."""
    if file.layout == "text":
        return read_header(file)
    opened, schema = _open_binary(file)
    with opened:
        return list(schema.names)


def _frames(file: DataFile, batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pd.DataFrame]:
    """Cut batches of any length into frames of ``rows`` rows."""
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
    frame: pd.DataFrame = table.to_pandas(
        date_as_object=False, ignore_metadata=True, types_mapper=_NULLABLE.get
    )
    return frame


def _refuse_without_rows(file: DataFile) -> None:
    file.refuse("must have at least one row, got column names only; check how it was written")


@contextmanager
def _faults_named(file: DataFile) -> Iterator[None]:
    """Turn errors of pyarrow into errors that say where the file is broken."""
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
    source = _open_text(file)
    with _faults_named(file):
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
    # Text that is not UTF-8 is read as bytes; nothing else in a text file is.
    if any(_holds_bytes(kind) for kind in table.schema.types):
        refuse_encoding(file)
    if table.num_rows:
        check_last_quote(file, table.column(table.num_columns - 1)[-1].as_py())
    return table


def _text_batches(
    file: DataFile, names: Sequence[str], chosen: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    # The last column is read along, because only there an open quote hides the rest of a file.
    included = [*chosen, *(name for name in names[-1:] if name not in chosen)]
    place, last = included.index(names[-1]), None
    with (
        _faults_named(file),
        pyarrow.csv.open_csv(
            _open_text(file),
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


def _open_text(file: DataFile) -> pa.NativeFile:
    return pa.input_stream(str(file.path), compression="gzip" if file.gzipped else None)


def _block_size(columns: int, each: int) -> int:
    """Bytes of a text file to parse at a time: a mebibyte, or so many for ``each`` column.

    Every column becomes a piece of its own in every block. If many columns meant few rows in a
    block, the number of pieces would grow with the square of the columns. No line may be longer
    than a block.
    """
    return max(1 << 20, each * columns)


def _parse_options(file: DataFile) -> pyarrow.csv.ParseOptions:
    return pyarrow.csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=True)


def _holds_bytes(kind: pa.DataType) -> bool:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_binary(value) or pa.types.is_large_binary(value))


def _read_binary(file: DataFile) -> pa.Table:
    opened, schema = _open_binary(file)
    with opened:
        pass  # closed again: whether it is too large is known without reading it
    available = memory_available()
    refuse_too_large(file, available)
    batches = metered(file, _binary_batches(file, 65_536), available)
    with _faults_named(file):
        return pa.Table.from_batches(batches, schema).unify_dictionaries()


def _binary_batches(
    file: DataFile, rows: int, chosen: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Batches of a Parquet file, of ``rows`` rows, or of an Arrow file, as they are."""
    opened, _ = _open_binary(file)
    with opened, _faults_named(file):
        if file.layout == "parquet":
            yield from opened.iter_batches(batch_size=rows, columns=chosen)
            return
        for number in range(opened.num_record_batches):
            batch = opened.get_batch(number)
            yield batch if chosen is None else batch.select(chosen)


def _open_binary(file: DataFile) -> tuple[Any, pa.Schema]:
    """Open a Parquet or Arrow file whose column names are in order."""
    with _faults_named(file):
        if file.layout == "parquet":
            # Buffered: a column chunk, which may be as long as the file, is not loaded whole.
            opened = pq.ParquetFile(file.path, buffer_size=1 << 20, pre_buffer=False)
            schema = opened.schema_arrow
        else:
            # Not mapped: what is read must not change when somebody writes the file again.
            opened = pa.ipc.open_file(pa.OSFile(str(file.path)))
            schema = opened.schema
    check_names(file, schema.names)
    return opened, schema


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text of few distinct values as a dictionary, exact decimals as floats, others as they are."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        column = column.unify_dictionaries()
        many = any(len(chunk.dictionary) > MAX_LEVELS for chunk in column.chunks)
        return column.cast(kind.value_type) if many else column
    # Counted first: unifying the dictionaries of a column of identifiers takes many seconds.
    if _is_text(kind) and pc.count_distinct(column).as_py() <= MAX_LEVELS:
        return column.dictionary_encode().unify_dictionaries()
    return column


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def memory_available() -> int:
    """Return the bytes that this process may still take, also by the limit of a container."""
    free = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((group / f"memory.{n}").read_text("ascii")) for n in ("max", "current"))
    except (OSError, ValueError):  # no container (control groups version 2), or no limit
        return free
    return min(free, max(limit - used, 0))


def memory_needed(file: DataFile) -> int:
    """Estimate the bytes that reading a whole file takes at its peak."""
    size = file.path.stat().st_size
    if file.layout == "text":
        length = size * _GZIP if file.gzipped else size
        return int(length * (_PER_TEXT_BYTE + _PER_VALUE * _values_per_byte(file)))
    if file.layout == "arrow":
        return 2 * size
    metadata = pq.read_metadata(file.path)
    encoded = listed = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        encoded += group.total_byte_size
        listed += sum(group.column(place).num_values for place in range(group.num_columns))
    # Dictionaries make files small; in memory every value takes eight bytes or so. A row may have
    # many values in one column, where it holds a list.
    values = max(metadata.num_rows * metadata.num_columns, listed)
    return int(max(2 * encoded, _PER_VALUE * values))


def _values_per_byte(file: DataFile) -> float:
    """How many values a byte of text holds, estimated from the beginning of a file."""
    try:
        with file.open() as raw:
            start = raw.read(_SAMPLED_BYTES)
    except (EOFError, OSError, zlib.error) as error:  # of gzip
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
            "columns (only scoring with a fitted model reads files of any size)"
        )


class _Metered(io.RawIOBase):
    """A compressed text file as its parser reads it, refused once memory cannot hold it.

    Its size only shows when it is unpacked: a small file can hold any amount of one line.
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
    """Hand on batches of a binary file, until they take more memory than there is."""
    needed = 0
    for batch in batches:
        needed += 2 * batch.nbytes
        refuse_too_large(file, available, needed)
        yield batch


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 5e7 else f"{count / 1e6:,.1f} MB"
