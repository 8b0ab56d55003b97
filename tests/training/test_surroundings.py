"""A fit depends on its arguments alone: not on what the process around it has set or drawn."""

import functools
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

from equipoise import (
    FairBoostingClassifier,
    FairClassifier,
    FairEncoder,
    FairRegressor,
    SBPPenalty,
)
from equipoise.datasets import make_synthetic
from equipoise.density_ratio import NetworkRatio, RatioSettings
from equipoise.methods import con
from equipoise.training import Member, TrainingData, run_phase
from tests.composing import composed

# Short runs need not end well.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The critic collapsed", "ignore:The score may say nothing"
)
ROWS = make_synthetic(120, random_state=1)
NUMBERS = make_synthetic(120, task="regression", random_state=1)
#: Enough that a frontier can judge groups by the gap, which permutes rows.
MORE_ROWS = make_synthetic(400, random_state=1)
SMALL = {"iterations": 60, "batch_size": 40, "random_state": 0}


class Noisy(nn.Module):
    """Draws from every global generator, in training and for its start weights."""

    def __init__(self, n_inputs, n_outputs):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_inputs, 8), nn.Dropout(0.3), nn.Tanh())
        self.head = nn.Linear(8, n_outputs)
        with torch.no_grad():
            self.head.bias.fill_(np.random.rand() + random.random())  # noqa: NPY002

    def forward(self, x):
        noise = (np.random.rand() + random.random()) / 10 if self.training else 0.0  # noqa: NPY002
        return self.head(self.layers(x)) + noise


def fit_network(random_state=0, attributes=("age", "group"), **options):
    options = {"hidden": (8,), **SMALL, **options, "random_state": random_state}
    model = FairClassifier(**options)
    model.fit(ROWS.X, ROWS.y, sensitive_features=ROWS.A[list(attributes)])
    return model.predict_proba(ROWS.X)[:, 1]


def fit_own_network(random_state=0):
    return fit_network(random_state, network=Noisy, hidden=FairClassifier().hidden)


def fit_regressor():
    model = FairRegressor(hidden=(8,), **SMALL)
    return model.fit(NUMBERS.X, NUMBERS.y, sensitive_features=NUMBERS.A).predict(NUMBERS.X)


def fit_encoder():
    model = FairEncoder(encoder_hidden=(4,), hidden=(), **SMALL)
    return model.fit(ROWS.X, ROWS.y, sensitive_features=ROWS.A).transform(ROWS.X)


def fit_trees():
    model = FairBoostingClassifier(rounds=5, random_state=0)
    model.fit(ROWS.X, ROWS.y, sensitive_features=ROWS.A)
    return model.predict_proba(ROWS.X)[:, 1]


def fit_frontier():
    frontier = composed(
        strengths=(0.0, 0.9), seeds=2, ensemble=True, network=Noisy, evaluate_every=20, **SMALL
    )
    frontier.fit(MORE_ROWS.X, MORE_ROWS.y, sensitive_features=MORE_ROWS.A)
    return frontier.table().select_dtypes("number").fillna(-1.0).to_numpy()


def call_penalty():
    draws = np.random.default_rng(0)
    score, noise = (
        torch.from_numpy(draws.normal(size=64).astype(np.float32)).requires_grad_()
        for _ in range(2)
    )
    penalty = SBPPenalty(notion="separation")
    a = (score + noise).detach()
    return np.array([penalty(score, a, noise.detach()).item() for _ in range(10)])


def fit_ratio():
    draws = np.random.default_rng(0)
    columns = torch.from_numpy(draws.normal(size=(80, 2)).astype(np.float32))
    data = TrainingData(
        x=columns, target=columns[:, 0], outcome=columns[:, :1], attribute=columns[:, 1:]
    )
    short = RatioSettings(iterations=60, check_every=20, batch_size=20)
    ratio = NetworkRatio(data, [Member(0.5, 0)], settings=short)
    run_phase(*ratio.phases)
    rows = torch.from_numpy(np.arange(40)[None])
    return ratio(rows, rows + 40).numpy()


