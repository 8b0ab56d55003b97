"""Columns whose kind may be meant otherwise: the rules exactly at their borders."""

import warnings

import numpy as np
import pandas as pd
import pytest

from equipoise import FairClassifier, FairFrontier, SensitiveTable, audit
from equipoise.files import read_columns
from tests.error_parts import says

ROWS = 1000


def notes(values, **options):
    return SensitiveTable.from_data({"a": values}, **options).notes


def ramp(*head):
    """ROWS values: these, and as many different fractions as are needed."""
    return np.concatenate([head, 0.5 + np.arange(ROWS - len(head))])


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        # Few distinct fractions; whole numbers are groups as ever.
        (np.arange(ROWS) % 10 / 4, ("discrete", "10 distinct", "0.25", "'continuous'")),
        (np.arange(ROWS) % 10, None),
        # Codes: 11 to 20 whole numbers.
        (np.arange(ROWS) % 20, ("continuous", "20 distinct", "codes", "'discrete'")),
        (np.arange(ROWS) % 21, None),
        (np.arange(ROWS) % 20 / 4, None),
        # Point masses: a quarter of the rows.
        (ramp(*[0] * 250), ("continuous", "25%", "the value 0", "'discrete'")),
        (ramp(*[0] * 249), None),
        # Identifiers: whole numbers that all differ although their range is too narrow for chance.
        (np.random.default_rng(0).permutation(ROWS), ("identifier", "1000 whole numbers", "drop")),
        (np.arange(ROWS) + (np.arange(ROWS) == 0), None),
        (np.arange(ROWS) * 99, ("identifier",)),
        (np.arange(ROWS) * 101, None),
        # Text: nearly all different; numbers written as text.
        ([f"p{min(i, 949)}" for i in range(ROWS)], ("identifier", "950 of 1000", "drop")),
        ([f"p{min(i, 948)}" for i in range(ROWS)], None),
        ([str(i % 11) for i in range(ROWS)], ("discrete", "11 categories are numbers", "convert")),
        ([str(i % 10) for i in range(ROWS)], None),
        (["x", *(str(i % 11) for i in range(1, ROWS))], None),
        # With few rows nothing can be told.
        (np.arange(50), ("identifier",)),
        (np.arange(49), None),
        (np.random.default_rng(0).normal(size=ROWS), None),
        (np.random.default_rng(0).integers(18, 90, ROWS), None),
    ],
)
def test_what_is_noted_and_what_is_not(values, parts):
    found = notes(values)
    assert len(found) == (parts is not None)
    assert parts is None or says(found[0], *parts)


def test_a_kind_that_is_given_settles_it():
    for values in (
        np.arange(ROWS) % 20,
        ramp(*[0] * 400),
        np.arange(ROWS),
        np.arange(ROWS) % 9 / 4,
    ):
        assert notes(values)
        for kind in ("discrete", "continuous"):
            if kind == "continuous" or len(np.unique(values)) < ROWS:
                assert notes(values, types={"a": kind}) == ()


def test_missing_values_and_rows_that_do_not_count_are_left_out():
    values = ramp(*[0] * 300)
    values[:100] = np.nan
    assert notes(values, missing="skip") == ()  # 200 of 900
    values[300:500] = np.nan
    assert says(notes(values, missing="skip")[0], "29%")  # 200 of 700
    counted = np.arange(ROWS) >= 300
    assert notes(ramp(*[0] * 300), counted=counted) == ()


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=80), "z": rng.normal(size=80)})
    return X, pd.Series(np.arange(80) % 2, name="y"), pd.DataFrame({"person": rng.permutation(80)})


EXPECTED = r"sensitive column 'person' looks like an identifier: 80 .*--types person=continuous"


@pytest.mark.parametrize("kind", [FairClassifier, FairFrontier])
def test_fitting_warns(data, kind):
    X, y, A = data
    model = FairClassifier(iterations=2, early_stopping=None)
    if kind is FairFrontier:  # 16 validation rows are too few for the gap
        model = FairFrontier(model, strengths=(0.0, 0.5), seeds=1, metrics=("KS-GSP",))
    model.set_params(random_state=0)
    with pytest.warns(UserWarning, match=EXPECTED):
        model.fit(X, y, sensitive_features=A)


def test_audit_and_data_files_warn(data):
    X, y, A = data
    with pytest.warns(UserWarning, match=EXPECTED):
        audit(X["x"], y, A)
    with pytest.warns(UserWarning, match=EXPECTED):
        read_columns(X.assign(y=y, **A), target="y", sensitive="person")


def test_nothing_is_said_where_the_kind_is_given(data):
    X, y, A = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = {"iterations": 2, "early_stopping": None, "random_state": 0}
        FairClassifier(sensitive_types={"person": "continuous"}, **options).fit(
            X, y, sensitive_features=A
        )
