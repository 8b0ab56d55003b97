"""Penalties without networks, each against an implementation that nobody here wrote."""

import math

import numpy as np
import pytest
import torch
from fairlearn.metrics import MetricFrame, selection_rate
from scipy.spatial.distance import cdist
from scipy.stats import gaussian_kde

from equipoise.methods import METHODS, Context
from equipoise.methods.batch_penalties import (
    BANDWIDTH,
    PARITY_WIDTH,
    THRESHOLD,
    positive_probability,
    unequal_rates,
)
from equipoise.notions import Notion
from equipoise.training import Member, TrainingData

N = 60
RANDOM = np.random.default_rng(0)
Y = RANDOM.integers(0, 2, N)
GROUP = RANDOM.integers(0, 3, N)
AGE = RANDOM.standard_normal(N)
SCORES = RANDOM.random((2, N)) * 0.3 + 0.2 * (GROUP == 1) + 0.3 * Y
ATTRIBUTE = np.column_stack([AGE, np.eye(3)[GROUP]])


def double(values):
    return torch.tensor(np.asarray(values), dtype=torch.float64)


def penalty(name, notion="independence", *, attribute=ATTRIBUTE, scores=SCORES, y=Y, discrete=True):
    """Penalty of two members' scores on all rows as one batch, (2,)."""
    data = TrainingData(
        x=double(scores.T),
        target=double(y),
        outcome=double(y)[:, None],
        outcome_class=torch.tensor(y) if discrete else None,
        attribute=double(attribute),
        attribute_cell=torch.tensor(GROUP) if len(attribute) == N else None,
    )
    method = METHODS[name].build(
        Context(
            data=data,
            members=[Member(0.5, 0), Member(0.5, 1)],
            notion=Notion.parse(notion),
        )
    )
    rows = torch.arange(len(y)).expand(2, -1)
    return method.penalty(double(scores)[..., None], rows, rows).numpy()


def within(statistic, scores, attribute, y):
    """Average over the levels of y of a statistic of one score, by their shares."""
    return sum(
        (y == level).mean() * statistic(scores[y == level], attribute[y == level])
        for level in np.unique(y)
    )


def standard(scores):
    return (scores - scores.mean(1, keepdims=True)) / np.sqrt(scores.var(1, keepdims=True) + 1e-6)


