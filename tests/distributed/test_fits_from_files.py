"""A fit from files is the fit of the same rows: one worker, in this process."""

import json
import pickle
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from people_in_files import command

from equipoise import (
    FairAdjuster,
    FairClassifier,
    FairEncoder,
    FairFrontier,
    FairRegressor,
    fit_files,
    load,
)
from equipoise.distributed import fitting as of_files
from equipoise.distributed.training import Assignment, Process
from equipoise.errors import InputError
from tests.error_parts import says

FAST = {"iterations": 60, "random_state": 0, "device": "cpu", "hidden": (8,)}
ROLES = {"target": "hired", "sensitive": ["age", "sex"], "drop": ["pay", "w", "person"]}
pytestmark = pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning")


def people(n=1500, seed=0):
    random = np.random.default_rng(seed)
    sex = random.choice(["F", "M"], n)
    grade = random.normal(size=n) + (sex == "M")
    hired = (random.random(n) < 1 / (1 + np.exp(-grade))).astype(int)
    other = random.normal(size=n)
    other[::40] = np.nan
    city = random.choice(list("abc"), n).astype(object)
    city[::90] = None
    columns = {"age": random.integers(18, 80, n), "sex": sex, "grade": grade, "other": other}
    pay = grade + random.normal(size=n)
    weights = {"w": 1.0 + random.integers(0, 3, n), "person": np.arange(n) // 2}
    return pd.DataFrame({**columns, "city": city, "hired": hired, "pay": pay, **weights})


def written(rows, folder, files=3, group=100):
    folder.mkdir(exist_ok=True)
    for number, places in enumerate(np.array_split(np.arange(len(rows)), files)):
        part = rows.iloc[places]
        part.to_parquet(folder / f"{number:02d}.parquet", row_group_size=group, index=False)
    return str(folder / "*.parquet")


class Here:
    """Trains in this process what a worker would get."""

    stops_after = None  # checks

    def __init__(self, cluster, table, workers):
        self.table = table

    def __call__(self, work, fitting, run, verbose):
        task = Assignment(work, fitting, self.table, dict(run.options), run.seconds, str(run.store))
        process = Process(0, 1)
        state = None if run.store is None else run.store.read()
        keep = process.write

        def write(kept):
            if Here.stops_after is not None:
                Here.stops_after -= 1
                if Here.stops_after < 0:
                    raise KeyboardInterrupt
            keep(kept)
            if run.store is not None:
                run.store.write(process.news().state)

        process.write = write
        return process.train(pickle.loads(pickle.dumps(task)), None, state)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    @contextmanager
    def connected(workers=None):
        yield SimpleNamespace(in_order=map)

    monkeypatch.setattr(of_files, "connected", connected)
    monkeypatch.setattr(of_files, "ClusterTraining", Here)


FEATURES = ["grade", "other", "city"]
SENSITIVE = ["age", "sex"]


@pytest.mark.parametrize(
    "model",
    [
        FairClassifier(strength=0.8, members=2, **FAST),
        FairClassifier(strength=0.8, notion="separation", early_stopping=None, **FAST),
        FairClassifier(strength=0, sensitive_at_prediction=True, **FAST),
        FairRegressor(strength=0.5, **FAST),
        FairEncoder(strength=0.5, **FAST),
    ],
    ids=lambda model: type(model).__name__,
)
def test_one_worker_is_the_local_engine(model, tmp_path):
    rows = people(500)
    target = "pay" if isinstance(model, FairRegressor) else "hired"
    other = {"pay", "hired"} - {target}
    paths = written(rows, tmp_path / "in")
    given = {"target": target, "sensitive": SENSITIVE, "drop": [*other, "person"], "weight": "w"}
    from_files = fit_files(model, paths, **given)
    assert from_files is model
    scores = scores_of(model, rows)
    history, health, sensitive = model.history_, model.health_, model.sensitive_
    model.fit(
        rows[FEATURES], rows[target], sensitive_features=rows[SENSITIVE], sample_weight=rows["w"]
    )
    np.testing.assert_allclose(scores, scores_of(model, rows), rtol=0, atol=1e-6)
    np.testing.assert_allclose(history.task, model.history_.task, atol=1e-6)
    assert health.messages == model.health_.messages and sensitive == model.sensitive_


def scores_of(model, rows):
    aware = {"sensitive_features": rows[SENSITIVE]} if model.sensitive_at_prediction else {}
    if isinstance(model, FairEncoder):
        return model.transform(rows[FEATURES])
    score = model.predict if isinstance(model, FairRegressor) else model.predict_proba
    return score(rows[FEATURES], **aware)


def test_one_worker_adjusts_scores_as_the_local_engine_does(tmp_path):
    rows = people()
    adjuster = FairAdjuster(**FAST | {"strength": 0.9})
    fit_files(
        adjuster, written(rows, tmp_path / "in"), target="hired", sensitive="sex", features="grade"
    )
    given = {"sensitive_features": rows[["sex"]]}
    scores = adjuster.predict_proba(rows[["grade"]], **given)
    adjuster.fit(rows[["grade"]], rows["hired"], **given)
    np.testing.assert_allclose(scores, adjuster.predict_proba(rows[["grade"]], **given), atol=1e-6)
    with pytest.raises(InputError) as refused:
        fit_files(adjuster, str(tmp_path / "in" / "*"), **ROLES)
    says(refused.value, "X must be the score", "1 column", "3 columns")


def test_a_frontier_is_that_of_the_same_rows_in_the_same_parts(tmp_path):
    rows = people()
    options = {"strengths": (0.0, 0.9), "seeds": 2, "random_state": 3, "evaluate_every": 30}
    network = FairClassifier(**FAST | {"random_state": None})
    frontier = FairFrontier(network, **options)
    fit_files(frontier, written(rows, tmp_path / "in"), key="person", **ROLES, positive=0)
    split = frontier.split_
    parts = [split.train, split.validation, split.test]
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(rows)))
    assert 200 < len(split.test) < 400
    groups = [set(rows["person"].iloc[part]) for part in parts]
    assert not groups[0] & groups[1] and not (groups[0] | groups[1]) & groups[2]
    local = FairFrontier(network, **options, validation=split.validation, test=split.test)
    features = ["grade", "other", "city"]
    local.fit(rows[features], rows["hired"], sensitive_features=rows[["age", "sex"]], positive=0)
    pd.testing.assert_frame_equal(frontier.table(), local.table(), atol=1e-6)
    picked = [each.select(max_gap=1, allow_useless=True) for each in (frontier, local)]
    assert str(picked[0]) == str(picked[1])
    frontier.save(tmp_path / "kept.equipoise")
    assert load(tmp_path / "kept.equipoise").table().equals(frontier.table())


