"""Scores on disk: whole or not at all, and over nothing but older scores."""

import pandas as pd
import pytest

from equipoise.errors import InputError
from equipoise.files import ScoreWriter
from tests.error_parts import says


@pytest.fixture
def scores():
    problem = pd.Series([None, 'why, "so"'], dtype="str")
    return pd.DataFrame({"id": ["007", "b"], "score": [0.1, None], "problem": problem})


def read(path):
    reader = pd.read_parquet if path.suffix == ".parquet" else pd.read_csv
    return reader(path)


@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
def test_frames_are_appended(tmp_path, scores, name):
    with ScoreWriter(tmp_path / name, overwrite=True) as writer:
        writer.write(scores.iloc[:1])  # a first block without any problem
        writer.write(scores)
        assert not (tmp_path / name).exists()
    found = read(tmp_path / name)
    expected = pd.concat([scores.iloc[:1], scores], ignore_index=True)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_the_older_file_stays(tmp_path, scores, name, error):
    with ScoreWriter(tmp_path / name) as writer:
        writer.write(scores)
    before = (tmp_path / name).read_bytes()
    with pytest.raises(error), ScoreWriter(tmp_path / name, overwrite=True) as writer:
        writer.write(scores.assign(score=0.5))
        raise error
    assert (tmp_path / name).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with ScoreWriter(tmp_path / name, overwrite=True) as writer:
        writer.write(scores.iloc[:1])
    assert len(read(tmp_path / name)) == 1


def test_what_a_killed_process_left_is_removed(tmp_path, scores):
    left = tmp_path / f".s.csv.{'0' * 32}.part"
    left.write_bytes(b"half")
    with ScoreWriter(tmp_path / "s.csv") as writer:
        writer.write(scores)
    assert not left.exists()


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_other_files_are_never_replaced(tmp_path, scores, name):
    path = tmp_path / name
    people = scores.drop(columns="problem")
    people.to_csv(path) if path.suffix == ".csv" else people.to_parquet(path)
    before = path.read_bytes()
    with pytest.raises(InputError) as refused:
        ScoreWriter(path)
    assert says(
        str(refused.value),
        "out",
        "must be new or hold scores",
        f"'{path}', which holds something else",
        "choose another name",
    )
    assert path.read_bytes() == before


def test_names_that_can_not_be_written(tmp_path):
    for name, said in [
        ("s.xlsx", f"out must end in .parquet or .csv, got '{tmp_path}/s.xlsx'"),
        ("", f"out must name a file, got the folder '{tmp_path}'; add a file name"),
        (
            "no/s.csv",
            f"out must lie in a folder that exists, got '{tmp_path}/no/s.csv'; create "
            f"'{tmp_path}/no' first",
        ),
    ]:
        with pytest.raises(InputError) as refused:
            ScoreWriter(tmp_path / name)
        assert says(str(refused.value), *said)
