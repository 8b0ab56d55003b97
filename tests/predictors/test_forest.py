"""A forest: sums that are remembered are those that are not, whatever was asked before."""

import numpy as np
import pytest
import torch
from boosted_rows import small_trees

from equipoise import FairBoostingRegressor
from equipoise.predictors.boosting import LIBRARIES
from equipoise.predictors.boosting.trees import BLOCK, Forest

ROUNDS = 2 * BLOCK + 5


@pytest.fixture(scope="module")
def model(library):
    """Trees of a member, as they come out of training, and the prediction of its first rounds."""
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 3))
    options = {**small_trees(library), "random_state": 0}
    regressor = FairBoostingRegressor(strength=0.5, rounds=ROUNDS, method="gdp", **options)
    regressor.fit(x, x.sum(1), sensitive_features=-x[:, 0])
    return regressor.predictor_.network.forest.models[0]


@pytest.fixture(scope="module")
def rows():
    return torch.from_numpy(np.random.default_rng(1).normal(size=(50, 3)))


@pytest.mark.parametrize(
    "asked",
    [
        (7, BLOCK, BLOCK + 3, ROUNDS),
        # Back to fewer rounds, as a member that failed or stopped goes.
        (ROUNDS, BLOCK + 3, 7, BLOCK, ROUNDS),
    ],
)
def test_remembered_sums_are_the_sums(model, rows, asked, library):
    forest, others = Forest(LIBRARIES[library], {3: model}, own=()), rows.flip(0)
    alone = {rounds: forest.outputs(3, rounds, rows).copy() for rounds in asked}
    with forest.caching():
        for rounds in asked:
            np.testing.assert_array_equal(forest.outputs(3, rounds, rows), alone[rounds])
            # Other rows in between are not taken for these.
            np.testing.assert_array_equal(forest.outputs(3, rounds, others), alone[rounds][::-1])
    precision = 1e-12 if library == "lightgbm" else 1e-6
    for rounds in asked:
        expected = model.outputs(rows.numpy(), 0, rounds)
        np.testing.assert_allclose(alone[rounds], expected, rtol=precision, atol=precision)


def test_models_that_are_a_librarys_own_predict_in_one_go(model, rows, library):
    forest = Forest(LIBRARIES[library], {0: model}, own=(0,))
    for rounds in (1, BLOCK + 1, ROUNDS):
        expected = model.outputs(rows.numpy(), 0, rounds)
        np.testing.assert_array_equal(forest.outputs(0, rounds, rows), expected)
