"""What a run was asked to do, and settings.json, which keeps that with a checksum."""

from __future__ import annotations

import glob
import hashlib
import inspect
import json
import os
import platform
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import pandas as pd

from equipoise.cluster import Engine, uses_cluster
from equipoise.distributed.fitting import WINDOW, FitRequest
from equipoise.errors import (
    InputError,
    check_choice,
    check_number,
    check_whole,
    did_you_mean,
    refuse_unread,
)
from equipoise.estimators import (
    FairAdjuster,
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairRegressor,
)
from equipoise.files import Columns, read_columns
from equipoise.files.columns import check_columns
from equipoise.files.contents import Task
from equipoise.files.reading import check_separator
from equipoise.frontier import FairFrontier
from equipoise.frontier.fitting import check_options
from equipoise.inference.verdict import Decisions, Favourable
from equipoise.predictors import FAMILIES
from equipoise.predictors.boosting import LIBRARIES, Library
from equipoise.report.frontier_page import gap_among
from equipoise.report.page import Source, plain, today
from equipoise.storage import write_atomically
from equipoise.tables import Kind
from equipoise.tables.sensitive_table import check_types

#: Grows when what is written can no longer be read as before.
FORMAT = 1
PACKAGES = ("equipoise", "torch", "numpy", "pandas", "pyarrow", "scikit-learn", "scipy")

State = Literal["training", "interrupted", "finished"]

