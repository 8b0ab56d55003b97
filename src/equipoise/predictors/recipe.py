"""A recipe: everything that decides a training run except data, strengths and seeds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.errors import InputError, check_choice
from equipoise.methods import (
    Context,
    Declaration,
    Problem,
    parse_method,
    refuse_unsupported,
    refuse_unused_options,
)
from equipoise.notions import Notion
from equipoise.tables import SensitiveTable
from equipoise.training import (
    Member,
    Method,
    Predictor,
    Supervision,
    Trained,
    TrainingData,
    TrainingSettings,
)
from equipoise.training.loop import gradients_on


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a recipe must know about the rows besides their numbers.

    task, n_outputs: what is predicted. sensitive: the table behind the attributes; with it a method
    that cannot do what is asked refuses in words before anything is trained. attribute_inputs: how
    many of the last columns are sensitive features, for methods that need them to predict.
    categorical: positions of the columns that hold numbers of categories.
    """

    task: str
    n_outputs: int
    sensitive: SensitiveTable | None = None
    attribute_inputs: int = 0
    categorical: tuple[int, ...] = ()

    @property
    def n_classes(self) -> int | None:
        """Number of classes, None where the outcome is continuous."""
        return {"binary": 2, "multiclass": self.n_outputs}.get(self.task)


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """How members are built and trained; each family of predictors has its own.

    changed: options of the estimator that differ from their defaults; one that would change nothing
    is refused.
    """

    notion: Notion
    method: str
    density_ratio: RatioKind
    critic: CriticSettings
    training: TrainingSettings
    changed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def on_representation(self) -> bool:
        """Whether the penalty sits on a representation."""
        return False

    def __post_init__(self) -> None:
        parse_method(self.method)
        check_choice("density_ratio", self.density_ratio, get_args(RatioKind))

    def need_penalty_on_score(self, models: str) -> None:
        """Refuse a method whose penalty does not sit on the score, for ``models`` without more."""
        declared = parse_method(self.method)
        if declared.build is None or declared.sits_on != "score":
            raise InputError(
                f"method must be one whose penalty sits on the score for {models}, got "
                f"{self.method!r}; use method='sbp', or a network"
            )

    def check_resumable(self) -> None:  # noqa: B027 - most families can
        """Refuse options with which a run cannot go on from a checkpoint."""

    @gradients_on()
    def train(
        self,
        data: TrainingData,
        members: Sequence[Member],
        inputs: Inputs,
        *,
        on_check: Callable[[int, Predictor], bool] | None = None,
        supervision: Supervision | None = None,
    ) -> Trained:
        """Build and train these members together.

        ``on_check(iteration, predictor)`` is called every ``training.check_every`` iterations and
        after the last one; it may look at the weights, and ends training by returning True.
        ``supervision`` keeps checkpoints of the run and tells of it.
        """
        declared = parse_method(self.method)
        penalized = any(member.strength > 0 for member in members)
        if (penalized or declared.solve is not None) and inputs.sensitive is not None:
            problem = Problem.of(
                inputs.sensitive,
                notion=self.notion,
                classes=inputs.n_classes,
                representation=self.on_representation,
                weighted=data.weight is not None,
            )
            refuse_unsupported(declared, problem)
            refuse_unused_options(declared, self.notion, self.changed)
        if supervision is not None and supervision.store is not None:
            self.check_resumable()
        context = Context(
            data=data,
            members=members,
            notion=self.notion,
            critic=self.critic,
            density_ratio=self.density_ratio,
            settings=self.training,
            task=inputs.task,
            attribute_inputs=inputs.attribute_inputs,
        )
        return self.carry_out(Run(context, inputs, declared, penalized, on_check, supervision))

    @abstractmethod
    def carry_out(self, run: Run) -> Trained:
        """Build and train these members by a method that can do what is asked."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run of a recipe, checked."""

    context: Context  # what the method gets, except width and predictor
    inputs: Inputs
    declared: Declaration  # the method
    penalized: bool  # whether some member has a strength above 0
    on_check: Callable[[int, Predictor], bool] | None
    supervision: Supervision | None

    @property
    def watched(self) -> dict[str, Any]:
        """Arguments of `train` and `solved` that no family changes."""
        return {
            "given_outcome": self.context.notion.conditions_on_outcome,
            "on_check": self.on_check,
            "supervision": self.supervision,
        }

    def method(self, width: int) -> Method | None:
        """Return the penalty on scores or a representation of so many columns, if there is one."""
        if not self.penalized:
            return None
        assert self.declared.build is not None
        return self.declared.build(replace(self.context, penalized_width=width))
