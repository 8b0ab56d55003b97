"""Everything that may be wrong with a data file or with options, each said in one line."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from people import SMALL_ON_CPU, equipoise, table

OPTIONS = ("--target", "hired", "--sensitive", "age,sex")


def refused(*arguments):
    ran = equipoise(*arguments)
    assert (ran.code, ran.out) == (1, ""), ran.err
    assert ran.err.count("error: ") == 1 and ran.err.endswith("\n")
    assert not Path("run").exists()  # nothing is left behind
    return ran.err.splitlines()[-1].removeprefix("error: ")


def fit(data, *more):
    return refused("fit", data, *OPTIONS, *more, *SMALL_ON_CPU)


def test_missing_file(people):
    assert fit("peple.csv") == (
        "data file 'peple.csv' must exist, but there is none in '.'; did you mean 'people.csv'?"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--target", "hird", "--sensitive", "age"),
            "target names a column 'hird' that the data do not have; did you mean 'hired'?",
        ),
        (
            ("--target", "hired", "--sensitive", "age,Sexx"),
            "sensitive names a column 'Sexx' that the data do not have; did you mean 'sex'?",
        ),
        (
            (*OPTIONS, "--features", "sex,grade"),
            "column 'sex' must not be named both by sensitive and by features: sensitive columns "
            "are never features; take it out of one of them",
        ),
        (
            ("--target", "sex", "--sensitive", "age,sex"),
            "column 'sex' must not be named both by sensitive and by target: a model cannot be "
            "kept from depending on what it predicts; take it out of one of them",
        ),
        (
            ("--sensitive", "age"),
            "--target is required; for example equipoise fit people.csv --target hired "
            "--sensitive age,sex",
        ),
        (
            ("--target", "hired"),
            "--sensitive is required; for example equipoise fit people.csv --target hired "
            "--sensitive age,sex",
        ),
        (
            (*OPTIONS, "--strengths", "few"),
            "--strengths must be numbers separated by commas, got 'few'; for example --strengths "
            "0,0.5,0.9",
        ),
        (
            (*OPTIONS, "--types", "age"),
            "--types must be column=discrete or column=continuous, separated by commas, got 'age'; "
            "for example --types zip=discrete",
        ),
        (
            (*OPTIONS, "--notion", "parity"),
            "notion must be one of 'independence', 'separation', got 'parity'",
        ),
        (
            (*OPTIONS, "--max-unfairness", "-1"),
            "--max-unfairness must be a finite number of at least 0, got -1; for example "
            "--max-unfairness 0.05",
        ),
        (
            (*OPTIONS, "--missing-sensitive", "drop"),
            "missing_sensitive must be 'error' or 'skip', got 'drop'",
        ),
        (
            (*OPTIONS, "--settings", "people.csv", "--resume"),
            "--resume continues the run in --out as it was begun, got --settings too; leave one "
            "out",
        ),
        (
            (*OPTIONS, "--resume"),
            "RUN must be a folder that equipoise fit wrote, got 'run', which does not exist",
        ),
    ],
)
def test_options_that_do_not_fit_the_file(people, options, message):
    assert refused("fit", "people.csv", *options) == message


def test_no_data_named(people):
    assert refused("fit", *OPTIONS) == (
        "DATA is required; for example equipoise fit people.csv --target hired --sensitive age,sex"
    )


def test_a_misspelt_method_is_guessed_in_the_message_only(people):
    assert fit("people.csv", "--method", "spb").endswith("got 'spb'; did you mean 'sbp'?")


def test_target_with_one_class(people):
    table().assign(hired="yes").to_csv("one.csv", index=False)
    assert fit("one.csv") == (
        "target 'hired' must hold at least two values, got 'yes' in every row; name another "
        "column, or take rows of every class"
    )


def test_empty_file_and_header_alone(people):
    Path("empty.csv").touch()
    assert fit("empty.csv") == (
        "data file 'empty.csv' must hold a table, got an empty file; write it again"
    )
    Path("names.csv").write_text("age,sex,hired\n", "utf-8")
    assert fit("names.csv") == (
        "data file 'names.csv' must have at least one row, got column names only; check how it "
        "was written"
    )


def test_ragged_csv(people):
    lines = Path("people.csv").read_text("utf-8").splitlines()
    lines[7] += ",extra"
    Path("ragged.csv").write_text("\n".join(lines) + "\n", "utf-8")
    assert fit("ragged.csv") == (
        "data file 'ragged.csv' must have 7 values in every line, got 8 in line 8; put values that "
        "hold a separator in double quotes"
    )


@pytest.mark.parametrize(
    ("encoding", "found", "source"),
    [
        ("latin-1", "got byte 0xfc at offset ", "WINDOWS-1252"),
        ("utf-16", "got UTF-16; ", "UTF-16"),
    ],
)
def test_wrong_encoding(people, encoding, found, source):
    text = Path("people.csv").read_text("utf-8").replace("Graz", "Zürich")
    Path("other.csv").write_bytes(text.encode(encoding))
    said = fit("other.csv")
    assert said.startswith(f"data file 'other.csv' must be UTF-8 text, {found}")
    assert said.endswith(f"; convert it with: iconv -f {source} -t UTF-8 'other.csv' > utf8.csv")


def test_a_file_that_does_not_fit_into_memory_is_announced(people):
    Path("huge.csv").write_text("age,sex,hired\n", "utf-8")
    os.truncate("huge.csv", 10**12)  # a hole: it takes no room on the disk
    for command in (("fit", "huge.csv", *OPTIONS), ("audit", "huge.csv", "--score", "x", *OPTIONS)):
        said = refused(*command)
        assert said.startswith("data file 'huge.csv' has 1,000.0 GB and would need about ")
        assert "take a random sample of its rows, or keep fewer columns" in said


def test_duplicate_column_names(people):
    Path("twice.csv").write_text("age,sex,age,hired\n1,F,3,yes\n", "utf-8")
    assert fit("twice.csv") == (
        "data file 'twice.csv' must have distinct column names, got 'age' more than once; rename "
        "them"
    )


def test_what_is_no_table(people):
    Path("people.xlsx").write_bytes(b"PK\x03\x04")
    assert fit("people.xlsx").endswith("got '.xlsx'; save it in one of these formats")


def test_missing_values_are_no_secret(people):
    rows = table().astype({"sex": object, "hired": object})
    rows.loc[3, "hired"] = np.nan
    rows.to_csv("gap.csv", index=False)
    assert fit("gap.csv") == (
        "target 'hired' must be known in every row, got 1 of 400 rows without it; leave these rows "
        "out of the data"
    )
    rows = table().astype({"sex": object})
    rows.loc[3, "sex"] = np.nan
    rows.to_csv("gap.csv", index=False)
    assert "sensitive_features column 'sex' must not have missing values, got 1" in fit("gap.csv")
    ran = equipoise(
        "fit", "gap.csv", *OPTIONS, *SMALL_ON_CPU, "--missing-sensitive", "skip", "--out", "skipped"
    )
    assert ran.code == 0, ran.err


def test_a_packed_file_is_read_like_any_other(people):
    packed = Path("people.csv.gz")
    packed.write_bytes(gzip.compress(Path("people.csv").read_bytes()))
    for data, out in (("people.csv", "plain"), ("people.csv.gz", "packed")):
        ran = equipoise("fit", data, *OPTIONS, *SMALL_ON_CPU, "--out", out)
        assert ran.code == 0, ran.err
    assert Path("plain/table.csv").read_bytes() == Path("packed/table.csv").read_bytes()
