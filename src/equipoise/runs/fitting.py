"""``equipoise fit``: from a data file to a run folder."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.errors import InputError
from equipoise.estimators.inputs import read_device
from equipoise.files import Columns, read_columns, read_table
from equipoise.files.writer import spreadsheet_safe
from equipoise.frontier import FairFrontier, Selection
from equipoise.methods import parse_method
from equipoise.metrics import METRICS
from equipoise.predictors.boosting.library import lightgbm
from equipoise.runs import folder as files
from equipoise.runs.folder import Run, resume_command, unfinished_run
from equipoise.runs.frames import plain_rows
from equipoise.runs.record import (
    DataFile,
    FitOptions,
    RunRecord,
    command_line,
    describe_file,
    known_name,
    read_record,
    versions,
)
from equipoise.runs.selecting import Choice, choice_without_wish, selection_document, take
from equipoise.storage import write_atomically


@dataclass(frozen=True, eq=False)
class EndedRun:
    """A run folder after training, and the model that was picked."""

    run: Run
    selection: Selection
    choice: Choice

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended training."""
        return self.run.record.state == "interrupted"

    @property
    def report(self) -> Path:
        """Path of the page to read."""
        return self.run.path(files.REPORT)

    def summary(self) -> str:
        """Say what was picked and what comes next."""
        remark = textwrap.fill(
            f"{self.choice.remark[:1].upper()}{self.choice.remark[1:]}.",
            100,
            break_on_hyphens=False,
        )
        select, predict = (
            command_line("equipoise", name, self.run.folder) for name in ("select", "predict")
        )
        parts = [
            f"{self.selection}\n\n{remark}",
            f"Report: {self.report}",
            f"Take another model: {select} --max-unfairness {self._other_limit:g}\n"
            f"Score new rows:     {predict} DATA --out scores.parquet",
        ]
        if self.interrupted:
            go_on = "Go on" if self.run.record.options.has_networks else "Grow the trees anew"
            parts.append(
                f"Training was interrupted at {self._moment}; all of this is what there was by "
                f"then. {go_on} with: {files.resume_command(self.run.folder)}"
            )
        return "\n\n".join(parts)

    @property
    def _moment(self) -> str:
        """How far training came."""
        record = self.run.record
        if record.rounds:
            return f"round {record.rounds} of {record.options.rounds}"
        before = ", before any tree was grown" if record.options.has_trees else ""
        return f"iteration {record.iterations} of {record.options.iterations}{before}"

    @property
    def _other_limit(self) -> float:
        """A limit to go on with: stricter than one that was kept, wider than one that was not."""
        asked, picked_by = self.run.record.options.max_unfairness, self.choice.max_unfairness
        assert picked_by is not None
        return asked / 2 if picked_by == asked else 2 * picked_by

    def to_document(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            "run": str(self.run.folder),
            "state": self.run.record.state,
            "iterations": self.run.record.iterations,
            "rounds": self.run.record.rounds,
            "flags": list(self.run.record.flags),
            "selection": selection_document(self.selection, self.choice),
            "files": sorted(
                str(self.run.path(n)) for n in files.FILES if self.run.path(n).exists()
            ),
        }


def fit_run(request: FitRequest, *, say: Say, verbose: int) -> EndedRun:
    """Read the data, say how, train, and write the run folder."""
    with files.fitting_in(request.out, resume=request.resume, overwrite=request.overwrite):
        return _fit_alone(request, say, verbose)


def _fit_alone(request: FitRequest, say: Say, verbose: int) -> EndedRun:
    """Fit while no other process writes to the folder."""
    earlier = request.earlier()
    options = request.options(earlier)
    path = request.file(earlier)
    parse_method(options.method)
    if options.has_trees:
        lightgbm(f"--predictor {options.predictor}")
    frame = read_table(path)
    columns = read_columns(
        frame,
        target=options.target,
        sensitive=options.sensitive,
        id=options.id,
        drop=options.drop,
        features=options.features or None,
        task=options.task or None,
        sensitive_types=options.types or None,
        say=say,
    )
    file = describe_file(path, len(frame))
    request.check_file(file, earlier, say)
    say(f"{columns}\n")
    record = RunRecord(
        state="training",
        iterations=0,
        rounds=0,
        command=request.command(options, path),
        options=options,
        task=columns.task,
        data=file,
        columns=tuple(plain_rows(columns.to_frame())),
        flags=tuple(flag.words for flag in columns.flags),
        device=read_device(options.device).type if options.has_networks else "cpu",
        versions=versions(has_trees=options.has_trees),
    )
    run = Run(request.out, record)
    resume = request.resume
    place = files.unfinished_place(run.folder) if resume else files.new_place(run)
    try:
        frontier = files.saved_frontier(run.folder, place) if resume else None
        if frontier is None or _cut_short(frontier, options):
            checkpoint = place / files.CHECKPOINT
            frontier = _train(run, frame, columns, checkpoint, resume=resume, verbose=verbose)
        say(f"Picking a model and writing {run.path(files.REPORT)} ...")
        return _finish(run, place, frontier)
    except BaseException:
        if resume or not files.abandon(run, place):
            say(f"What was trained is kept; go on with: {files.resume_command(run.folder)}")
        raise


def _train(
    run: Run,
    frame: pd.DataFrame,
    columns: Columns,
    checkpoint: Path,
    *,
    resume: bool,
    verbose: int,
) -> FairFrontier:
    options = run.record.options
    is_solved = parse_method(options.method).solve is not None
    if is_solved:
        verbose = 0  # solved at once: there is nothing to watch
    keeps_state = options.has_networks and not is_solved
    return options.frontier(columns.task, verbose=verbose).fit(
        frame[columns.features],
        frame[columns.target],
        sensitive_features=frame[columns.sensitive],
        checkpoint=checkpoint if keeps_state else None,
        resume=resume and keeps_state,
    )


