"""Certificates: exact values, and coverage where the truth is known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binomtest, ks_2samp

from equipoise.errors import InputError
from equipoise.inference.certificate import certify, radius
from equipoise.metrics import measure
from equipoise.tables import SensitiveColumn, SensitiveTable

DATA_SETS = 500
DECILES = np.arange(1, 10) / 10


def column(values: object, **types: str) -> SensitiveColumn:
    return SensitiveTable.from_data({"a": values}, types=types or None).columns[0]


# The radius


@pytest.mark.parametrize(
    ("n_inside", "n_others", "probability"),
    [(5_000, 5_000, 0.05), (10, 1_000, 0.05), (300, 40, 1e-4), (1, 1, 0.5)],
)
def test_radius_solves_the_convolution_of_two_dkw_tails(n_inside, n_others, probability):
    def tail(error: float, n: int) -> float:
        return min(1.0, 2 * np.exp(-2 * n * max(error, 0.0) ** 2))

    def density(error: float, n: int) -> float:
        return 8 * n * error * np.exp(-2 * n * error**2)

    r = radius(n_inside, n_others, probability)
    start = np.sqrt(np.log(2) / (2 * n_inside))
    kink = r - np.sqrt(np.log(2) / (2 * n_others))
    parts = [start, kink, r, r + 12 / np.sqrt(n_inside)]
    total = sum(
        quad(lambda x: density(x, n_inside) * tail(r - x, n_others), low, high, epsabs=1e-12)[0]
        for low, high in pairwise(parts)
    )
    assert total == pytest.approx(probability, rel=1e-6)


def test_radius_is_symmetric_and_beats_the_union_bound():
    assert radius(100, 900, 0.05) == pytest.approx(radius(900, 100, 0.05), abs=1e-10)
    union = sum(np.sqrt(np.log(2 / 0.025) / (2 * n)) for n in (100, 900))
    assert radius(100, 900, 0.05) < union


def test_radius_holds_for_the_largest_errors_themselves():
    """Uniform scores, the least favourable ones: P(X_B + X_R > radius) <= 5 %, and not by far."""
    random = np.random.default_rng(0)

    def largest_errors(n: int) -> np.ndarray:
        ordered = np.sort(random.random((4_000, n)))
        steps = np.arange(n) / n
        return np.maximum(ordered - steps, steps + 1 / n - ordered).max(axis=1)

    beyond = (largest_errors(100) + largest_errors(200) > radius(100, 200, 0.05)).mean()
    assert 0.02 < beyond <= 0.05


def test_radius_shrinks_as_one_over_the_root_of_n():
    assert radius(400, 1_200, 0.01) == pytest.approx(radius(100, 300, 0.01) / 2, rel=1e-8)


# Exact values


def test_two_groups_by_hand():
    """F has 100 scores of 0 among 200, M 90: the distance is 0.05 and the factors add up to 1."""
    scores = np.concatenate([np.zeros(100), np.ones(100), np.zeros(90), np.ones(110)])
    found = certify(scores, column(["F"] * 200 + ["M"] * 200))
    assert found.estimate == pytest.approx(0.05, abs=1e-12)
    assert found.upper == pytest.approx(0.05 + radius(200, 200, 0.05), abs=1e-12)
    assert (found.rows, found.thresholds) == (400, ())


def test_three_groups_by_hand():
    """One score of 1 in three, two, one of each three rows: every group against the others."""
    scores = np.tile([1, 1, 1, 1, 1, 0, 1, 0, 0], 300)
    group = np.tile([0, 0, 0, 1, 1, 1, 2, 2, 2], 300)
    found = certify(scores, column(group), level=0.9)
    expected = 0.0
    for share_of_ones in (1, 2 / 3, 1 / 3):
        others = (2 - share_of_ones) / 2
        limit = binomtest(1_800, 2_700, alternative="less").proportion_ci(1 - 0.1 * 0.05 / 3)
        distance = abs(share_of_ones - others) + radius(900, 1_800, 0.1 * 0.95 / 3)
        expected += limit.high * distance
    assert found.estimate == pytest.approx(1 / 3 + 0 + 1 / 3, abs=1e-12)
    assert found.upper == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("y", [None, np.arange(300) % 3], ids=["KS-GSP", "KS-GEO"])
def test_the_estimate_of_discrete_attributes_is_the_metric(y):
    random = np.random.default_rng(1)
    group = column(random.integers(0, 4, 300))
    scores = random.normal(size=(2, 300)).round(1) + group.codes
    found = certify(scores, group, y=y)
    assert found.metric == ("KS-GSP" if y is None else "KS-GEO")
    np.testing.assert_allclose(
        found.estimate, measure(found.metric, scores, group, y).values, atol=1e-12
    )


def test_the_estimate_of_a_continuous_attribute_is_a_mean_of_ks_distances():
    random = np.random.default_rng(2)
    age, y = random.random((2, 400))
    score = random.normal(size=400) + age
    cuts, y_cuts = (0.3, 0.8), (0.5, 0.9)
    found = certify(score, column(age), y=y, thresholds=cuts, outcome_thresholds=y_cuts)
    gaps = [
        ks_2samp(score[(age <= cut) & (y <= y_cut)], score[y <= y_cut]).statistic
        for cut in cuts
        for y_cut in y_cuts
    ]
    assert found.estimate == pytest.approx(np.mean(gaps), abs=1e-12)
    assert found.rows == 400
    assert (found.thresholds, found.outcome_thresholds) == (cuts, y_cuts)


def test_a_threshold_that_no_row_exceeds_costs_the_share_that_may_exceed_it():
    found = certify(np.arange(300.0), column(np.arange(300.0)), thresholds=[299.0])
    assert found.estimate == 0
    # With none of 300 rows outside, P(outside) is below 1 - 0.0025^(1/300).
    assert found.upper == pytest.approx(1 - 0.0025 ** (1 / 300), rel=1e-9)


@pytest.mark.parametrize("y", [None, "continuous", "binary"])
def test_the_estimate_is_the_very_number_beside_it(y):
    """Deciles of the rows themselves, as the metric has them, in the sets compared."""
    random = np.random.default_rng(3)
    age, score = random.normal(size=(2, 500))
    outcome = {None: None, "continuous": random.normal(size=500), "binary": np.arange(500) % 2}[y]
    for column_of in (column(age), column(age.round(1), a="continuous")):
        found = certify(score + age, column_of, y=outcome)
        metric = "KS-GSP" if y is None else "KS-GEO"
        expected = measure(metric, score + age, column_of, outcome).values
        assert found.estimate == pytest.approx(float(expected), abs=1e-12)
        assert found.rows == 500
        inside = [(column_of.values <= cut).sum() for cut in found.thresholds]
        deciles = np.quantile(column_of.values, DECILES)
        assert inside == [(column_of.values <= cut).sum() for cut in deciles]


def test_a_cut_by_rank_by_hand():
    """200 distinct values: at the median 100 rows are below the next value, 99 above it."""
    random = np.random.default_rng(4)
    age, score = random.permutation(200), random.random(200)
    found = certify(score, column(age))
    share, reach = 0.05 * 0.05 / 9, 0.05 * 0.95 / 9
    expected = 0.0
    for cut in range(20, 200, 20):
        distance = ks_2samp(score[age < cut], score[age >= cut]).statistic
        others = 200 - cut
        factor = binomtest(others, 200, alternative="less").proportion_ci(1 - share).high
        bound = distance + radius(cut, others - 1, reach) + 1 / others
        expected += factor * min(1.0, bound) / 9
    assert found.upper == pytest.approx(expected, abs=1e-9)
    assert found.thresholds == pytest.approx(range(20, 200, 20))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4), st.floats(0.01, 0.99), st.booleans())
def test_never_below_the_estimate(seed, groups, level, conditional):
    random = np.random.default_rng(seed)
    y = np.repeat([0, 1], 40) if conditional else None
    group = column(np.arange(80) % groups)
    scores = random.integers(0, 5, (2, 80)) * random.integers(1, 3) + group.codes
    found = certify(scores, group, y=y, level=level)
    assert (found.upper >= found.estimate - 1e-12).all()


def test_more_candidates_and_higher_levels_ask_for_more():
    random = np.random.default_rng(5)
    score, group = random.normal(size=500), column(np.arange(500) % 2)
    bounds = [
        float(certify(score, group, level=level, candidates=candidates).upper)
        for level, candidates in [(0.9, 1), (0.95, 1), (0.95, 20), (0.95, 1_000)]
    ]
    assert bounds == sorted(bounds)
    together = certify(np.stack([score] * 20), group)
    assert together.candidates == 20
    assert together.upper == pytest.approx([bounds[2]] * 20)
    # A union bound over twenty candidates is one candidate at a twentieth of the error.
    assert bounds[2] == pytest.approx(certify(score, group, level=1 - 0.05 / 20).upper)


def test_increasing_maps_of_the_score_change_nothing():
    random = np.random.default_rng(6)
    score, group = random.normal(size=300), column(np.arange(300) % 3)
    assert certify(score, group).upper == certify(np.exp(score), group).upper


# Coverage, with the truth known


def test_coverage_for_three_groups():
    """Scores 0 / 1 with rates 0.2, 0.3, 0.6 and shares 0.2, 0.5, 0.3: overall rate 0.37."""
    rates, shares = np.array([0.2, 0.3, 0.6]), np.array([0.2, 0.5, 0.3])
    truth = np.abs(rates - rates @ shares).sum()
    random = np.random.default_rng(7)
    covered, bounds = 0, []
    for _ in range(DATA_SETS):
        codes = random.choice(3, size=400, p=shares)
        scores = random.random(400) < rates[codes]
        bound = certify(scores, column(codes), level=0.8).upper
        covered += bound >= truth
        bounds.append(bound)
    assert covered / DATA_SETS >= 0.8
    assert np.mean(bounds) < 2.5  # three vacuous distances would add up to more than 1.9


def test_coverage_for_a_continuous_attribute():
    """A uniform, score 1 with probability A: F_{A <= t} and F differ by (1 - t) / 2."""
    random = np.random.default_rng(8)
    covered, bounds = 0, []
    for _ in range(DATA_SETS):
        age = random.random(400)
        scores = random.random(400) < age
        found = certify(scores, column(age), level=0.8, thresholds=DECILES)
        covered += found.upper >= 0.25
        bounds.append(found.upper)
    assert covered / DATA_SETS >= 0.8
    assert np.mean(bounds) < 0.42


@pytest.mark.parametrize("values", [0, 20])
def test_coverage_at_deciles_of_the_rows_themselves(values):
    """As above, A having distinct values or 20 of them; the truth is that at the cuts found."""
    random = np.random.default_rng(9)
    covered = 0
    for _ in range(DATA_SETS // 2):
        age = random.integers(0, values, 400) / values if values else random.random(400)
        scores = random.random(400) < age
        found = certify(scores, column(age, a="continuous"), level=0.8)
        support = np.arange(values) / values
        below = [support[support <= cut].mean() if values else cut / 2 for cut in found.thresholds]
        mean = support.mean() if values else 0.5
        covered += found.upper >= np.mean(mean - np.array(below))
    assert covered / (DATA_SETS // 2) >= 0.8


def test_coverage_given_the_outcome():
    """Two groups, y binary: distances 0.3 within y = 0 and 0 within y = 1."""
    random = np.random.default_rng(10)
    covered = 0
    for _ in range(DATA_SETS):
        group, y = random.integers(0, 2, (2, 400))
        scores = random.random(400) < np.where(y == 0, 0.2 + 0.3 * group, 0.5)
        covered += certify(scores, column(group), y=y, level=0.8).upper >= 0.3
    assert covered / DATA_SETS >= 0.8


def test_coverage_of_the_best_looking_of_many_candidates():
    """Forty candidates of one true distance 0.2: whichever looks best, its bound holds.

    Bounds for a single candidate, used after picking, fail far more often than they say.
    """
    random = np.random.default_rng(11)
    group = column(np.repeat([0, 1], 150))
    rates = 0.4 + 0.2 * group.codes
    covered = covered_without_union = 0
    data_sets = DATA_SETS // 2
    for _ in range(data_sets):
        scores = (random.random((40, 300)) < rates).astype(float)
        found = certify(scores, group, level=0.9)
        covered += found.upper.min() >= 0.2
        single = certify(scores[found.estimate.argmin()], group, level=0.9)
        covered_without_union += single.upper >= 0.2
    assert covered / data_sets >= 0.9
    assert covered_without_union < covered


def test_the_words_say_what_is_and_is_not_covered():
    random = np.random.default_rng(12)
    found = certify(random.normal(size=(2, 200)), column(np.arange(200) % 2))
    assert str(found) == (
        f"With 95% confidence KS-GSP by a is at most {found.upper[0]:.3f}, {found.upper[1]:.3f}, "
        "for all 2 candidates together, in the population from which these 200 rows were drawn. "
        "This is not valid for rows used for training or for picking other candidates, nor after "
        "drift."
    )


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": 95}, "level must lie strictly between 0 and 1, got 95; try level=0.95"),
        (
            {"scores": np.zeros((3, 12)), "candidates": 2},
            "candidates must be at least 3, the number of scores, got 2; count every score",
        ),
        (
            {"thresholds": [1.0]},
            "thresholds must not be given without a continuous variable, got [1.0]; leave it out",
        ),
        (
            {"column": column(np.arange(12)), "thresholds": [-1.0]},
            "a certificate needs rows inside and outside of every compared set, got 0 of 12 with "
            "a <= -1; merge groups or choose other thresholds",
        ),
        (
            {"column": column(np.arange(12)), "thresholds": [np.nan]},
            "thresholds must be a sequence of finite numbers, got [nan]; pass a list",
        ),
        (
            {"y": np.arange(12) % 3},
            "a certificate needs rows inside and outside of every compared set, got 4 of 4 with "
            "a = 0 and y = 0; merge groups or choose other thresholds",
        ),
    ],
)
def test_bad_input_is_named(arguments, message):
    given = {"scores": np.arange(12.0), "column": column(np.arange(12) % 3 % 2), **arguments}
    with pytest.raises(InputError) as caught:
        certify(given.pop("scores"), given.pop("column"), **given)
    assert str(caught.value).startswith(message)
