"""A frontier: one run, judged on validation rows, its fronts kept."""

import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score, roc_auc_score

from equipoise import FairClassifier, FairRegressor
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.frontier import FairFrontier
from equipoise.metrics import measure, youden_threshold
from equipoise.tables import SensitiveTable
from tests.composing import composed
from tests.error_parts import says

#: One network on all rows it may see, as a frontier trains its members.
NETWORK = {"hidden": (16,), "critic_hidden": (8,), "batch_size": 100}
NETWORK |= {"members": 1, "early_stopping": None}
ALONE = NETWORK | {"iterations": 60, "random_state": 7}
SMALL = ALONE | {"evaluate_every": 20}


@pytest.fixture(scope="module")
def rows():
    return make_synthetic(900, random_state=3)


@pytest.fixture(scope="module")
def numbers():
    return make_synthetic(900, task="regression", random_state=3)


@pytest.fixture(scope="module")
def frontier(rows):
    model = composed(strengths=(0.0, 0.5, 0.9), seeds=2, **SMALL)
    return model.fit(rows.X, rows.y, sensitive_features=rows.A)


def assert_same_weights(first, second):
    a, b = (model.predictor_.state_dict() for model in (first, second))
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert torch.equal(tensor, b[name]), name


def brute_force_front(costs):
    """Positions of rows without NaN that no row without NaN dominates."""
    whole = [i for i, row in enumerate(costs) if not np.isnan(row).any()]
    return {
        i
        for i in whole
        if not any((costs[j] <= costs[i]).all() and (costs[j] < costs[i]).any() for j in whole)
    }


@pytest.mark.parametrize("notion", ["independence", "separation"])
def test_a_frontier_of_one_is_the_classifier_on_the_same_rows_bit_for_bit(rows, notion):
    # Judged once, after the last iteration: the only snapshot is the trained member.
    frontier = composed(notion=notion, strengths=(0.5,), seeds=1, **SMALL | {"evaluate_every": 60})
    frontier.fit(rows.X, rows.y, sensitive_features=rows.A)
    train = frontier.split_.train
    alone = FairClassifier(notion=notion, strength=0.5, **ALONE)
    alone.fit(rows.X.iloc[train], rows.y.iloc[train], sensitive_features=rows.A.iloc[train])
    model = frontier.select(min_utility=0.0).model
    assert_same_weights(model, alone)
    assert np.array_equal(model.predict_proba(rows.X), alone.predict_proba(rows.X))
    assert np.array_equal(model.classes_, alone.classes_)
    assert model.get_params() == alone.get_params()


def test_looking_more_often_does_not_change_what_is_trained(rows):
    ends = []
    for every in (5, 60):
        frontier = composed(strengths=(0.5, 0.9), seeds=1, **SMALL | {"evaluate_every": every})
        frontier.fit(rows.X, rows.y, sensitive_features=rows.A)
        table = frontier.table().drop(columns="on_front")
        ends.append(table[table["iteration"] == 60].reset_index(drop=True))
    pd.testing.assert_frame_equal(*ends, check_exact=True)


def test_a_frontier_of_one_regressor_is_the_regressor_bit_for_bit(numbers):
    options = NETWORK | {"iterations": 40, "random_state": 5}
    frontier = composed(
        task="regression", loss="huber", strengths=(0.3,), seeds=1, evaluate_every=40, **options
    )
    frontier.fit(numbers.X, numbers.y, sensitive_features=numbers.A)
    train = frontier.split_.train
    alone = FairRegressor(strength=0.3, loss="huber", **options)
    alone.fit(
        numbers.X.iloc[train], numbers.y.iloc[train], sensitive_features=numbers.A.iloc[train]
    )
    model = frontier.select(min_utility=-10).model
    assert_same_weights(model, alone)
    assert np.array_equal(model.predict(numbers.X), alone.predict(numbers.X))
    assert model.get_params() == alone.get_params()
    # Only the frontier has rows beside those that train.
    assert model.health_.utility == "R2" and alone.health_.utility is None
    judged = (model.health_.score_spread, model.health_.correlation, model.health_.critic_value)
    assert judged == (
        alone.health_.score_spread,
        alone.health_.correlation,
        alone.health_.critic_value,
    )
    assert (model.center_, model.scale_) == (
        alone.center_,
        alone.scale_,
    )
    assert np.array_equal(model.feature_names_in_, alone.feature_names_in_)


