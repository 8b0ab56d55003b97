"""Everything that may be wrong with a data file or with options, each said in one line."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from people import SMALL_ON_CPU, equipoise, table

from tests.error_parts import says

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
    says(fit("peple.csv"), "data file 'peple.csv'", "must exist", "'.'", "'people.csv'?")


EXAMPLE = "equipoise fit people.csv --target hired --sensitive age,sex"


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--target", "hird", "--sensitive", "age"), ("target", "'hird'", "'hired'?")),
        (("--target", "hired", "--sensitive", "age,Sexx"), ("sensitive", "'Sexx'", "'sex'?")),
        (
            (*OPTIONS, "--features", "sex,grade"),
            ("'sex'", "must not", "by sensitive and by features", "never", "take it out"),
        ),
        (
            ("--target", "sex", "--sensitive", "age,sex"),
            ("'sex'", "must not", "by sensitive and by target", "predicts", "take it out"),
        ),
        (("--sensitive", "age"), ("--target", "required", EXAMPLE)),
        (("--target", "hired"), ("--sensitive", "required", EXAMPLE)),
        (
            (*OPTIONS, "--strengths", "few"),
            ("--strengths", "must be numbers", "got 'few'", "--strengths 0,0.5,0.9"),
        ),
        (
            (*OPTIONS, "--types", "age"),
            ("--types", "must be column=discrete or", "got 'age'", "--types zip=discrete"),
        ),
        (
            (*OPTIONS, "--notion", "parity"),
            ("notion", "must be", "'independence' or 'separation'", "got 'parity'"),
        ),
        (
            (*OPTIONS, "--max-unfairness", "0.1"),
            ("--max-unfairness", "first of --metrics", "got the default, a gap", "--max-gap"),
        ),
        (
            (*OPTIONS, "--metrics", "ks-gsp", "--max-gap", "0.1"),
            ("--max-gap", "first of --metrics", "got KS-GSP", "--max-unfairness"),
        ),
        (
            (*OPTIONS, "--metrics", "ks-gsp,gap", "--max-gap", "0.1"),
            ("--max-gap", "first of --metrics", "got KS-GSP", "name the gap first"),
        ),
        (
            (*OPTIONS, "--max-gap", "0.1", "--max-unfairness", "0.2"),
            ("--max-gap", "must stand alone", "got --max-unfairness 0.2", "leave one out"),
        ),
        (
            ("--target=grade", "--sensitive=sex", "--notion=separation", "--metrics=ks-geo"),
            ("--metrics", "a fair score can satisfy", "got KS-GEO", "gap given Y"),
        ),
        (
            (*OPTIONS, "--missing-sensitive", "drop"),
            ("--missing-sensitive", "must be 'error' or 'skip'", "got 'drop'"),
        ),
        (
            (*OPTIONS, "--settings", "people.csv", "--resume"),
            ("--resume", "as it was begun", "got --settings", "leave one out"),
        ),
        ((*OPTIONS, "--resume"), ("RUN", "must be a folder", "got 'run'", "does not exist")),
    ],
)
def test_options_that_do_not_fit_the_file(people, options, parts):
    says(refused("fit", "people.csv", *options), *parts)


@pytest.mark.parametrize("option", ["--max-gap", "--max-unfairness"])
@pytest.mark.parametrize(
    ("limit", "parts"),
    [
        ("little", ("must be one number, or column=number", "got 'little'", "0.1 or")),
        ("5%", ("must be one number, or column=number", "got '5%'", "0.1 or")),
        ("", ("must be one number, or column=number", "got ''", "0.1 or")),
        ("age=", ("must be one number, or column=number", "got 'age='", "0.1 or")),
        ("=0.1", ("must be one number, or column=number", "got '=0.1'", "0.1 or")),
        ("0.1,0.2", ("must be one number, or column=number", "got '0.1,0.2'", "0.1 or")),
        ("0.1,age=0.2", ("must be one number, or column=number", "got '0.1,age=0.2'", "0.1 or")),
        ("age=1,age=0", ("each column once", "got 'age=1,age=0'", "0.1 or")),
        ("-0.1", ("must", "got -0.1", "for example", "0.05")),
        ("nan", ("must be finite", "got nan", "for example", "0.05")),
        ("sex=0.1,age=-1", ("must", "got -1.0 for age", "for example", "0.05")),
    ],
)
@pytest.mark.parametrize("command", ["fit", "select"])
def test_limits_are_read_before_any_file(people, command, option, limit, parts):
    says(refused(command, "nowhere.csv", f"{option}={limit}"), option, *parts)


@pytest.mark.parametrize("command", ["fit", "select"])
@pytest.mark.parametrize(("limit", "found"), [("1.5", "got 1.5;"), ("sex=2", "got 2.0 for sex;")])
def test_a_gap_is_at_most_1_and_so_is_its_limit(people, command, limit, found):
    said = refused(command, "nowhere.csv", "--max-gap", limit)
    says(said, "--max-gap", "must lie in [0, 1]", found, "--max-gap 0.05")


def test_a_limit_on_a_column_that_is_not_sensitive_is_refused_before_the_file_is_read(people):
    said = fit("nowhere.csv", "--max-gap", "aeg=0.1")
    says(said, "--max-gap", "must name columns of --sensitive (age, sex)", "got 'aeg'", "'age'?")


def test_no_data_named(people):
    says(refused("fit", *OPTIONS), "DATA", "required", EXAMPLE)


def test_a_misspelt_method_is_guessed_in_the_message_only(people):
    says(fit("people.csv", "--method", "spb"), "method", "got 'spb'", "'sbp'?")


def test_target_with_one_class(people):
    table().assign(hired="yes").to_csv("one.csv", index=False)
    says(fit("one.csv"), "target 'hired'", "at least two values", "got 'yes'", "another column")


def test_empty_file_and_header_alone(people):
    Path("empty.csv").touch()
    says(
        fit("empty.csv"), "'empty.csv'", "must hold a table", "got an empty file", "write it again"
    )
    Path("names.csv").write_text("age,sex,hired\n", "utf-8")
    says(fit("names.csv"), "'names.csv'", "at least one row", "got column names only", "check how")


def test_ragged_csv(people):
    lines = Path("people.csv").read_text("utf-8").splitlines()
    lines[7] += ",extra"
    Path("ragged.csv").write_text("\n".join(lines) + "\n", "utf-8")
    says(
        fit("ragged.csv"), "'ragged.csv'", "must have 7 values", "got 8 in line 8", "double quotes"
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
    remedy = f"iconv -f {source} -t UTF-8 'other.csv' > utf8.csv"
    says(fit("other.csv"), "data file 'other.csv'", "must be UTF-8", found, remedy)


def test_a_file_that_does_not_fit_into_memory_is_announced(people):
    Path("huge.csv").write_text("age,sex,hired\n", "utf-8")
    os.truncate("huge.csv", 10**12)  # a hole: it takes no room on the disk
    for command in (("fit", "huge.csv", *OPTIONS), ("audit", "huge.csv", "--score", "x", *OPTIONS)):
        says(refused(*command), "'huge.csv'", "1,000.0 GB", "need", "sample", "fewer columns")


def test_duplicate_column_names(people):
    Path("twice.csv").write_text("age,sex,age,hired\n1,F,3,yes\n", "utf-8")
    says(fit("twice.csv"), "'twice.csv'", "must have distinct", "got 'age'", "rename them")


def test_what_is_no_table(people):
    Path("people.xlsx").write_bytes(b"PK\x03\x04")
    says(fit("people.xlsx"), "got '.xlsx'", "save it in one of these formats")


def test_missing_values_are_no_secret(people):
    rows = table().astype({"sex": object, "hired": object})
    rows.loc[3, "hired"] = np.nan
    rows.to_csv("gap.csv", index=False)
    says(fit("gap.csv"), "target 'hired'", "in every row", "1 of 1,000", "leave out these rows")
    rows = table().astype({"sex": object})
    rows.loc[3, "sex"] = np.nan
    rows.to_csv("gap.csv", index=False)
    says(fit("gap.csv"), "sensitive_features", "'sex'", "must not have missing values", "got 1")
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
