"""What a data file is: by name, checked by content; each refusal by its parts."""

import gzip
import os
import socket

import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pytest

from equipoise.errors import InputError
from equipoise.files import iterate_table, read_table
from equipoise.files.reading import find_data_file
from tests.error_parts import says

KNOWN = ".csv, .tsv, .csv.gz, .tsv.gz, .parquet, .arrow or .feather"


@pytest.fixture
def frame():
    return pd.DataFrame({"age": [31, 52], "job": ["cook", "nurse"]})


def refusal(path):
    """What both ways to read a file say of it, and that they say the same."""
    with pytest.raises(InputError) as whole:
        read_table(path)
    with pytest.raises(InputError) as blocks:
        list(iterate_table(path))
    assert str(whole.value) == str(blocks.value)
    return str(whole.value)


def test_a_missing_file_is_answered_with_the_nearest_one(tmp_path, frame):
    frame.to_csv(tmp_path / "adult.csv")
    assert says(
        refusal(tmp_path / "adlt.csv"),
        f"data file '{tmp_path}/adlt.csv'",
        "exist",
        f"none in '{tmp_path}'",
        "did you mean 'adult.csv'?",
    )
    assert says(
        refusal(tmp_path / "zzz"),
        f"data file '{tmp_path}/zzz'",
        "exist",
        f"none in '{tmp_path}'",
        "check the name",
    )
    assert says(
        refusal(tmp_path / "no" / "adult.csv"),
        f"data file '{tmp_path}/no/adult.csv'",
        "exist",
        f"there is no folder '{tmp_path}/no'",
    )


def test_a_folder_and_an_empty_file(tmp_path):
    (tmp_path / "empty.csv").touch()
    assert says(
        refusal(tmp_path), f"data file '{tmp_path}'", "be a file", "a folder", "name the file in it"
    )
    assert says(
        refusal(tmp_path / "empty.csv"),
        f"data file '{tmp_path}/empty.csv'",
        "hold a table",
        "an empty file",
        "write it again",
    )


@pytest.mark.timeout(60)  # whoever opens a pipe waits for its writer
def test_pipes_sockets_and_devices_are_refused_at_once(tmp_path):
    pipe, door, zeros = tmp_path / "pipe.csv", tmp_path / "door.csv", tmp_path / "zeros.csv"
    os.mkfifo(pipe)
    zeros.symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(door))
        for path in (pipe, door, zeros, "/dev/stdin" if os.path.exists("/dev/stdin") else pipe):
            if os.path.isfile(path):  # standard input may have been taken from a file
                continue
            assert says(
                refusal(path),
                f"data file '{path}'",
                "be a file on disk",
                "a pipe, socket or device",
                "write its output into",
            )


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("table.xlsx", "'.xlsx'"),
        ("table", "no ending"),
        ("table.parquet.gz", "'.parquet.gz'"),
        ("table.gz", "'.gz'"),
    ],
)
def test_other_endings_are_refused(tmp_path, name, found):
    (tmp_path / name).write_bytes(b"x")
    assert says(
        refusal(tmp_path / name),
        f"data file '{tmp_path / name}'",
        f"end in {KNOWN}",
        f"{found}",
        "save it in one of",
    )


def test_a_file_that_is_not_what_its_name_says(tmp_path, frame):
    frame.to_parquet(tmp_path / "a.csv")
    frame.to_feather(tmp_path / "b.parquet")
    frame.to_csv(tmp_path / "c.csv.gz", compression=None)
    frame.to_csv(tmp_path / "d.parquet")
    (tmp_path / "e.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    (tmp_path / "f.csv").write_bytes(b"PK\x03\x04rest of a workbook")
    begin = f"data file '{tmp_path}/"
    assert says(
        refusal(tmp_path / "a.csv"),
        f"{begin}a.csv'",
        "be text by its name",
        "its first bytes are Parquet",
        "rename it to end in",
    )
    assert says(
        refusal(tmp_path / "b.parquet"),
        f"{begin}b.parquet'",
        "be Parquet by its name",
        "its first bytes are Arrow",
        "rename it to end in",
    )
    assert says(
        refusal(tmp_path / "c.csv.gz"),
        f"{begin}c.csv.gz'",
        "be gzip by its name",
        "its first bytes are text",
        "write it again",
    )
    assert says(
        refusal(tmp_path / "d.parquet"),
        f"{begin}d.parquet'",
        "be Parquet by its name",
        "its first bytes are text",
        "write it again",
    )
    assert says(
        refusal(tmp_path / "e.csv"),
        f"{begin}e.csv'",
        "be text by its name",
        "its first bytes are gzip",
        "rename it to end in",
    )
    assert says(
        refusal(tmp_path / "f.csv"),
        f"{begin}f.csv'",
        "be text by its name",
        "its first bytes are a",
        "unpack it, or save it",
    )


def test_an_arrow_stream_is_told_from_an_arrow_file(tmp_path, frame):
    table = pa.Table.from_pandas(frame)
    with pa.ipc.new_stream(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    assert says(
        refusal(tmp_path / "a.arrow"),
        f"data file '{tmp_path}/a.arrow'",
        "be Arrow by its name",
        "its first bytes are an",
        "write it as an Arrow",
    )


@pytest.mark.parametrize("keep", [0.9, 0.4])
def test_truncated_parquet_and_arrow(tmp_path, frame, keep):
    frame = pd.concat([frame] * 500)
    for name, write in (("a.parquet", frame.to_parquet), ("a.feather", None)):
        path = tmp_path / name
        if write is None:
            frame.reset_index(drop=True).to_feather(path)
        else:
            write(path)
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * keep)])
        said = refusal(path)
        assert said.startswith(f"data file '{path}' is cut off or damaged (")
        assert said.endswith("); write or copy it again")
        assert "\n" not in said


def test_parquet_damaged_in_the_middle(tmp_path, frame):
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)
    path.write_bytes(bytes(content))
    assert refusal(path).startswith(f"data file '{path}' is cut off or damaged (")


def test_names_are_read_in_any_case(tmp_path, frame):
    frame.to_csv(tmp_path / "A.CSV", index=False)
    frame.to_csv(tmp_path / "A.Tsv.GZ", index=False, sep="\t", compression="gzip")
    assert find_data_file(tmp_path / "A.CSV").delimiter == ","
    assert read_table(tmp_path / "A.Tsv.GZ")["age"].tolist() == [31, 52]
