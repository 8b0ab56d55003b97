"""Models that see the sensitive features at prediction: what they gain, need and refuse."""

import warnings

import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from torch import nn

from equipoise import (
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairEncoder,
    FairFrontier,
    FairRegressor,
    load,
)
from equipoise.errors import InputError
from equipoise.methods import METHODS
from tests.error_parts import says

ROWS = 1200
TRAIN, TEST = slice(0, 800), slice(800, ROWS)
NETWORK = {"hidden": (16,), "iterations": 200, "batch_size": 100, "learning_rate": 5e-3}
TREES = {"rounds": 40, "learning_rate": 0.2}
KINDS = {
    "network": (FairClassifier, NETWORK),
    "regression": (FairRegressor, NETWORK),
    "lightgbm": (FairBoostingClassifier, TREES),
    "xgboost": (FairBoostingClassifier, {**TREES, "library": "xgboost"}),
    "regression trees": (FairBoostingRegressor, TREES),
}
RANDOM = np.random.default_rng(0)
X = pd.DataFrame({"test": RANDOM.normal(size=ROWS), "city": RANDOM.choice(["Ulm", "Bern"], ROWS)})
# Sex is a number, yet discrete. Neither attribute tells anything about the features.
A = pd.DataFrame({"age": RANDOM.uniform(20, 60, ROWS).round(1), "sex": RANDOM.choice([0, 1], ROWS)})
# The outcome goes up and down twice over the ages, which no straight line in age can follow.
VALUE = X["test"] + 3 * np.sin(A["age"] / 10 * np.pi) + A["sex"]
Y = (VALUE > 0).to_numpy().astype(int)


def fitted(name, *, aware=True, attributes=A, **options):
    kind, small = KINDS[name]
    options = {"strength": 0, "random_state": 0, **small, **options}
    model = kind(sensitive_at_prediction=aware, **options)
    y = VALUE if "regression" in name else Y
    return model.fit(X[TRAIN], y[TRAIN], sensitive_features=attributes[TRAIN])


@pytest.fixture(scope="module")
def model():
    return fitted("network", strength=0.5)


def scores(model, rows=TEST, attributes=A):
    given = {"sensitive_features": attributes[rows]} if model.sensitive_at_prediction else {}
    if not hasattr(model, "predict_proba"):
        return model.predict(X[rows], **given)
    return model.predict_proba(X[rows], **given)[:, 1]


@pytest.mark.parametrize("name", KINDS)
def test_what_only_the_attributes_tell_is_predicted_by_a_model_that_sees_them(name, tmp_path):
    measure, y = (roc_auc_score, Y) if "regression" not in name else (r2_score, VALUE)
    aware = fitted(name)
    plain = measure(y[TEST], scores(fitted(name, aware=False)))
    assert measure(y[TEST], scores(aware)) > plain + 0.15
    aware.save(tmp_path / "model.equipoise")
    again = load(tmp_path / "model.equipoise")
    assert np.array_equal(scores(again), scores(aware))
    assert again.score(X[TEST], y[TEST], sensitive_features=A[TEST]) == aware.score(
        X[TEST], y[TEST], sensitive_features=A[TEST]
    )


def test_a_file_of_a_model_that_does_not_see_them_holds_nothing_about_them(tmp_path):
    plain = fitted("network", aware=False)
    plain.save(tmp_path / "model.equipoise")
    assert b"attribute." not in (tmp_path / "model.equipoise").read_bytes()
    with pytest.raises(InputError) as caught:
        plain.predict(X, sensitive_features=A)
    says(caught.value, "sensitive_features", "left out", "sensitive_at_prediction=True")


