"""Audit and predict on a real cluster of two nodes, whose workers and nodes are really killed."""

import hashlib
import json
import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from losses import kill, meanwhile
from people_in_files import command, people, written

from equipoise import (
    FairBoostingClassifier,
    FairClassifier,
    FairFrontier,
    audit,
    audit_files,
)
from equipoise.errors import InputError
from equipoise.runs.scoring import FINISHED, score_file, score_files
from tests.error_parts import says
from tests.test_documentation import run_in_order

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = pytest.mark.timeout(240)
COLUMNS = {"score": "score", "target": "hired", "sensitive": ["age", "sex"]}
FAST = {"draws": 20, "permutations": 99}


@pytest.fixture(scope="module")
def model():
    rows = people(300)
    estimator = FairClassifier(iterations=5, random_state=0, device="cpu")
    return estimator.fit(rows[["grade", "age"]], rows["hired"], sensitive_features=rows[["sex"]])


def digests(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.glob("*.parquet")
    }


def test_an_audit_counts_what_audit_counts_also_when_workers_and_a_node_are_lost(
    cluster, lose, tmp_path
):
    paths = written(tmp_path / "in", 6, 50_000)
    with meanwhile(lose("ray::_call")) as lost:
        found = audit_files(paths, **COLUMNS, **FAST)
    assert len(lost) == 1
    assert found.to_json() == audit_files(paths, **COLUMNS, **FAST).to_json()
    rows = pd.concat([people(50_000, seed) for seed in range(6)], ignore_index=True)
    rates = found.to_frame().query("metric == 'selection rate' and attribute == 'sex'")
    shares = (rows["score"] > found.threshold).groupby(rows["sex"]).mean()
    assert dict(zip(rates["group"], rates["value"], strict=True)) == pytest.approx(dict(shares))
    assert found.n == rates["n"].sum() == len(rows)


def test_predict_scores_as_one_process_does_also_when_workers_are_lost(cluster, model, tmp_path):
    paths = written(tmp_path / "in", 4, 40_000)
    with meanwhile(kill, times=2) as lost:
        report = score_files(model, paths, tmp_path / "out", model_digest="m")
    assert len(lost) == 2
    assert (report.document["scored"], report.before) == (160_000, 0)
    (tmp_path / "here").mkdir()
    for path in sorted((tmp_path / "in").iterdir()):
        score_file(model, path, tmp_path / "here" / path.name)
    assert digests(tmp_path / "out") == digests(tmp_path / "here")
    assert not list((tmp_path / "out").glob(".*"))  # nothing half-written


def test_a_frontier_trained_on_a_cluster_is_that_of_one_process(cluster):
    rows = people(1200)
    models = [FairClassifier(iterations=20, hidden=h, device="cpu") for h in ((8,), (4, 4))]
    given = {"sensitive_features": rows[["sex", "age"]]}
    options = {"strengths": (0.0, 0.5, 0.9), "seeds": 2, "ensemble": True, "random_state": 0}

    found = {}
    for engine in ("local", "ray"):
        frontier = FairFrontier(models, evaluate_every=10, engine=engine, **options)
        with meanwhile(kill) if engine == "ray" else nullcontext([0.0]) as killed:
            found[engine] = frontier.fit(rows[["grade"]], rows["hired"], **given)
        assert len(killed) == 1
    tables = [frontier.table() for frontier in found.values()]
    pd.testing.assert_frame_equal(*tables, atol=1e-3)
    histories = [frontier.history_ for frontier in found.values()]
    for name, one in histories[0].items():
        other = histories[1][name]
        assert one.iterations.tolist() == other.iterations.tolist()
        np.testing.assert_allclose(one.task, other.task, rtol=1e-5)
        np.testing.assert_allclose(one.penalty, other.penalty, rtol=1e-3, atol=1e-6)
    picked = [frontier.select(max_gap=1, allow_useless=True) for frontier in found.values()]
    scores = [each.model.predict_proba(rows[["grade"]]) for each in picked]
    np.testing.assert_allclose(*scores, atol=1e-5)
    with pytest.raises(InputError) as refused:
        trees = FairFrontier(FairBoostingClassifier(), engine="ray")
        trees.fit(rows[["grade"]], rows["hired"], **given)
    says(refused.value, "estimator", "networks", "boosted trees", "engine='local'")
    for options in ({"callback": print}, {"checkpoint": "kept", "resume": True}):
        with pytest.raises(InputError) as refused:
            frontier.fit(rows[["grade"]], rows["hired"], **given, **options)
        says(refused.value, next(iter(options)), "no meaning", "engine='ray'", "engine='local'")


