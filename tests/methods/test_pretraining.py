"""Networks trained before a run: one that fails is told of and never passes for a trained one."""

import numpy as np
import pytest
import torch
from torch import nn

from equipoise import FairClassifier
from equipoise.datasets import make_synthetic
from equipoise.density_ratio import NetworkRatio, RatioSettings
from equipoise.errors import ConvergenceWarning, InputError
from equipoise.methods.con import train_gan
from equipoise.methods.icp import describe_outcome
from equipoise.methods.neu import Neutralized
from equipoise.methods.shared.pretraining import pretrain
from equipoise.networks import StackedMLP
from equipoise.training import (
    TASKS,
    Member,
    OptimizerSettings,
    Predictor,
    TrainingData,
    TrainingSettings,
)
from equipoise.training.members import generators

STREAMS = [(0, ()), (1, ())]


def rows(n=60, **broken):
    """Rows of two classes and a mixed attribute; ``broken`` names columns and rows to spoil."""
    draws = np.random.default_rng(0)
    group = draws.integers(0, 2, n)
    columns = {
        "x": draws.normal(size=(n, 2)),
        "attribute": np.column_stack([group, draws.normal(size=n)]),
        "outcome": draws.integers(0, 2, (n, 1)),
    }
    tensors = {name: torch.from_numpy(values).float() for name, values in columns.items()}
    classes = tensors["outcome"][:, 0].long()
    for name, row in broken.items():
        tensors[name][row] = torch.nan
    return TrainingData(**tensors, target=tensors["outcome"][:, 0], outcome_class=classes)


class Counting:
    """Adds one to every weight a step; from ``fails_at`` on the second network has no loss."""

    def __init__(self, fails_at):
        self.modules = nn.Module()
        self.modules.weight = nn.Parameter(torch.zeros(2, 1))
        self.rates = {}
        self._fails_at = fails_at
        self._step = 0

    def __call__(self, rows, resampled):
        self._step += 1
        with torch.no_grad():
            self.modules.weight += 1
        loss = torch.tensor([0.0, torch.nan if self._step >= self._fails_at else 0.0])
        return loss, torch.zeros(2)


def test_a_network_that_fails_goes_back_to_its_last_good_weights_and_this_is_said():
    step = Counting(fails_at=120)
    with pytest.warns(ConvergenceWarning) as told:
        pretrain(step, STREAMS, 60, epochs=1, device=torch.device("cpu"), asked_by="method='icp'")
    message = str(told[0].message)
    for part in ("method='icp'", "1 of 2", "at step 120", "last good weights"):
        assert part in message
    # 400 steps, looked at after every 50th.
    assert step.modules.weight.flatten().tolist() == [400.0, 100.0]


def test_a_network_that_never_trained_is_refused():
    step = Counting(fails_at=3)
    with pytest.raises(InputError) as refused:
        pretrain(step, STREAMS, 60, epochs=1, device=torch.device("cpu"), asked_by="method='icp'")
    for part in ("method='icp'", "1 of 2", "at step 3", "extreme values"):
        assert part in str(refused.value)


def test_the_generator_of_con_is_refused_if_it_fails():
    data = rows(outcome=7)
    with pytest.raises(InputError, match=r"method='con' needs networks.*2 of 2"):
        train_gan(data, STREAMS, data.attribute)


def test_the_density_of_icp_is_refused_if_it_fails():
    data = rows(attribute=7)
    with pytest.raises(InputError, match=r"method='icp' needs networks.*2 of 2"):
        describe_outcome(data, STREAMS, data.attribute)


def test_the_plain_networks_of_neu_are_refused_if_they_fail():
    data = rows(x=7)
    network = StackedMLP(2, (3,), 1, generators=generators([0], "predictor"))
    method = Neutralized(
        data,
        [Member(0.5, 0)],
        predictor=Predictor(network, TASKS["binary"]),
        settings=TrainingSettings(iterations=60, batch_size=20),
    )
    with pytest.raises(InputError, match=r"method='neu' needs networks.*1 of 1"):
        method.pretrain(resumed=False)


@pytest.mark.parametrize("patience", [None, 5])
def test_a_density_ratio_that_never_trained_is_refused(patience):
    settings = RatioSettings(iterations=40, check_every=20, batch_size=20, patience=patience)
    with pytest.raises(InputError, match=r"density_ratio='network' needs networks.*1 of 1"):
        NetworkRatio(rows(attribute=7), [Member(0.5, 0)], settings=settings)


def test_a_density_ratio_that_fails_later_keeps_its_last_good_weights():
    """With a rate this large weights overflow, but not at once."""
    settings = RatioSettings(
        hidden=(8,),
        optimizer=OptimizerSettings(kind="sgd", learning_rate=1e3),
        iterations=200,
        check_every=1,
        batch_size=20,
        patience=None,
    )
    with pytest.warns(ConvergenceWarning, match=r"density_ratio='network' trains networks"):
        ratio = NetworkRatio(rows(), [Member(0.5, 0)], settings=settings)
    stopped_at = ratio.history.stopped_at[0]
    assert stopped_at > 1
    start = StackedMLP(
        3, (8,), 1, generators=generators([0], "density ratio"), normalization="none"
    )
    moved = [
        not torch.equal(now, then)
        for now, then in zip(ratio.network.critic.parameters(), start.parameters(), strict=True)
    ]
    assert all(weight.isfinite().all() for weight in ratio.network.parameters()) and any(moved)


class Stop(Exception):
    pass


def test_a_resumed_run_of_neu_has_its_plain_networks_from_the_checkpoint(tmp_path):
    data = make_synthetic(120, random_state=1)
    path = tmp_path / "kept"
    options = {"method": "neu", "iterations": 100, "hidden": (6,), "random_state": 0}

    def fit(learning_rate=1e-3, **given):
        model = FairClassifier(**options, learning_rate=learning_rate)
        return model.fit(data.X, data.y, sensitive_features=data.A["group"], **given)

    def stop(progress):
        if progress.iteration == 100:
            raise Stop

    whole = fit()
    with pytest.raises(Stop):
        fit(checkpoint=path, checkpoint_every=0, callback=stop)
    resumed = fit(checkpoint=path, resume=True)
    # The same computation, taken up in its middle.
    assert np.array_equal(whole.predict_proba(data.X), resumed.predict_proba(data.X))
    with pytest.raises(InputError, match=r"learning_rate was 0\.001, is 0\.01"):
        fit(learning_rate=0.01, checkpoint=path, resume=True)
