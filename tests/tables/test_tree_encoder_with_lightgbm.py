"""What LightGBM itself makes of the codes and missing values that TreeEncoder gives it."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import pytest

import equipoise
from equipoise.tables import TreeEncoder

NAN = float("nan")


def test_lightgbm_takes_a_number_that_was_never_missing_at_fit_for_0_and_otherwise_does_not():
    random = np.random.default_rng(0)
    x = random.normal(3.0, 1.0, size=(500, 1))
    y = (x[:, 0] > 3).astype(float)
    options = {"verbosity": -1, "num_threads": 1, "objective": "regression"}
    complete = lightgbm.train(options, lightgbm.Dataset(x, y), 5)
    missing, zero = complete.predict([[NAN]]), complete.predict([[0.0]])
    assert missing == zero < 0.5
    gaps = np.where(np.arange(500)[:, None] < 100, NAN, x)
    seen = lightgbm.train(options, lightgbm.Dataset(gaps, np.where(gaps[:, 0] > 0, y, 1.0)), 5)
    assert seen.predict([[NAN]]) > 0.5 > seen.predict([[0.0]])


def adult() -> tuple[pd.DataFrame, pd.Series, pd.DataFrame]:
    """Training rows, their labels and new rows, a tenth of all values missing."""
    data = equipoise.load_dataset("adult")
    X, y = data.X.iloc[:9000].copy(), data.y.iloc[:6000]
    generator = np.random.default_rng(0)
    for name in X:
        X[name] = X[name].mask(generator.random(len(X)) < 0.1)
    # As users have them too: a boolean, an order, categories in no order, the first one unused.
    X["overtime"] = X["hours_per_week"] > 40
    X["schooling"] = pd.cut(X["education_num"], [0, 8, 12, 16], labels=["short", "middle", "long"])
    jobs = ["Nobody", *reversed(X["occupation"].cat.categories)]
    X["occupation"] = X["occupation"].cat.set_categories(jobs)
    return X.iloc[:6000], y, X.iloc[6000:]


def test_lightgbm_predicts_as_from_the_pandas_frame():
    train, y, new = adult()
    encoder = TreeEncoder()
    train_matrix = encoder.fit_transform(train)
    with pytest.warns(
        UserWarning,
        match=r"^X has categories not seen at fit, treated as missing: "
        r"'native_country' \('Hungary'\)$",
    ):
        new_matrix = encoder.transform(new)
    options = {"n_estimators": 25, "num_threads": 1, "verbose": -1}
    plain = lightgbm.LGBMClassifier(**options).fit(train, y)
    encoded = lightgbm.LGBMClassifier(**options).fit(
        train_matrix, y, categorical_feature=list(encoder.categorical_)
    )
    for matrix, frame in ((train_matrix, train), (new_matrix, new)):
        np.testing.assert_array_equal(encoded.predict_proba(matrix), plain.predict_proba(frame))
    # The comparison says something: categories are used, and as numbers they predict otherwise.
    categories = train.columns[train.dtypes == "category"].drop("schooling")
    assert [encoder.names_[position] for position in encoder.categorical_] == list(categories)
    assert "==" in set(encoded.booster_.trees_to_dataframe()["decision_type"])
    numbers = lightgbm.LGBMClassifier(**options).fit(train_matrix, y)
    assert (numbers.predict_proba(new_matrix) != encoded.predict_proba(new_matrix)).any()
