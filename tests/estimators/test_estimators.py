import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from equipoise import FairClassifier, FairEncoder, FairRegressor
from equipoise.datasets import make_synthetic
from equipoise.density_ratio import RatioSettings
from equipoise.errors import ConvergenceWarning, InputError

SMALL = {"iterations": 60, "hidden": (16,), "critic_hidden": (8,), "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    return make_synthetic(600, random_state=3)


@pytest.fixture(scope="module")
def numbers():
    return make_synthetic(600, task="regression", random_state=3)


def weights_of(model):
    return list(model.predictor_.state_dict().items())


def assert_same_weights(first, second):
    for (name, a), (_, b) in zip(weights_of(first), weights_of(second), strict=True):
        assert torch.equal(a, b), name


def test_strength_zero_equals_plain_training_bit_for_bit(rows):
    without = FairClassifier(strength=0, **SMALL).fit(rows.X, rows.y)
    beside = FairClassifier(strength=0, **SMALL).fit(rows.X, rows.y, sensitive_features=rows.A)
    assert_same_weights(without, beside)


@pytest.mark.parametrize("notion", ["independence", "separation"])
def test_same_random_state_same_weights_and_global_generators_untouched(rows, notion, monkeypatch):
    # For separation a network is trained before the first step, which draws from its seed as well.
    short = partial(RatioSettings, iterations=30)
    monkeypatch.setattr("equipoise.density_ratio.RatioSettings", short)

    def fit(seed):
        model = FairClassifier(notion=notion, **{**SMALL, "random_state": seed, "iterations": 20})
        with warnings.catch_warnings():
            # Twenty iterations are too few for a critic to learn anything.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(rows.X, rows.y, sensitive_features=rows.A)

    np.random.seed(1)  # noqa: NPY002 - the legacy global state is what must not move
    torch.manual_seed(1)
    expected = np.random.rand(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    first = fit(7)
    assert (np.random.rand(), torch.rand(1).item()) == expected  # noqa: NPY002
    assert_same_weights(first, fit(7))
    with pytest.raises(AssertionError):
        assert_same_weights(first, fit(8))


def test_without_random_state_fits_differ_and_leave_the_global_generator_alone(rows):
    np.random.seed(1)  # noqa: NPY002
    expected = np.random.rand()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    options = {**SMALL, "random_state": None, "iterations": 2, "early_stopping": None}
    models = [FairClassifier(strength=0, **options).fit(rows.X, rows.y) for _ in range(2)]
    assert np.random.rand() == expected  # noqa: NPY002
    with pytest.raises(AssertionError):
        assert_same_weights(*models)


def adult_like(n=300):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "hours": rng.integers(10, 60, n),
            "gain": np.where(rng.random(n) < 0.8, 0.0, rng.lognormal(8, 1, n)),
            "job": rng.choice(["cook", "nurse", "clerk"], n),
            "member": rng.random(n) < 0.5,
        }
    )
    frame.loc[::17, "gain"] = np.nan
    y = np.where(frame["hours"] + 10 * frame["member"] > 40, "yes", "no")
    A = pd.DataFrame({"age": rng.normal(40, 10, n), "sex": rng.choice(["F", "M"], n)})
    return frame, y, A


def test_pandas_and_polars_frames_with_categories_give_the_same_model():
    X, y, A = adult_like()
    X["job"] = X["job"].astype("category")
    options = {**SMALL, "iterations": 200}
    from_pandas = FairClassifier(**options).fit(X, y, sensitive_features=A)
    X_polars = pl.from_pandas(X)
    from_polars = FairClassifier(**options).fit(
        X_polars, pl.Series(y), sensitive_features=pl.from_pandas(A)
    )
    assert_same_weights(from_pandas, from_polars)
    assert from_polars.predict(X_polars).tolist() == from_pandas.predict(X).tolist()
    assert from_pandas.feature_names_in_.tolist() == from_polars.feature_names_in_.tolist()
    assert set(from_pandas.predict(X)) == {"yes", "no"}


def test_unseen_categories_are_predicted_with_a_warning_that_names_them():
    X, y, A = adult_like()
    model = FairClassifier(**SMALL).fit(X, y, sensitive_features=A)
    strange = X.head(3).assign(job="pilot")
    with pytest.warns(UserWarning, match=r"'job'.*'pilot'"):
        probabilities = model.predict_proba(strange)
    np.testing.assert_allclose(probabilities.sum(1), 1)


def test_a_wrong_column_name_is_named():
    X, y, A = adult_like()
    model = FairClassifier(**SMALL).fit(X, y, sensitive_features=A)
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- hour\n"):
        model.predict(X.rename(columns={"hours": "hour"}))


