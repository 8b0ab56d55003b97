import pytest
import torch
from simulated_rows import simulate

from equipoise.critic import CriticSettings
from equipoise.errors import InputError
from equipoise.methods import SBP, Context
from equipoise.networks import StackedMLP
from equipoise.notions import Notion
from equipoise.training import (
    TASKS,
    Member,
    Predictor,
    RowSet,
    TrainingData,
    TrainingSettings,
    train,
)
from equipoise.training.data import generators

HALVES = RowSet(range(120)), RowSet(range(120, 240))


def fit(data, members, *, iterations=30, check_every=1, on_check=None):
    seeds = [member.seed for member in members]
    network = StackedMLP(4, (6,), 1, generators=generators(seeds, "predictor")).to(data.x)
    method = SBP(
        Context(
            data=data,
            members=members,
            notion=Notion.INDEPENDENCE,
            critic=CriticSettings(hidden=(6,)),
            density_ratio="none",
        )
    )
    return train(
        data,
        members,
        predictor=Predictor(network, TASKS["binary"]),
        method=method,
        settings=TrainingSettings(
            iterations=iterations, batch_size=20, schedule="constant", check_every=check_every
        ),
        on_check=on_check,
    )


def with_broken_row(data):
    x = data.x.clone()
    x[130] = float("nan")
    return TrainingData(**{**vars(data), "x": x})


def test_a_member_whose_loss_is_not_finite_stops_and_the_others_go_on():
    data = simulate()
    members = [Member(0.5, 1, HALVES[0]), Member(0.5, 1, HALVES[1])]
    broken = fit(with_broken_row(data), members)
    alone = fit(data, members[:1])
    for mine, expected in zip(
        broken.predictor.parameters(), alone.predictor.parameters(), strict=True
    ):
        torch.testing.assert_close(mine[0], expected[0], rtol=1e-7, atol=1e-9)
    stopped_at = int(broken.history.stopped_at[1])
    assert 1 < stopped_at <= 6
    assert broken.history.stopped_at[0] == 0
    # Its weights are those it had before the step that failed.
    before = fit(data, members[1:], iterations=stopped_at - 1)
    for mine, expected in zip(
        broken.predictor.parameters(), before.predictor.parameters(), strict=True
    ):
        torch.testing.assert_close(mine[1], expected[0], rtol=1e-7, atol=1e-9)
    assert broken.health[0].stopped_at == 0
    assert broken.health[1].messages[0] == (
        f"The loss was no longer finite at iteration {stopped_at}: this member (strength 0.5, "
        "seed 1) was stopped and keeps its last good weights. Try a smaller learning_rate or "
        "another divergence."
    )


def test_with_rarer_checks_the_last_good_weights_are_those_of_the_last_check():
    data = simulate()
    member = Member(0.5, 8, HALVES[1])
    broken = fit(with_broken_row(data), [member], iterations=12, check_every=4)
    stopped_at = int(broken.history.stopped_at[0])
    assert stopped_at in (5, 6)
    before = fit(data, [member], iterations=4)
    for mine, expected in zip(
        broken.predictor.parameters(), before.predictor.parameters(), strict=True
    ):
        torch.testing.assert_close(mine, expected, rtol=1e-7, atol=1e-9)
    # Nobody is left, so the run ends at the check that found out.
    assert broken.history.iterations.tolist() == [4, 8]


def test_checks_come_regularly_and_can_end_the_run():
    data = simulate()
    seen = []
    trained = fit(
        data,
        [Member(0.5, 1)],
        check_every=7,
        on_check=lambda iteration, _: seen.append(iteration) or iteration >= 21,
    )
    assert seen == [7, 14, 21]
    assert trained.history.iterations.tolist() == [7, 14, 21]
    assert trained.history.task.shape == trained.history.penalty.shape == (3, 1)


def test_the_last_iteration_is_always_checked():
    trained = fit(simulate(), [Member(0.5, 1)], iterations=10, check_every=7)
    assert trained.history.iterations.tolist() == [7, 10]


def test_a_decaying_learning_rate_ends_at_zero_and_is_full_for_half_the_run():
    settings = TrainingSettings(iterations=100)
    assert [settings.learning_rate_share(t) for t in (0, 50, 75, 100)] == [1.0, 1.0, 0.5, 0.0]
    constant = TrainingSettings(iterations=100, schedule="constant")
    assert constant.learning_rate_share(100) == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": 2.5}, "iterations must be a whole number of at least 1, got 2.5"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 2, got 0"),
        ({"schedule": "cosine"}, "schedule must be 'decay' or 'constant', got 'cosine'"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        TrainingSettings(**options)
