"""How boosted trees are grown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from equipoise.errors import InputError, check_choice, check_number, check_whole
from equipoise.predictors.boosting.growing import OBJECTIVES, BoostingStep, Growing, strengths_of
from equipoise.predictors.boosting.trees import LIBRARIES
from equipoise.predictors.family import PredictorRun, Recipe
from equipoise.training import TASKS, Member, Predictor, Trained, TrainingData, train
from equipoise.training.checkpoints import Stateful
from equipoise.training.data import set_aside, take


@dataclass(frozen=True, kw_only=True)
class BoostingRecipe(Recipe):
    """How boosted trees are grown.

    ``training.iterations`` is the number of rounds, ``training.batch_size`` the number of rows on
    which a round computes the penalty. Over the first ``warmup`` rounds the strength grows from 0.
    Training ends when no member's trade-off on the rows set aside has improved for
    ``early_stopping`` rounds. ``parameters`` are those of the ``library``.
    """

    learning_rate: float
    warmup: int
    early_stopping: int | None = None
    library: str = "lightgbm"
    parameters: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_penalty_on_score("boosted trees")
        check_number("learning_rate", self.learning_rate, "must be positive", lambda rate: rate > 0)
        check_whole("warmup", self.warmup, least=0, of=" of rounds")
        if self.early_stopping is not None:
            check_whole("early_stopping", self.early_stopping, of=" of rounds")
        check_choice("library", self.library, tuple(LIBRARIES))
        LIBRARIES[self.library].checked(self.parameters)

    def check_resumable(self) -> None:
        """Refuse random draws, since the library does not reveal the state of its generator."""
        LIBRARIES[self.library].refuse_random(self.parameters)

    def carry_out(self, run: PredictorRun) -> Trained:
        data, members, task = run.context.data, run.context.members, run.inputs.task
        library = LIBRARIES[self.library]
        if self.early_stopping is not None:
            members, held_out = with_rows_aside(members, len(data), data.outcome_class)
        growing = Growing(
            data,
            members,
            library=library,
            objective=OBJECTIVES[task],
            n_outputs=run.inputs.n_outputs,
            categorical=run.inputs.categorical,
            parameters={**library.checked(self.parameters), "learning_rate": self.learning_rate},
            most_rounds=self.training.iterations,
        )
        predictor = Predictor(growing.trees, TASKS[task])
        # A penalty on the score needs no features. Methods take their precision from ``x``, and
        # features are in double precision here.
        without_features = replace(data, x=data.outcome[:, :0])
        context = replace(run.context, data=without_features, members=members)
        method = replace(run, context=context).method(run.inputs.n_outputs)
        kept: dict[str, Stateful] = {"trees": growing}
        watched = run.watched
        if self.early_stopping is not None:
            if method is not None and not isinstance(method, Measurable):
                raise InputError(
                    "early_stopping needs a penalty that can be measured without training, got "
                    f"method={self.method!r}; use method='sbp', or leave early_stopping out"
                )
            watched["on_check"] = kept["stopping"] = EarlyStopping(
                data,
                members,
                held_out,
                growing=growing,
                method=method,
                patience=self.early_stopping,
                rounds=self.training.iterations,
            )
        if run.supervision is not None:
            identity = run.supervision.identity
            version = {f"version of {library.name}": library.module("boosting").__version__}
            watched["supervision"] = replace(
                run.supervision,
                identity=replace(identity, stated={**identity.stated, **version}),
                parts={**run.supervision.parts, **kept},
            )
        with growing.forest.caching():
            return train(
                data,
                members,
                predictor=predictor,
                method=method,
                step=BoostingStep(predictor, growing, members, method=method, warmup=self.warmup),
                settings=self.training,
                has_critic=run.declared.has_critic,
                **watched,
            )


#: Share of a member's rows that is set aside for early stopping.
HELD_OUT = 0.2


@runtime_checkable
class Measurable(Protocol):
    """A method whose penalty can be measured without training anything."""

    def value(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Return the same penalty (K,) as `Method.penalty`, without training."""
        ...


