"""The gap against scipy, by hand, and under permutations."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, ks_2samp, norm

from equipoise.metrics import measure, prepare
from equipoise.metrics.gap import LEVEL, gaps_of, rank_among_alike
from equipoise.notions import Notion
from equipoise.tables import SensitiveTable


def column(values, kind):
    return SensitiveTable.from_data({"a": values}, types={"a": kind})["a"]


def gaps(scores, a, kind, y=None, *, weights=None, **options):
    outcome = options.pop("outcome", None)
    threshold = options.pop("threshold", None)
    scored = prepare(scores, y, weights=weights, threshold=threshold, outcome=outcome)
    notion = Notion.INDEPENDENCE if y is None else Notion.SEPARATION
    return gaps_of(scored.against(column(a, kind)), notion=notion, **options)


def members(comparison, group):
    spans, codes = comparison.groups.spans, comparison.groups.codes.numpy()
    inside = (codes >= spans.first[group]) & (codes < spans.last[group])
    rows = comparison.rows.numpy()
    return inside & rows, ~inside & rows


# Distances


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 2**31), st.sampled_from(["discrete", "continuous"]), st.sampled_from([1, 12]))
def test_every_distance_is_that_of_scipy(seed, kind, digits):
    random = np.random.default_rng(seed)
    n = int(random.integers(80, 400))
    a = random.integers(0, 5, n) if kind == "discrete" else random.normal(size=n).round(1)
    scores = (random.normal(size=(2, n)) + 0.3 * a).round(digits)
    found = gaps(scores, a, kind, permutations=19)
    assert found.distances.shape[-1] == sum(len(each.groups) for each in found.comparisons)
    for comparison in found.comparisons:
        for group in range(len(comparison.groups)):
            inside, others = members(comparison, group)
            for k, score in enumerate(scores):
                expected = ks_2samp(score[inside], score[others], method="asymp").statistic
                assert float(found.distances[0, k, group]) == pytest.approx(expected, abs=1e-12)


def test_a_whole_weight_moves_distances_as_so_many_rows_would():
    random = np.random.default_rng(0)
    a, scores = random.integers(0, 3, 300), random.normal(size=300).round(1)
    weights = random.integers(1, 4, 300)
    repeated = np.repeat(np.arange(300), weights)
    found = gaps(scores, a, "discrete", weights=weights, permutations=19).distances
    expected = gaps(scores[repeated], a[repeated], "discrete", permutations=19).distances
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_ranges_are_all_of_consecutive_twentieths_and_four_tails():
    found = gaps(np.arange(4000.0), np.arange(4000.0), "continuous", permutations=19)
    (comparison,) = found.comparisons
    sizes = comparison.groups.sizes(torch.ones(4000, dtype=torch.int64)).tolist()
    middle = [200 * width for width in range(1, 19) for _ in range(19 - width)]
    # Of a range at one end and its complement the smaller counts; both halves are one comparison.
    ends = 2 * [200 * width for width in range(1, 10)] + [2000]
    assert sorted(sizes) == sorted([*middle, *ends, 40, 40, 80, 80])


def test_equal_values_are_in_one_range():
    a = np.repeat([0.0, 1.0, 2.0], [600, 200, 200])
    found = gaps(np.random.default_rng(0).normal(size=1000), a, "continuous", permutations=19)
    labels = {label for each in found.comparisons for label in each.groups.labels}
    assert labels == {"a 1", "a 2", "a 1 to 2"}


def test_a_u_shaped_dependence_that_half_lines_hide():
    """People in the middle of the range differ from both ends: D = 1, at the middle."""
    a = np.linspace(0, 1, 2001)
    score = -np.abs(a - 0.5)
    found = gaps(score, a, "continuous", permutations=99)
    _, _, place = found.located(0)
    assert float(found.distances[0, 0, place]) == pytest.approx(1.0, abs=0.002)
    # The half-lines of KS-GSP see at most half of it.
    assert float(measure("KS-GSP", score, column(a, "continuous"))) < 0.3
    assert float(found.beyond.max()) > 0.95


def test_the_marketing_case_an_old_tail_is_found():
    """3 % of the people are selected at 76 %, all others at 19 %: 57 points, at their range."""
    random = np.random.default_rng(0)
    age = random.uniform(18, 60, 10_000)
    age[:300] = random.uniform(60, 90, 300)
    score = (random.random(10_000) < np.where(age > 60, 0.76, 0.19)).astype(float)
    found = measure("gap", score, column(age, "continuous"))
    assert float(found) == pytest.approx(0.57, abs=0.08)
    assert float(measure("KS-GSP", score, column(age, "continuous"))) < 0.03


# Chance


def test_chance_is_the_law_of_a_single_threshold_for_decisions_and_two_groups():
    """P(rate of one group - rate of the other > c) is normal for large groups: c = 1.96 sd."""
    n = 4000
    a = np.arange(n) % 2
    decisions = (np.arange(n) % 5 == 0).astype(float)
    found = gaps(decisions, a, "discrete", permutations=3999)
    deviation = np.sqrt(0.2 * 0.8 * (2 / n + 2 / n))
    assert float(found.reach(LEVEL)) == pytest.approx(norm.ppf(0.975) * deviation, rel=0.05)


def test_chance_is_the_law_of_kolmogorov_for_two_groups_without_ties():
    from scipy.stats import kstwobign

    n = 4000
    scores = np.random.default_rng(0).normal(size=n)
    found = gaps(scores, np.arange(n) % 2, "discrete", permutations=3999)
    assert float(found.reach(LEVEL)) == pytest.approx(
        kstwobign.ppf(0.95) * np.sqrt(4 / n), rel=0.03
    )


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_a_fair_score_has_no_gap_in_95_percent_of_samples(kind):
    random = np.random.default_rng(1)
    a = random.integers(0, 4, 500) if kind == "discrete" else random.normal(size=500)
    beyond = float((gaps(random.normal(size=(600, 500)), a, kind).beyond.amax(-1) > 0).sum())
    assert binomtest(int(beyond), 600, 0.05).pvalue > 0.001


def test_unequal_weights_count_as_fewer_rows():
    random = np.random.default_rng(0)
    n = 1000
    a, scores = np.arange(n) % 2, random.normal(size=n)
    weights = np.where(random.random(n) < 0.5, 1.0, 9.0)
    plain = gaps(scores, a, "discrete")
    weighted = gaps(scores, a, "discrete", weights=weights)
    worth = [weights[a == g].sum() ** 2 / (weights[a == g] ** 2).sum() for g in (0, 1)]
    ratio = np.sqrt(sum(1 / m for m in worth) / (2 / (n / 2)))
    assert float(weighted.reach(LEVEL) / plain.reach(LEVEL)) == pytest.approx(ratio, rel=1e-9)


def test_small_groups_are_listed_and_not_judged():
    a = np.repeat(["many", "few", "more"], [500, 29, 300])
    found = gaps(np.random.default_rng(0).normal(size=829), a, "discrete")
    assert found.small == (("a = few", 29, 800),)
    assert [each.groups.labels for each in found.comparisons] == [("a = many", "a = more")]


def test_without_a_group_of_30_the_gap_is_undefined_and_says_which_groups():
    found = measure("gap", np.arange(40.0), column(["x", "y"] * 20, "discrete"))
    assert np.isnan(float(found))
    assert all(part in found.reasons[0] for part in ("30 rows", "a = x (20 in, 20 out)"))


# Given Y


def test_given_a_class_the_gap_is_that_among_its_rows():
    random = np.random.default_rng(0)
    n = 2000
    y, a = random.integers(0, 2, n), random.integers(0, 3, n)
    scores = random.normal(size=n) + 0.8 * (a == 1) * (y == 1)
    given_y = gaps(scores, a, "discrete", y)
    for comparison, label in zip(given_y.comparisons, (0, 1), strict=True):
        alone = gaps(scores[y == label], a[y == label], "discrete")
        np.testing.assert_allclose(comparison.distances(), alone.distances)
    comparison, group, _ = given_y.located(0)
    assert comparison.groups.labels[group] == "a = 1, y = 1"


def test_a_perfect_prediction_of_a_continuous_outcome_has_no_gap_given_y():
    """KS-GEO calls it unfair wherever the outcome depends on A."""
    random = np.random.default_rng(0)
    a = random.integers(0, 2, 2000)
    y = random.normal(size=2000) + a
    assert float(measure("gap given Y", y, column(a, "discrete"), y)) == 0
    assert float(measure("KS-GEO", y, column(a, "discrete"), y)) > 0.3


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_separation_with_a_continuous_outcome_keeps_its_level(kind):
    random = np.random.default_rng(2)
    n, beyond = 400, 0
    for _ in range(100):
        y = random.normal(size=n)
        a = y + random.normal(size=n)
        a = np.digitize(a, [-0.7, 0.7]) if kind == "discrete" else a
        scores = np.exp(y) + np.exp(y / 2) * random.normal(size=(4, n))
        beyond += int((gaps(scores, a, kind, y, permutations=199).beyond.amax(-1) > 0).sum())
    assert binomtest(beyond, 400, 0.05, alternative="greater").pvalue > 0.001


def test_a_dependence_given_a_continuous_outcome_is_found_and_located():
    random = np.random.default_rng(0)
    n = 3000
    y = random.normal(size=n)
    a = random.integers(0, 4, n)
    scores = y + random.normal(size=n) + (a == 2)
    found = gaps(scores, a, "discrete", y)
    comparison, group, _ = found.located(0)
    assert comparison.groups.labels[group] == "a = 2"
    # Among people of equal y the two groups are normal, one standard deviation apart.
    expected = 2 * norm.cdf(0.5) - 1
    assert float(found.distances.max()) == pytest.approx(expected, abs=0.06)


def test_ranks_among_alike_do_not_change_with_the_scale_of_score_or_outcome():
    random = np.random.default_rng(0)
    y, scores = torch.from_numpy(random.normal(size=300)), random.normal(size=(2, 300))
    scores = torch.from_numpy(scores)
    rows = torch.ones(300, dtype=torch.bool)
    found, strata = rank_among_alike(scores, y, rows)
    again, same = rank_among_alike(scores.exp(), y**3, rows)
    torch.testing.assert_close(found, again)
    torch.testing.assert_close(strata, same)
    # Uniform in every stratum.
    for stratum in strata.unique():
        ranks = found[0, strata == stratum].sort().values
        torch.testing.assert_close(ranks, (torch.arange(len(ranks)) + 0.5).double() / len(ranks))


# Decisions


def test_the_decision_gap_is_a_difference_of_rates_beyond_chance():
    n = 2000
    a = np.arange(n) % 2
    scores = np.where(a == 1, np.arange(n) % 10 < 6, np.arange(n) % 10 < 3).astype(float)
    rates = [scores[a == g].mean() for g in (0, 1)]
    found = gaps(scores, a, "discrete", decisions=True, threshold=0.5)
    assert float(found.distances) == pytest.approx(abs(rates[0] - rates[1]), abs=1e-12)
    assert float(found.beyond) == pytest.approx(
        np.sqrt(float(found.distances) ** 2 - float(found.reach(LEVEL)) ** 2)
    )


def test_the_threshold_is_the_score_above_which_shares_differ_most():
    random = np.random.default_rng(0)
    a, scores = np.arange(900) % 3, random.normal(size=900) + 0.5 * (np.arange(900) % 3 == 1)
    found = gaps(scores, a, "discrete")
    comparison, group, place = found.located(0)
    inside, others = members(comparison, group)
    cut = comparison.threshold(0, group)
    apart = abs((scores[inside] > cut).mean() - (scores[others] > cut).mean())
    assert apart == pytest.approx(float(found.distances[0, 0, place]), abs=1e-12)


def test_attributes_judged_together_have_the_largest_distance_and_a_higher_chance_level():
    random = np.random.default_rng(0)
    data = {"g": random.integers(0, 3, 800), "age": random.uniform(18, 80, 800)}
    table = SensitiveTable.from_data(data)
    scored = prepare(random.normal(size=800) + 0.9 * (data["age"] > 60))
    alone = [gaps_of(scored.against(each), notion=Notion.INDEPENDENCE) for each in table.columns]
    both = gaps_of(*map(scored.against, table.columns), notion=Notion.INDEPENDENCE)
    assert float(both.distances.max()) == max(float(each.distances.max()) for each in alone)
    quantile = [float((each.reach(LEVEL) / each.scales).max()) for each in (both, *alone)]
    assert quantile[0] > max(quantile[1:])
    comparison, group, _ = both.located(0)
    assert comparison.groups.labels[group].startswith("age ")


def test_the_chance_level_is_the_same_on_another_processor():
    """Equal groups make equal eigenvalues, whose eigenvectors differ between processors."""
    code = (
        "import numpy as np; from equipoise.metrics import measure;"
        "from equipoise.tables import SensitiveTable;"
        "a = np.linspace(18, 90, 1200); s = np.sin(7 * a) + (a > 60);"
        "print(repr(float(measure('gap', s, SensitiveTable.from_data({'a': a})['a']))))"
    )
    other = "Haswell" if os.environ.get("OPENBLAS_CORETYPE") == "Nehalem" else "Nehalem"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OPENBLAS_CORETYPE": other},
        capture_output=True,
        text=True,
        timeout=60,
    )
    ages = np.linspace(18, 90, 1200)
    scores = np.sin(7 * ages) + (ages > 60)
    here = float(measure("gap", scores, SensitiveTable.from_data({"a": ages})["a"]))
    assert float(done.stdout) == pytest.approx(here, abs=1e-6)
    assert here > 0.3
