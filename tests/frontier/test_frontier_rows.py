"""Which rows train, pick and report."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InputError
from equipoise.estimators.fitting import Rows
from equipoise.frontier.splitting import split_rows
from equipoise.tables import SensitiveTable


@settings(max_examples=40, deadline=None)
@given(st.integers(20, 200), st.floats(0.11, 0.45), st.floats(0.11, 0.45), st.integers(0, 2**31))
def test_every_row_is_in_one_part_and_shares_are_kept(n, validation, test, seed):
    split = split_rows(n, validation=validation, test=test, seed=seed)
    together = np.concatenate([split.train, split.validation, split.test])
    assert np.array_equal(np.sort(together), np.arange(n))
    assert len(split.validation) == round(validation * n) and len(split.test) == round(test * n)


def test_rows_that_are_named_are_taken_and_the_rest_is_drawn_around_them():
    named = split_rows(10, validation=[7, 3], test=np.array([0, 9]), seed=0)
    assert named.validation.tolist() == [3, 7] and named.test.tolist() == [0, 9]
    assert named.train.tolist() == [1, 2, 4, 5, 6, 8]
    half = split_rows(10, validation=0.5, test=[0, 1, 2], seed=0)
    assert half.test.tolist() == [0, 1, 2] and len(half.validation) == 5
    assert not set(half.validation) & {0, 1, 2}


def test_the_draw_is_fixed_by_the_seed():
    first, again, other = (split_rows(100, validation=0.2, test=0.2, seed=s) for s in (1, 1, 2))
    assert np.array_equal(first.test, again.test) and not np.array_equal(first.test, other.test)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"validation": 1.2, "test": 0.2},
            "validation must be a share strictly between 0 and 1, or positions of rows, got 1.2",
        ),
        (
            {"validation": 0.2, "test": True},
            "test must be a share strictly between 0 and 1, or positions of rows, got True",
        ),
        (
            {"validation": 0.01, "test": 0.2},
            "validation must hold at least 2 of the 20 rows, got 0; raise the share",
        ),
        (
            {"validation": 0.5, "test": 0.5},
            "validation and test must leave at least 2 of the 20 rows to train on, got 0; lower "
            "the shares",
        ),
        (
            {"validation": [1, 2], "test": [2, 3]},
            "validation and test must share no row, got 1 in both (first 2); leave them out of one",
        ),
        (
            {"validation": [1, 20], "test": 0.2},
            "validation must hold positions from 0 to 19, got 20",
        ),
        (
            {"validation": [1, 1, 2], "test": 0.2},
            "validation must name every row once, got 1 repeats",
        ),
        (
            {"validation": 0.2, "test": [0.5, 0.6]},
            "test must be a share of the rows or the positions of at least two rows, got an array "
            "of float64 and shape (2,)",
        ),
    ],
)
def test_errors_name_the_part(options, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        split_rows(20, seed=0, **options)


def test_the_table_of_some_rows_alone_is_the_one_read_from_them():
    random = np.random.default_rng(0)
    age = random.normal(size=60)
    age[5] = np.nan
    race = random.choice(["a", "b", "c"], size=60).astype(object)
    race[:30] = np.where(race[:30] == "b", "a", race[:30])  # no "b" among the first rows
    race[7] = None
    people = {"age": age, "race": race}
    rows = np.arange(30)
    everybody = SensitiveTable.from_data(people, missing="skip")
    found = Rows(np.zeros((60, 1)), np.zeros(60), None, everybody).alone(rows).table
    alone = SensitiveTable.from_data({k: v[rows] for k, v in people.items()}, missing="skip")
    assert found["race"].categories == alone["race"].categories == ("a", "c")
    assert np.array_equal(found.encode(), alone.encode())
    assert np.array_equal(found.known, alone.known)
