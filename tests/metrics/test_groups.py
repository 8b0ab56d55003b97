"""Tables of groups and intersections, counted by hand and by fairlearn."""

import math

import fairlearn.metrics
import numpy as np
import pandas as pd
import pytest

from equipoise.errors import InputError
from equipoise.metrics import group_table, intersect, measure
from equipoise.metrics.sample import prepare
from equipoise.tables import SensitiveTable


def test_rates_of_groups_are_fairlearns():
    rng = np.random.default_rng(0)
    group, y, scores = rng.integers(0, 4, 300), rng.integers(0, 2, 300), rng.random((2, 300))
    column = SensitiveTable.from_data({"g": group})["g"]
    for member in (0, 1):
        decision = (scores[member] > 0.4).astype(int)
        frame = fairlearn.metrics.MetricFrame(
            metrics={
                "size": fairlearn.metrics.count,
                "decision_rate": fairlearn.metrics.selection_rate,
                "true_positive_rate": fairlearn.metrics.true_positive_rate,
                "false_positive_rate": fairlearn.metrics.false_positive_rate,
            },
            y_true=y,
            y_pred=decision,
            sensitive_features=group,
        ).by_group
        rows = group_table(prepare(scores, y, threshold=0.4), column, member=member)
        assert [row.group for row in rows] == ["0", "1", "2", "3"]
        for name in frame.columns:
            found = [getattr(row, name) for row in rows]
            np.testing.assert_allclose(found, frame[name].to_numpy(dtype=float), rtol=1e-12)
        means = pd.Series(scores[member]).groupby(group).mean()
        np.testing.assert_allclose([row.mean_score for row in rows], means, rtol=1e-12)
        assert math.fsum(row.share for row in rows) == pytest.approx(1)


def test_small_groups_are_flagged_and_kept():
    column = SensitiveTable.from_data({"g": ["a"] * 30 + ["b"] * 29})["g"]
    rows = group_table(prepare(np.linspace(0, 1, 59)), column)
    assert [(row.group, row.size, row.small) for row in rows] == [("a", 30, False), ("b", 29, True)]
    assert rows[0].decision_rate is None and rows[0].true_positive_rate is None


def test_a_rate_without_rows_is_nan():
    column = SensitiveTable.from_data({"g": list("aabb")})["g"]
    scored = prepare(np.array([0.0, 1, 0, 1]), [0, 1, 0, 0], threshold=0.5)
    b = group_table(scored, column)[1]
    assert math.isnan(b.true_positive_rate)
    assert b.false_positive_rate == 0.5


def test_a_continuous_attribute_is_shown_in_bands_between_deciles():
    ages = np.arange(100.0)
    column = SensitiveTable.from_data({"age": ages})["age"]
    rows = group_table(prepare(ages / 100), column)
    assert [row.size for row in rows] == [10] * 10
    assert rows[0].group == "0 to 9" and rows[-1].group == "90 to 99"
    assert rows[3].mean_score == pytest.approx(np.arange(30, 40).mean() / 100)


def test_bands_that_ties_leave_empty_are_left_out():
    ages = np.array([20.0] * 50 + list(range(21, 71)))
    column = SensitiveTable.from_data({"age": ages})["age"]
    rows = group_table(prepare(ages), column)
    assert sum(row.size for row in rows) == 100
    assert rows[0].group == "20 to 20" and rows[0].size == 50


def test_intersections_count_every_combination():
    data = {"sex": list("FFFMMM") * 12, "race": list("xxyxxx") * 12, "old": [0, 1] * 36}
    table = SensitiveTable.from_data(data)
    crossed = intersect(table.columns)
    frame = pd.DataFrame(data)
    counts = frame.groupby(["sex", "race", "old"]).size()
    assert {g: n for g, n in crossed.sizes.items() if n} == counts.to_dict()
    assert crossed.empty == (("F", "y", 1), ("M", "y", 0), ("M", "y", 1))
    assert crossed.small == (
        ("F", "x", 0), ("F", "x", 1), ("F", "y", 0), ("M", "x", 0), ("M", "x", 1)
    )  # fmt: skip
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
