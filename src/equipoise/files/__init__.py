"""From a file on disk to columns that estimators and audits take, and back to a file."""

from equipoise.files.columns import Columns, ReadColumn, read_columns
from equipoise.files.flags import Flag
from equipoise.files.reading import iterate_table, read_table
from equipoise.files.writer import ScoreWriter

__all__ = [
    "Columns",
    "Flag",
    "ReadColumn",
    "ScoreWriter",
    "iterate_table",
    "read_columns",
    "read_table",
]
