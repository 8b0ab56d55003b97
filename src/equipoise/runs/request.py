"""What ``equipoise fit`` was asked: options given, and those of a run to repeat or resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.errors import InputError
from equipoise.metrics import METRICS
from equipoise.runs.folder import resume_command, unfinished_run
from equipoise.runs.names import command_line, known_name
from equipoise.runs.options import FitOptions
from equipoise.runs.record import DataFile, RunRecord, read_record

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
