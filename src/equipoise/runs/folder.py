"""The run folder: which files it holds, who may write to it, and whether it is whole.

A run is never changed file by file. New files are written to a hidden folder inside the run folder,
their ``settings.json`` last. That one write decides: from then on the new files are the run, and
the next command moves them to their places, ``settings.json`` last again. So a process can be
killed, or the disk be full, at any moment. What is found afterwards:

=================================  ===============================================================
in the folder                      what it is, and what becomes of it
=================================  ===============================================================
nothing but leftovers              an empty folder: the next ``fit`` removes them
settings.json, "training"          a new run in training: ``fit --resume`` continues it
settings.json, "interrupted"       a whole run of what was trained at Ctrl-C; all commands work,
                                   and ``fit --resume`` continues it
settings.json, "finished"          a whole run
.equipoise-changes with settings   decided: the next command moves the files to their places
.equipoise-changes without         a model that was being selected, or the end of a fit: removed
                                   by the next writer; ``--resume`` takes a saved frontier from it
.equipoise-overwrite, "training"   ``fit --overwrite`` in training: the old run beside it is whole
                                   and in use; ``--resume`` continues the new run, ``--overwrite``
                                   removes it and starts again
.equipoise-overwrite, ended        decided: the next command puts it in the place of the old run
.equipoise-overwrite without       not begun: removed by the next writer
.equipoise-lock                    the number of the process that writes, or was killed writing
=================================  ===============================================================

Only one process writes at a time. Processes that only read do not wait for it; if the run was
replaced while they read, they read again.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from equipoise.errors import InputError
from equipoise.frontier import FairFrontier, load
from equipoise.runs.record import (
    FORMAT,
    RunRecord,
    command_line,
    read_document,
    read_record,
    sha256,
    write_json,
)
from equipoise.storage.atomic import claim, foreign_in, only_writer, remove_leftovers

#: Everything that equipoise writes into a run folder or removes from one, hidden files apart. The
#: settings come last: until they are moved, a move can be repeated.
FILES = (
    COLUMNS := "columns.csv",
    CHECKPOINT := "training.checkpoint",
    FRONTIER := "frontier.equipoise",
    TABLE := "table.csv",
    MEMBERS := "members.csv",
    MODEL := "model.equipoise",
    SELECTION := "selection.json",
    REPORT := "report.html",
    CARD := "model_card.md",
    CARD_HTML := "model_card.html",
    CARD_JSON := "model_card.json",
    SETTINGS := "settings.json",
)
#: The model card, which its owner may have filled in.
CARDS = (CARD, CARD_HTML, CARD_JSON)


_LOCK = ".equipoise-lock"
_CHANGES = ".equipoise-changes"
_OVERWRITE = ".equipoise-overwrite"
_HIDDEN = (_LOCK, _CHANGES, _OVERWRITE)
#: Seconds to wait for a process that is moving files, which takes it milliseconds.
_MOVING = 10.0

Found = TypeVar("Found")


@dataclass(frozen=True)
class Run:
    """A run folder that was opened, and what its settings say."""

    folder: Path
    record: RunRecord

    def frontier(self) -> FairFrontier:
        """Load the frontier; errors say how to make a damaged one again."""
        found = self.load(FRONTIER)
        assert isinstance(found, FairFrontier)
        return found

    def load(self, name: str) -> object:
        """Load one of its models; errors say how to make a damaged or missing one again."""
        again = f"{self.record.command} --overwrite"
        if not (self.folder / name).exists():
            raise InputError(
                f"'{self.folder}' must be a whole run folder, but {name} is missing; restore it "
                f"from a copy, or make the run again: {again}"
            )
        try:
            found = load(self.folder / name)
        except InputError as problem:
            for library in self.record.options.libraries:
                library.module(f"'{self.folder / name}'")  # if that is missing, nothing is damaged
            raise InputError(
                f"'{self.folder}' must be a whole run folder: {problem}; for a run that is: {again}"
            ) from None
        if not self.has(name):
            raise InputError(
                f"'{self.folder}' must hold the files of one run, but {name} is not the one that "
                f"{SETTINGS} describes: their SHA-256 differ; restore both from one copy, or make "
                f"the run again: {again}"
            )
        return found

    def has(self, name: str) -> bool:
        """Whether a file belongs to the run; runs of older versions do not know, so any does."""
        known = self.record.files.get(name)
        return known is None or known == sha256(self.folder / name)


def resume_command(folder: Path) -> str:
    """Return the command line that continues an unfinished run."""
    return command_line("equipoise", "fit", "--resume", "--out", folder)


def open_run(folder: Path) -> Run:
    """Open a run folder that has a frontier, finished or interrupted."""
    if _is_moving(folder):
        with writing(folder, argument="RUN", wait=_MOVING):
            pass  # settled by now
    run = Run(folder, _record_in(folder))
    if run.record.state == "training":
        raise InputError(
            f"RUN must be a run that has ended, got '{folder}', whose training was cut off; "
            f"continue it: {resume_command(run.folder)}"
        )
    if (folder / _OVERWRITE / SETTINGS).exists():
        warnings.warn(
            f"'{folder}' is being overwritten, or that was interrupted; this is about the old run. "
            f"To continue the new one: {resume_command(folder)}",
            stacklevel=2,
        )
    return run


def reading(folder: Path, read: Callable[[Run], Found]) -> Found:
    """Open a run and read from it; read again if another process has changed it meanwhile."""
    while True:
        run = open_run(folder)
        try:
            return read(run)
        except InputError:
            if open_run(folder).record == run.record:
                raise


@contextmanager
def writing(
    folder: Path, *, argument: str, wait: float = 0.0, resume: bool = False
) -> Iterator[None]:
    """Be the only process that writes to a run folder, and clean up after one that was killed."""
    with only_writer(folder / _LOCK, argument=argument, what=folder, wait=wait):
        _settle(folder, resume=resume)
        yield


@contextmanager
def writing_to_run(folder: Path) -> Iterator[Run]:
    """Open a run for changes; nothing is written to a folder that is no run."""
    open_run(folder)
    with writing(folder, argument="RUN"):
        run = open_run(folder)
        _refuse_edited(folder)
        yield run


@contextmanager
def fitting_in(folder: Path, *, resume: bool, overwrite: bool) -> Iterator[None]:
    """Be the only process that writes to ``--out``; refuse a folder that may not be written to.

    Folders made for it are removed after an error unless something is in them.
    """
    if not resume:
        _claim(folder, overwrite=overwrite)
    elif not _holds_run(folder):
        _record_in(folder)  # raises
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with writing(folder, argument="--out", resume=resume):
            if not resume:
                _claim(folder, overwrite=overwrite)  # another process may have been first
            if _has_ended(folder):
                _refuse_edited(folder)
            yield
    except BaseException:
        for each in made:
            with suppress(OSError):
                each.rmdir()
        raise


def _record_in(folder: Path) -> RunRecord:
    if (folder / SETTINGS).exists():
        return read_record(folder / SETTINGS)
    what = f"has no {SETTINGS}"
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
    raise InputError(f"RUN must be a folder that equipoise fit wrote, got '{folder}', which {what}")


def unfinished_run(folder: Path) -> RunRecord:
    """Return the record of a run that can be resumed."""
    record = _record_in(unfinished_place(folder))
    if record.state == "finished":
        raise InputError(
            f"--resume continues an unfinished run, got '{folder}', which is finished; choose "
            "another --out, or give --overwrite to train it again"
        )
    return record


def unfinished_place(folder: Path) -> Path:
    """Return the folder in which the run to resume was training."""
    overwrite = folder / _OVERWRITE
    return overwrite if (overwrite / SETTINGS).exists() else folder


def new_place(run: Run) -> Path:
    """Return the folder to train a new run in, with its settings; never in the place of a run."""
    _remove(run.folder / _CHANGES)
    place = run.folder
    if (run.folder / SETTINGS).exists():
        place = run.folder / _OVERWRITE
        _remove(place)
        place.mkdir()
    try:
        write_json(place / SETTINGS, run.record.to_document())
    except BaseException:
        if place != run.folder:
            _remove(place)
        raise
    return place


def abandon(run: Run, place: Path) -> bool:
    """Remove a new run whose training has failed unless it can be resumed; whether it is gone."""
    begun = (place / CHECKPOINT, _staged(run.folder, place) / FRONTIER)
    if _is_moving(run.folder) or any(path.exists() for path in begun):
        return False
    if place != run.folder:
        _remove(place)
    else:
        _remove(run.folder / _CHANGES)
        for name in FILES:
            (run.folder / name).unlink(missing_ok=True)
    return True


def saved_frontier(folder: Path, place: Path) -> FairFrontier | None:
    """Return the frontier of an unfinished run if it was saved before the process was killed."""
    with suppress(InputError):
        found = load(_staged(folder, place) / FRONTIER)
        assert isinstance(found, FairFrontier)
        return found
    return None


@contextmanager
def changing(run: Run, place: Path | None = None) -> Iterator[Path]:
    """Yield a folder for new files of a run, which become its own if the block ends well.

    ``run`` has the new record. ``place``: where it was trained, if it was. Then a model of an
    earlier run, or from before training was resumed, does not stay.
    """
    trained = place is not None
    place = run.folder if place is None else place
    staged = _staged(run.folder, place)
    if staged != place:
        _remove(staged)
        staged.mkdir()
    try:
        yield staged
    except BaseException:
        if staged != place and not (staged / FRONTIER).exists():
            _remove(staged)
        raise
    names = [FRONTIER, MODEL, SELECTION, *CARDS]
    if run.record.state == "interrupted":
        names.append(CHECKPOINT)
    files = {}
    for name in names:
        if (staged / name).exists():
            files[name] = sha256(staged / name)
        elif (place / name).exists() and (name == CHECKPOINT or not trained):
            # A file that was exchanged must not become a file of the run.
            files[name] = run.record.files.get(name) or sha256(place / name)
    write_json(staged / SETTINGS, replace(run.record, files=files).to_document())
    _move(staged, run.folder)


def _staged(folder: Path, place: Path) -> Path:
    """Return the folder for the last files of a run that trains at ``place``."""
    return folder / _CHANGES if place == folder else place


def _claim(folder: Path, *, overwrite: bool) -> None:
    """Raise unless a new run may be written to this folder; nothing is changed yet.

    Beside a run there may be files of the user's: they stay.
    """
    # In this order: the files of a run that another process begins meanwhile are not foreign.
    foreign = foreign_in(folder, _HIDDEN.__contains__, written=FILES)
    holds_run = _holds_run(folder)
    claim(
        folder,
        "a run",
        foreign=None if holds_run else foreign,
        overwrite=overwrite or not holds_run,
        remedy="give --resume (for an unfinished run) or --overwrite",
    )


def _refuse_edited(folder: Path) -> None:
    """Raise if the user has filled in a model card, which would be written over."""
    run = Run(folder, read_record(folder / SETTINGS))
    for path in (folder / name for name in CARDS):
        if path.exists() and not run.has(path.name):
            raise InputError(
                f"'{path}' must be as equipoise wrote it to be replaced, but it was edited or "
                "belongs to another run; move it out of the folder, or rename it, and try again"
            )


def _holds_run(folder: Path) -> bool:
    """Whether a folder has settings of a run, of any format, in itself or in a hidden folder."""
    for place in (folder, folder / _OVERWRITE):
        with suppress(InputError):
            if isinstance(read_document(place / SETTINGS).get("equipoise_run"), type(FORMAT)):
                return True
    return False


def _has_ended(place: Path) -> bool:
    """Whether a folder holds the settings of a run that has ended."""
    with suppress(InputError):
        return read_record(place / SETTINGS).state != "training"
    return False


def _is_moving(folder: Path) -> bool:
    """Whether files are not in their places: another process moves them, or was killed doing so."""
    return _has_ended(folder / _CHANGES) or _has_ended(folder / _OVERWRITE)


def _settle(folder: Path, *, resume: bool) -> None:
    """Put in order what a killed process has left."""
    changes, overwrite = folder / _CHANGES, folder / _OVERWRITE
    for staged in (changes, overwrite):
        if _has_ended(staged):
            _move(staged, folder)
    if not resume:
        _remove(changes)
    if not (overwrite / SETTINGS).exists():
        _remove(overwrite)
    for name in FILES:
        for place in (folder, overwrite, changes):
            remove_leftovers(place / name)


def _move(staged: Path, folder: Path) -> None:
    """Put files into their places; can be repeated from any point."""
    record = read_record(staged / SETTINGS)
    if CHECKPOINT not in record.files:
        (staged / CHECKPOINT).unlink(missing_ok=True)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    if not record.has_model:
        for name in (MODEL, SELECTION, *CARDS):
            (folder / name).unlink(missing_ok=True)
    for name in FILES:
        if (staged / name).exists():
            (staged / name).replace(folder / name)
    _remove(staged)


def _remove(place: Path) -> None:
    """Remove a hidden folder; what cannot be removed now is removed by the next writer."""
    shutil.rmtree(place, ignore_errors=True)
