"""``equipoise select``, ``report`` and ``predict``: the model that was wished for, and no other."""

import json

import numpy as np
import pandas as pd
import pytest
from people import equipoise, refused, table

from equipoise import load
from tests.error_parts import says

PAGES = ("report.html", "model_card.json", "model_card.md")


def stored(run):
    return json.loads((run / "selection.json").read_text("utf-8"))


@pytest.mark.parametrize("metric", ["ks-gsp", "KS-GSP", "Ks-Gsp"])
def test_names_are_read_without_regard_to_case(run, metric):
    ran = equipoise(
        "select", run, "--max-unfairness", "0.6", "--metric", metric, "--attribute", "SEX"
    )
    assert ran.code == 0, ran.err
    frontier = load(run / "frontier.equipoise")
    selection = frontier.select(max_unfairness=0.6, metric="KS-GSP", attribute="sex")
    said = " ".join(ran.out.split())
    for block in (selection.headlines, selection.sentences, selection.details):
        assert " ".join(" ".join(block).split()) in said
    says(said, f"Stored in {run}", "report.html", "equipoise predict")
    assert stored(run)["snapshot"] == selection.snapshot
    assert stored(run)["wish"] == "KS-GSP by sex <= 0.6"


@pytest.mark.parametrize(
    ("limit", "limits"),
    [
        ("0.3", {"age": 0.3, "sex": 0.3}),
        ("SEX=0.27", {"sex": 0.27}),
        ("age=0.12,sex=0.4", {"age": 0.12, "sex": 0.4}),
    ],
)
def test_limits_on_the_gap_reach_the_model_and_its_files(run, limit, limits):
    ran = equipoise("select", run, "--max-gap", limit)
    assert ran.code == 0, ran.err
    selection = load(run / "frontier.equipoise").select(max_gap=limits)
    assert (stored(run)["snapshot"], stored(run)["metric"]) == (selection.snapshot, "gap")
    rows = {row["attribute"]: row for row in stored(run)["rows"] if row["metric"] == "gap"}
    assert {name: row["limit"] for name, row in rows.items() if row["limit"]} == limits
    assert all(rows[name]["validation"] <= most for name, most in limits.items())
    assert equipoise("report", run).code == 0
    call = f"max_gap={limits['age']}" if limit == "0.3" else f"max_gap={limits}"
    if len(limits) == 1:
        call = "max_gap=0.27, attribute='sex'"
    card = (run / "model_card.md").read_text("utf-8")
    assert f"model = frontier.select({call}).model" in card


def test_the_least_unfair_at_a_utility_and_json(run):
    ran = equipoise("select", run, "--min-utility", "0.55", "--candidates", "3", "--json")
    found = json.loads(ran.out)
    frontier = load(run / "frontier.equipoise")
    selection = frontier.select(min_utility=0.55, candidates=3)
    assert found["run"] == str(run)
    assert found["selection"]["snapshot"] == selection.snapshot
    assert found["selection"]["candidates"] == 3
    by_sex = selection.rows[2]
    assert found["selection"]["rows"][2]["certificate"] == by_sex.certificate
    assert by_sex.certificate > frontier.select(min_utility=0.55).rows[2].certificate


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ((), ("select", "needs a limit", "got none", "--min-utility", "--max-gap 0.05")),
        (
            ("--max-unfairness", "0.1", "--metric", "ks-gps"),
            ("metric", "judged by (gap, KS-GSP, SP)", "got 'ks-gps'", "fit again"),
        ),
        (
            ("--max-gap", "0.1", "--attribute", "aeg"),
            ("attribute", "a sensitive column", "(age, sex)", "got 'aeg'", "'age'?"),
        ),
        (
            ("--max-gap", "age=0.1,sxe=0.1"),
            ("must name sensitive columns", "(age, sex)", "got 'sxe'", "'sex'?"),
        ),
        (
            ("--max-gap", "age=0.1", "--attribute", "sex"),
            ("attribute", "must not be given", "got 'sex'", "leave it out"),
        ),
        (
            ("--max-gap", "0.1", "--metric", "ks-gsp"),
            ("--metric", "must not stand beside --max-gap", "got ks-gsp", "--max-unfairness"),
        ),
        (
            ("--max-gap", "0.1", "--max-unfairness", "0.3"),
            ("--max-gap", "must stand alone", "got --max-unfairness 0.3", "leave one out"),
        ),
    ],
)
def test_a_wish_that_can_not_be_read_changes_nothing(run, options, parts):
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    says(refused("select", run, *options), *parts)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_the_report_is_written_again_for_the_selected_model(run):
    assert equipoise("report", run).code == 0  # pages tell the path of the run, which is a copy
    kept = [(run / name).read_text("utf-8") for name in PAGES]
    (run / "report.html").unlink()
    ran = equipoise("report", run)
    assert (ran.code, ran.out) == (0, f"{run / 'report.html'}\n")
    assert [(run / name).read_text("utf-8") for name in PAGES] == kept
    assert json.loads(equipoise("report", run, "--json").out) == {
        "run": str(run),
        "report": str(run / "report.html"),
    }
    snapshots = {stored(run)["snapshot"]}
    for options in (("--max-unfairness", "0.9"), ("--min-utility", "0.5")):
        assert equipoise("select", run, *options).code == 0
        snapshots.add(stored(run)["snapshot"])
    assert len(snapshots) > 1
    assert (run / "model_card.json").read_text("utf-8") != kept[1]


