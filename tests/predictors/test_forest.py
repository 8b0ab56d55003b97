"""A forest: sums that are remembered are those that are not, whatever was asked before."""

import lightgbm
import numpy as np
import pytest
import torch

from equipoise.predictors.boosting.trees import BLOCK, Forest

ROUNDS = 2 * BLOCK + 5


@pytest.fixture(scope="module")
def model():
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 3))
    options = {"objective": "regression", "verbosity": -1, "num_threads": 1, "num_leaves": 4}
    return lightgbm.train(options, lightgbm.Dataset(x, x.sum(1)), ROUNDS)


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
def test_remembered_sums_are_the_sums(model, rows, asked):
    forest, others = Forest({3: model}, own=()), rows.flip(0)
    alone = {rounds: forest.outputs(3, rounds, rows).copy() for rounds in asked}
    with forest.remembering():
        for rounds in asked:
            np.testing.assert_array_equal(forest.outputs(3, rounds, rows), alone[rounds])
            # Other rows in between are not taken for these.
            np.testing.assert_array_equal(forest.outputs(3, rounds, others), alone[rounds][::-1])
    for rounds in asked:
        expected = model.predict(rows.numpy(), raw_score=True, num_iteration=rounds)
        np.testing.assert_allclose(alone[rounds][:, 0], expected, rtol=1e-12)


def test_models_that_are_lightgbms_own_predict_as_lightgbm_to_the_last_bit(model, rows):
    forest = Forest({0: model}, own=(0,))
    for rounds in (1, BLOCK + 1, ROUNDS):
        expected = model.predict(rows.numpy(), raw_score=True, num_iteration=rounds)
        np.testing.assert_array_equal(forest.outputs(0, rounds, rows)[:, 0], expected)
