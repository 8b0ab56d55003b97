"""Rows that LightGBM can not split, classes of a single row, and what a round minimizes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from equipoise import FairBoostingClassifier, FairBoostingRegressor, load
from equipoise.errors import ConvergenceWarning, InputError
from equipoise.estimators.fitting import read_numbers, training_data
from equipoise.predictors.boosting.growing import OBJECTIVES
from equipoise.predictors.boosting.recipe import TreeTradeOff
from equipoise.training import Member, RowSet
from equipoise.training.stopping import with_rows_aside
from tests.composing import composed

quietly = pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
#: Leaves so large that few rows do not fill two.
LARGE_LEAVES = {"min_data_in_leaf": 20}
UNSPLIT = {
    "rounds": 5,
    "lightgbm": LARGE_LEAVES,
    "members": 1,
    "early_stopping": None,
    "random_state": 0,
}


def rows(n, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 2))
    return x, 3 + x[:, 0], {"age": random.normal(size=n)}


def few_rows(n=30):
    return rows(n)


def constant_columns():
    x, y, a = rows(100)
    return 0 * x + 5, y, a


@quietly
@pytest.mark.parametrize("strength", [0, 0.5])
@pytest.mark.parametrize("make", [few_rows, constant_columns])
@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
def test_without_anything_to_split_on_a_constant_is_predicted(make, loss, strength):
    x, y, a = make()
    model = FairBoostingRegressor(loss=loss, strength=strength, **UNSPLIT)
    with pytest.warns(ConvergenceWarning, match=r"No column of X can be split.*min_data_in_leaf"):
        model.fit(x, y, sensitive_features=a)
    best = np.median(y) if loss == "absolute" else y.mean()
    # Of an even number of rows anything between the two in the middle is a median.
    room = np.ptp(np.sort(y)[len(y) // 2 - 1 : len(y) // 2 + 1]) if loss == "absolute" else 0
    np.testing.assert_allclose(model.predict(x), best, rtol=1e-6, atol=room)


@quietly
@pytest.mark.parametrize("classes", [2, 3])
def test_a_constant_is_the_share_of_each_class_and_is_kept_in_files(classes, tmp_path):
    x, _, a = rows(30)
    y = np.arange(30) % 10 % classes
    model = FairBoostingClassifier(strength=0.5, **UNSPLIT)
    model.fit(x, y, sensitive_features=a).save(tmp_path / "constant.equipoise")
    found = load(tmp_path / "constant.equipoise").predict_proba(x)
    np.testing.assert_allclose(found, np.tile(np.bincount(y) / 30, (30, 1)), rtol=1e-5)


@quietly
def test_fewer_rows_in_a_leaf_let_trees_grow_on_few_rows():
    x, y, a = rows(30)
    model = FairBoostingRegressor(rounds=5, lightgbm={"min_data_in_leaf": 3}, random_state=0)
    assert np.ptp(model.fit(x, y, sensitive_features=a).predict(x)) > 0.3


@quietly
def test_a_frontier_of_trees_that_can_not_grow_has_constants():
    x, y, a = rows(50)
    frontier = composed(
        predictor="boosting",
        task="regression",
        strengths=(0.0, 0.5),
        seeds=1,
        boosting={"rounds": 4, "lightgbm": LARGE_LEAVES},
        evaluate_every_rounds=2,
        metrics=["KS-GSP"],
        random_state=0,
    ).fit(x, y, sensitive_features=a)
    np.testing.assert_allclose(frontier.table()["KS-GSP age"], 0)


@pytest.mark.parametrize(
    ("parameter", "value"), [("num_leaves", 1), ("min_data_in_bin", 0), ("max_bin", 1)]
)
def test_a_value_that_lightgbm_refuses_is_refused_in_words(parameter, value):
    x, y, a = rows(60)
    model = FairBoostingRegressor(lightgbm={parameter: value}, rounds=3)
    with pytest.raises(InputError, match=rf"lightgbm must .*'{parameter}': {value}"):
        model.fit(x, y, sensitive_features=a)


@pytest.mark.parametrize("seed", range(12))
def test_every_class_is_among_the_rows_that_train(seed):
    classes = torch.zeros(40, dtype=torch.long)
    classes[:2], classes[39] = 2, 1
    (fitted,) = with_rows_aside([Member(0.5, seed)], 40, classes)
    (plain,) = with_rows_aside([Member(0.5, seed)], 40)
    train = fitted.rows.numbers.tolist()
    assert sorted([*train, *fitted.aside.numbers.tolist()]) == list(range(40))
    assert len(fitted.aside) == len(plain.aside) == 8
    assert set(classes[train].tolist()) == {0, 1, 2}
    if set(classes[plain.rows.numbers].tolist()) == {0, 1, 2}:  # nothing to exchange
        assert fitted.rows == plain.rows


@quietly
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("strength", [0, 0.5])
def test_a_class_of_one_row_may_be_drawn_to_stop_on(classes, strength):
    x, _, a = rows(60)
    y = np.arange(60) % (classes - 1)
    y[-1] = classes - 1
    asides = [with_rows_aside([Member(0.5, seed)], 60)[0].aside.numbers for seed in range(40)]
    drawn = [seed for seed, aside in enumerate(asides) if 59 in aside]
    options = {"rounds": 5, "early_stopping": 2, "members": 1, "random_state": drawn[0]}
    model = FairBoostingClassifier(strength=strength, **options).fit(x, y, sensitive_features=a)
    found = model.predict_proba(x)
    assert found.shape == (60, classes)
    np.testing.assert_allclose(found.sum(1), 1)
    assert 0 < found[0, -1] < 0.5


# ---- the loss that a round minimizes --------------------------------------------------------

#: Errors of 2 and 12 in an outcome of spread 4: half a unit, and three units.
TARGET, OUTPUT, LEVEL, UNIT = [10.0, 20.0], [12.0, 8.0], 15.0, 4.0
BY_HAND = {
    "squared": (0.5**2 + 3.0**2) / 2,
    "absolute": (0.5 + 3.0) / 2,
    "huber": (0.5**2 / 2 + (3.0 - 0.5)) / 2,
}


def as_tensors():
    double = torch.float64
    return (
        torch.tensor(OUTPUT, dtype=double)[None, :, None],
        torch.tensor([TARGET], dtype=double),
        torch.tensor([LEVEL], dtype=double),
        torch.tensor([UNIT], dtype=double),
    )


@pytest.mark.parametrize("task", BY_HAND)
def test_the_loss_of_a_round_is_in_standard_units(task):
    output, target, level, unit = as_tensors()
    found = OBJECTIVES[task].loss(output, target, None, level, unit)
    assert float(found) == pytest.approx(BY_HAND[task])
    weight = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
    first = {"squared": 0.25, "absolute": 0.5, "huber": 0.125}[task]
    assert float(OBJECTIVES[task].loss(output, target, weight, level, unit)) == first


@pytest.mark.parametrize("task", OBJECTIVES)
def test_gradients_are_those_of_the_loss_that_history_and_early_stopping_show(task):
    random = torch.Generator().manual_seed(0)
    width = 3 if task == "multiclass" else 1
    output = torch.randn(1, 20, width, generator=random, dtype=torch.float64)
    target = {
        "binary": torch.arange(20)[None] % 2 * 1.0,
        "multiclass": torch.arange(20)[None] % 3,
    }.get(task, 4 * torch.randn(1, 20, generator=random, dtype=torch.float64))
    objective = OBJECTIVES[task]
    level, unit = (torch.tensor([v if objective.has_units else d]) for v, d in ((1.5, 0), (2.5, 1)))
    output.requires_grad_()
    loss = objective.loss(output, target, None, level.double(), unit.double())
    (gradient,) = torch.autograd.grad(loss.sum(), output)
    found, _ = objective.gradients(output, target, unit.double())
    torch.testing.assert_close(found, 20 * objective.share * unit.double() ** 2 * gradient)


@pytest.mark.parametrize("loss", BY_HAND)
def test_history_and_early_stopping_show_the_same_loss(loss):
    """Of the rows that train the one, of the same rows set aside the other; in any units."""
    x, y, a = rows(80)
    y = 50 * y
    options = {"rounds": 11, "members": 1, "early_stopping": None, "random_state": 0}
    model = FairBoostingRegressor(loss=loss, strength=0, **options)
    model.fit(x, y, sensitive_features=a)
    outcome = read_numbers(y, own_units=True)
    data = training_data(x, outcome, None, None)
    predictor = model.predictor_
    losses = []
    growing = SimpleNamespace(
        objective=OBJECTIVES[loss],
        level=torch.tensor([y.mean()]),
        unit=torch.tensor([y.std()]),
    )
    members = [Member(0.0, 0, aside=RowSet(range(80)))]
    trade_off = TreeTradeOff(growing, predictor, data, members, counts=False, given_outcome=False)
    for rounds in range(11):
        predictor.network.rounds.fill_(rounds)
        if rounds == 0:
            predictor.network.start.fill_(np.median(y) if loss == "absolute" else y.mean())
        losses.append(float(trade_off(torch.zeros(1))))
        predictor.network.start.zero_()
    # A step reports the loss before its round, averaged between checks of ten rounds.
    shown = model.history_.task[:, 0]
    np.testing.assert_allclose(shown, [np.mean(losses[:10]), losses[10]], rtol=1e-5)


def test_rows_that_lightgbm_cannot_grow_on_are_refused_in_words(capfd):
    """Three classes of one row each, and nothing to stop a leaf without weight."""
    options = {"min_data_in_leaf": 1, "min_data_in_bin": 1, "min_sum_hessian_in_leaf": 0.0}
    model = FairBoostingClassifier(strength=0, rounds=2, lightgbm=options, random_state=0)
    X = np.random.default_rng(2).normal(size=(3, 1))
    with pytest.raises(InputError, match=r"lightgbm must .*min_sum_hessian_in_leaf.* Check failed"):
        model.fit(X, ["a", "b", "c"], sample_weight=[1, 2, 3])
