"""How boosted trees are grown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from equipoise.errors import InputError, check_choice, check_number, check_whole
from equipoise.methods import parse_method
from equipoise.predictors.boosting.growing import BoostingStep, Growing
from equipoise.predictors.boosting.objectives import OBJECTIVES
from equipoise.predictors.boosting.stopping import EarlyStopping, Measurable, with_rows_aside
from equipoise.predictors.boosting.trees import LIBRARIES, BoostedTrees
from equipoise.predictors.recipe import Recipe, Run
from equipoise.training import TASKS, Predictor, Trained, train
from equipoise.training.checkpoints import Stateful


@dataclass(frozen=True, kw_only=True)
class BoostingRecipe(Recipe):
    """How members are grown.

    ``training.iterations`` are the rounds, ``training.batch_size`` the rows whose penalty a round
    follows. ``warmup`` is over how many rounds the strength grows to what it is; after
    ``early_stopping`` rounds without a better trade-off on rows set aside a member is as good as
    it gets. ``parameters`` are those of the ``library``, by its name.
    """

    unit = "round"

    learning_rate: float
    warmup: int
    early_stopping: int | None = None
    library: str = "lightgbm"
    parameters: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        declared = parse_method(self.method)
        if declared.build is None or declared.sits_on != "score":
            raise InputError(
                f"method must be one whose penalty sits on the score for boosted trees, got "
                f"{self.method!r}; use method='sbp', or a network"
            )
        check_number("learning_rate", self.learning_rate, "must be positive", lambda rate: rate > 0)
        check_whole("warmup", self.warmup, least=0, of=" of rounds")
        if self.early_stopping is not None:
            check_whole("early_stopping", self.early_stopping, of=" of rounds")
        check_choice("library", self.library, tuple(LIBRARIES))
        LIBRARIES[self.library].checked(self.parameters)

    def check_resumable(self) -> None:
        """Refuse draws whose state the library does not tell."""
        LIBRARIES[self.library].refuse_draws(self.parameters)

    def _train(self, run: Run) -> Trained:
        data, members, supervision = run.data, run.members, run.supervision
        task, n_outputs = run.inputs.task, run.inputs.n_outputs
        library = LIBRARIES[self.library]
        held_out = None
        if self.early_stopping is not None:
            members, held_out = with_rows_aside(members, len(data), data.outcome_class)
        growing = Growing(
            data,
            members,
            library=library,
            objective=OBJECTIVES[task],
            n_outputs=n_outputs,
            categorical=run.inputs.categorical,
            parameters={
                **library.checked(self.parameters),
                "learning_rate": self.learning_rate,
            },
            most_rounds=self.training.iterations,
        )
        trees = BoostedTrees(growing.forest, growing.start)
        predictor = Predictor(trees, TASKS[task])
        method = None
        if run.penalized:
            # A penalty on the score has no use for features, whose precision would become its own.
            without_features = replace(data, x=data.outcome[:, :0])
            context = self._context(replace(run, data=without_features, members=members), n_outputs)
            assert run.declared.build is not None
            method = run.declared.build(context)
        step = BoostingStep(predictor, trees, growing, members, method=method, warmup=self.warmup)
        remembered: dict[str, Stateful] = {"trees": growing}
        on_check = run.on_check
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
                trees=trees,
                method=method,
                level=growing.level,
                unit=growing.unit,
                patience=self.early_stopping,
                rounds=self.training.iterations,
            )
        if supervision is not None:
            identity = supervision.identity
            used = {f"version of {library.name}": library.module("boosting").__version__}
            supervision = replace(
                supervision,
                identity=replace(identity, stated={**identity.stated, **used}),
                parts={**supervision.parts, **remembered},
            )
        with growing.forest.remembering():
            return train(
                data,
                members,
                predictor=predictor,
                method=method,
                step=step,
                settings=self.training,
                given_outcome=self.notion.conditions_on_outcome,
                has_critic=run.declared.has_critic,
                on_check=on_check,
                supervision=supervision,
            )
