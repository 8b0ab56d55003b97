"""From a file on disk to columns that estimators and audits take, and back to a file."""

from equipoise.datafiles.columns import Columns, ReadColumn, read_columns
from equipoise.datafiles.flags import Flag
from equipoise.datafiles.stream import iterate_table
from equipoise.datafiles.tables import read_table
from equipoise.datafiles.writer import ScoreWriter

__all__ = [
    "Columns",
    "Flag",
    "ReadColumn",
    "ScoreWriter",
    "iterate_table",
    "read_columns",
    "read_table",
]