def test_sensitive_features_are_not_needed_to_predict_and_their_typing_is_told(rows):
    model = FairClassifier(**SMALL).fit(rows.X, rows.y, sensitive_features=rows.A)
    assert model.predict(rows.X).shape == (600,)
    assert "age" in model.sensitive_
    assert "continuous" in model.sensitive_
    assert "group" in model.sensitive_
    assert "discrete" in model.sensitive_


def test_multi_class_probabilities_under_both_notions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    labels = np.array(["low", "mid", "top"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    A = {"age": rng.normal(size=300), "race": rng.choice(["a", "b", "c"], 300)}
    for notion in ("independence", "separation"):
        model = FairClassifier(notion=notion, **{**SMALL, "iterations": 300, "learning_rate": 0.01})
        model.fit(X, labels, sensitive_features=A)
        probabilities = model.predict_proba(X)
        assert probabilities.shape == (300, 3)
        np.testing.assert_allclose(probabilities.sum(1), 1)
        assert model.decision_function(X).shape == (300, 3)
        assert (model.predict(X) == labels).mean() > 0.8


@pytest.mark.parametrize("model_class", [FairClassifier, FairEncoder])
def test_pickle_and_clone(rows, model_class):
    options = {**SMALL, "iterations": 10, "strength": 0}
    model = model_class(**options).fit(rows.X, rows.y, sensitive_features=rows.A)
    answer = "transform" if model_class is FairEncoder else "predict_proba"
    revived = pickle.loads(pickle.dumps(model))
    assert np.array_equal(getattr(revived, answer)(rows.X), getattr(model, answer)(rows.X))
    fresh = clone(model)
    assert not hasattr(fresh, "predictor_")
    assert_same_weights(fresh.fit(rows.X, rows.y, sensitive_features=rows.A), model)


def test_pipeline_and_grid_search_with_metadata_routing(rows):
    with sklearn.config_context(enable_metadata_routing=True):
        model = FairClassifier(learning_rate=0.01, **SMALL)
        model.set_fit_request(sensitive_features=True)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), model),
            {"fairclassifier__strength": [0.0, 0.9]},
            cv=2,
            scoring="roc_auc",
            error_score="raise",
        )
        search.fit(rows.X, rows.y, sensitive_features=rows.A)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] > 0.8
    assert search.best_params_ == {"fairclassifier__strength": 0.0}
    assert roc_auc_score(rows.y, search.predict_proba(rows.X)[:, 1]) > 0.8


def own_network(n_inputs, n_outputs):
    return nn.Sequential(
        nn.Linear(n_inputs, 12),
        nn.BatchNorm1d(12),
        nn.Tanh(),
        nn.Dropout(0.1),
        nn.Linear(12, n_outputs),
    )


def test_a_network_of_ones_own_trains_and_is_reproducible(rows):
    def fit():
        options = {"iterations": 150, "critic_hidden": (8,), "random_state": 0}
        return FairClassifier(network=own_network, learning_rate=0.01, **options).fit(
            rows.X, rows.y, sensitive_features=rows.A
        )

    model = fit()
    assert roc_auc_score(rows.y, model.predict_proba(rows.X)[:, 1]) > 0.8
    assert_same_weights(model, fit())
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(rows.X), model.predict(rows.X))


@pytest.mark.parametrize("loss", ["absolute", "squared", "huber"])
def test_regression_losses_find_their_own_center(loss):
    """With nothing to learn from, absolute loss finds the median and squared loss the mean."""
    rng = np.random.default_rng(0)
    y = 100 + rng.exponential(10, 2000)
    X = np.zeros((2000, 1))
    # Weight decay would pull the constant to the mean.
    options = {"learning_rate": 0.02, "weight_decay": 0.0, "iterations": 300, "random_state": 0}
    model = FairRegressor(loss=loss, strength=0, hidden=(), **options)
    with pytest.warns(ConvergenceWarning, match="The score is nearly constant"):
        model.fit(X, y)
    expected = {"absolute": np.median(y), "squared": y.mean()}
    prediction = model.predict(X[:1])[0]
    if loss == "huber":
        assert expected["absolute"] < prediction < expected["squared"]
    else:
        assert prediction == pytest.approx(expected[loss], abs=0.3)


def test_linear_regression_matches_least_squares(numbers):
    model = FairRegressor(
        strength=0,
        hidden=(),
        scaling="standard",
        embedding="none",
        weight_decay=0,
        iterations=1500,
        learning_rate=0.01,
        random_state=0,
    ).fit(numbers.X, numbers.y)
    design = np.column_stack([np.ones(600), numbers.X])
    coefficients = np.linalg.lstsq(design, numbers.y, rcond=None)[0]
    assert np.abs(model.predict(numbers.X) - design @ coefficients).max() < 0.05


