"""What a run was asked to do, and settings.json, which keeps that with a checksum."""

from __future__ import annotations

import hashlib
import inspect
import json
import platform
import shlex
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import pandas as pd

from equipoise.errors import InputError
from equipoise.estimators import (
    Classifies,
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairRegressor,
    Regresses,
)
from equipoise.files.kinds import Task
from equipoise.frontier import FairFrontier
from equipoise.predictors.boosting import LIBRARIES, Library
from equipoise.report.page import plain
from equipoise.storage import write_atomically
from equipoise.tables import Kind

#: Grows when what is written can no longer be read as before.
FORMAT = 1
PACKAGES = ("equipoise", "torch", "numpy", "pandas", "pyarrow", "scikit-learn", "scipy")

State = Literal["training", "interrupted", "finished"]

Name = TypeVar("Name", str, str | None)
_DEFAULTS: dict[str, Any] = {
    name: parameter.default
    for of in (FairBoostingClassifier, FairClassifier, FairFrontier)
    for name, parameter in inspect.signature(of).parameters.items()
}
#: Iterations of a network between snapshots, as `FairFrontier` has it.
_EVALUATE_EVERY = 100
#: Libraries by the predictors whose trees they grow.
_LIBRARIES: Mapping[str, Library] = {
    **{library.family: library for library in LIBRARIES.values()},
    "both": LIBRARIES["lightgbm"],
}
#: Options that are of no use to some predictors, and to which.
_UNUSED: Mapping[str, tuple[str, ...]] = {
    "network": ("rounds",),
    **dict.fromkeys(_LIBRARIES, ("iterations", "evaluate_every")),
    "both": (),
}


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Options of a run; those of training have the names and defaults of `FairFrontier`.

    Attributes
    ----------
    target : str
    sensitive, id, drop, features : tuple of str
        Names of columns; no ``features`` means all that are left.
    task : str
        "classification" or "regression"; empty where the target decides.
    predictor, strengths, seeds, notion, method, missing_sensitive, device
        As for `FairFrontier`.
    iterations, evaluate_every
        As for `FairFrontier`; of networks.
    rounds : int
        As for `FairBoostingClassifier`; of boosted trees.
    metrics : tuple of str
        Metrics of unfairness; empty for those of the notion.
    types : mapping of column to "discrete" or "continuous"
        For sensitive columns that the rules would type otherwise.
    seed : int
    max_unfairness : float
        Budget that the model picked at the end of training is to keep.
    """

    target: str
    sensitive: tuple[str, ...]
    id: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    task: str = ""
    predictor: Literal["network", "boosting", "xgboost", "both"] = "network"
    notion: str = _DEFAULTS["notion"]
    method: str = _DEFAULTS["method"]
    strengths: tuple[float, ...] = _DEFAULTS["strengths"]
    seeds: int = _DEFAULTS["seeds"]
    iterations: int = _DEFAULTS["iterations"]
    evaluate_every: int = _EVALUATE_EVERY
    rounds: int = _DEFAULTS["rounds"]
    metrics: tuple[str, ...] = ()
    types: Mapping[str, Kind] = field(default_factory=dict)
    missing_sensitive: Literal["error", "skip"] = _DEFAULTS["missing_sensitive"]
    seed: int = 0
    device: str = _DEFAULTS["device"]
    max_unfairness: float = 0.1

    def __post_init__(self) -> None:
        if not self.sensitive:
            raise InputError(
                "--sensitive must name at least one column, got none; for example "
                "--sensitive age,sex"
            )
        if self.predictor not in _UNUSED:
            raise InputError(
                f"--predictor must be {', '.join(list(_UNUSED)[:-1])} or {list(_UNUSED)[-1]}, got "
                f"{self.predictor!r}"
            )
        if self.rounds < 1:
            raise InputError(f"--rounds must be at least 1, got {self.rounds}")
        if not 0 <= self.max_unfairness < float("inf"):
            raise InputError(
                "--max-unfairness must be a finite number of at least 0, got "
                f"{self.max_unfairness:g}; for example --max-unfairness 0.05"
            )

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> FitOptions:
        """Return the options that `to_document` wrote; lists become tuples again.

        What is of no use to the predictor, as where that is changed, is left out.
        """
        unused = _UNUSED.get(document.get("predictor", cls.predictor), ())
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in document.items()
            if name not in unused
        }
        return cls(**values)

    def to_document(self) -> dict[str, Any]:
        """Return the options that the predictor has a use for, as JSON has them."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
            if name not in self.unused
        }

    def changes(self, later: FitOptions) -> list[str]:
        """Say in words which options that both have a use for are others in ``later``.

        >>> first = FitOptions(target="y", sensitive=("age",))
        >>> first.changes(FitOptions(target="y", sensitive=("age",), seeds=2))
        ['seeds was 5, is 2']
        """
        pairs = [(each.name, getattr(self, each.name)) for each in fields(self)]
        return [
            f"{name} was {_shown(value)}, is {_shown(getattr(later, name))}"
            for name, value in pairs
            if value != getattr(later, name) and name not in (*self.unused, *later.unused)
        ]

    @property
    def unused(self) -> tuple[str, ...]:
        """Names of the options that are of no use to the predictor."""
        return _UNUSED[self.predictor]

    @property
    def has_networks(self) -> bool:
        """Whether networks are trained."""
        return self.predictor in ("network", "both")

    @property
    def library(self) -> Library | None:
        """What grows boosted trees; None where none are grown."""
        return _LIBRARIES.get(self.predictor)

    def to_arguments(self) -> list[str]:
        """Return the arguments of ``equipoise fit`` that stand for these options.

        >>> FitOptions(target="y", sensitive=("age", "last, first"), seeds=2).to_arguments()
        ['--target', 'y', '--sensitive', 'age,"last, first"', '--seeds', '2']
        """
        plain = FitOptions(target="", sensitive=("",))
        return [
            argument
            for each in fields(self)
            if (value := getattr(self, each.name)) != getattr(plain, each.name)
            for argument in (f"--{each.name.replace('_', '-')}", _as_argument(value))
        ]

    def frontier(self, task: Task, *, verbose: int) -> FairFrontier:
        """Return the frontier to train."""
        regression = task == "regression"
        shared: dict[str, Any] = {
            "notion": self.notion,
            "method": self.method,
            "sensitive_types": dict(self.types) or None,
            "missing_sensitive": self.missing_sensitive,
        }
        estimators: list[Classifies | Regresses] = []
        if self.has_networks:
            network = FairRegressor if regression else FairClassifier
            estimators.append(network(iterations=self.iterations, device=self.device, **shared))
        if self.library is not None:
            trees = FairBoostingRegressor if regression else FairBoostingClassifier
            shared["library"] = self.library.name
            estimators.append(trees(rounds=self.rounds, **shared))
        every: list[Any] = [self.evaluate_every, "default"]
        return FairFrontier(
            estimators if len(estimators) > 1 else estimators[0],
            strengths=self.strengths,
            seeds=self.seeds,
            evaluate_every=every if len(estimators) > 1 else every[not self.has_networks],
            metrics=self.metrics or "default",
            random_state=self.seed,
            verbose=verbose,
        )


