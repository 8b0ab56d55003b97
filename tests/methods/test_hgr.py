import math

import numpy as np
import pytest
import torch

from equipoise.critic import CriticSettings
from equipoise.methods import Context
from equipoise.methods.hgr import SoftHGR, soft_correlation
from equipoise.notions import Notion
from equipoise.training import Member, OptimizerSettings, TrainingData

CORRELATION = 0.6
MEMBERS = [Member(0.5, 0), Member(0.9, 1)]


def gaussian_rows(n, *, given_y=0.0):
    """Score, A and Y jointly Gaussian: score and A correlate, and both move with Y."""
    generator = torch.Generator().manual_seed(0)
    score, noise, y = torch.randn(3, n, generator=generator)
    a = CORRELATION * score + math.sqrt(1 - CORRELATION**2) * noise
    return score + given_y * y, a + given_y * y, y


def trained(score, a, y, notion, iterations):
    """Average of the penalty over the last fifth of the iterations, (K,)."""
    data = TrainingData(x=score[:, None], target=y, outcome=y[:, None], attribute=a[:, None])
    method = SoftHGR(
        Context(
            data=data,
            members=MEMBERS,
            notion=notion,
            critic=CriticSettings(hidden=(16,), optimizer=OptimizerSettings(learning_rate=5e-3)),
        )
    )
    order = torch.Generator().manual_seed(1)
    values = []
    for _ in range(iterations):
        rows = torch.randint(len(score), (1, 1000), generator=order).expand(2, -1)
        values.append(method.penalty(data.x[rows], rows, rows).detach())
    return torch.stack(values[-iterations // 5 :]).mean(0)


def test_networks_find_half_the_squared_correlation_of_a_gaussian_pair():
    """The maximal correlation of a Gaussian pair is its correlation (Lancaster 1957)."""
    found = trained(*gaussian_rows(20_000), Notion.INDEPENDENCE, 300)
    assert found.tolist() == pytest.approx([CORRELATION**2 / 2] * 2, rel=0.06)


def test_separation_counts_what_the_attribute_adds_to_the_outcome():
    """For Gaussians the maximal correlation with (A, Y) is the multiple correlation."""
    score, a, y = gaussian_rows(20_000, given_y=1.0)
    correlations = np.corrcoef(torch.stack([score, a, y]).numpy())
    of_both = correlations[0, 1:] @ np.linalg.solve(correlations[1:, 1:], correlations[1:, 0])
    of_outcome = correlations[0, 2] ** 2
    found = trained(score, a, y, Notion.SEPARATION, 300)
    assert found.tolist() == pytest.approx([(of_both - of_outcome) / 2] * 2, rel=0.1)


def test_separation_is_satisfied_by_a_score_that_knows_only_the_outcome():
    _, a, y = gaussian_rows(20_000, given_y=1.0)
    noise = torch.randn(20_000, generator=torch.Generator().manual_seed(7))
    independence = trained(y + noise, a, y, Notion.INDEPENDENCE, 150)
    separation = trained(y + noise, a, y, Notion.SEPARATION, 300)
    assert (independence > 0.05).all()
    assert (separation.abs() < 0.01).all()


def test_networks_for_separation_are_four_and_for_independence_two():
    score, a, y = gaussian_rows(50)
    data = TrainingData(x=score[:, None], target=y, outcome=y[:, None], attribute=a[:, None])
    counts = {}
    for notion in Notion:
        method = SoftHGR(
            Context(
                data=data,
                members=MEMBERS,
                notion=notion,
                critic=CriticSettings(hidden=()),
            )
        )
        counts[str(notion)] = [
            layer.shape for layer in method.networks.parameters() if layer.dim() == 3
        ]
    assert counts["independence"] == [(2, 1, 1)] * 2
    # The joint variable (A, Y) has two columns; a product of A and Y would have one.
    assert counts["separation"] == [(2, 1, 1), (2, 1, 2), (2, 1, 1), (2, 1, 1)]


def test_the_formula_on_four_rows():
    f = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
    g = torch.tensor([[0.0, 1.0, 0.0, 3.0]])
    even = torch.full((1, 4), 0.25)
    covariance = np.cov(f[0], g[0], bias=True)
    expected = covariance[0, 1] - covariance[0, 0] * covariance[1, 1] / 2
    assert soft_correlation(f, g, even).item() == pytest.approx(expected, rel=1e-6)
    # A weight counts rows.
    weight = torch.tensor([[0.4, 0.2, 0.2, 0.2]])
    repeated = soft_correlation(
        f[:, [0, 0, 1, 2, 3]], g[:, [0, 0, 1, 2, 3]], torch.full((1, 5), 0.2)
    )
    assert soft_correlation(f, g, weight).item() == pytest.approx(repeated.item(), rel=1e-5)
