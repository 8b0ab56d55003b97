"""K models that grow round by round: gradients of task and penalty, then trees."""

from __future__ import annotations

import copy
import ctypes
import gc
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from equipoise.errors import ConvergenceWarning
from equipoise.predictors.boosting.library import Library, Plan
from equipoise.predictors.boosting.linear_part import LinearPart
from equipoise.predictors.boosting.trees import BoostedTrees, Forest
from equipoise.training import TASKS, Member, Method, Predictor, TrainingData
from equipoise.training.data import RowSet, mean_one, row_numbers
from equipoise.training.loop import optimizers_of

#: Rounds after which their memory is released.
ROUNDS_OF_A_RELEASE = 10


class Growing:
    """The models of K members in training, and their outputs on the m training rows of each.

    Members of strength 0 use the library's own objective, if it has one, so that they equal its
    plain models to the last bit. The others follow the gradients they are given. If the library
    finds no column to split, all members use its own objective and predict a constant.

    rows, target, weight: (K, m), the training rows of each member. outputs: (K, m, o). level, unit:
    (K,), mean and standard deviation of the targets in regression, otherwise 0 and 1. trees: the
    models as a stack. Models with the library's own objective include their start.
    """

    def __init__(
        self,
        data: TrainingData,
        members: Sequence[Member],
        *,
        library: Library,
        objective: TreeObjective,
        n_outputs: int,
        categorical: Sequence[int],
        parameters: Mapping[str, Any],
        most_rounds: int,
    ) -> None:
        self.library, self.objective = library, objective
        self._most_rounds = most_rounds
        self._first = 0  # number of the model of the first member
        self._parameters = parameters
        self.rows = torch.stack([row_numbers(member.rows, len(data)) for member in members])
        every_row = all(member.rows is None for member in members)
        self._position = None if every_row else _inverse(self.rows, len(data))
        target = data.target.double() if data.target.is_floating_point() else data.target
        weight = torch.ones(len(data), device="cpu") if data.weight is None else data.weight
        self.target, self.weight = target[self.rows], weight.double()[self.rows]
        starts = torch.stack(
            [objective.start(*each).double() for each in zip(self.target, self.weight, strict=True)]
        )
        if objective.has_units:
            self.level, self.unit = level_and_unit(self.target, self.weight)
        else:
            self.level, self.unit = starts.new_zeros(len(members)), starts.new_ones(len(members))
        binned = self._binned(data, members, list(categorical))
        splits = {rows: library.can_split(each) for rows, each in binned.items()}
        if not all(splits.values()):
            _warn_of_constants(parameters, self.rows.shape[1])
        has_objective = objective.task in library.objectives
        self._plans = [
            Plan(
                rows=binned[member.rows],
                task=objective.task,
                n_outputs=n_outputs,
                own=not splits[member.rows] or (member.strength == 0 and has_objective),
                start=starts[k],
                unit=float(self.unit[k]),
                seed=member.seed,
                parameters=parameters,
            )
            for k, member in enumerate(members)
        ]
        own = [plan.own for plan in self._plans]
        self.all_own = all(own)
        self.outputs = starts[:, None].repeat(1, self.rows.shape[1], 1)
        with library.explain_errors(parameters):
            models = dict(enumerate(map(library.model, self._plans)))
        self.forest = Forest(library, models, [k for k, is_own in enumerate(own) if is_own])
        start = torch.where(torch.tensor(own, device="cpu")[:, None], 0.0, starts)
        linear = None
        if all(member.strength == 0 and member.aside is not None for member in members):
            linear = self._linear_part(data, members, n_outputs, categorical)
        self.trees = BoostedTrees(self.forest, start, linear)

    def _linear_part(
        self,
        data: TrainingData,
        members: Sequence[Member],
        n_outputs: int,
        categorical: Sequence[int],
    ) -> LinearPart:
        """Return linear models, whose outputs are in the units of the target."""
        level, unit = self.level[0], self.unit[0]
        if self.objective.has_units:
            data = replace(data, target=(data.target.double() - level) / unit)
        linear = LinearPart.fitted(data, members, self.objective.task, n_outputs, categorical)
        linear.weight.mul_(unit)
        linear.bias.mul_(unit).add_(level)
        return linear

    def part(self, members: slice) -> Growing:
        """Return some of these members; their models, outputs and rounds are those of the whole."""
        part = copy.copy(self)
        for name in ("rows", "target", "weight", "level", "unit", "outputs"):
            setattr(part, name, getattr(self, name)[members])
        if self._position is not None:
            part._position = self._position[members]
        part._first = members.start
        # `share_weights` makes its tensors those of the whole.
        linear = None if self.trees.linear is None else self.trees.linear.of(members)
        part.trees = BoostedTrees(self.forest, self.trees.start[members], linear)
        return part

    def positions(self, rows: Tensor) -> Tensor:
        """Return the positions of rows (K, B) of the data among each member's training rows."""
        return rows if self._position is None else self._position.gather(1, rows)

    def grow(self, member: int, gradient: Tensor, hessian: Tensor) -> None:
        """Add a round to one member by gradient and Hessian (m, o)."""
        model = self.forest.models[self._first + member]
        with self.library.explain_errors(self._parameters):
            model.grow(gradient, hessian)
        self.outputs[member] = model.training_outputs()

    def rounds(self, member: int) -> int:
        return self.forest.models[self._first + member].rounds()

    def state_dict(self) -> dict[str, Any]:
        """Return the number of rounds, the text of the trees and the outputs of every member."""
        models = [self.forest.models[member] for member in range(len(self._plans))]
        rounds = [model.rounds() for model in models]
        texts = [m.text(count) if count else "" for m, count in zip(models, rounds, strict=True)]
        return {"rounds": rounds, "texts": texts, "outputs": self.outputs}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of members with the same options and the same rows."""
        models = dict(self.forest.models)
        for member, rounds in enumerate(state["rounds"]):
            if not 0 <= rounds <= self._most_rounds:
                raise ValueError(f"a member grows at most {self._most_rounds} rounds")
            if rounds:
                text, outputs = state["texts"][member], state["outputs"][member]
                models[member] = self.library.resumed(self._plans[member], text, rounds, outputs)
        self.forest.models = models
        self.outputs.copy_(state["outputs"])

    def _binned(
        self, data: TrainingData, members: Sequence[Member], categorical: list[int]
    ) -> dict[RowSet | None, Any]:
        """Return each distinct set of training rows in the library's own form."""
        binned: dict[RowSet | None, Any] = {}
        for member, rows in zip(members, self.rows, strict=True):
            if member.rows not in binned:
                weight = None if data.weight is None else data.weight[rows].numpy()
                x, target = data.x[rows].numpy(), data.target[rows].numpy()
                with self.library.explain_errors(self._parameters):
                    binned[member.rows] = self.library.rows(
                        x, target, weight, categorical, self._parameters
                    )
        return binned


