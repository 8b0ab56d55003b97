from dataclasses import replace
from math import sqrt

import numpy as np
import pandas as pd
import pytest
import torch
from simulated_rows import simulate
from sklearn.metrics import r2_score, roc_auc_score

from equipoise import FairBoostingClassifier, FairClassifier
from equipoise.errors import ConvergenceWarning
from equipoise.estimators.fitting import utilities_of
from equipoise.networks import StackedMLP
from equipoise.training import TASKS, Health, History, Member, Predictor, RowSet, TrainingData
from equipoise.training.health import HEALTH_ROWS, Utility, compare, diagnose, judge_health
from equipoise.training.stopping import set_aside
from tests.composing import composed


def judged(penalty, *, score, strength=0.95, given_outcome=False):
    data = simulate()
    return diagnose(data, score(data), Member(strength, 0), penalty, 0, given_outcome=given_outcome)


def follows_age(data):
    return data.attribute[:, :1]


def test_the_correlation_is_the_largest_of_all_columns():
    data = simulate()
    health = judged(0.1, score=lambda _: data.x[:, 1:2])
    expected = max(
        abs(np.corrcoef(data.x[:, 1], data.attribute[:, column])[0, 1]) for column in (0, 1)
    )
    assert health.correlation == pytest.approx(expected, abs=1e-9)


def test_given_the_outcome_only_partial_correlation_counts():
    """A score that is the outcome itself depends on A, but not given Y."""
    marginal = judged(0.1, score=lambda data: data.outcome)
    partial = judged(0.1, score=lambda data: data.outcome, given_outcome=True)
    assert marginal.correlation > 0.2
    assert partial.correlation == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("penalty", "strength", "beginning"),
    [
        (-0.02, 0.5, "The critic collapsed: its value -0.0200 is worse than guessing (0)"),
        (0.0002, 0.5, "The critic collapsed: it sees no dependence (value 0.0002) although score"),
        (0.5, 0.95, "At strength 0.95 the critic still sees a strong dependence (value 0.50)"),
    ],
)
def test_what_is_wrong_is_said(penalty, strength, beginning):
    health = judged(penalty, score=follows_age, strength=strength)
    (message,) = health.messages
    assert message.startswith(beginning)


@pytest.mark.parametrize(("penalty", "strength"), [(0.1, 0.95), (0.5, 0.5)])
def test_nothing_is_said_when_all_is_well(penalty, strength):
    assert judged(penalty, score=follows_age, strength=strength).ok


def test_rows_in_order_are_judged_by_all_of_them():
    """The first rows alone would show a score that follows the attribute as a constant."""
    ramp = torch.linspace(-1, 1, 3 * HEALTH_ROWS)
    ramp = torch.cat([torch.zeros(HEALTH_ROWS), ramp])[:, None]
    data = TrainingData(x=ramp, target=ramp[:, 0], outcome=ramp, attribute=ramp)
    network = StackedMLP(1, (), 1, generators=[torch.Generator().manual_seed(0)])
    with torch.no_grad():
        network.head.weight.fill_(1.0)
    history = History(np.array([50]), np.zeros((1, 1)), np.zeros((1, 1)), np.array([0]))
    (health,) = judge_health(
        Predictor(network, TASKS["squared"]),
        data,
        [Member(0.5, 0)],
        history,
        given_outcome=False,
        has_critic=True,
    )
    assert health.score_spread == pytest.approx(1, abs=1e-6)
    assert health.correlation == pytest.approx(1, abs=1e-6)
    assert health.messages[0].startswith("The critic collapsed: it sees no dependence")


def test_a_sample_is_the_same_every_time_and_all_rows_if_there_are_no_more():
    data = simulate()
    assert data.sample(240) is data
    first, second = data.sample(50), data.sample(50)
    assert torch.equal(first.x, second.x) and torch.equal(first.attribute, second.attribute)
    place = [(data.x == row).all(1).nonzero().item() for row in first.x]
    assert len(set(place)) == 50 and max(place) > 150
    assert torch.equal(first.target, data.target[place])


def test_plain_training_has_no_critic_to_judge():
    health = judged(0.0, score=follows_age, strength=0.0)
    assert health.ok
    assert health.correlation is None
    assert health.critic_value is None


def noise(n, task="classification", columns=30):
    """Rows whose outcome nothing tells."""
    random = np.random.default_rng(1)
    features = pd.DataFrame(random.normal(size=(n, columns))).add_prefix("x")
    y = random.normal(size=n) if task == "regression" else random.integers(0, 2, n)
    return features, y, pd.DataFrame({"group": random.choice(["a", "b"], n)})