def draw_noise():
    return con._noise(5, torch.Generator().manual_seed(0)).numpy()


FITS = {
    "network": fit_network,
    "own network": fit_own_network,
    "batch normalization": lambda: fit_network(
        normalization="batch", critic_normalization="spectral"
    ),
    "gradient penalty": lambda: fit_network(divergence="wasserstein", gradient_penalty=10),
    "con": lambda: fit_network(method="con", notion="separation", attributes=["age"]),
    "icp": lambda: fit_network(method="icp", notion="separation"),
    "neu": lambda: fit_network(method="neu"),
    "numbers": fit_regressor,
    "encoder": fit_encoder,
    "trees": fit_trees,
    "frontier": fit_frontier,
    "penalty": call_penalty,
    "density ratio": fit_ratio,
    "noise of a generator": draw_noise,
}
#: A user makes start weights and layers by torch's defaults, whichever they are.
OWN = ("own network", "frontier")


@pytest.fixture(autouse=True, scope="module")
def short_pretraining():
    """These laws hold however long a network was trained before the first step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("equipoise.methods.conditional.MOST_STEPS", 20)
        yield


@functools.cache
def usual(name):
    return FITS[name]()


def generators():
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002
    return torch.get_rng_state().tolist(), random.getstate(), str(numpy), numpy["state"]["pos"]


@pytest.mark.parametrize("name", FITS)
def test_a_fit_leaves_the_global_generators_alone_and_draws_nothing_from_them(name):
    expected = usual(name)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    random.seed(1)
    before = generators()
    # The same computation twice.
    assert np.array_equal(FITS[name](), expected)
    assert generators() == before


@pytest.mark.parametrize("fit", [fit_network, fit_own_network], ids=["built-in", "own network"])
def test_fits_in_threads_are_those_of_their_seeds(fit):
    seeds = [0, 1, 2]
    expected = [fit(seed) for seed in seeds]
    assert abs(expected[0] - expected[1]).max() > 1e-2
    before = generators()
    together = threading.Barrier(len(seeds))

    def one(seed):
        together.wait(timeout=60)
        return fit(seed)

    with ThreadPoolExecutor(len(seeds)) as pool:
        found = list(pool.map(one, seeds, timeout=120))
    assert generators() == before
    # A thread may add up in another order, no more.
    np.testing.assert_allclose(found, expected, atol=1e-4)


@contextmanager
def default_of_double():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def default_of_another_device():
    """On "meta" nothing has a value, so whatever is made there by mistake is found out."""
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13):
        pytest.skip("Adam of this torch counts its steps on the default device")
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize(
    "defaults", [default_of_double, default_of_another_device], ids=["float64", "device"]
)
@pytest.mark.parametrize("name", [name for name in FITS if name not in OWN])
def test_defaults_of_torch_change_nothing(name, defaults):
    with defaults():
        found = FITS[name]()
    np.testing.assert_allclose(found, usual(name), atol=1e-6)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=lambda m: m.__name__)
@pytest.mark.parametrize("name", ["network", "own network", "icp", "neu", "trees"])
def test_a_fit_trains_where_gradients_are_switched_off(name, mode):
    with mode():
        found = FITS[name]()
    np.testing.assert_allclose(found, usual(name), atol=1e-6)


def test_what_was_fitted_without_gradients_can_be_saved_used_and_fitted_again(tmp_path):
    model = FairClassifier(hidden=(8,), **SMALL)
    with torch.inference_mode():
        model.fit(ROWS.X, ROWS.y, sensitive_features=ROWS.A)
    before = model.predict_proba(ROWS.X)
    model.save(tmp_path / "model.equipoise")
    model.fit(ROWS.X, ROWS.y, sensitive_features=ROWS.A)
    np.testing.assert_allclose(model.predict_proba(ROWS.X), before, atol=1e-6)
