"""Permutation tests: the level is right, and known dependences are found."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binomtest

from equipoise.errors import InputError
from equipoise.inference import Estimate, permutation
from equipoise.inference.permutation import permutation_test
from equipoise.tables import SensitiveTable

DATA_SETS = 250


def attributes(signal: np.ndarray, random: np.random.Generator) -> dict[str, SensitiveTable]:
    """Discrete, continuous and mixed attributes that follow `signal` (n,)."""
    noise = random.normal(size=(2, len(signal)))
    table = SensitiveTable.from_data(
        {"age": signal + noise[0], "group": np.digitize(signal + noise[1], [-0.7, 0.7])}
    )
    return {
        "discrete": SensitiveTable(table.columns[1:]),
        "continuous": SensitiveTable(table.columns[:1]),
        "mixed": table,
    }


@pytest.mark.parametrize("kind", ["discrete", "continuous", "mixed"])
@pytest.mark.parametrize("outcome", ["none", "binary", "continuous"])
def test_five_percent_of_null_data_sets_are_rejected(kind, outcome):
    """Score and A both follow y; given y they know nothing of each other."""
    random = np.random.default_rng(["discrete", "continuous", "mixed"].index(kind))
    n = 200
    rejections = 0
    for data_set in range(DATA_SETS):
        signal = random.normal(size=n)
        if outcome == "binary":
            signal = np.sign(signal)
        table = attributes(signal, random)[kind]
        if outcome == "none":
            score = random.normal(size=n).round(1)  # with ties
        else:  # the mean bends with y and the spread grows with it
            score = np.sin(2 * signal) + (0.5 + signal**2) * random.normal(size=n)
        y = None if outcome == "none" else signal
        test = permutation_test(score, table, y=y, permutations=19, random_state=data_set)
        rejections += test.p <= 0.05
    assert binomtest(rejections, DATA_SETS, 0.05).pvalue > 0.01, rejections


@pytest.mark.parametrize("kind", ["discrete", "continuous", "mixed"])
@pytest.mark.parametrize("outcome", ["none", "binary", "continuous"])
def test_a_known_dependence_is_found(kind, outcome):
    """Score and A share a part beyond y: their correlation given y is about 0.3."""
    random = np.random.default_rng(10)
    found = 0
    for data_set in range(20):
        y = None if outcome == "none" else random.normal(size=400)
        if outcome == "binary":
            y = np.sign(y)
        shared = random.normal(size=400)
        table = attributes(shared, random)[kind]
        score = 0.5 * shared + random.normal(size=400) + (0 if y is None else y)
        test = permutation_test(score, table, y=y, permutations=99, random_state=data_set)
        found += test.p <= 0.05
    assert found >= 18


@pytest.mark.parametrize(
    "score_of",
    [lambda age, noise: age**2 + noise, lambda age, noise: np.exp(0.5 * age) * noise],
    ids=["bent", "spread"],
)
def test_dependences_without_correlation_are_found(score_of):
    random = np.random.default_rng(11)
    age, noise = random.normal(size=(2, 500))
    test = permutation_test(score_of(age, noise), SensitiveTable.from_data({"age": age}))
    assert test.p == 0.001


def test_effects_that_cancel_over_levels_of_the_outcome_are_found():
    random = np.random.default_rng(12)
    age, noise = random.normal(size=(2, 600))
    y = np.arange(600) % 2
    score = 0.5 * age * (2 * y - 1) + noise
    assert permutation_test(score, SensitiveTable.from_data({"age": age}), y=y).p == 0.001


def test_the_joint_test_sees_what_no_single_column_shows():
    random = np.random.default_rng(13)
    first, second = random.integers(0, 2, (2, 300))
    score = (first ^ second) + 0.5 * random.normal(size=300)
    table = SensitiveTable.from_data({"first": first, "second": second})
    assert permutation_test(score, table).p == 0.001
    assert permutation_test(score, SensitiveTable(table.columns[:1])).p > 0.05


def test_p_value_is_that_of_all_permutations():
    """Twelve rows in two groups of six: all 924 divisions can be listed."""
    score = np.array([3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
    group = np.array([0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 1])

    def test_of(labels: np.ndarray, permutations: int) -> Estimate:
        table = SensitiveTable.from_data({"group": labels})
        return permutation_test(score, table, permutations=permutations)

    observed = test_of(group, 1).value
    reached = 0
    for chosen in combinations(range(12), 6):
        labels = np.zeros(12, dtype=int)
        labels[list(chosen)] = 1
        reached += test_of(labels, 1).value >= observed * (1 - 1e-9)
    exact = reached / 924
    drawn = 9_999
    p_value = test_of(group, drawn).p
    assert p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / drawn))


def test_the_statistic_is_the_hilbert_schmidt_norm_of_the_kernels():
    """Two groups, no ties: the quadratic form written out over pairs of rows."""
    random = np.random.default_rng(14)
    n = permutation.SCORE_BINS  # one row per bin
    score, group = random.permutation(n), np.arange(n) % 2
    place = (score + 0.5) / n
    kernel = np.exp(-((place[:, None] - place) ** 2) / (2 * 0.25**2))
    same = 1.0 + (group[:, None] == group)
    centring = np.eye(n) - 1 / n
    expected = np.trace(kernel @ centring @ same @ centring) / n**2
    test = permutation_test(score, SensitiveTable.from_data({"group": group}))
    assert test.value == pytest.approx(expected, rel=1e-5)


def test_strata_in_which_the_attribute_is_constant_add_nothing():
    """scipy 1.17.1 draws tables of one column wrongly, which would make every p-value 1."""
    random = np.random.default_rng(15)
    y = np.repeat([0, 1, 2], 200)
    group = np.where(y == 1, random.integers(0, 2, 600), y // 2)
    score = random.normal(size=600) + 0.8 * group
    table = SensitiveTable.from_data({"group": group})
    test = permutation_test(score, table, y=y)
    assert test.p == 0.001
    constant = permutation_test(score, table, y=group)
    assert constant.value == 0
    assert constant.p == 1


def test_increasing_maps_change_nothing():
    random = np.random.default_rng(16)
    table = attributes(random.normal(size=150), random)["mixed"]
    score = random.normal(size=150)
    found = permutation_test(score, table, permutations=199)
    assert found == permutation_test(np.exp(score), table, permutations=199)
    assert (found.n, found.note) == (150, "")
    assert permutation_test(table["age"].values, table, permutations=199).p == 1 / 200


def test_row_order_and_group_names_do_not_change_the_statistic():
    random = np.random.default_rng(17)
    group, score = random.integers(0, 3, 100), random.normal(size=100)
    order = random.permutation(100)
    renamed = np.array(["z", "a", "m"])[group[order]]
    once = permutation_test(score, SensitiveTable.from_data({"group": group}))
    again = permutation_test(score[order], SensitiveTable.from_data({"group": renamed}))
    assert once.value == pytest.approx(again.value, rel=1e-9)


def test_only_a_continuous_outcome_makes_the_level_approximate():
    random = np.random.default_rng(18)
    table = SensitiveTable.from_data({"group": np.arange(100) % 2})
    score, y = random.normal(size=(2, 100))
    test = permutation_test(score, table, y=y, permutations=19)
    assert "approximate" in test.note
    assert permutation_test(score, table, y=y > 0, permutations=19).note == ""


def test_rows_with_a_missing_attribute_take_no_part():
    table = SensitiveTable.from_data({"group": ["a", "b", None] * 20}, missing="skip")
    assert permutation_test(np.arange(60), table, permutations=9).n == 40


def test_bad_input_is_named():
    table = SensitiveTable.from_data([0, 1, 0, 1])
    with pytest.raises(InputError) as caught:
        permutation_test([1, 2, 3, 4], table, permutations=0)
    assert str(caught.value) == "permutations must be a whole number of at least 1, got 0"
    with pytest.raises(InputError, match="outcome describes y"):
        permutation_test([1, 2, 3, 4], table, outcome="binary")
    with pytest.raises(InputError, match="random_state must be a whole number"):
        permutation_test([1, 2, 3, 4], table, random_state="0")
    with pytest.raises(InputError) as caught:
        permutation_test([1, 2, 3], table)
    assert str(caught.value).startswith(
        "sensitive_features must have one row for each of the 3 scores, got 4; pass"
    )
    with pytest.raises(InputError, match=r"scores must have shape \(n,\), got \(2, 4\)"):
        permutation_test([[1, 2, 3, 4], [1, 2, 3, 4]], table)
    many = SensitiveTable.from_data([str(row // 2) for row in range(5_000)])
    with pytest.raises(InputError) as caught:
        permutation_test(np.arange(5_000), many)
    assert str(caught.value) == (
        "sensitive_features must form at most 2000 cells, got 2500 from 'sensitive_0'; leave out a "
        "column or merge its levels"
    )
