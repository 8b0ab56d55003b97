"""At strength 0 a model is plain XGBoost, and at nearly 0 it grows the same trees.

Plain models come from XGBoost's own training function, which shares no code with ours.
"""

import numpy as np
import pytest
import xgboost
from test_plain_lightgbm import ALONE, frame, numbers, outcome

from equipoise import FairBoostingClassifier, FairBoostingRegressor

OBJECTIVES = {
    "binary": {"objective": "binary:logistic"},
    "multiclass": {"objective": "multi:softprob", "num_class": 3},
    "squared": {"objective": "reg:squarederror"},
    "absolute": {"objective": "reg:absoluteerror"},
}


def plain(task, X, y, weight=None, categorical=False, **options):
    """Raw predictions on the training rows."""
    if task in ("binary", "multiclass"):
        y = np.unique(y, return_inverse=True)[1]
    rows = xgboost.DMatrix(X, y, weight=weight, enable_categorical=categorical)
    options = {"learning_rate": 0.1, "nthread": 1, **OBJECTIVES[task], **options}
    return xgboost.train(options, rows, 20).predict(rows, output_margin=True)


#: XGBoost's defaults where ours are others.
THEIRS = {"max_depth": 6, "reg_lambda": 1.0}


def raw(task, X, y, weight=None, a=None, xgboost=None, **options):
    options = {"rounds": 20, "learning_rate": 0.1, "strength": 0, **ALONE, **options}
    options |= {"library": "xgboost", "xgboost": {**THEIRS, **(xgboost or {})}}
    if task in ("binary", "multiclass"):
        model = FairBoostingClassifier(**options)
        return model.fit(X, y, sensitive_features=a, sample_weight=weight).decision_function(X)
    model = FairBoostingRegressor(loss=task, **options)
    return model.fit(X, y, sensitive_features=a, sample_weight=weight).predict(X)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", OBJECTIVES)
def test_strength_zero_is_plain_xgboost(task, weighted):
    X, signal = numbers()
    y = outcome(task, signal)
    # Multiples of the least weight by a power of two, so that both see the same weights.
    weight = np.random.default_rng(2).integers(1, 4, len(y)) / 2 if weighted else None
    # Drawn anew in every round, so that members never share a stream of draws.
    own = {"max_depth": 3, "subsample": 0.5, "seed": 5, "seed_per_iteration": True}
    theirs = plain(task, X, y, weight, **own)
    options = {"xgboost": {"max_depth": 3, "subsample": 0.5}, "random_state": 5}
    found = raw(task, X, y, weight, **options)
    assert np.ptp(theirs) > 1
    np.testing.assert_allclose(found, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("task", ["binary", "squared"])
def test_missing_values_and_categories_are_xgboosts_own(task):
    X, signal = frame()
    y = outcome(task, signal)
    theirs = plain(task, X.astype({"job": "category"}), y, categorical=True)
    np.testing.assert_allclose(raw(task, X, y, random_state=0), theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", ["binary", "multiclass", "squared"])
@pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning")
def test_hardly_any_strength_grows_the_same_trees(task, weighted):
    """So gradients, Hessians and starts are those that XGBoost has inside.

    Not for the absolute error, where XGBoost refits every leaf to a median.
    """
    X, signal = numbers()
    y = outcome(task, signal)
    weight = np.random.default_rng(2).integers(1, 4, len(y)) / 2 if weighted else None
    theirs = plain(task, X, y, weight)
    options = {"strength": 1e-12, "method": "gdp", "random_state": 0}
    mine = raw(task, X, y, weight, a=-X[:, 3], **options)
    if task == "multiclass":  # XGBoost starts from centered logarithms of the shares
        mine, theirs = (each - each.mean(1, keepdims=True) for each in (mine, theirs))
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=2e-4 * np.ptp(theirs))


def test_numbers_too_large_for_single_precision_are_scaled():
    X, signal = numbers()
    scale = 2.0**200
    found, expected = (
        raw("squared", factor * X, outcome("squared", signal), random_state=0)
        for factor in (scale, 1.0)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)
