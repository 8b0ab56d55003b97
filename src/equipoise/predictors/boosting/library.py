"""What a library of boosted trees must offer, and how its parameters are checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError, did_you_mean, needs

Floats = NDArray[np.float64]
Array = NDArray[Any]
Parameters = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How one member's model grows."""

    rows: Any  # as `Library.rows` made them
    task: str
    n_outputs: int
    own: bool  # whether the model follows the library's own objective
    start: Tensor  # (o,) of float64, what the trees add to, unless the model is the library's own
    unit: float  # where Huber's loss changes from squared to absolute
    seed: int
    parameters: Mapping[str, Any]  # as the user gave them and as decided here


class TreeModel(ABC):
    """The trees of one member; without a ``plan`` they are full-grown."""

    def __init__(self, plan: Plan | None) -> None:
        self._plan = plan

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles are full-grown: training rows do not travel with a model.
        return {**vars(self), "_plan": None}

    @property
    def plan(self) -> Plan:
        assert self._plan is not None
        return self._plan

    @abstractmethod
    def grow(self, gradient: Tensor, hessian: Tensor) -> None:
        """Add a round that follows gradient and Hessian (m, o), or the library's own objective."""

    @abstractmethod
    def seen(self) -> Tensor:
        """Outputs (m, o) on the rows that it grows on, in double precision."""

    @abstractmethod
    def rounds(self) -> int: ...

    @abstractmethod
    def outputs(self, x: Floats, first: int, rounds: int) -> Floats:
        """Sum of the trees of so many rounds from ``first`` on, (n, o), for rows x (n, p)."""

    @abstractmethod
    def text(self, rounds: int) -> str:
        """Write the first rounds, in ASCII, for `Library.read`."""

    def never_missing(self) -> frozenset[int]:
        """Columns that are split without a side for missing values."""
        return frozenset()


class Library(ABC):
    """One library. To add one, write its class and its line in `boosting.trees.LIBRARIES`."""

    #: The module to import, and the option of estimators that holds its parameters.
    name: ClassVar[str]
    title: ClassVar[str]
    #: The family of its trees, and the words for them.
    family: ClassVar[str]
    words: ClassVar[str]
    #: What ``pip install equipoise[...]`` calls it.
    extra: ClassVar[str]
    #: How arrays of its models are named in files.
    files: ClassVar[str]
    #: Parameters that are decided elsewhere, and where.
    decided: ClassVar[Mapping[str, str]]
    #: Parameters by which it draws rows, columns or cuts at random.
    drawing: ClassVar[tuple[str, ...]]
    #: Shares of rows that change nothing unless another parameter is set, which is 0 by default.
    idle_without: ClassVar[Mapping[str, str]] = MappingProxyType({})
    #: Its own objective of each task that it has one for.
    objectives: ClassVar[Mapping[str, str]]
    #: Where its module has what it raises when it refuses a parameter.
    error: ClassVar[str]
    #: Power of two up to which it reads numbers.
    largest_power: ClassVar[int]

    @abstractmethod
    def names(self) -> Mapping[str, str]:
        """Map every name that a parameter goes by to its main name."""

    @abstractmethod
    def hessian_factor(self, classes: int) -> float:
        """What it multiplies the diagonal of the Hessian by where there are several classes."""

    @abstractmethod
    def rows(
        self, x: Floats, target: Array, weight: Array | None, kinds: list[int], given: Parameters
    ) -> Any:
        """Return rows x (n, p) in its own form, to be shared by models.

        kinds: which columns hold numbers of categories. given: parameters.
        """

    def can_split(self, rows: Any) -> bool:
        """Whether some column of these rows can be split, where that matters."""
        return True

    @abstractmethod
    def model(self, plan: Plan) -> TreeModel:
        """Return a model before its first round."""

    @abstractmethod
    def resumed(self, plan: Plan, text: str, rounds: int, outputs: Tensor) -> TreeModel:
        """Return the model that had so many rounds and outputs (m, o), to grow on.

        ValueError where the text is not that of such a model.
        """

    @abstractmethod
    def read(self, text: str, inputs: int, outputs: int) -> TreeModel:
        """Return a model that was written as text; ValueError where it is none of that size."""

    def module(self, user: str) -> Any:
        """Return the module, or say for ``user`` how to get it."""
        with needs(self.name, user=user, extra=self.extra):
            return import_module(self.name)

    def checked(self, given: Parameters | None) -> dict[str, Any]:
        """Return parameters by their main names; refuse unknown ones and those decided here.

        The library itself only warns of a name it does not know, so a slip of the pen would pass.
        """
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise InputError(
                f"{self.name} must be a mapping of {self.title}'s parameters by name, such as "
                f"{{'max_depth': 4}}, got {type(given).__name__}"
            )
        names = self.names()
        found: dict[str, Any] = {}
        for name, value in given.items():
            if name not in names:
                raise InputError(
                    f"{self.name} must name parameters by which {self.title} grows trees, got "
                    f"{name!r}{did_you_mean(name, names)}"
                )
            main = names[name]
            if main in self.decided:
                raise InputError(
                    f"{self.name} must not set {name!r}, got {value!r}: {self.decided[main]}; "
                    "leave it out"
                )
            if main in found:
                raise InputError(f"{self.name} names {main!r} twice, the second time as {name!r}")
            found[main] = value
        for name, other in self.idle_without.items():
            if found.get(name, 1) != 1 and not found.get(other):
                raise InputError(
                    f"{self.name} must set {other!r} above 0 beside {name!r}, got {found[name]!r} "
                    f"without it, which {self.title} ignores; set {other!r} to 1, or leave "
                    f"{name!r} out"
                )
        return found

    def refuse_draws(self, given: Parameters | None) -> None:
        """Refuse parameters by which the library draws at random, where a run must be resumable."""
        for name, value in self.checked(given).items():
            if name in self.drawing:
                raise InputError(
                    f"checkpoint must be left out where {self.name} sets {name!r}, got {value!r}: "
                    f"{self.title} would draw anew after resuming; leave one of the two out"
                )

    @contextmanager
    def refused_in_words(self, parameters: Mapping[str, Any]) -> Iterator[None]:
        """Say of what the library refuses which parameters it was given."""
        try:
            yield
        except attrgetter(self.error)(self.module(self.name)) as error:
            said = " ".join(str(error).partition("Stack trace")[0].split())
            raise InputError(
                f"{self.name} must hold values that {self.title} takes, got {dict(parameters)}: "
                f"{said}; correct the parameter it names"
            ) from None


def demand(right: bool, what: str) -> None:
    """Refuse a text that was forged or damaged."""
    if not right:
        raise ValueError(f"a text of boosted trees is wrong about {what}")


def within(values: NDArray[Any], end: int) -> bool:
    """Whether all numbers are from 0 up to ``end``, which is not among them."""
    return bool(((values >= 0) & (values < end)).all())
