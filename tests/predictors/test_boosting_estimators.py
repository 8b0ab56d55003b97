"""FairBoostingClassifier and FairBoostingRegressor as estimators: options, runs, company."""

import io
import os
import pickle
import re
import signal

import joblib
import lightgbm
import numpy as np
import pandas as pd
import pytest
import sklearn
from boosted_rows import small_trees
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from equipoise import FairBoostingClassifier, FairBoostingRegressor
from equipoise.datasets import make_synthetic
from equipoise.errors import ConvergenceWarning, InputError
from equipoise.predictors.boosting import LIBRARIES

SMALL = {
    "rounds": 25,
    "learning_rate": 0.08,
    "batch_size": 128,
    "critic_hidden": (8,),
    "random_state": 4,
}


@pytest.fixture(scope="module")
def rows():
    return make_synthetic(400, random_state=5)


@pytest.fixture(scope="module")
def numbers():
    return make_synthetic(400, task="regression", random_state=5)


def fit(model, rows, **run):
    return model.fit(rows.X, rows.y, sensitive_features=rows.A, **run)


def scores(model, X):
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


def test_same_random_state_same_model_bit_for_bit(rows, library):
    first, again, other = (
        scores(
            fit(FairBoostingClassifier(library=library, **SMALL | {"random_state": seed}), rows),
            rows.X,
        )
        for seed in (7, 7, 8)
    )
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


@pytest.mark.parametrize("model_class", [FairBoostingClassifier, FairBoostingRegressor])
def test_pickles_and_clones_predict_the_same(rows, numbers, model_class, library):
    data = rows if model_class is FairBoostingClassifier else numbers
    unfitted = pickle.loads(pickle.dumps(model_class(**SMALL, **small_trees(library))))
    model = fit(unfitted, data)
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(file)):
        assert np.array_equal(scores(copy, data.X), scores(model, data.X))
        assert copy.get_params() == model.get_params()
    fresh = clone(model)
    assert not hasattr(fresh, "predictor_")
    assert np.array_equal(scores(fit(fresh, data), data.X), scores(model, data.X))


def test_options_are_read_and_set_by_name():
    model = FairBoostingRegressor(rounds=3, lightgbm={"num_leaves": 5})
    assert model.get_params()["rounds"] == 3
    model.set_params(loss="huber", warmup=2)
    assert (model.loss, model.warmup) == ("huber", 2)
    shared = set(FairBoostingClassifier().get_params())
    assert set(FairBoostingRegressor().get_params()) - shared == {"loss"}
    assert {"notion", "strength", "method", "divergence", "density_ratio"} < shared


def test_grid_search_over_strength_with_routed_attributes(rows):
    with sklearn.config_context(enable_metadata_routing=True):
        model = FairBoostingClassifier(**SMALL).set_fit_request(sensitive_features=True)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), model),
            {"fairboostingclassifier__strength": [0.0, 0.9]},
            cv=2,
            scoring="roc_auc",
            error_score="raise",
        )
        search.fit(rows.X, rows.y, sensitive_features=rows.A)
    plain, fair = search.cv_results_["mean_test_score"]
    assert plain > 0.8 > fair
    assert search.best_params_ == {"fairboostingclassifier__strength": 0.0}
    assert roc_auc_score(rows.y, search.predict_proba(rows.X)[:, 1]) > 0.85


def test_a_callback_ends_growing_by_returning_true(rows):
    told = []

    def callback(progress):
        told.append((progress.iteration, progress.iterations))
        return progress.iteration >= 20

    options = SMALL | {"rounds": 60}
    stopped = fit(FairBoostingClassifier(**options), rows, callback=callback)
    assert told == [(10, 60), (20, 60)]
    assert stopped.history_.iterations.tolist() == [10, 20]
    whole = fit(FairBoostingClassifier(**options | {"rounds": 20}), rows)
    assert np.array_equal(scores(stopped, rows.X), scores(whole, rows.X))


