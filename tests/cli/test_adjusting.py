"""equipoise adjust: from a file of scores to a run, and to adjusted scores of new people."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from people import SMALL_ON_CPU, equipoise, refused, same_model, table

from equipoise import FairAdjuster, load
from equipoise.runs.record import read_record, write_json
from tests.error_parts import says

ROLES = ("--target", "hired", "--sensitive", "age,sex")
ADJUST = ("adjust", "scored.csv", "--score", "chance", *ROLES)


def scored(n=1000, *, seed=0):
    rows = table(n, seed=seed)
    return rows.assign(chance=(1 / (1 + np.exp(-rows["grade"]))).round(4))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scored().to_csv("scored.csv", index=False)
    return tmp_path


def test_from_scores_to_adjusted_scores_of_new_people(folder):
    ran = equipoise(*ADJUST, "--increasing", "--id", "person", *SMALL_ON_CPU, "--out", "run")
    assert ran.code == 0, ran.err
    assert "This model uses age and sex at prediction." in ran.out
    card = Path("run/model_card.md").read_text("utf-8")
    assert "adjusts the given score, increasing in it" in card
    settings = json.loads(Path("run/settings.json").read_text("utf-8"))
    assert settings["command"].startswith("equipoise adjust scored.csv --target hired")
    assert "--score chance --increasing" in settings["command"]
    features = [each["column"] for each in settings["columns"] if each["role"] == "feature"]
    assert features == ["chance"]

    model = load("run/model.equipoise")
    assert isinstance(model, FairAdjuster) and model.increasing
    rows = scored(50, seed=1)
    rows.loc[3, "chance"] = np.nan
    rows[["person", "chance", "age", "sex"]].to_csv("new.csv", index=False)
    assert equipoise("predict", "run", "new.csv", "--out", "adjusted.csv").code == 0
    answer = pd.read_csv("adjusted.csv")
    says(answer["problem"][3], "'chance'", "missing")
    known = rows.drop(index=3)
    expected = model.predict_proba(known[["chance"]], sensitive_features=known[["age", "sex"]])
    np.testing.assert_allclose(answer["score"].drop(index=3), expected[:, 1], rtol=1e-12)
    assert equipoise("select", "run", "--min-utility", "0.5").code == 0


def test_a_run_is_repeated_and_resumed(folder):
    assert equipoise(*ADJUST, *SMALL_ON_CPU, "--out", "run").code == 0
    assert read_record(Path("run/settings.json")).options.seeds == 1
    assert equipoise("adjust", "--settings", "run/settings.json", "--out", "again").code == 0
    assert same_model("run/model.equipoise", "again/model.equipoise")
    begun = replace(read_record(Path("run/settings.json")), state="training", files={})
    Path("cut").mkdir()
    write_json(Path("cut/settings.json"), begun.to_document())
    assert equipoise("adjust", "--resume", "--out", "cut").code == 0
    assert same_model("run/model.equipoise", "cut/model.equipoise")


def test_what_adjust_needs_is_said(folder):
    says(refused("adjust", "scored.csv", *ROLES), "--score is required", "equipoise adjust")
    for score, parts in (
        ("cance", ("--score names", "'cance'", "do not have", "did you mean 'chance'?")),
        ("age", ("'age'", "sensitive", "features")),
    ):
        says(refused("adjust", "scored.csv", "--score", score, *ROLES), *parts)
    scored().assign(flat=0.5).to_csv("scored.csv", index=False)
    for score, parts in (
        ("hours,chance", ("X must be the score, 1 column", "got 2 columns")),
        ("flat", ("differ between rows", "got 0.5")),
    ):
        ran = equipoise("adjust", "scored.csv", "--score", score, *ROLES, "--out", "run")
        assert ran.code == 1
        says(ran.err, *parts)
        assert not Path("run").exists()
