"""Run folders from before there was a gap: they still report, select, predict and compare."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from equipoise.errors import InputError
from equipoise.runs.comparing import compare_runs
from equipoise.runs.record import read_record
from equipoise.runs.selecting import Choice, rewrite_report, select_in_run
from tests.error_parts import says

OLD = Path(__file__).parents[1] / "frozen" / "files" / "run"


@pytest.fixture
def run(tmp_path):
    return shutil.copytree(OLD, tmp_path / "run")


def test_the_limit_of_an_older_run_is_kept_with_its_metric(run):
    before = json.loads((run / "selection.json").read_text("utf-8"))
    assert before["choice"]["max_unfairness"] == 0.625
    (run / "report.html").unlink()
    rewrite_report(run)
    page = (run / "report.html").read_text("utf-8")
    assert "frontier.select(max_unfairness=0.625, metric='KS-GSP')" in page.replace("\\u0027", "'")
    assert "percentage points" not in page  # nothing on it is a gap
    assert json.loads((run / "selection.json").read_text("utf-8")) == before


def test_another_model_of_an_older_run_is_taken_by_its_own_metric(run):
    rows = pd.read_csv(run / "table.csv").query("on_front")
    most = float(rows[["KS-GSP age", "KS-GSP group"]].max(axis=1).max())
    told = select_in_run(run, Choice(max_unfairness=most)).document["selection"]
    assert told["rows"][0]["validation"] == rows["utility"].max()
    with pytest.raises(InputError) as refusal:
        select_in_run(run, Choice(), max_gap=0.1)
    said = str(refusal.value)
    says(said, "--max-gap", "judged by the gap", "got one judged by KS-GSP", "--max-unfairness")


def test_an_older_run_is_compared_with_itself(run, tmp_path):
    other = shutil.copytree(OLD, tmp_path / "other")
    found = compare_runs([run, other], tmp_path / "compare.html").document
    assert {row["metric"] for row in found["table"]} == {"KS-GSP", "SP"}


def test_settings_of_an_older_run_are_read(run):
    assert read_record(run / "settings.json").options.max_unfairness == 0.1
