from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from equipoise.datasets import load_dataset
from equipoise.datasets.public import _SOURCES, original_form

LAW_ROWS = 65_535
LAW_NUMBERS = ("LSAT", "GPA", "resident", "Gender", "admit", "enroll")


def one_hot_form(table: pd.DataFrame) -> pd.DataFrame:
    spread = pd.DataFrame(
        {
            f"{column}_{level}": (table[column] == level).astype(int)
            for column, levels in (("EDUCATION", 7), ("MARRIAGE", 4))
            for level in range(levels)
        }
    )
    kept = table.drop(columns=["EDUCATION", "MARRIAGE"]).assign(SEX=table["SEX"] - 1)
    kept = kept.rename(columns={"default.payment.next.month": "default-payment-next-month"})
    return pd.concat([kept, spread], axis=1)


def credit_like_table(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    table = pd.DataFrame(
        {column: rng.integers(0, 1000, rows) for column in _SOURCES["credit"].columns}
    ).assign(
        ID=np.arange(1, rows + 1),
        SEX=rng.integers(1, 3, rows),
        EDUCATION=rng.integers(0, 7, rows),
        MARRIAGE=rng.integers(0, 4, rows),
        AGE=rng.integers(21, 80, rows),
    )
    table["default.payment.next.month"] = rng.integers(0, 2, rows)
    return table


@functools.cache
def law_like_table() -> pd.DataFrame:
    """A made-up table of the same columns and row count, with the holes of the real file."""
    rng = np.random.default_rng(5)
    race = rng.choice([" ", "White", "Black"], LAW_ROWS)
    table = pd.DataFrame(
        {
            "LSAT": rng.integers(120, 181, LAW_ROWS).astype(float),
            "GPA": rng.uniform(1, 4, LAW_ROWS).round(2),
            "Race": race,
            "resident": rng.integers(0, 2, LAW_ROWS).astype(float),
            "college": rng.choice(["Hawaii", "Idaho", "Ohio State"], LAW_ROWS),
            "Year": rng.choice(["2005", "2006", "200x"], LAW_ROWS),
            "Gender": rng.integers(0, 2, LAW_ROWS).astype(float),
            "admit": rng.integers(0, 2, LAW_ROWS).astype(float),
            **{name: (race == name).astype(int) for name in ("Black", "Hispanic", "Asian")},
            "White": (race == "White").astype(int),
            "MissingRace": (race == " ").astype(int),
            "URM": (race == "Black").astype(int),
            "enroll": rng.integers(0, 2, LAW_ROWS).astype(float),
        }
    )
    for column in LAW_NUMBERS:
        table.loc[rng.random(LAW_ROWS) < 0.1, column] = np.nan
    return table


@pytest.fixture(scope="module")
def law_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("law")
    law_like_table().to_parquet(folder / "lawschool_admission.parquet")
    return folder


def test_one_hot_credit_table_is_inverted_whatever_its_row_order():
    table = credit_like_table(500)
    shuffled = one_hot_form(table).sample(frac=1, random_state=0)
    pd.testing.assert_frame_equal(original_form(shuffled), table)


def test_credit_reads_csv_and_shows_undocumented_codes(tmp_path, empty_places):
    table = credit_like_table(30_000)
    table.to_csv(tmp_path / "UCI_Credit_Card.csv", index=False)
    data = load_dataset("credit", path=tmp_path)
    assert data.origin == str(tmp_path / "UCI_Credit_Card.csv")
    assert data.A["SEX"].tolist() == table["SEX"].map({1: "male", 2: "female"}).tolist()
    assert (data.X["EDUCATION"] == "code 5").tolist() == (table["EDUCATION"] == 5).tolist()
    assert (data.X["MARRIAGE"] == "code 0").tolist() == (table["MARRIAGE"] == 0).tolist()
    assert not {"ID", "SEX", "AGE"} & set(data.X.columns)


def test_credit_paper_encoding_agrees_with_scikit_learn(stored_data):
    data = load_dataset("credit", preprocessing="paper", path=stored_data)
    raw = pd.read_parquet(stored_data / "credit_default.parquet")
    numbers = raw.drop(
        columns=["ID", "SEX", "EDUCATION", "MARRIAGE", "AGE", "default.payment.next.month"]
    )
    scaled = MinMaxScaler((-1, 1)).fit_transform(numbers)
    assert data.X.shape == (30_000, 21)
    np.testing.assert_allclose(data.X.iloc[:, :19].to_numpy(), scaled, rtol=0, atol=1e-12)
    assert data.X.iloc[:, 19:].to_numpy().tolist() == (
        raw[["EDUCATION", "MARRIAGE"]].to_numpy().tolist()
    )
    assert data.A.columns.tolist() == ["AGE", "SEX"]
    assert int(data.A["SEX"].sum()) == 11_888
    np.testing.assert_allclose(data.A["AGE"], 2 * (raw["AGE"] - 21) / (79 - 21) - 1, atol=1e-12)


def test_law_default_keeps_rows_without_enrolment(law_folder):
    data = load_dataset("law", path=law_folder)
    raw = law_like_table()
    complete = raw.drop(columns="enroll").notna().all(axis=1)
    kept = raw[complete & (raw["MissingRace"] == 0)]
    assert data.X["GPA"].tolist() == kept["GPA"].tolist()
    assert data.y.tolist() == kept["admit"].tolist()
    assert data.A["Race"].tolist() == kept["Race"].tolist()
    assert data.X.columns.tolist() == ["LSAT", "GPA", "resident", "college", "Year"]


def test_law_paper_drops_rows_without_enrolment(law_folder):
    data = load_dataset("law", preprocessing="paper", path=law_folder)
    raw = law_like_table()
    kept = raw[(raw["MissingRace"] == 0) & raw[list(LAW_NUMBERS)].notna().all(axis=1)]
    reference = make_column_transformer(
        (MinMaxScaler((-1, 1)), ["LSAT", "GPA"]),
        (OneHotEncoder(drop="first", sparse_output=False), ["college", "Year"]),
    )
    np.testing.assert_allclose(data.X.to_numpy(), reference.fit_transform(kept), atol=1e-12)
    assert data.A["Race"].tolist() == (kept["Race"] == "White").astype(int).tolist()


def test_law_from_csv_equals_law_from_parquet(law_folder, tmp_path):
    law_like_table().to_csv(tmp_path / "lawschool.csv", index=False)
    for preprocessing in ("default", "paper"):
        from_csv = load_dataset("law", preprocessing=preprocessing, path=tmp_path)
        from_parquet = load_dataset("law", preprocessing=preprocessing, path=law_folder)
        assert from_csv.X.equals(from_parquet.X)
        assert from_csv.A.equals(from_parquet.A)
        assert from_csv.y.equals(from_parquet.y)


def test_law_paper_gives_the_papers_rows_and_rates(stored_data):
    data = load_dataset("law", preprocessing="paper", path=stored_data)
    assert data.X.shape == (24_754, 18)
    assert data.y.mean() == pytest.approx(0.5637, abs=5e-5)
    rates = data.y.groupby(data.A["Race"]).mean().round(4).to_dict()
    assert rates == {0: 0.4996, 1: 0.5896}
