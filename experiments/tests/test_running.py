"""Runs of cells: what is trained on which rows, what snapshots are judged by, what is kept."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score

from equipoise import FairClassifier, load_dataset
from equipoise.errors import InputError
from equipoise.estimators.fitting import Fitting
from equipoise.methods import parse_method, refuse_unused_options
from equipoise.metrics import youden_threshold
from equipoise.notions import Notion
from experiments.paper.plan import Cell, cells_of, is_offered, training_of
from experiments.paper.results import pack, read_results
from experiments.paper.training import (
    FULL,
    QUICK,
    Size,
    cell_rows,
    estimator_of,
    run_cell,
    run_cells,
    run_missing,
    split_rows,
    strengths_of,
)

TINY = Size(
    name="quick",
    splits=2,
    strengths=(0.5,),
    iterations=40,
    evaluate_every=20,
    rows=900,
    draws=5,
)
ADULT = Cell(scenario="I", dataset="adult", notion="independence", method="sbp")
CRIME = Cell(scenario="III", dataset="crime", notion="separation", method="hgr", protocol="honest")


@pytest.fixture(scope="module")
def adult():
    return run_cell(ADULT, TINY, device="cpu")


@pytest.fixture(scope="module")
def crime():
    return run_cell(CRIME, TINY, device="cpu")


def test_a_split_deals_every_row_once():
    for protocol, sizes in (("paper", (80, 20, 0)), ("honest", (60, 20, 20))):
        split = split_rows(100, protocol, 3)
        parts = (split.train, split.validation, split.test)
        assert tuple(map(len, parts)) == sizes
        assert sorted(np.concatenate(parts)) == list(range(100))
    first, second = (split_rows(100, "paper", number) for number in (0, 1))
    assert (first.validation != second.validation).any()


def rows_of_adult(number):
    """Features, outcome and race of one split of the tiny run: training, then validation rows."""
    data = load_dataset("adult", preprocessing="paper")
    chosen = np.random.default_rng(0).permutation(len(data.y))[: TINY.rows]
    split = split_rows(TINY.rows, "paper", number)
    for part in (split.train, split.validation):
        at = chosen[part]
        yield data.X.iloc[at], data.y.to_numpy()[at], data.A["race"].to_numpy()[at]


def test_a_member_is_the_estimator_of_its_split(adult):
    # Trained beside others of another split, it is what it would be alone.
    (X, y, race), (X_new, y_new, race_new) = rows_of_adult(1)
    alone = FairClassifier.as_in_paper(
        scaling="none", strength=0.5, iterations=TINY.iterations, random_state=1, device="cpu"
    )
    alone.fit(X, y, sensitive_features=pd.DataFrame({"race": race}, index=X.index))
    score = alone.predict_proba(X_new)[:, 1]
    row = adult.snapshots.query("split == 1 and iteration == 40").iloc[0]
    assert row["utility"] == pytest.approx(roc_auc_score(y_new, score), abs=1e-6)
    decided = score > youden_threshold(score, y_new)
    rates = [decided[race_new == group].mean() for group in (1, 0)]
    assert row["SP race"] == pytest.approx(abs(rates[0] / rates[1] - 1), abs=1e-6)


def test_snapshots_are_every_member_at_every_evaluation(adult):
    found = adult.snapshots[["split", "strength", "iteration"]].to_numpy().tolist()
    assert sorted(found) == [[s, 0.5, i] for s in (0, 1) for i in (20, 40)]
    assert adult.picks.empty
    assert adult.record["rows"] == {"train": 720, "validation": 180}
    assert adult.record["options"]["optimizer"] == "sgd"


def test_a_regression_is_judged_by_its_errors_in_its_own_units(crime):
    y = cell_rows(CRIME, TINY, torch.device("cpu")).test.held_out[0].y
    assert y.min() >= 0 and y.max() <= 1
    table = crime.snapshots
    # A constant score has R2 0 and the mean absolute deviation as its error: both are of y's size.
    flat = np.full(len(y), y.mean())
    assert r2_score(y, flat) == pytest.approx(0)
    assert (table["test utility"] < 5 * mean_absolute_error(y, flat)).all()
    assert {"R2", "test R2", "EO racepctblack", "test KS-GEO racepctblack"} <= set(table)


def test_picks_are_the_least_validation_value_at_the_threshold():
    cell = replace(ADULT, settings="equipoise", protocol="honest")
    found = run_cell(cell, replace(TINY, iterations=80), device="cpu")
    # Some snapshot of each split reaches 0.8, so that every measure has its pick.
    assert set(found.picks["split"]) == {0, 1}
    for pick in found.picks.to_dict("records"):
        column = f"{pick['metric']} {pick['attribute']}"
        rivals = found.snapshots.query("split == @pick['split'] and utility >= @pick['threshold']")
        assert pick["value"] == rivals[column].min()
        row = rivals[rivals["iteration"] == pick["iteration"]].iloc[0]
        expected = pytest.approx(row[f"test {column}"], abs=1e-9, nan_ok=True)
        assert pick["test_value"] == expected
        # SP of a few test rows may have hardly any positive decision to divide by.
        assert np.isnan(pick["test_value"]) or pick["low"] <= pick["test_value"] <= pick["high"]


def test_neu_is_trained_once_for_both_notions():
    cells = [replace(ADULT, method="neu", notion=n) for n in ("independence", "separation")]
    assert len({training_of(cell) for cell in cells}) == 1
    first, second = run_cells(cells, replace(TINY, iterations=20), device="cpu")
    assert (first.snapshots["utility"] == second.snapshots["utility"]).all()
    assert {"SP race", "KS-GSP race"} <= set(first.snapshots)
    assert {"EO race", "KS-GEO race"} <= set(second.snapshots)


def test_only_missing_cells_are_trained(tmp_path):
    size = replace(TINY, iterations=20)
    cells = [ADULT, replace(ADULT, notion="separation")]
    ended = []
    run_missing(cells, size, tmp_path, device="cpu", told=lambda *what: ended.append(what))
    assert [(key, problem) for key, _, problem in ended] == [(cell.key, "") for cell in cells]
    (tmp_path / f"{ADULT.key}.json").unlink()  # as if it had been killed before the end
    before = (tmp_path / f"{cells[1].key}.json").stat().st_mtime_ns
    ended.clear()
    run_missing(cells, size, tmp_path, device="cpu", told=lambda *what: ended.append(what))
    assert [key for key, _, _ in ended] == [ADULT.key]
    assert (tmp_path / f"{cells[1].key}.json").stat().st_mtime_ns == before
    with pytest.raises(InputError, match=r"holds results of a quick run, got a full one"):
        run_missing(cells, FULL, tmp_path, device="cpu")


def test_a_killed_run_goes_on_with_the_next_cell(tmp_path):
    first, second = ADULT, replace(ADULT, method="hgr")
    child = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("endless_run.py"), tmp_path, first.method]
    )
    kept = tmp_path / f"{first.key}.json"
    begun = time.monotonic()
    try:
        while not kept.is_file():
            assert child.poll() is None and time.monotonic() - begun < 120
            time.sleep(0.05)
    finally:
        # By now the child is in the middle of its next cell, which has very many iterations.
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=120)
    written = kept.read_bytes()
    assert read_results(tmp_path, [first, second]).keys() == {first}
    run_missing([first, second], replace(TINY, iterations=20), tmp_path, device="cpu")
    assert read_results(tmp_path, [first, second]).keys() == {first, second}
    assert kept.read_bytes() == written


def test_a_data_set_that_is_not_there_leaves_its_cells_out(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ended = []
    law = replace(ADULT, dataset="law")
    run_missing([law], TINY, tmp_path, device="cpu", told=lambda *what: ended.append(what))
    ((key, _, problem),) = ended
    assert key == law.key and "lawschool_admission.parquet" in problem
    assert read_results(tmp_path, [law]) == {}


def test_packed_results_keep_what_pages_need(adult, crime, tmp_path):
    pack(tmp_path, [adult, crime])
    found = read_results(tmp_path, [ADULT, CRIME])
    assert set(found) == {ADULT, CRIME}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records.json", "snapshots.parquet"]
    for kept, whole in ((found[ADULT], adult), (found[CRIME], crime)):
        assert kept.record == json.loads(json.dumps(whole.record))
        assert set(kept.snapshots) == set(whole.snapshots)
        assert len(kept.snapshots) <= len(whole.snapshots)


def test_the_plan_is_the_papers():
    everything = cells_of("all")
    assert len(set(everything)) == len(everything)
    methods = ("sbp", "con", "hgr", "kde", "neu")
    main = [c for c in everything if c.method in methods and c.settings == "paper"]
    main = [c for c in main if c.protocol == "paper" and c.place == "score"]
    counted = {s: sum(c.scenario == s for c in main) for s in ("I", "II", "III")}
    # Scenario I: three data sets of four and five methods; II: of three and four; III: two, three.
    assert counted == {"I": 3 * 9, "II": 3 * 7, "III": 5}
    assert strengths_of(ADULT, FULL) == (0.1, 0.3, 0.5, 0.7, 0.9)
    assert ADULT.thresholds == (0.8, 0.85)
    assert not is_offered("kde", replace(ADULT, scenario="II"))
    with pytest.raises(InputError, match=r"got 'tabel2'; did you mean 'table2'\?"):
        cells_of("tabel2")


def test_settings_are_whose_they_say(adult):
    published = estimator_of(ADULT, FULL, "cpu").get_params()
    assert published == FairClassifier.as_in_paper(device="cpu", random_state=0).get_params()
    honest = estimator_of(replace(ADULT, settings="equipoise", protocol="honest"), FULL, "cpu")
    assert honest.get_params() == FairClassifier(device="cpu", random_state=0).get_params()
    many = estimator_of(replace(ADULT, settings="equipoise"), FULL, "cpu")
    assert (many.iterations, many.schedule) == (20_000, "constant")
    assert estimator_of(CRIME, FULL, "cpu").iterations == 5_000
    assert QUICK.rows is not None


def test_every_cell_sets_only_options_that_its_method_reads():
    for cell in cells_of("all"):
        changed = Fitting(estimator_of(cell, QUICK, "cpu")).recipe.changed
        refuse_unused_options(parse_method(cell.method), Notion.parse(cell.notion), changed)
