"""Fronts, hypervolume and choice under a budget, against brute force."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InputError
from equipoise.pareto import Chosen, choose, hypervolume, non_dominated

few = settings(max_examples=80, deadline=None)
# Small whole numbers, so that ties and duplicates are common and sums are exact.
points = st.integers(1, 4).flatmap(
    lambda m: st.lists(st.lists(st.integers(0, 5), min_size=m, max_size=m), min_size=1, max_size=12)
)
pairs = st.lists(st.lists(st.integers(0, 6), min_size=2, max_size=2), max_size=10)
three_limits = st.lists(st.integers(0, 5), min_size=3, max_size=3)


def dominates(a, b):
    return all(x <= y for x, y in zip(a, b, strict=True)) and any(
        x < y for x, y in zip(a, b, strict=True)
    )


@few
@given(points)
def test_front_is_what_brute_force_finds(rows):
    expected = [not any(dominates(other, row) for other in rows) for row in rows]
    assert non_dominated(rows).tolist() == expected


@few
@given(points, st.randoms(use_true_random=False))
def test_front_does_not_depend_on_the_order_of_rows(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    shuffled = non_dominated([rows[i] for i in order])
    assert shuffled.tolist() == non_dominated(rows)[order].tolist()


def test_duplicates_of_a_front_row_are_all_on_it():
    assert non_dominated([[1, 2], [1, 2], [0, 3], [1, 3]]).tolist() == [True, True, True, False]


def test_one_cost_has_the_minimum_as_its_front():
    assert non_dominated([[3], [1], [2], [1]]).tolist() == [False, True, False, True]


def test_infinite_costs_are_compared_and_no_rows_have_no_front():
    assert non_dominated([[-np.inf, np.inf], [0, 0], [0, np.inf]]).tolist() == [True, True, False]
    assert non_dominated(np.empty((0, 2))).tolist() == []


@few
@given(pairs, st.integers(0, 7), st.integers(0, 7))
def test_hypervolume_counts_unit_cells(rows, right, top):
    # Cell [i, i + 1) x [j, j + 1) is dominated as a whole by the points at or below (i, j).
    cells = sum(any(x <= i and y <= j for x, y in rows) for i in range(right) for j in range(top))
    costs = np.array(rows, dtype=float).reshape(-1, 2)
    assert hypervolume(costs, (right, top)) == cells


@few
@given(pairs)
def test_hypervolume_is_that_of_the_front_alone(rows):
    costs = np.array(rows, dtype=float).reshape(-1, 2)
    assert hypervolume(costs[non_dominated(costs)], (7, 7)) == hypervolume(costs, (7, 7))


def test_hypervolume_of_a_staircase_is_its_integral():
    # The hyperbola y = 1 / x on [1, 2]: the area above it and below 1 is 1 - log 2.
    x = np.linspace(1, 2, 20_001)
    found = hypervolume(np.column_stack([x, 1 / x]), (2.0, 1.0))
    assert found == pytest.approx(1 - np.log(2), abs=1e-4)


@few
@given(
    points.filter(lambda rows: len(rows[0]) > 1),
    st.lists(st.integers(0, 5), min_size=3, max_size=3),
)
def test_choice_is_what_brute_force_finds(rows, limits):
    aim, costs = [row[0] for row in rows], [row[1:] for row in rows]
    limits = limits[: len(costs[0])]

    def excess(row):
        return max(max(c - limit, 0) for c, limit in zip(row, limits, strict=True))

    ranked = sorted(range(len(rows)), key=lambda i: (excess(costs[i]), aim[i], sum(costs[i]), i))
    least = excess(costs[ranked[0]])
    assert choose(aim, costs, limits) == Chosen(ranked[0], least == 0, least)


@few
@given(
    points.filter(lambda rows: len(rows[0]) > 1),
    st.lists(st.integers(0, 5), min_size=3, max_size=3),
)
def test_the_best_within_limits_is_on_the_joint_front(rows, limits):
    # What allows to keep front rows only: whatever the limits, the objective and excess reached
    # among them are those reached among all.
    matrix = np.array(rows, dtype=float)
    front = matrix[non_dominated(matrix)]
    limits = limits[: matrix.shape[1] - 1]
    everywhere = choose(matrix[:, 0], matrix[:, 1:], limits)
    among_front = choose(front[:, 0], front[:, 1:], limits)
    assert (among_front.feasible, among_front.excess) == (everywhere.feasible, everywhere.excess)
    assert front[among_front.row, 0] == matrix[everywhere.row, 0]


def test_a_cost_equal_to_an_infinite_limit_is_within_it():
    assert choose([1.0], [[np.inf]], [np.inf]) == Chosen(0, True, 0.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: non_dominated([1, 2]), "costs must have shape (rows, costs), got (2,)"),
        (
            lambda: non_dominated([[1, 2], [np.nan, 1]]),
            "costs must not be NaN, got one in row 1; leave out rows without a value",
        ),
        (
            lambda: hypervolume([[1, 2, 3]], (1, 2)),
            "hypervolume takes costs of shape (n, 2) and a reference of two numbers, got (1, 3) "
            "and (2,)",
        ),
        (lambda: hypervolume([[1, 2]], (np.nan, 2)), "reference must not be NaN, got (nan, 2.0)"),
        (
            lambda: choose([1], [[1, 2]], [1]),
            "objective must have one value for each row of costs and limits one for each column, "
            "got (1,) and (1,) for costs of shape (1, 2)",
        ),
        (
            lambda: choose([], np.empty((0, 1)), [1]),
            "costs must have at least one row to choose from, got none",
        ),
        (
            lambda: choose([np.nan], [[1]], [1]),
            "objective and limits must not be NaN; leave out rows without a value",
        ),
    ],
)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        call()