Name = TypeVar("Name", str, str | None)
#: What ``--predictor`` may be, and the families that it means.
PREDICTORS = {**{family: (family,) for family in FAMILIES}, "both": ("network", "boosting")}
_LIBRARIES = {library.family: library for library in LIBRARIES.values()}
_DEFAULTS: dict[str, Any] = {
    name: parameter.default
    for of in (FairBoostingClassifier, FairClassifier, FairFrontier)
    for name, parameter in inspect.signature(of).parameters.items()
}


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Every option of ``equipoise fit`` and ``adjust`` that decides a run or the words about it.

    Options of training have the names and defaults of `FairFrontier` and its estimators.
    """

    target: str
    sensitive: tuple[str, ...]
    id: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] = ()  # without any: all other columns
    score: tuple[str, ...] = ()  # columns of scores to adjust; then nothing else is a feature
    increasing: bool = False  # whether adjusted scores increase with the scores
    task: str = ""  # empty where the target decides
    positive: str = ""  # label of the target; empty for the second in sorted order
    category: tuple[str, ...] = ()  # columns of numbers that are codes
    weight: str = ""  # column of the weights of rows
    group_split: str = ""  # column whose equal values stay in one part
    time_split: str = ""  # column by which the latest rows are test rows
    sep: str = ""  # between the values of a text file; empty where its name says it
    predictor: str = "network"  # a key of PREDICTORS
    notion: str = _DEFAULTS["notion"]
    method: str = _DEFAULTS["method"]
    strengths: tuple[float, ...] = _DEFAULTS["strengths"]
    seeds: int = _DEFAULTS["seeds"]
    iterations: int = _DEFAULTS["iterations"]
    evaluate_every: int = 100
    rounds: int = _DEFAULTS["rounds"]
    metrics: tuple[str, ...] = ()  # empty for those of the notion
    types: Mapping[str, Kind] = field(default_factory=dict)
    missing_sensitive: Literal["error", "skip"] = _DEFAULTS["missing_sensitive"]
    sensitive_at_prediction: bool = _DEFAULTS["sensitive_at_prediction"]
    seed: int = 0
    engine: Engine = "local"
    workers: int | None = None  # processes that train together on a cluster
    device: str = _DEFAULTS["device"]
    #: On the first metric of the model that is picked at the end of training, for every attribute
    #: or for those named. The command line calls it --max-gap where that metric is a gap.
    max_unfairness: float | Mapping[str, float] = 0.1
    min_utility: float | None = None  # of the model that is picked
    allow_nearest: bool = False  # whether the nearest is picked if no model keeps the limits
    allow_useless: bool = False  # whether models that are no better than chance may be picked
    # What the pages say; no number depends on it.
    favourable: Favourable = "high"
    decision: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        if not self.sensitive:
            raise InputError(
                "--sensitive must name at least one column, got none; for example "
                "--sensitive age,sex"
            )
        check_choice("--predictor", self.predictor, tuple(PREDICTORS))
        check_whole("--rounds", self.rounds)
        if self.score and self.predictor != "network":
            raise InputError(
                f"--predictor must be network to adjust scores, got {self.predictor}; leave it out"
            )
        if self.min_utility is not None:
            rule = "must be at most 1, the utility of perfect scores"
            check_number("--min-utility", self.min_utility, rule, lambda least: least <= 1)
        Decisions(self.favourable, self.decision)  # raises
        limits = self.max_unfairness
        for column in limits if isinstance(limits, Mapping) else ():
            if column not in self.sensitive:
                raise InputError(
                    f"{self.limit_option} must name columns of --sensitive "
                    f"({', '.join(self.sensitive)}), got {column!r}; correct it, or give one limit "
                    f"for all{did_you_mean(column, self.sensitive)}"
                )

    def check(self) -> None:
        """Refuse options that no data can be trained with, before any data are read."""
        if self.task:
            check_choice("--task", self.task, get_args(Task))
        check_choice("--missing-sensitive", self.missing_sensitive, ("error", "skip"))
        if self.sep:
            check_separator("--sep", self.sep)
        check_types(self.types, self.sensitive)
        if self.group_split and self.time_split:
            raise InputError(
                f"--group-split must stand alone, got {self.group_split!r} and --time-split "
                f"{self.time_split!r}; leave one out"
            )
        self._check_roles()
        if uses_cluster(self.engine, self.workers):
            self.request()
            return
        check_options(self._any_frontier())

    def _any_frontier(self) -> FairFrontier:
        """The frontier, as far as it is known before the target is."""
        task: Task = "regression" if self.task == "regression" else "classification"
        return self.frontier(task, verbose=0)

    def request(self) -> FitRequest:
        """Return what is read from files on a cluster; refuse options that mean nothing there."""
        for name in ("sep", "category", "time_split"):
            if value := getattr(self, name):
                remedy = {
                    "sep": "write Parquet files",
                    "category": "write such columns as text",
                    "time_split": "split by --group-split, or draw test rows beforehand",
                }[name]
                option = f"--{name.replace('_', '-')}"
                refuse_unread(option, as_argument(value), "--engine ray", remedy)
        return FitRequest.of(
            self._any_frontier(),
            target=self.target,
            sensitive=self.sensitive,
            features=self.score or self.features or None,
            drop=(*self.id, *self.drop),
            weight=self.weight or None,
            key=self.group_split or None,
            workers=1 if self.workers is None else self.workers,
            window=WINDOW,
        )

    def _check_roles(self) -> None:
        """Refuse columns that two options name, as far as no file is needed to know."""
        named = {
            "--target": (self.target,),
            "--sensitive": self.sensitive,
            "--id": self.id,
            "--drop": self.drop,
            "--weight": (self.weight,) if self.weight else (),
        }
        split = "--group-split" if self.group_split else "--time-split"
        pairs = [("--category", each, other) for each in self.category for other in named]
        pairs += [("--weight", self.weight, other) for other in named if other != "--weight"]
        pairs += [
            (split, self.group_split or self.time_split, other)
            for other in ("--target", "--weight")
        ]
        for option, column, other in pairs:
            if column and column in named[other]:
                remedy = "take it out of one of them"
                if option == "--category":
                    remedy = "it is for features only"
                    if other == "--sensitive":
                        remedy += f"; --types {column}=discrete is for sensitive columns"
                raise InputError(
                    f"{option} must not name a column of {other}, got {column!r} for both; {remedy}"
                )

    def columns(self, frame: pd.DataFrame, say: Callable[[str], None]) -> Columns:
        """Decide how each column of the data is used."""
        # To the reader below scores are features, a word that whoever typed --score did not use.
        check_columns("--score", self.score, [str(name) for name in frame.columns])
        unused = self.id, self.drop
        if self.engine != "local":  # what is not used was not read
            unused = (), ()
        return read_columns(
            frame,
            target=self.target,
            sensitive=self.sensitive,
            id=unused[0],
            drop=unused[1],
            features=self.score or self.features or None,
            task=self.task or None,
            sensitive_types=self.types or None,
            positive=self.positive or None,
            weight=self.weight or None,
            split=self.group_split or self.time_split or None,
            say=say,
        )

    def rows(self, frame: pd.DataFrame, columns: Columns) -> dict[str, Any]:
        """Return the arguments of `FairFrontier.fit`."""
        optional = {
            "sample_weight": self.weight,
            "groups": self.group_split,
            "times": self.time_split,
        }
        return {
            "X": frame[list(self.score) or columns.features],
            "y": frame[columns.target],
            "sensitive_features": frame[columns.sensitive],
            "positive": columns.outcome.classes[-1] if self.positive else None,
            **{name: frame[column] for name, column in optional.items() if column},
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> FitOptions:
        """Return the options that `to_document` wrote; lists become tuples again.

        Options that the predictor does not read, as after a change of predictor, are left out.
        """
        unread = _unread(document.get("predictor", cls.predictor))
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in document.items()
            if name not in unread
        }
        return cls(**values)

    def to_document(self) -> dict[str, Any]:
        """Return the options that the predictor reads, as JSON has them."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if name not in self.unread
        }

    def changes(self, later: FitOptions) -> list[str]:
        """Say in words which options, among those that both read, differ in ``later``.

        >>> first = FitOptions(target="y", sensitive=("age",))
        >>> first.changes(FitOptions(target="y", sensitive=("age",), seeds=2))
        ['seeds was 3, is 2']
        """
        return [
            f"{name} was {_shown(value)}, is {_shown(getattr(later, name))}"
            for name, value in vars(self).items()
            if value != getattr(later, name) and name not in (*self.unread, *later.unread)
        ]

    @property
    def unread(self) -> tuple[str, ...]:
        """Names of the options that the predictor does not read."""
        return _unread(self.predictor)

    @property
    def decisions(self) -> Decisions:
        """What a positive decision means for the person it is about."""
        return Decisions(self.favourable, self.decision)

    @property
    def lengths(self) -> dict[str, int]:
        """How long each family is trained: iterations of networks, rounds of trees."""
        return {
            family: self.iterations if family == "network" else self.rounds
            for family in PREDICTORS[self.predictor]
        }

    @property
    def has_networks(self) -> bool:
        """Whether networks are trained."""
        return "network" in self.lengths

    @property
    def libraries(self) -> list[Library]:
        """The libraries that grow trees; none where only networks are trained."""
        return [_LIBRARIES[family] for family in self.lengths if family in _LIBRARIES]

    @property
    def limit_option(self) -> str:
        """The option that limits the first metric, which is a gap unless others were named."""
        return limit_option(self.metrics[0], self.metrics) if self.metrics else "--max-gap"

    @property
    def command(self) -> str:
        """The command that makes such a run."""
        return "adjust" if self.score else "fit"

    def to_arguments(self) -> list[str]:
        """Return the arguments of the command that stand for these options.

        >>> FitOptions(target="y", sensitive=("age", "last, first"), seeds=2).to_arguments()
        ['--target', 'y', '--sensitive', 'age,"last, first"', '--seeds', '2']
        """
        plain = vars(FitOptions(target="", sensitive=("",)))
        return [
            argument
            for name, value in vars(self).items()
            if value != plain[name]
            for argument in (self._option(name), *([] if value is True else [as_argument(value)]))
        ]

    def _option(self, name: str) -> str:
        return self.limit_option if name == "max_unfairness" else f"--{name.replace('_', '-')}"

    def frontier(self, task: Task, *, verbose: int) -> FairFrontier:
        """Return the frontier to train."""
        shared: dict[str, Any] = {
            "notion": self.notion,
            "method": self.method,
            "sensitive_types": dict(self.types) or None,
            "missing_sensitive": self.missing_sensitive,
        }
        network: Any
        network, trees = (
            (FairRegressor, FairBoostingRegressor)
            if task == "regression"
            else (FairClassifier, FairBoostingClassifier)
        )
        if self.score:
            network = partial(FairAdjuster, task=task, increasing=self.increasing)
        else:
            shared["sensitive_at_prediction"] = self.sensitive_at_prediction
        estimators: list[Any] = []
        every: list[Any] = []
        if self.has_networks:
            estimators.append(network(iterations=self.iterations, device=self.device, **shared))
            every.append(self.evaluate_every)
        for library in self.libraries:
            own: dict[str, Any] = {"rounds": self.rounds, "library": library.name}
            estimators.append(trees(**own, **shared))
            every.append("default")
        several = len(estimators) > 1
        return FairFrontier(
            estimators if several else estimators[0],
            strengths=self.strengths,
            seeds=self.seeds,
            evaluate_every=every if several else every[0],
            metrics=self.metrics or "default",
            random_state=self.seed,
            verbose=verbose,
        )