@pytest.mark.parametrize("window", [100_000, 1_000])
def test_more_rows_than_the_sample_holds(window, tmp_path, monkeypatch):
    """What is learned from a sample, and from windows, is near what all rows teach."""
    monkeypatch.setattr(of_files, "SAMPLE", 1500)
    rows = people(4000)
    rows.loc[3321, "city"] = "rare"
    paths = written(rows, tmp_path / "in", group=300)
    options = FAST | {"iterations": 300, "batch_size": 100}
    model = fit_files(FairClassifier(strength=0, **options), paths, window=window, **ROLES)
    features = rows[FEATURES]
    known = FairClassifier(strength=0, **options).fit(features, rows["hired"])
    scores = [each.predict_proba(features)[:, 1] for each in (model, known)]
    assert np.corrcoef(*scores)[0, 1] > 0.97
    assert abs(scores[0] - scores[1]).mean() < 0.03
    names = model.encoder_.names_
    assert "city=rare" in names and "other is missing" in names


@pytest.mark.parametrize("window", [100_000, 1_000])
def test_a_resumed_run_ends_as_if_it_had_not_been_interrupted(window, tmp_path, monkeypatch):
    monkeypatch.setattr(of_files, "SAMPLE", 1500)
    rows = people(4000)
    paths = written(rows, tmp_path / "in", group=300)
    model = FairClassifier(strength=0.5, **FAST | {"iterations": 120}, batch_size=100)
    given = {**ROLES, "window": window, "checkpoint_every": 0}
    whole = fit_files(model, paths, **given).predict_proba(rows[FEATURES])
    given["checkpoint"] = tmp_path / "kept"
    monkeypatch.setattr(Here, "stops_after", 2)
    with pytest.raises(KeyboardInterrupt):
        fit_files(model, paths, **given)
    monkeypatch.setattr(Here, "stops_after", None)
    with pytest.raises(InputError) as refused:
        fit_files(model, paths, **given)
    says(refused.value, "checkpoint", "new file", "resume=True")
    for changed, words in (({"window": 2_000}, "window was"), ({"drop": "pay"}, "columns was")):
        with pytest.raises(InputError) as refused:
            fit_files(model, paths, **given | changed, resume=True)
        says(refused.value, "resume", words)
    fit_files(model, paths, **given, resume=True)
    np.testing.assert_allclose(model.predict_proba(rows[FEATURES]), whole, atol=1e-9)


