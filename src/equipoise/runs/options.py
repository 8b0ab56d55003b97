"""What a run was asked to do: every option of ``equipoise fit`` that decides its numbers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from equipoise.datafiles.tasks import Task
from equipoise.errors import InputError
from equipoise.frontier import FairFrontier
from equipoise.sensitive import Kind

_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(FairFrontier).parameters.items()
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
    strengths, seeds, notion, method, iterations, evaluate_every, missing_sensitive, device
        As for `FairFrontier`.
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
    notion: str = _DEFAULTS["notion"]
    method: str = _DEFAULTS["method"]
    strengths: tuple[float, ...] = _DEFAULTS["strengths"]
    seeds: int = _DEFAULTS["seeds"]
    iterations: int = _DEFAULTS["iterations"]
    evaluate_every: int = _DEFAULTS["evaluate_every"]
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
        if not 0 <= self.max_unfairness < float("inf"):
            raise InputError(
                "--max-unfairness must be a finite number of at least 0, got "
                f"{self.max_unfairness:g}; for example --max-unfairness 0.05"
            )

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> FitOptions:
        """Return the options that `to_document` wrote; lists become tuples again."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in document.items()
        }
        return cls(**values)

    def to_document(self) -> dict[str, Any]:
        """Return the options as JSON has them."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    def changes(self, later: FitOptions) -> list[str]:
        """Say in words which options are others in ``later``.

        >>> first = FitOptions(target="y", sensitive=("age",))
        >>> first.changes(FitOptions(target="y", sensitive=("age",), seeds=2))
        ['seeds was 5, is 2']
        """
        pairs = [(each.name, getattr(self, each.name)) for each in fields(self)]
        return [
            f"{name} was {_shown(value)}, is {_shown(getattr(later, name))}"
            for name, value in pairs
            if value != getattr(later, name)
        ]

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
