"""What is particular to the encoding of features for trees; common laws: test_features.py."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_errors import warned

from equipoise.tables import TreeEncoder, TreeEncoderState

NAN = float("nan")
PEOPLE = {
    "hours": [20, 40, None, 35, 38, 60],
    "job": ["cook", "nurse", None, "cook", "baker", "nurse"],
    "member": [True, False, False, None, True, False],
    "wage": [9.5, 12.25, 30.0, 12.25, 18.0, 55.5],
    "town": ["B", "A", "B", "B", "A", "A"],
}
ENCODED = [
    [20, 1, 1, 9.5, 1],
    [40, 2, 0, 12.25, 0],
    [NAN, NAN, 0, 30.0, 1],
    [35, 1, NAN, 12.25, 1],
    [38, 0, 1, 18.0, 0],
    [60, 2, 0, 55.5, 0],
]
FRAME = pd.DataFrame(PEOPLE)


# ---- values ---------------------------------------------------------------------------------


def test_exact_values_of_a_small_table():
    encoder = TreeEncoder()
    encoded = encoder.fit_transform(FRAME)
    assert encoded.dtype == np.float64
    np.testing.assert_array_equal(encoded, ENCODED)
    assert (encoder.names_, encoder.categorical_) == (list(PEOPLE), (1, 4))


def test_a_numeric_array_comes_out_as_it_went_in():
    array = np.random.default_rng(0).normal(size=(50, 3)) * [1e-15, 1, 1e30]
    array[::7, 1] = np.nan
    encoder = TreeEncoder()
    encoded = encoder.fit_transform(array)
    assert encoded.tobytes() == array.tobytes()
    assert not np.shares_memory(encoded, array)
    assert (encoder.names_, encoder.categorical_) == (["x0", "x1", "x2"], ())
    integers = np.array([[2**53, -1], [0, 7]])
    np.testing.assert_array_equal(TreeEncoder().fit_transform(integers), integers)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from(["a", "b", "B", "", "é", "10", "9", None]), min_size=1, max_size=12),
    st.lists(st.sampled_from(["a", "c", "B", "", "10", "nan", None]), min_size=1, max_size=12),
)
def test_text_is_numbered_as_pandas_numbers_it(train, later):
    text = pd.Series(train, dtype=object)
    encoder = TreeEncoder().fit(text.to_frame("word"))
    codes = text.astype("category").cat.codes.replace(-1, np.nan)
    np.testing.assert_array_equal(encoder.transform(text.to_frame("word"))[:, 0], codes)
    known = [word for word in later if word is None or word in train]
    if known and any(word is not None for word in train):
        new = pd.Series(known, dtype=object)
        as_categories = new.astype("category").cat.set_categories(
            text.astype("category").cat.categories
        )
        np.testing.assert_array_equal(
            encoder.transform(new.to_frame("word"))[:, 0],
            as_categories.cat.codes.replace(-1, np.nan),
        )


# ---- categoricals ---------------------------------------------------------------------------


def test_a_pandas_categorical_keeps_the_codes_of_its_categories():
    sizes = pd.Categorical(
        ["big", "small", None, "big"], categories=["tiny", "small", "huge", "big"]
    )
    frame = pd.DataFrame({"size": sizes, "n": [1, 2, 3, 4]})
    encoder = TreeEncoder()
    np.testing.assert_array_equal(encoder.fit_transform(frame)[:, 0], [3, 1, NAN, 3])
    assert encoder.categorical_ == (0,)
    assert encoder.state().levels == {"size": (None, "small", None, "big")}
    # New rows go by the name of the level, whichever categories their own type has.
    later = pd.DataFrame({"size": pd.Categorical(["small", "big"]), "n": [1, 2]})
    np.testing.assert_array_equal(encoder.transform(later)[:, 0], [1, 3])
    # A category that no row had at fit is not seen, although the type declares it.
    declared = pd.DataFrame({"size": pd.Categorical(["tiny", "big"]), "n": [1, 2]})
    with warned("not seen at fit", "'size' ('tiny')"):
        np.testing.assert_array_equal(encoder.transform(declared)[:, 0], [NAN, 3])


@pytest.mark.parametrize("name", [0, ("a", "b")], ids=repr)
def test_names_of_columns_need_not_be_text(name):
    frame = pd.DataFrame({name: pd.Categorical(["a", "b"], categories=["b", "a"]), "n": [5, 6]})
    encoder = TreeEncoder()
    np.testing.assert_array_equal(encoder.fit_transform(frame), [[1, 5], [0, 6]])
    assert encoder.names_ == [str(name), "n"]


def test_categories_of_numbers_are_numbered_in_their_order():
    frame = pd.DataFrame({"code": pd.Categorical([10, 9, 10, 200])})
    encoder = TreeEncoder()
    np.testing.assert_array_equal(encoder.fit_transform(frame)[:, 0], [1, 0, 1, 2])
    floats = pd.DataFrame({"code": pd.Categorical([200.0, 9.0])})
    np.testing.assert_array_equal(encoder.transform(floats)[:, 0], [2, 0])
    fractions = pd.DataFrame({"code": pd.Categorical([0.25, 0.1, 3], categories=[3, 0.25, 0.1])})
    np.testing.assert_array_equal(TreeEncoder().fit_transform(fractions)[:, 0], [1, 2, 0])


ORDER = ["low", "mid", "high"]
RISKS = ["high", "low", None, "mid", "low"]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"risk": pd.Categorical(RISKS, categories=ORDER, ordered=True)}),
        pl.DataFrame({"risk": pl.Series(RISKS, dtype=pl.Enum(ORDER))}),
        pa.table({"risk": pa.array(pd.Categorical(RISKS, categories=ORDER, ordered=True))}),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_ordered_categories_are_numbers_in_their_order(frame):
    encoder = TreeEncoder()
    np.testing.assert_array_equal(encoder.fit_transform(frame)[:, 0], [2, 0, NAN, 1, 0])
    assert encoder.categorical_ == ()
    assert encoder.state() == TreeEncoderState(
        families={"risk": "categorical"}, levels={"risk": tuple(ORDER)}, ordered=("risk",)
    )


def test_intervals_are_ordered_as_pandas_cut_made_them():
    frame = pd.DataFrame({"age": pd.cut([70, 20, 45, NAN], [0, 30, 60, 90])})
    encoder = TreeEncoder()
    np.testing.assert_array_equal(encoder.fit_transform(frame)[:, 0], [2, 0, 1, NAN])
    assert encoder.categorical_ == ()


# ---- missing and unseen ---------------------------------------------------------------------


def test_nan_stands_exactly_where_values_are_missing_or_unseen():
    encoder = TreeEncoder().fit(pl.DataFrame({"job": ["b", "a"], "town": ["x", "y"], "n": [1, 2]}))
    later = pl.DataFrame(
        {
            "job": ["p", "q", "r", "s", "a"],
            "town": ["x", None, "y", "z", "y"],
            "n": [1, 2, 3, 4, 5],
        }
    )
    with warned("treated as missing", "'town' ('z')"):
        encoded = encoder.transform(later)
    np.testing.assert_array_equal(
        encoded, [[NAN, 0, 1], [NAN, NAN, 2], [NAN, 1, 3], [NAN, NAN, 4], [0, 1, 5]]
    )


def test_numbers_missing_only_after_fit_are_warned_of():
    encoder = TreeEncoder().fit({"a": [1.0, 2.0], "b": [True, False], "c": ["x", "y"]})
    later = {"a": [None, 2.5], "b": [None, None], "c": [None, "y"]}
    with warned("missing values in 'a', 'b'", "no rule for them"):
        encoded = encoder.transform(later)
    np.testing.assert_array_equal(encoded, [[NAN, NAN, NAN], [2.5, NAN, 1]])


def test_a_column_without_values_at_fit_is_missing_throughout():
    encoder = TreeEncoder()
    train = pd.DataFrame(
        {"a": [1.0, 2.0], "b": [None, None], "c": pd.Categorical([None, None], ["x"])}
    )
    np.testing.assert_array_equal(encoder.fit_transform(train), [[1, NAN, NAN], [2, NAN, NAN]])
    assert encoder.names_ == ["a", "b", "c"]
    assert encoder.categorical_ == ()
    assert encoder.state().families == {"a": "number", "b": "empty", "c": "empty"}
    with warned("X column 'b' had no value at fit"):
        encoded = encoder.transform({"a": [2.0], "b": ["x"], "c": [None]})
    np.testing.assert_array_equal(encoded, [[2, NAN, NAN]])


# ---- state ----------------------------------------------------------------------------------


def test_state_is_what_was_seen():
    assert TreeEncoder().fit(FRAME).state() == TreeEncoderState(
        families={
            "hours": "number", "job": "text", "member": "boolean", "wage": "number", "town": "text",
        },
        levels={"job": ("baker", "cook", "nurse"), "town": ("A", "B")},
        ordered=(),
        complete=("wage",),
    )  # fmt: skip
