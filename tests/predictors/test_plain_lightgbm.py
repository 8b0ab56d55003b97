"""At strength 0 a model is plain LightGBM, and at nearly 0 it grows the same trees.

Plain models come from LightGBM's own scikit-learn interface, which shares no code with ours.
"""

import lightgbm
import numpy as np
import pandas as pd
import pytest

from equipoise import FairBoostingClassifier, FairBoostingRegressor

N = 700
OWN = {"num_leaves": 7, "bagging_fraction": 0.5, "bagging_freq": 1}
#: LightGBM's defaults where ours are others.
THEIRS = {
    "num_leaves": 31,
    "min_data_in_leaf": 20,
    "lambda_l2": 0.0,
    "cat_smooth": 10.0,
    "cat_l2": 10.0,
}
#: One model of all rows, grown to the end.
ALONE = {"members": 1, "early_stopping": None}


def numbers(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 5))
    signal = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.standard_t(3, N)
    return X, signal


def frame():
    """Numbers, whole numbers, text, categories, truth values; some of each missing."""
    rng = np.random.default_rng(1)
    X, _ = numbers(1)
    table = pd.DataFrame(X, columns=list("abcde"))
    table.loc[::7, "a"] = np.nan
    table["count"] = rng.integers(0, 9, N)
    table["job"] = pd.Series(rng.choice(np.array(["cook", "nurse", "clerk", None]), N), dtype="str")
    table["town"] = pd.Categorical(rng.choice(list("xyz"), N), categories=list("zyxw"))
    table.loc[::11, "town"] = np.nan
    table["member"] = rng.random(N) < 0.5
    effect = table["job"].map({"cook": 2.0, "nurse": -1.0}).fillna(0)
    return table, (effect + table["town"].eq("z") + table["b"]).to_numpy()


def outcome(task, signal):
    if task == "binary":
        return np.where(signal > 0.3, "yes", "no")
    if task == "multiclass":
        return np.digitize(signal, [-0.7, 0.6])
    return 40 + 7 * signal


def plain(task, y, weight=None, **options):
    options = {"n_estimators": 20, "learning_rate": 0.1, "n_jobs": 1, "verbose": -1, **options}
    if task in ("binary", "multiclass"):
        return lightgbm.LGBMClassifier(**options)
    named = {"squared": "regression", "absolute": "regression_l1", "huber": "huber"}
    # Huber's loss turns linear at one standard deviation of the outcome, of weighted rows.
    spread = np.sqrt(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))
    return lightgbm.LGBMRegressor(objective=named[task], alpha=spread, **options)


def ours(task, lightgbm=None, **options):
    options = {"rounds": 20, "learning_rate": 0.1, "strength": 0, **ALONE, **options}
    options["lightgbm"] = {**THEIRS, **(lightgbm or {})}
    if task in ("binary", "multiclass"):
        return FairBoostingClassifier(**options)
    return FairBoostingRegressor(loss=task, **options)


def raw(model, X):
    if isinstance(model, lightgbm.LGBMModel):
        return model.predict(X, raw_score=True)
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


TASKS = ["binary", "multiclass", "squared", "absolute", "huber"]


@pytest.mark.parametrize("task", TASKS)
def test_strength_zero_is_plain_lightgbm(task):
    X, signal = numbers()
    y = outcome(task, signal)
    new = np.random.default_rng(9).normal(size=(300, 5))
    theirs = plain(task, y, random_state=3).fit(X, y)
    mine = ours(task, random_state=3).fit(X, y)
    assert np.ptp(raw(theirs, new)) > 1
    assert np.array_equal(raw(mine, new), raw(theirs, new))
    if hasattr(mine, "classes_"):
        np.testing.assert_allclose(mine.predict_proba(new), theirs.predict_proba(new), rtol=1e-12)
        assert np.array_equal(mine.predict(new), theirs.predict(new))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("scale", [0.01, 50.0])
def test_sample_weights_count_as_in_lightgbm(task, scale):
    """Of any scale: what counts are multiples of the least weight, which come to a mean near 1."""
    X, signal = numbers()
    y = outcome(task, signal)
    weight = scale * np.random.default_rng(2).exponential(size=N)
    multiples = weight / weight.min()
    near_one = multiples / 2.0 ** np.rint(np.log2(multiples.mean()))
    assert 0.7 < near_one.mean() < 1.42
    theirs = plain(task, y, near_one).fit(X, y, sample_weight=near_one)
    mine = ours(task, random_state=0).fit(X, y, sample_weight=weight)
    assert np.array_equal(raw(mine, X), raw(theirs, X))
    assert not np.array_equal(raw(mine, X), raw(plain(task, y).fit(X, y), X))


@pytest.mark.parametrize("task", ["binary", "squared"])
def test_missing_values_and_categories_are_lightgbms_own(task):
    X, signal = frame()
    y = outcome(task, signal)
    theirs = plain(task, y).fit(X.astype({"job": "category"}), y)
    mine = ours(task, random_state=0).fit(X, y)
    assert np.array_equal(raw(mine, X), raw(theirs, X.astype({"job": "category"})))
    assert any("==" in str(tree) for tree in theirs.booster_.trees_to_dataframe()["decision_type"])


@pytest.mark.parametrize("task", ["binary", "multiclass", "squared"])
def test_parameters_and_seed_reach_lightgbm(task):
    X, signal = numbers()
    y = outcome(task, signal)
    theirs = plain(task, y, random_state=5, **OWN).fit(X, y)
    mine = ours(task, random_state=5, lightgbm=OWN).fit(X, y)
    assert np.array_equal(raw(mine, X), raw(theirs, X))
    other = ours(task, random_state=6, lightgbm=OWN).fit(X, y)
    assert not np.array_equal(raw(other, X), raw(theirs, X))


def test_sensitive_features_change_nothing_at_strength_zero():
    X, signal = numbers()
    y = outcome("binary", signal)
    without = ours("binary", random_state=0).fit(X, y)
    beside = ours("binary", random_state=0).fit(X, y, sensitive_features=-X[:, 0])
    assert np.array_equal(raw(without, X), raw(beside, X))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", ["binary", "multiclass", "squared", "huber"])
@pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning")
def test_hardly_any_strength_grows_the_same_trees(task, weighted):
    """So our gradients, Hessians and starts are those that LightGBM has inside.

    Not for the absolute error, where LightGBM refits every leaf to a median.
    """
    X, signal = numbers()
    y = outcome(task, signal)
    weight = np.random.default_rng(2).exponential(size=N) if weighted else None
    theirs = plain(task, y, weight).fit(X, y, sample_weight=weight)
    mine = ours(task, strength=1e-12, method="gdp", random_state=0)
    mine.fit(X, y, sensitive_features=-X[:, 3], sample_weight=weight)
    scale = np.ptp(raw(theirs, X))
    np.testing.assert_allclose(raw(mine, X), raw(theirs, X), rtol=0, atol=1e-6 * scale)


def test_a_share_of_rows_without_its_frequency_would_change_nothing():
    """This is why the estimators refuse it; all rows may be asked for."""
    X, signal = numbers()
    y = outcome("squared", signal)
    shares = [plain("squared", y, subsample=share).fit(X, y).predict(X) for share in (0.5, 1.0)]
    np.testing.assert_array_equal(*shares)
    asked = ours("squared", lightgbm={"subsample": 1.0, "subsample_freq": 0}, random_state=0)
    np.testing.assert_array_equal(
        asked.fit(X, y).predict(X), ours("squared", random_state=0).fit(X, y).predict(X)
    )
