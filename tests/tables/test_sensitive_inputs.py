"""Sensitive features as inputs of a model: learned from some rows, read from others."""

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler
from table_errors import refused

from equipoise.tables import (
    AttributeInputs,
    FeatureEncoder,
    SensitiveTable,
    TreeEncoder,
    check_aligned,
)

PEOPLE = pd.DataFrame(
    {
        "age": np.linspace(20, 60, 12),
        "sex": ["F", "M"] * 6,
        "race": [1, 2, 5] * 4,
    }
)


@pytest.fixture
def inputs():
    return AttributeInputs.of(SensitiveTable.from_data(PEOPLE))


def test_columns_are_standardized_numbers_and_indicators(inputs):
    found = inputs.encode(SensitiveTable.from_data(PEOPLE))
    age = StandardScaler().fit_transform(PEOPLE[["age"]])
    race = pd.get_dummies(PEOPLE["race"]).to_numpy(float)
    expected = np.column_stack([age, PEOPLE["sex"] == "M", race])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.shape[1] == inputs.width == 5


@pytest.mark.parametrize("kind", [FeatureEncoder, TreeEncoder])
def test_with_an_encoder_they_are_encoded_as_features_and_discrete_ones_as_categories(kind):
    table = SensitiveTable.from_data(PEOPLE)
    inputs = AttributeInputs.of(table, kind())
    features = kind()
    expected = features.fit_transform(PEOPLE.astype({"race": str}))
    assert np.array_equal(inputs.encode(table), expected)
    assert np.array_equal(inputs.read(PEOPLE[["race", "sex", "age"]], 12), expected)
    assert (inputs.width, inputs.encoder.names_) == (expected.shape[1], features.names_)


def test_the_same_levels_of_another_type_are_the_same_levels():
    member = pd.DataFrame({"member": [0, 1, 1, 0, 1, 0]})
    inputs = AttributeInputs.of(SensitiveTable.from_data(member), FeatureEncoder())
    assert np.array_equal(inputs.read(member.astype(bool), 6), inputs.read(member, 6))


def test_numbers_too_large_without_scaling_are_named():
    far = SensitiveTable.from_data({"wealth": np.linspace(0, 1e300, 12)})
    with refused("sensitive_features column 'wealth'", "float32", "scaling='rank'"):
        AttributeInputs.of(far, FeatureEncoder(scaling="none"))


def test_new_rows_are_read_as_the_first_ones_however_few_and_in_any_order(inputs):
    everybody = inputs.read(PEOPLE, 12)
    for row in (0, 5, 11):
        alone = PEOPLE.iloc[[row]][["race", "age", "sex"]]
        assert np.array_equal(inputs.read(alone, 1), everybody[[row]])


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"age": 1.0, "weight": 2.0}, ["columns seen at fit, age, sex, race", "weight"]),
        ({"race": 4}, ["column 'race'", "categories seen at fit", "4"]),
        ({"sex": [None] + ["M"] * 11}, ["column 'sex'", "known to predict", "row 0"]),
        ({"age": "old"}, ["column 'age'", "must hold numbers", "'old'", "convert"]),
    ],
)
def test_rows_of_another_kind_are_refused(inputs, change, parts):
    with refused("sensitive_features", *parts):
        inputs.read(PEOPLE.assign(**change), 12)


def test_another_number_of_rows_is_refused(inputs):
    with refused("sensitive_features", "each of the 11 rows of X", "12"):
        inputs.read(PEOPLE, 11)


def test_rows_named_by_several_levels_are_compared_with_rows_of_one():
    levels = pd.MultiIndex.from_arrays([[0, 0, 1], [0, 1, 2]])
    X = pd.DataFrame({"x": [1.0, 2, 3]}, index=levels)
    with refused("y must have the index of X"):
        check_aligned(X=X, y=pd.Series([0, 1, 0]))
    with refused("take y.loc[X.index]"):
        check_aligned(X=X, y=pd.Series([0, 1, 0], index=levels[::-1]))
