"""Permutations given the outcome: their exact law, and the densities behind them."""

import itertools

import numpy as np
import pytest
import torch
from scipy import special, stats
from sklearn.linear_model import LogisticRegression

from equipoise import FairClassifier
from equipoise.critic import CriticSettings
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.methods import Context, methods_for
from equipoise.methods.declaration import Problem
from equipoise.methods.icp import (
    class_log_density,
    inverse_conditional_permutation,
    normal_log_density,
    permutations,
)
from equipoise.notions import Notion
from equipoise.training import Member, RowSet, TrainingData, run_phase
from tests.error_parts import says


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def built(data, members):
    method = inverse_conditional_permutation(
        Context(
            data=data,
            members=members,
            notion=Notion.SEPARATION,
            critic=CriticSettings(hidden=(4,)),
        )
    )
    run_phase(*method.phases)
    return method


def density(data, seeds):
    """The networks that describe Y given A, trained."""
    method = built(data, [Member(0.5, seed) for seed in seeds])
    return method.phases[0].step.modules


def test_densities_are_those_of_scipy():
    y, mean, log_variance = torch.randn(3, 20, dtype=torch.float64, generator=seeded())
    found = normal_log_density(y, torch.stack([mean, log_variance], -1))
    expected = stats.norm.logpdf(y.numpy(), mean.numpy(), (log_variance / 2).exp().numpy())
    np.testing.assert_allclose(found, expected)
    logits = torch.randn(20, 3, dtype=torch.float64, generator=seeded(1))
    classes = torch.arange(20) % 3
    expected = special.log_softmax(logits.numpy(), 1)[np.arange(20), classes]
    np.testing.assert_allclose(class_log_density(classes, logits), expected)


def test_permutations_of_four_rows_have_their_exact_probabilities():
    """All 24 enumerated: the probability of p is proportional to the product of q(y_i | a_p(i))."""
    y = torch.tensor([-1.0, 0.2, 0.4, 1.5], dtype=torch.float64)
    described = torch.tensor([[-0.8, 0.1], [0.0, -0.5], [0.9, 0.3], [0.5, 0.0]]).double()
    draws = 6000
    # Chains share their pairs, so a handful of runs stands for the choice of pairs.
    found = torch.cat(
        [
            permutations(y, described, normal_log_density, draws=draws // 100, generator=seeded(s))
            for s in range(100)
        ]
    )
    every = list(itertools.permutations(range(4)))
    mean, spread = described[:, 0].numpy(), (described[:, 1] / 2).exp().numpy()
    log_chance = [stats.norm.logpdf(y.numpy(), mean[list(p)], spread[list(p)]).sum() for p in every]
    counts = [(found == torch.tensor(p)).all(1).sum().item() for p in every]
    assert sum(counts) == draws
    expected = draws * special.softmax(log_chance)
    assert expected.min() > 5
    assert stats.chisquare(counts, expected).pvalue > 0.01


def gaussian_rows(n):
    """A = 0.6 Y + 0.8 noise, so that Y given A is normal with mean 0.6 A and variance 0.64."""
    y, noise = torch.randn(2, n, generator=seeded())
    a = 0.6 * y + 0.8 * noise
    return TrainingData(x=y[:, None], target=y, outcome=y[:, None], attribute=a[:, None])


def test_permuted_gaussian_pairs_keep_their_joint_law_and_forget_their_partners():
    data = gaussian_rows(3000)
    table = built(data, [Member(0.5, 0)]).donors.table[0]
    a, y = data.attribute[:, 0].numpy(), data.target.numpy()
    assert torch.equal(table.sort(1).values, torch.arange(3000).expand_as(table))
    together = np.corrcoef(a, y)[0, 1]
    residual = a - 0.6 * y
    for drawn in a[table[:4]]:
        assert np.corrcoef(drawn, y)[0, 1] == pytest.approx(together, abs=0.04)
        permuted = drawn - 0.6 * y
        assert stats.ks_2samp(permuted, residual).pvalue > 0.01
        assert abs(np.corrcoef(permuted, residual)[0, 1]) < 0.05


def test_the_normal_density_of_a_gaussian_pair_is_learned():
    data = gaussian_rows(3000)
    network = density(data, [0, 1])
    a = torch.linspace(-1.5, 1.5, 7)
    with torch.no_grad():
        mean, log_variance = network(a[None, :, None].expand(2, -1, -1)).unbind(-1)
    np.testing.assert_allclose(mean, (0.6 * a).expand(2, -1), atol=0.12)
    np.testing.assert_allclose(log_variance.exp(), 0.64, atol=0.16)


def class_rows(n):
    """Mixed A; Y of three classes by a softmax that is linear in A."""
    generator = seeded()
    age = torch.randn(n, generator=generator)
    group = (torch.rand(n, generator=generator) < 0.4).float()
    attribute = torch.stack([age, group], 1)
    logits = attribute @ torch.tensor([[0.0, 1.0, -1.0], [0.0, 0.5, 1.5]])
    y = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    return TrainingData(
        x=attribute,
        target=y,
        outcome=torch.nn.functional.one_hot(y, 3).float(),
        outcome_class=y,
        attribute=attribute,
    )


def test_the_density_of_classes_agrees_with_logistic_regression():
    data = class_rows(3000)
    reference = LogisticRegression(C=1e6).fit(data.attribute, data.target)
    network = density(data, [0])
    with torch.no_grad():
        found = network(data.attribute[None]).softmax(-1)[0]
    assert np.abs(found.numpy() - reference.predict_proba(data.attribute)).mean() < 0.03


def test_mixed_attributes_move_together_and_keep_what_classes_tell_of_them():
    data = class_rows(3000)
    table = built(data, [Member(0.5, 0)]).donors.table[0]
    drawn = data.attribute[table]
    for y in range(3):
        of_class = data.target == y
        assert (~of_class[table[:, of_class]]).any()  # rows change classes, unlike strata
        expected = data.attribute[of_class].mean(0)
        torch.testing.assert_close(drawn[:, of_class].mean((0, 1)), expected, rtol=0, atol=0.05)


def test_rows_of_unknown_attributes_are_left_where_they_are():
    data = class_rows(50)
    data = TrainingData(**(vars(data) | {"known": torch.arange(50) % 4 > 0}))
    table = built(data, [Member(0.5, 0, RowSet(range(40)))]).donors.table[0]
    still = [*range(0, 40, 4), *range(40, 50)]
    assert (table[:, still] == torch.tensor(still)).all()
    moving = torch.tensor([row for row in range(40) if row % 4])
    assert torch.equal(table[:, moving].sort(1).values, moving.expand(len(table), -1))


def test_weights_are_refused_with_the_methods_that_have_them():
    drawn = make_synthetic(100, random_state=0)
    asked = Problem(
        notion=Notion.SEPARATION,
        continuous=("age",),
        discrete=("group",),
        groups=3,
        classes=2,
        weighted=True,
    )
    able = ", ".join(map(repr, methods_for(asked)))
    model = FairClassifier(method="icp", notion="separation")
    with pytest.raises(InputError) as refused:
        model.fit(
            drawn.X, drawn.y, sensitive_features=drawn.A, sample_weight=np.linspace(1, 2, 100)
        )
    says(str(refused.value), "method='icp'", "sample_weight", "methods that support this run", able)
