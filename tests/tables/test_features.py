"""Laws and refusals of every encoder of features."""

from __future__ import annotations

import copy
import datetime
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError
from table_errors import refused, warned

from equipoise.storage import from_json, made, to_json
from equipoise.tables import ENCODERS

PEOPLE = {
    "hours": [20, 40, None, 35, 38, 60],
    "wage": [9.5, 12.25, 30.0, 12.25, 18.0, 55.5],
    "member": [True, False, False, None, True, False],
    "job": ["cook", "nurse", None, "cook", "baker", "nurse"],
    "town": ["A", "B", "A", "A", "B", "B"],
}
FRAME, POLARS = pd.DataFrame(PEOPLE), pl.DataFrame(PEOPLE)
CONTAINERS = {
    "pandas": FRAME,
    "pandas nullable": FRAME.convert_dtypes(),
    "pandas pyarrow": FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "pandas category": FRAME.astype({"job": "category", "town": "category"}),
    "pandas object": FRAME.astype(object),
    "polars categorical": POLARS.with_columns(pl.col("job", "town").cast(pl.Categorical)),
    "pyarrow": pa.table(PEOPLE),
    "pyarrow dictionary": pa.table({**PEOPLE, "job": pa.array(PEOPLE["job"]).dictionary_encode()}),
    "list of rows": [list(row) for row in zip(*PEOPLE.values(), strict=True)],
}

pytestmark = pytest.mark.parametrize("encoder", ENCODERS.values())


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_bits(encoder, container):
    reference = encoder().fit(POLARS)
    expected = reference.transform(POLARS)
    fitted = encoder()
    assert fitted.fit_transform(CONTAINERS[container]).tobytes() == expected.tobytes()
    # Whatever was given at fit, new rows may come in any other container.
    assert fitted.transform(POLARS).tobytes() == expected.tobytes()
    assert reference.transform(CONTAINERS[container]).tobytes() == expected.tobytes()
    if container != "list of rows":
        assert fitted.names_ == reference.names_


def test_rows_are_encoded_one_by_one_in_any_order_of_rows_and_columns(encoder):
    fitted = encoder().fit(FRAME)
    expected = fitted.transform(FRAME)
    order = np.random.default_rng(1).permutation(len(FRAME))
    np.testing.assert_array_equal(fitted.transform(FRAME.iloc[order]), expected[order])
    np.testing.assert_array_equal(fitted.transform(FRAME.iloc[[4]]), expected[[4]])
    np.testing.assert_array_equal(encoder().fit(FRAME.iloc[order]).transform(FRAME), expected)
    np.testing.assert_array_equal(fitted.transform(POLARS[:, ::-1]), expected)


def test_columns_without_names_are_found_by_position(encoder):
    fitted = encoder().fit(FRAME)
    nameless = FRAME.astype(object).to_numpy()
    expected = fitted.transform(FRAME)
    np.testing.assert_array_equal(fitted.transform(nameless), expected)
    np.testing.assert_array_equal(encoder().fit(nameless).transform(FRAME), expected)
    # Names that look like positions are names all the same.
    frame = pl.DataFrame({"x0": [1.0, 2.0, 3.0], "x1": [5.0, 4.0, 9.0]})
    named = encoder().fit(frame)
    np.testing.assert_array_equal(named.transform(frame[:, ::-1]), named.transform(frame))


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        np.array([[1.0, np.nan], [np.nan, np.nan]]),
        pd.DataFrame(
            {
                "size": pd.Categorical(["b", None], categories=["a", "b", "c"]),
                "risk": pd.Categorical(["low", "high"], categories=["low", "high"], ordered=True),
                "code": pd.Categorical([10, 9]),
                "none": [None, None],
            }
        ),
    ],
    ids=["people", "array", "categoricals"],
)
def test_a_copy_and_a_stored_state_encode_bit_for_bit(encoder, frame):
    fitted = encoder()
    expected = fitted.fit_transform(frame)
    values, arrays = fitted.state().parts()
    text = json.dumps({name: to_json(value, argument=name) for name, value in values.items()})
    values = {name: from_json(value) for name, value in json.loads(text).items()}
    others = {**arrays, "network.weight": np.zeros(3)}
    state = made(encoder.state_type, encoder.state_type.fields_in(values, others))
    state.check()
    assert list(state.families) == list(fitted.state().families)  # their order is part of it
    copies = copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted)), encoder.from_state(state)
    for copied in copies:
        assert copied.transform(frame).tobytes() == expected.tobytes()
        assert (copied.names_, copied.categorical_) == (fitted.names_, fitted.categorical_)


