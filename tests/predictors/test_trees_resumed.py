"""Boosted trees that go on from a checkpoint, and growing that ends early."""

import numpy as np
import pandas as pd
import pytest
import torch
from boosted_rows import small_trees

from equipoise import FairBoostingClassifier, FairBoostingRegressor, load
from equipoise.errors import InputError
from equipoise.predictors.boosting.lightgbm import joined
from equipoise.training import Member
from equipoise.training.stopping import with_rows_aside
from tests.composing import composed

ROWS = 600
OPTIONS = {"rounds": 12, "batch_size": 128}


class Killed(Exception):
    pass


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(0)
    age = random.normal(size=ROWS)
    X = pd.DataFrame({"income": age + random.normal(size=ROWS), "years": random.normal(size=ROWS)})
    signal = X["income"] + X["years"] + random.normal(size=ROWS)
    return X, signal.to_numpy(), pd.DataFrame({"age": age})


def outcome(signal, classes):
    cuts = np.quantile(signal, np.linspace(0, 1, classes + 1)[1:-1])
    return np.digitize(signal, cuts)


def killed_at(round_):
    def callback(progress):
        if progress.iteration == round_:
            raise Killed

    return callback


@pytest.mark.parametrize("classes", [2, 3])
def test_a_resumed_frontier_of_trees_ends_as_an_uninterrupted_one(
    people, tmp_path, classes, library
):
    X, signal, A = people
    y = outcome(signal, classes)
    options = {
        "predictor": "boosting",
        "boosting": {**OPTIONS, **small_trees(library)},
        "strengths": (0.0, 0.5, 0.9),
        "seeds": 1,
        "evaluate_every_rounds": 3,
        "random_state": 0,
    }
    whole = composed(**options).fit(X, y, sensitive_features=A)
    file = tmp_path / "run.checkpoint"
    # Killed twice: the second time a model that goes on is what is kept.
    for round_ in (6, 9):
        with pytest.raises(Killed):
            composed(**options).fit(
                X,
                y,
                sensitive_features=A,
                checkpoint=file,
                checkpoint_every=0,
                resume=True,
                callback=killed_at(round_),
            )
    resumed = composed(**options).fit(X, y, sensitive_features=A, checkpoint=file, resume=True)
    pd.testing.assert_frame_equal(resumed.table(), whole.table(), check_exact=True)
    np.testing.assert_array_equal(resumed.history_.penalty, whole.history_.penalty)
    for number in np.flatnonzero(whole.table()["on_front"]):
        np.testing.assert_array_equal(
            resumed.fitted_curve().model(number).predict_proba(X),
            whole.fitted_curve().model(number).predict_proba(X),
        )


def test_a_resumed_model_can_be_saved_and_stops_where_it_would_have(people, tmp_path, library):
    X, signal, A = people
    options = {**OPTIONS, "rounds": 60, "early_stopping": 10, "strength": 0.5, "random_state": 1}
    options |= small_trees(library)
    whole = FairBoostingRegressor(**options).fit(X, signal, sensitive_features=A)
    file = tmp_path / "run.checkpoint"
    with pytest.raises(Killed):
        FairBoostingRegressor(**options).fit(
            X,
            signal,
            sensitive_features=A,
            checkpoint=file,
            checkpoint_every=0,
            callback=killed_at(20),
        )
    resumed = FairBoostingRegressor(**options).fit(
        X, signal, sensitive_features=A, checkpoint=file, resume=True
    )
    np.testing.assert_array_equal(resumed.predict(X), whole.predict(X))
    resumed.save(tmp_path / "resumed.equipoise")
    whole.save(tmp_path / "whole.equipoise")
    again = load(tmp_path / "resumed.equipoise")
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))


def test_a_checkpoint_is_refused_where_lightgbm_draws(people, tmp_path):
    X, signal, A = people
    model = FairBoostingClassifier(
        rounds=2, lightgbm={"subsample": 0.5, "subsample_freq": 1}, random_state=0
    )
    words = "checkpoint must be left out if lightgbm sets 'bagging_fraction'"
    with pytest.raises(InputError, match=words):
        model.fit(X, signal > 0, sensitive_features=A, checkpoint=tmp_path / "run.checkpoint")


