"""What a fit leaves behind: all of it, or nothing; and nothing of an earlier fit."""

import numpy as np
import pandas as pd
import pytest
import torch

from equipoise import (
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairEncoder,
    FairRegressor,
)
from equipoise.datasets import make_synthetic
from tests.composing import composed

pytestmark = pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning")
N = 600
NETWORK = {"hidden": (4,), "critic_hidden": (4,), "iterations": 4, "random_state": 0}
TREES = {"rounds": 3, "critic_hidden": (4,), "random_state": 0}
MODELS = {
    "classifier": FairClassifier(strength=0, **NETWORK),
    "regressor": FairRegressor(strength=0, **NETWORK),
    "encoder": FairEncoder(strength=0, encoder_hidden=(3,), **NETWORK),
    "scutari": FairRegressor(strength=0.5, method="scutari", random_state=0),
    "trees": FairBoostingClassifier(strength=0, **TREES),
    "trees of numbers": FairBoostingRegressor(strength=0, **TREES),
}


class Failure(Exception):
    """What a callback raises in the midst of training."""


def fail(progress):
    raise Failure


@pytest.fixture(scope="module")
def rows():
    return make_synthetic(N, random_state=0)


def answer(model, X, A):
    if isinstance(model, FairEncoder):
        return model.transform(X)
    if getattr(model, "attribute_inputs_", ()):
        return model.predict(X, sensitive_features=A)
    name = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    return getattr(model, name)(X)


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_that_fails_changes_nothing(rows, name):
    """Other columns, other categories and other labels, so that any mixture would show."""
    model = MODELS[name]
    model.fit(rows.X, rows.y, sensitive_features=rows.A)
    kept = dict(vars(model))
    before = answer(model, rows.X, rows.A)
    other = pd.DataFrame({"text": ["a", "b", "c"] * (N // 3), "more": np.arange(N) ** 2.0})
    with pytest.raises(Failure):
        model.fit(other, 3 - rows.y, sensitive_features=1 - rows.A["age"], callback=fail)
    assert vars(model) == kept
    np.testing.assert_array_equal(answer(model, rows.X, rows.A), before)


def test_a_frontier_that_fails_changes_nothing(rows):
    options = {**NETWORK, "strengths": (0.0, 0.5), "seeds": 1, "evaluate_every": 2}
    frontier = composed(**options).fit(rows.X, rows.y, sensitive_features=rows.A)
    kept, table = dict(vars(frontier)), frontier.table()
    with pytest.raises(Failure):
        frontier.fit(rows.X[["evidence_1"]], rows.y, sensitive_features=rows.A, callback=fail)
    assert vars(frontier) == kept
    pd.testing.assert_frame_equal(frontier.table(), table)


def test_a_refit_of_an_average_is_a_single_model(rows):
    options = {**NETWORK, "strengths": (0.0,), "seeds": 2, "ensemble": True, "evaluate_every": 2}
    options["linear_path"] = False  # from it the first member would be the best
    frontier = composed(**options).fit(rows.X, rows.y, sensitive_features=rows.A)
    snapshot = frontier.table().query("averaged == 2 and on_front").iloc[0]
    limits = {name: snapshot[f"KS-GSP {name}"] for name in ("age", "group")}
    wish = {"max_unfairness": limits, "metric": "KS-GSP", "min_utility": snapshot["utility"]}
    average = frontier.select(**wish).model
    assert average.averaged_seeds_ == (0, 1)
    average.fit(rows.X, rows.y, sensitive_features=rows.A)
    assert not hasattr(average, "averaged_seeds_")


def test_a_refit_forgets_what_another_method_needed(rows):
    model = FairRegressor(strength=0.5, method="scutari", random_state=0)
    model.fit(rows.X, rows.y, sensitive_features=rows.A)
    names = model.feature_names_in_
    model.set_params(method="sbp", strength=0, **NETWORK).fit(rows.X.to_numpy(), rows.y)
    assert list(names) == list(rows.X.columns)
    assert not {"attribute_inputs_", "feature_names_in_"} & set(vars(model))
    assert model.predict(rows.X.to_numpy()).shape == (N,)


@pytest.mark.parametrize("switched_off", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ["classifier", "trees"])
def test_fits_where_gradients_are_switched_off(rows, name, switched_off):
    def fitted():
        model = MODELS[name].set_params(strength=0.5)
        return model.fit(rows.X, rows.y, sensitive_features=rows.A).predict_proba(rows.X)

    expected = fitted()
    with switched_off():
        np.testing.assert_array_equal(fitted(), expected)
        assert not torch.is_grad_enabled()


@pytest.mark.parametrize("switched_off", [torch.no_grad, torch.inference_mode])
def test_a_frontier_where_gradients_are_switched_off(rows, switched_off):
    options = {**NETWORK, "strengths": (0.5,), "seeds": 1, "evaluate_every": 2}

    def fitted():
        return composed(**options).fit(rows.X, rows.y, sensitive_features=rows.A).table()

    expected = fitted()
    with switched_off():
        pd.testing.assert_frame_equal(fitted(), expected)