def linear(n):
    """Rows whose outcome is a sum of four columns and noise."""
    random = np.random.default_rng(2)
    features = pd.DataFrame(random.normal(size=(n, 4))).add_prefix("x")
    y = (features.sum(axis=1) + random.logistic(size=n) > 0).astype(int).to_numpy()
    return features, y, pd.DataFrame({"group": random.choice(["a", "b"], n)})


def frontier_of(X, y, A, *, task="classification", **options):
    options = {"iterations": 300, "hidden": (64,), "strengths": (0.0,), "seeds": 1} | options
    frontier = composed(task=task, metrics=("KS-GSP",), random_state=0, **options)
    return frontier.fit(X, y, sensitive_features=A)


def test_random_labels_are_named_as_overfitting_and_as_chance():
    X, y, A = noise(600)
    frontier = frontier_of(X, y, A)
    selection = frontier.select(max_unfairness=1.0, draws=2, allow_useless=True)
    model = selection.model
    health, split = model.health_, frontier.split_
    score = model.predict_proba(X)[:, 1]
    trained, other = (
        roc_auc_score(y[rows], score[rows]) for rows in (split.train, split.validation)
    )
    assert health.utility == "AUC"
    assert health.training_utility == pytest.approx(trained, abs=1e-12)
    assert health.held_out_utility == pytest.approx(other, abs=1e-12)
    overfits, chance = health.messages
    assert f"AUC {trained:.3f} on training rows, {other:.3f} on validation rows" in overfits
    assert "iterations" in overfits and "weight_decay" in overfits and "hidden" in overfits
    assert "may say nothing about the outcome" in chance and f"AUC {other:.3f}" in chance
    # What the model says is in the printed report, and the last iteration among the members.
    said = " ".join(str(selection).split())
    assert all(f"Training: {message}" in said for message in health.messages)
    assert "overfits" in frontier.members()["health"][0]


def test_numbers_that_nothing_tells_are_named_too():
    X, y, A = noise(600, "regression")
    frontier = frontier_of(X, y, A, task="regression", linear_path=False, iterations=1000)
    last = frontier.table().index[-1]
    health = frontier.fitted_curve().trained[0].member_health[0]
    assert health.utility == "R2"
    assert health.held_out_utility == frontier.table().loc[last, "utility"] < 0
    overfits, chance = health.messages
    assert f"R2 {health.training_utility:.3f} on training rows" in overfits
    assert "may say nothing about the outcome" in chance


def test_r2_on_training_rows_is_that_of_the_model():
    X, y, A = noise(600, "regression", columns=3)
    frontier = frontier_of(X, 50 + 7 * y, A, task="regression", iterations=20)
    model = frontier.select(max_unfairness=1.0, draws=2, allow_useless=True).model
    train = frontier.split_.train
    expected = r2_score(50 + 7 * y[train], model.predict(X.iloc[train]))
    assert model.health_.training_utility == pytest.approx(expected, abs=1e-6)


def test_a_linear_truth_with_plenty_of_rows_is_healthy():
    frontier = frontier_of(*linear(3000), hidden=(), learning_rate=0.02, embedding="none")
    assert frontier.members()["health"].str.startswith("healthy: AUC ").all()
    model = frontier.select(max_unfairness=1.0, draws=2).model
    health = model.health_
    assert health.ok and health.held_out_utility > 0.8
    assert str(health) == (
        f"healthy: AUC {health.training_utility:.3f} on training rows, "
        f"{health.held_out_utility:.3f} on validation rows"
    )


def test_without_rows_set_aside_overfitting_is_not_checked():
    X, y, _ = noise(300)
    # No warning either, which would be an error here.
    health = (
        FairClassifier(strength=0, iterations=50, early_stopping=None, random_state=0)
        .fit(X, y)
        .health_
    )
    assert health.ok and health.utility is None and health.held_out_utility is None
    assert "not checked" in str(health) and "there were no other rows" in str(health)


def test_trees_that_stop_early_are_judged_by_rows_they_did_not_see():
    X, y, A = noise(400)
    # Hardly any penalty: without one a linear model, which learns no noise, has a share.
    options = {"strength": 1e-6, "rounds": 60, "early_stopping": 60, "members": 1}
    options |= {"learning_rate": 0.08, "random_state": 5}
    model = FairBoostingClassifier(**options)
    with pytest.warns(ConvergenceWarning) as warned:
        model.fit(X, y, sensitive_features=A)
    health = model.health_
    rows, aside = set_aside(5, None, 400, 0.2, needed_by="early_stopping")
    rows = rows.numbers
    score = model.predict_proba(X)[:, 1]
    for value, part in ((health.training_utility, rows), (health.held_out_utility, aside)):
        assert value == pytest.approx(roc_auc_score(y[list(part)], score[list(part)]), abs=1e-12)
    assert tuple(str(each.message) for each in warned) == health.messages
    assert any("on set-aside rows" in message for message in health.messages)
    assert health.score_spread == pytest.approx(
        np.std(score[list(rows)], ddof=1) / np.std(y[list(rows)], ddof=1), rel=1e-6
    )


