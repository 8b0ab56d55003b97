"""Reading whole tables: values equal those of pandas' own readers, and size is checked first."""

import gzip
import os
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from equipoise.errors import InputError
from equipoise.files import iterate_table, read_table
from equipoise.files.reading import (
    _Metered,
    find_data_file,
    memory_available,
    memory_needed,
    metered,
    refuse_too_large,
)
from tests.error_parts import says


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "whole": [1, 2, 3],
            "number": [0.1, np.nan, -1e-7],
            "flag": [True, False, True],
            "text": ["a,b", None, 'say "x"\nor y'],
            "day": pd.to_datetime(["2020-01-31", "2021-02-28", "2022-03-31"]),
        }
    )


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix in (".feather", ".arrow"):
        frame.to_feather(path)
    else:
        separator = "\t" if ".tsv" in path.name else ","
        frame.to_csv(path, index=False, sep=separator)  # compresses by the name
    return path


@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv", "a.csv.gz", "a.tsv.gz", "a.parquet", "a.feather", "a.arrow"]
)
def test_every_format_gives_the_same_table(tmp_path, frame, name):
    read = read_table(write(frame, tmp_path / name))
    assert isinstance(read["text"].dtype, pd.CategoricalDtype)
    pd.testing.assert_frame_equal(
        read.astype({"text": "str", "day": "datetime64[s]"}),
        frame.astype({"text": "str", "day": "datetime64[s]"}),
    )


def test_text_files_are_read_as_pandas_reads_them(tmp_path):
    text = "a,b,c,d\n007, 5,x,1e3\nNA,6.5,,\n9,nan,NA,-2\n"
    (tmp_path / "a.csv").write_text(text, "utf-8")
    read, expected = read_table(tmp_path / "a.csv"), pd.read_csv(tmp_path / "a.csv")
    for name in "abd":
        np.testing.assert_array_equal(read[name], expected[name])
    assert read["c"].isna().tolist() == expected["c"].isna().tolist() == [False, True, True]


def test_words_that_stand_for_missing_values(tmp_path):
    words = ["NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null", '""', "?"]
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{word},1\n" for word in words), "utf-8")
    assert read_table(tmp_path / "a.csv")["x"].isna().tolist() == [True] * 11 + [False]


