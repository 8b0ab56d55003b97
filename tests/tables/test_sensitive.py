"""Laws and refusals of the typed table of sensitive attributes."""

from __future__ import annotations

import decimal
import doctest
import fractions
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.preprocessing import OneHotEncoder
from table_errors import refused

from equipoise.tables import SensitiveColumn, SensitiveTable

AGES = [23, 31, 38, 44, 47, 52, 58, 61, 66, 70, 74, 79]
SEXES = ["F", "M", "F", "F", "M", "M", "F", "M", "F", "M", "F", "M"]
PEOPLE = {"age": AGES, "sex": SEXES, "owner": [True, False] * 6}

CONTAINERS = {
    "pandas": pd.DataFrame(PEOPLE),
    "pandas nullable": pd.DataFrame(PEOPLE).convert_dtypes(),
    "pandas pyarrow": pd.DataFrame(PEOPLE).convert_dtypes(dtype_backend="pyarrow"),
    "pandas object": pd.DataFrame(PEOPLE).astype(object),
    "polars": pl.DataFrame(PEOPLE),
    "pyarrow": pa.table(PEOPLE),
    "dict of lists": PEOPLE,
    "dict of arrays": {name: np.array(values) for name, values in PEOPLE.items()},
    "dict of series": {name: pl.Series(values) for name, values in PEOPLE.items()},
}


def column(values, **options) -> SensitiveColumn:
    (only,) = SensitiveTable.from_data(values, **options).columns
    return only


# ---- containers -----------------------------------------------------------------------------


@pytest.mark.parametrize("data", CONTAINERS.values(), ids=CONTAINERS)
def test_every_container_gives_the_same_table(data):
    table = SensitiveTable.from_data(data, n_rows=12)
    assert table.names == ("age", "sex", "owner")
    assert [c.kind for c in table.columns] == ["continuous", "discrete", "discrete"]
    np.testing.assert_array_equal(table["age"].values, AGES)
    assert table["age"].codes is None
    assert table["age"].categories == ()
    assert table["sex"].categories == ("F", "M")
    assert table["sex"].values is None
    np.testing.assert_array_equal(table["sex"].codes, [value == "M" for value in SEXES])
    assert table["owner"].categories == (False, True)
    np.testing.assert_array_equal(table["owner"].codes, [1, 0] * 6)
    assert (table.n_rows, table.is_discrete) == (12, False)


@pytest.mark.parametrize(
    "data",
    [
        [1, 2, 1],
        (1, 2, 1),
        [[1], [2], [1]],
        [np.array([1]), np.array([2]), np.array([1])],
        np.array([1, 2, 1]),
        np.array([[1], [2], [1]], dtype=np.uint8),
        np.array([1, 2, 1], dtype=np.float16),
        np.array([[1], [2], [1]]).view(np.matrix),
        np.array([1, 2, 1], dtype=object),
        np.array([decimal.Decimal(1), fractions.Fraction(2), 1.0], dtype=object),
        pd.Series([1, 2, 1]),
        pd.Index([1, 2, 1]),
        pd.Series([1, 2, 1], dtype="category"),
        pd.Categorical([1.0, 2.0, 1.0]),
        pd.Series(pd.arrays.SparseArray([1, 2, 1])),
        pl.Series([1, 2, 1]),
        pl.Series([1, 2, 1]).cast(pl.Int128),
        pl.Series(["1", "2", "1"]).cast(pl.Decimal(10, 2)),
        pa.chunked_array([[1, 2], [1]]),
    ],
    ids=str,
)
def test_one_unnamed_column_of_two_numbers(data):
    only = column(data)
    assert only.name == "sensitive_0"
    assert only.categories == (1, 2)
    assert [type(category) for category in only.categories] == [int, int]
    np.testing.assert_array_equal(only.codes, [0, 1, 0])


