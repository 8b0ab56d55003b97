from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score

from equipoise.datasets import load_dataset, make_synthetic
from equipoise.datasets.synthetic import GROUP_PROBABILITIES, GROUP_SHIFTS
from equipoise.errors import InputError

TASKS = ("classification", "regression")
DECILES = np.arange(1, 10) / 10
# With 200 000 rows a cdf is known to about 0.001 (subsets: 0.003); sums over up to six subsets.
ROWS = 200_000
TOLERANCE = {"age": 0.006, "group": 0.03}


@pytest.fixture(scope="module", params=[(task, u) for task in TASKS for u in (0.4, 0.9)], ids=str)
def sample(request):
    task, unfairness = request.param
    return make_synthetic(ROWS, task=task, unfairness=unfairness, random_state=11)


def largest_gap(members):
    """Largest gap between the cdf of some rows and that of all; rows in order of score, no ties."""
    everybody = np.arange(1, len(members) + 1) / len(members)
    return float(np.abs(members.cumsum() / members.sum() - everybody).max())


def empirical_ks(score, sensitive, attribute, ages):
    ordered = sensitive[attribute].to_numpy()[np.argsort(score)]
    if attribute == "group":
        return sum(largest_gap(ordered == level) for level in "abc")
    return float(np.mean([largest_gap(ordered <= age) for age in ages]))


def events(data):
    y = data.y.to_numpy()
    if data.description.task == "classification":
        return [y == 0, y == 1]
    return [y <= threshold for threshold in np.quantile(y, DECILES)]


def empirical_geo(score, data, attribute, ages):
    values = [empirical_ks(score[event], data.A[event], attribute, ages) for event in events(data)]
    return sum(values) if data.description.task == "classification" else float(np.mean(values))


def utility(data, score):
    if data.description.task == "classification":
        return roc_auc_score(data.y, score)
    return r2_score(data.y, score)


def test_columns_have_the_stated_kinds(sample):
    assert sample.A.columns.tolist() == ["age", "group"]
    assert sample.A["group"].cat.categories.tolist() == ["a", "b", "c"]
    shares = sample.A["group"].value_counts(normalize=True).loc[["a", "b", "c"]]
    np.testing.assert_allclose(shares, GROUP_PROBABILITIES, atol=0.005)
    assert sample.y.mean() == pytest.approx(sample.truth.base_rate, abs=0.006)
    moments = [float(GROUP_PROBABILITIES @ GROUP_SHIFTS**power) for power in (1, 2)]
    assert moments == pytest.approx([0, 1], abs=1e-12)


def test_plain_score_is_the_best_predictor(sample):
    """A model fitted by scikit-learn on all columns finds the same score."""
    X = sample.X.to_numpy()
    if sample.description.task == "classification":
        fitted = LogisticRegression(C=np.inf).fit(X, sample.y).decision_function(X)
    else:
        fitted = LinearRegression().fit(X, sample.y).predict(X)
    np.testing.assert_allclose(fitted, sample.truth.plain_score(X), rtol=0, atol=0.15)


def test_utilities_match_simulation(sample):
    truth = sample.truth
    X = sample.X
    assert utility(sample, truth.plain_score(X)) == pytest.approx(truth.plain_utility, abs=0.004)
    for notion in ("independence", "separation"):
        simulated = utility(sample, truth.fair_score(X, notion))
        assert simulated == pytest.approx(truth.fair_utility(notion), abs=0.005)
        assert truth.fair_utility(notion) < truth.plain_utility


def test_correlation_with_age_matches_simulation(sample):
    score = sample.truth.plain_score(sample.X)
    simulated = np.corrcoef(score, sample.A["age"])[0, 1]
    assert simulated == pytest.approx(sample.truth.correlation_with_age, abs=0.008)


@pytest.mark.parametrize("attribute", ["age", "group"])
def test_dependence_of_the_plain_score_matches_simulation(sample, attribute):
    score = sample.truth.plain_score(sample.X)
    ages = norm.ppf(DECILES)
    gsp = empirical_ks(score, sample.A, attribute, ages)
    geo = empirical_geo(score, sample, attribute, ages)
    tolerance = TOLERANCE[attribute]
    assert gsp == pytest.approx(sample.truth.ks_gsp(attribute), abs=tolerance)
    assert geo == pytest.approx(sample.truth.ks_geo(attribute), abs=2 * tolerance)


@pytest.mark.parametrize("attribute", ["age", "group"])
def test_fair_scores_have_no_dependence(sample, attribute):
    ages = norm.ppf(DECILES)
    independent = sample.truth.fair_score(sample.X, "independence")
    separated = sample.truth.fair_score(sample.X, "separation")
    tolerance = TOLERANCE[attribute]
    assert empirical_ks(independent, sample.A, attribute, ages) < tolerance
    if sample.description.task == "classification":
        assert empirical_geo(separated, sample, attribute, ages) < 2 * tolerance
    else:
        # KS-GEO compares within Y <= y, a range, so it is not zero under separation; regress on
        # the outcome and A instead: only the outcome counts.
        dummies = pd.get_dummies(sample.A, drop_first=True).astype(float)
        design = dummies.assign(y=sample.y)
        weights = LinearRegression().fit(design, separated).coef_
        np.testing.assert_allclose(weights[:-1], 0, atol=0.006)


