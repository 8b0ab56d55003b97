from __future__ import annotations

import hashlib
from pathlib import Path

import pandas as pd
import pytest

from equipoise.datasets import DatasetDescription, load_dataset
from equipoise.datasets.dataset import DataOrigin, cache_folder, find, not_found, read
from equipoise.errors import DataNotFound, InputError
from tests.error_parts import says

FRUIT = DataOrigin(
    about=DatasetDescription(
        name="fruit",
        title="Fruit",
        task="regression",
        target="weight",
        positive="kilograms",
        source="an orchard",
        licence="none",
        citation="none",
    ),
    frames=lambda table, preprocessing: (table[["kind"]], table["weight"], table[["kind"]]),
    notes=(),
    paper_notes=(),
    names=("fruit.parquet", "fruit.csv"),
    columns=("kind", "weight"),
    complete=("kind",),
    rows=2,
    sha256="0" * 64,
    how_to_get="Pick it.",
)


def store_fruit(folder: Path, name: str = "fruit.parquet", **changes: object) -> Path:
    table = pd.DataFrame({"kind": ["fig", "pear"], "weight": [0.1, None], "shelf": [1, 2]})
    folder.mkdir(parents=True, exist_ok=True)
    table = table.assign(**changes)
    location = folder / name
    if location.suffix == ".parquet":
        table.to_parquet(location)
    else:
        table.to_csv(location, index=False)
    return location


def test_places_are_searched_in_their_order(tmp_path, monkeypatch, empty_places):
    assert find(FRUIT, None) is None
    in_cache = store_fruit(empty_places)
    assert find(FRUIT, None) == in_cache
    in_environment = store_fruit(tmp_path / "named")
    monkeypatch.setenv("EQUIPOISE_DATA", str(tmp_path / "named"))
    assert find(FRUIT, None) == in_environment
    given = store_fruit(tmp_path / "given", "fruit.csv")
    assert find(FRUIT, tmp_path / "given") == given
    assert find(FRUIT, str(given)) == given
    (tmp_path / "nothing").mkdir()
    assert find(FRUIT, tmp_path / "nothing") == in_environment


def test_first_name_wins_within_a_folder(tmp_path):
    for name in ("fruit.csv", "fruit.parquet"):
        store_fruit(tmp_path, name)
    assert find(FRUIT, tmp_path) == tmp_path / "fruit.parquet"


def test_cache_folder_follows_the_platform(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "equipoise"
    for not_absolute in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", not_absolute)
        assert cache_folder() == Path.home() / ".cache" / "equipoise"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "equipoise"


def test_only_the_columns_of_the_data_set_are_read(tmp_path):
    for name in FRUIT.names:
        table = read(FRUIT, store_fruit(tmp_path, name))
        assert table.columns.tolist() == ["kind", "weight"]
        assert table["kind"].tolist() == ["fig", "pear"]


def test_a_path_that_does_not_exist_is_an_error(tmp_path, empty_places):
    with pytest.raises(DataNotFound) as caught:
        load_dataset("law", path=tmp_path / "typo")
    assert says(str(caught.value), "path", "be an existing file or", f"'{tmp_path / 'typo'}'")


def test_not_found_names_file_checksum_and_places(tmp_path, monkeypatch, empty_places):
    monkeypatch.setenv("EQUIPOISE_DATA", str(tmp_path / "named"))
    assert says(
        str(not_found(FRUIT, tmp_path)),
        "data set 'fruit' is not bundled",
        f"path {tmp_path}",
        f"EQUIPOISE_DATA {tmp_path / 'named'}",
        f"cache {empty_places}",
        f"fruit.parquet (sha256 {'0' * 64}) or fruit.csv into {empty_places}",
        "Pick it.",
    )


def test_missing_columns_are_named(tmp_path):
    location = tmp_path / "fruit.csv"
    pd.DataFrame({"kind": ["fig", "pear"]}).to_csv(location, index=False)
    with pytest.raises(InputError) as caught:
        read(FRUIT, location)
    assert says(
        str(caught.value),
        f"{location} is not data set 'fruit'",
        "it",
        "have the columns kind, weight",
        "it lacks weight",
    )


def test_wrong_row_count_shows_both_checksums(tmp_path):
    location = tmp_path / "fruit.parquet"
    pd.DataFrame({"kind": ["fig"], "weight": [1.0]}).to_parquet(location)
    found = hashlib.sha256(location.read_bytes()).hexdigest()
    with pytest.raises(InputError) as caught:
        read(FRUIT, location)
    assert says(
        str(caught.value),
        f"{location} is not data set 'fruit'",
        "it",
        "have 2 rows",
        "1",
        f"its sha256 is {found}, but should be {'0' * 64}",
    )


def test_missing_values_where_there_are_none_in_the_data_set(tmp_path):
    location = store_fruit(tmp_path, "fruit.csv", kind=["fig", None])
    with pytest.raises(InputError) as caught:
        read(FRUIT, location)
    assert says(
        str(caught.value),
        f"{location} is not data set 'fruit'",
        "it",
        "have no missing values in",
        "kind has",
    )


@pytest.mark.parametrize("name", ["fruit.parquet", "fruit.zip", "fruit.xls"])
def test_an_unreadable_file_is_named(tmp_path, name):
    location = tmp_path / name
    location.write_bytes(b"not a table")
    with pytest.raises(InputError) as caught:
        read(FRUIT, location)
    assert str(caught.value).startswith(f"{location} cannot be read as data set 'fruit': ")


def test_a_file_name_must_tell_its_format(tmp_path):
    location = tmp_path / "fruit.xls"
    location.write_bytes(b"")
    with pytest.raises(InputError) as caught:
        read(FRUIT, location)
    assert says(
        str(caught.value),
        f"{location} cannot be read as data set 'fruit'",
        "the file name",
        "end in .parquet, .csv or",
    )
