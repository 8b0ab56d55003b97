"""Attributes drawn given the outcome: by rows of like outcome, and by the conditional GAN."""

import re

import numpy as np
import pytest
import torch
from method_settings import Setting, simulated
from scipy import stats
from test_method_laws import Watch

from equipoise import FairClassifier
from equipoise.critic import CriticSettings
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.methods import Context, con, icp, methods_for
from equipoise.methods.con import conditional_resampling, draw_attributes, indicators
from equipoise.methods.conditional import DRAWS, Donors, covariance_gap, near_rows
from equipoise.methods.declaration import Problem
from equipoise.notions import Notion
from equipoise.training import Member, OptimizerSettings, RowSet, TrainingData, run_phase

ASLEEP = OptimizerSettings(kind="sgd", learning_rate=1e-30, momentum=0.0)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def built(data, members, critic=ASLEEP):
    method = conditional_resampling(
        Context(
            data=data,
            members=members,
            notion=Notion.SEPARATION,
            critic=CriticSettings(optimizer=critic),
        )
    )
    for phase in method.phases:
        run_phase(phase)
    return method


def discrete_rows(n):
    """A of three groups whose shares move with a Y of two classes."""
    generator = seeded()
    y = torch.rand(n, generator=generator) < 0.4
    chance = torch.where(y[:, None], torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0.6, 0.3, 0.1]))
    cell = torch.multinomial(chance, 1, generator=generator)[:, 0]
    return TrainingData(
        x=torch.rand(n, 1, generator=generator),
        target=y.float(),
        outcome=y.float()[:, None],
        outcome_class=y.long(),
        attribute=torch.nn.functional.one_hot(cell, 3).float(),
        attribute_cell=cell,
    )


def test_discrete_draws_follow_the_shares_of_the_training_rows():
    """Maximum likelihood: P(A | Y) by counts, on the member's own rows."""
    data = discrete_rows(2000)
    donors = built(data, [Member(0.5, 0)]).donors.table[0]
    assert (data.outcome_class[donors] == data.outcome_class).all()
    for y in (0, 1):
        of_class = data.outcome_class == y
        shares = np.bincount(data.attribute_cell[of_class], minlength=3) / int(of_class.sum())
        drawn = np.bincount(data.attribute_cell[donors[:, of_class]].ravel(), minlength=3)
        assert stats.chisquare(drawn, shares * drawn.sum()).pvalue > 0.01
        # What is drawn tells nothing of what it stands in for.
        own = data.attribute_cell[of_class].expand(DRAWS, -1).ravel()
        table = np.zeros((3, 3))
        np.add.at(table, (own, data.attribute_cell[donors[:, of_class]].ravel()), 1)
        assert stats.chi2_contingency(table).pvalue > 0.01


def test_chances_are_proportional_to_weights():
    outcome = torch.tensor([1, 0, 1, 1, 0])
    weight = torch.tensor([1.0, 0.0, 2.0, 5.0, 3.0])
    drawn = near_rows(outcome, weight, 0, draws=4000, generator=seeded())
    assert (drawn[:, [1, 4]] == 4).all()  # a row of weight 0 is never a donor
    for column in (0, 2, 3):
        counts = torch.bincount(drawn[:, column], minlength=5)[[0, 2, 3]]
        assert stats.chisquare(counts, 4000 * np.array([1, 2, 5]) / 8).pvalue > 0.01


def test_near_rows_are_those_within_reach_and_all_that_tie_with_them():
    outcome = torch.tensor([0.3, 0.1, 0.9, 0.1, 0.5, 0.7, 0.3])
    drawn = near_rows(outcome, torch.ones(7), 1, draws=2000, generator=seeded())
    # In order: rows 1, 3 (0.1 each), 0, 6 (0.3 each), 4 (0.5), 5 (0.7), 2 (0.9).
    expected = [{1, 3, 0, 6}, {1, 3}, {5, 2}, {1, 3, 0, 6}, {0, 6, 4, 5}, {4, 5, 2}, {0, 6, 4}]
    assert [set(column.tolist()) for column in drawn.T] == expected