def with_rows_aside(
    members: Sequence[Member], n: int, classes: Tensor | None = None
) -> tuple[list[Member], Tensor]:
    """Set rows of each member aside; return the members with the other rows, and those (K, m).

    n: number of all rows. If there are ``classes`` (n,), every class keeps a training row.
    """
    training, held_out = [], []
    for member in members:
        rows, aside = set_aside(member.seed, member.rows, n, HELD_OUT, needed_by="early_stopping")
        if classes is not None:
            rows, aside = _with_every_class(rows, aside, classes)
        training.append(replace(member, rows=rows))
        held_out.append(aside)
    return training, torch.stack(held_out)


def _with_every_class(
    rows: tuple[int, ...], aside: Tensor, classes: Tensor
) -> tuple[tuple[int, ...], Tensor]:
    """If only rows set aside have a class, swap one of them with a row of the largest class."""
    training, aside = torch.tensor(rows), aside.clone()
    for missing in sorted(set(classes[aside].tolist()) - set(classes[training].tolist())):
        place = int((classes[aside] == missing).nonzero()[0])
        largest = int(torch.bincount(classes[training]).argmax())
        other = int((classes[training] == largest).nonzero()[-1])
        back = int(aside[place])
        aside[place], training[other] = training[other].clone(), back
    return tuple(training.tolist()), aside


class EarlyStopping:
    """Ends training if no member has improved for ``patience`` rounds; each keeps its best round.

    The criterion is (1 - strength) * task + strength * penalty on rows (K, m) that the member does
    not train on. Both losses are in standard units of the outcome, as in training.
    """

    def __init__(
        self,
        data: TrainingData,
        members: Sequence[Member],
        rows: Tensor,
        *,
        growing: Growing,
        method: Measurable | None,
        patience: int,
        rounds: int,
    ) -> None:
        self._trees, self._objective = growing.trees, growing.objective
        self._method = method
        self._rows = rows
        self._resampled = rows.roll(rows.shape[1] // 2, 1)
        self._x = take(data.x, rows)
        self._target = take(data.target, rows)
        self._weight = data.task_weight(rows)
        self._strength = strengths_of(members)
        self._level, self._unit = growing.level, growing.unit
        self._patience = patience
        self._last = rounds
        self._least = torch.full((len(rows),), torch.inf, dtype=torch.float64, device="cpu")
        self._since = torch.zeros(len(rows), dtype=torch.long, device="cpu")
        self._best = torch.zeros(len(rows), dtype=torch.long, device="cpu")

    def __call__(self, iteration: int, predictor: Predictor) -> bool:
        """Evaluate all members; at the end, return each to its best number of rounds."""
        trees = self._trees
        trade_off = self._trade_off(predictor)
        better = trade_off < self._least
        self._least = torch.where(better, trade_off, self._least)
        self._best = torch.where(better, trees.rounds, self._best)
        self._since = torch.where(better, iteration, self._since)
        enough = bool((iteration - self._since >= self._patience).all())
        if enough or iteration == self._last:
            trees.rounds.copy_(self._best)
        return enough

    def state_dict(self) -> dict[str, Any]:
        return {"least": self._least, "since": self._since, "best": self._best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._least, self._since, self._best = state["least"], state["since"], state["best"]

    def _trade_off(self, predictor: Predictor) -> Tensor:
        output, _ = predictor(self._x)
        task = self._objective.loss(output, self._target, self._weight, self._level, self._unit)
        if self._method is None:
            return task
        standard = (output - self._level[:, None, None]) / self._unit[:, None, None]
        score = predictor.task.score(standard).float()
        penalty = self._method.value(score, self._rows, self._resampled)
        # A divergence is never negative, but the value of a critic that lags behind can be.
        penalty = penalty.double().clamp_min(0)
        return torch.lerp(task.double(), penalty, self._strength)
