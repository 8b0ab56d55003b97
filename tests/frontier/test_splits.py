"""Splits by group and by time: what belongs together stays together, and sizes are near."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise import FairClassifier, FairFrontier
from equipoise.errors import InputError
from equipoise.frontier.splitting import split_rows
from tests.error_parts import says


def parts_of(split):
    return {"train": split.train, "validation": split.validation, "test": split.test}


def split_by(n, **given):
    shares = {"validation": 0.2, "test": 0.2, "seed": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return split_rows(n, **{**shares, **given})


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=30, max_size=80),
    seed=st.integers(0, 99),
    validation=st.floats(0.15, 0.35),
    test=st.floats(0.15, 0.35),
)
def test_no_group_is_in_two_parts_and_sizes_are_near(sizes, seed, validation, test):
    groups = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    n = len(groups)
    split = split_by(n, validation=validation, test=test, seed=seed, groups=groups)
    parts = parts_of(split)
    assert np.array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(n))
    found = [set(groups[rows]) for rows in parts.values()]
    assert sum(map(len, found)) == len(set.union(*found))
    for name, share in (("validation", validation), ("test", test)):
        assert abs(len(parts[name]) - round(share * n)) <= max(sizes) / 2


@settings(max_examples=60, deadline=None)
@given(
    ties=st.lists(st.integers(1, 9), min_size=20, max_size=60),
    seed=st.integers(0, 99),
    validation=st.floats(0.15, 0.35),
    test=st.floats(0.15, 0.35),
)
def test_time_goes_on_from_part_to_part_and_ties_stay_together(ties, seed, validation, test):
    times = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(ties)), ties)) / 7
    n = len(times)
    parts = parts_of(split_by(n, validation=validation, test=test, seed=seed, times=times))
    assert np.array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(n))
    assert times[parts["train"]].max() < times[parts["validation"]].min()
    assert times[parts["validation"]].max() < times[parts["test"]].min()
    assert abs(len(parts["test"]) - round(test * n)) <= max(ties) / 2
    assert abs(len(parts["validation"]) - round(validation * n)) <= max(ties) / 2


def test_the_seed_draws_groups_and_time_needs_none():
    groups = np.arange(100) // 2
    first, again, other = (split_by(100, groups=groups, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.test, again.test)
    assert not np.array_equal(first.test, other.test)
    early, late = (split_by(100, times=np.arange(100), seed=seed) for seed in (1, 2))
    assert early.test.tolist() == late.test.tolist() == list(range(80, 100))


DAYS = pd.Series(pd.date_range("2020-01-01", periods=50)).repeat(2)


@pytest.mark.parametrize(
    "times",
    [
        DAYS,
        DAYS.dt.tz_localize("Europe/Berlin"),
        DAYS.dt.date.to_numpy(),
        DAYS.to_numpy(),
        pl.Series(DAYS.to_numpy()),
        DAYS.to_frame(),
        list(range(100)),
    ],
    ids=["dates", "with zone", "objects", "array", "polars", "frame", "list"],
)
def test_times_may_be_numbers_or_dates(times):
    assert split_by(100, times=times).test.tolist() == list(range(80, 100))


def test_groups_may_be_text_or_categories():
    names = pd.Series([f"h{row // 2}" for row in range(100)])
    expected = split_by(100, groups=names)
    assert np.array_equal(split_by(100, groups=names.astype("category")).test, expected.test)
    assert np.array_equal(split_by(100, groups=names.tolist()).test, expected.test)


def test_rows_that_do_not_count_are_in_no_part_and_need_no_group():
    counted = np.arange(100) % 4 > 0
    groups = pd.Series(np.arange(100) // 2, dtype=object).where(counted, None)
    split = split_by(100, groups=groups, counted=counted)
    assert np.array_equal(
        np.sort(np.concatenate(list(parts_of(split).values()))), counted.nonzero()[0]
    )


def test_a_group_that_no_part_can_hold_trains_and_a_note_says_so():
    groups = np.r_[np.zeros(50, int), np.arange(1, 51)]
    with pytest.warns(UserWarning) as notes:
        split = split_rows(100, validation=0.2, test=0.2, seed=0, groups=groups)
    says(
        notes[0].message,
        "1 of 51 groups",
        "--group-split",
        "the 20 of",
        "'0' with 50 rows",
        "train",
    )
    assert set(range(50)) <= set(split.train.tolist())
    assert (len(split.validation), len(split.test)) == (20, 20)


def test_ties_that_make_a_part_much_larger_are_noted():
    times = np.r_[np.arange(60), np.full(40, 100)]
    with pytest.warns(UserWarning) as notes:
        split = split_rows(100, validation=0.2, test=0.2, seed=0, times=times)
    says(notes[0].message, "test has 40 rows instead of 20", "--time-split", "together")
    assert (len(split.validation), len(split.test)) == (20, 40)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"groups": [0] * 100, "times": range(100)}, ("groups", "must stand alone", "leave one")),
        ({"groups": range(50)}, ("groups", "one value for each of the 100 rows", "got 50")),
        (
            {"groups": [None] + [1] * 99},
            ("groups (--group-split)", "must not have missing", "got 1 (first in row 0)", "fill"),
        ),
        ({"times": [np.nan] + [1] * 99}, ("times (--time-split)", "missing", "got 1", "fill")),
        (
            {"times": ["31.1.2020"] * 100},
            ("times", "must be numbers or dates", "text such as '31.1.2020'", "2020-01-31"),
        ),
        ({"groups": [1, "a"] * 50}, ("groups", "one type", "number and text", "all as text")),
        ({"groups": [0, 1] * 50}, ("groups", "for every part", "got 0 rows for", "smaller ones")),
        (
            {"times": [0, 1] * 50},
            ("times", "for every part", "got 0 rows for training"),
        ),
        (
            {"groups": range(100), "test": [1, 2, 3]},
            ("test", "must be a share", "groups", "got positions", "leave out one"),
        ),
    ],
)
def test_what_cannot_split_is_refused(given, parts):
    with pytest.raises(InputError) as refused:
        split_by(100, **given)
    says(refused.value, *parts)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=400), "z": rng.normal(size=400)})
    return X, np.where(X["x"] + rng.normal(size=400) > 0, "yes", "no"), rng.choice(["a", "b"], 400)


def frontier():
    return FairFrontier(
        FairClassifier(iterations=20, hidden=(4,)), strengths=(0.0, 0.5), seeds=1, random_state=0
    )


def test_a_frontier_keeps_groups_together(rows):
    X, y, A = rows
    groups = pd.Series(np.arange(400) // 4)
    split = frontier().fit(X, y, sensitive_features=A, groups=groups).split_
    assert not set(groups[split.train]) & {*groups[split.validation], *groups[split.test]}
    with pytest.raises(InputError, match="groups must have the index of X"):
        frontier().fit(X, y, sensitive_features=A, groups=groups[::-1])


def test_the_positive_label_is_the_one_that_is_scored(rows):
    """The model of the other label is the same problem with the labels exchanged."""
    X, y, A = rows
    no = frontier().fit(X, y, sensitive_features=A, positive="no")
    exchanged = np.where(y == "no", "yes", "no")
    plain = frontier().fit(X, exchanged, sensitive_features=A)
    pd.testing.assert_frame_equal(no.table(), plain.table())
    model, other = no.select(max_gap=1).model, plain.select(max_gap=1).model
    assert model.classes_.tolist() == ["yes", "no"]
    assert np.array_equal(model.predict_proba(X), other.predict_proba(X))
    assert np.array_equal(model.predict(X) == "no", other.predict(X) == "yes")
    same = frontier().fit(X, y, sensitive_features=A, positive="yes")
    pd.testing.assert_frame_equal(same.table(), frontier().fit(X, y, sensitive_features=A).table())


@pytest.mark.parametrize(
    ("y", "parts"),
    [
        (["no", "yes", "no", "yes"], ("positive", "two labels", "got 'maybe'", "['no', 'yes']")),
        (["a", "b", "c", "a"], ("positive", "two labels", "'a', 'b', 'c'", "leave it out")),
    ],
)
def test_a_positive_label_must_be_one_of_two(rows, y, parts):
    X, _, A = rows
    with pytest.raises(InputError) as refused:
        frontier().fit(X, y * 100, sensitive_features=A, positive="maybe")
    says(refused.value, *parts)
