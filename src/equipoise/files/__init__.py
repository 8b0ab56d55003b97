"""Read data files into columns for estimators and audits, and write scores to files."""

from equipoise.files.columns import Columns as Columns
from equipoise.files.columns import ReadColumn as ReadColumn
from equipoise.files.columns import read_columns as read_columns
from equipoise.files.contents import Flag as Flag
from equipoise.files.reading import iterate_table as iterate_table
from equipoise.files.reading import read_table as read_table
from equipoise.files.writer import ScoreWriter as ScoreWriter
