"""Units mean nothing: outcomes, features, attributes and weights of any size give the same fit.

Sizes go from 1e-300 to 1e300, and small spreads stand far from zero. Multiplying by a power of two
is exact, any other factor rounds, and trees and networks that begin a last digit apart end as far
apart as the tolerance says.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from equipoise import FairBoostingRegressor, FairClassifier, FairRegressor
from equipoise.errors import ConvergenceWarning, InputError
from equipoise.estimators.fitting import read_numbers, row_weights
from equipoise.predictors.boosting.growing import level_and_unit
from equipoise.tables import FeatureEncoder, TreeEncoder
from tests.composing import composed

pytestmark = pytest.mark.filterwarnings(
    f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning"
)

N = 120
SIZES = [1e-300, 1e-13, 1e154, 1e300]
#: A spread of about 1e-4 at 1e9, of numbers that are exact there.
STEP, FAR = 2.0**-20, 1e9


def rows(seed=0):
    """Features, an outcome on a grid so that it is exact far from zero, a continuous attribute."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(N, 3))
    a = X[:, 1] + random.normal(size=N)
    y = np.round(128 * (X[:, 0] + X[:, 1] + 0.3 * random.normal(size=N)))
    return X, y, a


NETWORK = {"iterations": 12, "hidden": (8,), "critic_hidden": (8,), "learning_rate": 0.02}
MODELS = {
    "network": lambda **options: FairRegressor(**NETWORK, random_state=0, **options),
    "trees": lambda **options: FairBoostingRegressor(
        rounds=8, learning_rate=0.2, critic_hidden=(8,), random_state=0, **options
    ),
    "scutari": lambda **options: FairRegressor(method="scutari", random_state=0, **options),
}
CASES = [
    ("network", {}),
    ("network", {"strength": 0, "loss": "huber"}),
    ("trees", {"strength": 0}),
    # On all rows: among 96 of them residuals are 0 up to rounding, and only their signs count.
    ("trees", {"strength": 0, "loss": "absolute", "early_stopping": None}),
    ("trees", {"strength": 0, "loss": "huber"}),
    ("trees", {"strength": 0.5}),
    ("trees", {"strength": 0.5, "loss": "huber"}),
    ("trees", {"strength": 0.5, "early_stopping": 5}),
    ("scutari", {}),
]
NAMES = [f"{name}-{'-'.join(map(str, options.values()))}" for name, options in CASES]


def predicted(name, options, X, y, a, **fit):
    model = MODELS[name](**options).fit(X, y, sensitive_features={"a": a}, **fit)
    return model.predict(X, **({"sensitive_features": {"a": a}} if name == "scutari" else {}))


@pytest.mark.parametrize(("name", "options"), CASES, ids=NAMES)
def test_predictions_follow_the_units_of_the_outcome(name, options):
    X, y, a = rows()
    expected = predicted(name, options, X, y, a)
    assert np.ptp(expected) > 0.3 * y.std()
    for size in SIZES:
        found = predicted(name, options, X, size * y, a) / size
        np.testing.assert_allclose(found, expected, atol=1e-4 * y.std())
    moved = predicted(name, options, X, STEP * y + FAR, a)
    np.testing.assert_allclose((moved - FAR) / STEP, expected, atol=5e-3 * y.std())


@pytest.mark.parametrize(("name", "options"), CASES, ids=NAMES)
@pytest.mark.parametrize("value", [0.1, -1e300])
def test_a_constant_outcome_is_predicted_as_it_is(name, options, value):
    X, _, a = rows()
    found = predicted(name, options, X, np.full(N, value), a)
    np.testing.assert_allclose(found, value, rtol=1e-15)


def test_only_equal_values_are_constant():
    near = np.full(20, 1.0)
    near[3] = np.nextafter(1.0, 2.0)
    read = read_numbers(near)
    assert read.scale > 0
    assert read.target[3] > read.target[4]
    np.testing.assert_allclose(np.square(read.target).mean(), 1, rtol=1e-6)
    assert read_numbers(np.full(3, 0.1)).scale == 0


def small_frontier(**options):
    return composed(
        task="regression",
        strengths=(0.0, 0.6),
        seeds=1,
        iterations=20,
        evaluate_every=20,
        hidden=(8,),
        metrics=["KS-GSP"],
        random_state=0,
        **options,
    )


