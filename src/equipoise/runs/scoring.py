"""``equipoise predict``: score a file of any size, in bounded memory; no row is lost."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.utils.validation import check_is_fitted

from equipoise.cluster import Engine, connected, uses_cluster
from equipoise.distributed.sources import FilePart, find_files
from equipoise.errors import InputError, check_number, refuse_unread
from equipoise.estimators import Classifies, Regresses
from equipoise.estimators.fitting import learned_inputs
from equipoise.files.columns import as_names, check_columns, nearest
from equipoise.files.expected import as_expected, names_of, shown
from equipoise.files.reading import (
    check_separator,
    column_names,
    find_data_file,
    iterate_table,
    layout_of,
)
from equipoise.files.writer import PROBLEM, ScoreWriter
from equipoise.report.page import plain
from equipoise.runs import Answer
from equipoise.runs.folder import MODEL, reading
from equipoise.runs.record import read_document, sha256, write_json
from equipoise.runs.selecting import read_threshold
from equipoise.storage.atomic import as_path, claim, foreign_in, lock_beside, only_writer
from equipoise.tables import LearnedInput
from equipoise.tables.columns import Family, whole

_PROBLEMS_KEPT = 20
_PROBLEMS_IN_ERROR = 3
#: Columns that a note names; it counts the others.
_COLUMNS_NAMED = 3
#: Rows scored at a time: hidden layers of a network need far more memory than the rows.
_ROWS_AT_ONCE = 8_192


@dataclass(frozen=True)
class ScoringReport:
    """What became of the rows of a file."""

    out: Path  # where the scores are
    rows: int  # read and written
    scored: int  # those that have a score
    # The first 20 rows without a score, and why; 1 is the first row after the column names.
    problems: tuple[tuple[int, str], ...]
    notes: tuple[str, ...]  # on rows that have a score although something was unknown

    @property
    def not_scored(self) -> int:
        """How many rows have no score."""
        return self.rows - self.scored

    @property
    def document(self) -> dict[str, Any]:
        """The report as JSON has it."""
        problems = [{"row": row, "problem": why} for row, why in self.problems]
        told = {**vars(self), "not_scored": self.not_scored, "problems": problems}
        return {name: plain(value) for name, value in told.items()}

    def __str__(self) -> str:
        lines = [f"{self.scored:,} of {self.rows:,} rows scored, written to '{self.out}'."]
        if self.not_scored:
            lines.append(
                f"Rows without a score: {self.not_scored:,}; their column 'problem' says why:"
            )
            lines += [f"  row {row:,}: {why}" for row, why in self.problems]
            if self.not_scored > len(self.problems):
                lines.append(f"  and {self.not_scored - len(self.problems):,} more")
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])


def predict_with_run(
    folder: Path,
    data: Path,
    out: Path,
    *,
    id: Sequence[str] | None = None,
    threshold: float | None = None,
    sep: str | None = None,
    overwrite: bool = False,
    engine: Engine = "local",
    workers: int | None = None,
) -> Answer:
    """Score a file; id columns, threshold and separator are those of the run unless given.

    With the engine "ray", ``data`` may be a pattern that names many files, and ``out`` is a folder.
    """
    if threshold is not None:
        check_number("--threshold", threshold, remedy="; for example --threshold 0.5")
    over_cluster = uses_cluster(engine, workers)
    if sep is not None:
        check_separator("--sep", sep)
        if over_cluster:
            refuse_unread("--sep", sep, "--engine ray", "score a file without --engine ray")
    run, chosen, model = reading(folder, lambda run: (run, read_threshold(run), run.load(MODEL)))
    assert isinstance(model, Classifies | Regresses)
    options = run.record.options
    keep, cut = options.id if id is None else id, chosen if threshold is None else threshold
    if over_cluster:
        files = score_files(
            model,
            data,
            out,
            id=keep,
            threshold=cut,
            model_digest=sha256(run.folder / MODEL),
            workers=workers,
            overwrite=overwrite,
        )
        return Answer((str(files),), files.document)
    # A .csv file is likely written as the .csv file that was trained on, a .tsv file is not.
    if sep is None and options.sep and layout_of(data) == layout_of(run.record.data.path):
        sep = options.sep
    scored = score_file(model, data, out, id=keep, threshold=cut, sep=sep, overwrite=overwrite)
    return Answer((str(scored),), scored.document)


def score_file(
    model: Classifies | Regresses,
    data: str | PathLike[str],
    out: str | PathLike[str],
    *,
    id: str | Iterable[str] = (),
    threshold: float | None = None,
    sep: str | None = None,
    rows: int = 65_536,
    overwrite: bool = False,
    wait: float = 0.0,
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
    sep : str, optional
        The character between the values of a text file, where its name says otherwise.
    rows : int
        Rows held in memory at a time.
    overwrite : bool
        Whether an older file of scores may be replaced; nothing else ever is.
    wait : float
        Seconds to wait for another process that writes the same file.

    Raises
    ------
    InputError
        When the file as a whole cannot be scored: it is unreadable, lacks a column the model
        reads, or has no row that can be scored. Nothing is written then.
    """
    keep = as_names("id", id)
    scorer = _RowScorer(model, threshold)
    target = as_path(out, "out")
    if target.exists() and Path(data).exists() and target.samefile(data):
        raise InputError(f"out must not be the data file itself, got '{out}' for both")
    writer = ScoreWriter(out, overwrite=overwrite, wait=wait)
    file = find_data_file(data, sep)
    names = column_names(file)
    scorer.check_columns(names, keep)
    needed = [*keep, *(name for name in scorer.names if name not in keep)]
    read = scored = 0
    problems: list[tuple[int, str]] = []
    with writer:
        for frame in iterate_table(data, columns=needed, rows=rows, sep=sep):
            block = scorer.score(frame, as_written=file.layout == "text")
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
        if not scored:
            by_why: dict[str, int] = {}
            for row, why_not in problems:
                by_why.setdefault(why_not, row)
            first = list(by_why.items())[:_PROBLEMS_IN_ERROR]
            raise InputError(
                f"data file '{file.path}' must have a row that can be scored, got none in "
                f"{read:,} rows ({'; '.join(f'row {row:,}: {why}' for why, row in first)}); "
                "correct them, nothing was written"
            )
    return ScoringReport(writer.path, read, scored, tuple(problems), scorer.notes())


