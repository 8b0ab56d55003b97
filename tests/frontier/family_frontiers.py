"""Small fitted frontiers of boosted trees, and of trees and networks, fitted once."""

import functools

import numpy as np
import pandas as pd
import torch
from small_frontiers import SMALL, own_network, rows, three_classes, weights

from tests.composing import composed

#: Options of trees; rows are few, so leaves have to be small.
BOOSTING = {
    "rounds": 12,
    "learning_rate": 0.05,
    "lightgbm": {"num_leaves": 5, "min_data_in_leaf": 10, "lambda_l2": 0.0},
    "warmup": 2,
    "critic_hidden": (4,),
    "batch_size": 100,
    "members": 1,
    "early_stopping": None,
}
SHARED = {name: SMALL[name] for name in ("strengths", "seeds", "random_state", "device")}
TREES = {**SHARED, "predictor": "boosting", "boosting": BOOSTING, "evaluate_every_rounds": 4}
#: Networks that learn so fast that some are better than trees, and some trees than they.
NETWORKS = {**SMALL, "learning_rate": 0.01}
BOTH = {**NETWORKS, **TREES, "predictor": "both"}
ONE_SEED = {**BOTH, "seeds": 1}
#: Both families, as little of each as there can be.
LEAST = {**BOTH, "strengths": (0.9,), "seeds": 1, "iterations": 20}
LEAST["boosting"] = {**BOOSTING, "rounds": 8}


@functools.cache
def fitted(name):
    """The frontier of this name."""
    data = rows("regression" if "numbers" in name else "classification")
    y, given = data.y, {}
    if name in ("network", "boosting", "both"):
        options = {"network": NETWORKS, "boosting": TREES, "both": BOTH}[name]
        model = composed(ensemble=True, **options)
    elif name == "three classes":
        model, y = composed(notion="separation", **ONE_SEED), three_classes(data)
    elif name == "numbers, weights":
        model = composed(task="regression", loss="huber", **ONE_SEED)
        given = {"sample_weight": weights(len(data.X))}
    elif name == "own network":
        model = composed(network=own_network, **ONE_SEED)
    else:
        raise KeyError(name)
    return model.fit(data.X, y, sensitive_features=data.A, **given)


def kept_numbers(frontier, family):
    """Snapshots of a family that have weights."""
    curve = frontier.fitted_curve()
    return [n for n in curve.snapshots.weights if curve.owner(n)[0].name == family]


def assert_same(first, second):
    """Tables, members, histories and kept models are equal, bit for bit."""
    X = rows().X
    pd.testing.assert_frame_equal(first.table(), second.table(), check_exact=True)
    pd.testing.assert_frame_equal(first.members(), second.members(), check_exact=True)
    histories = [
        {"": each.history_} if not isinstance(each.history_, dict) else each.history_
        for each in (first, second)
    ]
    assert list(histories[0]) == list(histories[1])
    for family, history in histories[0].items():
        for name, values in vars(history).items():
            np.testing.assert_array_equal(values, vars(histories[1][family])[name], strict=True)
    kept, again = (each.fitted_curve().snapshots.weights for each in (first, second))
    assert kept.keys() == again.keys() and kept
    for number, tensors in kept.items():
        assert tensors.keys() == again[number].keys()
        for name, tensor in tensors.items():
            assert torch.equal(tensor, again[number][name]), (number, name)
        one, two = (each.fitted_curve().model(number) for each in (first, second))
        assert type(one) is type(two) and one.get_params() == two.get_params()
        assert np.array_equal(one.predict(X), two.predict(X))
        if hasattr(one, "predict_proba"):
            assert np.array_equal(one.predict_proba(X), two.predict_proba(X))