def _as_argument(value: object) -> str:
    """Write a value as the command line reads it: commas between, quotes around what has one."""
    if isinstance(value, Mapping):
        return _as_argument(tuple(f"{column}={kind}" for column, kind in value.items()))
    if not isinstance(value, tuple):
        return str(value)
    return ",".join(_quoted(each) if isinstance(each, str) else _digits(each) for each in value)


def _digits(number: float) -> str:
    return str(number).removesuffix(".0")


def _quoted(name: str) -> str:
    """A name as CSV has it: in quotes where it holds what would end it, or begins with a blank."""
    plain = not any(mark in name for mark in ',"\r\n') and name == name.lstrip()
    return name if plain else '"' + name.replace('"', '""') + '"'


def _shown(value: object) -> str:
    return ",".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, kw_only=True)
class DataFacts:
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
    data : DataFacts
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
    data: DataFacts
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


def versions(library: Library | None) -> dict[str, str]:
    """Versions of what numbers depend on, with the library that grows trees."""
    found = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    if library is not None:
        found[library.name] = library.module("fit").__version__
    return found


def describe_file(path: Path, rows: int) -> DataFacts:
    """Return name, size and SHA-256 of a data file."""
    return DataFacts(path=str(path), bytes=path.stat().st_size, sha256=sha256(path), rows=rows)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read a piece at a time."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_record(path: Path, record: RunRecord) -> None:
    """Write settings.json, whole or not at all."""
    write_json(path, record.to_document())


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
        data=DataFacts(**content["data"]),
        columns=tuple(content["columns"]),
        flags=tuple(content["flags"]),
        device=content["device"],
        versions=content["versions"],
        files=content.get("files", {}),  # older versions noted none
    )


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON object, whole or not at all."""
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(path, f"{text}\n".encode())


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


def plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """One mapping for each row, as JSON has it; what is missing or undefined is None.

    >>> plain_rows(pd.DataFrame({"a": [1, 2], "b": [0.5, float("nan")]}))
    [{'a': 1, 'b': 0.5}, {'a': 2, 'b': None}]
    """
    known = frame.astype(object).where(frame.notna(), None)
    rows: list[dict[str, Any]] = plain(known.to_dict("records"))
    return rows


def known_name(name: Name, known: Collection[str]) -> Name:
    """The known name that was meant, case apart; or the name as it came, for others to refuse.

    >>> known_name("ks-gsp", ["KS-GSP", "SP"])
    'KS-GSP'
    """
    if name is None or name in known:
        return name
    alike = [each for each in known if each.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else name


def command_line(*parts: str | Path) -> str:
    """Return a command line as it can be typed; a path is never taken for an option.

    >>> command_line("equipoise", "select", Path("my run"))
    "equipoise select 'my run'"
    >>> command_line("equipoise", "select", Path("-run"))
    'equipoise select ./-run'
    """
    return shlex.join(
        f"./{part}" if isinstance(part, Path) and str(part).startswith("-") else str(part)
        for part in parts
    )
