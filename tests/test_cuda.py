"""The same laws on an accelerator: what trains and what measures agrees with the CPU."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from equipoise import (
    FairClassifier,
    FairEncoder,
    FairFrontier,
    FairRegressor,
    SBPPenalty,
    SensitiveTable,
)
from equipoise.datasets import make_synthetic
from equipoise.errors import ConvergenceWarning
from equipoise.methods import METHODS
from equipoise.metrics import measure

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device on this machine"
)
SMALL = {"iterations": 200, "hidden": (16, 16), "random_state": 0}
#: Widths that say nothing beside a network of one's own.
UNSET = FairClassifier().hidden


def own_network(n_inputs, n_outputs):
    return nn.Sequential(nn.Linear(n_inputs, 12), nn.Tanh(), nn.Linear(12, n_outputs))


@pytest.mark.parametrize(
    ("model_class", "options"),
    [
        (FairClassifier, {}),
        (FairClassifier, {"notion": "separation"}),
        (FairClassifier, {"network": own_network, "hidden": UNSET}),
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
        model = model_class(strength=0.8, device=device, **{**SMALL, **options})
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


def dropout_network(n_inputs, n_outputs):
    return nn.Sequential(
        nn.Linear(n_inputs, 12), nn.Tanh(), nn.Dropout(0.3), nn.Linear(12, n_outputs)
    )


def fitted(**options):
    data = make_synthetic(600, random_state=1)
    model = FairClassifier(**{**SMALL, "iterations": 120, "device": "cuda", **options})
    model.fit(data.X, data.y, sensitive_features=data.A)
    return model.predict_proba(data.X)[:, 1]


def test_dropout_on_cuda_draws_from_the_seed_alone_and_leaves_the_generators_alone():
    """Steps are replayed from a graph here, which reads the generator of the device."""
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state(), torch.cuda.get_rng_state()
        found.append(fitted(network=dropout_network, hidden=UNSET, random_state=5))
        assert all(
            torch.equal(now, then)
            for now, then in zip(
                (torch.get_rng_state(), torch.cuda.get_rng_state()), before, strict=True
            )
        )
    # Rounding may differ from run to run, masks of dropout may not.
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)
    other = fitted(network=dropout_network, hidden=UNSET, random_state=6)
    assert abs(other - found[0]).max() > 1e-2


def test_defaults_of_torch_change_nothing_on_cuda():
    expected = fitted()
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("cuda")
    try:
        found = fitted()
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("options", [{}, {"network": dropout_network}], ids=["built-in", "own"])
def test_a_fit_on_the_cpu_never_wakes_the_gpu(options):
    own = ", network=dropout_network, hidden=UNSET" if options else ""
    program = (
        "import torch; from torch import nn; from equipoise import FairClassifier\n"
        "from test_cuda import UNSET, dropout_network, fitted\n"
        f"fitted(device='cpu', iterations=5{own})\n"
        "print('awake' if torch.cuda.is_initialized() else 'asleep')"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parent,
    )
    assert ended.stdout.split() == ["asleep"], ended.stderr


def test_a_resumed_run_of_neu_goes_on_from_its_plain_networks(tmp_path):
    """Plain training on a GPU need not end in the same weights twice, so it is not repeated."""
    data = make_synthetic(600, random_state=1)

    def fit(**given):
        model = FairClassifier(
            **{**SMALL, "iterations": 100}, method="neu", strength=0.9, device="cuda"
        )
        return model.fit(data.X, data.y, sensitive_features=data.A["group"], **given)

    def stop(progress):
        if progress.iteration == 100:
            raise RuntimeError("stopped here")

    whole = fit()
    with pytest.raises(RuntimeError, match="stopped here"):
        fit(checkpoint=tmp_path / "kept", checkpoint_every=0, callback=stop)
    resumed = fit(checkpoint=tmp_path / "kept", resume=True)
    np.testing.assert_allclose(
        resumed.predict_proba(data.X), whole.predict_proba(data.X), atol=1e-2
    )


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_trains_on_cuda_as_on_the_cpu(method):
    """A step that cannot be captured as a graph would warn, and warnings are errors here."""
    data = make_synthetic(1000, random_state=1)
    first = data.A["group"] == data.A["group"].iloc[0]
    group = pd.DataFrame({"group": np.where(first, "one", "other")})
    options = {**SMALL, "iterations": 40}
    if method == "agarwal":
        pytest.importorskip("fairlearn", reason="fairlearn is not installed")
    if method in ("agarwal", "scutari"):
        options = {"random_state": 0}
    if method in ("con", "icp"):
        options["notion"] = "separation"

    def answer(device):
        model = FairClassifier(method=method, strength=0.5, device=device, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(data.X, data.y, sensitive_features=group)
        given = {"sensitive_features": group} if method == "scutari" else {}
        return model.predict_proba(data.X, **given)[:, 1]

    assert np.corrcoef(answer("cpu"), answer("cuda"))[0, 1] > 0.98


def test_snapshots_are_judged_as_they_were_at_their_check(tmp_path):
    """Without a checkpoint the next steps run while a snapshot is judged; with one they wait."""
    data = make_synthetic(1000, random_state=1)

    def table(callback=None, **given):
        model = FairClassifier(iterations=60, hidden=(16, 16), device="cuda")
        frontier = FairFrontier(
            model, strengths=[0.1, 0.8], seeds=2, evaluate_every=20, random_state=0
        )
        frontier.fit(data.X, data.y, sensitive_features=data.A, callback=callback, **given)
        assert not frontier.table().empty
        return frontier.table().select_dtypes("number")

    ahead, waiting = table(), table(checkpoint=tmp_path / "kept")
    pd.testing.assert_frame_equal(ahead, waiting, atol=5e-3, rtol=0)
    ended = table(callback=lambda progress: progress.iteration == 40)
    assert set(ended["iteration"]) == {20, 40}
    first = ahead[ahead["iteration"] <= 40]
    columns = [name for name in first if name not in ("on_front", "threshold")]
    pd.testing.assert_frame_equal(ended[columns], first[columns], atol=5e-3, rtol=0)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("options", [{}, {"normalization": "batch"}, {"network": dropout_network}])
def test_the_second_gpu_does_what_the_first_does(options):
    assert torch.cuda.current_device() == 0
    first, second = (fitted(device=device, **options) for device in ("cuda:0", "cuda:1"))
    np.testing.assert_allclose(first, second, atol=1e-3)
    assert torch.cuda.current_device() == 0
