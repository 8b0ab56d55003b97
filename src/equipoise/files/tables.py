"""A whole data file as a pandas DataFrame."""

from __future__ import annotations

import os

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from equipoise.files.formats import DataFile, find_data_file
from equipoise.files.memory import Metered, memory_available, metered, refuse_too_large
from equipoise.files.text_faults import (
    check_last_quote,
    check_names,
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


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a CSV, TSV, Parquet, Arrow or Feather file; the text formats also as .gz.

    Text becomes a categorical column, or text where it has more than 1,000 distinct values; an
    empty field and words such as ``NA`` are missing values. Dates stay dates.

    Parameters
    ----------
    path : path of a file
        Its format is told by its name and checked by its first bytes.

    Returns
    -------
    pandas.DataFrame
        At least one row; column names are distinct text.

    Raises
    ------
    InputError
        When the file can not be read as a table, or would not fit into memory; the message says
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
        file.refuse("must have at least one row, got column names only; check how it was written")
    return to_frame(table)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Turn an Arrow table into pandas, handing over memory column by column."""
    columns = [_plain(column) for column in table.columns]
    plain = pa.table(columns, names=table.column_names)
    del table, columns
    frame: pd.DataFrame = plain.to_pandas(
        split_blocks=True, self_destruct=True, date_as_object=False, ignore_metadata=True
    )
    return frame


def open_parquet(file: DataFile) -> pq.ParquetFile:
    """Open a Parquet file whose column names are in order."""
    try:
        # Buffered: a column chunk, which may be as long as the file, is not loaded whole.
        opened = pq.ParquetFile(file.path, buffer_size=1 << 20, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        file.refuse_damaged(error)
    check_names(file, opened.schema_arrow.names)
    return opened


def open_arrow(file: DataFile) -> pa.RecordBatchFileReader:
    """Open an Arrow file whose column names are in order."""
    try:
        # Not mapped: what is read must not change when somebody writes the file anew.
        opened = pa.ipc.open_file(pa.OSFile(str(file.path)))
    except (pa.ArrowException, OSError) as error:
        file.refuse_damaged(error)
    check_names(file, opened.schema.names)
    return opened


def _read_binary(file: DataFile) -> pa.Table:
    with open_parquet(file) if file.layout == "parquet" else open_arrow(file) as opened:
        available = memory_available()
        refuse_too_large(file, available)
        parquet = file.layout == "parquet"
        schema = opened.schema_arrow if parquet else opened.schema
        batches = opened.iter_batches() if parquet else map(opened.get_batch, _numbers(opened))
        try:
            table = pa.Table.from_batches(metered(file, batches, available), schema)
            return table.unify_dictionaries()
        except (pa.ArrowException, OSError) as error:
            file.refuse_damaged(error)


def _numbers(reader: pa.RecordBatchFileReader) -> range:
    return range(reader.num_record_batches)


def _read_text(file: DataFile) -> pa.Table:
    available = memory_available()
    refuse_too_large(file, available)
    names = read_header(file)
    source = open_text(file)
    try:
        table = pyarrow.csv.read_csv(
            pa.PythonFile(Metered(file, source, available), "r") if file.gzipped else source,
            read_options=pyarrow.csv.ReadOptions(block_size=block_size(len(names), 1_024)),
            parse_options=parse_options(file),
            convert_options=pyarrow.csv.ConvertOptions(
                null_values=MISSING_WORDS,
                true_values=TRUE_WORDS,
                false_values=FALSE_WORDS,
                strings_can_be_null=True,
                auto_dict_encode=True,
                auto_dict_max_cardinality=MAX_LEVELS,
            ),
        )
    except pa.ArrowInvalid as error:
        refuse_structure(file, error)
    except OSError as error:
        file.refuse_damaged(error)
    # Text that is not UTF-8 is read as bytes; nothing else in a text file is.
    if any(_holds_bytes(kind) for kind in table.schema.types):
        refuse_encoding(file)
    if table.num_rows:
        check_last_quote(file, table.column(table.num_columns - 1)[-1].as_py())
    return table


def open_text(file: DataFile) -> pa.NativeFile:
    """Open the bytes of a text file, decompressed, for pyarrow's parser."""
    return pa.input_stream(str(file.path), compression="gzip" if file.gzipped else None)


def block_size(columns: int, each: int) -> int:
    """Bytes of a text file to parse at a time: a mebibyte, or so many for ``each`` column.

    Every column becomes a piece of its own in every block. If many columns meant few rows in a
    block, there would be as many more blocks as there are more columns.
    """
    return max(1 << 20, each * columns)


def parse_options(file: DataFile) -> pyarrow.csv.ParseOptions:
    """How the lines of a text file are cut into values."""
    return pyarrow.csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=True)


def _holds_bytes(kind: pa.DataType) -> bool:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_binary(value) or pa.types.is_large_binary(value))


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
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)
