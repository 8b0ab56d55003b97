"""Small fitted frontiers of every kind, fitted once."""

import functools

import numpy as np
from torch import nn

from equipoise.datasets import make_synthetic
from tests.composing import composed

SMALL = {
    "strengths": (0.0, 0.9),
    "seeds": 2,
    "hidden": (8,),
    "critic_hidden": (4,),
    "batch_size": 100,
    "iterations": 40,
    "evaluate_every": 10,
    "random_state": 7,
    "device": "cpu",
    "members": 1,
    "early_stopping": None,
}
NAMES = ("two classes, ensemble", "three classes, ensemble", "numbers, weights", "separation")


def own_network(n_inputs, n_outputs):
    return nn.Sequential(nn.Linear(n_inputs, 6), nn.Tanh(), nn.Linear(6, n_outputs))


def three_classes(rows):
    """Labels that the first two features and some noise decide."""
    noise = 0.5 * np.random.default_rng(0).normal(size=len(rows.X))
    return np.array(["c", "a", "b"])[np.digitize(rows.X.iloc[:, :2].sum(axis=1) + noise, [-1, 1])]


def weights(n):
    """Weights of rows, some of them 0."""
    return np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], n)


@functools.cache
def rows(task="classification"):
    return make_synthetic(1500, task=task, random_state=3)


@functools.cache
def fitted(name):
    """The frontier of this name."""
    data = rows()
    if name == "two classes, ensemble":
        # Longer and of more seeds, so that some averages are on a front.
        longer = {**SMALL, "seeds": 3, "iterations": 80}
        model, y, given = composed(ensemble=True, **longer), data.y, {}
    elif name == "three classes, ensemble":
        model, y, given = composed(ensemble=True, **SMALL), three_classes(data), {}
    elif name == "numbers, weights":
        data = rows("regression")
        model, y = composed(task="regression", validation=range(300), **SMALL), data.y
        given = {"sample_weight": weights(len(data.X))}
    elif name == "separation":
        model, y, given = composed(notion="separation", **SMALL), data.y, {}
    elif name == "own network":
        model, y, given = composed(network=own_network, ensemble=True, **SMALL), data.y, {}
    else:
        raise KeyError(name)
    return model.fit(data.X, y, sensitive_features=data.A, **given)
