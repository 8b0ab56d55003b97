"""Averages over seeds: judged beside their members, chosen, kept and exported like any model."""

from dataclasses import replace

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from small_frontiers import SMALL, fitted, own_network, rows, three_classes

from equipoise import FairClassifier, FairRegressor, load
from equipoise.errors import InputError
from equipoise.frontier.snapshots import members_of
from equipoise.metrics import measure
from equipoise.tables import SensitiveTable
from equipoise.training import TASKS
from equipoise.training.predictor import averaged_output
from tests.composing import composed


def members_alone(frontier, strength, y, kind=FairClassifier):
    """The members of one strength, trained by themselves on the same rows."""
    data, train = rows("regression" if kind is FairRegressor else "classification"), frontier.split_
    options = frontier.estimator.get_params()
    return [
        kind(**{**options, "strength": strength, "random_state": seed}).fit(
            data.X.iloc[train.train],
            np.asarray(y)[train.train],
            sensitive_features=data.A.iloc[train.train],
        )
        for seed in (7, 8)
    ]


def one_of_each(**options):
    """A frontier judged once, so that its snapshots are the members after training."""
    return composed(ensemble=True, **{**SMALL, "strengths": (0.0,), "evaluate_every": 40} | options)


def kept_average(frontier):
    """A model that averages: the last one on a front."""
    table = frontier.table()
    return frontier.fitted_curve().model(
        int(np.flatnonzero(table["on_front"] & (table["seed"] == -1))[-1])
    )


def test_an_average_scores_the_mean_of_its_members_probabilities():
    data = rows()
    frontier = one_of_each().fit(data.X, data.y, sensitive_features=data.A)
    model = kept_average(frontier)
    alone = members_alone(frontier, 0.0, data.y)
    expected = np.mean([each.predict_proba(data.X) for each in alone], axis=0)
    assert model.predict_proba(data.X) == pytest.approx(expected, abs=1e-6)
    assert np.abs(expected - alone[0].predict_proba(data.X)).max() > 0.01
    # Closer against its own members, which training together rounds otherwise.
    x = torch.from_numpy(model.encoder_.transform(data.X)).double()
    logits = model.predictor_.network(x.expand(2, *x.shape))[..., 0].numpy()
    assert model.predict_proba(data.X)[:, 1] == pytest.approx(expit(logits).mean(0), abs=1e-12)
    assert isinstance(model, FairClassifier) and model.averaged_seeds_ == (7, 8)


def test_an_average_of_several_classes_is_the_mean_of_probabilities():
    data = rows()
    frontier = one_of_each().fit(data.X, three_classes(data), sensitive_features=data.A)
    model = kept_average(frontier)
    x = torch.from_numpy(model.encoder_.transform(data.X)).double()
    shares = model.predictor_.network(x.expand(2, *x.shape)).softmax(-1).mean(0).numpy()
    assert model.predict_proba(data.X) == pytest.approx(shares, abs=1e-12)
    assert np.array_equal(model.predict(data.X), np.array(["a", "b", "c"])[shares.argmax(1)])


def test_an_average_of_regressors_is_the_mean_of_predictions():
    data = rows("regression")
    frontier = one_of_each(task="regression").fit(data.X, data.y, sensitive_features=data.A)
    model = kept_average(frontier)
    alone = members_alone(frontier, 0.0, data.y, FairRegressor)
    expected = np.mean([each.predict(data.X) for each in alone], axis=0)
    assert model.predict(data.X) == pytest.approx(expected, abs=1e-5)
    assert np.abs(expected - alone[0].predict(data.X)).max() > 0.01


def test_large_log_odds_keep_their_digits():
    output = torch.tensor([[[[800.0]], [[900.0]]], [[[-800.0]], [[-800.0]]]], dtype=torch.float64)
    found = averaged_output(output, TASKS["binary"]).flatten()
    # The chance of the other class is (exp(-800) + exp(-900)) / 2.
    assert found.tolist() == pytest.approx([800 + np.log(2), -800.0], abs=1e-9)


def test_the_table_has_averages_after_the_members():
    table, members = (
        fitted("two classes, ensemble").table(),
        fitted("two classes, ensemble").members(),
    )
    assert table["member"].tolist() == list(range(8)) * 8
    assert table["seed"].tolist() == [7, 7, 8, 8, 9, 9, -1, -1] * 8
    assert table["averaged"].tolist() == [1, 1, 1, 1, 1, 1, 3, 3] * 8
    assert table["strength"].tolist() == [0.0, 0.9] * 32
    assert members[["strength", "seed", "averaged"]].to_numpy().tolist() == (
        table.loc[:7, ["strength", "seed", "averaged"]].to_numpy().tolist()
    )
    assert members["snapshots_on_front"].sum() == table["on_front"].sum()


def test_members_are_judged_the_same_with_and_without_averages():
    data = rows()
    ensemble = fitted("two classes, ensemble")
    plain = clone(ensemble).set_params(ensemble=False)
    plain.fit(data.X, data.y, sensitive_features=data.A)
    assert "averaged" not in plain.table()
    both = ensemble.table().query("averaged == 1")
    columns = ["member", "iteration", "utility", "gap group", "KS-GSP age", "SP group"]
    pd.testing.assert_frame_equal(
        both[columns].reset_index(drop=True),
        plain.table()[columns].rename_axis(None),
        rtol=1e-9,  # six are scored otherwise than six and two averages
    )


