"""Trees and networks on one frontier: each what it is by itself, and the best of either chosen."""

import re
import sys
import warnings
from itertools import pairwise

import lightgbm
import numpy as np
import pandas as pd
import pytest
from family_frontiers import BOOSTING, TREES, fitted, kept_numbers
from scipy.special import expit
from sklearn.metrics import r2_score, roc_auc_score
from small_frontiers import SMALL, rows, three_classes, weights

from equipoise import (
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairRegressor,
)
from equipoise.errors import ConvergenceWarning, InputError
from equipoise.frontier.selection import steps
from tests.composing import composed

MEASURES = tuple(f"{metric} {by}" for metric in ("gap", "KS-GSP", "SP") for by in ("age", "group"))


def on_some_front(table, measures):
    """Which rows nothing dominates on a front by one measure, or by a metric of all attributes."""
    by_metric = {}
    for name in measures:
        by_metric.setdefault(name.split()[0], []).append(name)
    found = np.zeros(len(table), dtype=bool)
    for columns in [*([name] for name in measures), *by_metric.values()]:
        costs = table[columns].assign(utility=-table["utility"]).to_numpy()
        defined = ~np.isnan(costs).any(axis=1)
        found |= [
            bool(defined[n])
            and not any((rival <= row).all() and (rival < row).any() for rival in costs[defined])
            for n, row in enumerate(costs)
        ]
    return found


def without_who(table):
    """A table without what joining two families changes."""
    return table.drop(columns=["member", "predictor", "on_front"], errors="ignore").reset_index(
        drop=True
    )


def test_rounds_are_the_iterations_of_trees():
    table, networks = fitted("boosting").table(), fitted("network").table()
    assert table["iteration"].tolist() == [4] * 6 + [8] * 6 + [12] * 6
    assert table["member"].tolist() == [*range(6)] * 3
    assert table["averaged"].tolist() == [1, 1, 1, 1, 2, 2] * 3
    assert table.columns.tolist() == networks.columns.tolist()
    assert table.dtypes.tolist() == networks.dtypes.tolist()
    assert fitted("boosting").history_.iterations.tolist() == [4, 8, 12]
    assert table["on_front"].tolist() == on_some_front(table, MEASURES).tolist()


def alone(frontier, number):
    """The model of a snapshot, fitted by itself for as many rounds."""
    data, train, curve = rows(), frontier.split_.train, frontier.fitted_curve()
    entry = curve.owner(number)[1]
    model = FairBoostingClassifier(
        strength=entry.strength,
        random_state=entry.seeds[0],
        **{**BOOSTING, "rounds": int(curve.snapshots.iteration[number])},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X.iloc[train], data.y.iloc[train], sensitive_features=data.A.iloc[train])
    return model


def test_a_snapshot_of_trees_is_the_model_of_its_first_rounds():
    data = rows()
    frontier = composed(**{**TREES, "strengths": (0.9,), "seeds": 1})
    frontier.fit(data.X, data.y, sensitive_features=data.A)
    numbers = kept_numbers(frontier, "boosting")
    assert len(numbers) >= 2
    for number in numbers:
        model, expected = frontier.fitted_curve().model(number), alone(frontier, number)
        assert np.array_equal(model.predict_proba(data.X), expected.predict_proba(data.X))
        assert model.get_params() == {**expected.get_params(), "rounds": 12}
    # Critics trained together round otherwise than one alone, as networks do.
    frontier = fitted("boosting")
    members = [
        number
        for number in kept_numbers(frontier, "boosting")
        if not frontier.fitted_curve().owner(number)[1].is_average
    ]
    assert {frontier.fitted_curve().owner(number)[1].strength for number in members} == {0.0, 0.9}
    for number in members:
        model, expected = frontier.fitted_curve().model(number), alone(frontier, number)
        scores = model.decision_function(data.X)
        assert scores == pytest.approx(expected.decision_function(data.X), abs=1e-6)


def test_without_a_penalty_a_snapshot_is_plain_lightgbm():
    data, frontier = rows(), fitted("boosting")
    train, curve = frontier.split_.train, frontier.fitted_curve()
    found = [n for n in kept_numbers(frontier, "boosting") if curve.owner(n)[1].seed == 7]
    found = [n for n in found if curve.owner(n)[1].strength == 0]
    assert found
    for number in found:
        plain = lightgbm.LGBMClassifier(
            n_estimators=int(curve.snapshots.iteration[number]),
            learning_rate=0.05,
            random_state=7,
            n_jobs=1,
            verbose=-1,
            num_leaves=5,
            min_child_samples=10,
        ).fit(data.X.iloc[train], data.y.iloc[train])
        assert np.array_equal(
            plain.predict(data.X, raw_score=True), curve.model(number).decision_function(data.X)
        )


