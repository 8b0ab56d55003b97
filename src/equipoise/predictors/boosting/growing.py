"""K models that grow round by round, and the round: gradients of task and penalty, then trees."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from equipoise.errors import ConvergenceWarning
from equipoise.predictors.boosting.library import Library, Plan
from equipoise.predictors.boosting.trees import BoostedTrees, Forest
from equipoise.training import TASKS, Member, Method, Predictor, TrainingData
from equipoise.training.data import mean_one, row_numbers
from equipoise.training.loop import optimizers_of


class Growing:
    """The models of K members in training, and their outputs on the m rows that each trains on.

    Members of strength 0 follow the library's own objective, where it has one, so that they are its
    own models to the last bit; the others follow the gradients they are given. Where the library
    finds no column to split on, all are its own: a constant.

    rows, target, weight: (K, m), what each member trains on. outputs: (K, m, o). level, unit: (K,),
    mean and spread of its targets where they have units of their own, as in regression, else 0 and
    1. trees: the models as a stack; the library's own hold their start themselves.
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
        self._given = parameters
        self.rows = torch.stack([row_numbers(member.rows, len(data)) for member in members])
        self._place = _inverse(self.rows, len(data)) if any(m.rows for m in members) else None
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
        has_own = objective.task in library.objectives
        self._plans = [
            Plan(
                rows=binned[member.rows],
                task=objective.task,
                n_outputs=n_outputs,
                own=not splits[member.rows] or (member.strength == 0 and has_own),
                start=starts[k],
                unit=float(self.unit[k]),
                seed=member.seed,
                parameters=parameters,
            )
            for k, member in enumerate(members)
        ]
        own = [plan.own for plan in self._plans]
        self.outputs = starts[:, None].repeat(1, self.rows.shape[1], 1)
        with library.refused_in_words(parameters):
            models = dict(enumerate(map(library.model, self._plans)))
        self.forest = Forest(library, models, [k for k, is_own in enumerate(own) if is_own])
        start = torch.where(torch.tensor(own, device="cpu")[:, None], 0.0, starts)
        self.trees = BoostedTrees(self.forest, start)

    def places(self, rows: Tensor) -> Tensor:
        """Where rows (K, B) of the data stand among each member's own."""
        return rows if self._place is None else self._place.gather(1, rows)

    def grow(self, member: int, gradient: Tensor, hessian: Tensor) -> None:
        """Follow gradient and Hessian (m, o) by a round of one member, if it can still grow."""
        model = self.forest.models[member]
        with self.library.refused_in_words(self._given):
            model.grow(gradient, hessian)
        self.outputs[member] = model.seen()

    def rounds(self, member: int) -> int:
        return self.forest.models[member].rounds()

    def state_dict(self) -> dict[str, Any]:
        """What every member has grown: rounds, text of its trees, outputs."""
        models = [self.forest.models[member] for member in range(len(self._plans))]
        rounds = [model.rounds() for model in models]
        texts = [m.text(count) if count else "" for m, count in zip(models, rounds, strict=True)]
        return {"rounds": rounds, "texts": texts, "outputs": self.outputs}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what members with the same options had grown on the same rows."""
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
    ) -> dict[tuple[int, ...], Any]:
        """Return the rows of every member in the library's form, once for each set of rows."""
        binned: dict[tuple[int, ...], Any] = {}
        for member, rows in zip(members, self.rows, strict=True):
            if member.rows not in binned:
                weight = None if data.weight is None else data.weight[rows].numpy()
                x, target = data.x[rows].numpy(), data.target[rows].numpy()
                with self.library.refused_in_words(self._given):
                    binned[member.rows] = self.library.rows(
                        x, target, weight, categorical, self._given
                    )
        return binned


def _warn_of_constants(parameters: Mapping[str, Any], rows: int) -> None:
    least = parameters.get("min_data_in_leaf", 20)
    warnings.warn(
        f"No column of X can be split so that min_data_in_leaf={least} of the {rows} training rows "
        "are on either side, so trees predict a constant. Give more rows or columns that vary, or "
        f"set lightgbm={{'min_data_in_leaf': {max(1, rows // 10)}}}.",
        ConvergenceWarning,
        stacklevel=2,
    )


def _inverse(rows: Tensor, n: int) -> Tensor:
    """Where each of n rows stands in rows (K, m), (K, n); 0 where it does not."""
    place = torch.zeros(len(rows), n, dtype=torch.long, device="cpu")
    return place.scatter_(1, rows, torch.arange(rows.shape[1], device="cpu").expand_as(rows))


def strengths_of(members: Sequence[Member]) -> Tensor:
    """Strengths (K,) in double precision."""
    return torch.tensor([each.strength for each in members], dtype=torch.float64, device="cpu")