def test_a_frontier_reports_the_same_utility_in_all_units():
    X, y, a = rows()

    def table(y):
        frontier = small_frontier(
            predictor="both", boosting={"rounds": 8}, evaluate_every_rounds=8
        ).fit(X, y, sensitive_features={"a": a})
        return frontier.table()[["utility", "KS-GSP a"]].to_numpy(float)

    expected = table(y)
    assert expected.shape == (4, 2)
    for size in SIZES[::3]:
        np.testing.assert_allclose(table(size * y), expected, atol=1e-3)


def encoded(scaling, X):
    return FeatureEncoder(scaling=scaling).fit_transform(X)


@pytest.mark.parametrize("scaling", ["rank", "minmax", "standard"])
def test_networks_see_features_without_their_units(scaling):
    X, _, _ = rows()
    X = np.round(128 * X)
    expected = encoded(scaling, X)
    for size in SIZES:
        np.testing.assert_allclose(encoded(scaling, size * X), expected, rtol=1e-6, atol=1e-6)
    # As exact as the scaled differences of numbers at this distance are.
    far = encoded(scaling, STEP * X + FAR)
    np.testing.assert_allclose(far, expected, atol=1e-6 if scaling == "rank" else 2e-3)


def test_rank_scores_between_the_smallest_numbers():
    knots = np.array([[1e-310], [2e-310], [4e-310]])
    encoder = FeatureEncoder().fit(knots)
    between = encoder.transform(np.array([[1.5e-310], [3e-310], [1e300]]))[:, 0]
    expected = FeatureEncoder().fit([[1], [2], [4]]).transform([[1.5], [3.0], [9.0]])[:, 0]
    np.testing.assert_allclose(between, expected, atol=1e-6)


def test_numbers_beyond_single_precision_are_refused_where_they_are_kept():
    with pytest.raises(
        InputError, match=r"'x0' must stay within float32.*got 1e.39.*scaling='rank'"
    ):
        FeatureEncoder(scaling="none").fit_transform(np.array([[1.0], [1e39]]))


@pytest.mark.parametrize("strength", [0, 0.5])
def test_trees_see_features_without_their_units(strength):
    X, y, a = rows()
    expected = predicted("trees", {"strength": strength}, X, y, a)
    for size in SIZES:
        found = predicted("trees", {"strength": strength}, size * X, y, a)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_trees_of_scaled_features_are_kept_in_files(tmp_path):
    from equipoise import load

    X, y, a = rows()
    model = FairBoostingRegressor(rounds=5, random_state=0)
    model.fit(1e-300 * X, 1e200 * y, sensitive_features={"a": a}).save(tmp_path / "m.equipoise")
    found = load(tmp_path / "m.equipoise").predict(1e-300 * X)
    assert np.array_equal(found, model.predict(1e-300 * X))
    # Beyond all that was seen, in either direction.
    assert np.isfinite(model.predict([[1e300] * 3, [-1e300] * 3])).all()


def test_ordinary_columns_of_trees_stay_as_they_are():
    encoder = TreeEncoder().fit(np.array([[1e-15, 1e-30, 0.0], [1.0, 2e-30, 0.0]]))
    assert encoder.state().powers == {"x1": -98}


@pytest.mark.parametrize("name", ["network", "trees"])
def test_units_of_a_continuous_attribute_mean_nothing(name):
    X, y, a = rows()
    a = np.round(128 * a)
    expected = predicted(name, {"strength": 0.7}, X, y, a)
    for size, far in [*((size, 0.0) for size in SIZES), (STEP, FAR)]:
        found = predicted(name, {"strength": 0.7}, X, y, size * a + far)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


WEIGHTED = [case for case in CASES if case[0] != "scutari"]


@pytest.mark.parametrize(("name", "options"), WEIGHTED, ids=NAMES[: len(WEIGHTED)])
def test_only_ratios_of_weights_count(name, options):
    X, y, a = rows()
    weight = np.random.default_rng(1).exponential(size=N)
    expected = predicted(name, options, X, y, a, sample_weight=weight)
    for size in (1e-300, 1e39):
        found = predicted(name, options, X, y, a, sample_weight=size * weight)
        np.testing.assert_allclose(found, expected, atol=1e-4 * y.std())
    equal = predicted(name, options, X, y, a, sample_weight=np.full(N, 1e-320))
    one = predicted(name, options, X, y, a, sample_weight=np.ones(N))
    np.testing.assert_allclose(equal, one, atol=1e-4 * y.std())


