"""What the table of sensitive attributes refuses: argument, rule, value and remedy."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from table_errors import refused

from equipoise.tables import SensitiveTable

PEOPLE = {"age": range(12), "sex": ["F", "M", "M"] * 4, "owner": [True, False] * 6}
WHERE = "sensitive_features column 'sensitive_0'"
DATE = datetime.date(2020, 2, 29)


@pytest.mark.parametrize(
    ("data", "rule", "value", "remedy"),
    [
        (pl.Series([DATE]), "not hold dates", "Date", "into a number"),
        (np.array(["2020-02-29"], dtype="M8[D]"), "not hold dates", "datetime64[D]", "number"),
        ([DATE, None], "not hold dates", "date", "into a number"),
        ([pd.Timedelta(1)], "not hold dates", "Timedelta", "into a number"),
        ([np.timedelta64(1, "D")], "not hold dates", "timedelta64", "into a number"),
        (pd.Series(pd.period_range("2020", periods=2)), "not hold dates", "Period", "number"),
        ([1j, 2j], "not hold complex", "complex", "two columns"),
        (np.array([1j, 2j]), "not hold complex", "complex128", "two columns"),
        ([b"a", b"b"], "not hold bytes", "bytes", "decode"),
        (np.array([b"a", b"b"]), "not hold bytes", "bytes", "decode"),
        (pl.Series([[1], [2]]), "nested values", "List(Int64)", "a column of its own"),
        ([{"a": 1}, {"a": 2}], "nested values", "dict", "a column of its own"),
        ([1, 2, [3]], "nested values", "list", "a column of its own"),
        ([object()], "an unsupported type", "object", "text or numbers"),
        ([1, None, "a", 2], "values of one type", "1 and text such as 'a'", "convert"),
        ([True, "a", "a"], "values of one type", "True and text such as 'a'", "convert"),
        (pd.Categorical([1, "a", "a"]), "values of one type", "1 and text such as 'a'", "convert"),
        ([1.0, float("-inf"), 2.0], "finite numbers", "-inf in row 1", "missing (NaN)"),
        ([1, 10**400], "finite numbers", "an integer of 401 digits", "as text"),
        ([2**60, 2**61, 2**60], "up to 2**53", str(2**61), "as text"),
        ([3, 3, 3], "at least two distinct values", "3 in all 3 known rows", "drop the column"),
        (["F", "F"], "at least two distinct values", "'F' in all 2 known rows", "drop the column"),
        (["u1", "u2", "u3"], "fewer categories than rows", "3 categories in 3", "identifier"),
        ([1, 2, 3], "fewer categories than rows", "3 categories in 3 known rows",
         "sensitive_types={'sensitive_0': 'continuous'}"),
    ],
)  # fmt: skip
def test_bad_values_are_refused(data, rule, value, remedy):
    with refused(WHERE, rule, value, remedy):
        SensitiveTable.from_data(data)


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ([], ["at least one row and one column", "no rows"]),
        ({}, ["at least one row and one column", "no columns"]),
        (np.empty((5, 0)), ["at least one row and one column", "no columns"]),
        (pd.DataFrame({"age": []}), ["at least one row and one column", "no rows"]),
        (np.zeros((2, 2, 2)), ["one or two dimensions", "(2, 2, 2)"]),
        ([[1, 2], [1]], ["rows of one length", "1, 2"]),
        ({"a": [1, 2], "b": [1]}, ["columns of one length", "{'a': 2, 'b': 1}"]),
        ({"a": [[1, 2], [3, 4]]}, ["['a']", "one column", "2", "a name of its own"]),
        ("sex", ["a DataFrame or Series", "str", "convert it"]),
        (pl.LazyFrame({"a": [1]}), ["a DataFrame or Series", "LazyFrame", "collect()"]),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ["distinct column names", "'a'", "rename"]),
        ({1: [1, 2], "1": [1, 2]}, ["distinct column names", "'1'", "rename"]),
    ],
)
def test_bad_tables_are_refused(data, parts):
    with refused("sensitive_features", *parts):
        SensitiveTable.from_data(data)


def test_missing_values_are_refused_by_default():
    with refused("column 'sex'", "not have missing values", "2", "row 1", "missing_sensitive"):
        SensitiveTable.from_data({"sex": ["F", None, "M", None, "F"]})
    for data in ([None, None], pl.Series([None, None]), np.array([np.nan, np.nan])):
        with refused(WHERE, "must have known values", "only missing ones", "drop the column"):
            SensitiveTable.from_data(data, missing="skip")
    with refused("sensitive_features", "a", "row in which every column is known", "none", "drop"):
        SensitiveTable.from_data(
            {"a": [1, 2, 1, None, None, None], "b": [None, None, None, 1, 2, 1]}, missing="skip"
        )


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"types": {"agee": "continuous"}},
         ["sensitive_types", "'agee'", "'age', 'sex', 'owner'", "did you mean 'age'?"]),
        ({"types": {"zzz": "continuous"}}, ["sensitive_types", "'zzz'", "'age', 'sex', 'owner'"]),
        ({"types": {"age": "numeric"}},
         ["sensitive_types['age']", "'discrete' or 'continuous'", "'numeric'"]),
        ({"types": "continuous"}, ["sensitive_types must map", "'continuous'", "pass a dict"]),
        ({"types": {"sex": "continuous"}},
         ["column 'sex'", "numbers to be continuous", "'F'", "sensitive_types"]),
        ({"types": {"owner": "continuous"}},
         ["column 'owner'", "numbers to be continuous", "False", "sensitive_types"]),
        ({"types": {"age": "discrete"}},
         ["column 'age'", "fewer categories than rows", "12 categories", "'continuous'"]),
        ({"missing": "drop"}, ["missing_sensitive", "'error' or 'skip'", "'drop'"]),
        ({"n_rows": 13}, ["sensitive_features", "each of the 13 rows", "12", "same order"]),
    ],
)  # fmt: skip
def test_bad_options_are_refused(options, parts):
    with refused(*parts):
        SensitiveTable.from_data(PEOPLE, **options)


def test_an_unknown_column_is_a_key_error_that_lists_the_columns():
    with pytest.raises(KeyError, match="no sensitive column 'race'; columns: age, sex, owner"):
        SensitiveTable.from_data(PEOPLE)["race"]
