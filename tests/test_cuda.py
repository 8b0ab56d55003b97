"""The same laws on an accelerator: what trains and what measures agrees with the CPU."""

import numpy as np
import pytest
import torch
from torch import nn

from equipoise import FairClassifier, FairEncoder, FairRegressor, SBPPenalty, SensitiveTable
from equipoise.datasets import make_synthetic
from equipoise.metrics import measure

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device on this machine"
)
SMALL = {"iterations": 200, "hidden": (16, 16), "random_state": 0}


def own_network(n_inputs, n_outputs):
    return nn.Sequential(nn.Linear(n_inputs, 12), nn.Tanh(), nn.Linear(12, n_outputs))


@pytest.mark.parametrize(
    ("model_class", "options"),
    [
        (FairClassifier, {}),
        (FairClassifier, {"notion": "separation"}),
        (FairClassifier, {"network": own_network}),
        (FairClassifier, {"divergence": "wasserstein", "gradient_penalty": 10}),
        (FairRegressor, {"notion": "separation"}),
        (FairEncoder, {"encoder_hidden": (4,)}),
    ],
    ids=["plain", "separation", "own network", "wasserstein", "regression", "representation"],
)
def test_training_on_cuda_agrees_with_the_cpu(model_class, options):
    task = "regression" if model_class is FairRegressor else "classification"
    data = make_synthetic(2000, task=task, random_state=1)

    def answer(device):
        model = model_class(strength=0.8, device=device, **SMALL, **options)
        model.fit(data.X, data.y, sensitive_features=data.A)
        if model_class is FairEncoder:
            return model.transform(data.X)
        return (
            model.predict_proba(data.X)[:, 1] if task == "classification" else model.predict(data.X)
        )

    # Rounding differs and the game amplifies it; batches and start weights are the same.
    on_cpu, on_cuda = (answer(device).ravel() for device in ("cpu", "cuda"))
    assert np.corrcoef(on_cpu, on_cuda)[0, 1] > 0.98


def test_the_penalty_on_cuda_agrees_with_the_cpu():
    generator = torch.Generator().manual_seed(0)
    score, noise, y = torch.randn(3, 256, generator=generator, dtype=torch.float64)
    a, y = score + noise, (y + score > 0).double()
    values = []
    for device in ("cpu", "cuda"):
        penalty = SBPPenalty(notion="separation")
        for _ in range(20):
            value = penalty(score.to(device), a.to(device), y.to(device))
        assert value.device.type == device
        values.append(value.item())
    assert values[0] == pytest.approx(values[1], rel=1e-6)


@pytest.mark.parametrize("metric", ["SP", "EO", "KS-GSP", "KS-GEO"])
def test_metrics_on_cuda_equal_the_cpu(metric):
    data = make_synthetic(3000, random_state=1)
    y = torch.tensor(data.y.to_numpy())
    scores = torch.rand(5, 3000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for column in SensitiveTable.from_data(data.A).columns:
        on_cpu = measure(metric, scores, column, y).values
        on_cuda = measure(metric, scores.cuda(), column, y.cuda()).values
        torch.testing.assert_close(on_cuda.cpu(), on_cpu, rtol=1e-12, atol=1e-12)