def test_both_families_are_what_they_are_alone():
    both = fitted("both")
    network, trees = fitted("network").table(), fitted("boosting").table()
    table = both.table()
    pd.testing.assert_frame_equal(
        without_who(table),
        without_who(pd.concat([network, trees])),
        check_exact=True,
    )
    assert table.index.tolist() == list(range(len(network) + len(trees)))
    assert table["member"].tolist() == [*network["member"], *(trees["member"] + 6)]
    assert table["predictor"].tolist() == ["network"] * len(network) + ["boosting"] * len(trees)
    assert list(both.history_) == ["network", "boosting"]
    for family, history in both.history_.items():
        for name, values in vars(fitted(family).history_).items():
            np.testing.assert_array_equal(vars(history)[name], values, strict=True)


def test_members_say_whose_they_are():
    members = fitted("both").members()
    assert members["predictor"].tolist() == ["network"] * 6 + ["boosting"] * 6
    for family in ("network", "boosting"):
        alone = fitted(family).members()
        mine = members[members["predictor"] == family].reset_index(drop=True)
        for name in ("strength", "seed", "averaged", "health"):
            assert mine[name].tolist() == alone[name].tolist()
    table = fitted("both").table()
    counts = table[table["on_front"]].groupby("member").size().reindex(range(12), fill_value=0)
    assert members["snapshots_on_front"].tolist() == counts.tolist()


def test_the_front_of_both_is_the_front_of_all_snapshots():
    both = fitted("both")
    table = both.table()
    assert table["on_front"].tolist() == on_some_front(table, MEASURES).tolist()
    assert set(table["predictor"][table["on_front"]]) == {"network", "boosting"}
    for attribute in ("age", "group"):
        column = f"KS-GSP {attribute}"
        volumes = [
            fitted(name).hypervolume("KS-GSP", attribute, most_unfairness=1.0)
            for name in ("both", "network", "boosting")
        ]
        assert volumes[0] >= max(volumes[1:]) > 0
        # As an area: each point of the front adds a rectangle to the one before.
        front = both.front("KS-GSP", attribute)
        edges = [*front[column], 1.0]
        area = sum(
            (right - left) * (utility - 0.5)
            for (left, right), utility in zip(pairwise(edges), front["utility"], strict=True)
        )
        assert volumes[0] == pytest.approx(area / 0.5, abs=1e-12)


def test_the_best_of_either_family_is_chosen():
    data, both = rows(), fitted("both")
    table = both.table()
    families = set()
    for step in steps(both.fitted_curve().snapshots, "KS-GSP"):
        chosen = both.select(max_unfairness=step.unfairness, metric="KS-GSP", draws=2)
        within = table[(table[["KS-GSP age", "KS-GSP group"]] <= step.unfairness).all(axis=1)]
        assert chosen.rows[0].validation == within["utility"].max()
        row = table.loc[chosen.snapshot]
        assert (chosen.predictor, chosen.iteration) == (row["predictor"], row["iteration"])
        boosted = chosen.predictor == "boosting"
        assert type(chosen.model) is (FairBoostingClassifier if boosted else FairClassifier)
        who = f"seed {chosen.seed}" if chosen.averaged == 1 else "average of 2 seeds"
        said = f"strength {chosen.strength:g}, {who}, "
        said += f"round {chosen.iteration}" if boosted else f"iteration {chosen.iteration}"
        assert chosen.origin == ("boosted trees, " if boosted else "") + said
        assert f"\nSnapshot {chosen.snapshot} ({chosen.origin})"[:90] in str(chosen)
        scores = chosen.model.predict_proba(data.X.iloc[both.split_.test])[:, 1]
        auc = roc_auc_score(data.y.iloc[both.split_.test], scores)
        # Trees give many rows one score; a last digit that differs may tell two of them apart.
        assert chosen.rows[0].test == pytest.approx(auc, abs=1e-3 if boosted else 1e-12)
        families.add(chosen.predictor)
    assert families == {"network", "boosting"}


def test_a_wish_nobody_grants_names_the_nearest_of_either():
    table = fitted("both").table()
    worst = table[["KS-GSP age", "KS-GSP group"]].max(axis=1)
    nearest = int(worst.idxmin())
    assert table.loc[nearest, "predictor"] == "boosting"
    found = re.escape(
        f"snapshot {nearest} (boosted trees, strength {table['strength'][nearest]:g}, "
    )
    with pytest.raises(InputError, match=rf"; the nearest is {found}.*, round \d+\) with AUC "):
        fitted("both").select(max_unfairness=0.0, metric="KS-GSP")


