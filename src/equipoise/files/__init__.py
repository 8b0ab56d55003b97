"""From a file on disk to columns that estimators and audits take, and back to a file."""

from equipoise.files.columns import Columns, ReadColumn, read_columns
from equipoise.files.flags import Flag
from equipoise.files.stream import iterate_table
from equipoise.files.tables import read_table
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
