"""What the table of sensitive attributes refuses, and in which words."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from table_errors import refused

from equipoise.tables import SensitiveTable

PEOPLE = {"age": range(12), "sex": ["F", "M", "M"] * 4, "owner": [True, False] * 6}
TEMPORAL = (
    "; these have no scale of their own, so turn them into a number first, such as age in years"
)
NESTED = "; pass each part as a column of its own"
WHERE = "sensitive_features column 'sensitive_0'"
DATE = datetime.date(2020, 2, 29)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pl.Series([DATE]), f"{WHERE} must not hold dates, times or durations, got Date{TEMPORAL}"),
        (np.array(["2020-02-29"], dtype="M8[D]"),
         f"{WHERE} must not hold dates, times or durations, got datetime64[D]{TEMPORAL}"),
        ([DATE, None], f"{WHERE} must not hold dates, times or durations, got date{TEMPORAL}"),
        ([pd.Timedelta(1)],
         f"{WHERE} must not hold dates, times or durations, got Timedelta{TEMPORAL}"),
        ([np.timedelta64(1, "D")],
         f"{WHERE} must not hold dates, times or durations, got timedelta64{TEMPORAL}"),
        (pd.Series(pd.period_range("2020", periods=2)),
         f"{WHERE} must not hold dates, times or durations, got Period{TEMPORAL}"),
        ([1j, 2j], f"{WHERE} must not hold complex numbers, got complex; "
         "pass real and imaginary part as two columns"),
        (np.array([1j, 2j]), f"{WHERE} must not hold complex numbers, got complex128; "
         "pass real and imaginary part as two columns"),
        ([b"a", b"b"], f"{WHERE} must not hold bytes, got bytes; decode them to text"),
        (np.array([b"a", b"b"]), f"{WHERE} must not hold bytes, got bytes; decode them to text"),
        (pl.Series([[1], [2]]),
         f"{WHERE} must not hold lists, dicts or other nested values, got List(Int64){NESTED}"),
        ([{"a": 1}, {"a": 2}],
         f"{WHERE} must not hold lists, dicts or other nested values, got dict{NESTED}"),
        ([object()], f"{WHERE} must not hold objects of a type that has no rule, got object; "
         "turn them into text or numbers first"),
        ([1, None, "a", 2], f"{WHERE} must hold values of one type, got numbers such as 1 and text "
         "such as 'a'; convert the column to numbers or to text"),
        ([True, "a", "a"], f"{WHERE} must hold values of one type, got booleans such as True and "
         "text such as 'a'; convert the column to numbers or to text"),
        (pd.Categorical([1, "a", "a"]), f"{WHERE} must hold values of one type, got numbers such "
         "as 1 and text such as 'a'; convert the column to numbers or to text"),
        ([1.0, float("-inf"), 2.0], f"{WHERE} must hold finite numbers, got -inf in row 1; "
         "replace it by a number or mark it as missing (NaN)"),
        ([1, 10**400], f"{WHERE} must hold finite numbers, got an integer of 401 digits; "
         "rescale it, or pass it as text if it is a code"),
        ([2**60, 2**61, 2**60], f"{WHERE} is discrete and must hold numbers up to 2**53 in size, "
         f"which a float tells apart, got {2**61}; pass codes of this length as text"),
        ([3, 3, 3], f"{WHERE} must have at least two distinct values, got 3 in all 3 known rows; "
         "nothing can depend on a constant, so drop the column"),
        (["F", "F"], f"{WHERE} must have at least two distinct values, got 'F' in all 2 known "
         "rows; nothing can depend on a constant, so drop the column"),
        (["u1", "u2", "u3"], f"{WHERE} is discrete and must have fewer categories than rows, got 3 "
         "categories in 3 known rows; drop the column if it is an identifier"),
        ([1, 2, 3], f"{WHERE} is discrete and must have fewer categories than rows, got 3 "
         "categories in 3 known rows; drop the column if it is an identifier, or set "
         "sensitive_types={'sensitive_0': 'continuous'} if it measures"),
        ([], "sensitive_features must have at least one row and one column, got no rows"),
        ({}, "sensitive_features must have at least one row and one column, got no columns"),
        (np.empty((5, 0)),
         "sensitive_features must have at least one row and one column, got no columns"),
        (pd.DataFrame({"age": []}),
         "sensitive_features must have at least one row and one column, got no rows"),
        (np.zeros((2, 2, 2)),
         "sensitive_features must have one or two dimensions, got shape (2, 2, 2)"),
        ([[1, 2], [1]], "sensitive_features given as a list of rows must have rows of one length, "
         "got lengths 1, 2"),
        ([1, 2, [3]],
         f"{WHERE} must not hold lists, dicts or other nested values, got list{NESTED}"),
        ({"a": [1, 2], "b": [1]},
         "sensitive_features must have columns of one length, got {'a': 2, 'b': 1}"),
        ({"a": [[1, 2], [3, 4]]},
         "sensitive_features['a'] must be one column, got 2; give each column a name of its own"),
        ("sex", "sensitive_features must be a DataFrame or Series (pandas, polars, pyarrow), a "
         "NumPy array, a list or a dict of columns, got str; convert it first"),
        (pl.LazyFrame({"a": [1]}), "sensitive_features must be a DataFrame or Series (pandas, "
         "polars, pyarrow), a NumPy array, a list or a dict of columns, got LazyFrame; collect() "
         "it first"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "sensitive_features must have distinct column "
         "names, got 'a' more than once; rename the columns"),
        ({1: [1, 2], "1": [1, 2]}, "sensitive_features must have distinct column names, got '1' "
         "more than once; rename the columns"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)  # fmt: skip
def test_bad_columns_are_refused(data, message):
    with refused(message):
        SensitiveTable.from_data(data)


def test_missing_values_are_refused_by_default():
    with refused(
        "sensitive_features column 'sex' must not have missing values, got 2 (first in row 1); "
        "fill them in, or set missing_sensitive='skip' to keep these rows for the task loss and "
        "leave them out of the penalty"
    ):
        SensitiveTable.from_data({"sex": ["F", None, "M", None, "F"]})
    for data in ([None, None], pl.Series([None, None]), np.array([np.nan, np.nan])):
        with refused(f"{WHERE} must have known values, got only missing ones; drop the column"):
            SensitiveTable.from_data(data, missing="skip")
    with refused(
        "sensitive_features must have at least one row in which every column is known, got none; "
        "drop the columns with most missing values"
    ):
        SensitiveTable.from_data(
            {"a": [1, 2, 1, None, None, None], "b": [None, None, None, 1, 2, 1]}, missing="skip"
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"types": {"agee": "continuous"}}, "sensitive_types names a column 'agee' that "
         "sensitive_features does not have (columns: 'age', 'sex', 'owner'); did you mean 'age'?"),
        ({"types": {"zzz": "continuous"}}, "sensitive_types names a column 'zzz' that "
         "sensitive_features does not have (columns: 'age', 'sex', 'owner')"),
        ({"types": {"age": "numeric"}},
         "sensitive_types['age'] must be 'discrete' or 'continuous', got 'numeric'"),
        ({"types": "continuous"}, "sensitive_types must map column names to 'discrete' or "
         "'continuous', got 'continuous'; pass a dict"),
        ({"types": {"sex": "continuous"}}, "sensitive_features column 'sex' must hold numbers to "
         "be continuous, got 'F'; remove it from sensitive_types or convert the column"),
        ({"types": {"owner": "continuous"}}, "sensitive_features column 'owner' must hold numbers "
         "to be continuous, got False; remove it from sensitive_types or convert the column"),
        ({"types": {"age": "discrete"}}, "sensitive_features column 'age' is discrete and must "
         "have fewer categories than rows, got 12 categories in 12 known rows; drop the column if "
         "it is an identifier, or set sensitive_types={'age': 'continuous'} if it measures"),
        ({"missing": "drop"}, "missing_sensitive must be 'error' or 'skip', got 'drop'"),
        ({"n_rows": 13}, "sensitive_features must have one row for each of the 13 rows of data, "
         "got 12; pass the attributes of the same rows in the same order"),
    ],
)  # fmt: skip
def test_bad_options_are_refused(options, message):
    with refused(message):
        SensitiveTable.from_data(PEOPLE, **options)


def test_an_unknown_column_is_a_key_error_that_lists_the_columns():
    with pytest.raises(KeyError, match="no sensitive column 'race'; columns: age, sex, owner"):
        SensitiveTable.from_data(PEOPLE)["race"]
