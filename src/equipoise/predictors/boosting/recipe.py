"""A recipe for boosted trees: everything that decides a run except data, strengths and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, get_args

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.errors import InputError, check_choice, check_number, check_whole
from equipoise.methods import Declaration, Problem, parse_method
from equipoise.notions import Notion
from equipoise.predictors.boosting.growing import Growing
from equipoise.predictors.boosting.library import checked_parameters, refuse_draws
from equipoise.predictors.boosting.objectives import OBJECTIVES
from equipoise.predictors.boosting.step import BoostingStep
from equipoise.predictors.boosting.stopping import EarlyStopping, Measurable, with_rows_aside
from equipoise.predictors.boosting.trees import BoostedTrees
from equipoise.predictors.recipe import classes_of, refuse_unable
from equipoise.tables import SensitiveTable
from equipoise.training import (
    TASKS,
    Member,
    Method,
    Predictor,
    Supervision,
    Trained,
    TrainingData,
    TrainingSettings,
    run_supervised,
)
from equipoise.training.checkpoints import Stateful
from equipoise.training.loop import gradients_on


@dataclass(frozen=True, kw_only=True)
class BoostingRecipe:
    """How members are grown.

    ``training.iterations`` are the rounds, ``training.batch_size`` the rows whose penalty a round
    follows. ``warmup`` is over how many rounds the strength grows to what it is; after
    ``early_stopping`` rounds without a better trade-off on rows set aside a member is as good as
    it gets. ``parameters`` are LightGBM's.
    """

    notion: Notion
    method: str
    density_ratio: RatioKind
    critic: CriticSettings
    training: TrainingSettings
    learning_rate: float
    warmup: int
    early_stopping: int | None = None
    parameters: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        declared = parse_method(self.method)
        if declared.build is None or declared.sits_on != "score":
            raise InputError(
                f"method must be one whose penalty sits on the score for boosted trees, got "
                f"{self.method!r}; use method='sbp', or a network"
            )
        check_choice("density_ratio", self.density_ratio, get_args(RatioKind))
        check_number("learning_rate", self.learning_rate, "must be positive", lambda rate: rate > 0)
        check_whole("warmup", self.warmup, least=0, of=" of rounds")
        if self.early_stopping is not None:
            check_whole("early_stopping", self.early_stopping, of=" of rounds")
        checked_parameters(self.parameters)

    @gradients_on()
    def train(
        self,
        data: TrainingData,
        members: Sequence[Member],
        *,
        task: str,
        n_outputs: int,
        sensitive: SensitiveTable | None = None,
        categorical: Sequence[int] = (),
        on_check: Callable[[int, Predictor], bool] | None = None,
        supervision: Supervision | None = None,
    ) -> Trained:
        """Grow these members together; as `Recipe.train`.

        ``data.x`` holds features as LightGBM reads them, of which the ``categorical`` columns are
        numbers of categories.
        """
        if supervision is not None and supervision.store is not None:
            refuse_draws(self.parameters)
        declared = parse_method(self.method)
        penalized = any(member.strength > 0 for member in members)
        if penalized and sensitive is not None:
            refuse_unable(
                declared,
                Problem.of(
                    sensitive,
                    notion=self.notion,
                    classes=classes_of(task, n_outputs),
                    weighted=data.weight is not None,
                ),
                critic=self.critic,
                density_ratio=self.density_ratio,
            )
        held_out = None
        if self.early_stopping is not None:
            members, held_out = with_rows_aside(members, len(data), data.outcome_class)
        growing = Growing(
            data,
            members,
            objective=OBJECTIVES[task],
            n_outputs=n_outputs,
            categorical=categorical,
            parameters={
                **checked_parameters(self.parameters),
                "learning_rate": self.learning_rate,
            },
            most_rounds=self.training.iterations,
        )
        predictor = Predictor(BoostedTrees(growing.forest, growing.start), TASKS[task])
        method = self._method(declared, data, members, n_outputs) if penalized else None
        step = BoostingStep(predictor, growing, members, method=method, warmup=self.warmup)
        remembered: dict[str, Stateful] = {"trees": growing}
        if held_out is not None:
            assert self.early_stopping is not None
            if method is not None and not isinstance(method, Measurable):
                raise InputError(
                    "early_stopping needs a penalty that can be measured without training, got "
                    f"method={self.method!r}; use method='sbp', or leave early_stopping out"
                )
            on_check = remembered["stopping"] = EarlyStopping(
                data,
                members,
                held_out,
                method=method,
                level=growing.level,
                unit=growing.unit,
                patience=self.early_stopping,
                rounds=self.training.iterations,
            )
        with growing.forest.remembering():
            return run_supervised(
                step,
                predictor,
                data,
                members,
                settings=self.training,
                given_outcome=self.notion.conditions_on_outcome,
                has_critic=declared.has_critic,
                on_check=on_check,
                supervision=None if supervision is None else _with_memory(supervision, remembered),
            )

    def _method(
        self, declared: Declaration, data: TrainingData, members: Sequence[Member], n_outputs: int
    ) -> Method:
        assert declared.build is not None
        # A penalty on the score has no use for features, whose precision would become its own.
        without_features = replace(data, x=data.outcome[:, :0])
        return declared.build(
            without_features,
            members,
            penalized_width=n_outputs,
            notion=self.notion,
            critic=self.critic,
            density_ratio=self.density_ratio,
        )


def _with_memory(supervision: Supervision, parts: Mapping[str, Stateful]) -> Supervision:
    """Return the supervision of a run that has these parts to remember as well."""
    identity = supervision.identity
    stated = {**identity.stated, "version of lightgbm": version("lightgbm")}
    return replace(
        supervision,
        identity=replace(identity, stated=stated),
        parts={**supervision.parts, **parts},
    )