def _warn_of_constants(parameters: Mapping[str, Any], rows: int) -> None:
    least = parameters.get("min_data_in_leaf", 20)
    warnings.warn(
        f"No column of X can be split with at least min_data_in_leaf={least} of the {rows} "
        "training rows on both sides, so trees predict a constant. Give more rows or columns that "
        f"vary, or set lightgbm={{'min_data_in_leaf': {max(1, rows // 10)}}}.",
        ConvergenceWarning,
        stacklevel=2,
    )


def release_memory() -> None:
    """Give memory that a round used back to the system.

    Arrays that NumPy handed to LightGBM as pointers are in reference cycles, which Python would
    find late. And each new tree lies where a large array was, so that the next array needs a new
    place. Without this a long run on a few rows takes gigabytes.
    """
    gc.collect(1)
    if sys.platform == "linux":
        with suppress(AttributeError):  # not all C libraries have it
            ctypes.CDLL(None).malloc_trim(0)


def _inverse(rows: Tensor, n: int) -> Tensor:
    """Return the position (K, n) of each of n rows in rows (K, m); 0 if it is not there."""
    position = torch.zeros(len(rows), n, dtype=torch.long, device="cpu")
    return position.scatter_(1, rows, torch.arange(rows.shape[1], device="cpu").expand_as(rows))


