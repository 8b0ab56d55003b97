"""The run folder: which files it holds, who may write to it, and whether it is whole."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from equipoise.boosting.library import lightgbm
from equipoise.errors import InputError
from equipoise.frontier import FairFrontier, load
from equipoise.runs.record import FORMAT, RunRecord, read_document, read_record

SETTINGS = "settings.json"
COLUMNS = "columns.csv"
CHECKPOINT = "training.checkpoint"
FRONTIER = "frontier.equipoise"
TABLE = "table.csv"
MEMBERS = "members.csv"
MODEL = "model.equipoise"
SELECTION = "selection.json"
REPORT = "report.html"
CARD = "model_card.md"
CARD_JSON = "model_card.json"

#: Everything that equipoise writes into a run folder, and all it ever removes from one. The
#: settings come last: a folder half emptied is still known for what it is.
FILES = (
    COLUMNS,
    CHECKPOINT,
    FRONTIER,
    TABLE,
    MEMBERS,
    MODEL,
    SELECTION,
    REPORT,
    CARD,
    CARD_JSON,
    SETTINGS,
)

#: Where the files of a run wait that is being overwritten.
_ASIDE = ".replaced"


@dataclass(frozen=True)
class Run:
    """A run folder that was opened, and what its settings say."""

    folder: Path
    record: RunRecord

    def path(self, name: str) -> Path:
        """Path of one of its files."""
        return self.folder / name

    def frontier(self) -> FairFrontier:
        """Load the frontier; errors say how to make a damaged one again."""
        found = self.load(FRONTIER)
        assert isinstance(found, FairFrontier)
        return found

    def load(self, name: str) -> object:
        """Load one of its models; errors say how to make a damaged or missing one again."""
        if not self.path(name).exists():
            raise InputError(
                f"'{self.folder}' must be a whole run folder, but {name} is missing; restore it "
                f"from a copy, or make the run again: {self.record.command} --overwrite"
            )
        try:
            return load(self.path(name))
        except InputError as problem:
            if self.record.options.has_trees:
                lightgbm(f"'{self.path(name)}'")  # where that is missing, nothing is damaged
            raise InputError(
                f"'{self.folder}' must be a whole run folder: {problem}; for a run that is: "
                f"{self.record.command} --overwrite"
            ) from None


def resume_command(folder: Path) -> str:
    """Return the command line that goes on with an unfinished run."""
    return f"equipoise fit --resume --out {shlex.quote(str(folder))}"


def open_run(folder: str | PathLike[str]) -> Run:
    """Open a run folder that has a frontier, finished or interrupted."""
    run = Run(Path(folder), _record_in(Path(folder)))
    if run.record.state == "training":
        raise InputError(
            f"RUN must be a run that has ended, got '{folder}', whose training was cut off; go on "
            f"with it: {resume_command(run.folder)}"
        )
    return run


def _record_in(folder: Path) -> RunRecord:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(
            f"RUN must be a folder that equipoise fit wrote, got '{folder}', which {what}"
        )
    if not (folder / SETTINGS).exists():
        raise InputError(
            f"RUN must be a folder that equipoise fit wrote, got '{folder}', which has no "
            f"{SETTINGS}"
        )
    return read_record(folder / SETTINGS)


def unfinished_run(folder: Path) -> RunRecord:
    """Return the record of a run that can be resumed."""
    record = _record_in(folder)
    if record.state == "finished":
        raise InputError(
            f"--resume goes on with an unfinished run, got '{folder}', which is finished; take "
            "another --out, or --overwrite to train it anew"
        )
    return record


def refuse_taken(folder: Path, *, overwrite: bool) -> None:
    """Raise unless a new run may be written to this folder; nothing is changed yet."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must name a folder, got '{folder}', which is a file")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not _is_ours(folder):
        raise InputError(
            f"--out must be new, empty or a run folder, got '{folder}', which holds other files; "
            "choose another name"
        )
    if not overwrite:
        raise InputError(
            f"--out must be new or empty, got '{folder}', which holds a run; choose another name, "
            "or give --resume (for an unfinished run) or --overwrite"
        )


def set_aside(folder: Path) -> None:
    """Move the files of an earlier run out of the way, for `put_back` if the new one fails."""
    aside = folder / _ASIDE
    if not (folder / CHECKPOINT).exists():
        # What waits there is of an overwrite that was killed before it had trained anything.
        for name in FILES:
            if (aside / name).exists():
                (aside / name).replace(folder / name)
    shutil.rmtree(aside, ignore_errors=True)
    found = [name for name in FILES if (folder / name).exists()]
    if found:
        aside.mkdir()
    for name in found:
        (folder / name).rename(aside / name)


def put_back(folder: Path) -> None:
    """Undo `set_aside`; without an earlier run, leave no folder behind where it is empty."""
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
        if (folder / _ASIDE / name).exists():
            (folder / _ASIDE / name).rename(folder / name)
    let_go(folder)
    if not any(folder.iterdir()):
        folder.rmdir()


def let_go(folder: Path) -> None:
    """Remove the files that were set aside."""
    shutil.rmtree(folder / _ASIDE, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Whether a folder has settings of a run, of whichever format."""
    try:
        document = read_document(folder / SETTINGS)
    except InputError:
        return False
    return isinstance(document.get("equipoise_run"), type(FORMAT))
