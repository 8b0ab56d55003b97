"""Files of an older version answer as they did, and so do numbers that any machine computes alike.

The full comparison is a program, ``python -m tests.frozen``: what is trained in single precision
depends on the processor.
"""

import json
import math
import shutil

import pandas as pd
import pytest

from .__main__ import BEFORE
from .files import FILES, SCORES, SELECTED, answers, equipoise, selected
from .numbers import EXACT, compute, difference

SAVED = json.loads(SCORES.read_text("utf-8"))
#: What says how sure a number is has changed on purpose; README.md says why.
HOW_SURE = {"low", "high", "certificate", "note"}
METRICS_OF_THEN = ["KS-GSP", "KS-GSP", "SP", "SP"]


@pytest.fixture(scope="module")
def before():
    return json.loads(BEFORE.read_text("utf-8"))["entries"]


def test_every_file_has_its_answers():
    assert {path.name for path in FILES.glob("*.equipoise")} == set(SAVED)


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_model_answers_as_it_did(name):
    before, now = numbers_only(SAVED[name]), answers(FILES / name)
    report = before.get("report", {"metric": []})
    for place, metric in enumerate(report["metric"]):
        # A ratio to the rate of a group where hardly anybody is selected is undefined now.
        if metric == "SP" and report["test"][place] > 2 and now["report"]["test"][place] == "nan":
            report["test"][place] = "nan"
    if "members" in now:  # which rows showed it is said now
        health = now["members"]["health"]
        now["members"]["health"] = ["healthy" if h[:7] == "healthy" else h for h in health]
    assert difference(before, now) <= 1e-6


def test_the_model_of_a_run_folder_predicts_as_it_did(tmp_path):
    out = tmp_path / "scores.csv"
    run = shutil.copytree(FILES / "run", tmp_path / "run")
    code, _ = equipoise("predict", run, FILES / "people.csv", "--out", out)
    assert code == 0
    assert same_frame(pd.read_csv(FILES / "predicted.csv"), pd.read_csv(out))


def test_select_takes_the_same_model_from_a_run_folder(tmp_path):
    before = numbers_only(json.loads(SELECTED.read_text("utf-8")))
    assert [row["metric"] for row in before["selection"]["rows"]] == ["AUC", *METRICS_OF_THEN]
    assert difference(before, selected(tmp_path)) <= 1e-6


@pytest.mark.parametrize("group", EXACT)
def test_numbers_that_do_not_depend_on_the_processor(before, group):
    now = compute(group)
    assert now.keys() >= before[group].keys()
    differing = {
        name: by
        for name, value in before[group].items()
        if not (by := difference(value, now[name])) <= 1e-9
    }
    assert differing == {}


def numbers_only(answer):
    """An answer without what says how sure its numbers are."""
    if isinstance(answer, dict):
        return {k: numbers_only(value) for k, value in answer.items() if k not in HOW_SURE}
    return [numbers_only(value) for value in answer] if isinstance(answer, list) else answer


def test_a_difference_is_found():
    assert difference({"a": [1.0, None]}, {"a": [1.0, None]}) == 0
    assert difference({"a": [1.0, "b"]}, {"a": [1.2, "b"]}) == pytest.approx(0.1)
    for other in ({"a": [1.0]}, {"a": [1.0, "c"]}, {"b": [1.0, "b"]}, {"a": [True, "b"]}, None):
        assert difference({"a": [1.0, "b"]}, other) == math.inf


def same_frame(one, other):
    one, other = (json.loads(frame.to_json(double_precision=15)) for frame in (one, other))
    return difference(one, other) <= 1e-6