def test_xgboost_draws_after_resuming_what_it_would_have_drawn(people, tmp_path):
    X, signal, A = people
    draws = {"subsample": 0.5, "colsample_bytree": 0.5}
    options = {"rounds": 20, "library": "xgboost", "xgboost": draws, "random_state": 0}
    whole = FairBoostingRegressor(**options).fit(X, signal, sensitive_features=A)
    run = {"sensitive_features": A, "checkpoint": tmp_path / "run", "checkpoint_every": 0}
    with pytest.raises(Killed):
        FairBoostingRegressor(**options).fit(X, signal, callback=killed_at(10), **run)
    resumed = FairBoostingRegressor(**options).fit(X, signal, resume=True, **run)
    np.testing.assert_array_equal(resumed.predict(X), whole.predict(X))


def test_texts_are_joined_tree_by_tree():
    first = "tree\ntree_sizes=9 9\n\nTree=0\na\n\n\nTree=1\nb\n\n\nend of trees\n\nfirst"
    second = "tree\ntree_sizes=9\n\nTree=0\nc\n\n\nend of trees\n\nsecond"
    assert joined(first, second) == (
        "tree\n\nTree=0\na\n\n\nTree=1\nb\n\n\nTree=2\nc\n\n\nend of trees\n\nsecond"
    )


def held_out_losses(model, X, y, seed):
    """Log loss on the rows set aside after every tenth round, with the best linear share."""
    (member,) = with_rows_aside([Member(0.0, seed)], len(y))
    aside = member.aside.numbers.numpy()
    trees = model.predictor_.network
    x = model.encoder_.transform(X.iloc[aside])
    found = []
    for rounds in range(10, trees.forest.models[0].rounds() + 1, 10):
        raw = trees.forest.outputs(0, rounds, torch.from_numpy(x))[:, 0]
        linear = trees.linear(torch.from_numpy(x)[None])[0, :, 0].numpy()
        blends = [(1 - w) * raw + w * linear for w in np.linspace(0, 1, 11)]
        found.append(min(np.mean(np.logaddexp(0, each) - each * y[aside]) for each in blends))
    return np.array(found)


@pytest.mark.filterwarnings("ignore:The model overfits:equipoise.errors.ConvergenceWarning")
def test_growing_ends_when_rows_set_aside_see_nothing_better_and_keeps_the_best(people, library):
    X, signal, _ = people
    y = outcome(signal, 2)
    model = FairBoostingClassifier(
        strength=0,
        rounds=400,
        learning_rate=0.2,
        early_stopping=30,
        members=1,
        random_state=5,
        library=library,
    ).fit(X, y)
    losses = held_out_losses(model, X, y, seed=5)
    best = 10 * (1 + int(losses.argmin()))
    assert int(model.predictor_.network.rounds) == best
    assert model.history_.iterations[-1] == best + 30 < 400


# The changed rows are unlike those that train, which health takes for overfitting.
@pytest.mark.filterwarnings("ignore:The model overfits:equipoise.errors.ConvergenceWarning")
def test_rows_set_aside_do_not_train(people, library):
    X, signal, _ = people
    y = outcome(signal, 2)
    (member,) = with_rows_aside([Member(0.0, 5)], ROWS)
    aside = member.aside.numbers
    assert sorted([*member.rows.numbers.tolist(), *aside.tolist()]) == list(range(ROWS))
    assert len(aside) == ROWS // 5
    changed = X.copy()
    changed.loc[aside.numpy(), "income"] += 100.0
    options = {"strength": 0, "rounds": 5, "early_stopping": 5, "random_state": 5, "members": 1}
    options["library"] = library
    text = [
        FairBoostingClassifier(**options)
        .fit(features, y)
        .predictor_.network.forest.models[0]
        .text(5)
        .partition("end of trees")[0]
        for features in (X, changed)
    ]
    assert text[0] == text[1]


@pytest.mark.filterwarnings("ignore:The score may say nothing")
def test_a_penalty_that_cannot_be_measured_counts_as_on_the_training_rows(people):
    """Of a penalty that falls round by round no earlier round can be the best."""
    X, signal, A = people
    options = {"method": "gdp", "strength": 0.999, "rounds": 30, "warmup": 0, "random_state": 0}
    options |= {"early_stopping": 30, "members": 1}
    model = FairBoostingClassifier(**options).fit(X, signal > 0, sensitive_features=A)
    penalty = model.history_.penalty[:, 0]
    assert int(model.predictor_.network.rounds) == 10 * (1 + int(penalty.argmin()))
