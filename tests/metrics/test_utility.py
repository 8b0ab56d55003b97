"""Utility against scikit-learn, ties and weights included."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    d2_absolute_error_score,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
    roc_curve,
)

from equipoise.errors import InputError
from equipoise.metrics import auc, d2_absolute_error, mae, mse, r2, youden_threshold


@st.composite
def scored_classes(draw, members=3):
    """Scores (K, n) with many ties, y with both classes, and positive whole weights."""
    n = draw(st.integers(2, 40))
    levels = draw(st.sampled_from([2, 5, 1000]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    y = rng.integers(0, 2, n)
    y[:2] = 0, 1
    return rng.integers(0, levels, (members, n)) / levels, y, rng.integers(1, 4, n)


@settings(max_examples=60, deadline=None)
@given(scored_classes())
def test_auc_is_scikit_learns(case):
    scores, y, weights = case
    expected = [roc_auc_score(y, row) for row in scores]
    np.testing.assert_allclose(auc(scores, y), expected, rtol=0, atol=1e-12)
    expected = [roc_auc_score(y, row, sample_weight=weights) for row in scores]
    np.testing.assert_allclose(auc(scores, y, weights=weights), expected, rtol=0, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(scored_classes())
def test_youden_threshold_decides_as_the_best_point_of_the_roc_curve(case):
    scores, y, weights = case
    for given_weights in (None, weights):
        expected = []
        for row in scores:
            fpr, tpr, thresholds = roc_curve(y, row, sample_weight=given_weights)
            expected.append(thresholds[np.argmax(tpr - fpr)])
        found = youden_threshold(scores, y, weights=given_weights)
        np.testing.assert_array_equal(found, np.nextafter(expected, -np.inf))
        np.testing.assert_array_equal(
            scores > found[:, None], scores >= np.array(expected)[:, None]
        )


def test_youden_threshold_leaves_out_the_points_that_the_roc_curve_leaves_out():
    y = np.array([0, 1, 1, 0, 1, 0, 1, 0, 0, 0, 1, 1])
    scores = np.array([3, 4, 0, 4, 5, 2, 5, 1, 5, 2, 3, 2])
    # J is 1/6 at 5, 4 and 3; in floats it is largest at 4, which lies on the line from 5 to 3.
    fpr, tpr, thresholds = roc_curve(y, scores, drop_intermediate=False)
    assert thresholds[np.argmax(tpr - fpr)] == 4
    assert youden_threshold(scores, y) == np.nextafter(5.0, -np.inf)


def test_youden_threshold_of_a_useless_score_decides_nothing():
    assert youden_threshold(np.array([0.5, 0.5]), [0, 1]) == np.finfo(np.float64).max


def test_youden_threshold_leaves_rows_of_weight_zero_out():
    scores, y = np.array([0.1, 0.9, 0.5, 0.7]), np.array([0, 0, 1, 1])
    found = youden_threshold(scores, y, weights=np.array([1, 0, 1, 1]))
    assert found == np.nextafter(0.5, -np.inf)


def test_errors_of_regression_are_scikit_learns():
    rng = np.random.default_rng(0)
    scores, y, weights = rng.normal(size=(4, 50)), rng.normal(size=50), rng.integers(1, 5, 50)
    for ours, theirs in (
        (mae, mean_absolute_error),
        (mse, mean_squared_error),
        (r2, r2_score),
        (d2_absolute_error, d2_absolute_error_score),
    ):
        for given_weights in (None, weights):
            expected = [theirs(y, row, sample_weight=given_weights) for row in scores]
            found = ours(scores, y, weights=given_weights)
            np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 8, 41])
def test_share_of_absolute_error_explained_is_scikit_learns(n):
    """Also with ties, an even number of rows (no single median), fractions as weights and zeros."""
    rng = np.random.default_rng(n)
    for _ in range(20):
        y = np.append(rng.integers(0, 4, n - 1), 9).astype(float)
        scores = rng.normal(size=(3, n))
        for weights in (None, rng.random(n) + 1, np.append(rng.integers(0, 3, n - 1) + 1, 2)):
            expected = [d2_absolute_error_score(y, row, sample_weight=weights) for row in scores]
            found = d2_absolute_error(scores, y, weights=weights)
            np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_share_of_absolute_error_of_a_perfect_score_and_of_the_median():
    y = np.array([1.0, 2.0, 10.0])
    assert d2_absolute_error(np.stack([y, np.full(3, 2.0)]), y).tolist() == [1.0, 0.0]
    assert d2_absolute_error(np.full(3, 10.0), y, weights=[1, 1, 5]) == 0.0


@pytest.mark.parametrize("metric", [auc, mae, mse, r2, d2_absolute_error])
def test_shapes_follow_scores_and_weights(metric):
    rng = np.random.default_rng(1)
    scores, y, weights = rng.random((3, 20)), np.arange(20) % 2, rng.integers(1, 3, (5, 20))
    assert np.shape(metric(scores[0], y)) == ()
    assert metric(scores, y).shape == (3,)
    assert metric(scores[0], y, weights=weights).shape == (5,)
    together = metric(scores, y, weights=weights)
    assert together.shape == (5, 3)
    for row, expected in zip(weights, together, strict=True):
        np.testing.assert_allclose(metric(scores, y, weights=row), expected, rtol=1e-12)
    tensor = metric(torch.from_numpy(scores), torch.from_numpy(y))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), metric(scores, y))


def test_classes_may_have_any_names():
    scores = np.array([0.1, 0.4, 0.35, 0.8])
    assert auc(scores, ["no", "no", "yes", "yes"]) == auc(scores, [0, 0, 1, 1]) == 0.75


def test_float32_scores_keep_their_ties():
    scores = np.array([0.1, 0.1, 0.3], dtype=np.float32)
    assert auc(torch.from_numpy(scores), [0, 1, 1]) == 0.75


def test_a_read_only_array_is_taken_without_a_warning():
    scores = np.array([[0.1, 0.2], [0.2, 0.1]])
    scores.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(auc(scores[:, ::-1], [0, 1]), [0.0, 1.0])


@pytest.mark.parametrize("share", [r2, d2_absolute_error])
@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e154, 1e300])
def test_shares_explained_mean_the_same_in_all_units(size, share):
    rng = np.random.default_rng(0)
    y, scores = rng.normal(size=30), rng.normal(size=(2, 30))
    np.testing.assert_allclose(share(size * scores, size * y), share(scores, y), rtol=1e-9)


def test_small_differences_far_from_zero_have_an_r2():
    y, score = np.arange(8.0), np.array([1.0, 0, 3, 2, 5, 4, 7, 6])
    step = 2.0**-20
    np.testing.assert_allclose(r2(1e9 + step * score, 1e9 + step * y), r2(score, y), rtol=1e-9)


@pytest.mark.parametrize("metric", [auc, r2, d2_absolute_error, youden_threshold])
def test_rows_of_weight_zero_have_no_say_in_what_y_is(metric):
    """A third class, or the only row that differs, is as good as left out."""
    score, y = np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1])
    more = np.append(score, 0.2), np.append(y, 7)
    found = metric(*more, weights=[1, 1, 2, 1, 0])
    np.testing.assert_allclose(found, metric(score, y, weights=[1, 1, 2, 1]))
    with pytest.raises(InputError, match="y must have at least two distinct values"):
        metric(score, [3, 3, 3, 4], weights=[1, 1, 1, 0])


def test_errors_too_large_for_a_number_are_refused():
    with pytest.raises(InputError, match=r"scores must be close enough to y.*divide scores and y"):
        mse([1e200, -1e200], [0.0, 1.0])
    with pytest.raises(InputError, match=r"scores must be close enough to y.*in the same unit"):
        r2([1e180, 0.0], [1e-6, 2e-6])
    with pytest.raises(InputError, match="scores must hold numbers"):
        mse([10**400, 1], [0.0, 1.0])


def test_weights_that_count_no_rows_are_refused():
    with pytest.raises(
        InputError, match=r"weights must sum to at most 2\*\*53.*got a sum of 3e.300"
    ):
        auc([0.1, 0.2, 0.3], [0, 1, 1], weights=[1e300] * 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: auc([0.1, np.nan], [0, 1]),
            ("scores must be finite, got nan at position 1; drop or fill these rows"),
        ),
        (
            lambda: auc([[0.1, 1], [np.inf, 0]], [0, 1]),
            ("scores must be finite, got inf at position (1, 0); drop or fill these rows"),
        ),
        (
            lambda: auc([], []),
            ("scores must have shape (n,) or (K, n) with at least one row, got (0,)"),
        ),
        (
            lambda: auc([["a"]], [0]),
            ("scores must hold numbers, got list that does not convert to floats"),
        ),
        (
            lambda: auc([0.1, 0.2], [1, 1]),
            ("y must have at least two distinct values, got 1 in all 2 rows; add rows"),
        ),
        (
            lambda: auc([0.1, 0.2, 0.3], [0, 1, 2]),
            ("y must have two distinct values, got more; compare one class with the rest"),
        ),
        (
            lambda: auc([0.1, 0.2, 0.3], [0, 1]),
            "y must have one value for each of the 3 scores, got 2",
        ),
        (
            lambda: mae([0.1, 0.2], [0.1]),
            ("y must have one value for each of the 2 scores, got shape (1,)"),
        ),
        (
            lambda: mae([0.1, 0.2], [0.1, np.nan]),
            ("y must be finite, got nan at position 1; drop or fill these rows"),
        ),
        (
            lambda: r2([0.1, 0.2], [3, 3]),
            ("y must have at least two distinct values for r2, got 3 in all 2 rows"),
        ),
        (
            lambda: auc([0.1, 0.2], [0, 1], weights=[1, 2, 3]),
            ("weights must have shape (n,) or (R, n) with n = 2 as in scores, got (3,)"),
        ),
        (
            lambda: auc([0.1, 0.2], [0, 1], weights=[-1, 3]),
            ("weights must not be negative, got -1.0; a weight is the number of rows"),
        ),
        (
            lambda: auc([0.1, 0.2], [0, 1], weights=[0.5, 0.5]),
            (
                "weights must sum to at least 2, since a weight is the number of rows that a "
                "row counts for, got a sum of 1; scale them to sum to the number of rows"
            ),
        ),
        (
            lambda: youden_threshold([0.1, 0.2], [0, 1], weights=[[1, 1]]),
            ("weights must have shape (n,) to find one threshold, got 2 axes; pass"),
        ),
        (
            lambda: youden_threshold([0.1, 0.2, 0.3], [0, 1, 1], weights=[0, 1, 1]),
            ("y must have at least two distinct values, got 1 in all 2 rows; add rows"),
        ),
        (
            lambda: auc([0.1, 0.2], ["a", None]),
            ("y must not have missing values, got 1 (first in row 1); drop these rows"),
        ),
        (
            lambda: auc([0.1, 0.2], np.array(["a", 1], dtype=object)),
            (
                "y must hold values of one type, got text such as 'a' and numbers such as 1; "
                "convert the column to numbers or to text"
            ),
        ),
    ],
)
def test_bad_input_is_refused_in_words(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)
