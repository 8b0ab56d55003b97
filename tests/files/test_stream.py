"""A table in blocks is the table; values come as written and are turned one by one."""

import csv
import datetime
import decimal
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InputError
from equipoise.files import iterate_table, read_table
from equipoise.files.expected import as_expected
from equipoise.files.reading import column_names, find_data_file
from tests.error_parts import says

NAMES = ["a.csv", "a.tsv", "a.csv.gz", "a.parquet", "a.feather"]


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "code": [f"{i:05d}" for i in range(1000)],
            "number": rng.normal(size=1000),
            "whole": rng.integers(0, 9, 1000),
        }
    )


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=300)
    elif path.suffix == ".feather":
        frame.to_feather(path, chunksize=300)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [1, 7, 256, 300, 1000, 5000])
def test_blocks_put_together_are_the_table(tmp_path, frame, name, rows):
    if rows == 1:
        frame = frame.iloc[:20]
    path = write(frame, tmp_path / name)
    blocks = list(iterate_table(path, rows=rows))
    assert [len(block) for block in blocks[:-1]] == [rows] * (len(blocks) - 1)
    assert 0 < len(blocks[-1]) <= rows
    together = pd.concat(blocks, ignore_index=True).astype(frame.dtypes.to_dict())
    pd.testing.assert_frame_equal(together, frame)


@pytest.mark.parametrize("name", NAMES)
def test_chosen_columns_in_the_order_asked_for(tmp_path, frame, name):
    path = write(frame, tmp_path / name)
    (block,) = iterate_table(path, columns=["whole", "code"])
    assert list(block.columns) == ["whole", "code"]
    assert block["code"].tolist() == frame["code"].tolist()
    assert column_names(find_data_file(path)) == ["code", "number", "whole"]
    with pytest.raises(InputError) as refused:
        iterate_table(path, columns=["cod"])
    assert says(str(refused.value), "columns names the column 'cod'", "did you mean 'code'?")


def test_rows_must_be_positive(tmp_path, frame):
    with pytest.raises(InputError, match=r"^rows must be at least 1, got 0; leave it out"):
        iterate_table(write(frame, tmp_path / "a.csv"), rows=0)


def test_text_comes_exactly_as_written(tmp_path):
    (tmp_path / "a.csv").write_text('id,x\n007,NA\n 1.50 ,\n"a ""b""",1e400\n', "utf-8")
    (block,) = iterate_table(tmp_path / "a.csv")
    assert block["id"].tolist() == ["007", " 1.50 ", 'a "b"']
    assert block["x"].tolist() == ["NA", "", "1e400"]


# No lone surrogates, which UTF-8 can not hold, and no zero bytes, which no text file has.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=20), rows=st.integers(1, 7))
def test_any_text_comes_as_python_wrote_it(values, rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerows([("first", "second"), *values])
        read = pd.concat(iterate_table(path, rows=rows))
    assert list(zip(read["first"], read["second"], strict=True)) == values


def test_whole_numbers_have_one_type_with_and_without_missing_values(tmp_path):
    large = 2**60 + 1
    pq.write_table(pa.table({"id": [1, 2, None, large]}), tmp_path / "a.parquet")
    blocks = list(iterate_table(tmp_path / "a.parquet", rows=2))
    assert [block["id"].dtype for block in blocks] == [pd.Int64Dtype()] * 2
    assert blocks[1]["id"][1] == large


def test_a_column_means_the_same_read_whole_and_in_blocks(tmp_path):
    texts = ["1", " 2", "3 ", "-4.5", "1e3", ".5", "5.", "+6", "", "NA", "nan", "0012", "Infinity"]
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{t},1\n" for t in texts), "utf-8")
    whole = read_table(tmp_path / "a.csv")["x"].to_numpy(dtype=float)
    (block,) = iterate_table(tmp_path / "a.csv")
    values, reasons = as_expected(block["x"], "x", "number")
    assert reasons == {12: "column 'x' must hold numbers within 3.4e+38, got 'Infinity'"}
    np.testing.assert_array_equal(values[:12], whole[:12])


def expected(values, family, name="x"):
    found, reasons = as_expected(pd.Series(values), name, family)
    return [None if pd.isna(value) else value for value in found], reasons


def test_numbers():
    wrong = "column 'x' must hold a number, got "
    assert expected(["1", "?", None, "1_000"], "number") == (
        [1.0, None, None, None],
        {1: f"{wrong}'?'", 3: f"{wrong}'1_000'"},
    )
    assert expected([1, 2.5, np.nan], "number") == ([1.0, 2.5, None], {})
    assert expected(pd.array([1, None], "Int64"), "number") == ([1.0, None], {})
    assert expected([decimal.Decimal("1.5"), None], "number") == ([1.5, None], {})
    assert expected([True, False], "number") == (
        [None, None],
        {0: f"{wrong}True", 1: f"{wrong}False"},
    )
    assert expected(pd.Categorical(["1", "2", "x"]), "number") == (
        [1.0, 2.0, None],
        {2: f"{wrong}'x'"},
    )
    assert expected(pd.Categorical([3, 4, None]), "number") == ([3.0, 4.0, None], {})
    day = datetime.datetime(2020, 1, 31)
    assert expected([day], "number") == ([None], {0: f"{wrong}2020-01-31 00:00:00"})
    assert expected([1e39, -np.inf], "number")[1] == {
        0: "column 'x' must hold numbers within 3.4e+38, got 1e+39",
        1: "column 'x' must hold numbers within 3.4e+38, got -inf",
    }
    assert expected(["y" * 100], "number")[1] == {0: f"{wrong}'{'y' * 36}..."}


def test_booleans():
    wrong = "column 'x' must hold true or false, got "
    assert expected(["true", " False", "", "TRUE", "1"], "boolean") == (
        [True, False, None, True, None],
        {4: f"{wrong}'1'"},
    )
    assert expected([True, False], "boolean") == ([True, False], {})
    assert expected(pd.array([True, None], "boolean"), "boolean") == ([True, None], {})
    assert expected([0, 1], "boolean")[1] == {0: f"{wrong}0", 1: f"{wrong}1"}


@pytest.mark.parametrize("family", ["text", "categorical"])
def test_categories(family):
    assert expected(["a", "", "NA", " b", "?"], family) == (["a", None, None, " b", "?"], {})
    # A level has one name, whichever way a file stores it.
    assert expected([1.0, 2.5, np.nan], family) == (["1", "2.5", None], {})
    assert expected(pd.array([1, None], "Int64"), family) == (["1", None], {})
    assert expected(pd.Categorical([1, 2]), family) == (["1", "2"], {})
    assert expected([True, False], family) == (["True", "False"], {})


def test_a_column_without_values_at_fit_is_ignored():
    assert expected(["a", "1"], "empty") == ([None, None], {})