def test_members_are_those_trained_alone(rows, frontier):
    found = frontier.members()
    assert found["strength"].tolist() == [0.0, 0.5, 0.9] * 2
    assert found["seed"].tolist() == [7, 7, 7, 8, 8, 8]
    assert frontier.history_.task.shape == (3, 6)  # one run: every member at every check
    train = frontier.split_.train
    alone = FairClassifier(strength=0.9, **ALONE | {"random_state": 8})
    alone.fit(rows.X.iloc[train], rows.y.iloc[train], sensitive_features=rows.A.iloc[train])
    validation = frontier.split_.validation
    scores = alone.predict_proba(rows.X.iloc[validation])[:, 1]
    last = frontier.table().query("member == 5 and iteration == 60").iloc[0]
    expected = roc_auc_score(rows.y.iloc[validation], scores)
    assert last["utility"] == pytest.approx(expected, abs=2e-3)
    assert last["threshold"] == pytest.approx(
        float(youden_threshold(scores, rows.y.iloc[validation].to_numpy())), abs=2e-2
    )


def test_the_table_has_every_snapshot_once(frontier):
    table = frontier.table()
    assert list(table.columns) == [
        *("member", "strength", "seed", "iteration", "utility", "threshold"),
        *("gap age", "gap group", "KS-GSP age", "KS-GSP group", "SP age", "SP group", "on_front"),
    ]
    assert table["iteration"].tolist() == [20] * 6 + [40] * 6 + [60] * 6
    assert table["member"].tolist() == list(range(6)) * 3


def test_numbers_of_the_table_are_those_of_the_kept_models(rows, frontier):
    table = frontier.table()
    validation = frontier.split_.validation
    X, y = rows.X.iloc[validation], rows.y.iloc[validation].to_numpy()
    people = SensitiveTable.from_data(rows.A).take(validation)
    kept = np.flatnonzero(table["on_front"])
    assert 0 < len(kept) == len(frontier.fitted_curve().snapshots.weights)
    for number in kept.tolist():
        model = frontier.fitted_curve().model(number)
        scores = model.predict_proba(X)[:, 1]
        row = table.loc[number]
        assert row["utility"] == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
        for metric in ("gap", "KS-GSP", "SP"):
            for attribute in ("age", "group"):
                value = float(measure(metric, scores, people[attribute], y))
                assert row[f"{metric} {attribute}"] == pytest.approx(value, abs=1e-9)
        assert (model.strength, model.random_state) == (row["strength"], row["seed"])
        assert model.history_.iterations[-1] == row["iteration"]


def test_kept_snapshots_are_the_brute_force_fronts_of_the_table(frontier):
    table = frontier.table()
    expected = set()
    for metric in ("gap", "KS-GSP", "SP"):
        columns = [f"{metric} age", f"{metric} group"]
        for some in ([columns[0]], [columns[1]], columns):
            costs = np.column_stack([-table["utility"], table[some]])
            expected |= brute_force_front(costs)
    assert set(np.flatnonzero(table["on_front"])) == expected
    assert len(expected) < len(table)


@pytest.mark.parametrize(
    ("metric", "attribute"), [("gap", "group"), ("KS-GSP", "age"), ("SP", "group")]
)
def test_a_front_is_the_brute_force_front_fairest_first(frontier, metric, attribute):
    table, column = frontier.table(), f"{metric} {attribute}"
    front = frontier.front(metric, attribute)
    assert set(front.index) == brute_force_front(
        np.column_stack([-table["utility"], table[column]])
    )
    assert front[column].is_monotonic_increasing and front["utility"].is_monotonic_increasing
    assert front["on_front"].all()
    pd.testing.assert_frame_equal(front, table.loc[front.index])


def test_hypervolume_is_the_area_under_the_front(frontier):
    front = frontier.front("KS-GSP", "group")
    # Integrate the best utility within each budget, on a fine grid of budgets.
    budgets = (np.arange(40_000) + 0.5) / 40_000 * 0.6
    best = np.zeros(len(budgets))
    for _, row in front.iterrows():
        reached = np.where(row["KS-GSP group"] <= budgets, row["utility"] - 0.5, 0)
        best = np.maximum(best, reached)
    found = frontier.hypervolume("KS-GSP", "group", most_unfairness=0.6)
    assert found == pytest.approx(best.mean() / 0.5, abs=1e-4)
    assert 0 < frontier.hypervolume("KS-GSP", "group", most_unfairness=1e9) <= 1


