"""A frontier composes estimators: it copies them, passes their options on and lets them compete."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from small_frontiers import rows

from equipoise import (
    FairBoostingClassifier,
    FairClassifier,
    FairEncoder,
    FairFrontier,
    FairRegressor,
    load,
)
from equipoise.errors import InputError
from equipoise.frontier.fitting import flat_options

SMALL = {"strengths": (0.0, 0.9), "seeds": 1, "evaluate_every": 10, "random_state": 7}


def small_network(**options):
    return FairClassifier(
        **{"hidden": (4,), "critic_hidden": (4,), "iterations": 20, "device": "cpu", **options}
    )


def fit(frontier):
    data = rows()
    return frontier.fit(data.X, data.y, sensitive_features=data.A)


def test_options_of_the_estimator_are_parameters_of_the_frontier():
    frontier = FairFrontier(FairClassifier(hidden=(3,)), seeds=2)
    assert frontier.get_params()["estimator__hidden"] == (3,)
    frontier.set_params(estimator__hidden=(4, 4), estimator__iterations=10, seeds=3)
    assert frontier.estimator.hidden == (4, 4) and frontier.estimator.iterations == 10
    copied = clone(frontier)
    assert flat_options(copied) == flat_options(frontier)
    assert copied.estimator is not frontier.estimator
    several = clone(FairFrontier([FairClassifier(hidden=(3,)), FairBoostingClassifier(rounds=4)]))
    assert [type(each) for each in several.estimator] == [FairClassifier, FairBoostingClassifier]
    assert several.estimator[0].hidden == (3,) and several.estimator[1].rounds == 4
    several.set_params(estimator=FairRegressor())
    assert type(several.estimator) is FairRegressor


def test_the_estimator_that_is_given_is_not_changed():
    given = small_network()
    before = dict(vars(given))
    frontier = fit(FairFrontier(given, **SMALL))
    assert frontier.estimator is given and vars(given) == before
    model = frontier.select(max_gap=1.0, draws=2, allow_useless=True).model
    assert model.hidden == (4,) and model.random_state == 7 and model is not given


def test_the_strength_and_verbosity_of_the_estimator_mean_nothing(capsys):
    plain = fit(FairFrontier(small_network(), **SMALL))
    other = fit(FairFrontier(small_network(strength=0.3, verbose=1), **SMALL))
    pd.testing.assert_frame_equal(plain.table(), other.table(), check_exact=True)
    assert capsys.readouterr() == ("", "")


def test_no_estimator_is_a_classifier():
    frontier = FairFrontier(strengths=(0.0,), seeds=1, random_state=0)
    stopped = frontier.fit(
        rows().X, rows().y, sensitive_features=rows().A, callback=lambda progress: True
    )
    assert stopped.table()["iteration"].tolist() == [100]
    assert type(stopped.select(max_gap=1.0, draws=2).model) is FairClassifier


def test_two_estimators_of_a_kind_compete(tmp_path):
    networks = [small_network(), small_network(hidden=())]
    frontier = fit(FairFrontier(networks, **{**SMALL, "evaluate_every": [10, "default"]}))
    table = frontier.table()
    assert table["predictor"].unique().tolist() == ["network", "network 2"]
    assert table.groupby("predictor")["iteration"].unique().map(list).tolist() == [[10, 20], [20]]
    alone = fit(FairFrontier(networks[1], **{**SMALL, "evaluate_every": 20})).table()
    second = table[table["predictor"] == "network 2"]
    assert np.array_equal(second["utility"], alone["utility"])
    assert list(frontier.history_) == ["network", "network 2"]
    best = second["utility"].max()
    if table["utility"].max() == best:
        assert "network 2, " in str(frontier.select(min_utility=best, draws=2))
    frontier.save(tmp_path / "curve.equipoise")
    again = load(tmp_path / "curve.equipoise")
    pd.testing.assert_frame_equal(again.table(), table, check_exact=True)
    assert flat_options(again) == flat_options(frontier)


@pytest.mark.parametrize(
    ("estimator", "parts"),
    [
        (FairClassifier, ("estimator must be a FairClassifier", "FairFrontier(FairClassifier())")),
        (FairEncoder(), ("estimator must be a FairClassifier", "FairEncoder()")),
        ([], ("estimator must be", "empty list")),
        (FairClassifier(random_state=3), ("random_state", "3", "FairFrontier(random_state=...)")),
        (FairBoostingClassifier(early_stopping=5), ("early_stopping", "5")),
        ([FairClassifier(), FairRegressor()], ("classifiers or of regressors", "FairRegressor")),
        (
            [FairClassifier(), FairBoostingClassifier(notion="separation")],
            ("same notion", "'independence'", "'separation'", "a frontier of each"),
        ),
        (
            [FairClassifier(), FairClassifier(missing_sensitive="skip")],
            ("same missing_sensitive", "'error'", "'skip'"),
        ),
        (
            [FairClassifier(sensitive_types={"age": "discrete"}), FairClassifier()],
            ("same sensitive_types", "None"),
        ),
    ],
    ids=str,
)
def test_what_cannot_be_composed_is_refused_in_words(estimator, parts):
    with pytest.raises(InputError) as refused:
        fit(FairFrontier(estimator, random_state=0))
    assert all(part in str(refused.value) for part in parts)


def test_each_estimator_needs_its_interval():
    with pytest.raises(InputError, match=r"evaluate_every must have one value for each of the 2"):
        fit(FairFrontier([FairClassifier(), FairBoostingClassifier()], evaluate_every=[10]))