def test_columns_may_come_in_any_order_and_rows_alone(model):
    everybody = scores(model)
    assert np.array_equal(scores(model, attributes=A[["sex", "age"]]), everybody)
    for row in (0, 7):
        found = scores(model, slice(800 + row, 801 + row))
        np.testing.assert_allclose(found, everybody[[row]], rtol=1e-9)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (None, ("is required to predict", "sensitive_at_prediction=True", "age, sex")),
        (A[["age"]], ("columns seen at fit, age, sex", "got age;", "pass")),
        (A[:7], ("each of the 1200 rows of X", "7")),
        (A.assign(sex=[0, 1, 2] * 400), ("column 'sex'", "seen at fit", "got 2 in row 2", "fit a")),
        (
            A.assign(sex="F"),
            ("column 'sex'", "categories seen at fit", "'F' in row 0", "leave out"),
        ),
        (A.assign(age="old"), ("column 'age'", "must hold numbers", "'old'", "convert")),
        (
            A.assign(age=[20.0, None, *A["age"][2:]]),
            ("column 'age'", "must be known", "in row 1", "leave out"),
        ),
    ],
)
def test_what_a_model_needs_to_predict_is_said(model, given, parts):
    for answer in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(InputError) as caught:
            answer(X, sensitive_features=given)
        says(caught.value, "sensitive_features", *parts)
    with pytest.raises(InputError) as caught:
        model.score(X, Y, sensitive_features=given)
    says(caught.value, "sensitive_features", *parts)


@pytest.mark.parametrize("name", ["network", "lightgbm", "xgboost"])
def test_a_missing_value_is_known_where_training_rows_had_one(name, tmp_path):
    gaps = A.assign(sex=A["sex"].where(np.arange(ROWS) % 5 > 0), age=A["age"].astype(float))
    model = fitted(name, attributes=gaps, missing_sensitive="skip")
    model.save(tmp_path / "model.equipoise")
    for each in (model, load(tmp_path / "model.equipoise")):
        found = scores(each, attributes=gaps)
        nobody = scores(each, attributes=gaps.assign(sex=None))
        missing = gaps["sex"].isna()[TEST]
        assert np.array_equal(found[missing], nobody[missing])
        assert not np.array_equal(found[~missing], nobody[~missing])
        with pytest.raises(InputError) as caught:
            scores(each, attributes=gaps.assign(age=None))
        says(caught.value, "column 'age'", "must be known", "row 0", "no row had one at fit")


