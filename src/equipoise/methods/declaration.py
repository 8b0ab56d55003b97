"""How a method declares itself: name, source, what it can do, and how it is made ready."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.methods.capabilities import Capabilities
from equipoise.notions import Notion
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
