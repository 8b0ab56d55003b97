"""What is particular to the encoding of features for networks; common laws: test_features.py."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from table_errors import refused, warned

from equipoise.tables import FeatureEncoder
from equipoise.tables.encoders import rank_map, rank_scores

PEOPLE = {
    "hours": [20, 40, None, 35, 38, 60],
    "wage": [9.5, 12.25, 30.0, 12.25, 18.0, 55.5],
    "member": [True, False, False, None, True, False],
    "job": ["cook", "nurse", None, "cook", "baker", "nurse"],
    "town": ["A", "B", "A", "A", "B", "B"],
}
POLARS = pl.DataFrame(PEOPLE)


def test_exact_values_of_a_small_table():
    encoder = FeatureEncoder(scaling="minmax")
    encoded = encoder.fit_transform(POLARS)
    assert encoder.names_ == [
        "hours", "wage", "member", "hours is missing", "member is missing",
        "job=baker", "job=cook", "job=nurse", "job is missing", "town=A", "town=B",
    ]  # fmt: skip
    # hours: median 38 of the known; member: median 0, since most are False
    np.testing.assert_array_equal(encoded[2, :9], np.float32([-0.1, -5 / 46, 0, 1, 0, 0, 0, 0, 1]))
    np.testing.assert_array_equal(encoded[:, 2], [1, 0, 0, 0, 1, 0])
    np.testing.assert_array_equal(encoded[:, 4], [0, 0, 0, 1, 0, 0])


# ---- numbers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scaling", "reference"),
    [("minmax", MinMaxScaler((-1, 1))), ("standard", StandardScaler())],
)
def test_linear_scalings_are_those_of_scikit_learn(scaling, reference):
    generator = np.random.default_rng(0)
    train, test = generator.gamma(2.0, size=(40, 3)), generator.gamma(2.0, size=(15, 3))
    encoder = FeatureEncoder(scaling=scaling).fit(train)
    expected = reference.fit(train).transform(test).astype(np.float32)
    np.testing.assert_array_equal(encoder.transform(test), expected)
    assert encoder.names_ == ["x0", "x1", "x2"]


def test_no_scaling_passes_numbers_through():
    matrix = np.float32([[1, 5], [2, 5], [4, 5]])
    np.testing.assert_array_equal(FeatureEncoder(scaling="none").fit_transform(matrix), matrix)


def test_rank_scores_are_normal_quantiles_of_the_mid_rank():
    values = np.random.default_rng(1).exponential(size=201)
    shares = (rankdata(values) - 0.5) / len(values)
    expected = np.array([NormalDist().inv_cdf(share) for share in shares])
    encoded = FeatureEncoder().fit_transform(values[:, None])[:, 0]
    np.testing.assert_allclose(encoded, expected / expected.std(), atol=1e-6)
    assert encoded[values == np.median(values)] == pytest.approx(0, abs=1e-12)


finite = st.floats(-1e6, 1e6, allow_subnormal=False)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=60), st.lists(finite, min_size=2))
def test_rank_scores_are_monotone_bounded_and_standardized(train, unseen):
    values = np.array(train, dtype=float)[:, None]
    encoder = FeatureEncoder().fit(values)
    scores = encoder.transform(values)[:, 0]
    order = np.sort(unseen)[:, None]
    others = encoder.transform(order)[:, 0]
    assert np.diff(others).min() >= -1e-6
    assert others.min() >= scores.min()
    assert others.max() <= scores.max()
    assert np.abs(scores).max() <= 2 * 3.6
    if len(set(train)) > 2:
        assert scores.mean() == pytest.approx(0, abs=1e-5)
        assert scores.std() <= 1 + 1e-5
    distinct = np.unique(train)
    assert len(np.unique(scores)) == len(distinct)
    assert (np.diff(encoder.transform(distinct[:, None].astype(float))[:, 0]) > 0).all()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.integers(-20, 20), min_size=1, max_size=80))
def test_rank_scores_of_training_rows_ignore_increasing_maps(train):
    values = np.array(train, dtype=float)[:, None]
    scores = FeatureEncoder().fit_transform(values)
    np.testing.assert_array_equal(FeatureEncoder().fit_transform(np.exp(values)), scores)
    np.testing.assert_array_equal(FeatureEncoder().fit_transform(values**3 + 7), scores)


def test_rank_scores_of_a_column_ruled_by_zeros_stay_moderate():
    gains = np.zeros(1000)
    gains[:80] = np.geomspace(100, 100_000, 80)
    scores = FeatureEncoder().fit_transform(gains[:, None])[:, 0]
    assert scores.std() == pytest.approx(1, rel=1e-5)
    assert (scores[999], scores.max()) == (
        pytest.approx(-0.295, abs=0.01),
        pytest.approx(6, abs=0.5),
    )
    gains[2:] = 0  # still rarer: stretched twice at most, so below unit variance
    rare = FeatureEncoder().fit_transform(gains[:, None])[:, 0]
    assert rare.std() < 0.5
    assert rare.max() < 7


def test_rank_map_is_thinned_beyond_two_thousand_values():
    values = np.random.default_rng(2).lognormal(size=20_000)
    values[:8_000] = 1.0
    knots, kept = rank_map(values)
    assert 1000 < len(knots) <= 2000
    assert (knots[0], knots[-1]) == (values.min(), values.max())
    assert 1.0 in knots
    shares = (rankdata(values) - 0.5) / len(values)
    expected = np.clip([NormalDist().inv_cdf(share) for share in shares], -3.5, 3.5)
    expected = (expected - expected.mean()) / expected.std()
    bulk = (shares > 0.01) & (shares < 0.99)
    scores = rank_scores(values, knots, kept)
    np.testing.assert_allclose(scores[bulk], expected[bulk], atol=0.01)


def test_two_values_are_minus_one_and_one_and_constants_are_zero():
    matrix = np.array([[0.0, 7.0], [5.0, 7.0], [0.0, 7.0], [0.0, 7.0]])
    np.testing.assert_array_equal(
        FeatureEncoder().fit_transform(matrix), [[-1, 0], [1, 0], [-1, 0], [-1, 0]]
    )
    for scaling in ("rank", "minmax", "standard"):
        encoder = FeatureEncoder(scaling=scaling).fit(matrix)
        np.testing.assert_array_equal(encoder.transform([[5.0, 9.0]])[:, 1], [0])


# ---- missing values -------------------------------------------------------------------------


def test_missing_numbers_become_the_median_and_a_flag():
    column = np.array([[1.0], [np.nan], [2.0], [10.0]])
    encoder = FeatureEncoder(scaling="none")
    np.testing.assert_array_equal(encoder.fit_transform(column), [[1, 0], [2, 1], [2, 0], [10, 0]])
    assert encoder.names_ == ["x0", "x0 is missing"]
    np.testing.assert_array_equal(
        FeatureEncoder().fit_transform(column)[1], [0, 1]
    )  # the median of an untied column has rank score 0


def test_numbers_missing_only_after_fit_become_the_median_with_a_warning():
    train = pd.DataFrame({"a": [1.0, 2.0, 6.0], "b": [True, True, False], "c": [1.0, None, 3.0]})
    encoder = FeatureEncoder(scaling="none").fit(train)
    later = pd.DataFrame({"a": [None, 4.0], "b": [None, None], "c": [1.0, None]})
    with warned("missing values in 'a', 'b'", "the median of the training rows replaces"):
        encoded = encoder.transform(later)
    np.testing.assert_array_equal(encoded, [[2, 1, 1, 0], [4, 2, 1, 1]])


def test_a_column_without_values_at_fit_is_zeros_and_a_flag():
    encoder = FeatureEncoder()
    train = {"a": [1.0, 2.0, 3.0], "b": [None, None, None]}
    np.testing.assert_array_equal(
        encoder.fit_transform(pl.DataFrame(train))[:, 1:], [[0, 1], [0, 1], [0, 1]]
    )
    with warned("X column 'b' had no value at fit"):
        encoded = encoder.transform(pl.DataFrame({"a": [2.0], "b": ["x"]}))
    np.testing.assert_array_equal(encoded, [[0, 0, 0]])


# ---- categories -----------------------------------------------------------------------------


def test_categories_are_one_hot_as_in_scikit_learn():
    frame = pd.DataFrame({"job": list("abcab"), "town": list("xyxyx")})
    encoder = FeatureEncoder()
    expected = OneHotEncoder(sparse_output=False).fit_transform(frame)
    np.testing.assert_array_equal(encoder.fit_transform(frame), expected)
    assert encoder.names_ == ["job=a", "job=b", "job=c", "town=x", "town=y"]


def test_unseen_categories_are_zeros():
    encoder = FeatureEncoder().fit(pl.DataFrame({"job": ["a", "b"], "town": ["x", "y"]}))
    later = pl.DataFrame({"job": ["p", "q", "r", "s", "a"], "town": ["x", None, "y", "x", "y"]})
    with warned("encoded as zeros", "'town' (missing values)"):
        encoded = encoder.transform(later)
    np.testing.assert_array_equal(encoded[:, :2], [[0, 0]] * 4 + [[1, 0]])
    np.testing.assert_array_equal(encoded[:, 2:], [[1, 0], [0, 0], [0, 1], [1, 0], [0, 1]])


def test_rare_categories_beyond_255_share_a_column():
    codes = [f"c{code:03d}" for code in range(300)]
    frame = pd.DataFrame({"code": codes + codes[:254]})
    encoder = FeatureEncoder()
    encoded = encoder.fit_transform(frame)
    assert encoded.shape == (554, 255)
    assert encoder.names_[-2:] == ["code=c253", "code is infrequent"]
    np.testing.assert_array_equal(encoded.sum(axis=1), 1)
    np.testing.assert_array_equal(np.flatnonzero(encoded[:, -1]), np.arange(254, 300))


def test_categories_of_numbers_are_categories():
    frame = pd.DataFrame({"code": pd.Categorical([10, 20, 10])})
    encoder = FeatureEncoder().fit(frame)
    assert encoder.names_ == ["code=10", "code=20"]
    np.testing.assert_array_equal(encoder.transform(frame), [[1, 0], [0, 1], [1, 0]])
    floats = pd.DataFrame({"code": pd.Categorical([20.0, 20.0])})
    np.testing.assert_array_equal(encoder.transform(floats), [[0, 1], [0, 1]])


# ---- refusals -------------------------------------------------------------------------------


def test_bad_options_are_refused():
    with refused("scaling", "'rank', 'minmax', 'standard', 'none'", "'robust'"):
        FeatureEncoder(scaling="robust").fit(POLARS)


def test_scaling_beyond_float32_is_refused():
    encoder = FeatureEncoder(scaling="standard").fit(np.array([[0.0], [1e-20]]))
    with refused("X column 'x0'", "float32 (up to 3.4e+38)", "2e+50", "scaling='rank'"):
        encoder.transform(np.array([[1e30]]))


def test_what_no_row_held_at_fit_and_what_becomes_of_it():
    frame = pd.DataFrame({**PEOPLE, "empty": [None] * 6})
    found = FeatureEncoder().fit(frame).state().unfamiliar(frozenset())
    assert {name: "median" in how for name, how in found.missing.items()} == {
        "wage": True, "town": False,
    }  # fmt: skip
    assert found.known == {"job": ("baker", "cook", "nurse", None), "town": ("A", "B")}
    assert found.unseen.keys() == found.known.keys()
