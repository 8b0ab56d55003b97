"""What early stopping looks at: task and penalty of rows set aside, weighed by the strength."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from equipoise import FairBoostingClassifier
from equipoise.estimators.fitting import read_classes, training_data
from equipoise.predictors.boosting.growing import OBJECTIVES
from equipoise.predictors.boosting.recipe import TreeTradeOff
from equipoise.tables import SensitiveTable
from equipoise.training import Member, RowSet
from equipoise.training.stopping import EarlyStopping

ROWS = torch.arange(100, 200)[None]


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 2))
    y = (x[:, 0] + random.normal(size=400) > 0).astype(int)
    table = SensitiveTable.from_data({"age": x[:, 1]})
    return x, y, training_data(x, read_classes(y), table, None)


def grown(x, y):
    options = {"rounds": 30, "members": 1, "early_stopping": None, "random_state": 0}
    model = FairBoostingClassifier(strength=0, **options).fit(x, y)
    return model.predictor_


def task_losses(predictor, x, y):
    """Log loss of the rows set aside after 10, 20 and 30 rounds."""
    found = []
    for rounds in (10, 20, 30):
        raw = predictor.network.forest.outputs(0, rounds, torch.from_numpy(x[100:200]))[:, 0]
        found.append(np.mean(np.logaddexp(0, raw) - raw * y[100:200]))
    return np.array(found)


@pytest.mark.parametrize(
    ("strength", "penalties", "best"),
    [
        # The penalty decides where it weighs most, though the task would take the last rounds ...
        (0.99, (0.5, 0.1, 0.9), 20),
        # ... the task where it does ...
        (0.0, (0.5, 0.1, 0.9), 30),
        # ... and a value below 0 is worth no more than 0.
        (0.99, (-5.0, 0.0, 0.9), 20),
    ],
)
def test_the_best_rounds_are_those_of_the_weighed_sum(rows, strength, penalties, best):
    x, y, data = rows
    predictor = grown(x, y)
    losses = task_losses(predictor, x, y)
    assert losses[0] > losses[1] > losses[2]
    trade_off = (1 - strength) * losses + strength * np.maximum(penalties, 0)
    assert 10 * (1 + trade_off.argmin()) == best
    growing = SimpleNamespace(
        objective=OBJECTIVES["binary"], level=torch.zeros(1), unit=torch.ones(1)
    )
    members = [Member(strength, 0, aside=RowSet(ROWS[0]))]
    stopping = EarlyStopping(
        [predictor.network.rounds],
        TreeTradeOff(growing, predictor, data, members, counts=False, given_outcome=False),
        patience=100,
    )
    for iteration, penalty in zip((10, 20, 30), penalties, strict=True):
        predictor.network.rounds.fill_(iteration)
        assert not stopping(iteration, torch.tensor([penalty]))
    stopping.restore()
    assert int(predictor.network.rounds) == best
    np.testing.assert_allclose(stopping.state_dict()["least"], [trade_off.min()], rtol=1e-6)