def strengths_of(members: Sequence[Member]) -> Tensor:
    """Return the strengths (K,) in double precision."""
    return torch.tensor([each.strength for each in members], dtype=torch.float64, device="cpu")


class BoostingStep:
    """A round of trees for every member, down (1 - strength) * task + strength * penalty.

    The task has gradient and Hessian on all rows. The penalty is computed on a batch. Its gradient
    on the rows of the batch, scaled up to all rows, is right on average. Its Hessian is a constant:
    the largest Hessian that the task can have. Over the first ``warmup`` rounds the strength grows
    from 0, since scores that are still constant depend on nothing; while it is 0, no critic trains.
    """

    def __init__(
        self,
        predictor: Predictor,
        growing: Growing,
        members: Sequence[Member],
        *,
        method: Method | None,
        warmup: int,
    ) -> None:
        self._task = predictor.task
        self._growing = growing
        self._method = method
        classes = growing.outputs.shape[-1]
        self._hessian_factor = growing.library.hessian_factor(classes) if classes > 1 else 1.0
        self._strength = strengths_of(members)
        weight = growing.weight
        self._task_weight = None if bool((weight == 1).all()) else mean_one(weight)
        # The task's gradient has the same factors as the penalty's. So the balance of the two is
        # that of a network.
        scale = growing.objective.share * weight.sum(-1) * growing.unit
        self._scale = scale[:, None, None]
        self._warmup = warmup
        self._share = 1.0
        self._own = method is None and growing.all_own
        networks = [] if method is None else [method.networks]
        self.modules: nn.Module = nn.ModuleList([predictor, *networks])

    def prepare(self, iteration: int) -> None:
        if iteration % ROUNDS_OF_A_RELEASE == 0:
            release_memory()
        self._share = min(1.0, (iteration - 1) / self._warmup) if self._warmup else 1.0

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [] if self._method is None else optimizers_of(self._method)

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        growing, objective = self._growing, self._growing.objective
        task = objective.loss(
            growing.outputs, growing.target, self._task_weight, growing.level, growing.unit
        )
        if self._own:  # the library finds the gradients itself
            self._grow(growing.outputs, growing.outputs)
            return task, torch.zeros_like(task)
        strength = self._share * self._strength[:, None, None]
        weight: Tensor | float = 1.0 if self._task_weight is None else growing.weight[..., None]
        gradient, hessian = objective.gradients(growing.outputs, growing.target, growing.unit)
        # In place, since each of these is as large as all members' outputs.
        gradient.mul_((1 - strength) * weight)
        hessian.lerp_(hessian.new_tensor(objective.largest_hessian), strength)
        hessian.mul_(self._hessian_factor * weight)
        penalty = torch.zeros(len(gradient), dtype=gradient.dtype, device=gradient.device)
        if self._method is not None and self._share > 0:
            positions = growing.positions(rows)[..., None].expand(-1, -1, gradient.shape[-1])
            penalty, of_penalty = self._penalty(
                growing.outputs.gather(1, positions), rows, resampled
            )
            of_penalty = strength * self._scale * of_penalty
            gradient.scatter_add_(1, positions, of_penalty)
        self._grow(gradient, hessian)
        return task, penalty

    def _penalty(self, output: Tensor, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Train the method on the batch; return its penalty (K,) and the gradient (K, B, o) of it.

        As in networks, a continuous outcome and its gradient are in standard units.
        """
        assert self._method is not None
        level, unit = (each[:, None, None] for each in (self._growing.level, self._growing.unit))
        standard = ((output - level) / unit).float().requires_grad_()
        penalty = self._method.penalty(self._task.score(standard), rows, resampled)
        (gradient,) = torch.autograd.grad(penalty.sum(), standard)
        return penalty.detach().double(), gradient.double()

    def _grow(self, gradient: Tensor, hessian: Tensor) -> None:
        """Add a round to every member that was not returned to earlier rounds."""
        # A sum is finite only if all of its terms are; one number per member is cheap to read.
        finite = (gradient.flatten(1).sum(1) + hessian.flatten(1).sum(1)).isfinite().tolist()
        for member, rounds in enumerate(self._growing.trees.rounds.tolist()):
            if finite[member] and rounds == self._growing.rounds(member):
                self._growing.grow(member, gradient[member], hessian[member])
                self._growing.trees.rounds[member] = self._growing.rounds(member)


@dataclass(frozen=True)
class TreeObjective:
    """One task as boosted trees minimize it.

    With these gradients a member of tiny strength grows almost the same trees as the library would
    for the task alone.
    """

    task: str
    #: Outputs (K, m, o), targets (K, m) and units (K,) -> gradient and Hessian (K, m, o). The
    #: gradient is that of a row's task loss, times ``share`` and the square of the unit.
    gradients: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    #: Targets and weights, (m,) each -> (o,), the constant that boosting starts from.
    start: Callable[[Tensor, Tensor], Tensor]
    #: The largest Hessian that one output can have.
    largest_hessian: float = 1.0
    #: Whether outputs are in the units of the target.
    has_units: bool = True
    #: Factor on the task loss in libraries; they minimize half of a squared error.
    share: float = 1.0

    def loss(
        self, output: Tensor, target: Tensor, weight: Tensor | None, level: Tensor, unit: Tensor
    ) -> Tensor:
        """Return the mean task loss (K,) in standard units of the outcome, as for networks.

        output: (K, m, o). target, weight: (K, m). level, unit: (K,), 0 and 1 without units.
        """
        if self.has_units:
            output = (output - level[:, None, None]) / unit[:, None, None]
            target = (target - level[:, None]) / unit[:, None]
        return TASKS[self.task].loss(output, target, weight)


def _binary(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    probability = output.sigmoid()
    return probability - target[..., None], probability * (1 - probability)


def _multiclass(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    probability = output.softmax(-1)
    actual = functional.one_hot(target, output.shape[-1]).to(output)
    return probability - actual, probability * (1 - probability)


def _squared(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    gradient = output - target[..., None]
    return gradient, torch.ones_like(gradient)


def _absolute(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    # The gradient has the size of one unit of the outcome, which sets the size of a step.
    gradient = (output - target[..., None]).sign() * unit[:, None, None]
    return gradient, torch.ones_like(gradient)


def _huber(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    width = unit[:, None, None]
    gradient = (output - target[..., None]).clamp(-width, width)
    return gradient, torch.ones_like(gradient)


def level_and_unit(target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return weighted means and standard deviations (K,) of targets (K, m).

    For a constant target the standard deviation is 1.

    >>> level_and_unit(torch.tensor([[0.0, 4.0], [3.0, 3.0]]), torch.ones(2, 2))
    (tensor([2., 3.]), tensor([2., 1.]))
    """
    share = weight / weight.sum(-1, keepdim=True)
    level = (share * target).sum(-1)
    spread = (share * (target - level[:, None]).square()).sum(-1).sqrt()
    return level, torch.where((target == target[:, :1]).all(-1), 1.0, spread)


def _log_shares(target: Tensor, weight: Tensor) -> Tensor:
    return torch.log(torch.bincount(target, weight) / weight.sum())


def _mean(target: Tensor, weight: Tensor) -> Tensor:
    return ((target * weight).sum() / weight.sum())[None]


def _log_odds(target: Tensor, weight: Tensor) -> Tensor:
    return torch.logit(_mean(target, weight))


def _median(target: Tensor, weight: Tensor) -> Tensor:
    order = target.argsort()
    share = weight[order].cumsum(0) / weight.sum()
    return target[order][torch.searchsorted(share, 0.5)][None]


OBJECTIVES: Mapping[str, TreeObjective] = MappingProxyType(
    {
        "binary": TreeObjective("binary", _binary, _log_odds, 0.25, has_units=False),
        "multiclass": TreeObjective("multiclass", _multiclass, _log_shares, 0.25, has_units=False),
        "squared": TreeObjective("squared", _squared, _mean, share=0.5),
        "absolute": TreeObjective("absolute", _absolute, _median),
        "huber": TreeObjective("huber", _huber, _mean),
    }
)
