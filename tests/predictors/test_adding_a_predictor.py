"""A toy family, added as docs/add-a-predictor.md says, obeys the common laws of families."""

from dataclasses import dataclass

import numpy as np
import pytest
import test_predictor_laws as laws
import torch

from equipoise.critic import CriticSettings
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.estimators import Classifies
from equipoise.networks import Stack
from equipoise.networks.stack import of_member
from equipoise.notions import Notion
from equipoise.predictors import FAMILIES, Family, Recipe, register_family
from equipoise.tables import FeatureEncoder
from equipoise.training import TASKS, OptimizerSettings, Predictor, TrainingSettings, train


class LinearStack(Stack):
    def __init__(self, members, n_in, n_out):
        super().__init__()
        self.members = members
        self.tilt = torch.nn.Parameter(torch.zeros(members, n_out, n_in))
        self.level = torch.nn.Parameter(torch.zeros(members, n_out))

    def forward(self, x):
        return torch.baddbmm(self.level[:, None], x, self.tilt.transpose(1, 2))

    def to_onnx(self, graph, rows, member):
        parts = (of_member(each, member) for each in (self.tilt, self.level))
        return graph.add("Gemm", rows, *map(graph.constant, parts), transB=1)

    @classmethod
    def restored(cls, saved):
        members, n_out, n_in = saved.state["tilt"].shape
        saved.check_outputs(n_out)
        if n_in != saved.inputs:
            raise ValueError(f"linear models must have {saved.inputs} inputs")
        return cls(members, n_in, n_out)


@dataclass(frozen=True, kw_only=True)
class LinearRecipe(Recipe):
    def __post_init__(self):
        super().__post_init__()
        self.need_penalty_on_score("linear models")

    def carry_out(self, run):
        data, members = run.context.data, run.context.members
        stack = LinearStack(len(members), data.x.shape[1], run.inputs.n_outputs)
        return train(
            data,
            members,
            predictor=Predictor(stack, TASKS[run.inputs.task]).to(data.x),
            method=run.method(run.inputs.n_outputs),
            settings=self.training,
            has_critic=run.declared.has_critic,
            **run.watched,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifier(Classifies):
    notion: str = "independence"
    strength: float = 0.5
    method: str = "sbp"
    iterations: int = 12
    sensitive_types: dict | None = None
    missing_sensitive: str = "error"
    random_state: int | None = None
    verbose: int = 0

    @property
    def family(self):
        return "toy"

    def _device(self):
        return torch.device("cpu")

    def _new_encoder(self):
        return FeatureEncoder(scaling="standard")

    def _recipe(self):
        return LinearRecipe(
            notion=Notion.parse(self.notion),
            method=self.method,
            density_ratio="auto",
            critic=CriticSettings(hidden=(8,)),
            training=TrainingSettings(
                iterations=self.iterations,
                batch_size=100,
                optimizer=OptimizerSettings(learning_rate=1e-2),
            ),
        )


TOY = Family("linear model", "linear models", "iteration", {"tilt": LinearStack})
register_family("toy", TOY)
laws.SMALL["toy"] = LinearClassifier()


def test_it_is_known():
    assert FAMILIES["toy"] is TOY
    register_family("toy", TOY)  # the same again changes nothing
    with pytest.raises(InputError, match=r"name must be new, got 'toy'.*rename"):
        register_family("toy", Family("another", "others", "round"))


@pytest.mark.parametrize(
    "law",
    [
        laws.test_members_together_equal_members_alone,
        laws.test_a_member_taken_out_answers_as_before,
        laws.test_a_model_read_from_its_arrays_is_the_same,
        laws.test_a_check_ends_training,
        laws.test_a_frontier_offers_it_beside_others,
    ],
    ids=lambda law: law.__name__,
)
def test_it_obeys_the_laws(law):
    law("toy")


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 0), (0, 1)])
def test_arrays_of_another_size_are_refused(inputs, outputs):
    laws.test_arrays_of_another_size_are_refused("toy", inputs, outputs)


def test_it_mitigates():
    drawn = make_synthetic(1500, random_state=0)

    def correlation(strength):
        model = LinearClassifier(strength=strength, iterations=400, random_state=0)
        model.fit(drawn.X, drawn.y, sensitive_features=drawn.A)
        score = model.predict_proba(drawn.X)[:, 1]
        return max(
            abs(np.corrcoef(score, drawn.A[name].astype("category").cat.codes)[0, 1])
            for name in drawn.A
        )

    assert correlation(0.95) < correlation(0.0) / 2


def test_methods_that_need_a_network_are_refused():
    drawn = make_synthetic(100, random_state=0)
    model = LinearClassifier(method="neu")
    with pytest.raises(InputError, match=r"penalty sits on the score for linear models.*'neu'"):
        model.fit(drawn.X, drawn.y, sensitive_features=drawn.A)
