"""``equipoise fit`` and ``equipoise adjust``: from a data file to a run folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from equipoise.distributed.fitting import FilesRead
from equipoise.errors import InputError, NoSuchModel
from equipoise.estimators.fitting import fit_elsewhere, read_device
from equipoise.files import Columns, read_table
from equipoise.files.writer import spreadsheet_safe
from equipoise.frontier import FairFrontier
from equipoise.methods import parse_method
from equipoise.metrics import METRICS, OutcomeKind, find_metric
from equipoise.runs import NO_SUCH_MODEL, Answer, Say
from equipoise.runs import folder as files
from equipoise.runs.folder import Run, resume_command
from equipoise.runs.record import (
    DataFacts,
    FitOptions,
    RunRecord,
    command_line,
    known_name,
    plain_rows,
    read_record,
    versions,
)
from equipoise.runs.selecting import (
    Steps,
    Taken,
    choice_of_fit,
    refuse_both_limits,
    selection_document,
    show,
    steps_document,
    steps_in_words,
    take,
)
from equipoise.storage import write_atomically
from equipoise.words import capital

#: What each command needs, and an example of it.
_REQUIRED = {"fit": ("target", "sensitive"), "adjust": ("score", "target", "sensitive")}
_EXAMPLES = {
    "fit": "for example equipoise fit people.csv --target hired --sensitive age,sex",
    "adjust": "for example equipoise adjust scored.csv --score chance --target hired "
    "--sensitive age,sex",
}


def fit_run(
    data: Path | None,
    given: Mapping[str, Any],
    *,
    out: Path,
    say: Say,
    settings: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    command: str = "fit",
) -> Answer:
    """Read the data, print how, train, and write the run folder ``out``.

    ``data`` may be None where settings of an earlier run name the file. ``given`` has the options
    that were given, by the names of `FitOptions`; ``say`` receives text and tables to print.
    """
    if resume and (settings is not None or overwrite):
        other = "--overwrite" if settings is None else "--settings"
        raise InputError(
            f"--resume continues the run in --out as it was begun, got {other} too; leave one out"
        )
    with files.fitting_in(out, resume=resume, overwrite=overwrite):
        earlier = None
        if resume:
            earlier = files.unfinished_run(out)
        elif settings is not None:
            earlier = read_record(settings)
        options = read_options(given, earlier, command)
        if resume and earlier is not None and (changes := earlier.options.changes(options)):
            raise InputError(
                f"--resume must continue the run in '{out}' as it was begun, but "
                f"{', '.join(changes)}; resume it with {resume_command(out)}, or choose another "
                "--out"
            )
        # Before the data are read, which may take minutes: can these options be trained with?
        parse_method(options.method)
        for library in options.libraries:
            library.module(f"--predictor {options.predictor}")
        options.check()
        if options.score:
            # As in the demo: networks this small gain nothing from a second thread.
            torch.set_num_threads(1)
        path = data
        if path is None and earlier is not None:
            path = earlier.data.find(out if settings is None else settings.parent)
        if path is None:
            raise InputError(f"DATA is required; {_EXAMPLES[command]}")
        with _rows_of(path, options, out, say) as rows:
            columns = options.columns(rows.frame, say)
            _refuse_what_cannot_pick(options, columns.task)
            if earlier is not None and earlier.data.sha256 != rows.facts.sha256:
                changed = (
                    f"'{path}' is not the file that the earlier run was trained on: its SHA-256 is "
                    f"{rows.facts.sha256}, was {earlier.data.sha256}"
                )
                remedy = "choose another --out to train on this one"
                if settings is not None:
                    repeat = command_line("equipoise", command, path, "--settings", settings)
                    remedy = f"name it to train on it as it is: {repeat}"
                if resume or data is None:
                    raise InputError(f"{changed}; restore the file, or {remedy}")
                say(f"note: {changed}; training on it with the settings of that run")
            for part in columns.parts:
                say(part)
            record = RunRecord(
                state="training",
                command=fit_command(options, path, out),
                options=options,
                task=columns.task,
                data=rows.facts,
                columns=tuple(plain_rows(columns.to_frame())),
                flags=tuple(flag.words for flag in columns.flags),
                device=read_device(options.device).type if options.has_networks else "cpu",
                versions=versions(options.libraries),
            )
            return _train_and_write(Run(out, record), rows, columns, resume=resume, say=say)


@dataclass(frozen=True, eq=False)
class _FitRows:
    """Rows to train on: those of a frame, or of files of which the frame is a sample."""

    frame: pd.DataFrame
    facts: DataFacts
    files: FilesRead | None = None

    def fit(
        self,
        options: FitOptions,
        columns: Columns,
        frontier: FairFrontier,
        checkpoint: Path | None,
        resume: bool,
    ) -> FairFrontier:
        """Fit a frontier to all rows."""
        given = options.rows(self.frame, columns)
        if self.files is None:
            return frontier.fit(**given, checkpoint=checkpoint, resume=resume)
        features = list(given["X"].columns)
        with fit_elsewhere(frontier, checkpoint=checkpoint, resume=resume) as fit:
            self.files.fit(frontier, fit, positive=given["positive"], features=features)
        return frontier


@contextmanager
def _rows_of(path: Path, options: FitOptions, out: Path, say: Say) -> Iterator[_FitRows]:
    """Read a file, or survey many; a cluster stays connected until they are trained on."""
    if options.engine == "local":
        frame = read_table(path, sep=options.sep or None, category=options.category)
        yield _FitRows(frame, DataFacts.of(path, out, len(frame)))
        return
    with options.request().read(path) as found:
        frame = found.sample
        if found.rows > len(frame):
            say(
                f"{found.rows:,} rows in {len(found.files):,} files; what follows is about "
                f"{len(frame):,} of them, drawn at random."
            )
        facts = DataFacts.stated(path, out, found.rows, found.bytes, found.digest)
        yield _FitRows(frame, facts, found)


def read_options(
    given: Mapping[str, Any], earlier: RunRecord | None, command: str = "fit"
) -> FitOptions:
    """Return the options of a run; those given count before those of an earlier run."""
    found = {**({} if earlier is None else earlier.options.to_document()), **given}
    for name in _REQUIRED[command]:
        if not found.get(name):
            raise InputError(f"--{name} is required; {_EXAMPLES[command]}")
    metrics = [known_name(metric, METRICS) for metric in found.get("metrics", ())]
    max_gap, max_unfairness = given.get("max_gap"), given.get("max_unfairness")
    refuse_both_limits(max_gap, max_unfairness)
    if found.pop("max_gap", None) is not None:
        found["max_unfairness"] = max_gap
    options = FitOptions.from_document({**found, "metrics": metrics})
    if max_gap is not None and options.limit_option != "--max-gap":
        raise InputError(
            f"--max-gap limits the first of --metrics, which must then be a gap, got "
            f"{options.metrics[0]}; name the gap first, or pass --max-unfairness instead"
        )
    if max_unfairness is not None and options.limit_option == "--max-gap":
        raise InputError(
            "--max-unfairness limits the first of --metrics, which must then be no gap, got "
            f"{options.metrics[0] if options.metrics else 'the default, a gap'}; pass --max-gap "
            "instead, or name another metric first, such as --metrics ks-gsp,sp"
        )
    for name in options.unread:
        if name in given:
            raise InputError(
                f"--{name.replace('_', '-')} has no meaning for --predictor {options.predictor}, "
                f"got {given[name]}; leave it out, or take another predictor"
            )
    return options


def _refuse_what_cannot_pick(options: FitOptions, task: str) -> None:
    """Say before training, not after, that no model can be picked by the first metric."""
    outcome: OutcomeKind = "continuous" if task == "regression" else "binary"
    if options.metrics and (caveat := find_metric(options.metrics[0]).caveat(outcome)):
        raise InputError(
            f"--metrics must begin with one that a fair score can satisfy, got "
            f"{options.metrics[0]}; {caveat}"
        )


def fit_command(options: FitOptions, data: Path, out: Path) -> str:
    """Return the command line that makes a run."""
    return command_line("equipoise", options.command, data, *options.to_arguments(), "--out", out)


def _train_and_write(
    run: Run, rows: _FitRows, columns: Columns, *, resume: bool, say: Say
) -> Answer:
    """Train, or take up what is trained already; keep what can be resumed after an error."""
    options = run.record.options
    place = files.unfinished_place(run.folder) if resume else files.new_place(run)
    try:
        frontier = files.saved_frontier(run.folder, place) if resume else None
        if frontier is None or _cut_short(frontier, options):
            # What is solved at once has no progress to show and nothing to resume.
            trains = parse_method(options.method).solve is None
            frontier = rows.fit(
                options,
                columns,
                options.frontier(columns.task, verbose=int(trains)),
                place / files.CHECKPOINT if trains else None,
                resume and trains,
            )
        say(f"Picking a model and writing {run.folder / files.REPORT} ...")
        return _finish(run, place, frontier)
    except BaseException:
        if resume or not files.abandon(run, place):
            say(f"What was trained is kept; continue with: {resume_command(run.folder)}")
        raise


def _finish(run: Run, place: Path, frontier: FairFrontier) -> Answer:
    """Write all files of a trained frontier; the run has ended once all are there."""
    options = run.record.options
    trained = {
        each.name: int(each.history.iterations[-1]) for each in frontier.fitted_curve().trained
    }
    record = replace(
        run.record,
        state="interrupted" if _cut_short(frontier, options) else "finished",
        iterations_trained=trained.pop("network", 0),
        rounds_trained=max(trained.values(), default=0),
    )
    run = Run(run.folder, record)
    choice = choice_of_fit(options)
    with files.changing(run, place) as staged:
        frontier.save(staged / files.FRONTIER)
        tables = {
            files.COLUMNS: pd.DataFrame(record.columns),
            files.TABLE: frontier.table(),
            files.MEMBERS: frontier.members(),
        }
        for name, table in tables.items():
            text = spreadsheet_safe(table).to_csv(index=name != files.COLUMNS)
            write_atomically(staged / name, text.encode())
        try:
            taken = take(run, staged, frontier, choice, how="picked at the end of training")
        except NoSuchModel as problem:
            refusal = problem
            steps = show(run, staged, frontier, choice, problem)
            taken = None
    ended = files.open_run(run.folder)
    return _refused(ended, refusal, steps) if taken is None else _answer(ended, taken)


def _cut_short(frontier: FairFrontier, options: FitOptions) -> bool:
    """Whether training ended early although some member could have gone on."""
    if parse_method(options.method).solve is not None:
        return False
    histories = {each.name: each.history for each in frontier.fitted_curve().trained}
    return any(
        family not in histories
        or (np.any(histories[family].stopped_at == 0) and histories[family].iterations[-1] < length)
        for family, length in options.lengths.items()
    )


def _answer(run: Run, taken: Taken) -> Answer:
    """Say what was picked and what comes next."""
    document = {
        "selection": selection_document(taken.selection, taken.choice),
        "steps": steps_document(taken.steps),
    }
    parts = (*taken.parts(run.folder / files.REPORT), f"{capital(taken.choice.remark)}.")
    return _ended(run, parts, document)


def _refused(run: Run, problem: NoSuchModel, steps: Steps) -> Answer:
    """Say that no model keeps the limits, so that none was chosen, and what can be done."""
    document = {
        "selection": None,
        "refused": problem.found,
        "nearest": problem.nearest,
        "steps": steps_document(steps),
    }
    parts = (
        f"No model was chosen: {problem.found}.",
        f"Report: {run.folder / files.REPORT}",
        steps_in_words(steps),
        f"All that was trained is in {run.folder}; nothing can be scored before a model is chosen.",
    )
    return _ended(run, parts, document, code=NO_SUCH_MODEL)


def _ended(run: Run, parts: tuple[str, ...], found: Mapping[str, Any], *, code: int = 0) -> Answer:
    """Add to an answer how training ended, and which files there are."""
    record, options = run.record, run.record.options
    interrupted = record.state == "interrupted"
    if interrupted:
        moment = f"iteration {record.iterations_trained} of {options.iterations}"
        if record.rounds_trained:
            moment = f"round {record.rounds_trained} of {options.rounds}"
        elif options.libraries:
            moment += ", before any tree was grown"
        parts += (
            f"Training was interrupted at {moment}; these are the results so far. Continue with:\n"
            f"  {resume_command(run.folder)}",
        )
    document = {
        "run": str(run.folder),
        "report": str(run.folder / files.REPORT),
        "state": record.state,
        "iterations": record.iterations_trained,
        "rounds": record.rounds_trained,
        "flags": list(record.flags),
        **found,
        "files": sorted(str(run.folder / n) for n in files.FILES if (run.folder / n).exists()),
    }
    return Answer(parts, document, code=1 if interrupted else code)
