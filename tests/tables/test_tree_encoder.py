"""Laws and refusals of the encoding of features for boosted trees."""

from __future__ import annotations

import copy
import json
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from equipoise.errors import InputError
from equipoise.storage import from_json, to_json
from equipoise.tables import FeatureEncoder, TreeEncoder, TreeEncoderState

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
POLARS = pl.DataFrame(PEOPLE)
CONTAINERS = {
    "pandas": FRAME,
    "pandas nullable": FRAME.convert_dtypes(),
    "pandas pyarrow": FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "pandas category": FRAME.astype({"job": "category", "town": "category"}),
    "pandas object": FRAME.astype(object),
    "polars": POLARS,
    "polars categorical": POLARS.with_columns(pl.col("job", "town").cast(pl.Categorical)),
    "pyarrow": pa.table(PEOPLE),
    "pyarrow dictionary": pa.table({**PEOPLE, "job": pa.array(PEOPLE["job"]).dictionary_encode()}),
    "list of rows": [list(row) for row in zip(*PEOPLE.values(), strict=True)],
}


def refused(message: str):
    return pytest.raises(InputError, match=f"^{re.escape(message)}$")


def warned(message: str):
    return pytest.warns(UserWarning, match=f"^{re.escape(message)}$")


def through_json(state: TreeEncoderState) -> TreeEncoderState:
    text = json.dumps({name: to_json(value, argument=name) for name, value in vars(state).items()})
    return TreeEncoderState(**{name: from_json(part) for name, part in json.loads(text).items()})


# ---- values and containers ------------------------------------------------------------------


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_exact_values(container):
    encoder = TreeEncoder()
    encoded = encoder.fit_transform(CONTAINERS[container])
    assert encoded.dtype == np.float64
    np.testing.assert_array_equal(encoded, ENCODED)
    assert encoder.categorical_ == (1, 4)
    if container != "list of rows":
        assert encoder.names_ == list(PEOPLE)
    # Whatever was given at fit, new rows may come in any other container.
    np.testing.assert_array_equal(encoder.transform(POLARS), ENCODED)
    np.testing.assert_array_equal(
        TreeEncoder().fit(FRAME).transform(CONTAINERS[container]), ENCODED
    )


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


def test_new_rows_are_encoded_one_by_one():
    encoder = TreeEncoder().fit(FRAME)
    order = np.random.default_rng(1).permutation(len(FRAME))
    np.testing.assert_array_equal(encoder.transform(FRAME.iloc[order]), np.array(ENCODED)[order])
    np.testing.assert_array_equal(encoder.transform(FRAME.iloc[[4]]), [ENCODED[4]])
    np.testing.assert_array_equal(TreeEncoder().fit(FRAME.iloc[order]).transform(FRAME), ENCODED)


def test_columns_are_found_by_name_or_by_position():
    encoder = TreeEncoder().fit(FRAME)
    np.testing.assert_array_equal(encoder.transform(POLARS[:, ::-1]), ENCODED)
    nameless = FRAME.astype(object).to_numpy()
    np.testing.assert_array_equal(encoder.transform(nameless), ENCODED)
    np.testing.assert_array_equal(TreeEncoder().fit(nameless).transform(POLARS), ENCODED)


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
    with warned("X has categories not seen at fit, treated as missing: 'size' ('tiny')"):
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
    with warned(
        "X has categories not seen at fit, treated as missing: 'job' ('p', 'q', 'r' and 1 more); "
        "'town' ('z')"
    ) as warnings:
        encoded = encoder.transform(later)
    assert len(warnings) == 1
    assert warnings[0].filename == __file__
    np.testing.assert_array_equal(
        encoded, [[NAN, 0, 1], [NAN, NAN, 2], [NAN, 1, 3], [NAN, NAN, 4], [0, 1, 5]]
    )


def test_numbers_missing_only_after_fit_are_warned_of():
    encoder = TreeEncoder().fit({"a": [1.0, 2.0], "b": [True, False], "c": ["x", "y"]})
    later = {"a": [None, 2.5], "b": [None, None], "c": [None, "y"]}
    words = (
        "X has missing values in 'a', 'b', where there were none at fit; the trees have learned "
        "no rule for them"
    )
    with warned(words) as warnings:
        encoded = encoder.transform(later)
    assert len(warnings) == 1
    assert warnings[0].filename == __file__
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
    with warned("X column 'b' had no value at fit, so its values are ignored") as warnings:
        encoded = encoder.transform({"a": [2.0], "b": ["x"], "c": [None]})
    assert warnings[0].filename == __file__
    np.testing.assert_array_equal(encoded, [[2, NAN, NAN]])


# ---- state ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        np.array([[1.0, NAN], [NAN, NAN]]),
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
def test_state_encodes_bit_for_bit_after_json(frame):
    encoder = TreeEncoder()
    expected = encoder.fit_transform(frame)
    state = through_json(encoder.state())
    assert state == encoder.state()
    assert list(state.families) == encoder.names_  # the order of columns is part of it
    for copied in (
        TreeEncoder.from_state(state),
        copy.deepcopy(encoder),
        pickle.loads(pickle.dumps(encoder)),
    ):
        assert copied.transform(frame).tobytes() == expected.tobytes()
        assert (copied.names_, copied.categorical_) == (encoder.names_, encoder.categorical_)


def test_state_is_what_was_seen():
    assert TreeEncoder().fit(FRAME).state() == TreeEncoderState(
        families={
            "hours": "number", "job": "text", "member": "boolean", "wage": "number", "town": "text",
        },
        levels={"job": ("baker", "cook", "nurse"), "town": ("A", "B")},
        ordered=(),
        complete=("wage",),
    )  # fmt: skip


# ---- refusals: the same as FeatureEncoder's -------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        np.ones(3),
        [1, 2],
        np.array([[1.0], [np.inf]]),
        np.array([[1], ["a"]], dtype=object),
        np.empty((0, 2)),
        pl.DataFrame({"born": pd.to_datetime(["2000-01-01"])}),
    ],
    ids=["vector", "list", "infinite", "mixed", "no rows", "dates"],
)
def test_bad_features_are_refused_as_by_the_encoder_for_networks(data):
    with pytest.raises(InputError) as expected:
        FeatureEncoder().fit(data)
    for encode in (TreeEncoder().fit, TreeEncoder().fit_transform):
        with refused(str(expected.value)):
            encode(data)


@pytest.mark.parametrize(
    "later",
    [
        POLARS.rename({"wage": "wages"}),
        POLARS.drop("hours", "wage"),
        POLARS.with_columns(age=1),
        np.ones((3, 2)),
        POLARS.with_columns(hours=pl.lit("many")),
        POLARS.with_columns(job=pl.lit(True)),
    ],
    ids=["renamed", "missing", "extra", "too few", "text", "booleans"],
)
def test_new_rows_of_another_shape_are_refused_as_by_the_encoder_for_networks(later):
    with pytest.raises(InputError) as expected:
        FeatureEncoder().fit(FRAME).transform(later)
    with refused(str(expected.value)):
        TreeEncoder().fit(FRAME).transform(later)


def test_a_renamed_column_is_named_in_the_refusal():
    with refused(
        "X must have the columns seen at fit, but 'wage' is missing; did you mean 'wage' by "
        "'wages'?"
    ):
        TreeEncoder().fit(FRAME).transform(FRAME.rename(columns={"wage": "wages"}))


def test_transform_before_fit_is_refused():
    with pytest.raises(NotFittedError, match="TreeEncoder must be fitted before transform"):
        TreeEncoder().transform(FRAME)