class BoostingStep:
    """(1 - strength) * task + strength * penalty, for every member, as a round of trees.

    The task has gradient and Hessian on all rows. The penalty is that of a batch, so its gradient
    on the rows of the batch, scaled up to all rows, is right on average; its Hessian is a constant,
    the most that the task's can be. Over the first ``warmup`` rounds the strength grows from 0:
    scores that are still constant have no dependence to take away.
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
        self._warmup = warmup
        self._share = 1.0
        networks = [] if method is None else [method.networks]
        self.modules: nn.Module = nn.ModuleList([predictor, *networks])

    def prepare(self, iteration: int) -> None:
        self._share = min(1.0, (iteration - 1) / self._warmup) if self._warmup else 1.0

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [] if self._method is None else optimizers_of(self._method)

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        growing, objective = self._growing, self._growing.objective
        strength = self._share * self._strength[:, None, None]
        weight = growing.weight[..., None]
        gradient, hessian = objective.gradients(growing.outputs, growing.target, growing.unit)
        gradient = (1 - strength) * weight * gradient
        largest = torch.full_like(hessian, objective.largest_hessian)
        hessian = self._hessian_factor * weight * torch.lerp(hessian, largest, strength)
        penalty = torch.zeros(len(gradient), dtype=gradient.dtype, device=gradient.device)
        if self._method is not None:
            places = growing.places(rows)[..., None].expand(-1, -1, gradient.shape[-1])
            penalty, push = self._penalty(growing.outputs.gather(1, places), rows, resampled)
            # The same share, sum of weights and unit as in the task's gradient: task and penalty
            # weigh against each other as in a network.
            scale = objective.share * growing.weight.sum(-1) * growing.unit
            gradient = gradient.scatter_add(1, places, strength * scale[:, None, None] * push)
        task = objective.loss(
            growing.outputs, growing.target, self._task_weight, growing.level, growing.unit
        )
        self._grow(gradient, hessian)
        return task, penalty

    def _penalty(self, output: Tensor, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Let the method train on the batch; return its penalty (K,) and its gradient (K, B, o).

        It sees a continuous outcome in standard units, as networks have it, and so is the gradient.
        """
        assert self._method is not None
        level, unit = (each[:, None, None] for each in (self._growing.level, self._growing.unit))
        seen = ((output - level) / unit).float().requires_grad_()
        penalty = self._method.penalty(self._task.score(seen), rows, resampled)
        (gradient,) = torch.autograd.grad(penalty.sum(), seen)
        return penalty.detach().double(), gradient.double()

    def _grow(self, gradient: Tensor, hessian: Tensor) -> None:
        """Add a round to every member that was not put back to earlier rounds."""
        # A sum is finite where all of its terms are, and one number a member is cheap to look at.
        finite = (gradient + hessian).flatten(1).sum(1).isfinite().tolist()
        for member, kept in enumerate(self._growing.trees.rounds.tolist()):
            if finite[member] and kept == self._growing.rounds(member):
                self._growing.grow(member, gradient[member], hessian[member])
                self._growing.trees.rounds[member] = self._growing.rounds(member)


@dataclass(frozen=True)
class TreeObjective:
    """One task as libraries of boosted trees see it.

    With these gradients a member of tiny strength grows almost the trees that a library grows for
    the task alone.
    """

    task: str
    #: Outputs (K, m, o), targets (K, m) and units (K,) -> gradient and Hessian (K, m, o). The
    #: gradient is that of the task loss of a row, times ``share`` and the square of the unit.
    gradients: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    #: Targets and weights (m,) each -> (o,), the constant that boosting starts from.
    start: Callable[[Tensor, Tensor], Tensor]
    #: The most that the Hessian of one output can be.
    largest_hessian: float = 1.0
    #: Whether outputs are in the units of the target.
    has_units: bool = True
    #: Of the task loss that libraries minimize: half of a squared error.
    share: float = 1.0

    def loss(
        self, output: Tensor, target: Tensor, weight: Tensor | None, level: Tensor, unit: Tensor
    ) -> Tensor:
        """Mean task loss (K,) in standard units of the outcome, the same as a network's.

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
    # One unit of the outcome: a step would not know otherwise how far to go.
    gradient = (output - target[..., None]).sign() * unit[:, None, None]
    return gradient, torch.ones_like(gradient)


def _huber(output: Tensor, target: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    width = unit[:, None, None]
    gradient = (output - target[..., None]).clamp(-width, width)
    return gradient, torch.ones_like(gradient)


def level_and_unit(target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Means and standard deviations (K,) of targets (K, m) of weights (K, m).

    The standard deviation of a constant outcome is 1.

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