def test_rows_of_weight_zero_do_not_count(rows):
    poison = rows.X.assign(evidence_1=1e6)
    X = pd.concat([rows.X, poison], ignore_index=True)
    y = pd.concat([rows.y, 1 - rows.y], ignore_index=True)
    A = pd.concat([rows.A, rows.A], ignore_index=True)
    weight = np.r_[np.full(600, 2.0), np.zeros(600)]
    weighted = FairClassifier(**SMALL).fit(X, y, sensitive_features=A, sample_weight=weight)
    alone = FairClassifier(**SMALL).fit(rows.X, rows.y, sensitive_features=rows.A)
    np.testing.assert_allclose(
        weighted.predict_proba(rows.X), alone.predict_proba(rows.X), rtol=1e-3, atol=1e-4
    )


def test_sample_weights_count_in_the_penalty():
    """Two halves: in one the only feature is A itself, in the other it has nothing to do with A.

    Where the first half carries the weight, the penalty takes the model's slope away; where the
    second half does, the same strength has nothing to object to.
    """
    rng = np.random.default_rng(0)
    a = rng.normal(size=2000)
    tied = np.arange(2000) < 1000
    x = np.where(tied, a, rng.normal(size=2000))
    y = x + 0.3 * rng.normal(size=2000)
    fits = []
    for weight in (np.where(tied, 1.0, 0.02), np.where(tied, 0.02, 1.0)):
        model = FairRegressor(strength=0.97, hidden=(16,), iterations=400, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x[:, None], y, sensitive_features=a, sample_weight=weight)
        fits.append(np.corrcoef(model.predict(x[:, None]), x)[0, 1])
    assert fits[0] < 0.9
    assert fits[1] > 0.98


def test_rows_with_missing_attributes_stay_in_the_task_and_leave_the_penalty(rows):
    A = rows.A.copy()
    A.loc[::2, "age"] = np.nan
    with pytest.raises(InputError, match="missing_sensitive='skip'"):
        FairClassifier(**SMALL).fit(rows.X, rows.y, sensitive_features=A)
    skipped = FairClassifier(missing_sensitive="skip", **SMALL)
    skipped.fit(rows.X, rows.y, sensitive_features=A)
    # What a missing row would have said does not matter: no value leaks into the penalty.
    other = A.copy()
    other.loc[::2, "group"] = other["group"].cat.categories[0]
    again = FairClassifier(missing_sensitive="skip", **SMALL)
    again.fit(rows.X, rows.y, sensitive_features=other)
    assert_same_weights(skipped, again)
    # At strength 0 those rows count like all others.
    plain = FairClassifier(strength=0, missing_sensitive="skip", **SMALL)
    everybody = FairClassifier(strength=0, **SMALL).fit(rows.X, rows.y)
    assert_same_weights(plain.fit(rows.X, rows.y, sensitive_features=A), everybody)


def test_features_that_are_the_attribute_itself_are_reported():
    a = np.random.default_rng(0).normal(size=1000)
    options = {"hidden": (16,), "normalization": "batch", "iterations": 500, "random_state": 0}
    options |= {"batch_size": 300, "weight_decay": 1.0}
    model = FairRegressor(strength=0.99, members=1, early_stopping=None, **options)
    with (
        pytest.warns(UserWarning, match="X has the sensitive column 'sensitive_0'"),
        pytest.warns(
            ConvergenceWarning, match=r"At strength 0\.99 the critic still sees a strong dependence"
        ),
    ):
        model.fit(a[:, None], a, sensitive_features=a)
    assert not model.health_.ok


def test_a_constant_score_is_reported(rows):
    model = FairClassifier(strength=0.5, **SMALL)
    with pytest.warns(ConvergenceWarning, match="The score is nearly constant") as caught:
        model.fit(np.zeros((600, 1)), rows.y, sensitive_features=rows.A)
    assert "Lower the strength (now 0.5) or train longer." in str(caught[0].message)
    assert model.health_.score_spread < 0.01


def test_a_critic_that_collapsed_is_reported(rows):
    model = FairClassifier(strength=0.9, critic_learning_rate=1e-12, **SMALL)
    with pytest.warns(ConvergenceWarning, match="The critic collapsed: it sees no dependence"):
        model.fit(rows.X, rows.y, sensitive_features=rows.A)
    assert model.health_.correlation > 0.2
    assert model.health_.critic_value == pytest.approx(0, abs=1e-6)


