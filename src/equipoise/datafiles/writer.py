"""Write scores to a file, block by block: whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from equipoise.datafiles.formats import find_data_file
from equipoise.datafiles.stream import column_names
from equipoise.errors import InputError
from equipoise.storage.atomic import checked_target, remove_leftovers

#: The last column of every file of scores; an older file is known by it.
PROBLEM = "problem"


class ScoreWriter:
    """Write frames of scores to a .parquet or .csv file, for use in a ``with`` statement.

    The frames go to a new file beside ``path``, which takes its name when the block ends without
    an error; otherwise it is removed and an older file stays. Only an older file of scores (its
    last column is ``problem``) is replaced.

    Parameters
    ----------
    path : path of a file
        Ends in .parquet or .csv.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = f"{folder.name}/scores.csv"
    >>> with ScoreWriter(path) as writer:
    ...     writer.write(pd.DataFrame({"row": [1, 2], "score": [0.25, None], "problem": ["", "x"]}))
    >>> pd.read_csv(path)
       row  score problem
    0    1   0.25     NaN
    1    2    NaN       x
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = checked_target(path, "out")
        if self.path.suffix not in (".parquet", ".csv"):
            raise InputError(f"out must end in .parquet or .csv, got '{self.path}'")
        if self.path.exists():
            _refuse_other_content(self.path)
        self._beside = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}.part")
        self._schema: pa.Schema | None = None
        self._writer: Any = None

    def __enter__(self) -> ScoreWriter:
        remove_leftovers(self.path)
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append rows; every frame has the columns and types of the first."""
        if self._schema is None:
            self._schema = pa.Schema.from_pandas(frame, preserve_index=False).remove_metadata()
            make = pq.ParquetWriter if self.path.suffix == ".parquet" else pyarrow.csv.CSVWriter
            self._writer = make(str(self._beside), self._schema)
        self._writer.write_table(pa.Table.from_pandas(frame, self._schema, preserve_index=False))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
            if kind is None and self._writer is not None:
                with self._beside.open("rb+") as written:
                    os.fsync(written.fileno())
                self._beside.replace(self.path)
        finally:
            self._beside.unlink(missing_ok=True)


def _refuse_other_content(path: Path) -> None:
    try:
        names = column_names(find_data_file(path))
    except InputError:
        names = []
    if names[-1:] != [PROBLEM]:
        raise InputError(
            f"out must be a new file or an older file of scores, got '{path}', which holds "
            "something else; choose another name, or remove it first"
        )