def scores_by(model, rows):
    return model.predict_proba(rows[["city", "hours", "grade"]])[:, 1]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_scores_are_those_of_the_selected_model(run, folder, tmp_path, ending):
    rows = table(50, seed=9)
    rows.drop(columns=["age", "sex", "hired"]).to_csv(tmp_path / "new.csv", index=False)
    rows["city"] = rows["city"].astype("category")
    frontier = load(run / "frontier.equipoise")
    found = []
    for wish in ({"max_unfairness": 0.9}, {"min_utility": 0.5}):
        options = [f"--{name.replace('_', '-')}={value}" for name, value in wish.items()]
        assert equipoise("select", run, *options).code == 0
        out = tmp_path / f"{len(found)}.{ending}"
        ran = equipoise("predict", run, tmp_path / "new.csv", "--out", out)
        assert ran.code == 0, ran.err
        scored = pd.read_csv(out) if ending == "csv" else pd.read_parquet(out)
        assert scored["person"].tolist() == rows["person"].tolist()
        selection = frontier.select(**wish)
        expected = scores_by(selection.model, rows)
        np.testing.assert_allclose(scored["score"], expected, rtol=1e-12)
        found.append(expected)
    assert not np.array_equal(*found)


def test_decisions_and_rows_that_can_not_be_scored(run, tmp_path):
    rows = table(30, seed=4).astype({"hours": object})
    rows.loc[7, "hours"] = "many"
    rows.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "scores.csv"
    ran = equipoise("predict", run, tmp_path / "new.csv", "--out", out, "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["rows"], found["scored"]) == (0, 30, 29)
    assert found["problems"] == [
        {"row": 8, "problem": "column 'hours' must hold a number, got 'many'"}
    ]
    scored = pd.read_csv(out)
    assert list(scored) == ["person", "score", "decision", "problem"]
    assert len(scored) == 30 and scored["score"].isna().sum() == 1
    known = scored.dropna(subset="score")
    assert (known["decision"] == (known["score"] > stored(run)["threshold"])).all()
    ran = equipoise(
        *("predict", run, tmp_path / "new.csv", "--out", tmp_path / "other.csv"),
        *("--id", "city,person", "--threshold", "0.99999"),
    )
    assert ran.code == 0, ran.err
    other = pd.read_csv(tmp_path / "other.csv")
    assert list(other) == ["city", "person", "score", "decision", "problem"]
    assert (other["decision"].dropna() == 0).all()


def test_a_file_without_a_feature_is_refused(run, tmp_path):
    table(10).drop(columns="hours").to_csv(tmp_path / "new.csv", index=False)
    ran = equipoise("predict", run, tmp_path / "new.csv", "--out", tmp_path / "scores.csv")
    assert (ran.code, ran.out) == (1, "")
    assert "'hours'" in ran.err and ran.err.count("\n") == 1
    assert not (tmp_path / "scores.csv").exists()