@pytest.mark.parametrize("frame", [True, False])
def test_an_onnx_file_answers_as_the_model(frame, tmp_path):
    # The feature "age" is another column than the attribute of the same name.
    features = X.assign(age=A["age"] // 10)[["test", "age"]]
    features = features if frame else features.to_numpy()
    attributes = A.assign(sex=A["sex"].where(A.index % 5 > 0))
    model = FairClassifier(
        strength=0.5,
        random_state=0,
        sensitive_at_prediction=True,
        missing_sensitive="skip",
        **NETWORK,
    ).fit(features, Y, sensitive_features=attributes)
    model.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    names = [wanted.name for wanted in session.get_inputs()]
    assert names == (["test", "age", "sensitive.age", "sex"] if frame else ["X", "age", "sex"])
    feed = {"sensitive.age" if frame else "age": A["age"].to_numpy()}
    feed["sex"] = np.array(["" if pd.isna(v) else str(int(v)) for v in attributes["sex"]], object)
    feed |= {n: features[n].to_numpy(float) for n in features} if frame else {"X": features}
    (found,) = session.run(["probabilities"], feed)
    expected = model.predict_proba(features, sensitive_features=attributes)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("ensemble", [False, True])
def test_a_frontier_is_judged_as_its_models_predict(ensemble, tmp_path):
    estimators = [
        FairClassifier(sensitive_at_prediction=True, **NETWORK),
        FairBoostingClassifier(sensitive_at_prediction=True, **TREES),
    ]
    frontier = FairFrontier(
        estimators[0] if ensemble else estimators,
        strengths=(0.0, 0.9),
        seeds=2,
        ensemble=ensemble,
        random_state=0,
    ).fit(X, Y, sensitive_features=A)
    chosen = frontier.select(min_utility=0.5)
    frontier.save(tmp_path / "frontier.equipoise")
    again = load(tmp_path / "frontier.equipoise").select(min_utility=0.5)
    rows = frontier.split_.test
    found = chosen.model.predict_proba(X.iloc[rows], sensitive_features=A.iloc[rows])[:, 1]
    assert chosen.rows[0].test == pytest.approx(roc_auc_score(Y[rows], found), abs=1e-9)
    loaded = again.model.predict_proba(X.iloc[rows], sensitive_features=A.iloc[rows])[:, 1]
    assert np.array_equal(loaded, found)
    assert "This model uses age and sex at prediction." in str(chosen)


def test_a_category_that_only_held_out_rows_have_is_refused_before_training():
    sex = A["sex"].astype(str)
    sex.iloc[[7, 207]] = "X"
    frontier = FairFrontier(
        FairClassifier(sensitive_at_prediction=True),
        validation=range(200),
        test=range(200, 400),
        random_state=0,
    )
    with pytest.raises(InputError) as caught:
        frontier.fit(X, Y, sensitive_features=A.assign(sex=sex))
    says(caught.value, "column 'sex'", "categories seen at fit", "'X' in row 7", "leave out")


def test_at_the_same_unfairness_a_score_that_sees_a_shift_is_more_useful():
    # Talent decides. Its measurement is shifted by age and sex, on which talent does not depend.
    talent = RANDOM.normal(size=ROWS)
    shift = (A["age"] - 40) / 10 + 2 * A["sex"]
    measured = pd.DataFrame({"test": talent + shift})
    y = (talent + 0.3 * RANDOM.normal(size=ROWS) > 0).astype(int)
    found = {}
    for aware in (False, True):
        frontier = FairFrontier(
            FairClassifier(sensitive_at_prediction=aware, **NETWORK),
            strengths=(0.0, 0.9),
            seeds=1,
            metrics=("KS-GSP",),
            random_state=0,
        ).fit(measured, y, sensitive_features=A)
        chosen = frontier.select(max_unfairness=0.35, allow_nearest=True, allow_useless=True)
        assert aware <= (not chosen.nearest)
        found[aware] = chosen.rows[0].test
    assert found[True] > found[False] + 0.15


def test_a_representation_sees_them_too():
    encoder = FairEncoder(
        sensitive_at_prediction=True, encoder_hidden=(3,), iterations=20, random_state=0
    )
    found = encoder.fit_transform(X, Y, sensitive_features=A)
    assert np.array_equal(encoder.transform(X, sensitive_features=A), found)
    with pytest.raises(InputError, match="is required to predict"):
        encoder.transform(X)


def test_a_network_of_the_users_own_gets_their_columns_after_those_of_the_features():
    widths = []

    def network(n_inputs, n_outputs):
        widths.append(n_inputs)
        return nn.Linear(n_inputs, n_outputs)

    options = {"iterations": 5, "early_stopping": None, "random_state": 0}
    model = FairClassifier(
        strength=0, network=network, sensitive_at_prediction=True, **options
    ).fit(X, Y, sensitive_features=A)
    # The number, two cities; age and two sexes.
    assert set(widths) == {6}
    assert model.attribute_encoder_.names_ == ["age", "sex=0", "sex=1"]


def test_scikit_learn_passes_them_on():
    train, test = np.arange(ROWS)[TRAIN], np.arange(ROWS)[TEST]
    model = FairClassifier(strength=0, sensitive_at_prediction=True, random_state=0, **NETWORK)
    with config_context(enable_metadata_routing=True):
        model.set_fit_request(sensitive_features=True).set_score_request(sensitive_features=True)
        given = {"cv": [(train, test)], "params": {"sensitive_features": A}}
        found = cross_val_score(model, X, Y, **given)
    model.fit(X[TRAIN], Y[TRAIN], sensitive_features=A[TRAIN])
    assert found == model.score(X[TEST], Y[TEST], sensitive_features=A[TEST])


@pytest.mark.parametrize("aware", [False, True])
def test_scikit_learn_fits_what_needs_them_to_fit_only_as_before(aware):
    tiny = {"iterations": 5, "strength": 0, "early_stopping": None, "random_state": 0}
    encoder = FairEncoder(encoder_hidden=(3,), sensitive_at_prediction=aware, **tiny)
    pipeline = make_pipeline(encoder, LogisticRegression())
    plain = FairClassifier(**tiny)
    with config_context(enable_metadata_routing=True):
        encoder.set_fit_request(sensitive_features=True)
        pipeline.fit(X, Y, sensitive_features=A)
        plain.set_fit_request(sensitive_features=True)
        assert len(cross_val_score(plain, X, Y, cv=2, params={"sensitive_features": A})) == 2
    given = {"sensitive_features": A} if aware else {}
    expected = LogisticRegression().fit(encoder.transform(X, **given), Y)
    np.testing.assert_allclose(pipeline[-1].coef_, expected.coef_)


@pytest.mark.parametrize(
    "method", [name for name, each in METHODS.items() if not each.capabilities.needs_attribute]
)
@pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning")
def test_every_other_method_sees_them(method, monkeypatch):
    monkeypatch.setattr("equipoise.methods.conditional.MOST_STEPS", 20)
    notion = "independence" if METHODS[method].capabilities.independence else "separation"
    options = {"iterations": 30} if METHODS[method].reads("iterations") else {}
    model = FairClassifier(
        method=method, notion=notion, sensitive_at_prediction=True, random_state=0, **options
    ).fit(X, Y, sensitive_features=A[["sex"]])
    found, turned = (
        model.predict_proba(X, sensitive_features=each) for each in (A[["sex"]], 1 - A[["sex"]])
    )
    assert np.abs(found - turned).max() > 1e-4


def test_what_can_not_be_is_refused_before_training():
    with pytest.raises(InputError) as caught:
        FairClassifier(method="scutari", sensitive_at_prediction=True).fit(
            X, Y, sensitive_features=A
        )
    says(caught.value, "sensitive_at_prediction", "False", "'scutari'", "always sees", "leave it")
    with pytest.raises(InputError) as caught:
        FairClassifier(strength=0, sensitive_at_prediction=True).fit(X, Y)
    says(caught.value, "sensitive_features is required", "sensitive_at_prediction=True", "call fit")


@pytest.mark.parametrize(
    ("features", "parts"),
    [
        (X.assign(sex=A["sex"]), ("'sex',",)),
        (X.assign(age=A["age"] // 10), ("'age',",)),
        (X.assign(old=A["age"], gender=A["sex"]), ("'age' (as 'old'), 'sex' (as 'gender'),",)),
        (pl.DataFrame(X.assign(old=A["age"])), ("'age' (as 'old'),",)),
        (np.column_stack([X["test"], A["sex"]]), ("'sex' (in column 1),",)),
    ],
)
def test_fit_points_out_a_sensitive_column_among_the_features(features, parts):
    options = {"iterations": 2, "random_state": 0, "hidden": (4,), "strength": 0}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        FairClassifier(**options).fit(features, Y, sensitive_features=A)
        count = len(told)
        FairClassifier(sensitive_at_prediction=True, **options).fit(
            features, Y, sensitive_features=A
        )
    messages = [each.message for each in told if "sensitive column" in str(each.message)]
    assert len(messages) == 1 and messages[0] in [each.message for each in told[:count]]
    says(messages[0], "X has the sensitive column", *parts, "at prediction", "leave it out of X")


def test_a_column_that_differs_in_one_late_row_is_another_column():
    nearly = A["sex"].copy()
    nearly.iloc[-1] = 1 - nearly.iloc[-1]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        FairClassifier(strength=0, iterations=2, hidden=(4,), random_state=0).fit(
            X.assign(gender=nearly), Y, sensitive_features=A
        )
    assert not any("sensitive column" in str(each.message) for each in told)