def test_same_random_state_same_frontier_whatever_the_frame(rows, frontier):
    again = clone(frontier).fit(
        pl.from_pandas(rows.X), rows.y.to_numpy(), sensitive_features=rows.A.to_dict("list")
    )
    pd.testing.assert_frame_equal(again.table(), frontier.table())


def test_a_pickled_frontier_selects_the_same(rows, frontier):
    again = pickle.loads(pickle.dumps(frontier))
    pd.testing.assert_frame_equal(again.table(), frontier.table())
    first, second = (each.select(min_utility=0.5, draws=2).model for each in (frontier, again))
    assert np.array_equal(first.predict_proba(rows.X), second.predict_proba(rows.X))


def test_labels_may_be_words(rows, frontier):
    words = np.where(rows.y.to_numpy() == 1, "yes", "no")
    spoken = clone(frontier).fit(rows.X, words, sensitive_features=rows.A)
    pd.testing.assert_frame_equal(spoken.table(), frontier.table())
    model = spoken.select(min_utility=0.5, draws=2).model
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(rows.X)) == {"no", "yes"}


def test_rows_can_be_named(rows):
    named = composed(
        strengths=(0.0,), seeds=1, validation=range(300), test=range(300, 600), **SMALL
    )
    named.fit(rows.X, rows.y, sensitive_features=rows.A)
    assert np.array_equal(named.split_.train, np.arange(600, 900))
    assert named.select(min_utility=0.5).test_rows == 300


def test_separation_and_regression_have_their_own_metrics(rows, numbers):
    tiny = SMALL | {"iterations": 20, "strengths": (0.5,), "seeds": 1}
    separated = composed(notion="separation", **tiny)
    separated.fit(rows.X, rows.y, sensitive_features=rows.A[["group"]])
    assert list(separated.table().columns[6:9]) == ["gap given Y group", "KS-GEO group", "EO group"]
    assert list(separated.front().index) == [0]  # one attribute need not be named
    regressed = composed(task="regression", **tiny)
    regressed.fit(numbers.X, numbers.y, sensitive_features=numbers.A)
    measures = ["gap age", "gap group", "KS-GSP age", "KS-GSP group"]
    assert list(regressed.table().columns[4:-1]) == ["utility", *measures]
    both = composed(task="regression", notion="separation", **tiny)
    both.fit(numbers.X, numbers.y, sensitive_features=numbers.A)
    # KS-GEO of a fair score is not 0 when y is continuous.
    measures = ["gap given Y age", "gap given Y group"]
    assert list(both.table().columns[4:-1]) == ["utility", *measures]
    validation = regressed.split_.validation
    predicted = regressed.fitted_curve().model(0).predict(numbers.X.iloc[validation])
    expected = r2_score(numbers.y.iloc[validation], predicted)
    assert regressed.table().loc[0, "utility"] == pytest.approx(expected, abs=1e-12)


def test_unknown_sensitive_values_are_left_out(rows):
    people = rows.A.copy()
    people.loc[people.index[:90], "age"] = np.nan
    frontier = composed(
        strengths=(0.5,), seeds=1, missing_sensitive="skip", **SMALL | {"iterations": 20}
    )
    frontier.fit(rows.X, rows.y, sensitive_features=people)
    validation = frontier.split_.validation
    scores = frontier.fitted_curve().model(0).predict_proba(rows.X.iloc[validation])[:, 1]
    known = people["age"].iloc[validation].notna().to_numpy()
    assert (~known).sum() > 0
    column = SensitiveTable.from_data({"age": people["age"].iloc[validation][known]})["age"]
    expected = float(measure("KS-GSP", scores[known], column))
    assert frontier.table().loc[0, "KS-GSP age"] == pytest.approx(expected, abs=1e-9)


def test_metrics_apply_where_they_are_defined(rows):
    frontier = composed(
        strengths=(0.5,),
        seeds=1,
        metrics=("demographic parity difference", "KS-GSP"),
        **SMALL | {"iterations": 20},
    )
    frontier.fit(rows.X, rows.y, sensitive_features=rows.A)
    assert list(frontier.table().columns[6:-1]) == [
        "demographic parity difference group",
        "KS-GSP age",
        "KS-GSP group",
    ]