def fifths(y):
    return np.digitize(y, np.sort(y)[[N // 5, 2 * N // 5, 3 * N // 5, 4 * N // 5]])


@pytest.mark.parametrize("notion", ["independence", "separation"])
def test_dcov_is_the_squared_distance_covariance_of_dcor(dcor, notion):
    levels = Y if notion == "separation" else np.zeros(N)
    expected = [
        within(dcor.distance_covariance_sqr, score, ATTRIBUTE, levels) for score in standard(SCORES)
    ]
    assert penalty("dcov", notion) == pytest.approx(expected, rel=1e-4)


def test_a_continuous_outcome_is_conditioned_on_by_fifths(dcor):
    y = AGE + SCORES[0]
    expected = [
        within(dcor.distance_covariance_sqr, score, ATTRIBUTE, fifths(y))
        for score in standard(SCORES)
    ]
    assert np.bincount(fifths(y)).tolist() == [12] * 5
    found = penalty("dcov", "separation", y=y, discrete=False)
    assert found == pytest.approx(expected, rel=1e-4)


def gretton(score, attribute):
    """(1 / n^2) trace(K H L H), the estimate of Gretton et al. (2005), in the paper's notation."""
    n = len(score)
    H = np.eye(n) - 1 / n
    K, L = (
        np.exp(-cdist(values, values, "sqeuclidean") / (2 * values.shape[1]))
        for values in (score.reshape(n, -1), attribute.reshape(n, -1))
    )
    return np.trace(K @ H @ L @ H) / n**2


@pytest.mark.parametrize("notion", ["independence", "separation"])
def test_hsic_is_the_published_estimate_normalized(notion):
    levels = Y if notion == "separation" else np.zeros(N)
    expected = []
    for score in standard(SCORES):
        both, of_score, of_attribute = (
            within(gretton, left, right, levels)
            for left, right in ((score, ATTRIBUTE), (score, score), (ATTRIBUTE, ATTRIBUTE))
        )
        expected.append(both / math.sqrt(of_score * of_attribute))
    assert penalty("hsic", notion) == pytest.approx(expected, rel=1e-6)
    same = penalty("hsic", attribute=standard(SCORES)[0][:, None])
    assert same[0] == pytest.approx(1.0, abs=1e-4)


def group_parity(score, group):
    """Jiang et al. (2022) for groups: sum over a of P(a) abs(m(a) - m)."""
    return sum(
        (group == a).mean() * abs(score[group == a].mean() - score.mean()) for a in np.unique(group)
    )


@pytest.mark.parametrize("notion", ["independence", "separation"])
def test_gdp_of_groups_is_its_definition(notion):
    levels = Y if notion == "separation" else np.zeros(N)
    expected = [within(group_parity, score, GROUP, levels) for score in SCORES]
    # Groups far apart: the kernel sees none but one's own.
    assert penalty("gdp", notion, attribute=9 * np.eye(3)[GROUP]) == pytest.approx(
        expected, rel=1e-9
    )
    # As they are encoded, 1 or more apart, hardly another.
    assert penalty("gdp", notion, attribute=np.eye(3)[GROUP]) == pytest.approx(expected, rel=1e-2)


def test_gdp_of_a_normal_attribute_has_a_closed_form():
    """For score = c A the kernel of width w shrinks E[score | A] by 1 / (1 + w^2)."""
    age = np.random.default_rng(1).standard_normal(1500)
    found = penalty(
        "gdp", attribute=age[:, None], scores=np.stack([2 * age, -age]), y=np.zeros(1500, int)
    )
    closed = math.sqrt(2 / math.pi) / (1 + PARITY_WIDTH**2)
    assert found == pytest.approx([2 * closed, closed], rel=0.03)


def test_the_kde_rate_is_the_integral_of_a_kernel_density_estimate():
    factor = BANDWIDTH / SCORES[0].std(ddof=1)
    density = gaussian_kde(SCORES[0], bw_method=factor)
    expected = density.integrate_box_1d(THRESHOLD, np.inf)
    found = positive_probability(double(SCORES[0])).mean().item()
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("levels", [np.zeros(N, int), Y], ids=["DDP", "DEO"])
def test_of_decisions_kde_compares_selection_rates(levels):
    expected = 0.0
    for level in np.unique(levels):
        rows = levels == level
        decisions = SCORES[0, rows] > THRESHOLD
        frame = MetricFrame(
            metrics=selection_rate,
            y_true=decisions,
            y_pred=decisions,
            sensitive_features=GROUP[rows],
        )
        expected += ((frame.by_group - frame.overall) ** 2).sum() / 2
    weight = double(levels == np.unique(levels)[:, None])
    found = unequal_rates(
        double(SCORES[:1] > THRESHOLD),
        double(np.arange(3)[:, None] == GROUP)[None],
        (weight / weight.sum(1, keepdim=True))[None],
    )
    assert expected > 0.01
    assert found.item() == pytest.approx(expected, rel=1e-9)


def test_kde_ends_with_the_paper_s_notion():
    notions = {"independence": np.zeros(N, int), "separation": Y}
    for notion, levels in notions.items():
        expected = 0.0
        for level in np.unique(levels):
            rows = levels == level
            positive = positive_probability(double(SCORES[0, rows])).numpy()
            group = GROUP[rows]
            expected += sum(
                (positive[group == a].mean() - positive.mean()) ** 2 / 2 for a in np.unique(group)
            )
        assert penalty("kde", notion)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["dcov", "hsic"])
def test_a_score_can_not_hide_by_shrinking(name):
    assert penalty(name, scores=0.1 * SCORES) == pytest.approx(penalty(name), rel=0.02)


@pytest.mark.parametrize("name", ["dcov", "hsic", "gdp", "kde"])
@pytest.mark.parametrize("notion", ["independence", "separation"])
def test_slopes_agree_with_finite_differences(name, notion):
    data = TrainingData(
        x=double(SCORES.T),
        target=double(Y),
        outcome=double(Y)[:, None],
        outcome_class=torch.tensor(Y),
        attribute=double(ATTRIBUTE),
        attribute_cell=torch.tensor(GROUP),
    )
    method = METHODS[name].build(
        Context(
            data=data,
            members=[Member(0.5, 0)],
            notion=Notion.parse(notion),
        )
    )
    rows = torch.arange(0, N, 4)[None]
    score = double(SCORES[:1])[:, ::4, None].requires_grad_()
    assert torch.autograd.gradcheck(
        lambda score: method.penalty(score, rows, rows), score, eps=1e-7, atol=1e-5
    )