def test_an_average_of_trees_is_the_mean_of_probabilities():
    data, frontier = rows(), fitted("boosting")
    curve = frontier.fitted_curve()
    averages = [n for n in kept_numbers(frontier, "boosting") if curve.owner(n)[1].is_average]
    penalized = [n for n in averages if curve.owner(n)[1].strength > 0]
    assert penalized
    for number in penalized:
        model = curve.model(number)
        assert type(model) is FairBoostingClassifier and model.averaged_seeds_ == (7, 8)
        trees = model.predictor_.network
        x = model.encoder_.transform(data.X)
        raw = [
            start.numpy()
            + trees.forest.models[member].outputs(x, 0, int(curve.snapshots.iteration[number]))[
                :, 0
            ]
            for start, member in zip(trees.start, (1, 3), strict=True)
        ]
        assert np.abs(raw[0] - raw[1]).max() > 0.01
        expected = np.mean([expit(each) for each in raw], axis=0)
        assert model.predict_proba(data.X)[:, 1] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["three classes", "numbers, weights"])
def test_numbers_of_a_snapshot_are_those_of_its_model(name):
    frontier = fitted(name)
    numbers = name == "numbers, weights"
    data = rows("regression" if numbers else "classification")
    y = np.asarray(data.y if numbers else three_classes(data))
    validation, table = frontier.split_.validation, frontier.table()
    kinds = (
        {"network": FairRegressor, "boosting": FairBoostingRegressor}
        if numbers
        else {"network": FairClassifier, "boosting": FairBoostingClassifier}
    )
    for family, kind in kinds.items():
        for number in kept_numbers(frontier, family):
            model = frontier.fitted_curve().model(number)
            assert type(model) is kind
            if numbers:
                weight = weights(len(y))[validation]
                assert (weight > 0).all()
                found = r2_score(
                    y[validation], model.predict(data.X.iloc[validation]), sample_weight=weight
                )
            else:
                found = roc_auc_score(
                    y[validation],
                    model.predict_proba(data.X.iloc[validation]),
                    multi_class="ovr",
                )
            assert table.loc[number, "utility"] == pytest.approx(found, abs=1e-12)


def test_sample_weights_reach_the_trees_as_they_are():
    data, frontier = rows("regression"), fitted("numbers, weights")
    train, curve = frontier.split_.train, frontier.fitted_curve()
    y = data.y.to_numpy()
    given = weights(len(y))[train]
    assert (given > 0).all() and len(set(given)) == 3
    center = np.average(y[train], weights=given)
    spread = np.sqrt(np.average((y[train] - center) ** 2, weights=given))
    plain = [n for n in kept_numbers(frontier, "boosting") if curve.owner(n)[1].strength == 0]
    assert plain
    for number in plain:
        expected = lightgbm.LGBMRegressor(
            objective="huber",
            alpha=float(spread),
            n_estimators=int(curve.snapshots.iteration[number]),
            learning_rate=0.05,
            n_jobs=1,
            verbose=-1,
            num_leaves=5,
            min_child_samples=10,
        ).fit(data.X.iloc[train], y[train], sample_weight=given)
        found = curve.model(number).predict(data.X)
        np.testing.assert_allclose(found, expected.predict(data.X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"evaluate_every_rounds": 0}, "evaluate_every must be a whole number of at least 1"),
        ({"boosting": {"lightgbm": {"num_leave": 3}}}, "did you mean 'num_leaves'"),
        ({"method": "scutari"}, "method must be one whose penalty sits on the score"),
    ],
)
def test_wrong_options_of_trees_are_told_before_networks_train(options, message):
    data, told = rows(), []
    frontier = composed("both", random_state=0, device="cpu", **options)
    with pytest.raises(InputError, match=message):
        frontier.fit(data.X, data.y, sensitive_features=data.A, callback=told.append)
    assert told == []


@pytest.mark.parametrize("predictor", ["boosting", "both"])
def test_missing_lightgbm_is_told_before_networks_train(predictor, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    data, told = rows(), []
    options = {**SMALL} if predictor == "both" else {}
    message = 'FairBoostingClassifier needs lightgbm.* pip install "equipoise.boosting.'
    with pytest.raises(InputError, match=message):
        composed(predictor=predictor, **options).fit(
            data.X, data.y, sensitive_features=data.A, callback=told.append
        )
    assert told == []
