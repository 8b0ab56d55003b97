"""Options about the data: what separates values, what columns are, and how rows are split."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from people import SMALL_ON_CPU, equipoise, refused, same_model, table

from equipoise import audit, load
from equipoise.datasets import describe_dataset
from equipoise.files import read_table
from equipoise.runs.record import read_record, write_json
from tests.error_parts import says

ABOUT = ("--target", "hired", "--sensitive", "age,sex", "--id", "person")


def rows() -> pd.DataFrame:
    random = np.random.default_rng(1)
    people = table()
    return people.assign(
        zip=random.choice([10115, 20095, 80331], len(people)),
        household=random.integers(0, 300, len(people)),
        day=pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 200, len(people)), "D"),
        weight=random.uniform(0.5, 2, len(people)).round(2),
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fit(*arguments):
    ran = equipoise("fit", *arguments, *ABOUT, *SMALL_ON_CPU)
    assert ran.code == 0, ran.err
    return ran


def settings(folder="run"):
    return json.loads(Path(folder, "settings.json").read_text("utf-8"))


EVERYTHING = (
    *("--sep", ";", "--category", "zip", "--weight", "weight", "--positive", "no"),
    *("--group-split", "household", "--drop", "day"),
)


def test_all_options_are_kept_repeated_and_followed_by_predict(here):
    rows().to_csv("people.csv", sep=";", index=False)
    ran = fit("people.csv", *EVERYTHING)
    says(ran.err, "probability of 'no' rather than 'yes'", "household", "split")
    says(ran.err, "zip", "feature", "category", "weight", "weight", "how much each row counts")
    kept = settings()
    asked = {"sep": ";", "category": ["zip"], "weight": "weight", "positive": "no"}
    assert kept["options"].items() >= {**asked, "group_split": "household"}.items()
    says(kept["command"], "--positive no", "--category zip", "--weight weight")
    says(kept["command"], "--group-split household", "--sep ';'")
    model, split = load("run/model.equipoise"), load("run/frontier.equipoise").split_
    assert list(model.feature_names_in_) == ["city", "hours", "grade", "zip"]
    assert model.classes_.tolist() == ["yes", "no"]
    homes = rows()["household"]
    assert not set(homes[split.train]) & {*homes[split.validation], *homes[split.test]}
    # The file is read as it was at fit, without a word about it.
    assert equipoise("predict", "run", "people.csv", "--out", "scores.csv").code == 0
    frame = read_table("people.csv", sep=";", category="zip")
    expected = model.predict_proba(frame[list(model.feature_names_in_)])[:, 1]
    np.testing.assert_allclose(pd.read_csv("scores.csv")["score"], expected, rtol=1e-12)
    # And so it is by a run that repeats this one.
    assert equipoise("fit", "--settings", "run/settings.json", "--out", "again").code == 0
    assert settings("again")["options"] == kept["options"]
    # Another format needs no separator, and another ending has its own.
    rows().to_parquet("people.parquet")
    rows().to_csv("people.tsv", sep="\t", index=False)
    for name in ("people.parquet", "people.tsv"):
        assert equipoise("predict", "run", name, "--out", f"{name}.csv").code == 0
        np.testing.assert_allclose(pd.read_csv(f"{name}.csv")["score"], expected, rtol=1e-12)
    rows().to_csv("commas.csv", index=False)
    said = refused("predict", "run", "commas.csv", "--out", "other.csv")
    says(said, "by semicolons as sep says", "has commas", "set --sep ','")
    assert equipoise("predict", "run", "commas.csv", "--out", "other.csv", "--sep", ",").code == 0


def test_the_latest_rows_are_test_rows(here):
    rows().drop(columns=["household", "weight"]).to_csv("people.csv", index=False)
    fit("people.csv", "--time-split", "day")
    split, day = load("run/frontier.equipoise").split_, rows()["day"]
    assert day[split.train].max() < day[split.validation].min()
    assert day[split.validation].max() < day[split.test].min()
    assert 180 <= len(split.test) <= 220
    assert "day" not in load("run/model.equipoise").feature_names_in_


def test_the_column_that_splits_may_be_an_id_or_a_feature(here):
    rows().to_csv("people.csv", index=False)
    more = ("--features", "grade,household", "--group-split", "household", "--seed", "3")
    fit("people.csv", *more)
    assert list(load("run/model.equipoise").feature_names_in_) == ["grade", "household"]
    fit("people.csv", "--features", "grade", "--group-split", "person", "--out", "by-id")
    roles = {each["column"]: each["role"] for each in settings("by-id")["columns"]}
    assert (roles["person"], roles["grade"]) == ("id", "feature")


def test_tabs_and_typed_files_are_scored_as_they_were_read(here):
    """A category called NA is a category at fit and at predict."""
    people = rows().drop(columns=["day", "household", "weight"])
    people["city"] = people["city"].replace("Ulm", "NA").astype("category")
    people.to_parquet("people.parquet")
    fit("people.parquet")
    model = load("run/model.equipoise")
    ran = equipoise("predict", "run", "people.parquet", "--out", "scores.parquet", "--json")
    assert json.loads(ran.out)["notes"] == []
    expected = model.predict_proba(people[list(model.feature_names_in_)])[:, 1]
    found = pd.read_parquet("scores.parquet")["score"]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    table().to_csv("tabs.csv", sep="\t", index=False)
    fit("tabs.csv", "--sep", r"\t", "--out", "tabs")
    assert r"--sep '\t'" in settings("tabs")["command"]


def test_decimal_commas_are_flagged(here):
    table().to_csv("people.csv", sep=";", decimal=",", index=False)
    ran = fit("people.csv", "--sep", ";")
    says(ran.err, "'hours' is read as categories", "numbers with commas", "decimal point")


UNREAD = "nowhere/people.csv"  # the error would be about this file if it were looked for
FIT = ("fit", UNREAD, "--target", "hired", "--sensitive", "age,sex")
AUDIT = ("audit", UNREAD, "--score", "s", "--sensitive", "age,sex")


@pytest.mark.parametrize(
    ("command", "option", "parts"),
    [
        (FIT, "--notion parity", ("notion", "got 'parity'")),
        (FIT, "--task ranking", ("--task", "got 'ranking'")),
        (FIT, "--method spb", ("method", "got 'spb'", "'sbp'?")),
        (FIT, "--metrics gap,ks", ("metric", "got 'ks'")),
        (FIT, "--device tpu", ("device", "got 'tpu'")),
        (FIT, "--strengths 0,1", ("strength", "got 1")),
        (FIT, "--seeds 0", ("seeds", "at least 1", "got 0")),
        (FIT, "--iterations 0", ("iterations", "at least 1", "got 0")),
        (FIT, "--evaluate-every 0", ("--evaluate-every", "at least 1", "got 0")),
        (FIT, "--missing-sensitive drop", ("--missing-sensitive", "got 'drop'")),
        (FIT, "--types zip=discrete", ("--types", "'zip'", "got 'age', 'sex'")),
        (FIT, "--max-gap aeg=0.1", ("--max-gap", "got 'aeg'", "'age'?")),
        (FIT, "--sep ;;", ("--sep", "one character", "got ';;'", "leave it out")),
        (FIT, "--group-split a --time-split b", ("--group-split", "alone", "'a'", "'b'", "leave")),
        (FIT, "--group-split hired", ("--group-split", "--target", "got 'hired'", "take it out")),
        (FIT, "--weight age", ("--weight", "--sensitive", "got 'age'", "take it out")),
        (FIT, "--category age", ("--category", "--sensitive", "got 'age'", "--types age=discrete")),
        (AUDIT, "--notion parity", ("notion", "got 'parity'")),
        (AUDIT, "--notion separation", ("y must be given", "got None", "--target")),
        (AUDIT, "--threshold nan", ("--threshold", "finite", "got nan", "0.5")),
        (AUDIT, "--favourable up", ("favourable", "got 'up'")),
        (AUDIT, "--max-gap aeg=0.1", ("--max-gap", "got 'aeg'", "'age'?")),
        (AUDIT, "--types zip=discrete", ("--types", "'zip'", "got 'age', 'sex'")),
        (AUDIT, "--missing-sensitive drop", ("--missing-sensitive", "got 'drop'")),
        (AUDIT, "--sep long", ("--sep", "one character", "got 'long'")),
    ],
)
def test_options_are_checked_before_a_file_is_looked_for(here, command, option, parts):
    said = refused(*command, *option.split())
    says(said, *parts)
    assert UNREAD not in said
    assert not list(here.iterdir())


def test_predict_checks_options_and_out_before_the_data(run, here):
    for option, parts in (
        (("--threshold", "nan"), ("--threshold", "finite", "got nan")),
        (("--sep", "ab"), ("--sep", "one character", "got 'ab'")),
    ):
        says(refused("predict", run, UNREAD, "--out", "new.csv", *option), *parts)
    Path("mine.csv").write_text("a\n1\n", "utf-8")
    says(refused("predict", run, UNREAD, "--out", "mine.csv"), "out", "mine.csv'", "choose another")
    says(refused("predict", run, UNREAD, "--out", "new.txt"), "out", ".parquet or .csv", "new.txt")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--positive", "maybe"), ("--positive", "'hired'", "got 'maybe'", "no, yes", "name one")),
        (("--group-split", "famly"), ("'famly'", "do not have")),
        (("--category", "city,zap"), ("category", "'zap'", "'zip'?")),
        (("--weight", "city"), ("weight 'city'", "number of at least 0", "got categorical")),
        (("--weight", "grade"), ("weight 'grade'", "at least 0", "got -", "row", "weight 0")),
        (("--category", "day"), ("category", "columns of numbers", "'day'", "dates", "leave it")),
        (("--time-split", "city"), ("--time-split", "numbers or dates", "such as", "2020-01-31")),
    ],
)
def test_options_that_do_not_fit_the_rows(here, options, parts):
    rows().to_csv("people.csv", index=False)
    ran = equipoise("fit", "people.csv", *ABOUT, *SMALL_ON_CPU, *options)
    assert ran.code == 1
    says(ran.err.splitlines()[-1], *parts)


def test_a_separator_is_for_text_files(here):
    rows().to_parquet("people.parquet")
    said = refused("fit", "people.parquet", "--sep", ";", *ABOUT)
    says(said, "--sep", "text files", "got ';'", "people.parquet", "leave it out")


def test_weights_reach_the_audit(here):
    people = table()[["age", "sex", "grade", "hired"]].assign(weight=1 + np.arange(1000) % 2)
    people.to_csv("weighted.csv", sep=";", index=False)
    about = ("--score", "grade", "--target", "hired", "--positive", "yes", "--sensitive", "sex")
    ran = equipoise("audit", "weighted.csv", "--sep", ";", "--weight", "weight", *about, "--json")
    assert ran.code == 0, ran.err
    frame = read_table("weighted.csv", sep=";")
    expected = audit(
        frame["grade"],
        frame["hired"],
        frame[["sex"]],
        positive="yes",
        sample_weight=frame["weight"],
    )
    found = json.loads(ran.out)["audit"]
    assert found["rows"] == json.loads(expected.to_json())["rows"]
    page = Path("audit/audit.html").read_text("utf-8")
    assert "--weight weight" in page and "--sep" in page


def test_a_run_finds_its_data_from_any_folder(here, monkeypatch):
    table().to_csv("people.csv", index=False)
    fit("people.csv", "--out", "runs/first")
    away = here / "away"
    away.mkdir()
    monkeypatch.chdir(away)
    again = ("fit", "--settings", "../runs/first/settings.json", "--out", "again")
    assert equipoise(*again).code == 0
    assert settings("again")["data"]["path"] == os.path.join("..", "people.csv")
    assert str(here) not in json.dumps(settings("again"))
    # A file of that name that happens to be here is another file: the one that was read counts.
    Path("people.csv").write_text("x,y\n1,2\n", "utf-8")
    assert equipoise(*again, "--overwrite").code == 0
    Path("people.csv").unlink()
    (here / "people.csv").rename(here / "moved.csv")
    said = refused(*again, "--overwrite")
    says(said, "DATA", "got none at 'people.csv' and '../people.csv'", "name it")
    moved = equipoise("fit", "../moved.csv", *again[1:], "--overwrite")
    assert moved.code == 0, moved.err


def test_resume_finds_its_data_from_any_folder(here, monkeypatch):
    table().to_csv("people.csv", index=False)
    fit("people.csv")
    # As a run that was killed when it had just begun.
    begun = replace(read_record(Path("run/settings.json")), state="training", files={})
    Path("cut").mkdir()
    write_json(Path("cut/settings.json"), begun.to_document())
    away = here / "away"
    away.mkdir()
    monkeypatch.chdir(away)
    ran = equipoise("fit", "--resume", "--out", "../cut")
    assert ran.code == 0, ran.err
    assert same_model("../cut/model.equipoise", "../run/model.equipoise")


def test_data_sets_are_described_without_their_file(here, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_DATA", str(here / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    for name, words in (("credit", "--out downloads it"), ("law", "Put lawschool"), ("adult", "")):
        ran = equipoise("datasets", name)
        assert ran.code == 0, ran.err
        assert words in ran.out
        assert ("File: none found." in ran.out) == (name != "adult")
    assert not list(here.iterdir())  # nothing was downloaded
    about, _ = describe_dataset("credit")
    assert (about.rows, about.features, about.sensitive) == (30_000, 0, ())
    Path("mine.csv").write_text("mine", "utf-8")
    says(refused("datasets", "law", "--out", "mine.csv"), "--out must be new", "which exists")
    said = equipoise("datasets", "law", "--out", "law.csv")
    assert (said.code, Path("law.csv").exists()) == (1, False)
    says(said.err, "'law'", "was not found in", str(here / "cache"))
