"""Ranks of scores among people alike in A, beside the distribution from which scores are drawn."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import kstest, logistic

from equipoise.predictors.ranks import learn_ranks
from equipoise.training import TrainingData

N = 4000


def drawn(seed, n=N):
    """Scores whose mean and spread depend on a, and their true ranks given a."""
    random = np.random.default_rng(seed)
    a, noise = random.normal(size=n), random.logistic(size=n)
    return noise * np.exp(a / 2) + 2 * a, a, logistic.cdf(noise)


def learned(columns, scores=1, weight=None):
    x = torch.tensor(np.column_stack(columns), dtype=torch.float32)
    weight = None if weight is None else torch.tensor(weight / weight.mean(), dtype=x.dtype)
    data = TrainingData(x=x, target=x[:, 0], outcome=x[:, :1], weight=weight)
    return learn_ranks(data, scores, iterations=500)


def ranks(network, *columns):
    x = torch.tensor(np.column_stack(columns), dtype=torch.float32)
    return expit(network(x[None])[0].numpy().astype(float))


def test_they_are_the_distribution_function_given_a_also_where_a_is_rare():
    score, a, _ = drawn(0)
    network = learned([score / score.std(), a])
    new, a, true = drawn(1)
    found = ranks(network, new / score.std(), a)[:, 0]
    for some in (np.abs(a) < 1, a < -1.5, a > 1.5):
        assert np.abs(found - true)[some].mean() < 0.08
        assert kstest(found[some], "uniform").statistic < 0.13


def test_each_score_has_ranks_of_its_own_and_ties_count_half():
    random = np.random.default_rng(2)
    score, a, _ = drawn(2)
    coin = random.integers(0, 2, N) * 2.0 - 1
    network = learned([score / score.std(), coin, a], scores=2)
    found = ranks(network, score / score.std(), coin, a)
    assert found[coin < 0, 1].mean() == pytest.approx(0.25, abs=0.02)
    assert found[coin > 0, 1].mean() == pytest.approx(0.75, abs=0.02)
    assert np.corrcoef(found[:, 0], a)[0, 1] == pytest.approx(0, abs=0.06)


def test_rows_of_small_weight_hardly_count():
    score, a, _ = drawn(3)
    other = np.random.default_rng(3).random(N) < 0.5
    shifted = np.where(other, score + 20, score) / score.std()
    network = learned([shifted, a], weight=np.where(other, 1e-6, 1.0))
    assert ranks(network, score / score.std(), a)[~other].mean() == pytest.approx(0.5, abs=0.03)