def limit_option(metric: str, metrics: Iterable[str]) -> str:
    """The option that limits a metric of a run that was judged by ``metrics``.

    >>> limit_option("gap", ["gap", "KS-GSP"]), limit_option("KS-GSP", ["gap", "KS-GSP"])
    ('--max-gap', '--max-unfairness')
    """
    return "--max-gap" if metric == gap_among(metrics) else "--max-unfairness"


def _unread(predictor: str) -> tuple[str, ...]:
    families = PREDICTORS.get(predictor, ())
    of_networks = () if "network" in families else ("iterations", "evaluate_every")
    return of_networks if set(families) - {"network"} else ("rounds", *of_networks)


def as_argument(value: object) -> str:
    """Write a value as the command line reads it: commas between, quotes around what has one."""
    if isinstance(value, Mapping):
        value = tuple(f"{column}={each}" for column, each in value.items())
    return ",".join(map(_quoted, value)) if isinstance(value, tuple) else str(value)


def _quoted(part: str | float) -> str:
    """A name as CSV has it: in quotes where it holds what would end it, or begins with a blank."""
    if not isinstance(part, str):
        return str(part).removesuffix(".0")
    plain = not any(mark in part for mark in ',"\r\n') and part == part.lstrip()
    return part if plain else '"' + part.replace('"', '""') + '"'


