"""How boosted trees are grown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from equipoise.cores import count_jobs, torch_threads
from equipoise.errors import check_choice, check_number, check_whole
from equipoise.predictors.boosting.growing import OBJECTIVES, BoostingStep, Growing
from equipoise.predictors.boosting.trees import LIBRARIES, BoostedTrees
from equipoise.predictors.family import PredictorRun, Recipe
from equipoise.training import TASKS, Predictor, Trained, train
from equipoise.training.checkpoints import Stateful
from equipoise.training.stopping import EarlyStopping, TradeOff

#: With fewer training rows several threads grow the trees of one model hardly faster than one,
#: and many times slower beside another busy program.
ROWS_FOR_THREADS = 100_000


@dataclass(frozen=True, kw_only=True)
class BoostingRecipe(Recipe):
    """How boosted trees are grown.

    ``training.iterations`` is the number of rounds, ``training.batch_size`` the number of rows on
    which a round computes the penalty. Over the first ``warmup`` rounds the strength grows from 0.
    ``parameters`` are those of the ``library``.
    """

    learning_rate: float
    warmup: int
    library: str = "lightgbm"
    parameters: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_penalty_on_score("boosted trees")
        check_number("learning_rate", self.learning_rate, "must be positive", lambda rate: rate > 0)
        check_whole("warmup", self.warmup, least=0, of=" of rounds")
        check_choice("library", self.library, tuple(LIBRARIES))
        LIBRARIES[self.library].checked(self.parameters)

    def check_resumable(self) -> None:
        """Refuse random draws, since the library does not reveal the state of its generator."""
        LIBRARIES[self.library].refuse_random(self.parameters)

    # Threads of small sums wait for each other, and a busy neighbor makes that long.
    @torch_threads(1)
    def carry_out(self, run: PredictorRun) -> Trained:
        data, members, task = run.context.data, run.context.members, run.inputs.task
        library = LIBRARIES[self.library]
        jobs = count_jobs(self.n_jobs)
        # Runs of XGBoost in several threads did not always give the same trees.
        lanes = min(jobs, len(members)) if self.library == "lightgbm" else 1
        # Each lane grows its trees with its share of the threads, and few rows need only one.
        threads = max(1, jobs // len(members)) if len(data) >= ROWS_FOR_THREADS else 1
        growing = Growing(
            data,
            members,
            library=library,
            objective=OBJECTIVES[task],
            n_outputs=run.inputs.n_outputs,
            categorical=run.inputs.categorical,
            parameters={
                **library.chosen,
                library.threads: threads,
                **library.checked(self.parameters),
                "learning_rate": self.learning_rate,
            },
            most_rounds=self.training.iterations,
        )
        predictor = Predictor(growing.trees, TASKS[task])
        # A penalty on the score needs no features. Methods take their precision from ``x``, and
        # features are in double precision here.
        without_features = replace(data, x=data.outcome[:, :0])
        context = replace(run.context, data=without_features)
        run = replace(run, context=context)

        def lane_step(part: PredictorRun, chosen: slice) -> BoostingStep:
            of_lane = growing.part(chosen)
            return BoostingStep(
                Predictor(of_lane.trees, TASKS[task]),
                of_lane,
                part.context.members,
                method=part.method(part.inputs.n_outputs),
                warmup=self.warmup,
            )

        method, settings = run.method(run.inputs.n_outputs), self.training
        if method is None:
            # Nothing reads the batches, and of the smallest ones an epoch has the most.
            settings = replace(settings, batch_size=2)
        kept: dict[str, Stateful] = {"trees": growing}
        watched = run.watched
        stopping = None
        if members[0].aside is not None:
            assert self.training.patience is not None
            linear = growing.trees.linear
            stopping = EarlyStopping(
                [growing.trees.rounds, *([] if linear is None else [linear.share])],
                TreeTradeOff(
                    growing,
                    predictor,
                    data,
                    members,
                    counts=run.declared.has_critic,
                    given_outcome=run.context.notion.conditions_on_outcome,
                ),
                patience=self.training.patience,
                at_once=True,  # a member that has returned to earlier rounds grows no more
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
                lanes=run.lanes(lanes, method, lane_step),
                settings=settings,
                has_critic=run.declared.has_critic,
                stopping=stopping,
                **watched,
            )


#: Shares of a linear model in the output from which the rows set aside choose.
SHARES = torch.linspace(0, 1, 11, dtype=torch.float64)


class TreeTradeOff(TradeOff):
    """As for networks; both losses are in standard units of the outcome, as in training.

    If trees have linear models beside them, these get the share that is best on the rows set aside.
    """

    def __init__(self, growing: Growing, *rest: Any, **options: Any) -> None:
        super().__init__(*rest, **options)
        self._growing = growing
        self._trees = cast(BoostedTrees, self._predictor.network)
        linear = self._trees.linear
        self._linear: Tensor | None = None if linear is None else linear(self._x)

    def evaluated(self) -> tuple[Tensor, Tensor]:
        growing, linear = self._growing, self._trees.linear
        output = self._trees.grown(self._x)
        if linear is not None and self._linear is not None:
            blends = torch.lerp(output, self._linear, SHARES[:, None, None, None])
            losses = torch.stack([self.task_loss(each) for each in blends])
            linear.share.copy_(SHARES[losses.argmin(0)])
            output = linear.blended(output, self._linear)
        standard = (output - growing.level[:, None, None]) / growing.unit[:, None, None]
        return output, self._predictor.task.score(standard).float()

    def task_loss(self, output: Tensor) -> Tensor:
        growing = self._growing
        unit = growing.level, growing.unit
        return growing.objective.loss(output, self._target, self._weight, *unit)