def test_a_frontier_of_several_networks_is_resumed_in_the_second(tmp_path, monkeypatch):
    paths = written(people(600), tmp_path / "in")
    options = FAST | {"random_state": None, "iterations": 40}
    networks = [FairClassifier(**options), FairClassifier(**options | {"hidden": (4, 4)})]
    given = {"strengths": (0.0, 0.9), "seeds": 1, "random_state": 1, "evaluate_every": 20}
    whole = fit_files(FairFrontier(networks, **given), paths, **ROLES).table()
    kept = {"checkpoint": tmp_path / "kept", "checkpoint_every": 0}
    monkeypatch.setattr(Here, "stops_after", 3)
    with pytest.raises(KeyboardInterrupt):
        fit_files(FairFrontier(networks, **given), paths, **ROLES, **kept)
    monkeypatch.setattr(Here, "stops_after", None)
    again = fit_files(FairFrontier(networks, **given), paths, **ROLES, **kept, resume=True)
    pd.testing.assert_frame_equal(again.table(), whole)
    assert set(again.history_) == {"network", "network 2"}


def test_a_failed_fit_leaves_the_estimator_and_no_file_behind(tmp_path):
    rows = people()
    paths = written(rows, tmp_path / "in")
    model = FairClassifier(**FAST)
    fit_files(model, paths, **ROLES)
    before = model.predict_proba(rows[FEATURES])
    rows.loc[700, "hired"] = 5
    rows.astype({"hired": float}).mask(rows["hired"] == 5).to_parquet(
        tmp_path / "in" / "09.parquet"
    )
    with pytest.raises(InputError) as refused:
        fit_files(model, paths, **ROLES, checkpoint=tmp_path / "kept")
    says(refused.value, "09.parquet", "'hired'", "value in every row", "row 701")
    rows.drop(columns="grade").to_parquet(tmp_path / "in" / "09.parquet")
    with pytest.raises(InputError) as refused:
        fit_files(model, paths, **ROLES, checkpoint=tmp_path / "kept")
    says(refused.value, "09.parquet", "(4 of 4)", "column 'grade'")
    days = pd.date_range("2020", periods=len(rows))
    rows.assign(grade=days).to_parquet(tmp_path / "in" / "09.parquet")
    with pytest.raises(InputError) as refused:
        fit_files(model, paths, **ROLES, checkpoint=tmp_path / "kept")
    says(refused.value, "09.parquet", "numbers in column 'grade'", "timestamp")
    with pytest.raises(InputError) as refused:
        fit_files(model, str(tmp_path / "in" / "09.parquet"), **ROLES)
    says(refused.value, "09.parquet", "numbers, booleans or text", "'grade'", "timestamp", "drop")
    np.testing.assert_array_equal(model.predict_proba(rows[FEATURES]), before)
    assert not (tmp_path / "kept").exists()


