"""Dependence: other people's libraries, closed forms and exact zeros."""

from __future__ import annotations

import maxcorr
import numpy as np
import pytest
from fairlearn.metrics import demographic_parity_difference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import norm, rankdata

from equipoise.errors import InputError
from equipoise.metrics import METRICS, measure
from equipoise.metrics.dependence import (
    DISTANCE_ROWS,
    PAIRED_ROWS,
    distance_correlation_with_label,
    distance_correlation_with_number,
    distance_correlation_with_vector,
    measure_dependence,
)
from equipoise.tables import SensitiveTable

MEASURES = ("GDP", "HGR", "dCor", "HSIC")
each_measure = pytest.mark.parametrize("name", MEASURES)


def gaussian(rho: float, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    first, noise = random.normal(size=(2, n))
    return first, rho * first + np.sqrt(1 - rho**2) * noise


def product_design() -> tuple[np.ndarray, SensitiveTable]:
    """Every score beside every combination of a continuous and a three-level attribute, once."""
    score, age, group = (
        axis.ravel()
        for axis in np.meshgrid(np.arange(12) ** 1.5, np.linspace(-2, 3, 14), [0, 1, 2])
    )
    return score, SensitiveTable.from_data({"age": age, "group": group})


def tables(table: SensitiveTable) -> list[SensitiveTable]:
    return [SensitiveTable((column,)) for column in table.columns] + [table]


# Distance correlation


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 70), st.integers(1, 30), st.integers(0, 2**31))
def test_distance_correlation_agrees_with_dcor_ties_included(dcor, n, levels, seed):
    random = np.random.default_rng(seed)
    scores = random.integers(0, levels, (2, n)).astype(float)
    scores[1] += 100 + random.normal(size=n)
    values = random.integers(0, levels, n) * 0.3
    expected = [dcor.distance_correlation(score, values, method="naive") for score in scores]
    found = distance_correlation_with_number(scores, values)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n", [2_000, 3_001])
def test_distance_correlation_agrees_with_dcor_on_many_rows(dcor, n):
    first, second = gaussian(0.3, n)
    found = distance_correlation_with_number(first[None], np.exp(second))
    expected = dcor.distance_correlation(first, np.exp(second), method="naive")
    np.testing.assert_allclose(found, [expected], rtol=0, atol=1e-10)


