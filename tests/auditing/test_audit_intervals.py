"""Intervals of dependence and of utility: laws, closed forms, coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from equipoise.inference.bootstrap import auc_interval, utility_intervals
from equipoise.inference.dependence_intervals import (
    correlation_deviations,
    dependence_interval,
    kernel_deviations,
)
from equipoise.metrics import prepare
from equipoise.metrics.dependence import MEASURES, double_centered
from equipoise.tables import SensitiveTable


def weighted_covariance(x, y, counts):
    return np.array([np.cov(x, y, fweights=row, ddof=0)[0, 1] for row in counts])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31))
def test_with_linear_kernels_the_deviation_is_that_of_the_covariance(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 30))
    counts = rng.multinomial(30, np.full(30, 1 / 30), size=7)
    found = kernel_deviations(
        double_centered(np.outer(x, x)), double_centered(np.outer(y, y)), counts.astype(float)
    )
    expected = np.abs(weighted_covariance(x, y, counts) - np.cov(x, y, ddof=0)[0, 1])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31))
def test_with_one_function_each_the_deviation_is_that_of_the_correlation(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 30))
    counts = rng.multinomial(30, np.full(30, 1 / 30), size=7)
    found = correlation_deviations(x[:, None], y[:, None], counts.astype(float))
    scale = np.sqrt(weighted_covariance(x, x, counts) * weighted_covariance(y, y, counts))
    drawn = weighted_covariance(x, y, counts) / scale
    np.testing.assert_allclose(found, np.abs(drawn - np.corrcoef(x, y)[0, 1]), atol=1e-10)


def test_drawing_every_row_once_deviates_by_nothing():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20, 3))
    once = np.ones((1, 20))
    assert correlation_deviations(x, y, once) == pytest.approx(0, abs=1e-12)
    assert kernel_deviations(
        double_centered(x @ x.T), double_centered(y @ y.T), once
    ) == pytest.approx(0, abs=1e-9)


def distance_correlation_of_normals(r):
    """Szekely, Rizzo and Bakirov (2007), theorem 7."""
    of_pair = r * np.arcsin(r) + np.sqrt(1 - r**2) - r * np.arcsin(r / 2) - np.sqrt(4 - r**2) + 1
    return np.sqrt(of_pair / (1 + np.pi / 3 - np.sqrt(3)))


@pytest.mark.parametrize("correlation", [0.0, 0.4])
def test_the_truth_about_bivariate_normals_is_covered(correlation):
    truth = {
        "GDP": correlation * np.sqrt(2 / np.pi),
        "HGR": correlation,
        "dCor": distance_correlation_of_normals(correlation),
    }
    missed = dict.fromkeys(truth, 0)
    for seed in range(25):
        age, noise = np.random.default_rng(seed).normal(size=(2, 300))
        scores = correlation * age + np.sqrt(1 - correlation**2) * noise
        table = SensitiveTable.from_data({"age": age})
        for name, value in truth.items():
            found = dependence_interval(name, scores, table, draws=60, random_state=seed)
            missed[name] += not found.low <= value <= found.high
    # At a coverage of 95 %, five or more of 25 miss with probability 0.7 %.
    assert max(missed.values()) < 5, missed


@pytest.mark.parametrize("name", MEASURES)
def test_zero_is_covered_where_a_matters_through_a_continuous_outcome_alone(name):
    """Before y was taken out of the score, 0.25 (dCor) to 0.75 (HGR) of these covered 0."""
    missed = 0
    for seed in range(25):
        y, noise, own = np.random.default_rng(seed).normal(size=(3, 300))
        table = SensitiveTable.from_data({"age": 0.8 * y + 0.6 * own})
        found = dependence_interval(
            name, np.exp(y) + 0.5 * noise, table, y=y, draws=60, random_state=seed
        )
        missed += found.low > 0
    # At a coverage of 95 %, five or more of 25 miss with probability 0.7 %.
    assert missed < 5


@pytest.mark.parametrize("name", MEASURES)
def test_rows_summed_up_or_drawn_give_the_interval_of_fewer_rows_scaled(name):
    """Lengths of intervals fall as 1 / sqrt(rows used), through all shortcuts for many rows."""
    rng = np.random.default_rng(0)
    age = rng.normal(size=40_000)
    sex = rng.integers(0, 2, 40_000)
    scores = rng.normal(size=40_000) + 0.3 * age + 0.3 * sex
    lengths = []
    for n in (4_000, 40_000):
        table = SensitiveTable.from_data({"sex": sex[:n]})
        found = dependence_interval(name, scores[:n], table, draws=100)
        root = np.sqrt if name == "HSIC" else float
        lengths.append((root(found.high) - root(found.low)) * np.sqrt(found.n))
    assert lengths[0] == pytest.approx(lengths[1], rel=0.15)


def test_an_undefined_measure_says_why():
    rng = np.random.default_rng(0)
    table = SensitiveTable.from_data({"a": rng.normal(size=30), "b": rng.normal(size=30)})
    found = dependence_interval("HGR", rng.normal(size=30), table)
    assert np.isnan([found.value, found.low, found.high]).all()
    assert "more rows than functions" in found.reason and "merge levels" in found.reason


def test_constant_scores_depend_on_nothing():
    table = SensitiveTable.from_data({"age": np.arange(50.0), "sex": ["F", "M"] * 25})
    for name in MEASURES:
        found = dependence_interval(name, np.ones(50), table, draws=20)
        assert (found.value, found.low, found.high) == pytest.approx((0, 0, 0), abs=1e-6)


def delong(scores, positive):
    """AUC and its standard error (DeLong, DeLong and Clarke-Pearson 1988)."""
    above = np.array([(s > scores[~positive]).mean() for s in scores[positive]])
    below = np.array([(s < scores[positive]).mean() for s in scores[~positive]])
    error = np.sqrt(above.var(ddof=1) / len(above) + below.var(ddof=1) / len(below))
    return above.mean(), error


@pytest.mark.parametrize("n", [600, 21_000])
def test_the_interval_of_the_auc_is_as_long_as_delongs(n):
    rng = np.random.default_rng(1)
    positive = rng.random(n) < 0.3
    scores = rng.normal(size=n) + positive
    ((found,),) = utility_intervals(
        prepare(scores, positive), ["AUC"], draws=400, level=0.95, random_state=0
    )
    assert found.value == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    _, error = delong(scores, positive)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.12)
    assert found.low < found.value < found.high


def test_the_interval_of_the_mean_error_is_as_long_as_the_normal_one():
    rng = np.random.default_rng(1)
    y = rng.normal(1e6, 1, 800)  # far from 0, where sums of squares could lose digits
    scores = y + rng.normal(size=800)
    (mae,), (r2,) = utility_intervals(
        prepare(scores, y), ["MAE", "R2"], draws=400, level=0.95, random_state=0
    )
    error = np.abs(y - scores)
    assert mae.value == pytest.approx(error.mean())
    assert mae.high - mae.low == pytest.approx(2 * 1.96 * error.std() / np.sqrt(800), rel=0.12)
    assert r2.value == pytest.approx(1 - ((y - scores) ** 2).mean() / y.var(), abs=1e-9)
    assert r2.low < 0 < r2.high  # the noise is as large as the spread of y


def test_perfect_scores_on_thirty_rows_are_not_surely_perfect():
    """Draws of a perfect ranking are all perfect; the interval was [1, 1]."""
    y = np.arange(30) % 2
    ((found,),) = utility_intervals(
        prepare(y.astype(float), y), ["AUC"], draws=50, level=0.95, random_state=0
    )
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(auc_interval(1.0, 15, 15, 0.95)[0])
    assert 0.8 < found.low < 0.9


def test_the_interval_of_newcombe_solves_its_equation():
    """The ends are as far from the AUC as 1.96 of their own standard errors (Hanley, McNeil)."""
    for auc, m, n in ((0.7, 20, 50), (0.95, 10, 10), (1.0, 5, 40)):
        for end in auc_interval(auc, m, n, 0.95):
            more = (m + n) / 2 - 1
            variance = end * (1 - end) / (m * n)
            variance *= 1 + more * (1 - end) / (2 - end) + more * end / (1 + end)
            assert abs(auc - end) == pytest.approx(1.959964 * np.sqrt(variance), abs=1e-6)
    assert auc_interval(0.3, 20, 50, 0.95) == pytest.approx(
        [1 - end for end in reversed(auc_interval(0.7, 20, 50, 0.95))]
    )


def test_predictions_without_error_have_no_interval_and_say_why():
    y = np.arange(40.0)
    for (found,) in utility_intervals(
        prepare(y, y), ["MAE", "R2"], draws=20, level=0.95, random_state=0
    ):
        assert np.isnan([found.low, found.high]).all()
        assert "all draws have the same value" in found.note
