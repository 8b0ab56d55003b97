"""Models that stop early on rows set aside and average their members: what the defaults promise."""

import functools

import numpy as np
import onnxruntime
import pytest
import torch
from scipy.special import expit, softmax
from sklearn.metrics import log_loss

from equipoise import (
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairRegressor,
    load,
)
from equipoise.datasets import make_synthetic
from equipoise.training import Member
from equipoise.training.stopping import with_rows_aside

#: So short a training may leave a critic behind, and on noise there is nothing to learn.
pytestmark = pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning")

ROWS = make_synthetic(300, random_state=1)
#: One model that trains on all rows.
ALONE = {"members": 1, "early_stopping": None}
#: Features as they are, so that an encoding learned on all rows tells nothing of any.
AS_THEY_ARE = {"scaling": "none", "embedding": "none", "hidden": (6,), "batch_size": 50}


def noise(n, seed):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, 10)), random.random(n) < 0.4


@pytest.mark.parametrize("kind", [FairClassifier, FairBoostingClassifier])
def test_on_noise_a_default_model_is_hardly_worse_than_a_constant(kind):
    (X, y), (new, truth) = noise(400, seed=0), noise(5000, seed=1)
    constant = log_loss(truth, np.full(len(truth), y.mean()))

    def found(**options):
        model = kind(strength=0, random_state=0, **options).fit(X, y)
        return log_loss(truth, model.predict_proba(new)[:, 1])

    assert found() < 1.02 * constant
    assert found(**ALONE) > 1.3 * constant


def outputs_of(model, X):
    """Raw outputs (members, n, outputs) of the networks or trees of a model."""
    rows = torch.from_numpy(np.asarray(model.encoder_.transform(X))).double()
    network = model.predictor_.network
    if hasattr(network, "forest"):
        rounds = network.rounds.tolist()
        start = network.start.numpy()
        found = [network.forest.outputs(k, each, rows) for k, each in enumerate(rounds)]
        return np.stack(found) + start[:, None]
    with torch.no_grad():
        return network.double().eval()(rows.expand(network.members, -1, -1)).numpy()


THREE = {"members": 3, "random_state": 0, "strength": 0.5, "critic_hidden": (4,)}
NETWORK = {"hidden": (6,), "iterations": 60, **THREE}
TREES = {"rounds": 12, **THREE}