def test_distance_correlation_with_labels_is_that_with_their_one_hot_vectors(dcor):
    random = np.random.default_rng(1)
    labels = random.integers(0, 4, 300)
    scores = random.normal(size=(3, 300)) + [[0.0], [0.2], [1.0]] * labels
    one_hot = np.eye(4)[labels]
    expected = [dcor.distance_correlation(score, one_hot) for score in scores]
    for found in (
        distance_correlation_with_label(scores, labels),
        distance_correlation_with_vector(scores, one_hot),
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_distance_correlation_of_a_gaussian_has_its_closed_form():
    # Szekely, Rizzo and Bakirov 2007, theorem 7.
    rho = 0.5
    top = rho * np.arcsin(rho) + np.sqrt(1 - rho**2)
    top -= rho * np.arcsin(rho / 2) + np.sqrt(4 - rho**2) - 1
    known = np.sqrt(top / (1 + np.pi / 3 - np.sqrt(3)))
    score, age = gaussian(rho, 10_000)
    found = measure_dependence("dCor", score, SensitiveTable.from_data({"age": age}))
    assert found.value == pytest.approx(known, abs=0.01)


# Maximal correlation


@pytest.mark.parametrize("rho", [-0.8, 0.3, 0.6])
def test_maximal_correlation_of_a_gaussian_is_its_correlation(rho):
    score, age = gaussian(rho, 20_000)
    found = measure_dependence("HGR", np.exp(score), SensitiveTable.from_data({"age": age}))
    assert found.value == pytest.approx(abs(rho), abs=0.015)


def test_maximal_correlation_of_two_discrete_variables_is_a_singular_value():
    random = np.random.default_rng(2)
    joint = random.dirichlet(np.ones(12)).reshape(4, 3)
    cell = random.choice(12, size=2_000, p=joint.ravel())
    score, group = np.divmod(cell, 3)
    shares = np.bincount(cell, minlength=12).reshape(4, 3) / len(cell)
    scaled = shares / np.sqrt(np.outer(shares.sum(1), shares.sum(0)))
    found = measure_dependence("HGR", score, SensitiveTable.from_data({"group": group}))
    assert found.value == pytest.approx(np.linalg.svd(scaled)[1][1], abs=1e-12)


def test_maximal_correlation_agrees_with_maxcorr_on_the_same_functions():
    score, age = gaussian(0.4, 500, seed=3)
    score = score + age**2
    normal = [ndtri((rankdata(values) - 0.5) / 500) for values in (score, age)]
    theirs = maxcorr.hgr(algorithm="dk", kernel_a=5, kernel_b=5)
    found = measure_dependence("HGR", score, SensitiveTable.from_data({"age": age}))
    assert found.value == pytest.approx(float(theirs.compute(*normal)), abs=1e-3)


def test_maximal_correlation_is_one_for_any_function_of_the_attribute():
    age = np.random.default_rng(4).normal(size=400)
    table = SensitiveTable.from_data({"age": age, "group": np.arange(400) % 3})
    normal = ndtri((rankdata(age) - 0.5) / 400)
    assert measure_dependence("HGR", normal**2, table).value == pytest.approx(1, abs=1e-3)
    assert measure_dependence("HGR", (np.arange(400) % 3 == 1) * 1.0, table).value == pytest.approx(
        1
    )


def test_the_joint_measures_see_what_no_single_column_shows():
    first, second = np.tile([0, 0, 1, 1], 250), np.tile([0, 1, 0, 1], 250)
    table = SensitiveTable.from_data({"first": first, "second": second})
    exclusive_or = (first ^ second).astype(float)
    for name in MEASURES:
        values = [float(measure_dependence(name, exclusive_or, t).value) for t in tables(table)]
        assert values[:2] == pytest.approx([0, 0], abs=1e-8), name
        assert values[2] > 0.005, name
    assert measure_dependence("HGR", exclusive_or, table).value == pytest.approx(1)
    assert measure_dependence("GDP", exclusive_or, table).value == pytest.approx(0.5)


# HSIC


def test_hsic_is_the_trace_of_centered_kernels():
    random = np.random.default_rng(5)
    score, age = random.normal(size=(2, 40))
    centering = np.eye(40) - 1 / 40
    kernels = []
    for values in (score, age):
        distances = np.abs(values[:, None] - values)
        width = np.median(distances[np.triu_indices(40, 1)])
        kernels.append(np.exp(-(distances**2) / (2 * width**2)))
    expected = np.trace(kernels[0] @ centering @ kernels[1] @ centering) / 40**2
    found = measure_dependence("HSIC", score, SensitiveTable.from_data({"age": age}))
    assert found.value == pytest.approx(expected, rel=1e-12)


def test_hsic_of_a_gaussian_has_its_closed_form():
    # Gaussian integrals: E exp(-z' D z / 2) = det(I + D S)^(-1/2) for z of covariance S.
    rho, n = 0.7, 2_000
    covariance = np.array([[1, rho], [rho, 1]])
    eye = np.eye(2)
    square = 2 * norm.ppf(0.75) ** 2  # of the median distance between two draws
    joint = np.linalg.det(eye + 2 * covariance / square) ** -0.5
    alone = (1 + 2 / square) ** -0.5
    mixed = (1 + 1 / square) ** -1 * np.linalg.det(eye + covariance / (square + 1)) ** -0.5
    known = joint + alone**2 - 2 * mixed
    values = []
    for seed in range(5):
        score, age = gaussian(rho, n, seed)
        values.append(
            measure_dependence("HSIC", score, SensitiveTable.from_data({"age": age})).value
        )
    assert np.mean(values) == pytest.approx(known, rel=0.05)


# Generalized demographic parity


def test_generalized_parity_of_two_groups_is_a_multiple_of_fairlearns_difference():
    random = np.random.default_rng(6)
    group = random.random(500) < 0.3
    decision = (random.random(500) < 0.4 + 0.2 * group).astype(int)
    share = group.mean()
    difference = demographic_parity_difference(decision, decision, sensitive_features=group)
    found = measure_dependence("GDP", decision, SensitiveTable.from_data({"group": group}))
    assert found.value == pytest.approx(2 * share * (1 - share) * difference, abs=1e-14)


def test_generalized_parity_of_a_gaussian_has_its_closed_form():
    score, age = gaussian(0.5, 100_000)
    found = measure_dependence("GDP", score, SensitiveTable.from_data({"age": age}))
    known = 0.5 * 2 * norm.pdf(0)  # E abs(rho A)
    assert found.value == pytest.approx(known, abs=0.01)


# Laws of all of them


@each_measure
def test_zero_when_the_score_ignores_the_attributes(name):
    score, table = product_design()
    for each in tables(table):
        assert measure_dependence(name, score, each).value == pytest.approx(0, abs=1e-8)
        constant = measure_dependence(name, np.ones_like(score), each)
        assert constant.value == pytest.approx(0, abs=1e-12)


@each_measure
def test_zero_given_the_outcome_when_it_explains_all(name):
    score, table = product_design()
    twice = SensitiveTable.from_data(
        {
            "age": np.concatenate([table["age"].values, table["age"].values + 50]),
            "group": np.concatenate([table["group"].codes, table["group"].codes]),
        }
    )
    y = np.repeat(["no", "yes"], len(score))
    scores = np.concatenate([score, score + 9])
    assert measure_dependence(name, scores, twice).value > 0.003
    found = measure_dependence(name, scores, twice, y=y)
    assert found.value == pytest.approx(0, abs=1e-8)


@each_measure
def test_strata_of_the_outcome_are_averaged_by_size(name):
    random = np.random.default_rng(7)
    table = SensitiveTable.from_data({"age": random.normal(size=300)})
    score = random.normal(size=300) + table["age"].values
    y = (np.arange(300) < 60).astype(int)
    alone = [
        measure_dependence(name, score[y == level], table.take(y == level)) for level in (0, 1)
    ]
    expected = 0.8 * alone[0].value + 0.2 * alone[1].value
    assert measure_dependence(name, score, table, y=y).value == pytest.approx(expected, abs=1e-12)


@each_measure
def test_row_order_group_names_and_company_do_not_matter(name):
    random = np.random.default_rng(8)
    age, group = random.normal(size=200), random.integers(0, 3, 200)
    scores = random.normal(size=(2, 200)) + age + group
    table = SensitiveTable.from_data({"age": age, "group": group})
    renamed = SensitiveTable.from_data({"age": age, "group": np.array(["z", "a", "m"])[group]})
    together = measure_dependence(name, scores, table).value
    order = random.permutation(200)
    for other in (
        measure_dependence(name, scores[:, order], table.take(order)).value,
        measure_dependence(name, scores, renamed).value,
        [measure_dependence(name, score, table).value for score in scores],
    ):
        np.testing.assert_allclose(other, together, rtol=1e-9)
    assert together.shape == (2,)
    assert measure_dependence(name, scores[0], table).value.shape == ()


@each_measure
def test_a_continuous_outcome_leaves_no_trace(name):
    """Score and A depend on each other through y alone; what is left is the bias of a null."""
    random = np.random.default_rng(9)
    y = random.normal(size=2_000)
    table = SensitiveTable.from_data({"age": y + 0.5 * random.normal(size=2_000)})
    score = np.exp(y) + (1 + (y > 0)) * random.normal(size=2_000)
    given_y = measure_dependence(name, score, table, y=y).value
    shuffled = table.take(random.permutation(2_000))
    by_chance = measure_dependence(name, score, shuffled, y=y).value
    assert given_y < 1.3 * by_chance
    assert measure_dependence(name, score, table).value > 3 * by_chance


@each_measure
def test_a_score_that_is_a_function_of_a_continuous_outcome_is_separated_exactly(name):
    y = np.random.default_rng(10).normal(size=400)
    table = SensitiveTable.from_data({"age": y})
    assert measure_dependence(name, np.exp(y), table, y=y).value == 0


@each_measure
def test_dependence_beyond_a_continuous_outcome_is_seen(name):
    random = np.random.default_rng(11)
    y, age, noise = random.normal(size=(3, 1_000))
    table = SensitiveTable.from_data({"age": age})
    found = measure_dependence(name, y + 0.7 * age + noise, table, y=y).value
    assert found > 2 * measure_dependence(name, y + noise, table, y=y).value


def test_maximal_correlation_ignores_increasing_maps_of_score_and_attribute():
    score, age = gaussian(0.5, 300)
    once = measure_dependence("HGR", score, SensitiveTable.from_data({"age": age})).value
    again = measure_dependence(
        "HGR", np.exp(score), SensitiveTable.from_data({"age": age**3})
    ).value
    assert once == again


def test_rows_used_are_said_and_drawn_reproducibly():
    score, age = gaussian(0.5, DISTANCE_ROWS + 50)
    table = SensitiveTable.from_data({"age": age, "group": np.arange(len(age)) % 2})
    column = SensitiveTable(table.columns[:1])
    assert measure_dependence("dCor", score, column).rows == DISTANCE_ROWS
    assert measure_dependence("dCor", score, table).rows == PAIRED_ROWS
    assert measure_dependence("GDP", score, table).rows == len(age)
    once, again = (measure_dependence("HSIC", score, column).value for _ in range(2))
    assert once == again


def test_rows_with_a_missing_attribute_take_no_part():
    score, age = gaussian(0.5, 120)
    age[:20] = np.nan
    table = SensitiveTable.from_data({"age": age}, missing="skip")
    for name in MEASURES:
        found = measure_dependence(name, score, table)
        assert found.rows == 100
        known = measure_dependence(name, score[20:], SensitiveTable.from_data({"age": age[20:]}))
        np.testing.assert_allclose(found.value, known.value, rtol=1e-9)


# Bad input


@pytest.mark.parametrize(
    ("scores", "y", "message"),
    [
        ([0.1] * 5, None, "sensitive_features must have one row for each of the 5 scores, got 6"),
        ([0.1] * 6, [0, 1], "y must have one row for each of the 6 scores, got 2"),
        (
            [0.1, np.nan, 0, 0, 0, 0],
            None,
            "scores must be finite, got nan at position 1; drop or fill these rows",
        ),
    ],
)
@each_measure
def test_bad_input_is_named(name, scores, y, message):
    with pytest.raises(InputError) as caught:
        measure_dependence(name, scores, SensitiveTable.from_data([0, 1, 0, 1, 0, 1]), y=y)
    assert str(caught.value).startswith(message)


def test_maximal_correlation_needs_more_rows_than_functions():
    with pytest.raises(InputError) as caught:
        measure_dependence("HGR", [1, 2, 3, 4, 5, 6], SensitiveTable.from_data([0, 1, 2, 3, 4, 4]))
    assert str(caught.value) == (
        "maximal correlation needs more rows than functions of score and sensitive_features, got 6 "
        "rows in a stratum and 9 functions; leave out columns or merge levels"
    )


# The registry


@each_measure
def test_registered_under_both_notions(name):
    score, age = gaussian(0.5, 200)
    y = (np.arange(200) % 2).astype(float)
    table = SensitiveTable.from_data({"age": age})
    alone, given_y = (measure_dependence(name, score, table, y=each).value for each in (None, y))
    assert float(measure(name, score, table["age"], y)) == alone
    assert float(measure(f"{name}|Y", score, table["age"], y)) == given_y
    assert METRICS[f"{name}|Y"].notion == "separation"


def test_an_undefined_value_comes_with_its_reason():
    column = SensitiveTable.from_data({"a": [0, 1, 2, 3, 4, 4]})["a"]
    found = measure("HGR", [1.0, 2, 3, 4, 5, 6], column)
    assert np.isnan(float(found))
    assert found.reasons[0].startswith("maximal correlation needs more rows than functions")


def test_row_weights_are_refused():
    column = SensitiveTable.from_data({"a": [0, 1, 0, 1]})["a"]
    with pytest.raises(InputError, match=r"^HSIC does not take row weights; leave weights out$"):
        measure("HSIC", [1.0, 2, 3, 4], column, weights=[1.0, 2, 1, 1])


@each_measure
def test_an_outcome_of_one_column_is_an_outcome(name):
    random = np.random.default_rng(0)
    scores, y = random.normal(size=60), np.arange(60) % 2
    table = SensitiveTable.from_data(random.permutation(["a", "b"] * 30))
    column = measure_dependence(name, scores, table, y=y[:, None])
    assert column == measure_dependence(name, scores, table, y=y)


def test_a_score_without_a_value_leaves_the_others_theirs():
    """Two levels of the first score are fewer functions than ten values of the second."""
    random = np.random.default_rng(0)
    column = SensitiveTable.from_data(np.arange(11) % 4).columns[0]
    scores = np.stack([np.arange(11) % 2, random.permutation(11) % 10])
    found = measure("HGR", scores, column)
    assert found.reasons[0] is None and "more rows than functions" in found.reasons[1]
    np.testing.assert_array_equal(found.values, [measure("HGR", scores[0], column).values, np.nan])