def test_what_is_finished_is_not_done_again(cluster, model, tmp_path):
    paths, out = written(tmp_path / "in", 3, 200), tmp_path / "out"
    score_files(model, paths, out, model_digest="m", id="age")
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    (out / "01.parquet").unlink()
    people(150, 9).to_parquet(tmp_path / "in" / "02.parquet")
    report = score_files(model, paths, out, model_digest="m", id="age")
    assert (report.before, report.document["rows"]) == (1, 550)
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert {name for name in before if before[name] != after[name]} == {
        "01.parquet",
        "02.parquet",
    }
    assert len(pd.read_parquet(out / "02.parquet")) == 150
    for options in ({"model_digest": "other"}, {"model_digest": "m", "threshold": 0.5}):
        with pytest.raises(InputError) as refused:
            score_files(model, paths, out, id="age", **{"model_digest": "m"} | options)
        says(refused.value, "out", "must be new", "another model or other options", "overwrite")
    report = score_files(model, paths, out, model_digest="other", id="age", overwrite=True)
    assert report.before == 0


def test_nothing_of_the_user_is_overwritten(cluster, model, tmp_path):
    paths, out = written(tmp_path / "in", 2, 50), tmp_path / "out"
    out.mkdir()
    (out / "letter.txt").write_text("mine")
    with pytest.raises(InputError) as refused:
        score_files(model, paths, out, model_digest="m", overwrite=True)
    says(refused.value, "out", "'letter.txt'", "another name")
    (out / "letter.txt").rename(out / FINISHED)
    (out / FINISHED).write_text('{"mine": 1}')
    with pytest.raises(InputError) as refused:
        score_files(model, paths, out, model_digest="m", overwrite=True)
    says(refused.value, "out", "must be new", FINISHED, "another name")
    with pytest.raises(InputError) as refused:
        score_files(model, paths, tmp_path / "in", model_digest="m", overwrite=True)
    says(refused.value, "out", "must not be a folder of the data", "another folder")
    shutil.copytree(tmp_path / "in", tmp_path / "more")
    with pytest.raises(InputError) as refused:
        score_files(model, [paths, str(tmp_path / "more" / "*")], out, model_digest="m")
    says(refused.value, "different names", "00.parquet", "each folder by itself")


def test_an_error_in_a_worker_is_the_error_of_the_command(cluster, tmp_path):
    paths = written(tmp_path / "in", 3, 100)
    bad = people(100).astype({"score": float})
    bad.loc[41, "score"] = np.inf
    bad.to_parquet(tmp_path / "in" / "01.parquet")
    with pytest.raises(InputError) as refused:
        audit_files(paths, **COLUMNS, workers=1)
    says(refused.value, "01.parquet", "'score'", "finite", "inf in row 42", "correct it")


def answer(out):
    """The JSON of a command; Ray of the fixture may tell of a lost node before it."""
    return json.loads(out[out.index("{\n") :])


def test_the_commands_run_on_the_cluster(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "in", 2, 400)
    known = pd.concat([people(400, seed) for seed in range(2)], ignore_index=True)
    audited = ("audit", "in/*.parquet", "--score", "score,grade", "--target", "hired")
    code, out, err = command(*audited, "--sensitive", "sex", "--weight", "age", "--engine", "ray")
    assert code == 0, err
    models = json.loads(Path("audit/audit.json").read_text("utf-8"))["models"]
    scores = {name: known[name] for name in ("score", "grade")}
    alone = audit(scores, known["hired"], known[["sex"]], sample_weight=known["age"])
    assert list(models) == list(alone)
    for name, document in models.items():
        gaps = [row["value"] for row in document["rows"] if row["metric"] == "gap"]
        values = [row.value for row in alone[name].rows if row.metric == "gap"]
        assert gaps == pytest.approx(values, abs=1e-12) and len(gaps) == 1
        assert document["source"]["name"] == "*.parquet"
    known.to_csv("people.csv", index=False)
    small = ("--strengths", "0.5", "--seeds", "1", "--iterations", "4", "--evaluate-every", "4")
    fit = ("fit", "people.csv", "--target", "hired", "--sensitive", "sex", "--drop", "score")
    code, _, err = command(*fit, *small, "--allow-nearest", "--allow-useless", "--device", "cpu")
    assert code == 0, err
    predict = ("predict", "run", "in/*.parquet", "--out", "out", "--engine", "ray")
    code, out, err = command(*predict, "--json")
    assert code == 0, err
    assert (answer(out)["scored"], answer(out)["finished_before"]) == (800, 0)
    assert answer(command(*predict, "--json")[1])["finished_before"] == 2
    code, _, err = command("predict", "run", "in/00.parquet", "--out", "one.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet("one.parquet"), pd.read_parquet("out/00.parquet"))
    assert sorted(os.listdir("out")) == ["00.parquet", "01.parquet", FINISHED]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data")
def test_the_code_on_the_page_runs(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_in_order(Path(__file__).parents[2] / "docs" / "ray.md")


def test_options_that_have_no_meaning_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    audited = ("audit", "in.parquet", "--sensitive", "sex", "--score")
    for arguments, parts in (
        ((*audited, "a", "--engine", "ray", "--sep", ";"), ("--sep", "no meaning", "';'")),
        ((*audited, "a", "--workers", "2"), ("--workers", "no meaning", "--engine ray")),
        ((*audited, "a", "--engine", "spark"), ("engine", "'local' or 'ray'", "'spark'")),
    ):
        code, _, err = command(*arguments)
        assert code == 1 and says(err, *parts)
