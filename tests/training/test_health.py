import numpy as np
import pytest
from simulated_rows import simulate

from equipoise.training import History, Member
from equipoise.training.health import diagnose


def judged(penalty, *, score, strength=0.95, given_outcome=False):
    data = simulate()
    history = History(
        iterations=np.array([50]),
        task=np.array([[0.5]]),
        penalty=np.array([[penalty]]),
        stopped_at=np.array([0]),
    )
    penalised = score(data)
    return diagnose(penalised, data, Member(strength, 0), history, 0, given_outcome=given_outcome)


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


def test_plain_training_has_no_critic_to_judge():
    health = judged(0.0, score=follows_age, strength=0.0)
    assert health.ok
    assert health.correlation is None
    assert health.critic_value is None
