"""Write scores to a file block by block; the file appears complete or not at all.

Spreadsheets run a cell of a CSV file that begins with =, +, - or @ as a formula.
`spreadsheet_safe` puts an apostrophe before such text, so that it is shown as text.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from equipoise.errors import InputError
from equipoise.files.reading import column_names, find_data_file
from equipoise.storage.atomic import checked_target, claim, lock_beside, only_writer, written_beside

#: The last column of every file of scores.
PROBLEM = "problem"
#: The beginning of text that would be run as a formula. Text with apostrophes before it gets one
#: more, so that the first one can always be removed. Text that is a number is harmless.
_FORMULA = "'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
_NUMBER = r"[+\-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+\-]?[0-9]+)?"


class ScoreWriter:
    """Write frames of scores to a .parquet or .csv file, for use in a ``with`` statement.

    Frames are written to a temporary file beside ``path``. It is renamed to ``path`` when the block
    ends without an error; otherwise it is removed and an older file stays. With ``overwrite`` an
    older file of scores is replaced, and nothing else ever. While one process writes, others are
    refused after ``wait`` seconds. In a .csv file, text that a spreadsheet would run as a formula
    gets an apostrophe.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, wait: float = 0.0
    ) -> None:
        self.path = checked_target(path, "out")
        if self.path.suffix not in (".parquet", ".csv"):
            raise InputError(f"out must end in .parquet or .csv, got '{self.path}'; rename it")
        self._overwrite, self._wait = overwrite, wait
        self._claim()
        self._open = ExitStack()
        self._schema: pa.Schema | None = None
        self._writer: Any = None

    def __enter__(self) -> ScoreWriter:
        lock = lock_beside(self.path)
        self._open.enter_context(only_writer(lock, argument="out", what=self.path, wait=self._wait))
        return self

    def _claim(self) -> None:
        claim(
            self.path,
            "scores",
            foreign=None if _holds_scores(self.path) else "holds something else",
            overwrite=self._overwrite,
            argument="out",
            remedy="set overwrite=True (--overwrite)",
        )

    def write(self, frame: pd.DataFrame) -> None:
        """Append rows; every frame has the columns and types of the first."""
        is_csv = self.path.suffix == ".csv"
        if is_csv:
            frame = spreadsheet_safe(frame)
        if self._schema is None:
            self._schema = pa.Schema.from_pandas(frame, preserve_index=False).remove_metadata()
            beside = self._open.enter_context(written_beside(self.path))
            self._open.callback(self._claim)  # another file may have got this name meanwhile
            make = pyarrow.csv.CSVWriter if is_csv else pq.ParquetWriter
            self._writer = make(str(beside), self._schema)
            self._open.callback(self._writer.close)
        self._writer.write_table(pa.Table.from_pandas(frame, self._schema, preserve_index=False))

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)


def spreadsheet_safe(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose text and column names no spreadsheet runs as a formula.

    To undo it, remove the first apostrophe of each text in which apostrophes precede =, +, -, @ or
    a control character.

    >>> spreadsheet_safe(pd.DataFrame({"id": ["=1+1", "-0.5", "a-b"], "score": [-0.5, 1, 2]}))
          id  score
    0  '=1+1   -0.5
    1   -0.5    1.0
    2    a-b    2.0
    """
    safe = {name: _as_text(column) for name, column in frame.items()}
    names = _as_text(pd.Series(frame.columns, dtype=object))
    return pd.DataFrame(safe, index=frame.index).set_axis(names.tolist(), axis=1)


def _as_text(values: pd.Series[Any]) -> pd.Series[Any]:
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    if not (pd.api.types.is_string_dtype(values.dtype) or values.dtype.kind == "O"):
        return values
    text = values.where(values.map(lambda value: isinstance(value, str)), "").astype(str)
    runs = text.str.match(_FORMULA) & ~text.str.fullmatch(_NUMBER)
    return values.where(~runs, "'" + text) if runs.any() else values


def _holds_scores(path: Path) -> bool:
    """Whether a file ends with the columns of scores, a decision if any, and ``problem``."""
    try:
        names = column_names(find_data_file(path))
    except InputError:
        return False
    before = [name for name in names[:-1] if name != "decision"]
    return (
        names[-1:] == [PROBLEM] and bool(before) and re.match("score(_|$)", before[-1]) is not None
    )