def test_the_figure_shows_snapshots_and_front(frontier):
    (axes,) = frontier.plot("KS-GSP", "age").axes
    assert sum(len(dots.get_offsets()) for dots in axes.collections) == len(frontier.table())
    (line,) = axes.lines
    assert np.array_equal(line.get_ydata(), frontier.front("KS-GSP", "age")["utility"])
    assert axes.get_xlabel() == "KS-GSP age (validation rows; 0 is fair)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strengths": ()}, "strengths must be distinct numbers, at least one, got ()"),
        (
            {"strengths": (0.5, 0.5)},
            "strengths must be distinct numbers, at least one, got (0.5, 0.5)",
        ),
        ({"seeds": 0}, "seeds must be a whole number of at least 1, got 0"),
        ({"evaluate_every": 2.5}, "evaluate_every must be a whole number of at least 1, got 2.5"),
        (
            {"strengths": (0.5, 1.0)},
            "strength must lie in [0, 1), got 1.0; 0 is plain training, values near 1 leave little "
            "of the task",
        ),
        ({"metrics": "KS-GSP"}, "metrics must be 'default' or a sequence of names, got 'KS-GSP'"),
        ({"metrics": ()}, "metrics must name at least one metric, got none"),
        (
            {"metrics": ["demographic parity ratio"]},
            "metrics must be 0 for a fair score, got 'demographic parity ratio', which is 1; take "
            "the difference instead of the ratio",
        ),
        (
            {"validation": [0, 1, 2]},
            "the 3 validation rows do not suffice: sensitive_features column 'group' must have "
            "rows in every group, got none in group 'c'; rebuild the column from the rows in use; "
            "or merge rare groups, or raise validation",
        ),
    ],
)
def test_wrong_options_are_named_before_training(rows, options, message):
    model = composed(**{**SMALL, "iterations": 10**9, **options})
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        model.fit(rows.X, rows.y, sensitive_features=rows.A)


@pytest.mark.parametrize("part", ["validation", "test"])
def test_groups_too_small_for_the_gap_are_named_before_training(rows, part):
    model = composed(**{**SMALL, "iterations": 10**9, part: range(50)})
    with pytest.raises(InputError) as refused:
        model.fit(rows.X, rows.y, sensitive_features=rows.A[["group"]])
    counts = rows.A["group"].iloc[:50].value_counts()
    assert counts.max() < 30
    says(
        str(refused.value),
        f"the 50 {part} rows do not suffice for gap by group",
        "no group has 30 rows inside and 30 outside",
        *(f"group = {name} ({count} in, {50 - count} out)" for name, count in counts.items()),
        f"merge rare groups, raise {part}, or name other metrics",
    )


def test_wrong_data_are_named_before_training(rows):
    model = composed(**{**SMALL, "iterations": 10**9})
    with pytest.raises(
        InputError,
        match=r"^sensitive_features is required .*, got None; call "
        r"fit\(X, y, sensitive_features=A\)$",
    ):
        model.fit(rows.X, rows.y)
    rare = np.where(np.arange(len(rows.y)) == 0, "rare", rows.y.astype(str))
    for part, other in (("validation", "test"), ("test", "validation")):
        with pytest.raises(
            InputError,
            match=r"^y must have every class among the training rows, got 'rare' among the "
            rf"{part} rows only; merge rare classes, or lower {part}$",
        ):
            clone(model).set_params(**{part: range(90), other: range(90, 180)}).fit(
                rows.X, rare, sensitive_features=rows.A
            )
    with pytest.raises(
        InputError,
        match=r"^the 180 validation rows do not suffice: none has y = 'rare'; merge rare classes, "
        r"or raise validation$",
    ):
        clone(model).set_params(validation=range(180, 360), test=range(360, 540)).fit(
            rows.X, rare, sensitive_features=rows.A
        )
    with pytest.raises(
        InputError,
        match=r"^metrics must apply to some attribute: demographic parity difference is defined "
        r"for discrete attributes, got the continuous 'age'$",
    ):
        clone(model).set_params(metrics=["demographic parity difference"]).fit(
            rows.X, rows.y, sensitive_features=rows.A[["age"]]
        )


def test_nothing_can_be_asked_before_fit():
    for ask in ("table", "members", "front", "hypervolume", "plot"):
        with pytest.raises(NotFittedError):
            getattr(FairFrontier(), ask)()
    with pytest.raises(NotFittedError):
        FairFrontier().select(max_gap=0.1)