def gaussian_rows(n):
    """A = 0.6 Y + 0.8 noise, both of variance 1."""
    y, noise = torch.randn(2, n, generator=seeded())
    a = 0.6 * y + 0.8 * noise
    return TrainingData(x=y[:, None], target=y, outcome=y[:, None], attribute=a[:, None])


def partial_correlation(left, right, given):
    left, right = (v - np.polyval(np.polyfit(given, v, 1), given) for v in (left, right))
    return np.corrcoef(left, right)[0, 1]


def test_near_a_continuous_outcome_draws_keep_the_law_of_both_and_nothing_more():
    data = gaussian_rows(4000)
    donors = built(data, [Member(0.5, 0)]).donors.table[0]
    a, y = data.attribute[:, 0].numpy(), data.target.numpy()
    for drawn in a[donors[:4]]:
        assert np.corrcoef(drawn, y)[0, 1] == pytest.approx(0.6, abs=0.04)
        assert stats.ks_2samp(drawn, a).pvalue > 0.01
        assert abs(partial_correlation(a, drawn, y)) < 0.05


def test_a_member_draws_from_its_own_rows_of_known_attributes():
    data = discrete_rows(60)
    known = torch.arange(60) % 5 > 0
    data = TrainingData(**(vars(data) | {"known": known}))
    even, odd = tuple(range(0, 60, 2)), tuple(range(1, 60, 2))
    members = [
        Member(0.1, 0, RowSet(even)),
        Member(0.9, 0, RowSet(even)),
        Member(0.9, 3, RowSet(odd)),
    ]
    donors = built(data, members).donors
    assert donors.table.shape == (2, DRAWS, 60)  # members of equal seed and rows share theirs
    for number, rows in enumerate((even, odd)):
        own = torch.tensor([row for row in rows if known[row]])
        drawn = donors.table[number][:, own]
        assert set(drawn.ravel().tolist()) <= set(own.tolist())
        assert (data.outcome_class[drawn] == data.outcome_class[own]).all()
    # Rows that are never drawn for stand in for themselves.
    assert (donors.table[:, :, 0] == 0).all()
    rows = torch.tensor([even[:4], even[:4], odd[:4]])
    picked = donors(rows, torch.tensor([[0, 17, 33, 5]] * 3))
    assert torch.equal(picked[0], picked[1])
    expected = [donors.table[1, draw, row] for draw, row in zip((0, 1, 1, 5), odd[:4], strict=True)]
    assert picked[2].tolist() == expected


def test_the_covariance_term_is_the_difference_of_covariances():
    generator = seeded()
    score, a, drawn = (torch.randn(1, 30, width, generator=generator) for width in (1, 2, 2))
    weight = torch.rand(1, 30, generator=generator)
    weight /= weight.sum()
    expected = 0.0
    for column in range(2):
        of_real, of_drawn = (
            np.cov(score[0, :, 0], v[0, :, column], aweights=weight[0], bias=True)[0, 1]
            for v in (a, drawn)
        )
        expected += (of_real - of_drawn) ** 2
    found = covariance_gap(score, a, drawn, weight)
    assert found.item() == pytest.approx(expected, rel=1e-4)


def test_before_a_critic_has_learnt_anything_the_covariance_term_is_the_penalty():
    data = discrete_rows(200)
    method = built(data, [Member(0.5, 0)])
    rows, resampled = torch.arange(100)[None], torch.arange(100, 200)[None]
    score = data.attribute[:100, :1] + data.x[:100]
    found = method.penalty(score[None], rows, resampled)
    drawn = data.attribute[method.donors(rows, resampled)]
    expected = covariance_gap(score[None], data.attribute[rows], drawn, torch.full((1, 100), 0.01))
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    assert found.item() > 0.01


def mixed_rows(n):
    """Age-like a as above, and a group whose chance moves with Y."""
    data = gaussian_rows(n)
    group = torch.rand(n, generator=seeded(7)) < (2 * data.target).sigmoid()
    attribute = torch.cat([data.attribute, group.float()[:, None]], 1)
    return TrainingData(**(vars(data) | {"attribute": attribute}))