@pytest.mark.parametrize(
    ("kind", "options"),
    [(FairClassifier, NETWORK), (FairBoostingClassifier, TREES)],
    ids=["network", "trees"],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_the_mean_of_those_of_the_members(kind, options, classes, tmp_path):
    y = np.digitize(ROWS.X.iloc[:, 0], [0.0, 0.7][: classes - 1])
    model = kind(**options).fit(ROWS.X, y, sensitive_features=ROWS.A)
    answers = model.predict_proba(ROWS.X)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model").predict_proba(ROWS.X)
    raw = outputs_of(model, ROWS.X)
    assert raw.shape == (3, 300, 1 if classes == 2 else 3)
    each = softmax(raw, axis=-1)
    if classes == 2:
        each = np.concatenate([1 - expit(raw), expit(raw)], axis=-1)
    assert abs(each[0] - each[1]).max() > 0.005
    np.testing.assert_allclose(answers, each.mean(axis=0), rtol=0, atol=1e-6)
    np.testing.assert_allclose(again, answers, rtol=0, atol=1e-12)
    if kind is FairClassifier:
        assert_onnx_answers(model, tmp_path / "model.onnx", "probabilities", answers)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(FairRegressor, NETWORK), (FairBoostingRegressor, TREES)],
    ids=["network", "trees"],
)
def test_predictions_are_the_mean_of_those_of_the_members(kind, options, tmp_path):
    y = 50 + 9 * ROWS.X.iloc[:, 0].to_numpy()
    model = kind(**options).fit(ROWS.X, y, sensitive_features=ROWS.A)
    answers = model.predict(ROWS.X)
    each = model.center_ + model.scale_ * outputs_of(model, ROWS.X)[..., 0]
    np.testing.assert_allclose(answers, each.mean(axis=0), rtol=1e-6)
    model.save(tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").predict(ROWS.X), answers, rtol=1e-12)
    if kind is FairRegressor:
        assert_onnx_answers(model, tmp_path / "model.onnx", "prediction", answers)


def assert_onnx_answers(model, path, name, answers):
    model.to_onnx(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    columns = {str(column): ROWS.X[column].to_numpy(float) for column in ROWS.X}
    (found,) = session.run([name], columns)
    np.testing.assert_allclose(found.reshape(answers.shape), answers, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_rows_that_a_member_sets_aside_do_not_train_it_but_the_others(strength):
    X, y = ROWS.X.to_numpy(float), ROWS.y.to_numpy()
    members = [Member(strength, 7), Member(strength, 8)]
    classes = torch.from_numpy(np.unique(y, return_inverse=True)[1])
    first, _ = with_rows_aside(members, len(y), classes)
    changed = X.copy()
    changed[first.aside.numbers.numpy()] += 3.0

    def weights(features):
        # The only check is at the end, so both keep their last weights. Rows set aside would also
        # choose the penalty of a linear path.
        options = {"iterations": 20, "early_stopping": 20, "members": 2, "random_state": 7}
        options["linear_path"] = False
        model = FairClassifier(strength=strength, **AS_THEY_ARE, **options)
        model.fit(features, y, sensitive_features=ROWS.A)
        return [weight.detach() for weight in model.predictor_.parameters()]

    pairs = list(zip(weights(X), weights(changed), strict=True))
    assert all(torch.equal(before[0], after[0]) for before, after in pairs)
    assert any(not torch.equal(before[1], after[1]) for before, after in pairs)


class Stop(Exception):
    """What ends a run from outside."""


SHORT = {"members": 2, "random_state": 0}
#: Large steps, by which models soon overfit.
STEEP = {"early_stopping": 150, "learning_rate": 0.01, "hidden": (16,), **SHORT}
RUNS = {
    "network": lambda: FairClassifier(strength=0.0, iterations=600, **STEEP),
    "penalized network": lambda: FairClassifier(strength=0.3, iterations=300, **STEEP),
    "trees": lambda: FairBoostingClassifier(
        strength=0.3, rounds=100, early_stopping=20, learning_rate=0.3, **SHORT
    ),
}


@functools.cache
def whole_run(name):
    X, y = noise(300, seed=2)
    return RUNS[name]().fit(X, y, sensitive_features=ROWS.A)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("number", [1, 2])
def test_a_resumed_run_stops_where_the_uninterrupted_one_does(name, number, tmp_path):
    (X, y), A = noise(300, seed=2), ROWS.A
    run = {"sensitive_features": A, "checkpoint": tmp_path / "run", "checkpoint_every": 0}
    told = []

    def callback(progress):
        told.append(progress)
        if len(told) == number + 1:
            raise Stop

    with pytest.raises(Stop):
        RUNS[name]().fit(X, y, callback=callback, **run)
    resumed = RUNS[name]().fit(X, y, resume=True, **run)
    whole = whole_run(name)
    last = whole.history_.iterations[-1]
    if name == "penalized network":  # its weights settle at the end
        assert last == 300
    else:
        assert last < (600 if name == "network" else 100)
    assert resumed.history_.iterations[-1] == last
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize("name", RUNS)
def test_a_callback_that_ends_training_leaves_the_best_so_far(name):
    X, y = noise(300, seed=2)

    def ended(checks):
        told = []
        model = RUNS[name]().set_params(strength=0, members=1, early_stopping=1000)
        return model.fit(X, y, callback=lambda each: told.append(each) or len(told) == checks)

    classes = torch.from_numpy(y).long()
    (member,) = with_rows_aside([Member(0.0, 0)], len(y), classes)
    aside = member.aside.numbers.numpy()
    models = {checks: ended(checks) for checks in range(1, 6)}
    losses = {
        checks: log_loss(y[aside], model.predict_proba(X[aside])[:, 1])
        for checks, model in models.items()
    }
    best = min(losses, key=losses.get)
    assert best < 5 and models[5].history_.iterations.shape == (5,)
    np.testing.assert_array_equal(models[5].predict_proba(X), models[best].predict_proba(X))
    # The run that was not ended there overfits on, and keeps the same.
    np.testing.assert_array_equal(models[5].predict_proba(X), ended(0).predict_proba(X))


def iterations_of(n=300, **options):
    X, y = noise(n, seed=0)
    model = FairClassifier(strength=0, hidden=(4,), random_state=0, **options).fit(X, y)
    return int(model.history_.iterations[-1])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"epochs": 2}, 6),
        ({"epochs": 0.5}, 2),  # half of three batches, begun
        ({"epochs": 2, "iterations": 4}, 4),  # the first of both limits
        ({"epochs": 2, "iterations": 400}, 6),
        ({"epochs": 2, "batch_size": 1000}, 2),  # a batch is at most all rows
        ({"epochs": None, "iterations": 7}, 7),
    ],
)
def test_epochs_are_passes_over_the_rows(options, expected):
    assert iterations_of(**{"batch_size": 100, **ALONE, **options}) == expected


def test_epochs_are_passes_over_the_rows_that_a_member_trains_on():
    """240 of them here: two batches an epoch."""
    assert iterations_of(epochs=2, batch_size=100, members=2) == 4


@pytest.mark.parametrize(("n", "batches"), [(100, 1), (300, 4), (2500, 25), (9000, 30)])
def test_an_automatic_batch_is_a_25th_of_the_rows_within_64_and_300(n, batches):
    assert iterations_of(n, epochs=1, **ALONE) == batches


@pytest.mark.parametrize(("n", "judged"), [(19, False), (20, True)])
def test_few_rows_are_not_set_aside(n, judged):
    X, y = noise(n, seed=0)
    model = FairClassifier(strength=0, iterations=2, random_state=0).fit(X, y)
    assert (model.health_.utility is not None) == judged


def test_members_differ_and_the_first_is_that_of_the_seed():
    X, y = noise(100, seed=0)
    options = {"strength": 0, "iterations": 5, "early_stopping": None, "random_state": 3}
    one, three = (FairClassifier(members=k, **options).fit(X, y) for k in (1, 3))
    outputs = outputs_of(three, X)
    np.testing.assert_allclose(outputs[0], outputs_of(one, X)[0], rtol=1e-4, atol=1e-6)
    assert all(abs(outputs[0] - outputs[k]).max() > 0.01 for k in (1, 2))
