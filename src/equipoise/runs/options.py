"""What a run was asked to do: every option of ``equipoise fit`` that decides its numbers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from equipoise.errors import InputError
from equipoise.estimators import FairBoostingClassifier
from equipoise.files.tasks import Task
from equipoise.frontier import FairFrontier
from equipoise.frontier.families import Family
from equipoise.tables import Kind

_DEFAULTS, _DEFAULTS_OF_TREES = (
    {name: parameter.default for name, parameter in inspect.signature(of).parameters.items()}
    for of in (FairFrontier, FairBoostingClassifier)
)
#: Options that are of no use to some predictors, and to which.
_UNUSED: Mapping[str, tuple[str, ...]] = {
    "network": ("rounds",),
    "boosting": ("iterations", "evaluate_every"),
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
    predictor: Family = _DEFAULTS["predictor"]
    notion: str = _DEFAULTS["notion"]
    method: str = _DEFAULTS["method"]
    strengths: tuple[float, ...] = _DEFAULTS["strengths"]
    seeds: int = _DEFAULTS["seeds"]
    iterations: int = _DEFAULTS["iterations"]
    evaluate_every: int = _DEFAULTS["evaluate_every"]
    rounds: int = _DEFAULTS_OF_TREES["rounds"]
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
        return self.predictor != "boosting"

    @property
    def has_trees(self) -> bool:
        """Whether boosted trees are grown."""
        return self.predictor != "network"

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
        return FairFrontier(
            strengths=self.strengths,
            seeds=self.seeds,
            evaluate_every=self.evaluate_every,
            metrics=self.metrics or "default",
            predictor=self.predictor,
            boosting={"rounds": self.rounds} if self.has_trees else None,
            task=task,
            notion=self.notion,
            method=self.method,
            iterations=self.iterations,
            sensitive_types=dict(self.types) or None,
            missing_sensitive=self.missing_sensitive,
            random_state=self.seed,
            device=self.device,
            verbose=verbose,
            progress_budget=self.max_unfairness,
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