def test_ctrl_c_returns_what_there_is(rows, library):
    def interrupt(progress):
        if progress.iteration == 10:
            os.kill(os.getpid(), signal.SIGINT)

    kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(ConvergenceWarning, match="interrupted") as caught:
            stopped = fit(
                FairBoostingClassifier(library=library, **SMALL), rows, callback=interrupt
            )
    finally:
        signal.signal(signal.SIGINT, kept)
    (message,) = [str(w.message) for w in caught if "interrupted" in str(w.message)]
    assert "round 10 of 25" in message and "fit(..., checkpoint=path)" in message
    whole = fit(FairBoostingClassifier(library=library, **SMALL | {"rounds": 10}), rows)
    assert np.array_equal(scores(stopped, rows.X), scores(whole, rows.X))


def test_unknown_attributes_leave_the_penalty_where_that_is_allowed(rows, library):
    A = rows.A.copy()
    A.loc[::2, "age"] = np.nan
    with pytest.raises(InputError, match="missing_sensitive='skip'"):
        FairBoostingClassifier(**SMALL).fit(rows.X, rows.y, sensitive_features=A)
    # What is known of a row of which something is not known does not matter.
    other = A.copy()
    other.loc[::2, "group"] = other["group"].cat.categories[0]
    model = FairBoostingClassifier(**SMALL, missing_sensitive="skip", library=library)
    first, second = (
        scores(clone(model).fit(rows.X, rows.y, sensitive_features=each), rows.X)
        for each in (A, other)
    )
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4)
    everything = scores(fit(FairBoostingClassifier(**SMALL, library=library), rows), rows.X)
    assert not np.allclose(first, everything, atol=1e-2)


def test_rows_of_weight_zero_do_not_count(rows, library):
    poison = rows.X.assign(evidence_1=1e6)
    both = pd.concat([rows.X, poison]), pd.concat([rows.y, 1 - rows.y])
    A = pd.concat([rows.A, rows.A])
    weight = np.repeat([1.0, 0.0], len(rows.X))
    model = FairBoostingClassifier(
        **SMALL | {"critic_hidden": (32, 32)}, method="gdp", library=library
    )
    weighted = clone(model).fit(*both, sensitive_features=A, sample_weight=weight)
    alone = fit(model, rows, sample_weight=np.ones(len(rows.X)))
    np.testing.assert_allclose(scores(weighted, rows.X), scores(alone, rows.X), atol=1e-6)


