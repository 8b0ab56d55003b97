from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from equipoise.datasets import load_dataset
from equipoise.datasets.dataset import read_bundled
from equipoise.errors import InputError
from tests.error_parts import says


@pytest.mark.parametrize("name", ["adult_train", "adult_test", "communities_crime"])
def test_bundled_tables_equal_the_stored_ones_value_by_value(name, stored_data):
    expected = pd.read_parquet(stored_data / f"{name}.parquet")
    pd.testing.assert_frame_equal(read_bundled(name), expected)


def test_adult_parts_are_the_published_files():
    train, test, both = (load_dataset("adult", part=part) for part in ("train", "test", "all"))
    assert (len(train.X), len(test.X)) == (32_561, 16_281)
    assert (int(train.y.sum()), int(test.y.sum())) == (7_841, 3_846)
    assert both.X.equals(pd.concat([train.X, test.X], ignore_index=True))
    assert both.A.equals(pd.concat([train.A, test.A], ignore_index=True))
    assert both.y.equals(pd.concat([train.y, test.y], ignore_index=True))
    assert load_dataset("adult").X.equals(train.X)


def test_adult_default_separates_features_and_sensitive_columns():
    data = load_dataset("adult")
    assert not {"age", "race", "sex", "label", "fnlwgt"} & set(data.X.columns)
    assert data.A["race"].value_counts().to_dict() == {
        "White": 27_816,
        "Black": 3_124,
        "Asian-Pac-Islander": 1_039,
        "Amer-Indian-Eskimo": 311,
        "Other": 271,
    }
    rates = data.y.groupby(data.A["sex"], observed=True).mean()
    assert rates.round(4).to_dict() == {"Female": 0.1095, "Male": 0.3057}


def test_adult_question_marks_become_missing_values():
    data = load_dataset("adult")
    raw = read_bundled("adult_train")
    for column in data.X.columns:
        assert (data.X[column].isna() == (raw[column].astype(str) == "?")).all()
    assert data.X.isna().sum().sum() == 1_836 + 1_843 + 583


def test_adult_education_number_repeats_education():
    raw = read_bundled("adult_train")
    assert (raw.groupby("education")["education_num"].nunique() == 1).all()
    assert (raw.groupby("education_num")["education"].nunique() == 1).all()


def test_adult_paper_encoding_agrees_with_scikit_learn():
    data = load_dataset("adult", preprocessing="paper")
    raw = read_bundled("adult_train")
    reference = make_column_transformer(
        (
            MinMaxScaler((-1, 1)),
            ["education_num", "capital_gain", "capital_loss", "hours_per_week"],
        ),
        (
            OneHotEncoder(drop="first", sparse_output=False),
            ["workclass", "marital_status", "occupation", "relationship", "native_country"],
        ),
    )
    expected = reference.fit_transform(raw)
    assert expected.shape == data.X.shape == (32_561, 78)
    np.testing.assert_allclose(data.X.to_numpy(), expected, rtol=0, atol=1e-12)
    assert data.A.columns.tolist() == ["age", "race"]
    np.testing.assert_allclose(data.A["age"], 2 * (raw["age"] - 17) / (90 - 17) - 1, atol=1e-12)
    assert int(data.A["race"].sum()) == 27_816
    assert data.y.tolist() == load_dataset("adult").y.tolist()


def test_adult_paper_has_the_training_part_only():
    with pytest.raises(InputError) as caught:
        load_dataset("adult", preprocessing="paper", part="test")
    assert says(
        str(caught.value),
        "part",
        "be 'train' with preprocessing='paper'",
        "'test'",
        "the authors used adult.data only",
        "preprocessing='default' for other parts",
    )


def test_crime_default_leaves_out_identifiers_and_nearly_empty_columns():
    data = load_dataset("crime")
    raw = read_bundled("communities_crime")
    left_out = set(raw.columns) - set(data.X.columns)
    sparse = {column for column in raw.columns if raw[column].isna().sum() == 1_675}
    assert len(sparse) == 22
    assert left_out == sparse | {
        *("state", "county", "community", "communityname", "fold"),
        *("racepctblack", "ViolentCrimesPerPop"),
    }
    assert data.X.isna().sum().loc[lambda count: count > 0].to_dict() == {"OtherPerCap": 1}
    assert np.corrcoef(data.y, data.A["racepctblack"])[0, 1] == pytest.approx(0.631, abs=5e-4)


def test_crime_paper_fills_with_the_mean_rounded_to_one_decimal():
    data = load_dataset("crime", preprocessing="paper")
    raw = read_bundled("communities_crime")
    assert data.X.shape == (1_994, 121)
    assert not data.X.isna().any(axis=None)
    for column in data.X.columns:
        known = raw[column].notna()
        assert (data.X.loc[known, column] == raw.loc[known, column]).all()
        filled = data.X.loc[~known, column]
        assert (filled == round(float(raw[column].mean()), 1)).all()
    assert float(data.X.min(axis=None)) == 0.0
    assert float(data.X.max(axis=None)) == 1.0
