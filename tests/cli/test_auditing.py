"""``equipoise audit``: the numbers of the library, written where they were asked for."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
from people import equipoise, refused, table

from equipoise import audit
from tests.error_parts import says

AUDIT = ("audit", "people.csv", "--score", "grade", "--sensitive", "age,sex")


def test_numbers_are_those_of_the_library(people):
    rows = table(300).assign(chance=lambda rows: (1 / (1 + np.exp(-rows["grade"]))).round(3))
    rows.to_csv("scored.csv", index=False)
    ran = equipoise(
        *("audit", "scored.csv", "--score", "chance", "--sensitive", "age,sex"),
        *("--target", "hired", "--positive", "yes", "--threshold", "0.4"),
    )
    assert ran.code == 0, ran.err
    found = audit(
        rows["chance"], rows["hired"], rows[["age", "sex"]], positive="yes", threshold=0.4
    )
    written = "audit/audit.html, audit/audit.csv, audit/audit.json"
    assert ran.out.splitlines()[2] == "Page: audit/audit.html"
    assert ran.out.endswith(f"\n\nWritten: {written}\n")
    for verdict in found.verdicts:
        assert " ".join(str(verdict).split()) in " ".join(ran.out.split())
    document = json.loads(Path("audit/audit.json").read_text("utf-8"))
    assert document["rows"] == json.loads(found.to_json())["rows"]
    frame = pd.read_csv("audit/audit.csv", keep_default_na=False, na_values={"value": ""})
    pd.testing.assert_series_equal(frame["value"], found.to_frame()["value"], check_exact=True)
    assert Path("audit/audit.html").read_text("utf-8").startswith("<!doctype html>")


def test_json_and_an_audit_without_outcome(people):
    ran = equipoise(*AUDIT, "--favourable", "low", "--notion", "independence", "--json")
    found = json.loads(ran.out)
    assert found["audit"]["notions"] == ["independence"]
    assert found["audit"]["settings"]["favourable"] == "low"
    assert found["files"] == ["audit/audit.html", "audit/audit.csv", "audit/audit.json"]
    ages = ("audit", "people.csv", "--score", "grade", "--sensitive", "age")
    ran = equipoise(*ages, "--types", "age=discrete", "--json", "--overwrite")
    assert ran.code == 0
    rows = json.loads(ran.out)["audit"]["rows"]
    assert {row["group"] for row in rows if row["attribute"] == "age"} > {"20", "69"}


def test_labels_that_are_numbers_are_found_by_their_text(people):
    rows = table().assign(hired=lambda rows: (rows["hired"] == "yes").astype(int))
    rows.to_csv("n.csv", index=False)
    command = ("audit", "n.csv", "--score", "grade", "--sensitive", "sex", "--target", "hired")
    ran = equipoise(*command, "--positive", "0", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["audit"]["settings"]["positive"] == 0


def test_wrong_columns_and_values(people):
    says(refused(*AUDIT, "--target", "hird"), "target", "'hird'", "'hired'?")
    said = refused("audit", "people.csv", "--score", "grad", "--sensitive", "age")
    says(said, "score", "'grad'", "'grade'?")
    said = refused(*AUDIT, "--favourable", "medium")
    says(said, "favourable", "must be 'high' or 'low'", "got 'medium'", "good for the person")
    assert not Path("audit").exists()


def test_other_files_are_left_alone(people):
    Path("mine").mkdir()
    Path("mine/letter.txt").write_text("dear", "utf-8")
    said = refused(*AUDIT, "--out", "mine")
    says(said, "--out", "must be new or hold an audit", "'mine'", "'letter.txt'", "another name")
    assert [path.name for path in Path("mine").iterdir()] == ["letter.txt"]
    said = refused(*AUDIT, "--out", "people.csv")
    says(said, "--out", "got 'people.csv'", "is a file")


def test_leftovers_of_a_killed_audit_are_no_other_files(people):
    Path("audit").mkdir()
    left = Path("audit", f".audit.html.{'0123456789abcdef' * 2}.part")
    left.write_text("half", "utf-8")
    ran = equipoise(*AUDIT)
    assert ran.code == 0, ran.err
    assert sorted(os.listdir("audit")) == ["audit.csv", "audit.html", "audit.json"]


def test_groups_are_not_run_as_formulas(people):
    rows = table().replace({"sex": {"F": "=F()"}})
    rows.to_csv("odd.csv", index=False)
    ran = equipoise("audit", "odd.csv", "--score", "grade", "--sensitive", "sex")
    assert ran.code == 0, ran.err
    text = Path("audit/audit.csv").read_text("utf-8")
    assert "'=F()" in text
    frame = pd.read_csv("audit/audit.csv", dtype=str, keep_default_na=False)
    numbers = r"-?[0-9.]+(e-?[0-9]+)?"
    for column in frame:
        suspect = frame[column][frame[column].str.match(r"[=+\-@]")]
        assert suspect.str.fullmatch(numbers).all()