def _shown(value: object) -> str:
    return ",".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """The file a run was trained on: its name as given, size, SHA-256, number of rows, place."""

    path: str
    bytes: int
    sha256: str
    rows: int
    # Its path from the run folder, so that it is found from any folder. Empty for an absolute path
    # and in runs of older versions.
    from_folder: str = ""

    @classmethod
    def of(cls, path: Path, folder: Path, rows: int) -> DataFacts:
        """Describe a file that was read for the run in ``folder``."""
        return cls.stated(path, folder, rows, path.stat().st_size, sha256(path))

    @classmethod
    def stated(cls, path: Path, folder: Path, rows: int, size: int, digest: str) -> DataFacts:
        """Describe the files that ``path`` names, of which size and digest are known."""
        from_folder = ""
        if not path.is_absolute():
            with suppress(ValueError):  # on another drive of Windows
                from_folder = os.path.relpath(path.absolute(), folder.absolute())
        return cls(
            path=str(path),
            bytes=size,
            sha256=digest,
            rows=rows,
            from_folder=from_folder,
        )

    def find(self, folder: Path) -> Path:
        """Return the file: where its name leads from here, or else from the run in ``folder``.

        If both exist, the one that was read counts.
        """
        places = [Path(self.path)]
        if self.from_folder:
            places.append(Path(os.path.normpath(folder / self.from_folder)))
        found = [place for place in dict.fromkeys(places) if glob.glob(str(place), recursive=True)]
        if found and not found[0].is_file():  # a pattern
            return found[0]
        found = [place for place in found if place.is_file()]
        if not found:
            looked = " and ".join(f"'{place}'" for place in dict.fromkeys(places))
            raise InputError(
                f"DATA must be the file that the run was trained on, got none at {looked}; put it "
                "back, or name it: equipoise fit DATA ..."
            )
        if len(found) > 1 and sha256(found[0]) != self.sha256 == sha256(found[1]):
            return found[1]
        return found[0]


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Everything known of a run beside its numbers."""

    state: State
    iterations_trained: int = 0  # of networks, when training ended
    rounds_trained: int = 0  # of trees
    command: str
    options: FitOptions
    task: str
    data: DataFacts
    columns: tuple[Mapping[str, Any], ...]  # how each was read
    flags: tuple[str, ...]  # what a person should know about them
    device: str  # what it was trained on, "cpu" or "cuda"
    versions: Mapping[str, str]
    made: str = field(default_factory=today)  # date; "" in runs of older versions
    # SHA-256 of the files of a run that has ended: frontier, model, selection, and the checkpoint
    # if training was interrupted. Empty before, and in runs of older versions.
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> Source:
        """What pages say about where their numbers come from."""
        return Source(Path(self.data.path).name, self.data.sha256, self.made or today())

    @property
    def has_model(self) -> bool:
        """Whether a model of the run was chosen; runs of older versions always have one."""
        return not self.files or "selection.json" in self.files

    def to_document(self) -> dict[str, Any]:
        """Return the record as JSON has it, with the checksum of the rest."""
        content = {
            "equipoise_run": FORMAT,
            **vars(self),
            "options": self.options.to_document(),
            "data": vars(self.data),
        }
        return {**content, "checksum": _checksum(content)}


def versions(libraries: Iterable[Library]) -> dict[str, str]:
    """Versions of what numbers depend on."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        # By the module: packages of several names hold the same library.
        **{each.name: each.module("settings.json").__version__ for each in libraries},
    }


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read a piece at a time."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_record(path: Path) -> RunRecord:
    """Read settings.json; an `InputError` says what is wrong with another file."""
    content = read_document(path)
    checksum, found = content.pop("checksum", None), content.get("equipoise_run")
    if found != FORMAT:
        made = content.get("versions", {}).get("equipoise", "another version")
        raise InputError(
            f"'{path}' must be settings of format {FORMAT}, got format {found!r}, written by "
            f"equipoise {made}; use that version, or fit again with this one "
            f"({version('equipoise')})"
        )
    if checksum != _checksum(content):
        raise InputError(
            f"'{path}' must be as equipoise wrote it, but its checksum says that it was changed; "
            "undo the change (to train with other settings, give options beside --settings), or "
            "fit again"
        )
    del content["equipoise_run"]
    content.setdefault("made", "")
    read: dict[str, Callable[[Any], Any]] = {
        "options": FitOptions.from_document,
        "data": lambda facts: DataFacts(**facts),
        "columns": tuple,
        "flags": tuple,
    }
    return RunRecord(**content | {name: turn(content[name]) for name, turn in read.items()})


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
