from __future__ import annotations

import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import OneHotEncoder

from equipoise.datasets import dataset_names, load_dataset
from equipoise.errors import DataNotFound, InputError
from tests.error_parts import says

STAND_INS = [name for name in dataset_names() if "standin" in name]
FEATURES = (
    *("SCHL", "MAR", "RELP", "DIS", "ESP", "CIT", "MIG", "MIL", "ANC", "NATIVITY"),
    *("DEAR", "DEYE", "DREM"),
)


def census_like_table() -> pd.DataFrame:
    rng = np.random.default_rng(6)
    table = pd.DataFrame({name: rng.integers(1, 4, 300).astype(float) for name in FEATURES})
    table["SCHL"] = rng.integers(1, 25, 300).astype(float)
    table["RELP"] = rng.integers(0, 18, 300).astype(float)
    table.loc[rng.random(300) < 0.3, ["SCHL", "MIL", "ESP"]] = np.nan
    return table.assign(
        ESR=rng.choice([1.0, 2.0, 6.0, np.nan], 300),
        AGEP=rng.integers(0, 95, 300),
        SEX=rng.integers(1, 3, 300),
        RAC1P=rng.integers(1, 10, 300),
        WKHP=40.0,
    )


def test_without_data_the_error_says_what_to_do(empty_places):
    with pytest.raises(DataNotFound) as caught:
        load_dataset("acs_employment")
    assert says(
        str(caught.value),
        f"data set 'acs_employment' is not bundled and was not found in: cache {empty_places}",
        f"acs_employment_ca_2018.parquet or acs_employment_ca_2018.csv or csv_pca.zip into "
        f"{empty_places}",
        "EQUIPOISE_DATA",
        "path=",
        "https://www2.census.gov/programs-surveys/acs/data/pums/2018/1-Year/csv_pca.zip",
        "acs_employment_standin_publiccoverage",
        "acs_employment_standin_mobility",
        "acs_employment_standin_oregon",
    )


def test_the_census_archive_is_read_as_published(tmp_path, empty_places):
    table = census_like_table()
    with zipfile.ZipFile(tmp_path / "csv_pca.zip", "w") as archive:
        archive.writestr("psam_p06.csv", table.to_csv(index=False))
        archive.writestr("ACS2018_PUMS_README.pdf", b"")
    data = load_dataset("acs_employment", path=tmp_path)
    assert data.X.columns.tolist() == list(FEATURES)
    assert data.y.tolist() == (table["ESR"] == 1).astype(int).tolist()
    assert data.X["MIL"].tolist() == table["MIL"].fillna(0).tolist()
    for code, race in {1: "White", 2: "Black", 6: "Asian", 9: "two or more races"}.items():
        assert (data.A["RAC1P"] == race).tolist() == (table["RAC1P"] == code).tolist()
    assert data.A["AGEP"].tolist() == table["AGEP"].tolist()
    assert data.A["SEX"].tolist() == table["SEX"].map({1: "male", 2: "female"}).tolist()


def test_paper_encoding_drops_the_least_code_of_every_feature(tmp_path, empty_places):
    table = census_like_table()
    location = tmp_path / "acs_employment_ca_2018.csv"
    table.to_csv(location, index=False)
    data = load_dataset("acs_employment", preprocessing="paper", path=location)
    codes = table[list(FEATURES)].fillna(0)
    expected = OneHotEncoder(drop="first", sparse_output=False).fit_transform(codes)
    assert (data.X.to_numpy() == expected).all()
    assert data.A["SEX"].tolist() == (table["SEX"] == 1).astype(int).tolist()
    assert (data.A["AGEP"].min(), data.A["AGEP"].max()) == (-1.0, 1.0)


def test_recoded_sex_is_refused(tmp_path, empty_places):
    location = tmp_path / "acs_employment_ca_2018.csv"
    census_like_table().assign(SEX=0).to_csv(location, index=False)
    with pytest.raises(InputError) as caught:
        load_dataset("acs_employment", path=location)
    assert says(
        str(caught.value), f"{location} is not data set 'acs_employment'", "SEX", "be 1 or 2 in"
    )


@pytest.mark.parametrize("name", STAND_INS)
def test_stand_ins_say_that_they_are_not_the_papers_data(name, stored_data):
    data = load_dataset(name, path=stored_data)
    assert data.description.name == name
    assert data.description.notes[0] == (
        "a stand-in: numbers from it are not comparable with ACSEmployment California 2018"
    )
    revealing = {"COW", "PINCP", "WKHP", "JWMNP", "GCL", "PUBCOV", "FER", "ESR"}
    assert not revealing & set(data.X.columns)
    # One file numbers races from 1, two from 0; read alike, the largest group is the same.
    assert data.A["RAC1P"].value_counts().idxmax() == "White"