def _finish(run: Run, place: Path, frontier: FairFrontier) -> EndedRun:
    """Write everything that a trained frontier has to say; the run has ended once all is there."""
    trained = _trained(frontier)
    record = run.record.ended(
        "interrupted" if _cut_short(frontier, run.record.options) else "finished",
        iterations=trained.get("network", 0),
        rounds=trained.get("boosting", 0),
    )
    run = Run(run.folder, record)
    choice = choice_without_wish(frontier, record.options.max_unfairness)
    with files.changing(run, place) as staged:
        frontier.save(staged / files.FRONTIER)
        tables = {
            files.COLUMNS: spreadsheet_safe(pd.DataFrame(record.columns)).to_csv(index=False),
            files.TABLE: spreadsheet_safe(frontier.table()).to_csv(),
            files.MEMBERS: spreadsheet_safe(frontier.members()).to_csv(),
        }
        for name, table in tables.items():
            write_atomically(staged / name, table.encode())
        selection = take(run, staged, frontier, choice)
    return EndedRun(files.open_run(run.folder), selection, choice)


def _cut_short(frontier: FairFrontier, options: FitOptions) -> bool:
    """Whether training ended before its time though some member could have gone on."""
    if parse_method(options.method).solve is not None:
        return False
    strands = {strand.predictor: strand.history for strand in frontier._curve.strands}
    wanted = {
        **({"network": options.iterations} if options.has_networks else {}),
        **({"boosting": options.rounds} if options.has_trees else {}),
    }
    return any(
        family not in strands
        or (np.any(strands[family].stopped_at == 0) and strands[family].iterations[-1] < length)
        for family, length in wanted.items()
    )


def _trained(frontier: FairFrontier) -> dict[str, int]:
    """Return the last iteration, or round, of each family."""
    return {
        strand.predictor: int(strand.history.iterations[-1]) for strand in frontier._curve.strands
    }


Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """One call of ``equipoise fit``.

    Attributes
    ----------
    data : path or None
        None where settings of an earlier run name the file.
    given : mapping of str to anything
        Options that were given, by the names of `FitOptions`.
    settings : path or None
        settings.json of a run to repeat.
    out : path
        The run folder.
    resume, overwrite : bool
    """

    data: Path | None
    given: Mapping[str, Any]
    settings: Path | None = None
    out: Path = Path("run")
    resume: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.resume and (self.settings is not None or self.overwrite):
            raise InputError(
                "--resume goes on with the run in --out as it was begun, got "
                f"{'--settings' if self.settings is not None else '--overwrite'} too; leave one out"
            )

    def earlier(self) -> RunRecord | None:
        """Return the run that is repeated or resumed, if any."""
        if self.resume:
            return unfinished_run(self.out)
        return None if self.settings is None else read_record(self.settings)

    def options(self, earlier: RunRecord | None) -> FitOptions:
        """Return the options of the run; those given count before those of an earlier run."""
        before = {} if earlier is None else dict(earlier.options.to_document())
        found = {**before, **self.given}
        for name in ("target", "sensitive"):
            if name not in found:
                raise InputError(
                    f"--{name} is required; for example equipoise fit people.csv --target hired "
                    "--sensitive age,sex"
                )
        metrics = [known_name(metric, METRICS) for metric in found.get("metrics", ())]
        options = FitOptions.from_document({**found, "metrics": metrics})
        for name in options.unused:
            if name in self.given:
                raise InputError(
                    f"--{name.replace('_', '-')} has no meaning for --predictor "
                    f"{options.predictor}, got {self.given[name]}; leave it out, or take another "
                    "predictor"
                )
        if self.resume and earlier is not None and (changes := earlier.options.changes(options)):
            raise InputError(
                f"--resume must go on with the run in '{self.out}' as it was begun, but "
                f"{', '.join(changes)}; resume it with {resume_command(self.out)}, or choose "
                "another --out"
            )
        return options

    def file(self, earlier: RunRecord | None) -> Path:
        """Return the data file."""
        if self.data is not None:
            return self.data
        if earlier is None:
            raise InputError(
                "DATA is required; for example equipoise fit people.csv --target hired "
                "--sensitive age,sex"
            )
        return Path(earlier.data.path)

    def check_file(self, file: DataFile, earlier: RunRecord | None, say: Say) -> None:
        """Make sure that an earlier run meets its data again, or say that it does not."""
        if earlier is None or earlier.data.sha256 == file.sha256:
            return
        changed = (
            f"'{file.path}' is not the file that the earlier run was trained on: its SHA-256 is"
        )
        if self.resume:
            raise InputError(
                f"{changed} {file.sha256}, was {earlier.data.sha256}; restore the file, or choose "
                "another --out to train on this one"
            )
        if self.data is None:
            assert self.settings is not None
            raise InputError(
                f"{changed} {file.sha256}, was {earlier.data.sha256}; restore the file, or name it "
                "to train on it as it is: "
                f"{command_line('equipoise', 'fit', Path(file.path), '--settings', self.settings)}"
            )
        say(f"note: {changed} another one; training on '{file.path}' with the settings alone")

    def command(self, options: FitOptions, file: Path) -> str:
        """Return the command line that makes this run."""
        return command_line("equipoise", "fit", file, *options.to_arguments(), "--out", self.out)
