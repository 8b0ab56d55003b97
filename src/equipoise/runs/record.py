"""settings.json: what a run is, enough to repeat it, with a checksum that finds changes."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

from equipoise.errors import InputError
from equipoise.runs.options import FitOptions
from equipoise.storage import write_atomically

#: Grows when what is written can no longer be read as before.
FORMAT = 1
PACKAGES = ("equipoise", "torch", "numpy", "pandas", "pyarrow", "scikit-learn", "scipy")

State = Literal["training", "interrupted", "finished"]


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """The file a run was trained on: its name as given, size, SHA-256 and number of rows."""

    path: str
    bytes: int
    sha256: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Everything known of a run beside its numbers.

    Attributes
    ----------
    state : {"training", "interrupted", "finished"}
    iterations, rounds : int
        Iterations of networks and rounds of trees trained when training ended; 0 before.
    command : str
        Command line that made the run.
    options : FitOptions
    task : str
        As decided from the target, or asked for.
    data : DataFile
    columns : tuple of mappings
        How each column was read, one a row.
    flags : tuple of str
        What a person should know about the columns.
    device : str
        What it was trained on, "cpu" or "cuda".
    versions : mapping of str to str
    files : mapping of str to str
        SHA-256 of the files that belong to a run that has ended: frontier, model, selection, and
        the checkpoint as it was where training was interrupted. Empty before, and for runs of
        versions that did not note it.
    """

    state: State
    iterations: int
    rounds: int
    command: str
    options: FitOptions
    task: str
    data: DataFile
    columns: tuple[Mapping[str, Any], ...]
    flags: tuple[str, ...]
    device: str
    versions: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)

    def ended(self, state: State, *, iterations: int, rounds: int) -> Self:
        """Return the record of the same run after training."""
        return replace(self, state=state, iterations=iterations, rounds=rounds)

    def to_document(self) -> dict[str, Any]:
        """Return the record as JSON has it, with the checksum of the rest."""
        content = {
            "equipoise_run": FORMAT,
            "state": self.state,
            "iterations_trained": self.iterations,
            "rounds_trained": self.rounds,
            "command": self.command,
            "options": self.options.to_document(),
            "task": self.task,
            "data": asdict(self.data),
            "columns": [dict(column) for column in self.columns],
            "flags": list(self.flags),
            "device": self.device,
            "versions": dict(self.versions),
            "files": dict(self.files),
        }
        return {**content, "checksum": _checksum(content)}


def versions(*, has_trees: bool) -> dict[str, str]:
    """Versions of what numbers depend on."""
    packages = (*PACKAGES, *(["lightgbm"] if has_trees else []))
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def write_record(path: Path, record: RunRecord) -> None:
    """Write settings.json, whole or not at all."""
    text = json.dumps(record.to_document(), indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(path, f"{text}\n".encode())


def read_record(path: Path) -> RunRecord:
    """Read settings.json; an `InputError` says what is wrong with another file."""
    document = read_document(path)
    found = document.get("equipoise_run")
    if found != FORMAT:
        made = document.get("versions", {}).get("equipoise", "another version")
        raise InputError(
            f"'{path}' must be settings of format {FORMAT}, got format {found!r}, written by "
            f"equipoise {made}; use that version, or fit again with this one "
            f"({version('equipoise')})"
        )
    content = {name: value for name, value in document.items() if name != "checksum"}
    if document.get("checksum") != _checksum(content):
        raise InputError(
            f"'{path}' must be as equipoise wrote it, but its checksum says that it was changed; "
            "undo the change (to train with other settings, give options beside --settings), or "
            "fit again"
        )
    return RunRecord(
        state=content["state"],
        iterations=content["iterations_trained"],
        rounds=content.get("rounds_trained", 0),  # runs from before there were trees have none
        command=content["command"],
        options=FitOptions.from_document(content["options"]),
        task=content["task"],
        data=DataFile(**content["data"]),
        columns=tuple(content["columns"]),
        flags=tuple(content["flags"]),
        device=content["device"],
        versions=content["versions"],
        files=content.get("files", {}),  # older versions noted none
    )


def read_document(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"'{path}' must be a settings file, but there is no file") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(
            f"'{path}' must hold JSON as equipoise wrote it, but it does not ({error}); restore "
            "it from a copy, or fit again"
        ) from None
    if not isinstance(document, dict):
        raise InputError(
            f"'{path}' must hold a JSON object, got {type(document).__name__}; restore it from a "
            "copy, or fit again"
        )
    return document


def describe_file(path: Path, rows: int) -> DataFile:
    """Return name, size and SHA-256 of a data file."""
    return DataFile(path=str(path), bytes=path.stat().st_size, sha256=sha256(path), rows=rows)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read a piece at a time."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
