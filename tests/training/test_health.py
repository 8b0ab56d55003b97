import numpy as np
import pytest
import torch
from simulated_rows import simulate

from equipoise.networks import StackedMLP
from equipoise.training import TASKS, History, Member, Predictor, TrainingData
from equipoise.training.health import HEALTH_ROWS, diagnose, judge_health


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
        (0.5, 0.95, "At strength 0.95 the critic still sees a plain dependence (value 0.50)"),
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
        network.head_weight.fill_(1.0)
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