def test_series_keep_their_names_and_rows_of_mixed_type_stay_apart():
    assert column(pd.Series([1, 2, 1], name="sex")).name == "sex"
    assert column(pd.Series([1, 2, 1], name=0)).name == "0"
    assert column(pl.Series("sex", [1, 2, 1])).name == "sex"
    rows = SensitiveTable.from_data([[age, sex] for age, sex in zip(AGES, SEXES, strict=True)])
    assert rows.names == ("sensitive_0", "sensitive_1")
    assert [c.kind for c in rows.columns] == ["continuous", "discrete"]
    objects = SensitiveTable.from_data(pd.DataFrame(PEOPLE).to_numpy())
    assert [c.kind for c in objects.columns] == ["continuous", "discrete", "discrete"]


def test_what_a_user_hands_over_is_neither_changed_nor_shared():
    given_values = np.arange(12.0)
    only = column(given_values)
    only.values[0] = 99.0
    np.testing.assert_array_equal(given_values, np.arange(12.0))


# ---- rules ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "kind", "rule"),
    [
        ([True, False, True], "discrete", "booleans are discrete"),
        (["a", "b", "a"], "discrete", "text is discrete"),
        (pd.Series(list("aba"), dtype="category"), "discrete", "categoricals are discrete"),
        (pl.Series(list("aba"), dtype=pl.Categorical), "discrete", "categoricals are discrete"),
        (pl.Series(list("aba"), dtype=pl.Enum(["b", "a"])), "discrete",
         "categoricals are discrete"),
        (pa.chunked_array([pa.array(list("aba")).dictionary_encode()]), "discrete",
         "categoricals are discrete"),
        (pd.Series([*range(20), 0], dtype="category"), "discrete", "categoricals are discrete"),
        ([*range(10), 0], "discrete", "numbers with 10 distinct values (at most 10)"),
        ([*range(11), 0], "continuous", "numbers with 11 distinct values (more than 10)"),
        ([0.25, 0.5, 0.25], "discrete", "numbers with 2 distinct values (at most 10)"),
    ],
)  # fmt: skip
def test_the_stated_rules_decide(values, kind, rule):
    only = column(values)
    assert (only.kind, only.rule) == (kind, rule)


def test_an_override_wins():
    table = SensitiveTable.from_data(
        {"few": [0, 1, 2, 2], "many": [*range(3), 0]}, types={"few": "continuous"}
    )
    assert [c.kind for c in table.columns] == ["continuous", "discrete"]
    assert table["few"].rule == "set in sensitive_types"
    as_groups = column([*range(11), 0], types={"sensitive_0": "discrete"})
    assert as_groups.categories == tuple(range(11))
    shoe_sizes = pd.Series([36.5, 38, None, 36.5], dtype="category")
    np.testing.assert_array_equal(
        column(shoe_sizes, types={"sensitive_0": "continuous"}, missing="skip").values,
        [36.5, 38, np.nan, 36.5],
    )


def test_categories_are_sorted_and_only_those_that_occur():
    cut = pd.cut(pd.Series([9, 5, 70, 12, 6]), [0, 10, 50, 100])
    intervals = column(cut).categories
    assert intervals == tuple(cut.cat.categories)
    assert column(cut[[0, 1, 2, 4]]).categories == (intervals[0], intervals[2])
    assert column([2.5, 1, 2.5, 1]).categories == (1, 2.5)


# ---- missing values -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        ["a", None, "b", "a"],
        ["a", float("nan"), "b", "a"],
        ["a", pd.NA, "b", "a"],
        ["a", pd.NaT, "b", "a"],
        pd.Series(["a", None, "b", "a"]),
        pd.Series(["a", None, "b", "a"], dtype="category"),
        pl.Series(["a", None, "b", "a"]),
        pl.Series(["a", None, "b", "a"], dtype=pl.Categorical),
        pa.chunked_array([["a", None, "b", "a"]]),
        pa.chunked_array([pa.array(["a", None, "b", "a"]).dictionary_encode()]),
        np.ma.array(["a", "x", "b", "a"], mask=[False, True, False, False]),
    ],
)
def test_missing_levels_are_found_in_every_container(values):
    only = column(values, missing="skip")
    np.testing.assert_array_equal(only.codes, [0, -1, 1, 0])
    np.testing.assert_array_equal(only.missing, [False, True, False, False])
    assert only.categories == ("a", "b")


