"""A data file block by block, in bounded memory whatever its size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pandas as pd
import pyarrow as pa
import pyarrow.csv

from equipoise.errors import InputError
from equipoise.files.formats import DataFile, find_data_file
from equipoise.files.roles import refuse_unknown
from equipoise.files.tables import (
    block_size,
    open_arrow,
    open_parquet,
    open_text,
    parse_options,
)
from equipoise.files.text_faults import (
    check_last_quote,
    read_header,
    refuse_encoding,
    refuse_structure,
)

#: Bytes of a text file parsed at a time for each of many columns; pyarrow reads 32 blocks ahead,
#: and no line may be longer than one.
_BLOCK_COLUMN = 512
#: Otherwise whole numbers would be floats in those blocks that have missing values.
_NULLABLE = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}


def iterate_table(
    path: str | os.PathLike[str], *, columns: Sequence[str] | None = None, rows: int = 65_536
) -> Iterator[pd.DataFrame]:
    """Yield a data file of any size as frames of ``rows`` rows each, the last one shorter.

    Nothing is inferred, because a block can not know what later ones hold: all columns of a text
    file come as text, exactly as written, those of other files in their own types.
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
    batches = _text_batches(file, columns) if file.layout == "text" else _batches(file, columns)
    return _frames(file, batches, rows)


def column_names(file: DataFile) -> list[str]:
    """Return the names of the columns of a data file, read from its beginning or end only."""
    if file.layout == "text":
        return read_header(file)
    if file.layout == "parquet":
        with open_parquet(file) as opened:
            return list(opened.schema_arrow.names)
    with open_arrow(file) as reader:
        return list(reader.schema.names)


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
        file.refuse("must have at least one row, got column names only; check how it was written")
    if waiting:
        yield _frame(waiting)


def _frame(batches: Sequence[pa.RecordBatch]) -> pd.DataFrame:
    table = pa.Table.from_batches(batches).unify_dictionaries()
    frame: pd.DataFrame = table.to_pandas(
        date_as_object=False, ignore_metadata=True, types_mapper=_NULLABLE.get
    )
    return frame


def _chosen(names: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(names)
    known = set(names)
    for name in columns:
        if name not in known:
            refuse_unknown("columns", name, names)
    return list(columns)


def _text_batches(file: DataFile, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    names = read_header(file)
    return _parsed(file, names, _chosen(names, columns))


def _parsed(
    file: DataFile, names: Sequence[str], chosen: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    # The last column is read along, because only there an open quote hides the rest of a file.
    included = [*chosen, *(name for name in names[-1:] if name not in chosen)]
    place, last = included.index(names[-1]), None
    try:
        with pyarrow.csv.open_csv(
            open_text(file),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=block_size(len(names), _BLOCK_COLUMN)
            ),
            parse_options=parse_options(file),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=included,
                column_types=dict.fromkeys(included, pa.string()),
                strings_can_be_null=False,
            ),
        ) as reader:
            for batch in reader:
                if batch.num_rows:
                    last = batch.column(place)[-1].as_py()
                yield batch.select(chosen)
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error):
            refuse_encoding(file)
        refuse_structure(file, error)
    except OSError as error:
        file.refuse_damaged(error)
    check_last_quote(file, last)


def _batches(file: DataFile, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    chosen = _chosen(column_names(file), columns)
    return _parquet_batches(file, chosen) if file.layout == "parquet" else _arrow(file, chosen)


def _parquet_batches(file: DataFile, chosen: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with open_parquet(file) as opened:
        try:
            yield from opened.iter_batches(batch_size=16_384, columns=list(chosen))
        except (pa.ArrowException, OSError) as error:
            file.refuse_damaged(error)


def _arrow(file: DataFile, chosen: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with open_arrow(file) as reader:
        for number in range(reader.num_record_batches):
            try:
                batch = reader.get_batch(number)
            except (pa.ArrowException, OSError) as error:
                file.refuse_damaged(error)
            yield batch.select(list(chosen))