def test_what_needs_no_file_is_checked_before_any_is_read(tmp_path):
    (tmp_path / "kept").write_text("mine")
    nowhere = str(tmp_path / "none.parquet")
    for model, more, parts in (
        (FairClassifier(strength=2.0), {}, ("strength", "[0, 1)", "2.0")),
        (FairClassifier(), {"resume": True}, ("resume", "checkpoint=None")),
        (FairClassifier(), {"checkpoint": tmp_path / "new"}, ("random_state", "whole number")),
        (FairClassifier(**FAST), {"checkpoint": tmp_path / "kept"}, ("checkpoint", "new file")),
        (FairClassifier(**FAST), {"checkpoint_every": -1}, ("checkpoint_every", "-1")),
        (FairFrontier(strengths=(2.0,)), {}, ("strength", "[0, 1)", "2.0")),
        (FairClassifier(), {}, ("paths", "none.parquet", "matches none")),
    ):
        with pytest.raises(InputError) as refused:
            fit_files(model, nowhere, **ROLES, **more)
        says(refused.value, *parts)
    assert (tmp_path / "kept").read_text() == "mine"


def test_names_of_columns_are_checked(tmp_path):
    paths = written(people(50), tmp_path / "in", 1)
    model = FairClassifier(**FAST)
    for changed, parts in (
        ({"target": "hire"}, ("'hire'", "hired")),
        ({"sensitive": "sexx"}, ("sensitive", "'sexx'")),
        ({"key": "persn"}, ("key", "'persn'")),
        ({"features": ["sex"]}, ("'sex'", "sensitive", "features")),
        ({"engine": "spark"}, ("engine", "'ray'", "'spark'")),
    ):
        with pytest.raises(InputError) as refused:
            fit_files(model, paths, **ROLES | changed)
        says(refused.value, *parts)


SMALL = ("--strengths", "0,0.9", "--seeds", "1", "--iterations", "60", "--evaluate-every", "20")
ALLOWED = ("--allow-nearest", "--allow-useless")


def test_the_command_is_resumed_and_repeated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = people(800)
    written(rows, tmp_path / "in")
    fit = ("fit", "in/*.parquet", "--target", "hired", "--sensitive", "sex", "--engine", "ray")
    more = ("--drop", "pay,w", "--id", "person", "--group-split", "person", *SMALL, *ALLOWED)
    code, _, err = command(*fit, *more, "--out", "whole")
    assert code == 0, err
    monkeypatch.setattr(Here, "stops_after", 1)
    code, _, err = command(*fit, *more)
    assert code == 1 and says(err, "continue with", "equipoise fit --resume --out run")
    monkeypatch.setattr(Here, "stops_after", None)
    code, _, err = command("fit", "--resume", "--out", "run")
    assert code == 0, err
    code, _, err = command("fit", "--settings", "run/settings.json", "--out", "again")
    assert code == 0, err
    tables = [load(f"{name}/frontier.equipoise").table() for name in ("whole", "run", "again")]
    assert tables[0].equals(tables[1]) and tables[0].equals(tables[2])
    settings = json.loads(Path("run/settings.json").read_text("utf-8"))
    assert [each["column"] for each in settings["columns"] if each["role"] == "feature"] == [
        "age",
        *FEATURES,
    ]
    code, _, err = command("predict", "run", "in/00.parquet", "--out", "scores.parquet")
    assert code == 0 and "person" in pd.read_parquet("scores.parquet"), err
    people(900).to_parquet("in/00.parquet")
    code, _, err = command("fit", "--settings", "run/settings.json", "--out", "other")
    assert code == 1 and says(err, "in/*.parquet", "is not the file", "SHA-256")


def test_the_command_decides_the_task_and_adjusts_scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = people(800)
    written(rows, tmp_path / "in")
    run = ("in/*.parquet", "--sensitive", "age,sex", "--engine", "ray", *SMALL, *ALLOWED)
    code, _, err = command("fit", *run, "--target", "pay", "--drop", "hired,w,person")
    assert code == 0 and load("run/model.equipoise").predict(rows[FEATURES]).std() > 0, err
    adjust = ("--target", "hired", "--score", "grade", "--out", "adjusted")
    code, _, err = command("adjust", *run, *adjust)
    assert code == 0, err
    code, _, err = command("predict", "adjusted", "in/00.parquet", "--out", "scores.parquet")
    assert code == 0 and len(pd.read_parquet("scores.parquet")) == 267, err
    assert json.loads(Path("adjusted/settings.json").read_text("utf-8"))["task"] == (
        "classification"
    )