#: The file in a folder of scores that says what is finished.
FINISHED = "finished.json"
#: Seconds that a worker waits for one that was given up but still writes.
_PATIENCE = 60.0


@dataclass(frozen=True)
class FolderReport:
    """What became of the rows of many files."""

    out: Path  # the folder of their scores
    reports: tuple[ScoringReport, ...]  # one for each file
    before: int  # files that an earlier run had finished

    @property
    def document(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {
            "out": str(self.out),
            "files": len(self.reports),
            "finished_before": self.before,
            "rows": sum(each.rows for each in self.reports),
            "scored": sum(each.scored for each in self.reports),
            "reports": [each.document for each in self.reports],
        }

    def __str__(self) -> str:
        told = self.document
        lines = [
            f"{told['scored']:,} of {told['rows']:,} rows scored, written to {told['files']:,} "
            f"files in '{self.out}'."
        ]
        if self.before:
            lines.append(f"{self.before:,} of the files were finished before and left as they are.")
        incomplete = [each for each in self.reports if each.not_scored]
        for each in incomplete[:_PROBLEMS_IN_ERROR]:
            row, why = each.problems[0]
            lines.append(
                f"'{each.out}' has {each.not_scored:,} without a score; row {row:,}: {why}"
            )
        if len(incomplete) > _PROBLEMS_IN_ERROR:
            lines.append(f"and {len(incomplete) - _PROBLEMS_IN_ERROR:,} more files have such rows")
        notes = dict.fromkeys(note for each in self.reports for note in each.notes)
        return "\n".join([*lines, *(f"Note: {note}" for note in notes)])


def score_files(
    model: Classifies | Regresses,
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    out: str | PathLike[str],
    *,
    id: str | Iterable[str] = (),
    threshold: float | None = None,
    model_digest: str,
    workers: int | None = None,
    overwrite: bool = False,
) -> FolderReport:
    """Score Parquet or Arrow files on a cluster: for each of them a file in the folder ``out``.

    Each file of scores is that of `score_file`. When it is finished, ``finished.json`` says so. If
    the same is asked again, files are left as they are whose input and scores have not changed
    since (SHA-256).

    Parameters
    ----------
    model, id, threshold
        As in `score_file`.
    paths : path, glob or several of them
    out : path of a folder
        New, or of the same model and options.
    model_digest : str
        What tells the model from others.
    workers : int, optional
        Files scored at a time; by default one for each core of the cluster.
    overwrite : bool
        Whether scores of another model or other options may be replaced.
    """
    keep = as_names("id", id)
    scorer = _RowScorer(model, threshold)
    files = find_files(paths, [*keep, *(name for name in scorer.names if name not in keep)])
    folder = as_path(out, "out").absolute()
    targets = {f"{file.path.stem}.parquet": file for file in files}
    if len(targets) < len(files):
        twice = next(f for f in files if targets[f"{f.path.stem}.parquet"] is not f)
        same = targets[f"{twice.path.stem}.parquet"]
        raise InputError(
            f"paths must name files of different names, as their scores lie in one folder, got "
            f"{twice} and {same}; score each folder by itself"
        )
    if folder.resolve() in {file.path.resolve().parent for file in files}:
        raise InputError(
            f"out must not be a folder of the data, got '{folder}'; name another folder"
        )
    asked = {"model": model_digest, "id": list(keep), "threshold": threshold}
    _finished_in(folder, targets, asked, overwrite=overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    reports, before = [], 0
    with (
        only_writer(lock_beside(folder / FINISHED), argument="out", what=folder),
        connected(workers) as cluster,
    ):
        # Again, now that nobody else writes there.
        finished, of_others = _finished_in(folder, targets, asked, overwrite=overwrite)
        for name in of_others:  # at once, so that scores of two models never lie side by side
            (folder / name).unlink(missing_ok=True)
        write_json(folder / FINISHED, {"asked": asked, "finished": finished})
        task = partial(
            _score_part,
            model,
            folder=folder,
            keep=keep,
            threshold=threshold,
            finished=dict(finished),
        )
        for name, (record, is_new) in zip(targets, cluster.in_order(task, files), strict=True):
            before += not is_new
            if is_new:
                finished[name] = record
                write_json(folder / FINISHED, {"asked": asked, "finished": finished})
            reports.append(_report(folder / name, record))
    return FolderReport(folder, tuple(reports), before)


def _finished_in(
    folder: Path, targets: Collection[str], asked: Mapping[str, Any], *, overwrite: bool
) -> tuple[dict[str, Any], list[str]]:
    """What is known of finished files, and which files are of another model or other options.

    Raises unless the folder is new or holds nothing but scores that may be written there.
    """
    own = {FINISHED, *targets}
    foreign = foreign_in(folder, own.__contains__, written=own)
    known = read_document(folder / FINISHED) if (folder / FINISHED).is_file() else {}
    holds_scores = folder.is_dir() and any(name in targets for name in os.listdir(folder))
    if foreign is None and (known or holds_scores) and "asked" not in known:
        foreign = f"holds no {FINISHED} of equipoise"
    finished: dict[str, Any] = dict(known.get("finished", {}))
    again = known.get("asked", asked) == asked
    claim(
        folder,
        "scores of another model or other options",
        foreign=foreign,
        overwrite=overwrite or again,
        argument="out",
    )
    return (finished, []) if again else ({}, [name for name in finished if name in targets])


def _score_part(
    model: Classifies | Regresses,
    file: FilePart,
    *,
    folder: Path,
    keep: Sequence[str],
    threshold: float | None,
    finished: Mapping[str, Any],
) -> tuple[dict[str, Any], bool]:
    """Score one file unless it is finished; what is known of it, and whether it was scored now."""
    target = folder / f"{file.path.stem}.parquet"
    digest, known = sha256(file.path), finished.get(target.name)
    unchanged = known is not None and target.is_file() and known["input"] == digest
    if known is not None and unchanged and known["scores"] == sha256(target):
        return known, False
    found = score_file(
        model, file.path, target, id=keep, threshold=threshold, overwrite=True, wait=_PATIENCE
    )
    record = {
        "input": digest,
        "scores": sha256(target),
        "rows": found.rows,
        "scored": found.scored,
        "problems": [list(each) for each in found.problems],
        "notes": list(found.notes),
    }
    return record, True


def _report(target: Path, record: Mapping[str, Any]) -> ScoringReport:
    problems = tuple((row, why) for row, why in record["problems"])
    return ScoringReport(target, record["rows"], record["scored"], problems, tuple(record["notes"]))


def _carried(values: pd.Series[Any]) -> pd.Series[Any]:
    """An id column in a type that is the same in every block."""
    if isinstance(values.dtype, pd.CategoricalDtype) or values.dtype.kind == "O":
        return values.astype(object).map(str, na_action="ignore").astype("str")
    return values


class _RowScorer:
    """A fitted model, what it expects of a file, and what is written for a row."""

    def __init__(self, model: Any, threshold: float | None) -> None:
        if not isinstance(model, Classifies | Regresses):
            raise InputError(
                "model must be a fair classifier or regressor, of networks or of boosted trees, "
                f"got {type(model).__name__}"
            )
        check_is_fitted(model)
        if threshold is not None and not np.isfinite(threshold):
            raise InputError(f"threshold must be a finite number, got {threshold}")
        if not hasattr(model, "feature_names_in_"):
            raise InputError(
                "model must have been fitted on a frame to score a file, got one fitted on an "
                "array, which does not know its columns by name; fit it on a DataFrame"
            )
        self.outputs: tuple[str, ...] = ("score",)
        if not is_regressor(model) and len(model.classes_) > 2:
            self.outputs = tuple(f"score_{label}" for label in model.classes_)
            if threshold is not None:
                raise InputError(
                    f"threshold must be left out for {len(self.outputs)} classes, got {threshold}; "
                    "the scores of all classes are written"
                )
        state = model.encoder_.state()
        self.model: Classifies | Regresses = model
        self.threshold = threshold
        self.features: Mapping[str, Family] = state.families
        self.inputs = learned_inputs(model)
        self.attributes = {column[0]: _attribute_family(column) for column in self.inputs.columns}
        self.names = list({**self.features, **self.attributes})
        # Rows that are scored although they hold something that no row held at fit.
        self.unfamiliar = state.unfamiliar(model.predictor_.network.never_missing())
        self.level_names = {n: names_of(each) for n, each in self.unfamiliar.known.items()}
        self.missing: Counter[str] = Counter()
        self.unseen: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    def check_columns(self, names: Sequence[str], keep: Sequence[str]) -> None:
        check_columns("id", keep, names)
        written = [*self.outputs, *(["decision"] if self.threshold is not None else []), PROBLEM]
        taken = [name for name in keep if name in written]
        if taken:
            raise InputError(
                f"id must not name a column {taken[0]!r}, which is written here; rename it in the "
                "data"
            )
        absent = [name for name in self.names if name not in set(names)]
        if absent:
            listed = ", ".join(map(repr, absent[:5])) + (", ..." if len(absent) > 5 else "")
            raise InputError(
                f"the data must have the {len(self.names)} columns that the model reads, but "
                f"{listed} {'is' if len(absent) == 1 else 'are'} missing; "
                f"{nearest(absent[0], names)}"
            )

    def score(self, frame: pd.DataFrame, *, as_written: bool) -> dict[str, pd.Series[Any]]:
        """Return what is written for the rows of a frame, by column.

        as_written: whether they come from a text file.
        """
        reasons: dict[int, list[str]] = {}
        features = self._expected(frame, self.features, reasons, as_written)
        attributes = self._expected(frame, self.attributes, reasons, as_written)
        self._check_attributes(attributes, reasons)
        usable = np.setdiff1d(np.arange(len(frame)), np.array(sorted(reasons), dtype=np.int64))
        scores = np.full((len(frame), len(self.outputs)), np.nan)
        for start in range(0, len(usable), _ROWS_AT_ONCE):
            part = usable[start : start + _ROWS_AT_ONCE]
            self._fill(scores, part, features, attributes, reasons)
        self._count(features[np.isfinite(scores).all(axis=1)])
        columns = {name: pd.Series(scores[:, place]) for place, name in enumerate(self.outputs)}
        texts = ["; ".join(reasons[row]) if row in reasons else None for row in range(len(frame))]
        why = pd.Series(texts, dtype="str")
        if self.threshold is not None:
            above = pd.Series(scores[:, 0] > self.threshold).astype("Int8")
            columns["decision"] = above.where(why.isna())
        return {**columns, PROBLEM: why}

    def _expected(
        self,
        frame: pd.DataFrame,
        families: Mapping[str, Family],
        reasons: dict[int, list[str]],
        as_written: bool,
    ) -> pd.DataFrame:
        columns = {}
        for name, family in families.items():
            names = self.level_names.get(name, "text")
            columns[name], unusable = as_expected(
                frame[name], name, family, as_written=as_written, names=names
            )
            for row, why in unusable.items():
                reasons.setdefault(row, []).append(why)
        return pd.DataFrame(columns, index=range(len(frame)))

    def _check_attributes(self, attributes: pd.DataFrame, reasons: dict[int, list[str]]) -> None:
        """Give a reason for rows whose sensitive value is missing or was not seen at fit."""
        for name, kind, categories, *_ in self.inputs.columns:
            values = attributes[name]
            for row in np.flatnonzero(values.isna()) if name not in self.inputs.gaps else ():
                reasons.setdefault(int(row), [f"sensitive {name!r} must be known to predict"])
            if kind == "discrete":
                rule = f"sensitive {name!r} must be a category seen at fit, got "
                for row in np.flatnonzero(values.notna() & ~values.isin(list(categories))):
                    value = values[row]  # a whole number by its own name: 7, not 7.0
                    level = whole(float(value)) if isinstance(value, float) else value
                    reasons.setdefault(int(row), []).append(rule + shown(level))

    def _fill(
        self,
        scores: NDArray[np.float64],
        rows: NDArray[np.int64],
        features: pd.DataFrame,
        attributes: pd.DataFrame,
        reasons: dict[int, list[str]],
    ) -> None:
        """Score these rows; where the model refuses, halve them until the row is found."""
        given = attributes.iloc[rows] if self.attributes else None
        try:
            found = self._predict(features.iloc[rows], given)
        except InputError as error:
            if len(rows) == 1:
                reasons[int(rows[0])] = [str(error)]
                return
            for half in np.array_split(rows, 2):
                self._fill(scores, half, features, attributes, reasons)
            return
        finite = np.isfinite(found).all(axis=1)
        scores[rows[finite]] = found[finite]
        for row, score in zip(rows[~finite], found[~finite], strict=True):
            worst = score[~np.isfinite(score)][0]
            reasons[int(row)] = [
                f"the score of the model must be a finite number, got {worst}; a value of this row "
                "may be far from all training values"
            ]

    def _predict(self, X: pd.DataFrame, attributes: pd.DataFrame | None) -> NDArray[np.float64]:
        with warnings.catch_warnings():
            # What these warn of is counted over the whole file.
            warnings.filterwarnings("ignore", "X has (missing values|categories)", UserWarning)
            if is_regressor(self.model):
                return self.model.predict(X, sensitive_features=attributes)[:, None]
            probabilities = self.model.predict_proba(X, sensitive_features=attributes)
            return probabilities if len(self.outputs) > 1 else probabilities[:, 1:]

    def _count(self, features: pd.DataFrame) -> None:
        for name in self.unfamiliar.missing:
            self.missing[name] += int(features[name].isna().sum())
        for name, categories in self.unfamiliar.known.items():
            values = features[name]
            unseen = values[values.notna() & ~values.isin(list(categories))]
            self.unseen[name] += len(unseen)
            if len(unseen):
                self.examples.setdefault(name, str(unseen.iloc[0]))

    def notes(self) -> tuple[str, ...]:
        """What was unfamiliar in rows that have a score, over the whole file."""
        missing = _counted(
            self.missing,
            self.unfamiliar.missing,
            lambda name: f"rows without a value in {name!r}, where every row had one at fit",
            "columns without a value in some rows, where every row had one at fit",
        )
        unseen = _counted(
            self.unseen,
            self.unfamiliar.unseen,
            lambda name: (
                f"rows with a category in {name!r} not seen at fit, such as {self.examples[name]!r}"
            ),
            "columns with categories not seen at fit in some rows",
        )
        return (*missing, *unseen)


def _counted(
    rows: Mapping[str, int],
    treated: Mapping[str, str],
    of_column: Callable[[str], str],
    of_many: str,
) -> Iterator[str]:
    """One note for each column, or one for all where there are many; ``treated`` says how."""
    by_treatment: dict[str, list[str]] = {}
    for name, count in rows.items():
        if count:
            by_treatment.setdefault(treated[name], []).append(name)
    for words, names in by_treatment.items():
        if len(names) <= _COLUMNS_NAMED:
            yield from (f"{of_column(name)}: {rows[name]:,}; {words}" for name in names)
            continue
        first = ", ".join(f"{name!r} ({rows[name]:,} rows)" for name in names[:_COLUMNS_NAMED])
        yield f"{of_many}: {len(names):,}, the first {first}; {words}"


def _attribute_family(learned: LearnedInput) -> Family:
    _, kind, categories, *_ = learned
    if kind == "continuous" or all(isinstance(each, int | float) for each in categories):
        return "boolean" if all(isinstance(each, bool) for each in categories or (1,)) else "number"
    return "text"