def test_unseen_categories_give_one_warning_that_names_them(encoder):
    fitted = encoder().fit(pl.DataFrame({"job": ["a", "b"], "town": ["x", "y"]}))
    later = pl.DataFrame({"job": ["p", "q", "r", "s", "a"], "town": ["x", "z", "y", "x", "y"]})
    with warned("not seen at fit", "'job' ('p', 'q', 'r' and 1 more); 'town' ('z')") as warnings:
        fitted.transform(later)
    assert [each.filename for each in warnings] == [__file__]


def test_numbers_missing_only_after_fit_give_one_warning_that_names_them(encoder):
    train = {"a": [1.0, 2.0, 6.0], "b": [True, True, False], "c": [1.0, None, 3.0]}
    fitted = encoder().fit(pd.DataFrame(train))
    later = {"a": [None, 4.0], "b": [None, None], "c": [1.0, None]}
    with warned("missing values in 'a', 'b', where there were none at fit") as warnings:
        fitted.transform(pd.DataFrame(later))
    assert [each.filename for each in warnings] == [__file__]


def test_values_of_a_column_that_had_none_at_fit_are_ignored_with_a_warning(encoder):
    train = pl.DataFrame({"a": [1.0, 2.0, 3.0], "b": [None, None, None]})
    fitted = encoder().fit(train)
    missing = fitted.transform(pl.DataFrame({"a": [2.0], "b": [None]}))[:, :2]
    with warned("X column 'b' had no value at fit", "ignored") as warnings:
        given = fitted.transform(pl.DataFrame({"a": [2.0], "b": ["x"]}))[:, :2]
    assert [each.filename for each in warnings] == [__file__]
    np.testing.assert_array_equal(given, missing)


@pytest.mark.parametrize(
    ("later", "parts"),
    [
        (POLARS.rename({"wage": "wages"}), ["'wage' is missing", "is 'wages' a misspelling"]),
        (POLARS.drop("hours", "wage"), ["columns seen at fit", "'hours', 'wage' are missing"]),
        (POLARS.with_columns(age=1), ["only the columns seen at fit", "'age'", "drop"]),
        (np.ones((3, 2)), ["5 columns seen at fit", "got 2", "same order"]),
        (POLARS.with_columns(hours=pl.lit("many")),
         ["X column 'hours'", "numbers as at fit", "got text or categories", "convert"]),
        (POLARS.with_columns(job=pl.lit(True)),
         ["X column 'job'", "text or categories as at fit", "got booleans", "convert"]),
    ],
)  # fmt: skip
def test_new_rows_of_another_shape_are_refused(encoder, later, parts):
    with refused(*parts):
        encoder().fit(FRAME).transform(later)


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (np.ones(3), ["X must have two dimensions", "(3,)", "(rows, 1)"]),
        ([1, 2], ["X must have two dimensions", "(2,)"]),
        (pl.DataFrame({"born": [datetime.date(2000, 1, 1)]}),
         ["X column 'born' must not hold dates", "Date", "turn them into a number"]),
        (np.array([[1.0], [np.inf]]), ["X column 'x0'", "finite", "inf in row 1", "missing (NaN)"]),
        (np.array([[1], ["a"]], dtype=object),
         ["X column 'x0'", "one type", "numbers such as 1 and text such as 'a'", "convert"]),
        (np.empty((0, 2)), ["X must have at least one row and one column", "no rows"]),
    ],
)  # fmt: skip
def test_bad_features_are_refused(encoder, data, parts):
    for learn in (encoder().fit, encoder().fit_transform):
        with refused(*parts):
            learn(data)


def test_another_number_of_nameless_columns_is_refused(encoder):
    with refused("2 columns seen at fit", "got 3"):
        encoder().fit(np.ones((3, 2))).transform(np.ones((3, 3)))


def test_transform_before_fit_is_refused(encoder):
    with pytest.raises(NotFittedError, match=f"{encoder.__name__} must be fitted before transform"):
        encoder().transform(FRAME)