def test_regression_dependence_by_hand():
    """KS-GSP along groups in closed form: the score is normal in each group."""
    truth = make_synthetic(1, task="regression", unfairness=0.7).truth
    precision = 1 / 0.75 + 1.5**2
    of_evidence, of_circumstance = 1.5 / precision, 0.5 / 0.75 / precision
    slope = of_evidence * 1.5 * 0.5 + of_circumstance
    means = slope * 0.7 * 0.8 * GROUP_SHIFTS
    within = slope**2 * (1 - (0.7 * 0.8) ** 2) + of_evidence**2 * (1.5**2 * 0.75 + 1)
    points = np.linspace(-5, 5, 50_001)
    cdfs = norm.cdf(points, means[:, None], np.sqrt(within))
    gaps = np.abs(cdfs - GROUP_PROBABILITIES @ cdfs).max(axis=1)
    assert truth.ks_gsp("group") == pytest.approx(gaps.sum(), abs=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_no_unfairness_means_exact_independence(task):
    truth = make_synthetic(1, task=task, unfairness=0.0).truth
    for attribute in ("age", "group"):
        assert truth.ks_gsp(attribute) == pytest.approx(0, abs=1e-12)
        assert truth.ks_geo(attribute) == pytest.approx(0, abs=1e-12)
    assert truth.correlation_with_age == 0.0


@pytest.mark.parametrize("task", TASKS)
def test_dependence_grows_with_unfairness(task):
    truths = [make_synthetic(1, task=task, unfairness=u).truth for u in (0.0, 0.3, 0.6, 0.95)]
    for attribute in ("age", "group"):
        assert (np.diff([truth.ks_gsp(attribute) for truth in truths]) > 0.02).all()
        assert (np.diff([truth.ks_geo(attribute) for truth in truths]) > 0.005).all()


def test_without_unfairness_features_do_not_move_with_age():
    data = make_synthetic(ROWS, task="regression", unfairness=0.0)
    correlations = data.X.corrwith(data.A["age"])
    np.testing.assert_allclose(correlations, 0, atol=0.012)


@settings(max_examples=10, deadline=None)
@given(
    n=st.integers(1, 30),
    half=st.integers(1, 5),
    seed=st.integers(0, 2**32),
    task=st.sampled_from(TASKS),
)
def test_same_seed_same_rows(n, half, seed, task):
    first, second = (
        make_synthetic(n, task=task, n_features=2 * half, random_state=seed) for _ in range(2)
    )
    pd.testing.assert_frame_equal(first.X, second.X)
    pd.testing.assert_frame_equal(first.A, second.A)
    pd.testing.assert_series_equal(first.y, second.y)
    assert first.X.shape == (n, 2 * half)


def test_utility_and_dependence_do_not_depend_on_the_number_of_features():
    few, many = (make_synthetic(50_000, n_features=p, random_state=3) for p in (2, 20))
    assert few.truth.ks_gsp("group") == many.truth.ks_gsp("group")
    aucs = [roc_auc_score(data.y, data.truth.plain_score(data.X)) for data in (few, many)]
    np.testing.assert_allclose(aucs, few.truth.plain_utility, atol=0.005)


def test_load_dataset_gives_the_default_sample():
    data = load_dataset("synthetic")
    pd.testing.assert_frame_equal(data.X, make_synthetic().X)
    assert data.origin == "simulated"
    assert repr(data) == (
        "SyntheticDataset('synthetic', 10000 rows, 8 features, classification of 'outcome', "
        "sensitive age, group)"
    )


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"n": 0}, ["n must be", "at least 1", "0"]),
        ({"task": "ranking"}, ["task", "'classification' or 'regression'", "'ranking'"]),
        ({"unfairness": 1.0}, ["unfairness", "[0, 0.95]", "1.0", "0 is exactly fair"]),
        ({"unfairness": float("nan")}, ["unfairness", "finite", "nan"]),
        ({"n_features": 5}, ["n_features", "even", "5", "half of the columns are evidence"]),
    ],
)
def test_bad_arguments_are_named(arguments, parts):
    with pytest.raises(InputError, match=".*".join(map(re.escape, parts))):
        make_synthetic(**arguments)


def test_truth_refuses_other_features_and_attributes():
    truth = make_synthetic(5).truth
    with pytest.raises(InputError, match=r"X must have shape \(n, 8\), got \(5, 3\); pass the X"):
        truth.plain_score(np.zeros((5, 3)))
    with pytest.raises(InputError, match="attribute must be 'age' or 'group', got 'race'"):
        truth.ks_gsp("race")