def test_a_healthy_fit_says_so(rows):
    model = FairClassifier(**SMALL).fit(rows.X, rows.y, sensitive_features=rows.A)
    health = model.health_
    assert health.ok and str(health) == (
        f"healthy: AUC {health.training_utility:.3f} on training rows, "
        f"{health.held_out_utility:.3f} on set-aside rows"
    )
    assert model.history_.iterations[-1] == SMALL["iterations"]
    alone = FairClassifier(**SMALL, members=1, early_stopping=None)
    alone.fit(rows.X, rows.y, sensitive_features=rows.A)
    assert alone.health_.ok and str(alone.health_).startswith("healthy on training rows")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strength": 1.0}, r"strength must lie in \[0, 1\), got 1.0"),
        ({"notion": "sufficiency"}, "notion must be 'independence' or 'separation'"),
        ({"method": "hgr2"}, "method must be one of 'sbp', .*, got 'hgr2'; did you mean 'hgr'"),
        ({"divergence": "tv"}, "divergence must be one of 'js', 'kl', 'chi2'"),
        ({"density_ratio": "gan", "notion": "separation"}, "density_ratio must be one of 'auto'"),
        ({"hidden": (0,)}, r"hidden must be a tuple of positive widths, got \(0,\)"),
        ({"network": 3}, r"network must be a function \(n_inputs, n_outputs\) -> torch.nn.Module"),
        ({"random_state": -1}, "random_state must be None, a non-negative integer"),
        ({"device": "gpu0"}, "device must be 'auto' or a device torch can use here, got 'gpu0'"),
        ({"device": None}, "device must be 'auto' or a device torch can use here, got None"),
        ({"scaling": "log"}, "scaling must be one of 'rank', 'minmax', 'standard', 'none'"),
        ({"missing_sensitive": "drop"}, "missing_sensitive must be 'error' or 'skip', got 'drop'"),
        ({"sensitive_types": {"ages": "continuous"}}, "did you mean 'age'"),
        ({"optimizer": "lion"}, "optimizer must be 'adam' or 'sgd', got 'lion'"),
        ({"weight_decay": -0.1}, "weight_decay must not be negative, got -0.1"),
        ({"embedding": "periodic"}, "embedding must be 'pieces' or 'none', got 'periodic'"),
        ({"normalization": "layer"}, "normalization must be 'batch' or 'none', got 'layer'"),
    ],
)
def test_bad_options_are_refused(rows, options, message):
    with pytest.raises(InputError, match=message):
        FairClassifier(**{**SMALL, **options}).fit(rows.X, rows.y, sensitive_features=rows.A)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sensitive_features": None}, "sensitive_features is required unless strength=0: call "),
        ({"y": np.zeros(600)}, "y must hold at least two classes, got one class: 0.0; check"),
        ({"sample_weight": -np.ones(600)}, "sample_weight must not be negative, got -1.0 in row 0"),
        ({"sample_weight": np.zeros(600)}, "sample_weight must be positive for some row"),
        ({"sensitive_features": np.ones(600)}, "must have at least two distinct values"),
        ({"sensitive_features": np.arange(599)}, "599"),
        ({"y": None}, "requires y to be passed"),
        (
            {"y": np.r_[np.nan, np.ones(599)]},
            r"y must not have missing values, got 1 \(first in row 0\); leave out rows whose",
        ),
    ],
)
def test_bad_data_is_refused(rows, change, message):
    given = {"X": rows.X, "y": rows.y, "sensitive_features": rows.A, **change}
    with pytest.raises(InputError, match=message):
        FairClassifier(**SMALL).fit(given.pop("X"), given.pop("y"), **given)


def test_text_is_no_continuous_outcome(rows):
    with pytest.raises(InputError, match=r"y must be numeric for regression, got .* such as 'a'"):
        FairRegressor(**SMALL).fit(rows.X, np.array(["a", "b"] * 300), sensitive_features=rows.A)
    with pytest.raises(InputError, match="loss must be one of 'absolute', 'squared', 'huber'"):
        FairRegressor(loss="log", **SMALL).fit(rows.X, rows.y, sensitive_features=rows.A)
    with pytest.raises(
        InputError, match="task must be 'classification' or 'regression', got 'rank'"
    ):
        FairEncoder(task="rank", **SMALL).fit(rows.X, rows.y, sensitive_features=rows.A)
    with pytest.raises(InputError, match=r"encoder_hidden must name at least one width, got \(\)"):
        FairEncoder(encoder_hidden=(), **SMALL).fit(rows.X, rows.y, sensitive_features=rows.A)