@pytest.mark.parametrize(
    "values",
    [
        [0.5, None, 3, 0.5],
        np.array([0.5, np.nan, 3, 0.5]),
        pd.Series([0.5, None, 3, 0.5], dtype="Float64"),
        pl.Series([0.5, None, 3, 0.5]),
        pl.Series([0.5, float("nan"), 3, 0.5]),
        pa.chunked_array([[0.5, None, 3, 0.5]]),
        np.ma.array([0.5, 7, 3, 0.5], mask=[False, True, False, False]),
    ],
)
def test_missing_numbers_are_found_in_every_container(values):
    only = column(values, missing="skip", types={"sensitive_0": "continuous"})
    np.testing.assert_array_equal(only.values, [0.5, np.nan, 3, 0.5])


def test_question_mark_and_empty_text_are_values():
    assert column(["?", "", "a", "a"]).categories == ("", "?", "a")


def test_known_rows_are_those_complete_in_every_column():
    table = SensitiveTable.from_data(
        {"age": [None, *AGES[1:]], "sex": [*SEXES[:-1], None]}, missing="skip"
    )
    np.testing.assert_array_equal(table.known, [False, *[True] * 10, False])
    np.testing.assert_array_equal(table.encode()[[0, 11]][[0, 1], [0, 1]], [0, 0])


# ---- encoding -------------------------------------------------------------------------------


def test_continuous_scores_are_standardized_ranks():
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=60).round(1), generator.normal(size=60)
    second += first
    scores = SensitiveTable.from_data(np.column_stack([first, second])).encode()
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scores.std(axis=0), 1, rtol=1e-6)
    correlation = np.mean(scores[:, 0] * scores[:, 1])
    assert correlation == pytest.approx(spearmanr(first, second).statistic, abs=1e-6)


def test_continuous_scores_ignore_monotone_maps_and_outliers():
    values = np.random.default_rng(1).normal(size=50)
    plain = SensitiveTable.from_data(values).encode()
    np.testing.assert_array_equal(SensitiveTable.from_data(np.exp(3 * values)).encode(), plain)
    np.testing.assert_array_equal(SensitiveTable.from_data(-values).encode(), -plain)
    values[values.argmax()] = 1e12
    np.testing.assert_array_equal(SensitiveTable.from_data(values).encode(), plain)


def test_discrete_columns_are_one_hot_as_in_scikit_learn():
    data = pd.DataFrame({"race": ["w", "b", "a", "b", "w"], "sex": ["F", "M", "M", "F", "M"]})
    table = SensitiveTable.from_data(data)
    reference = OneHotEncoder(drop="if_binary", sparse_output=False).fit(data)
    np.testing.assert_array_equal(table.encode(), reference.transform(data))
    assert table.encoded_names() == ("race=a", "race=b", "race=w", "sex=M")