def test_numbers_of_an_average_are_those_of_its_model():
    data, frontier = rows(), fitted("two classes, ensemble")
    table, validation = frontier.table(), frontier.split_.validation
    people = SensitiveTable.from_data(data.A).take(validation)
    y = data.y.iloc[validation].to_numpy()
    kept = np.flatnonzero(table["on_front"] & (table["averaged"] == 3)).tolist()
    assert kept
    for number in kept:
        scores = frontier.fitted_curve().model(number).predict_proba(data.X.iloc[validation])[:, 1]
        row = table.loc[number]
        assert row["utility"] == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
        for name in ("age", "group"):
            expected = float(measure("KS-GSP", scores, people[name], y))
            assert row[f"KS-GSP {name}"] == pytest.approx(expected, abs=1e-9)


def test_an_average_stops_with_its_first_member_and_no_sooner():
    (estimator,) = fitted("two classes, ensemble").fitted_curve().trained
    average = estimator.entries[6]
    assert average.members == (0, 2, 4)
    stops = np.array([0, 5, 50, 0, 30, 0])
    stopped = replace(estimator, history=replace(estimator.history, stopped_at=stops))
    for iteration, expected in ((20, 0), (30, 30), (40, 30), (80, 30)):
        assert stopped.history_until(average, iteration).stopped_at.tolist() == [expected]
    assert stopped.history_until(estimator.entries[2], 40).stopped_at.tolist() == [0]
    assert stopped.history_until(estimator.entries[2], 50).stopped_at.tolist() == [50]


def test_an_average_tells_which_of_its_members_are_unwell():
    curve = fitted("two classes, ensemble").fitted_curve()
    (estimator,) = curve.trained
    healths = [replace(health, messages=(), utility=None) for health in estimator.member_health]
    healths[2] = replace(healths[2], messages=("It is dull.", "It is slow."))
    unwell = replace(estimator, member_health=tuple(healths))
    said = members_of(replace(curve, trained=(unwell,)))["health"].tolist()
    expected = ["healthy on training rows; overfitting not checked: there were no other rows"] * 8
    expected[2] = "It is dull.\nIt is slow."
    expected[6] = "seed 8: It is dull.\nseed 8: It is slow."
    assert said == expected


def test_a_selected_average_says_what_it_is():
    data = rows()
    frontier = one_of_each().fit(data.X, data.y, sensitive_features=data.A)
    average = frontier.table().loc[2]
    # Nothing as good is within its own values, since it is on the front of both attributes.
    limits = {name: float(average[f"KS-GSP {name}"]) for name in ("age", "group")}
    chosen = frontier.select(max_unfairness=limits, metric="KS-GSP", draws=2)
    assert (chosen.snapshot, chosen.seed, chosen.averaged, chosen.strength) == (2, -1, 2, 0.0)
    assert "\nSnapshot 2 (strength 0, average of 2 seeds, iteration 40) has " in str(chosen)
    test = frontier.split_.test
    scores = chosen.model.predict_proba(data.X.iloc[test])[:, 1]
    assert chosen.rows[0].test == pytest.approx(roc_auc_score(data.y.iloc[test], scores), abs=1e-12)
    history = frontier.history_
    assert chosen.model.history_.task[:, 0] == pytest.approx(history.task.mean(axis=1), abs=1e-12)
    # A clone is what its options say: one model of the first seed.
    assert clone(chosen.model).get_params()["random_state"] == 7


@pytest.mark.parametrize("kind", ["two classes, ensemble", "three classes, ensemble"])
def test_an_average_is_kept_and_exported_like_any_model(kind, tmp_path):
    data, frontier = rows(), fitted(kind)
    model = kept_average(frontier)
    model.save(tmp_path / "average.equipoise")
    again = load(tmp_path / "average.equipoise")
    assert np.array_equal(again.predict_proba(data.X), model.predict_proba(data.X))
    assert (
        again.averaged_seeds_ == tuple(range(7, 7 + frontier.seeds))
        and again.health_ == model.health_
    )
    again.save(tmp_path / "average.equipoise")
    assert np.array_equal(
        load(tmp_path / "average.equipoise").predict(data.X), model.predict(data.X)
    )
    model.to_onnx(tmp_path / "average.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "average.onnx")
    assert session.get_modelmeta().description == (
        "FairClassifier fitted by equipoise, average of several networks"
    )
    feed = {each.name: data.X[each.name].to_numpy(dtype=float) for each in session.get_inputs()}
    label, shares, score = session.run(["label", "probabilities", "score"], feed)
    assert shares == pytest.approx(model.predict_proba(data.X), abs=1e-9)
    assert score == pytest.approx(model.decision_function(data.X), abs=1e-9)
    assert np.array_equal(label, model.predict(data.X))


def test_an_average_of_regressors_is_exported(tmp_path):
    data = rows("regression")
    frontier = one_of_each(task="regression", iterations=20, evaluate_every=20)
    model = kept_average(frontier.fit(data.X, data.y, sensitive_features=data.A))
    model.to_onnx(tmp_path / "average.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "average.onnx")
    feed = {each.name: data.X[each.name].to_numpy(dtype=float) for each in session.get_inputs()}
    (prediction,) = session.run(["prediction"], feed)
    assert prediction == pytest.approx(model.predict(data.X), abs=1e-9)


def test_an_average_of_networks_of_ones_own(tmp_path):
    data, frontier = rows(), fitted("own network")
    model = kept_average(frontier)
    model.save(tmp_path / "own.equipoise")
    again = load(tmp_path / "own.equipoise", network=own_network)
    assert np.array_equal(again.predict_proba(data.X), model.predict_proba(data.X))


def test_averages_need_seeds():
    data = rows()
    with pytest.raises(InputError, match=r"^seeds must be at least 2 .*, got 1; raise seeds"):
        composed(ensemble=True, **{**SMALL, "seeds": 1}).fit(
            data.X, data.y, sensitive_features=data.A
        )
