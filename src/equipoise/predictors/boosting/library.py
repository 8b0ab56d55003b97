"""The interface of a library of boosted trees, and the checks of its parameters."""

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
    """Everything needed to train one member's model."""

    rows: Any  # as made by `Library.rows`
    task: str
    n_outputs: int
    own: bool  # whether the model follows the library's own objective
    start: Tensor  # (o,), float64, the constant to which trees are added; not used if ``own``
    unit: float  # where Huber's loss changes from squared to absolute
    seed: int
    parameters: Mapping[str, Any]  # of the user and of the estimator


class TreeModel(ABC):
    """The trees of one member; without a ``plan`` they cannot grow further."""

    def __init__(self, plan: Plan | None) -> None:
        self._plan = plan

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles of a model do not contain the training rows.
        return {**vars(self), "_plan": None}

    @property
    def plan(self) -> Plan:
        assert self._plan is not None
        return self._plan

    @abstractmethod
    def grow(self, gradient: Tensor, hessian: Tensor) -> None:
        """Add a round by gradient and Hessian (m, o), or by the library's own objective."""

    @abstractmethod
    def training_outputs(self) -> Tensor:
        """Return the outputs (m, o) on the training rows, in double precision."""

    @abstractmethod
    def rounds(self) -> int: ...

    @abstractmethod
    def outputs(self, x: Floats, first: int, rounds: int) -> Floats:
        """Return the sum of ``rounds`` rounds of trees from ``first`` on, (n, o), for x (n, p)."""

    @abstractmethod
    def text(self, rounds: int) -> str:
        """Return the first rounds as ASCII text for `Library.read`."""

    def never_missing(self) -> frozenset[int]:
        """Columns with splits that have no side for missing values."""
        return frozenset()


#: Parameters that a user cannot set in any library, and the reason or the option to use instead.
RESERVED = {
    "objective": "the task and the penalty are the objective",
    "learning_rate": "use learning_rate",
    "num_class": "y says how many classes there are",
    "seed": "use random_state",
    "verbosity": "use verbose",
    "scale_pos_weight": "use sample_weight",
}


class Library(ABC):
    """One library. To add one, write its class and its line in `boosting.trees.LIBRARIES`."""

    #: The module to import, and the option of estimators that holds its parameters.
    name: ClassVar[str]
    title: ClassVar[str]
    #: The family of its trees, and the words for them.
    family: ClassVar[str]
    description: ClassVar[str]
    #: Its name in ``pip install equipoise[...]``.
    extra: ClassVar[str]
    #: Prefix of the names of its arrays in files.
    array_prefix: ClassVar[str]
    #: Parameters that differ from the library's defaults unless a user sets them: smaller and more
    #: regularized trees, chosen on many small tables (docs/defaults.md).
    chosen: ClassVar[Mapping[str, Any]]
    #: Parameters that a user cannot set, as in `RESERVED`.
    reserved: ClassVar[Mapping[str, str]]
    #: Parameters that make it draw rows, columns or splits at random.
    random_parameters: ClassVar[tuple[str, ...]]
    #: Shares of rows that have no effect unless another parameter, 0 by default, is set.
    needs_parameter: ClassVar[Mapping[str, str]] = MappingProxyType({})
    #: Its own objective for each task, if it has one.
    objectives: ClassVar[Mapping[str, str]]
    #: Its parameter for the number of threads.
    threads: ClassVar[str]
    #: Name in its module of the exception that it raises for a bad parameter.
    error: ClassVar[str]
    #: Largest power of two that it can read.
    largest_power: ClassVar[int]

    @abstractmethod
    def parameter_names(self) -> Mapping[str, str]:
        """Map every name of a parameter to its main name."""

    @abstractmethod
    def hessian_factor(self, classes: int) -> float:
        """Return the factor on the diagonal of the Hessian if there are several classes."""

    @abstractmethod
    def rows(
        self, x: Floats, y: Array, weight: Array | None, categorical: list[int], options: Parameters
    ) -> Any:
        """Return rows x (n, p) in the library's own form, which models can share.

        categorical: the columns that hold categories. options: parameters of the library.
        """

    def can_split(self, rows: Any) -> bool:
        """Whether some column of these rows can be split."""
        return True

    @abstractmethod
    def model(self, plan: Plan) -> TreeModel:
        """Return a model before its first round."""

    @abstractmethod
    def resumed(self, plan: Plan, text: str, rounds: int, outputs: Tensor) -> TreeModel:
        """Return the model with these rounds and outputs (m, o), ready to grow further.

        ValueError if the text is not that of such a model.
        """

    @abstractmethod
    def read(self, text: str, inputs: int, outputs: int) -> TreeModel:
        """Return a model from its text; ValueError if it is not a model of that size."""

    def module(self, user: str) -> Any:
        """Return the imported module; if it is missing, an error tells ``user`` how to get it."""
        with needs(self.name, user=user, extra=self.extra):
            return import_module(self.name)

    def checked(self, given: Parameters | None) -> dict[str, Any]:
        """Return parameters by their main names; refuse unknown and reserved ones.

        The library itself only warns about an unknown name, so a misspelling would go unnoticed.
        """
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise InputError(
                f"{self.name} must be a mapping of {self.title}'s parameters by name, such as "
                f"{{'max_depth': 4}}, got {type(given).__name__}"
            )
        names = self.parameter_names()
        parameters: dict[str, Any] = {}
        for name, value in given.items():
            if name not in names:
                raise InputError(
                    f"{self.name} must name parameters by which {self.title} grows trees, got "
                    f"{name!r}{did_you_mean(name, names)}"
                )
            main = names[name]
            if main in self.reserved:
                raise InputError(
                    f"{self.name} must not set {name!r}, got {value!r}: {self.reserved[main]}; "
                    "leave it out"
                )
            if main in parameters:
                raise InputError(
                    f"{self.name} must set a parameter once, got {main!r} again as {name!r}; leave "
                    "one of them out"
                )
            parameters[main] = value
        for name, other in self.needs_parameter.items():
            if parameters.get(name, 1) != 1 and not parameters.get(other):
                raise InputError(
                    f"{self.name} must set {other!r} above 0 together with {name!r}, got "
                    f"{parameters[name]!r} without it, which {self.title} ignores; set {other!r} "
                    f"to 1, or leave {name!r} out"
                )
        return parameters

    def refuse_random(self, given: Parameters | None) -> None:
        """Refuse parameters that make the library draw at random; such runs cannot be resumed."""
        for name, value in self.checked(given).items():
            if name in self.random_parameters:
                raise InputError(
                    f"checkpoint must be left out if {self.name} sets {name!r}, got {value!r}: "
                    f"{self.title} would draw differently after resuming; leave one of the two out"
                )

    @contextmanager
    def explain_errors(self, parameters: Mapping[str, Any]) -> Iterator[None]:
        """Turn an error of the library about its parameters into an InputError."""
        try:
            yield
        except attrgetter(self.error)(self.module(self.name)) as error:
            said = " ".join(str(error).partition("Stack trace")[0].split())
            raise InputError(
                f"{self.name} must hold values that {self.title} accepts, got {dict(parameters)}: "
                f"{said}; correct the parameter it names"
            ) from None


def require(condition: bool, what: str) -> None:
    """Raise a ValueError if the text of a model is forged or damaged."""
    if not condition:
        raise ValueError(f"a text of boosted trees is wrong about {what}")


def in_range(values: NDArray[Any], end: int) -> bool:
    """Whether all values are at least 0 and below ``end``."""
    return bool(((values >= 0) & (values < end)).all())
