"""The two protocols by their definitions, in plain Python; and files that lose nothing."""

import json
import math
import statistics
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_up_results import made_up

from equipoise.errors import InputError
from experiments.paper import results
from experiments.paper.plan import Cell
from experiments.paper.results import CellResult, measure_column, pack, read_results, write_result

CLASSIFICATION = Cell(scenario="II", dataset="adult", notion="separation", method="hgr")
REGRESSION = Cell(scenario="III", dataset="crime", notion="independence", method="sbp")
CELLS = [CLASSIFICATION, REGRESSION]


def honest(cell: Cell) -> Cell:
    return replace(cell, protocol="honest")


def points(result: CellResult, measure: str) -> list[tuple]:
    """(run, cost of utility, unfairness) of every snapshot."""
    sign = 1 if result.cell.scenario == "III" else -1
    table = result.snapshots
    runs = zip(table["split"], table["strength"], strict=True)
    return list(zip(runs, sign * table["utility"], table[measure], strict=True))


def front_by_definition(found: list[tuple]) -> list[bool]:
    """No snapshot of the same run is at least as good in both and better in one."""
    return [
        not any(
            run == other and u2 <= u and v2 <= v and (u2 < u or v2 < v) for other, u2, v2 in found
        )
        for run, u, v in found
    ]


def five_smallest(result: CellResult, measure: str, threshold: float) -> list[float]:
    found = points(result, measure)
    limit = threshold if result.cell.scenario == "III" else -threshold
    kept = [
        v
        for (_, u, v), on in zip(found, front_by_definition(found), strict=True)
        if on and u <= limit
    ]
    return sorted(kept)[:5]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.scenario)
def test_the_front_of_each_run_is_that_of_the_definition(cell):
    result = made_up(cell)
    for pair in cell.measures:
        measure = measure_column(*pair)
        expected = front_by_definition(points(result, measure))
        assert 0 < sum(expected) < len(expected)
        assert results.run_fronts(result, measure).tolist() == expected


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.scenario)
def test_the_papers_number_is_mean_and_deviation_of_the_five_smallest(cell):
    result = made_up(cell)
    for pair in cell.measures:
        for threshold in cell.thresholds:
            values = five_smallest(result, measure_column(*pair), threshold)
            entry = results.paper_entry(result, measure_column(*pair), threshold)
            assert entry.count == len(values) == 5
            assert entry.mean == pytest.approx(statistics.mean(values), rel=1e-12)
            assert entry.std == pytest.approx(statistics.pstdev(values), rel=1e-9)


def test_a_threshold_that_few_or_none_reach_is_counted():
    result = made_up(CLASSIFICATION)
    best = sorted(result.snapshots["utility"])[-2]
    measure = measure_column("EO", "race")
    entry = results.paper_entry(result, measure, best)
    assert 1 <= entry.count <= 2
    none = results.paper_entry(result, measure, 0.999)
    assert math.isnan(none.mean) and math.isnan(none.std) and none.count == 0


def test_undefined_values_are_on_no_front():
    result = made_up(CLASSIFICATION)
    measure = measure_column("EO", "race")
    table = result.snapshots.copy()
    table.loc[::3, measure] = np.nan
    front = results.run_fronts(replace(result, snapshots=table), measure)
    assert not front[::3].any() and front.any()
    without = replace(result, snapshots=table.dropna().reset_index(drop=True))
    assert front[table[measure].notna()].tolist() == results.run_fronts(without, measure).tolist()


def test_the_order_of_snapshots_does_not_matter():
    result = made_up(REGRESSION)
    measure = measure_column("SP", "racepctblack")
    shuffled = result.snapshots.sample(frac=1, random_state=3).reset_index(drop=True)
    entry = results.paper_entry(result, measure, 0.12)
    other = results.paper_entry(replace(result, snapshots=shuffled), measure, 0.12)
    assert (entry.mean, entry.count) == pytest.approx((other.mean, other.count), rel=1e-12)


def test_the_honest_number_is_the_mean_over_splits_of_what_was_picked():
    result = made_up(honest(CLASSIFICATION))
    threshold = CLASSIFICATION.thresholds[0]
    rows = [
        row
        for row in result.picks.to_dict("records")
        if (row["metric"], row["attribute"], row["threshold"]) == ("EO", "age", threshold)
    ]
    entry = results.honest_entry(result, "EO", "age", threshold)
    assert entry.splits == len(rows) == 5
    for name, column in {
        "mean": "test_value",
        "low": "low",
        "high": "high",
        "validation": "value",
        "test_utility": "test_utility",
    }.items():
        assert getattr(entry, name) == pytest.approx(statistics.mean(r[column] for r in rows))


