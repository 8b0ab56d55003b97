"""Intersections of discrete columns."""

import numpy as np
import pandas as pd
import pytest

from equipoise.errors import InputError
from equipoise.metrics import intersect, measure
from equipoise.tables import SensitiveTable


def test_intersections_count_every_combination():
    data = {"sex": list("FFFMMM") * 12, "race": list("xxyxxx") * 12, "old": [0, 1] * 36}
    table = SensitiveTable.from_data(data)
    crossed = intersect(table.columns)
    frame = pd.DataFrame(data)
    counts = frame.groupby(["sex", "race", "old"]).size()
    assert {g: n for g, n in crossed.sizes.items() if n} == counts.to_dict()
    assert crossed.empty == (("F", "y", 1), ("M", "y", 0), ("M", "y", 1))
    assert [crossed.column.categories[code] for code in crossed.column.codes] == list(
        frame.itertuples(index=False, name=None)
    )
    assert crossed.column.name == "sex x race x old"


def test_an_intersection_can_be_measured_and_shows_what_no_column_shows():
    table = SensitiveTable.from_data({"a": [0, 0, 1, 1] * 10, "b": [0, 1, 0, 1] * 10})
    scores = np.array([0.0, 1, 1, 0] * 10)  # unlike a and b score 1
    for name in ("a", "b"):
        assert float(measure("KS-GSP", scores, table[name])) == 0.0
    assert float(measure("KS-GSP", scores, intersect(table.columns).column)) == 2.0


def test_an_intersection_is_missing_where_any_column_is():
    table = SensitiveTable.from_data(
        {"a": ["x", "y", "x", None], "b": ["u", "u", None, "v"]}, missing="skip"
    )
    crossed = intersect(table.columns)
    assert crossed.column.missing.tolist() == [False, False, True, True]


def test_bad_intersections_are_refused_in_words():
    table = SensitiveTable.from_data({"age": np.arange(40), "sex": list("FM") * 20})
    with pytest.raises(InputError) as caught:
        intersect(table.columns)
    assert str(caught.value) == (
        "columns to intersect must be two or more discrete ones, got continuous 'age'"
    )
    with pytest.raises(InputError) as caught:
        intersect([table["sex"]])
    assert str(caught.value) == "columns to intersect must be two or more discrete ones, got 1"
    codes = {f"c{i}": np.arange(3000) % 1009 % 103 for i in range(2)}
    wide = SensitiveTable.from_data(codes, types=dict.fromkeys(codes, "discrete"))
    with pytest.raises(InputError) as caught:
        intersect(wide.columns)
    assert str(caught.value) == (
        "columns to intersect must have at most 10000 combinations, got 10609; leave some out"
    )