def test_weights_too_small_beside_the_largest_are_none():
    found = row_weights([1e300, 5e299, 1e200, 0.0], 4)
    np.testing.assert_allclose(found / found[0], [1, 0.5, 0, 0])


def strangers(X, y, a):
    """The rows, and rows of weight 0 that would change everything: kinds, ranks, levels, classes.

    One attribute has 3 distinct values, of which the others would make more than 10.
    """
    few = np.sign(np.round(a))
    frame = pd.DataFrame({"x": X[:, 0], "job": np.where(X[:, 1] > 0, "cook", "nurse")})
    other = pd.DataFrame({"x": 1e6 * X[:20, 0], "job": [f"job {i}" for i in range(20)]})
    weight = np.random.default_rng(1).exponential(size=N)
    alone = frame, y, {"few": few, "age": a}, weight
    both = (
        pd.concat([frame, other], ignore_index=True),
        np.concatenate([y, 7 + 1e6 * np.arange(20)]),
        {
            "few": np.concatenate([few, 100 + np.arange(20.0)]),
            "age": np.concatenate([a, [np.nan], 1e6 * np.arange(19)]),
        },
        np.concatenate([weight, np.zeros(20)]),
    )
    return alone, both


@pytest.mark.parametrize("name", ["network", "trees", "classes"])
def test_rows_of_weight_0_are_as_good_as_left_out(name):
    X, y, a = rows()
    y = np.where(y > 0, 1.0, 0.0) if name == "classes" else y
    alone, both = strangers(X, y, a)
    found = []
    for X, y, A, weight in (alone, both):
        model = FairClassifier(**NETWORK, random_state=0) if name == "classes" else MODELS[name]()
        found.append(model.fit(X, y, sensitive_features=A, sample_weight=weight))
    assert found[0].sensitive_ == found[1].sensitive_
    assert "few     discrete" in found[0].sensitive_
    for ask in ("predict", *(["predict_proba"] if name == "classes" else [])):
        answers = [getattr(model, ask)(alone[0]) for model in found]
        np.testing.assert_allclose(*answers, rtol=1e-6)


def test_a_frontier_leaves_rows_of_weight_0_out():
    alone, both = strangers(*rows())
    found = []
    for X, y, A, weight in (alone, both):
        found.append(small_frontier().fit(X, y, sensitive_features=A, sample_weight=weight))
    assert found[0].sensitive_ == found[1].sensitive_
    pd.testing.assert_frame_equal(*(frontier.table() for frontier in found), rtol=1e-6)


def test_nothing_is_warned_of_at_any_size():
    X, y, a = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        for size in SIZES[::3]:
            predicted("network", {}, size * X, size * y, size * a)
            predicted("trees", {}, size * X, size * y, size * a)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_whole_weight_is_so_many_rows_also_in_what_is_standard(loss):
    """Gradient steps on all rows at once, so that nothing but the rows can make a difference."""
    X, y, _ = rows()
    weight = 1 + np.arange(N) % 3
    options = {"strength": 0, "loss": loss, "optimizer": "sgd", "batch_size": 10 * N}
    options |= {"embedding": "none", "scaling": "none", "iterations": 3, "hidden": (4,)}
    # The ridge penalty of a linear path counts rows.
    options |= {"members": 1, "early_stopping": None, "linear_path": False}
    model = FairRegressor(**options, random_state=0, learning_rate=0.05)
    weighted = model.fit(X, y, sample_weight=weight).predict(X)
    repeated = model.fit(np.repeat(X, weight, 0), np.repeat(y, weight)).predict(X)
    np.testing.assert_allclose(repeated, weighted, rtol=1e-4, atol=1e-4 * np.abs(weighted).max())
    assert np.abs(weighted - model.fit(X, y).predict(X)).max() > 1e-2


def test_trees_take_their_unit_from_weighted_rows():
    target = torch.tensor([[0.0, 4.0, 7.0]], dtype=torch.float64)
    weight = torch.tensor([[3.0, 1.0, 2.0]], dtype=torch.float64)
    level, unit = level_and_unit(target, weight)
    repeated = torch.tensor([0.0, 0, 0, 4, 7, 7], dtype=torch.float64)
    torch.testing.assert_close(level[0], repeated.mean())
    torch.testing.assert_close(unit[0], repeated.std(correction=0))
