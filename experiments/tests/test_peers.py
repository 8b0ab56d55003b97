"""Peers of fair boosting: rows and judging as the cells have them, files that lose nothing."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from lightgbm import LGBMClassifier, LGBMRegressor
from made_up_results import made_up
from sklearn.dummy import DummyClassifier
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score, roc_curve

from equipoise import load_dataset
from equipoise.errors import InputError
from equipoise.tables import SensitiveTable
from experiments.boosting import evidence
from experiments.boosting.evidence import Ahead, ahead
from experiments.paper import results
from experiments.paper.plan import Cell
from experiments.paper.training import FULL, split_rows
from experiments.peers import exponentiated_gradient, fairgbm_peer, plain
from experiments.peers import run as peers_run
from experiments.peers.peer import groups, groups_in_setting, peer_rows
from experiments.peers.run import Task, finished, judged, pack, read_peers, write_piece

TINY = replace(FULL, name="quick", rows=1_000, splits=2)
ADULT = Cell(
    scenario="II", dataset="adult", notion="independence", method="plain", protocol="honest"
)
CRIME = Cell(scenario="III", dataset="crime", notion="separation", method="plain")


@pytest.fixture(scope="module")
def adult():
    return peer_rows(ADULT, 1, TINY)


@pytest.fixture(scope="module")
def crime():
    return peer_rows(CRIME, 1, FULL)


# Rows


def test_rows_are_those_of_the_split_as_the_loader_gives_them(crime):
    data = load_dataset("crime", preprocessing="paper")
    split = split_rows(len(data.y), "paper", 1)
    assert np.array_equal(crime.x, data.X.to_numpy(np.float32)[split.train])
    assert np.array_equal(crime.y, data.y.to_numpy(np.float32)[split.train])
    attribute = data.A["racepctblack"].to_numpy()
    assert np.array_equal(crime.sensitive["racepctblack"].values, attribute[split.train])
    (x,) = crime.held_out
    assert np.array_equal(x, data.X.to_numpy(np.float32)[split.validation])
    (part,) = crime.parts
    assert np.array_equal(part.held_out[0].y, data.y.to_numpy()[split.validation])


def test_the_honest_protocol_has_test_rows(adult):
    assert [len(x) for x in adult.held_out] == [200, 200]
    assert len(adult.x) == len(adult.y) == 600
    assert adult.sensitive.names == ("race", "age")
    assert set(adult.y) == {0, 1} and adult.y.dtype.kind == "i"


def test_groups_cross_categories_with_quartiles(adult):
    race, age = adult.sensitive["race"], adult.sensitive["age"]
    quarters = pd.qcut(age.values, 4, labels=False)
    expected = race.codes * 4 + quarters
    assert np.array_equal(groups(adult.sensitive), expected)
    assert groups_in_setting(adult.sensitive) == ", groups=race x age quartiles"


def test_groups_are_numbered_without_gaps():
    columns = {"a": np.array([0, 1, 1, 0]), "b": np.array([1, 0, 0, 1])}
    table = SensitiveTable.from_data(columns, types={"a": "discrete", "b": "discrete"})
    assert groups(table).tolist() == [0, 1, 1, 0]
    alone = SensitiveTable.from_data({"a": columns["a"]}, types={"a": "discrete"})
    assert groups(alone).tolist() == [0, 1, 1, 0]
    assert groups_in_setting(alone) == ""


# Peers and judging


def test_plain_is_lightgbm_with_its_defaults_and_judged_like_a_cell(adult):
    table = judged(ADULT, 1, adult, plain.scored(ADULT, adult))
    assert table["iteration"].tolist() == list(range(10, 201, 10))
    about = ["scenario", "dataset", "notion", "protocol", "peer", "setting", "split"]
    assert table[about].drop_duplicates().to_numpy().tolist() == [
        ["II", "adult", "independence", "honest", "plain", "objective=binary", 1]
    ]
    on_validation = ["utility", "SP race", "SP age", "KS-GSP race", "KS-GSP age"]
    expected = [*about, "iteration", *on_validation, *(f"test {name}" for name in on_validation)]
    assert table.columns.tolist() == expected
    model = LGBMClassifier(n_estimators=50, num_threads=1, verbose=-1).fit(adult.x, adult.y)
    validation, test = (part.held_out[0] for part in adult.parts)
    score, on_test = (model.booster_.predict(x) for x in adult.held_out)
    row = table[table["iteration"] == 50].iloc[0]
    assert row["utility"] == pytest.approx(roc_auc_score(validation.y, score), abs=1e-12)
    assert row["test utility"] == pytest.approx(roc_auc_score(test.y, on_test), abs=1e-12)
    # Test decisions are cut where the validation rows have Youden's J largest.
    false, true, thresholds = roc_curve(validation.y, score)
    decisions = on_test >= thresholds[np.argmax(true - false)]
    race = test.table["race"].codes
    ratio = decisions[race == 1].mean() / decisions[race == 0].mean()
    assert row["test SP race"] == pytest.approx(abs(ratio - 1), abs=1e-12)


def test_a_regression_is_trained_for_both_errors(monkeypatch, crime):
    monkeypatch.setattr(plain, "ROUNDS", 20)
    table = judged(CRIME, 1, crime, plain.scored(CRIME, crime))
    assert table["setting"].unique().tolist() == ["objective=regression_l1", "objective=regression"]
    (x,), y = crime.held_out, crime.parts[0].held_out[0].y
    for objective in ("regression_l1", "regression"):
        model = LGBMRegressor(n_estimators=20, objective=objective, num_threads=1, verbose=-1)
        score = model.fit(crime.x, crime.y).booster_.predict(x)
        mine = table[(table["setting"] == f"objective={objective}") & (table["iteration"] == 20)]
        assert mine["utility"].item() == pytest.approx(mean_absolute_error(y, score), abs=1e-9)
        assert mine["R2"].item() == pytest.approx(r2_score(y, score), abs=1e-9)


@pytest.mark.parametrize("notion", ["independence", "separation"])
def test_a_mixture_is_read_in_two_ways(monkeypatch, adult, notion):
    monkeypatch.setattr(exponentiated_gradient, "TREES", 10)
    mixture = exponentiated_gradient.fitted(replace(ADULT, notion=notion), adult, 0.03)
    moments = {"independence": "DemographicParity", "separation": "EqualizedOdds"}
    assert type(mixture.constraints).__name__ == moments[notion]
    x = adult.held_out[0]
    found = exponentiated_gradient.readings(mixture, x)
    assert found["decisions"] == pytest.approx(mixture._pmf_predict(x)[:, 1], abs=1e-12)
    used = mixture.weights_[mixture.weights_ > 0]
    scores = [mixture.predictors_[number].booster_.predict(x) for number in used.index]
    assert found["probabilities"] == pytest.approx(used.to_numpy() @ np.stack(scores), abs=1e-12)


def test_a_member_may_know_one_class_only():
    x = np.zeros((3, 1), np.float32)
    always = [DummyClassifier(strategy="constant", constant=c).fit(x, [c] * 3) for c in (0, 1)]
    mixture = SimpleNamespace(weights_=pd.Series([0.75, 0.25]), predictors_=pd.Series(always))
    found = exponentiated_gradient.readings(mixture, x)
    assert found["probabilities"].tolist() == found["decisions"].tolist() == [0.25] * 3


def test_which_peers_are_asked_what():
    counts = {name: len(peers_run.tasks_of(name)) for name in peers_run.PEERS}
    # Six data sets by scenario, two notions, two protocols, five splits; five with classes; of
    # these FairGBM has one notion.
    assert counts == {"plain": 120, "exponentiated_gradient": 100, "fairgbm": 50}
    cells = {task.cell for name in counts for task in peers_run.tasks_of(name)}
    assert {(cell.scenario, cell.dataset) for cell in cells} == {
        *(("I", name) for name in ("adult", "credit", "law")),
        *(("II", name) for name in ("adult", "credit")),
        ("III", "crime"),
    }
    assert {cell.notion for cell in cells if cell.method == "fairgbm"} == {"separation"}


def test_fairgbm_is_left_out_where_it_has_no_interpreter(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv(fairgbm_peer.INTERPRETER, raising=False)
    peers_run.run(["fairgbm"], tmp_path, workers=1)
    assert capsys.readouterr().out == (
        "fairgbm is left out: EQUIPOISE_FAIRGBM_PYTHON must name the interpreter of an environment "
        "with fairgbm, it is not set\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_interpreter_without_fairgbm_is_not_passed_over(monkeypatch, adult):
    monkeypatch.setenv(fairgbm_peer.INTERPRETER, sys.executable)
    with pytest.raises(RuntimeError, match=r"^FairGBM's interpreter failed:(\n.*)*ModuleNot"):
        list(fairgbm_peer.scored(ADULT, adult))


# Files


def made_up_table(cell: Cell, split: int, shift: float = 0.0) -> pd.DataFrame:
    """Two settings of two rounds each, as `judged` gives them."""
    names = ["scenario", "dataset", "notion", "protocol"]
    table = pd.DataFrame({name: [getattr(cell, name)] * 4 for name in names})
    table["peer"], table["setting"] = cell.method, ["a", "a", "b", "b"]
    table["split"], table["iteration"] = np.int8(split), np.int32([10, 20, 10, 20])
    for number, name in enumerate(["utility", *(f"{m} {a}" for m, a in cell.measures)]):
        for prefix in ("", "test ") if cell.protocol == "honest" else ("",):
            table[prefix + name] = np.arange(4) / 10 + number / 100 + shift
    return table


def test_what_tasks_gave_is_found_again_packed_or_not(tmp_path):
    first, other = Task(ADULT, 0), Task(replace(ADULT, notion="separation", protocol="paper"), 3)
    record = {"peer": "plain", "settings": {"rounds": (1, 2)}, "seconds": 1.5}
    for task in (first, other):
        write_piece(tmp_path, task, made_up_table(task.cell, task.split), record)
    assert finished(tmp_path) == {"II-adult-independence-plain-honest-0", other.name}
    loose = read_peers(tmp_path)
    pack(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["peers.json", "peers.parquet"]
    assert finished(tmp_path) == {first.name, other.name}
    pd.testing.assert_frame_equal(read_peers(tmp_path), loose, check_exact=True)
    mine = loose[loose["notion"] == "independence"].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        mine[made_up_table(ADULT, 0).columns], made_up_table(ADULT, 0), check_exact=True
    )
    assert mine.attrs == {}


def test_packing_again_adds_and_replaces(tmp_path):
    first, second = Task(ADULT, 0), Task(ADULT, 1)
    record = {"peer": "plain", "device": "here"}
    for task in (first, second):
        write_piece(tmp_path, task, made_up_table(ADULT, task.split), record | {"seconds": 1.0})
    pack(tmp_path)
    moved = record | {"device": "there", "seconds": 2.0}
    write_piece(tmp_path, second, made_up_table(ADULT, 1, shift=0.5), moved)
    pack(tmp_path)
    table = read_peers(tmp_path)
    assert len(table) == 8
    for split, shift in ((0, 0.0), (1, 0.5)):
        expected = made_up_table(ADULT, split, shift)["utility"]
        assert table.loc[table["split"] == split, "utility"].tolist() == expected.tolist()
    records = pd.read_json(tmp_path / "peers.json", typ="series")
    assert records["runs"] == [record, {"peer": "plain", "device": "there"}]
    assert records["tasks"] == {
        first.name: {"run": 0, "seconds": 1.0},
        second.name: {"run": 1, "seconds": 2.0},
    }


# Comparison

MEASURE = "KS-GSP race"


def test_ahead_by_hand():
    frontier = np.array([[0.9, 0.10], [0.8, 0.02]])
    assert ahead(frontier, np.array([[0.9, 0.10], [0.7, 0.02]])) == Ahead(2, 2, 0.0)
    # Nothing as useful as 0.95: 0.05 of utility lacks, or at 0.8 and 0.01 less unfairness.
    found = ahead(frontier, np.array([[0.95, 0.3], [0.8, 0.01], [0.5, 0.5]]))
    assert (found.points, found.ahead, found.everywhere) == (3, 1, False)
    assert found.shortfall == pytest.approx(0.05, abs=1e-12)
    # Kept values have five digits.
    assert ahead(frontier, np.array([[0.900004, 0.099996]])).everywhere
    assert ahead(frontier, np.empty((0, 2))) == Ahead(0, 0, 0.0)
    assert ahead(np.empty((0, 2)), frontier) == Ahead(2, 0, np.inf)


POINTS = arrays(np.float64, (4, 2), elements=st.integers(0, 1000).map(lambda k: k / 1000))


@given(POINTS, POINTS)
def test_the_shortfall_is_the_least_move_that_puts_ahead(frontier, peer):
    found = ahead(frontier, peer)
    by_definition = [any(u >= v and f <= g for u, f in frontier) for v, g in peer]
    assert found.ahead == sum(by_definition)
    assert found.everywhere == (found.shortfall == 0)
    better = np.array([1, -1])
    assert ahead(frontier + found.shortfall * better, peer).everywhere
    if found.shortfall > 0:
        assert not ahead(frontier + (found.shortfall - 1e-4) * better, peer).everywhere


def peers_by_hand() -> pd.DataFrame:
    """On validation rows the third point of split 0 is dominated; test rows would like it best."""
    table = pd.DataFrame(
        {
            "setting": ["eps=0.1", "eps=0.01", "eps=0.1", "eps=0.1"],
            "split": [0, 0, 0, 1],
            "iteration": 0,
            "utility": [0.9, 0.7, 0.6, 0.8],
            MEASURE: [0.2, 0.1, 0.15, 0.1],
            "test utility": [0.8, 0.7, 1.0, 0.5],
            f"test {MEASURE}": [0.2, 0.1, 0.0, 0.1],
        }
    )
    about = {"scenario": "II", "dataset": "adult", "notion": "independence"}
    return table.assign(**about, protocol="honest", peer="plain")


def test_a_peer_has_hypervolumes_like_any_cell():
    others = peers_by_hand().assign(peer="fairgbm", utility=0.99)
    table = pd.concat([peers_by_hand(), others], ignore_index=True)
    result = evidence.peer_result(table.assign(R2=np.nan), ADULT)
    assert "R2" not in result.snapshots
    # AUC above 0.5, unfairness below 0.3: 0.3 x 0.1 and, for the second, 0.2 x 0.1 more.
    expected = [(0.3 * 0.1 + 0.2 * 0.1) / (0.5 * 0.3), 0.0]
    assert results.test_hypervolumes(result, MEASURE) == pytest.approx(expected, abs=1e-12)
    # Under the paper's protocol the rows that pick report: 0.4 x 0.1 + 0.2 x 0.1; 0.3 x 0.2.
    paper = evidence.peer_result(table.assign(protocol="paper"), replace(ADULT, protocol="paper"))
    expected = [0.06 / 0.15, 0.06 / 0.15]
    assert results.test_hypervolumes(paper, MEASURE) == pytest.approx(expected, abs=1e-12)
    # A run is a setting with a split: the third point is dominated by another run's only.
    assert results.paper_entry(paper, MEASURE, 0.5).count == 4


def test_a_peer_without_rows_is_named():
    with pytest.raises(InputError) as error:
        evidence.peer_result(peers_by_hand(), replace(ADULT, method="fairgbm"))
    assert str(error.value) == (
        "the table must have rows of fairgbm for adult in Scenario II (independence, honest "
        "protocol), got none; train it first"
    )


def test_a_frontier_is_compared_on_the_same_rows_split_by_split():
    peer = evidence.peer_result(peers_by_hand(), ADULT)
    assert [len(points) for points in results.reported_fronts(peer, MEASURE)] == [2, 1]
    better = peer.snapshots.assign(**{f"test {MEASURE}": [0.2, 0.1, 0.0, 0.13]})
    frontier = replace(peer, snapshots=better)
    assert evidence.ahead_in_splits(peer, peer, MEASURE) == Ahead(3, 3, 0.0)
    found = evidence.ahead_in_splits(frontier, peer, MEASURE)
    assert (found.points, found.ahead) == (3, 2)
    assert found.shortfall == pytest.approx(0.03, abs=1e-12)
    # Together with a family that has what lacks, the frontier is ahead.
    both = evidence.joint([frontier, peer])
    assert len(both.snapshots) == 8 and both.cell == frontier.cell
    assert evidence.ahead_in_splits(both, peer, MEASURE).everywhere


def test_other_splits_are_not_compared():
    peer = evidence.peer_result(peers_by_hand(), ADULT)
    with pytest.raises(InputError) as error:
        evidence.ahead_in_splits(made_up(ADULT, splits=3), peer, MEASURE)
    assert str(error.value) == (
        "frontier and peer must have the same splits, got [0, 1, 2] and [0, 1]; finish both"
    )