def test_the_error_of_an_auc_is_that_of_the_rank_test_where_nothing_is_known():
    m, n = 40, 70
    assert Utility("AUC", 0.5, (m, n)).error == pytest.approx(sqrt((m + n + 1) / (12 * m * n)))
    assert Utility("AUC", 0.5, (m, n)).chance == pytest.approx(
        0.5 + 1.645 * sqrt((m + n + 1) / (12 * m * n))
    )
    # The mean of three classes of one size is as sure as each against the rest, at least.
    assert Utility("macro AUC", 0.5, (30, 30, 30)).error == pytest.approx(
        sqrt((90 + 1) / (12 * 30 * 60))
    )


@pytest.mark.parametrize("name", ["AUC", "R2"])
def test_a_useless_score_stays_below_chance_in_95_percent_of_samples(name):
    """Scores that are independent of the outcome, at their best scale for R2."""
    random = np.random.default_rng(0)
    above = 0
    for _ in range(2000):
        score, y = random.normal(size=100), random.normal(size=100)
        if name == "AUC":
            found = Utility(
                "AUC", roc_auc_score(y > 0, score), (int((y > 0).sum()), int((y <= 0).sum()))
            )
        else:
            r = np.corrcoef(score, y)[0, 1]
            # A score with the wrong sign explains less than nothing.
            found = Utility("R2", r**2 if r > 0 else -1.0, (100,))
        above += found.value > found.chance
    assert above / 2000 == pytest.approx(0.05, abs=3 * sqrt(0.05 * 0.95 / 2000))


def well(**changes):
    return replace(Health(0.5, None, None, 0, ()), **changes)


def compared(trained, other, *, strength=0.0, health=None, sizes=(100, 100)):
    return compare(
        health or well(),
        strength,
        Utility("AUC", trained, (1000, 1000)),
        Utility("AUC", other, sizes),
        part="validation",
        remedy="fewer iterations",
    )


def test_overfitting_is_a_difference_above_the_margin_and_two_errors():
    error = sqrt(Utility("AUC", 0.9, (1000, 1000)).error ** 2)
    for excess, named in ((-1e-6, False), (1e-6, True)):
        # Find the utility elsewhere at which the difference is the margin and two errors.
        low, high = 0.5, 0.9
        for _ in range(60):
            middle = (low + high) / 2
            both = sqrt(error**2 + Utility("AUC", middle, (100, 100)).error ** 2)
            low, high = (low, middle) if 0.9 - middle < 0.05 + 2 * both else (middle, high)
        messages = compared(0.9, low - excess).messages
        assert [("overfits" in message) for message in messages] == [True] * named


def test_a_strong_penalty_is_named_as_what_took_the_outcome_out_of_the_score():
    (message,) = compared(0.52, 0.51, strength=0.95).messages
    assert "may say nothing about the outcome" in message and "strength 0.95" in message
    assert "Lower it" in message


def test_a_constant_score_is_told_once():
    told = well(score_spread=0.001, messages=("The score is nearly constant",))
    assert compared(0.5, 0.5, health=told).messages == told.messages


def test_an_undefined_utility_leaves_overfitting_unchecked():
    assert compared(0.9, float("nan")) == well()


def test_weighted_rows_count_as_fewer():
    """A row of weight w among others says less than w rows, and equal weights change nothing."""
    y = torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0])
    scores = torch.tensor([0.1, 0.6, 0.5, 0.7, 0.9], dtype=torch.float64)[None, :, None]
    rows = TrainingData(x=y, target=y, outcome=y, outcome_class=y.long())
    (plain,) = utilities_of(scores, rows, "AUC")
    assert plain.sizes == (2, 3) and plain.value == pytest.approx(5 / 6, abs=1e-12)
    (equal,) = utilities_of(scores, replace(rows, weight=torch.full((5,), 3.0)), "AUC")
    assert equal.sizes == pytest.approx((2, 3)) and equal.value == pytest.approx(plain.value)
    weight = torch.tensor([1.0, 3.0, 1.0, 1.0, 4.0])
    (found,) = utilities_of(scores, replace(rows, weight=weight), "AUC")
    expected = roc_auc_score(y, scores[0, :, 0], sample_weight=weight)
    assert found.value == pytest.approx(expected, abs=1e-12)
    assert found.sizes == pytest.approx((16 / 10, 36 / 18))


def test_a_sample_is_of_a_members_own_rows():
    data = simulate()
    own = range(1, 240, 2)
    for size in (30, 120, 500):
        found = data.sample(size, RowSet(own))
        place = [(data.x == row).all(1).nonzero().item() for row in found.x]
        assert len(set(place)) == min(size, 120) and set(place) <= set(own)