def test_true_and_one_together_are_text(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\ntrue,1\n1,0\n", "utf-8")
    read = read_table(tmp_path / "a.csv")
    assert read["x"].tolist() == ["true", "1"]
    assert read["y"].tolist() == [1, 0]


def test_a_late_text_makes_the_whole_column_text(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n" + "1,2\n" * 700_000 + "?,2\n", "utf-8")
    read = read_table(tmp_path / "a.csv")
    assert read["x"].value_counts().to_dict() == {"1": 700_000, "?": 1}


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_identifiers_stay_text_and_categories_are_shared(tmp_path, name):
    frame = pd.DataFrame({"id": [f"p{i}" for i in range(1001)], "job": ["cook"] * 1001})
    read = read_table(write(frame, tmp_path / name))
    assert isinstance(read["id"].dtype, pd.StringDtype)
    assert isinstance(read["job"].dtype, pd.CategoricalDtype)
    frame = frame.iloc[:1000]
    read = read_table(write(frame, tmp_path / name))
    assert isinstance(read["id"].dtype, pd.CategoricalDtype)


def test_decimals_and_other_kinds_of_text_of_arrow(tmp_path):
    table = pa.table(
        {
            "price": pa.array([1, None]).cast(pa.decimal128(21, 2)),
            "large": pa.array(["a", None], pa.large_string()),
            "coded": pa.array(["a", None]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    pa.feather.write_feather(table, str(tmp_path / "a.feather"))
    for name in ("a.parquet", "a.feather"):
        read = read_table(tmp_path / name)
        np.testing.assert_array_equal(read["price"], [1.0, np.nan])
        assert read["large"].tolist()[0] == read["coded"].tolist()[0] == "a"
        assert read.isna().to_numpy().tolist() == [[False] * 3, [True] * 3]


def test_an_index_that_pandas_stored_is_an_ordinary_column(tmp_path):
    frame = pd.DataFrame({"x": [1, 2]}, index=pd.Index(["a", "b"], name="person"))
    frame.to_parquet(tmp_path / "a.parquet")
    assert list(read_table(tmp_path / "a.parquet").columns) == ["x", "person"]


def test_a_parquet_file_without_rows(tmp_path):
    pd.DataFrame({"x": pd.Series([], dtype=float)}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="must have at least one row, got column names only"):
        read_table(tmp_path / "a.parquet")


def sparse(path, size):
    """A real file of that many bytes, which take no room on the disk."""
    path.write_bytes(b"a,b\n" + b"12,34567\n" * 200_000)  # one value in 4.5 bytes
    os.truncate(path, size)
    return path


def test_ten_gigabytes_are_announced_as_such(tmp_path):
    path = sparse(tmp_path / "a.csv", 10 * 10**9)
    with pytest.raises(InputError) as refused:
        refuse_too_large(find_data_file(path), available=16 * 10**9)
    assert says(
        str(refused.value),
        f"data file '{path}' has 10.0 GB and would need about 55.6 GB of memory",
        "16.0 GB are free",
        "take a random sample of",
    )
    refuse_too_large(find_data_file(path), available=56 * 10**9)


def test_reading_refuses_what_this_machine_can_not_hold(tmp_path):
    path = sparse(tmp_path / "a.csv", 8 * 10**12)
    with pytest.raises(InputError, match=re.escape("has 8,000.0 GB and would need about 44,4")):
        read_table(path)


def test_the_need_of_a_text_file_follows_its_bytes_and_values(tmp_path):
    frame = pd.DataFrame({"x": range(1000), "y": 0})
    size = write(frame, tmp_path / "a.csv").stat().st_size
    assert memory_needed(find_data_file(tmp_path / "a.csv")) == 2 * size + 16 * 2 * 1001
    # Compressed, it is taken to be five times as large as its file.
    zipped = write(frame, tmp_path / "a.csv.gz")
    expected = 5 * zipped.stat().st_size * (2 + 16 * 2 * 1001 / size)
    assert memory_needed(find_data_file(zipped)) == pytest.approx(expected, abs=1)


def test_parquet_is_judged_by_rows_and_columns_not_by_its_small_file(tmp_path):
    frame = pd.DataFrame({"x": np.zeros(500_000), "y": np.zeros(500_000)})
    path = write(frame, tmp_path / "a.parquet")
    assert path.stat().st_size < 100_000
    assert memory_needed(find_data_file(path)) == 2 * 8 * 1_000_000


def zip_of(path, start, block, times):
    """A small file that holds ``start`` and many times the same block."""
    with gzip.open(path, "wb", 1) as file:
        file.write(start)
        for _ in range(times):
            file.write(block)
    return path


def test_a_small_file_that_unpacks_to_much_is_refused_while_it_is_read(tmp_path):
    path = zip_of(tmp_path / "a.csv.gz", b"a,b\n", b"0,1\n" * 2**18, 20)
    file = find_data_file(path)
    assert path.stat().st_size < 200_000
    # Ten bytes of memory for each of the 21 MB that are unpacked.
    with file.open() as source, pytest.raises(InputError) as refused:
        pa.csv.read_csv(pa.PythonFile(_Metered(file, source, 10**8), "r"))
    assert "would need more than 0.1 GB of memory, but 0.1 GB are free" in str(refused.value)
    assert len(read_table(path)) == 20 * 2**18  # which this machine can hold


def test_unpacked_batches_are_counted_whatever_the_size_of_their_file(tmp_path):
    path = tmp_path / "a.feather"
    zeros = pa.table({"x": np.zeros(2**20)})
    pyarrow.feather.write_feather(zeros, path, compression="zstd", chunksize=2**16)
    assert path.stat().st_size < 50_000
    with pa.ipc.open_file(path) as reader:
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    counted = metered(find_data_file(path), iter(batches), 4 * 2**20)
    # Two copies of 512 KiB a batch: four fit.
    taken = []
    with pytest.raises(InputError, match=r"more than 5\.2 MB of memory, but 4\.2 MB are"):
        taken.extend(counted)
    assert read_table(path).equals(pd.DataFrame({"x": np.zeros(2**20)}))


def test_a_first_line_without_end_is_refused_before_it_fills_the_memory(tmp_path):
    path = zip_of(tmp_path / "a.csv.gz", b"", b"a," * 2**19, 70)
    with pytest.raises(InputError, match=re.escape("lines of fewer than 67,108,864 characters")):
        read_table(path)
    with pytest.raises(InputError, match=re.escape("lines of fewer than 67,108,864 characters")):
        iterate_table(path)


def test_lists_count_by_their_values_not_by_their_rows(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [[0] * 100_000]}), path)
    assert path.stat().st_size < 10_000
    assert memory_needed(find_data_file(path)) == 16 * 100_000


def test_memory_available_is_what_the_system_says():
    assert 10**6 < memory_available() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