def test_a_threshold_that_no_split_reaches_has_no_honest_number():
    result = made_up(honest(CLASSIFICATION))
    assert results.honest_entry(result, "EO", "age", 0.99).splits == 0
    empty = replace(result, picks=pd.DataFrame())
    entry = results.honest_entry(empty, "EO", "age", 0.8)
    assert entry.splits == 0 and math.isnan(entry.mean)


def test_areas_are_those_of_rectangles():
    # Found on validation rows (the third point is not on that front), measured on test rows.
    measure = measure_column("EO", "race")
    table = pd.DataFrame(
        {
            "split": [0, 0, 0, 1],
            "strength": [0.1, 0.9, 0.5, 0.1],
            "iteration": 100,
            "utility": [0.9, 0.7, 0.6, 0.8],
            measure: [0.2, 0.1, 0.15, 0.1],
            "test utility": [0.8, 0.7, 1.0, 0.5],
            f"test {measure}": [0.2, 0.1, 0.0, 0.1],
        }
    )
    result = replace(made_up(honest(CLASSIFICATION)), snapshots=table)
    # AUC above 0.5, unfairness below 0.3: 0.3 x 0.1 and, for the second, 0.2 x 0.1 more.
    expected = [(0.3 * 0.1 + 0.2 * 0.1) / (0.5 * 0.3), 0.0]
    assert results.test_hypervolumes(result, measure) == pytest.approx(expected, abs=1e-12)


def test_what_is_written_is_read_again(tmp_path):
    written = [made_up(REGRESSION), made_up(honest(CLASSIFICATION))]
    for result in written:
        write_result(tmp_path, result)
    found = read_results(tmp_path, [*CELLS, honest(CLASSIFICATION)])
    assert set(found) == {REGRESSION, honest(CLASSIFICATION)}
    for result in written:
        again = found[result.cell]
        pd.testing.assert_frame_equal(again.snapshots, result.snapshots, check_exact=True)
        assert len(again.picks) == len(result.picks)
        if len(result.picks):
            pd.testing.assert_frame_equal(again.picks, result.picks, rtol=1e-12, check_dtype=False)
        assert again.record == result.record


def test_a_cell_without_its_second_file_is_not_finished(tmp_path):
    write_result(tmp_path, made_up(REGRESSION))
    (tmp_path / f"{REGRESSION.key}.json").unlink()
    assert read_results(tmp_path, [REGRESSION]) == {}
    assert read_results(tmp_path / "nowhere", [REGRESSION]) == {}


def test_results_of_another_format_are_refused(tmp_path):
    write_result(tmp_path, made_up(REGRESSION))
    path = tmp_path / f"{REGRESSION.key}.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"format": 0}), "utf-8")
    with pytest.raises(InputError) as error:
        read_results(tmp_path, [REGRESSION])
    assert str(error.value) == (
        f"'{path}' has results of format 0, this version reads 1; move the file away to train its "
        "cells anew"
    )


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.scenario)
def test_packed_results_give_the_same_numbers(tmp_path, cell):
    written = [made_up(cell), made_up(honest(cell))]
    pack(tmp_path, written)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records.json", "snapshots.parquet"]
    found = read_results(tmp_path, [cell, honest(cell)])
    for result in written:
        again = found[result.cell]
        assert len(again.snapshots) < len(result.snapshots)
        assert again.record == result.record
        for metric, attribute in cell.measures:
            measure = measure_column(metric, attribute)
            for threshold in cell.thresholds:
                entry = results.paper_entry(result, measure, threshold)
                same = results.paper_entry(again, measure, threshold)
                assert same.mean == pytest.approx(entry.mean, abs=2e-5)
                assert same.std == pytest.approx(entry.std, abs=2e-5)
                one = results.honest_entry(result, metric, attribute, threshold)
                other = results.honest_entry(again, metric, attribute, threshold)
                assert other.mean == pytest.approx(one.mean, abs=2e-5, nan_ok=True)
            if result.cell.protocol == "honest":
                areas = results.test_hypervolumes(result, measure)
                assert results.test_hypervolumes(again, measure) == pytest.approx(areas, abs=1e-3)


def test_a_cell_with_files_of_its_own_is_read_from_them(tmp_path):
    old, new = made_up(REGRESSION), made_up(REGRESSION, shift=1.0)
    pack(tmp_path, [old])
    write_result(tmp_path, new)
    (again,) = read_results(tmp_path, [REGRESSION]).values()
    pd.testing.assert_frame_equal(again.snapshots, new.snapshots)
