"""How a method declares itself: name, source, what it can do, and how it is made ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, Protocol

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.notions import Notion
from equipoise.tables import SensitiveTable
from equipoise.training import (
    Member,
    Method,
    Objective,
    Predictor,
    TrainingData,
    TrainingSettings,
)

#: Options that decide what is penalized; a method that has no use for one refuses it.
Option = Literal["divergence", "density_ratio", "gradient_penalty"]


class MethodFactory(Protocol):
    """How a method is made ready for a run; ``penalized_width`` is the width of what it sees."""

    def __call__(
        self,
        data: TrainingData,
        members: Sequence[Member],
        *,
        penalized_width: int,
        notion: Notion,
        critic: CriticSettings,
        density_ratio: RatioKind,
    ) -> Method:
        """Return the method, ready for these members on these rows."""
        ...


class ObjectiveFactory(Protocol):
    """How a method that replaces the task loss is made ready; it may train ``predictor`` first."""

    def __call__(
        self,
        data: TrainingData,
        members: Sequence[Member],
        *,
        predictor: Predictor,
        settings: TrainingSettings,
    ) -> Objective:
        """Return the method, ready for these members on these rows."""
        ...


class Solver(Protocol):
    """How a method that trains nothing finds its models."""

    def __call__(
        self,
        data: TrainingData,
        members: Sequence[Member],
        *,
        task: str,
        notion: Notion,
        attribute_inputs: int,
    ) -> Predictor:
        """Return the models of all members.

        The last ``attribute_inputs`` columns of ``data.x`` are sensitive features, which the method
        needs to predict; 0 unless it declares so.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One method of the registry.

    name: as in ``method="sbp"``. title: its name in words. reference: authors, year, title, where.
    summary: one sentence. options: those of :data:`Option` that it uses. sits_on: what a penalty
    looks at where there is no encoder, the score or the last hidden layer. Exactly one of the
    following: build makes a penalty, objective makes what takes the place of task and penalty,
    solve finds the models without training.
    """

    name: str
    title: str
    reference: str
    summary: str
    capabilities: Capabilities
    build: MethodFactory | None = None
    objective: ObjectiveFactory | None = None
    solve: Solver | None = None
    options: frozenset[Option] = frozenset()
    sits_on: Literal["score", "hidden"] = "score"

    def __post_init__(self) -> None:
        ways = (self.build, self.objective, self.solve)
        assert sum(way is not None for way in ways) == 1, f"{self.name} must have one way to work"

    @property
    def has_critic(self) -> bool:
        """Whether the penalty is a divergence that a critic estimates: 0 is guessing."""
        return "divergence" in self.options

    def __str__(self) -> str:
        return f"{self.name}: {self.title}. {self.summary}"


#: What a score that satisfies a method's penalty no longer tells: its whole distribution given A,
#: only its mean given A, or only the rate of positive decisions given A; "none" where dependence is
#: lowered without a measure of it in the loss.
Controls = Literal["distribution", "mean", "decisions", "none"]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What one method supports; what it does not support is refused before training.

    neural : trains a neural network (else a model of its own).
    independence, separation : the notions.
    discrete, continuous, mixed : kinds of sensitive features; mixed is both at once.
    many_groups : more than two groups of discrete features (several columns are crossed).
    classes, many_classes, numbers : outcomes of two classes, of more, and continuous ones.
    representation : may sit on an encoder's output (FairEncoder) and not only on a score.
    sample_weight, unknown : weights of rows, and rows whose sensitive features are missing.
    needs_attribute : whether predicting needs the sensitive features, too.
    controls : see :data:`Controls`.
    """

    neural: bool = True
    independence: bool = True
    separation: bool = True
    discrete: bool = True
    continuous: bool = True
    mixed: bool = True
    many_groups: bool = True
    classes: bool = True
    many_classes: bool = True
    numbers: bool = True
    representation: bool = True
    sample_weight: bool = True
    unknown: bool = True
    needs_attribute: bool = False
    controls: Controls = "distribution"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a training run asks of its method.

    continuous, discrete: names of sensitive columns. groups: number of cells of the discrete ones,
    crossed. classes: number of classes of the outcome, None where it is continuous.
    """

    notion: Notion
    continuous: tuple[str, ...] = ()
    discrete: tuple[str, ...] = ()
    groups: int = 1
    classes: int | None = 2
    representation: bool = False
    weighted: bool = False
    unknown: bool = False

    @classmethod
    def of(
        cls,
        table: SensitiveTable,
        *,
        notion: Notion,
        classes: int | None,
        representation: bool = False,
        weighted: bool = False,
    ) -> Problem:
        """Describe training with these sensitive features."""
        discrete = [column for column in table.columns if column.kind == "discrete"]
        return cls(
            notion=notion,
            continuous=tuple(c.name for c in table.columns if c.kind == "continuous"),
            discrete=tuple(column.name for column in discrete),
            groups=prod(len(column.categories) for column in discrete),
            classes=classes,
            representation=representation,
            weighted=weighted,
            unknown=not table.known.all(),
        )


@dataclass(frozen=True)
class Requirement:
    """Something a problem asks for: in words, and whether given capabilities cover it."""

    words: str
    covered: Callable[[Capabilities], bool]


def requirements(problem: Problem) -> tuple[Requirement, ...]:
    """List what ``problem`` asks for, what users meet first leading."""
    continuous, discrete = ", ".join(problem.continuous), ", ".join(problem.discrete)
    asked: list[tuple[object, str, Callable[[Capabilities], bool]]] = [
        (
            True,
            f"notion='{problem.notion}'",
            lambda can: (
                can.separation if problem.notion.conditions_on_outcome else can.independence
            ),
        ),
        (
            continuous and discrete,
            f"mixed sensitive features (continuous {continuous}; discrete {discrete})",
            lambda can: can.mixed,
        ),
        (
            continuous and not discrete,
            f"continuous sensitive features ({continuous})",
            lambda can: can.continuous,
        ),
        (
            discrete and not continuous,
            f"discrete sensitive features ({discrete})",
            lambda can: can.discrete,
        ),
        (
            problem.groups > 2,
            f"more than two groups ({discrete}: {problem.groups})",
            lambda can: can.many_groups,
        ),
        (problem.classes is None, "a continuous outcome", lambda can: can.numbers),
        (problem.classes == 2, "an outcome of two classes", lambda can: can.classes),
        (
            problem.classes is not None and problem.classes > 2,
            f"an outcome of more than two classes ({problem.classes})",
            lambda can: can.many_classes,
        ),
        (
            problem.representation,
            "a penalty on a representation (FairEncoder)",
            lambda can: can.representation,
        ),
        (problem.weighted, "sample_weight", lambda can: can.sample_weight),
        (problem.unknown, "missing_sensitive='skip'", lambda can: can.unknown),
    ]
    return tuple(Requirement(words, covered) for needed, words, covered in asked if needed)