def test_missing_values_are_encoded_as_zeros():
    data = {
        "age": [None, 1.0, 2.0, 3.0],
        "race": ["a", "b", "b", None],
        "job": ["x", "y", "z", "x"],
        "sex": [1, 0, None, 1],
    }
    table = SensitiveTable.from_data(data, missing="skip", types={"age": "continuous"})
    step = np.sqrt(1.5)
    np.testing.assert_allclose(
        table.encode(),
        [[0, 0, 1, 0, 0, 1], [-step, 1, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [step, 0, 1, 0, 0, 1]],
        rtol=1e-6,
    )
    three_levels = SensitiveTable.from_data(["a", "b", "c", None, "a"], missing="skip")
    np.testing.assert_array_equal(three_levels.encode()[3], [0, 0, 0])


@st.composite
def tables_and_rows(draw):
    n = draw(st.integers(4, 25))
    maybe = lambda values: st.one_of(st.none(), values)  # noqa: E731
    fixed = {"number": [0.0, 1.0, 1.0], "level": ["a", "b", "b"], "flag": [True, False, False]}
    drawn = {
        "number": maybe(st.floats(-1e6, 1e6)),
        "level": maybe(st.sampled_from("abcd")),
        "flag": maybe(st.booleans()),
    }
    data = {
        name: fixed[name] + draw(st.lists(values, min_size=n - 3, max_size=n - 3))
        for name, values in drawn.items()
    }
    table = SensitiveTable.from_data(data, missing="skip", types={"number": "continuous"})
    positions = st.lists(st.integers(0, n - 1), min_size=1, max_size=2 * n)
    mask = st.lists(st.booleans(), min_size=n, max_size=n)
    return table, np.array(draw(st.one_of(positions, mask)))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(tables_and_rows())
def test_taking_rows_commutes_with_everything(table_and_rows):
    table, rows = table_and_rows
    part = table.take(rows)
    np.testing.assert_array_equal(part.encode(), table.encode()[rows])
    np.testing.assert_array_equal(part.known, table.known[rows])
    assert part.n_rows == len(table.known[rows])
    assert part.encoded_names() == table.encoded_names()
    discrete = SensitiveTable(table.columns[1:])
    np.testing.assert_array_equal(discrete.take(rows).cells(), discrete.cells()[rows])
    for name in table.names:
        assert part[name].categories == table[name].categories
        np.testing.assert_array_equal(part[name].missing, table[name].missing[rows])


def test_a_column_built_by_hand_gets_its_scores():
    by_hand = SensitiveColumn("age", "continuous", "by hand", None, (), np.array([1.0, 5, 5, 9]))
    half = np.sqrt(2)
    np.testing.assert_allclose(by_hand.scores, [-half, 0, 0, half])


# ---- cells ----------------------------------------------------------------------------------


def test_cells_count_through_the_product_of_categories():
    data = pd.DataFrame(
        {"a": [0, 1, 0, 1, 1], "b": list("xyzzx"), "c": [True, True, False] + [True] * 2}
    )
    cells = SensitiveTable.from_data(data).cells()
    product = pd.MultiIndex.from_product([[0, 1], ["x", "y", "z"], [False, True]])
    np.testing.assert_array_equal(cells, product.get_indexer(pd.MultiIndex.from_frame(data)))
    assert cells.dtype == np.int64


def test_cells_of_incomplete_rows_are_minus_one():
    table = SensitiveTable.from_data(
        {"a": [0, 1, None, 1], "b": ["x", None, "y", "x"]}, missing="skip"
    )
    np.testing.assert_array_equal(table.cells(), [0, -1, -1, 2])


def test_cells_need_discrete_columns_and_a_number_that_fits():
    with refused("must be discrete", "cells", "continuous 'age'", "sensitive_types"):
        SensitiveTable.from_data(PEOPLE).cells()
    wide = SensitiveTable.from_data(np.tile([[0], [1], [1]], (1, 63)))
    with refused("sensitive_features", "fewer than 2**63 cells", str(2**63), "leave some out"):
        wide.cells()


# ---- description ----------------------------------------------------------------------------


def test_description_is_what_str_prints():
    data = {"age": AGES, "job": list("abcdefabcdef"), "sex": [None, *SEXES[1:]]}
    table = SensitiveTable.from_data(data, missing="skip")
    assert str(table) == table.describe()
    assert table.describe().splitlines() == [
        "column  kind        levels or range                missing  rule",
        "age     continuous  23 to 79                       0        "
        "numbers with 12 distinct values (more than 10)",
        "job     discrete    a, b, c, d, e, ... (6 levels)  0        text is discrete",
        "sex     discrete    F, M                           1        text is discrete",
    ]


def test_the_page_says_what_happens():
    page = (Path(__file__).parents[2] / "docs" / "sensitive-attributes.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 7
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "page", None, 0)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0
