"""Networks with a linear path: they start as ridge or logistic regression of the training rows."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score

from equipoise import FairClassifier, FairRegressor
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.methods import Context
from equipoise.networks import StackedMLP
from equipoise.notions import Notion
from equipoise.predictors.linear import fit_linear
from equipoise.predictors.network import start_linear
from equipoise.training import Member, RowSet
from equipoise.training.data import TrainingData, generators

N, P = 300, 6
NOTION = Notion.INDEPENDENCE


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(N, P)) + np.arange(P)


@pytest.fixture(scope="module", params=[False, True], ids=["alike", "weighted"])
def weight(request):
    drawn = np.random.default_rng(1).uniform(0.1, 3, N)
    return drawn / drawn.mean() if request.param else None


def learned(x, target, task, n_outputs, weight):
    """Weights (outputs, p) and biases (outputs,) of the linear model of all rows."""
    tensors = {"x": x, "target": target, "outcome": target, "weight": weight}
    rows = TrainingData(
        **{name: None if v is None else torch.as_tensor(v) for name, v in tensors.items()}
    )
    _, found = fit_linear(rows, task, n_outputs, [100.0, 1.0])
    return [tensor.numpy() for tensor in found]


@pytest.mark.parametrize("task", ["squared", "huber", "absolute"])
def test_for_numbers_it_is_ridge_regression(x, weight, task):
    y = x @ np.linspace(-1, 1, P) + np.random.default_rng(2).normal(size=N)
    weights, biases = learned(x, y, task, 1, weight)
    ridge = Ridge(alpha=1.0).fit(x, y, sample_weight=weight)
    np.testing.assert_allclose(weights[0], ridge.coef_, rtol=1e-8)
    np.testing.assert_allclose(biases[0], ridge.intercept_, rtol=1e-8)


@pytest.mark.parametrize(("task", "classes"), [("binary", 2), ("multiclass", 3)])
def test_for_classes_it_is_logistic_regression(x, weight, task, classes):
    noise = np.random.default_rng(3).logistic(size=N)
    y = np.digitize((x - np.arange(P)) @ np.linspace(-1, 1, P) + noise, [0, 1][: classes - 1])
    weights, biases = learned(x, y, task, 1 if classes == 2 else 3, weight)
    exact = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(x, y, sample_weight=weight)
    ours = x @ weights.T + biases
    theirs = exact.decision_function(x).reshape(N, -1)
    if classes == 3:  # a constant added to all logits changes nothing
        ours, theirs = (each - each.mean(axis=1, keepdims=True) for each in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, atol=0.01)


def test_a_network_begins_as_its_linear_model_plus_its_layers(x):
    rows = torch.as_tensor(x, dtype=torch.float32).expand(2, N, P)
    start = torch.arange(2.0 * P).view(2, P), torch.tensor([3.0, -1.0])
    plain, network = (
        StackedMLP(P, (8,), 2, generators=generators([0, 1], "predictor"), **path)
        for path in ({}, {"linear_path": True})
    )
    with torch.no_grad():
        torch.testing.assert_close(network(rows), 0.3 * plain(rows))
        network.start_linear(1, *start)
        added = rows[1] @ start[0].T + start[1]
        torch.testing.assert_close(network(rows)[1], 0.3 * plain(rows)[1] + added)
        torch.testing.assert_close(network(rows)[0], 0.3 * plain(rows)[0])
        torch.testing.assert_close(network.with_last_hidden(rows)[0], network(rows))


def test_on_few_rows_of_a_linear_law_a_network_is_about_as_good_as_ridge_regression():
    random = np.random.default_rng(4)
    X = random.normal(size=(2400, 10))
    y = X[:, 0] + X[:, 1] / 2 + 2 * random.normal(size=2400)
    train, test = slice(400), slice(400, None)
    ridge = Ridge().fit(X[train], y[train]).predict(X[test])
    by = {
        path: FairRegressor(strength=0, linear_path=path, random_state=0)
        .fit(X[train], y[train])
        .predict(X[test])
        for path in (True, False)
    }
    with_path, without = (r2_score(y[test], by[path]) for path in (True, False))
    assert with_path > r2_score(y[test], ridge) - 0.01
    assert with_path > without + 0.01


def test_the_rows_set_aside_choose_how_small_its_weights_are():
    """Of noise they choose nearly a constant, of a clear law hardly any penalty."""
    random = np.random.default_rng(5)
    X = torch.as_tensor(random.normal(size=(200, 10)))
    network = StackedMLP(10, (4,), 1, generators=generators([0], "predictor"), linear_path=True)
    member = Member(0.0, 0, RowSet(range(150)), RowSet(range(150, 200)))
    sizes = []
    for target in (X[:, 0], torch.as_tensor(random.normal(size=200))):
        data = TrainingData(x=X, target=target, outcome=target[:, None])
        start_linear(network, Context(data=data, members=[member], notion=NOTION, task="squared"))
        sizes.append(float(network.linear.detach().abs().max()))
    assert sizes[0] > 0.99 and sizes[1] < 0.05


@pytest.mark.parametrize("classes", [2, 3])
def test_networks_that_adjust_scores_begin_as_a_linear_model_of_the_scores(x, classes):
    random, outputs = np.random.default_rng(6), 1 if classes == 2 else 3
    X, y = torch.as_tensor(x), torch.as_tensor(random.integers(classes, size=N))
    data = TrainingData(x=X, target=y, outcome=y[:, None].double())
    seeds = generators([0], "predictor")
    network = StackedMLP(P, (4,), outputs, generators=seeds, linear_path=True)
    context = Context(
        data=data,
        members=[Member(0.9, 0)],
        notion=NOTION,
        task="binary" if classes == 2 else "multiclass",
    )
    start_linear(network, context, of_scores=True)
    scores = TrainingData(x=X[:, :outputs], target=y, outcome=data.outcome)
    ((weight, bias),) = fit_linear(scores, context.task, outputs, [1.0])
    torch.testing.assert_close(network.linear[0, :, :outputs].double(), weight, check_dtype=False)
    torch.testing.assert_close(network.head.bias[0].double(), bias, check_dtype=False)
    assert (network.linear[0, :, outputs:] == 0).all()


@pytest.mark.parametrize(
    ("options", "has"),
    [
        ({}, True),
        ({"method": "adel"}, True),
        ({"linear_path": False}, False),
        ({"hidden": ()}, False),
        ({"strength": 0.1}, False),
    ],
    ids=str,
)
def test_only_networks_without_a_penalty_have_it(options, has):
    """With one they would start where the score depends on A the most."""
    data = make_synthetic(60, random_state=0)
    given = {"strength": 0, "iterations": 2, "members": 1, "random_state": 0, **options}
    model = FairClassifier(**given, early_stopping=None)
    model.fit(data.X, data.y, sensitive_features=np.arange(60) % 2)
    assert (model.predictor_.network.linear is not None) == has


def test_bad_input_is_refused():
    data = make_synthetic(60, random_state=0)
    with pytest.raises(InputError, match="linear_path must be True or False, got 'yes'"):
        FairClassifier(linear_path="yes").fit(data.X, data.y, sensitive_features=data.A)
