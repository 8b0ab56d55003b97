"""Score a file of any size with a fitted model, in bounded memory; no row is lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.errors import InputError
from equipoise.estimators import Classifies, Regresses
from equipoise.files.formats import find_data_file
from equipoise.files.roles import as_names
from equipoise.files.stream import column_names, iterate_table
from equipoise.files.writer import PROBLEM, ScoreWriter
from equipoise.runs.row_scorer import RowScorer
from equipoise.runs.score_tally import ScoreTally
from equipoise.runs.unknowns import unknowns_of

_PROBLEMS_KEPT = 20


@dataclass(frozen=True)
class ScoringReport:
    """What became of the rows of a file.

    Attributes
    ----------
    out : Path
        Where the scores are.
    rows, scored : int
        How many rows were read and written, and how many of them have a score.
    problems : tuple of (row, why)
        The first 20 rows without a score; 1 is the first row after the column names.
    notes : tuple of str
        What was done for rows that have a score although something was unknown.
    """

    out: Path
    rows: int
    scored: int
    problems: tuple[tuple[int, str], ...]
    notes: tuple[str, ...]

    @property
    def not_scored(self) -> int:
        """How many rows have no score."""
        return self.rows - self.scored

    @property
    def document(self) -> dict[str, Any]:
        """The report for a program."""
        return {
            "out": str(self.out),
            "rows": self.rows,
            "scored": self.scored,
            "not_scored": self.not_scored,
            "problems": [{"row": row, "problem": why} for row, why in self.problems],
            "notes": list(self.notes),
        }

    @property
    def text(self) -> str:
        """The report for a person."""
        lines = [f"{self.scored:,} of {self.rows:,} rows scored, written to '{self.out}'."]
        if self.not_scored:
            lines.append(
                f"Rows without a score: {self.not_scored:,}; their column 'problem' says why:"
            )
            lines += [f"  row {row:,}: {why}" for row, why in self.problems]
            if self.not_scored > len(self.problems):
                lines.append(f"  and {self.not_scored - len(self.problems):,} more")
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])

    def __str__(self) -> str:
        return self.text


def score_file(
    model: Classifies | Regresses,
    data: str | PathLike[str],
    out: str | PathLike[str],
    *,
    id: str | Iterable[str] = (),
    threshold: float | None = None,
    rows: int = 65_536,
) -> ScoringReport:
    """Score every row of a data file and write one row for each of them.

    The file written has the ``id`` columns (without any: ``row``, counted from 1), ``score`` (the
    probability of the second class, or the prediction; ``score_<class>`` for each of three or
    more classes), ``decision`` (1 where score > threshold, else 0) if there is a threshold, and
    ``problem``, empty or why the row has no score.

    Parameters
    ----------
    model : FairClassifier, FairRegressor, or their boosted counterparts
        Fitted on a frame, so that it knows its columns by name.
    data : path of a file
        Of any format and size; it may have more columns than the model reads.
    out : path of a file
        Ends in .parquet or .csv; written whole or not at all.
    id : str or names
        Columns of the data to carry along.
    threshold : float, optional
        Adds decisions; not for three or more classes.
    rows : int
        Rows held in memory at a time.

    Raises
    ------
    InputError
        When the file as a whole can not be scored: unreadable, or without a column the model
        needs.

    Examples
    --------
    >>> import tempfile
    >>> from equipoise import FairClassifier
    >>> folder = tempfile.TemporaryDirectory()
    >>> data, out = f"{folder.name}/new.csv", f"{folder.name}/scores.csv"
    >>> frame = pd.DataFrame({"hours": [20, 40, 35, 60] * 5, "hired": [0, 1, 0, 1] * 5})
    >>> model = FairClassifier(strength=0, iterations=20, random_state=0)
    >>> model = model.fit(frame[["hours"]], frame["hired"])
    >>> new = pd.DataFrame({"name": ["Ada", "Bob"], "hours": ["50", "many"]})
    >>> new.to_csv(data, index=False)
    >>> report = score_file(model, data, out, id="name")
    >>> report.scored, report.problems
    (1, ((2, "column 'hours' must hold a number, got 'many'"),))
    >>> pd.read_csv(out).columns.tolist()
    ['name', 'score', 'problem']
    >>> folder.cleanup()
    """
    keep = as_names("id", id)
    scorer = RowScorer.of(model, threshold)
    file = find_data_file(data)
    names = column_names(file)
    scorer.check_columns(names, keep)
    writer = ScoreWriter(out)
    if writer.path.exists() and writer.path.samefile(file.path):
        raise InputError(f"out must not be the data file itself, got '{out}' for both")
    needed = [*keep, *(name for name in scorer.names if name not in keep)]
    read = scored = 0
    problems: list[tuple[int, str]] = []
    tally = ScoreTally(unknowns_of(model))
    with writer:
        for frame in iterate_table(data, columns=needed, rows=rows):
            block = scorer.score(frame, tally)
            written = {name: _carried(frame[name]) for name in keep}
            if not keep:
                written["row"] = pd.Series(np.arange(read + 1, read + len(frame) + 1))
            writer.write(pd.DataFrame({**written, **block}))
            why = block[PROBLEM]
            found = np.flatnonzero(why.notna())
            problems += [
                (read + int(row) + 1, why[row]) for row in found[: _PROBLEMS_KEPT - len(problems)]
            ]
            read, scored = read + len(frame), scored + len(frame) - len(found)
    return ScoringReport(writer.path, read, scored, tuple(problems), tally.notes())


def _carried(values: pd.Series[Any]) -> pd.Series[Any]:
    """An id column in a type that is the same in every block."""
    if isinstance(values.dtype, pd.CategoricalDtype) or values.dtype.kind == "O":
        return values.astype(object).map(str, na_action="ignore").astype("str")
    return values
