"""Adversarial matching of two groups: the Jensen-Shannon divergence of their scores."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from equipoise.critic import CriticSettings
from equipoise.methods import Context
from equipoise.notions import Notion
from equipoise.training import Member, OptimizerSettings, TrainingData
from experiments.paper.variants import GroupMatching

MEMBERS = [Member(0.5, 0), Member(0.9, 1)]
N = 20_000


def found_value(group, score, y, notion, *, weight=None, iterations=300):
    """Average of the penalty over the last fifth of the iterations, (K,)."""
    data = TrainingData(
        x=score[:, None],
        target=y.float(),
        outcome=y.float()[:, None],
        outcome_class=y,
        attribute=group.float()[:, None],
        attribute_cell=group,
        weight=weight,
    )
    method = GroupMatching(
        Context(
            data=data,
            members=MEMBERS,
            notion=notion,
            critic=CriticSettings(hidden=(16, 16), optimizer=OptimizerSettings(learning_rate=3e-3)),
        )
    )
    order = torch.Generator().manual_seed(1)
    values = []
    for _ in range(iterations):
        rows = torch.randint(len(score), (1, 1000), generator=order).expand(2, -1)
        values.append(method.penalty(data.x[rows], rows, rows).detach())
    return torch.stack(values[-iterations // 5 :]).mean(0).tolist()


def drawn_rows():
    """Y, a group of which 8 in 10 are of class 1 and one of which 2 in 10 are, and noise."""
    generator = torch.Generator().manual_seed(0)
    y = (torch.rand(N, generator=generator) < 0.5).long()
    group = (torch.rand(N, generator=generator) < 0.2 + 0.6 * y).long()
    return group, y, torch.randn(N, generator=generator)


def twice_divergence(shift):
    """Twice the Jensen-Shannon divergence of two normal laws that far apart, by quadrature."""

    def integrand(s):
        laws = stats.norm.pdf(s, [0, shift])
        return (laws * np.log(laws / laws.mean())).sum()

    return integrate.quad(integrand, -8, 8 + shift)[0]


def test_groups_of_one_law_cost_nothing():
    group, y, noise = drawn_rows()
    assert found_value(group, noise, y, Notion.INDEPENDENCE) == pytest.approx([0, 0], abs=0.01)


def test_the_best_critic_attains_the_loss_of_a_gan():
    """Goodfellow et al. 2014, theorem 1: its best value, less that of guessing, is 2 JS."""
    group, y, noise = drawn_rows()
    found = found_value(group, noise + 1.2 * group, y, Notion.INDEPENDENCE)
    assert found == pytest.approx([twice_divergence(1.2)] * 2, abs=0.025)


def test_separation_is_satisfied_by_a_score_that_knows_only_the_outcome():
    group, y, noise = drawn_rows()
    assert min(found_value(group, noise + 2 * y, y, Notion.INDEPENDENCE, iterations=150)) > 0.15
    found = found_value(group, noise + 2 * y, y, Notion.SEPARATION)
    assert found == pytest.approx([0, 0], abs=0.01)


def test_separation_sees_what_the_group_adds_to_the_outcome():
    group, y, noise = drawn_rows()
    found = found_value(group, noise + 2 * y + 1.2 * group, y, Notion.SEPARATION)
    assert found == pytest.approx([twice_divergence(1.2)] * 2, abs=0.03)


def test_rows_without_weight_do_not_count():
    group, y, noise = drawn_rows()
    shifted = noise + 1.2 * group * (torch.arange(N) % 2)
    weight = 2.0 * (torch.arange(N) % 2 == 0)
    assert min(found_value(group, shifted, y, Notion.INDEPENDENCE, iterations=150)) > 0.03
    found = found_value(group, shifted, y, Notion.INDEPENDENCE, weight=weight)
    assert found == pytest.approx([0, 0], abs=0.015)