def test_sample_weights_count_in_the_penalty(library):
    """Two halves: in one the only feature is A itself, in the other it has nothing to do with A."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=2000)
    tied = np.arange(2000) < 1000
    x = np.where(tied, a, rng.normal(size=2000))
    y = x + 0.3 * rng.normal(size=2000)
    spreads = []
    for weight in (np.where(tied, 1.0, 0.02), np.where(tied, 0.02, 1.0)):
        model = FairBoostingRegressor(strength=0.9, rounds=60, method="gdp", random_state=0)
        model.set_params(learning_rate=0.1, batch_size=256, library=library)
        model.fit(x[:, None], y, sensitive_features=a, sample_weight=weight)
        spreads.append(model.predict(x[:, None]).std())
    assert spreads[0] < 0.7 * spreads[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strength": 1.0}, r"strength must lie in [0, 1), got 1.0; 0 is plain training, values "
                            "near 1 leave little of the task"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1, got 0"),
        ({"rounds": 2.5}, "rounds must be a whole number of at least 1, got 2.5"),
        ({"batch_size": 2.5}, "batch_size must be a whole number of at least 2, got 2.5"),
        ({"learning_rate": 0}, "learning_rate must be positive, got 0"),
        ({"learning_rate": float("inf")}, "learning_rate must be finite, got inf"),
        ({"learning_rate": "fast"}, "learning_rate must be positive, got 'fast'"),
        ({"warmup": -1}, "warmup must be a whole number of rounds of at least 0, got -1"),
        ({"warmup": 0.5}, "warmup must be a whole number of rounds of at least 0, got 0.5"),
        (
            {"early_stopping": 0}, "early_stopping must be a whole number of at least 1, got 0",
        ),
        (
            {"lightgbm": {"nun_leaves": 7}},
            "by which LightGBM grows trees, got 'nun_leaves'; did you mean 'num_leaves'?",
        ),
        ({"lightgbm": {"machines": "a:1"}}, "by which LightGBM grows trees, got 'machines'"),
        (
            {"library": "xgboost", "xgboost": {"max_dept": 7}},
            "parameters by which XGBoost grows trees, got 'max_dept'; did you mean 'max_depth'?",
        ),
        *[
            ({"library": library, library: given}, f"{library} must not set {words}; leave it out")
            for library in LIBRARIES
            for given, words in (
                ({"n_estimators": 7}, "'n_estimators', got 7: use rounds"),
                ({"eta": 0.3}, "'eta', got 0.3: use learning_rate"),
                ({"random_state": 3}, "'random_state', got 3: use random_state"),
                ({"scale_pos_weight": 2}, "'scale_pos_weight', got 2: use sample_weight"),
            )
        ],
        (
            {"lightgbm": {"num_leaves": 7, "max_leaves": 9}},
            "lightgbm must set a parameter once, got 'num_leaves' again as 'max_leaves'; leave one "
            "of them out",
        ),
        (
            {"lightgbm": {"subsample": 0.5}},
            "lightgbm must set 'bagging_freq' above 0 together with 'bagging_fraction', got 0.5 "
            "without it, which LightGBM ignores; set 'bagging_freq' to 1, or leave "
            "'bagging_fraction' out",
        ),
        (
            {"lightgbm": [("num_leaves", 7)]},
            "lightgbm must be a mapping of LightGBM's parameters by name, such as "
            "{'max_depth': 4}, got list",
        ),
        (
            {"xgboost": {"max_depth": 3}},
            "xgboost has no meaning for library='lightgbm', got {'max_depth': 3}; leave it out, "
            "or set library='xgboost'",
        ),
        (
            {"library": "catboost"},
            "library must be 'lightgbm' or 'xgboost', got 'catboost'",
        ),
        (
            {"method": "adel"},
            "method must be one whose penalty sits on the score for boosted trees, got 'adel'; "
            "use method='sbp', or a network",
        ),
        (
            {"method": "gdp", "divergence": "kl"},
            "divergence has no meaning for method='gdp', got 'kl'; leave it out, or use a method "
            "that has it: 'sbp', 'sbp_nw', 'con', 'icp'",
        ),
        ({"members": 0}, "members must be a whole number of at least 1, got 0"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_in_words(rows, options, message):
    with pytest.raises(InputError) as refused:
        fit(FairBoostingClassifier(**options), rows)
    assert message in str(refused.value)


def test_names_of_lightgbm_are_those_it_writes():
    names = LIBRARIES["lightgbm"].parameter_names()
    rows = lightgbm.Dataset(np.arange(40.0)[:, None], np.arange(40.0))
    few = {"max_leaves": 5, "min_child_samples": 3, "reg_lambda": 2.5, "colsample_bytree": 0.5}
    text = lightgbm.train({"verbosity": -1, **few}, rows, 1).model_to_string()
    written = dict(re.findall(r"^\[(\w+): (.*)\]$", text, re.MULTILINE))
    assert set(names.values()) <= written.keys()
    assert {name: float(written[names[name]]) for name in few} == few


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_value_that_a_library_refuses_is_told_in_words(rows, name):
    model = FairBoostingClassifier(library=name, strength=0, rounds=2, **{name: {"max_depth": "x"}})
    with pytest.raises(InputError) as refused:
        model.fit(rows.X, rows.y)
    for words in (f"{name} must hold values", "'max_depth': 'x'", "correct the parameter"):
        assert words in str(refused.value)


def test_bad_requests_are_refused_in_words(rows, tmp_path):
    with pytest.raises(InputError) as refused:
        FairBoostingClassifier().fit(rows.X, rows.y)
    assert str(refused.value) == (
        "sensitive_features is required unless strength=0: call fit(X, y, sensitive_features=A)"
    )
    with pytest.raises(InputError) as refused:
        fit(
            FairBoostingClassifier(**SMALL, lightgbm={"bagging_fraction": 0.5, "bagging_freq": 1}),
            rows,
            checkpoint=tmp_path / "run",
        )
    assert str(refused.value).startswith("checkpoint must be left out if lightgbm sets 'bagging")
    with pytest.raises(InputError) as refused:
        FairBoostingRegressor(loss="hubber", strength=0).fit(rows.X, rows.y)
    assert str(refused.value) == (
        "loss must be one of 'absolute', 'squared', 'huber', got 'hubber'"
    )
