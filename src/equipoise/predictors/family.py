"""Families of predictors: how members are built and trained, and how models become arrays.

A recipe holds everything that decides a training run except data, strengths and seeds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
from equipoise.networks import NetworkFactory, Saved, Stack, StackedMLP, StackedModule
from equipoise.notions import Notion
from equipoise.tables import SensitiveTable
from equipoise.training import (
    Member,
    Method,
    Objective,
    Predictor,
    Supervision,
    Task,
    Trained,
    TrainingData,
    TrainingSettings,
    phases_of,
)
from equipoise.training.loop import Lane, Step, gradients_on
from equipoise.training.predictor import averaged


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a recipe must know about the rows besides their values."""

    task: str  # name of the task loss
    n_outputs: int
    attribute_inputs: int = 0  # see `Context`
    categorical: tuple[int, ...] = ()  # positions of the columns that hold categories


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """How members are built and trained; each family of predictors has its own recipe."""

    notion: Notion
    method: str
    density_ratio: RatioKind
    critic: CriticSettings
    training: TrainingSettings
    #: How many threads train parts of the members, as `count_jobs` reads it.
    n_jobs: int | None = None
    #: Options that differ from their defaults; those without an effect are refused.
    changed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def on_representation(self) -> bool:
        """Whether the penalty sits on a representation."""
        return False

    def __post_init__(self) -> None:
        parse_method(self.method)
        check_choice("density_ratio", self.density_ratio, get_args(RatioKind))

    def need_penalty_on_score(self, models: str) -> None:
        """Refuse a method whose penalty is not on the score, which is all that ``models`` have."""
        declared = parse_method(self.method)
        if declared.build is None or declared.sits_on != "score":
            raise InputError(
                f"method must be one whose penalty sits on the score for {models}, got "
                f"{self.method!r}; use method='sbp', or a network"
            )

    def check_method(
        self, sensitive: SensitiveTable, *, penalized: bool, classes: int | None, weighted: bool
    ) -> None:
        """Refuse a method that does not support such rows, and options that it does not read.

        ``penalized`` says whether any member has a strength above 0; ``classes`` is the number of
        them, None if the outcome is continuous.
        """
        declared = parse_method(self.method)
        if penalized or declared.solve is not None:
            problem = Problem.of(
                sensitive,
                notion=self.notion,
                classes=classes,
                representation=self.on_representation,
                weighted=weighted,
            )
            refuse_unsupported(declared, problem)
            refuse_unused_options(declared, self.notion, self.changed)

    def check_resumable(self) -> None:  # noqa: B027 - most families can always be resumed
        """Refuse options with which a run cannot be resumed from a checkpoint."""

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
        """Build and train these members together, by a method that `check_method` allows.

        ``on_check(iteration, predictor)`` is called every ``training.check_every`` iterations and
        after the last one. It may read the weights, and it ends training by returning True.
        ``supervision`` holds checkpoints and callbacks.
        """
        declared = parse_method(self.method)
        penalized = any(member.strength > 0 for member in members)
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
        return self.carry_out(
            PredictorRun(context, inputs, declared, penalized, on_check, supervision)
        )

    @abstractmethod
    def carry_out(self, run: PredictorRun) -> Trained:
        """Build and train the members of a run, whose method and options have been checked."""