def test_the_gan_draws_with_the_right_mean_spread_and_shares_given_the_outcome():
    data = mixed_rows(3000)
    assert indicators(data, data.attribute).tolist() == [False, True]
    gan = built(data, [Member(0.5, 0)]).phases[0].step.modules
    y = data.target
    drawn = draw_attributes(gan, 0, data.outcome, seeded()).numpy()
    # A discrete attribute is a share of belonging, until it is binned.
    assert ((drawn[..., 1] >= 0) & (drawn[..., 1] <= 1)).all()
    for low, high in ((-1.5, -0.5), (-0.5, 0.5), (0.5, 1.5)):
        near = ((y >= low) & (y < high)).numpy()
        mean = 0.6 * y[near].mean().item()
        assert drawn[:, near, 0].mean() == pytest.approx(mean, abs=0.3)
        assert (drawn[:, near, 0] - 0.6 * y[near].numpy()).std() == pytest.approx(0.8, abs=0.3)
        share = (2 * y[near]).sigmoid().mean().item()
        assert (drawn[:, near, 1] > 0.5).mean() == pytest.approx(share, abs=0.12)


def test_mixed_attributes_are_drawn_by_the_gan_and_stay_possible():
    """Donors are rows, so a draw never shows two groups at once, or none."""
    setting = Setting("con", "separation", "classification")
    data, _, y = simulated(setting, 1500, seed=0)
    donors = built(data, [Member(0.5, 0)]).donors.table[0]
    groups = data.attribute[:, indicators(data, data.attribute)]
    assert (groups[donors].sum(-1) == 1).all()
    # Not rows of equal outcome: a generator knows classes only through what it has learned.
    assert (data.outcome_class[donors] != data.outcome_class).any()
    for value in np.unique(y):
        of_class = torch.from_numpy(y == value)
        drawn = groups[donors[:, of_class]].mean((0, 1))
        torch.testing.assert_close(drawn, groups[of_class].mean(0), rtol=0, atol=0.15)


def test_independence_is_refused_with_the_methods_that_have_it():
    drawn = make_synthetic(100, random_state=0)
    asked = Problem(
        notion=Notion.INDEPENDENCE, continuous=("age",), discrete=("group",), groups=3, classes=2
    )
    able = ", ".join(map(repr, methods_for(asked)))
    message = (
        "method='con' does not support notion='independence'; methods that support this run: "
        f"{able}"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        FairClassifier(method="con").fit(drawn.X, drawn.y, sensitive_features=drawn.A)


def test_draws_belong_to_the_seed():
    data = discrete_rows(100)

    def table(seed):
        return built(data, [Member(0.5, seed)]).donors.table

    assert torch.equal(table(0), table(0))
    assert not torch.equal(table(0), table(1))


def test_a_table_of_donors_asks_for_each_stream_once():
    data = discrete_rows(10)
    asked = []

    def draw(number, available, generator):
        asked.append((number, available.tolist()))
        return torch.zeros(DRAWS, len(available), dtype=torch.long)

    Donors(data, [Member(0.1, 0), Member(0.2, 0), Member(0.3, 1, RowSet([4, 2]))], draw).fill()
    assert asked == [(0, list(range(10))), (1, [4, 2])]


def test_what_is_trained_beforehand_never_waits_for_the_device_either(monkeypatch):
    """Its steps are captured as a CUDA graph like those of training."""
    # Adam on a CPU counts its steps there, which it does not do on a device.
    for module, name in (
        (con, "CRITIC_OPTIMIZER"),
        (con, "GENERATOR_OPTIMIZER"),
        (icp, "OPTIMIZER"),
    ):
        monkeypatch.setattr(module, name, ASLEEP)
    data = mixed_rows(40)
    rows = torch.arange(40).view(2, 20)
    for training in (
        con.GANTraining(data, data.attribute, [0, 1]),
        icp.OutcomeDensity(data, data.attribute, [0, 1]),
    ):
        with Watch():
            losses = training.update(rows, rows.flip(1))
        assert [loss.shape for loss in losses] == [(2,), (2,)]
