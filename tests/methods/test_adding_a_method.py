"""A toy method, added as docs/add-a-method.md says, obeys the common laws and trains everywhere."""

import numpy as np
import pytest
import test_method_laws as laws
import torch
from method_settings import simulated, supported_settings

from equipoise import FairBoostingClassifier, FairClassifier, FairFrontier
from equipoise.datasets import make_synthetic
from equipoise.methods import METHODS, Capabilities, Declaration, parse_method, register_method
from equipoise.training import Member


class Correlation:
    def __init__(self, context):
        self._data = context.data
        self._attribute = context.known_attribute
        self.networks = torch.nn.Module()

    def penalty(self, penalized, rows, resampled):
        weight = self._data.row_weights(rows)[..., None]
        score, attribute = (
            values - (weight * values).sum(1, keepdim=True)
            for values in (penalized, self._attribute[rows])
        )
        covariance = score.transpose(1, 2) @ (weight * attribute)
        variances = [(weight * values.square()).sum(1) for values in (score, attribute)]
        product = variances[0][:, :, None] * variances[1][:, None, :]
        return (covariance.square() / (product + 1e-6)).sum((1, 2))


TOY = Declaration(
    name="toy_correlation",
    title="Linear correlation",
    reference="A toy (2026), these tests",
    summary="Penalizes squared correlations of score and A within the batch.",
    capabilities=Capabilities(separation=False, representation=False, controls="mean"),
    build=Correlation,
)
register_method(TOY, listed=False)
SETTINGS = list(supported_settings({TOY.name: TOY}))


def test_it_is_known_and_not_offered():
    assert parse_method("toy_correlation") is TOY and "toy_correlation" not in METHODS


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize(
    "law",
    [
        laws.test_members_together_equal_members_alone,
        laws.test_what_an_unknown_attribute_would_have_been_changes_nothing,
        laws.test_a_penalty_never_waits_for_the_device,
        laws.test_weights_count_rows_where_no_network_is_trained,
    ],
    ids=lambda law: law.__name__,
)
def test_it_obeys_the_laws(law, setting):
    law(setting)


def test_its_penalty_is_the_squared_correlation():
    data, _, _ = simulated(SETTINGS[0], 200, seed=0, double=True)
    rows = torch.arange(200)[None]
    score = data.x[:, :1]
    found = laws.ready(SETTINGS[0], data, [Member(0.5, 0)]).penalty(score[None], rows, rows)
    both = np.corrcoef(torch.cat([score, data.attribute], 1).T)[0, 1:]
    assert found.item() == pytest.approx((both**2).sum(), rel=1e-4)


@pytest.mark.parametrize(
    "model",
    [
        FairClassifier(method="toy_correlation", iterations=5, random_state=0),
        FairBoostingClassifier(method="toy_correlation", rounds=2, random_state=0),
        FairFrontier(
            FairClassifier(method="toy_correlation", iterations=5), strengths=(0.0, 0.9), seeds=1
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_and_frontiers_train_by_it(model):
    drawn = make_synthetic(600, random_state=0)
    model.fit(drawn.X, drawn.y, sensitive_features=drawn.A)