@dataclass(frozen=True, eq=False)
class PredictorRun:
    """One run of a recipe; its method and options have been checked."""

    context: Context  # of the method, still without width and predictor
    inputs: Inputs
    declared: Declaration  # the method
    penalized: bool  # whether any member has a strength above 0
    on_check: Callable[[int, Predictor], bool] | None
    supervision: Supervision | None
    #: The method of all members and the part of them that this run has, in a lane.
    whole: tuple[Method | Objective | None, slice] = (None, slice(None))

    def lanes(
        self,
        count: int,
        method: Method | Objective | None,
        step: Callable[[PredictorRun, slice], Step],
    ) -> list[Lane]:
        """Split the members into lanes, with the step of each part of this run.

        What the phases of a method train belongs to all members. Unless it has a method ``part``,
        which shares that, there are no lanes.
        """
        if count < 2 or (phases_of(method) and not hasattr(method, "part")):
            return []
        members = self.context.members
        ends = [len(members) * number // count for number in range(count + 1)]
        lanes = []
        for part in (slice(*each) for each in pairwise(ends)):
            context = replace(self.context, members=members[part])
            lanes.append(
                Lane(part, step(replace(self, context=context, whole=(method, part)), part))
            )
        return lanes

    @property
    def watched(self) -> dict[str, Any]:
        """Arguments that every family passes on to `train` or `solved`."""
        return {
            "given_outcome": self.context.notion.conditions_on_outcome,
            "on_check": self.on_check,
            "supervision": self.supervision,
        }

    def method(self, width: int) -> Method | None:
        """Return the penalty on ``width`` columns, or None if no member has one."""
        if not self.penalized:
            return None
        assert self.declared.build is not None
        context = replace(self.context, penalized_width=width)
        of_all, members = self.whole
        if phases_of(of_all):
            part: Method = of_all.part(context, members)  # type: ignore[union-attr]
            return part
        return self.declared.build(context)


@dataclass(frozen=True)
class Family:
    """One family of predictors."""

    one: str  # words for one model
    many: str  # words for several
    unit: str  # what training counts, "iteration" or "round"
    #: Its stacks, by the name of a tensor that no other stack has: how a file is recognized.
    stacks: Mapping[str, type[Stack]] = field(default_factory=dict)
    #: Whether the weights of a member are all of it, also in a process that did not train it.
    weights_suffice: bool = True


_FAMILIES: dict[str, Family] = {}
#: Every family by name.
FAMILIES: Mapping[str, Family] = MappingProxyType(_FAMILIES)


def register_family(name: str, family: Family) -> None:
    """Make a family known to frontiers, to their pages, and to readers of saved models."""
    if _FAMILIES.get(name, family) != family:
        raise InputError(f"name must be new, got {name!r}, which is taken; rename yours")
    _FAMILIES[name] = family


#: Weights and buffers by name, with the members first.
Weights = Mapping[str, Tensor]
#: Tolerance for outputs of a user's network after loading, since versions of torch may differ.
_TOLERANCE = 1e-6


def predictor_arrays(
    predictor: Predictor, inputs: int, filled_with: Sequence[Weights] | None = None
) -> dict[str, NDArray[Any]]:
    """Return all weights of a predictor; for a user's network also its outputs on fixed rows.

    A predictor that gets its weights later is given the states that it will be ``filled_with``.
    """
    state = predictor.state_dict()
    arrays = {f"weights.{name}": tensor.detach().cpu().numpy() for name, tensor in state.items()}
    arrays |= predictor.network.arrays(_needed(state, filled_with))
    if predictor.network.of_user:
        arrays["probe"] = _outputs_on_fixed_rows(predictor, inputs)
    return arrays


def predictor_in(
    arrays: Mapping[str, NDArray[Any]],
    task: Task,
    inputs: int,
    outputs: int | None,
    network: NetworkFactory | None,
    filled_with: Sequence[Weights] | None = None,
) -> Predictor:
    """Return the predictor made from arrays; with several members it is their average.

    outputs: the number it must have; None allows any. A user's ``network`` must give the outputs
    that it gave when the model was saved. A predictor that gets its weights later must fit the
    states that it will be ``filled_with``. ValueError if the arrays are not those of a predictor.
    """
    # A copy, since arrays read from a file may be read-only.
    state = {
        name.removeprefix("weights."): torch.from_numpy(array.copy())
        for name, array in arrays.items()
        if name.startswith("weights.")
    }
    (members,) = {len(tensor) for tensor in state.values()}
    encoder = None
    if encoding := _part(state, "encoder"):
        saved = Saved(state=encoding, inputs=inputs, outputs=None)
        encoder = StackedMLP.restored(saved, head=False)
        inputs = encoder.width
    own = _part(state, "network")
    stacks = {name: kind for each in FAMILIES.values() for name, kind in each.stacks.items()}
    # A stack with none of these tensors is a perceptron.
    kind = next((kind for name, kind in stacks.items() if name in own), StackedMLP)
    stack = (kind if network is None else StackedModule).restored(
        Saved(
            state=own,
            inputs=inputs,
            outputs=outputs,
            arrays=arrays,
            needed=_needed(state, filled_with),
            factory=network,
        )
    )
    predictor = Predictor(stack, task, encoder=encoder).requires_grad_(False).double().eval()
    _fill(predictor, state)
    if members > 1:
        if encoder is not None:
            raise ValueError("representations of several members cannot be averaged")
        predictor = averaged(predictor)
    if stack.of_user:
        _check_outputs(predictor, arrays["probe"], inputs)
    return predictor


def _part(state: Weights, part: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{part}."): tensor
        for name, tensor in state.items()
        if name.startswith(f"{part}.")
    }


def _needed(state: Weights, filled_with: Sequence[Weights] | None) -> list[Weights]:
    """Return the network's part of every state that it may get."""
    return [_part(each, "network") for each in ([state] if filled_with is None else filled_with)]


def _fill(predictor: Predictor, state: Weights) -> None:
    for name, tensor in predictor.state_dict().items():
        if name in state and state[name].dtype != tensor.dtype:
            raise ValueError(f"weights must have type {tensor.dtype}, not {state[name].dtype}")
    try:
        predictor.load_state_dict(state)
    except RuntimeError as error:
        if not predictor.network.of_user:
            raise
        raise InputError(
            "network must be the function the model was fitted with, got one whose weights have "
            f"other names or shapes: {' '.join(str(error).split())}"
        ) from None


def _check_outputs(predictor: Predictor, probe: NDArray[Any], inputs: int) -> None:
    """Refuse a user's network whose outputs differ from those when it was saved."""
    found = _outputs_on_fixed_rows(predictor, inputs)
    if not np.allclose(found, probe, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True):
        raise InputError(
            "network must be the function the model was fitted with, got one whose outputs differ "
            f"by up to {np.abs(found - probe).max():.3g} with the same weights"
        )


def _outputs_on_fixed_rows(predictor: Predictor, inputs: int) -> NDArray[np.float64]:
    """Return outputs (4, o) on rows that are the same in every version of this program."""
    rows = torch.arange(4 * inputs, dtype=torch.float64, device="cpu").reshape(4, inputs)
    output, _ = predictor.evaluate((rows % 7 / 3 - 1).to(predictor.weight.device))
    return output[0].cpu().numpy()
