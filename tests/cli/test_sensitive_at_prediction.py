"""Runs whose scores see the sensitive columns: from fit to predict."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from people import SMALL_ON_CPU, equipoise, refused, same_model, table

from equipoise import load
from equipoise.runs.record import read_record, write_json
from tests.error_parts import says

FIT = ("fit", "people.csv", "--target", "hired", "--sensitive", "age,sex", "--id", "person")
AWARE = (*FIT, *SMALL_ON_CPU, "--sensitive-at-prediction")
SENTENCE = "This model uses age and sex at prediction."


@pytest.mark.parametrize("predictor", ["network", "boosting"])
def test_a_run_that_sees_them_is_told_everywhere_and_scores_new_rows(people, predictor):
    trees = ("--predictor", "boosting", "--rounds", "20", "--strengths", "0,0.9", "--seeds", "1")
    small = SMALL_ON_CPU if predictor == "network" else (*trees, "--allow-nearest")
    ran = equipoise(*FIT, *small, "--sensitive-at-prediction", "--out", "run")
    assert ran.code == 0, ran.err
    assert SENTENCE in ran.out
    for page in ("report.html", "model_card.html", "model_card.md", "model_card.json"):
        assert SENTENCE in Path("run", page).read_text("utf-8"), page
    settings = json.loads(Path("run/settings.json").read_text("utf-8"))
    assert settings["options"]["sensitive_at_prediction"] is True
    assert "--sensitive-at-prediction" in settings["command"]

    rows = table(50, seed=1)
    rows.drop(columns="hired").to_csv("new.csv", index=False)
    assert equipoise("predict", "run", "new.csv", "--out", "scores.csv").code == 0
    model = load("run/model.equipoise")
    features, attributes = rows[["city", "hours", "grade"]], rows[["age", "sex"]]
    expected = model.predict_proba(features, sensitive_features=attributes)[:, 1]
    np.testing.assert_allclose(pd.read_csv("scores.csv")["score"], expected, rtol=1e-12)

    rows.drop(columns=["hired", "sex"]).to_csv("less.csv", index=False)
    message = refused("predict", "run", "less.csv", "--out", "less-scores.csv")
    says(message, "must have the 5 columns that the model reads", "'sex' is missing")
    rows.loc[3, "sex"], rows.loc[4, "age"] = "X", np.nan
    rows.to_csv("odd.csv", index=False)
    assert equipoise("predict", "run", "odd.csv", "--out", "odd-scores.csv").code == 0
    problems = pd.read_csv("odd-scores.csv")["problem"].dropna()
    assert problems.index.tolist() == [3, 4]
    says(problems[3], "'sex'", "seen at fit", "'X'")
    says(problems[4], "'age'", "must be known to predict")


def test_the_option_is_repeated_resumed_and_compared(people):
    assert equipoise(*AWARE, "--out", "run").code == 0
    assert equipoise("fit", "--settings", "run/settings.json", "--out", "again").code == 0
    assert same_model("run/model.equipoise", "again/model.equipoise")
    # As a run that was killed when it had just begun.
    begun = replace(read_record(Path("run/settings.json")), state="training", files={})
    Path("cut").mkdir()
    write_json(Path("cut/settings.json"), begun.to_document())
    assert equipoise("fit", "--resume", "--out", "cut").code == 0
    assert same_model("run/model.equipoise", "cut/model.equipoise")

    assert equipoise(*FIT, *SMALL_ON_CPU, "--out", "plain").code == 0
    for page in ("report.html", "model_card.md"):
        assert "at prediction." not in Path("plain", page).read_text("utf-8")
    ran = equipoise("compare", "run", "plain", "--out", "compare.html")
    assert ran.code == 0, ran.err
    assert "sensitive_at_prediction" in ran.out


def test_rows_without_a_value_are_scored_where_training_rows_lacked_it_too(people):
    rows = table()
    rows.loc[rows.index % 10 == 0, "age"] = np.nan
    rows.to_csv("people.csv", index=False)
    assert equipoise(*AWARE, "--missing-sensitive", "skip", "--out", "run").code == 0
    rows[:20].assign(sex=["F"] * 19 + [None]).to_csv("new.csv", index=False)
    assert equipoise("predict", "run", "new.csv", "--out", "scores.csv").code == 0
    scored = pd.read_csv("scores.csv")
    assert scored["problem"].notna().to_numpy().nonzero()[0].tolist() == [19]
    assert scored["score"].notna()[[0, 10]].all()


def test_a_method_that_always_sees_them_is_refused(people):
    message = refused(*AWARE, "--method", "scutari", "--out", "run")
    says(message, "--sensitive-at-prediction", "'scutari'", "always sees", "leave it out")
