"""Tables: what is compared with what, who wins, and what is said where nothing was run."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_up_results import constant, made_up, made_up_results

from experiments.paper import layout, tables
from experiments.paper.plan import STAND_IN, TABLES, Cell, cells_of, in_both_protocols, published
from experiments.paper.results import honest_entry, measure_column, paper_entry

LAW = Cell(scenario="I", dataset="law", notion="independence", method="sbp")
METHODS = ("sbp", "hgr", "kde", "neu")
LAW_SP = "table == 'table2' and dataset == 'law' and metric == 'SP'"


def of(cell: Cell, **changes: str) -> Cell:
    return replace(cell, **changes)


def law(**values: float) -> dict:
    """Runs on Law in which each method has one value everywhere, under the paper's protocol."""
    cells = {of(LAW, method=method): value for method, value in values.items()}
    return {cell: constant(cell, value) for cell, value in cells.items()}


def law_sp(results: dict) -> pd.DataFrame:
    return tables.table_rows(results).query(LAW_SP).set_index("method")


@pytest.fixture(scope="module")
def results():
    cells = (*cells_of("table2"), *cells_of("table12"), *cells_of("table3"))
    return made_up_results(cells)


@pytest.fixture(scope="module")
def rows(results):
    return tables.table_rows(results)


def test_there_are_52_places_whose_data_can_be_had():
    board = tables.scoreboard(tables.table_rows({}))
    assert len(board) == tables.PLACES == 52
    assert not board.duplicated(tables.PLACE).any()
    assert set(board["dataset"]) == {"adult", "credit", "law", "crime"}
    assert board[["ours_holds", "library_holds", "best_holds"]].isna().all(axis=None)
    nothing = tables.Count(finished=0, holds=0)
    assert set(tables.counts(board).values()) == {nothing}


def test_the_published_best_is_that_of_pandas():
    board = tables.scoreboard(tables.table_rows({})).set_index(tables.PLACE)
    known = published().query("dataset != 'acs_employment'")
    best = known.groupby(tables.PLACE)["mean"].min()
    assert board["published"].sort_index().tolist() == best.sort_index().tolist()
    tied = board.loc[("table3", "II", "credit", "age", "EO", 0.75)]
    assert (tied["published"], tied["published_by"]) == (0.016, "SBP, CON")


def test_every_entry_of_the_paper_is_there_once_and_unchanged(rows):
    key = [*tables.PLACE, "method"]
    paper = published().assign(method=lambda table: table["method"].str.lower()).set_index(key)
    ours = rows.set_index(key)
    assert len(rows) == len(paper) == 250
    assert ours["published"].to_dict() == paper["mean"].to_dict()
    assert ours["published_std"].to_dict() == paper["std"].to_dict()
    assert list(dict.fromkeys(rows["table"])) == list(TABLES)


def test_entries_are_those_of_the_protocols(rows, results):
    found = rows.query("table in ('table3', 'table12') and dataset != 'acs_employment'")
    checked = 0
    for row in found.to_dict("records"):
        notion = "separation" if row["metric"] in ("EO", "KS-GEO") else "independence"
        cell = Cell(
            scenario=row["scenario"], dataset=row["dataset"], notion=notion, method=row["method"]
        )
        measure = measure_column(row["metric"], row["attribute"])
        entry = paper_entry(results[cell], measure, row["threshold"])
        assert (row["ours"], row["ours_std"], row["ours_count"]) == (entry.mean, entry.std, 5)
        asked = row["metric"], row["attribute"], row["threshold"]
        honest = honest_entry(results[of(cell, protocol="honest")], *asked)
        assert (row["honest"], row["honest_low"], row["honest_high"]) == (
            honest.mean,
            honest.low,
            honest.high,
        )
        assert (row["honest_splits"], row["honest_of"]) == (honest.splits, 5)
        checked += 1
    assert checked == 8 * 4 + 2 * 2 + 2 * 3


def test_winners_are_the_smallest_to_three_decimals_and_ties_are_shared():
    # 0.0204 and 0.0196 are both printed as 0.020.
    found = law_sp(law(sbp=0.0204, hgr=0.0196, kde=0.0206, neu=0.3))
    assert found["ours_wins"].to_dict() == {"sbp": True, "hgr": True, "kde": False, "neu": False}
    assert found["published_wins"].to_dict() == {m: m == "sbp" for m in METHODS}


def test_nobody_wins_while_a_method_was_not_run():
    found = law_sp(law(sbp=0.02, hgr=0.03, kde=0.04))
    assert not found["ours_wins"].any()
    assert found["ours_run"].to_dict() == {m: m != "neu" for m in METHODS}
    assert np.isnan(found.at["neu", "ours"])


def test_an_entry_of_fewer_than_five_values_wins_nowhere_and_holds_nowhere():
    runs = law(sbp=0.0, hgr=0.2, kde=0.3, neu=0.4)
    few = runs[LAW].snapshots.iloc[:4]
    runs[LAW] = replace(runs[LAW], snapshots=few)
    found = law_sp(runs)
    assert (found.at["sbp", "ours"], found.at["sbp", "ours_count"]) == (0.0, 4)
    assert found["ours_wins"].to_dict() == {m: m == "hgr" for m in METHODS}
    board = tables.scoreboard(tables.table_rows(runs)).query(LAW_SP)
    assert board["ours_holds"].tolist() == [False]
    text = layout.compared(tables.table_rows(runs).query(LAW_SP)).markdown()
    assert "| SBP | **0.004 (0.003)** | 0.000 (0.000), 4 of 5 values |" in text


def test_a_threshold_that_nobody_reaches_is_said():
    run = constant(LAW, 0.0)
    run = replace(run, snapshots=run.snapshots.assign(utility=0.6))
    shown = layout.compared(tables.table_rows({LAW: run}).query(LAW_SP))
    assert shown.rows[0][5].text == "threshold not reached"


def test_a_metric_that_is_defined_nowhere_is_said():
    run = constant(LAW, 0.0)
    run = replace(run, snapshots=run.snapshots.assign(**{"SP race": np.nan}))
    rows = tables.table_rows({LAW: run}).query("table == 'table2' and dataset == 'law'")
    shown = [row[5].text for row in layout.compared(rows).rows if row[3].text == "SBP"]
    assert shown == ["not defined on these rows", "0.000 (0.000)"]
    board = tables.scoreboard(tables.table_rows({LAW: run}))
    assert board.query(LAW_SP)["ours_holds"].tolist() == [False]


@pytest.mark.parametrize(("value", "holds"), [(0.0044, True), (0.0046, False), (0.0, True)])
def test_a_place_holds_if_ours_is_at_most_the_papers_best_as_it_prints(value, holds):
    board = tables.scoreboard(tables.table_rows({LAW: constant(LAW, value)})).query(LAW_SP)
    (row,) = board.to_dict("records")
    assert row["published"] == 0.004 and row["ours"] == pytest.approx(value)
    assert row["ours_holds"] is holds and row["best_holds"] is holds
    assert board["library_holds"].isna().all()


def test_either_settings_may_hold():
    other = of(LAW, settings="equipoise")
    runs = {LAW: constant(LAW, 0.9), other: constant(other, 0.0)}
    board = tables.scoreboard(tables.table_rows(runs))
    assert board.query(LAW_SP)["best_holds"].tolist() == [True]
    # Law, independence: SP and KS-GSP in tables 2 and 7.
    assert tables.counts(board) == {
        "ours": tables.Count(finished=4, holds=0),
        "library": tables.Count(finished=4, holds=4),
        "best": tables.Count(finished=4, holds=4),
    }


def test_the_stand_in_never_stands_beside_the_paper(results):
    rows = tables.table_rows(results)
    assert STAND_IN not in set(rows["dataset"])
    acs = rows[rows["dataset"] == "acs_employment"]
    assert len(acs) == 12 + 16 + 16
    assert not acs[[f"{name}_run" for name in tables.RUNS]].any(axis=None)
    shown = layout.compared(rows.query("table == 'table3'"))
    ours = {row[5].text for row in shown.rows if row[0].text.startswith("ACSEmployment")}
    assert ours == {"data not to be had"}
    own = tables.stand_in_rows(results)
    assert set(own["dataset"]) == {STAND_IN} and own["published"].isna().all()
    assert own.query("table == 'table3'")["ours_run"].all()
    alone = layout.compared(own.query("table == 'table3'"))
    assert "paper" not in alone.header
    assert {row[0].text for row in alone.rows} == {"ACS stand-in (public coverage), AUC ≥ 0.75"}


def numbers(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"\d\.\d+", text)]


@pytest.mark.parametrize("name", ["table2", "table3", "table12"])
def test_markdown_has_the_numbers_of_the_csv(tmp_path, rows, name):
    rows[rows["table"] == name].to_csv(tmp_path / "table.csv", index=False)
    frame = pd.read_csv(tmp_path / "table.csv")
    lines = layout.compared(rows[rows["table"] == name]).markdown().splitlines()[2:]
    assert len(lines) == len(frame)
    for line, row in zip(lines, frame.to_dict("records"), strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert numbers(cells[0]) == [row["threshold"]]
        assert cells[1:3] == [row["metric"], row["attribute"]]
        assert cells[3].lower() == row["method"]
        mean = [] if row["published_about_zero"] else [row["published"]]
        assert numbers(cells[4]) == [*mean, row["published_std"]]
        assert ("≈ 0" in cells[4]) == row["published_about_zero"]
        for cell, entry in zip(cells[5:], tables.RUNS, strict=True):
            parts = ["low", "high"] if "honest" in entry else ["std"]
            values = [row[entry], *(row[f"{entry}_{part}"] for part in parts)]
            expected = [round(value, 3) for value in values] if row[f"{entry}_run"] else []
            assert numbers(cell) == pytest.approx(expected, abs=5.1e-4)
            assert cell.startswith("**") == row[f"{entry}_wins"]


def test_what_was_not_run_is_said():
    lines = layout.compared(tables.table_rows({}).query("table == 'table2'")).markdown()
    assert lines.splitlines()[2:4] == [
        "| Adult, AUC ≥ 0.85 | SP | race | SBP | **0.001 (0.000)** | not run | not run | not run | "
        "not run |",
        "| Adult, AUC ≥ 0.85 | SP | race | HGR | 0.070 (0.005) | not run |  | not run | not run |",
    ]


def both_protocols(paper: dict, honest: dict, low: float = -0.01) -> dict:
    runs = law(**paper)
    for method, value in honest.items():
        cell = of(LAW, method=method, protocol="honest")
        runs[cell] = constant(cell, value, low=low)
    return runs


def test_protocols_disagree_where_no_method_wins_under_both():
    paper = {"sbp": 0.1, "hgr": 0.2, "kde": 0.3, "neu": 0.4}
    turned = {"sbp": 0.12, "hgr": 0.1, "kde": 0.3, "neu": 0.4}
    found = tables.disagreements(tables.table_rows(both_protocols(paper, turned)))
    winners = found.query(f"{LAW_SP} and kind == 'winner'")
    (row,) = winners.to_dict("records")
    assert (row["paper_winners"], row["honest_winners"]) == ("SBP", "HGR")
    tied = turned | {"sbp": 0.1}
    found = tables.disagreements(tables.table_rows(both_protocols(paper, tied)))
    assert "winner" not in set(found["kind"])


@pytest.mark.parametrize(("low", "flattered"), [(0.001, True), (-0.001, False)])
def test_a_value_below_the_whole_interval_is_flattered(low, flattered):
    same = {"sbp": 0.1, "hgr": 0.2, "kde": 0.3, "neu": 0.4}
    rows = tables.table_rows(both_protocols(same, same, low=low))
    found = tables.disagreements(rows).query(LAW_SP)
    assert found["method"].tolist() == (list(METHODS) if flattered else [])
    assert set(found["kind"]) <= {"flattered"}
    assert tables.compared_under_both(rows) == 4 * 4


def test_a_split_that_misses_the_threshold_keeps_an_honest_entry_from_winning():
    same = {"sbp": 0.1, "hgr": 0.2, "kde": 0.3, "neu": 0.4}
    runs = both_protocols(same, same)
    cell = of(LAW, protocol="honest")
    runs[cell] = replace(runs[cell], picks=runs[cell].picks.query("split != 2"))
    found = law_sp(runs)
    assert found["honest_wins"].to_dict() == {m: m == "hgr" for m in METHODS}
    text = layout.compared(tables.table_rows(runs).query(LAW_SP)).rows[0][7].text
    assert text == "0.100 (0.090–0.120), 4 of 5 splits"


def test_agreement_counts_differences_as_printed():
    # The paper has 0.004, 0.096, 0.239, 0.214 in table 2, 0.199, 0.123, 0.252, 0.385 in table 7.
    rows = tables.table_rows(law(sbp=0.0044, hgr=0.1, kde=0.1, neu=0.3))
    found = tables.agreement(rows.query("metric == 'SP'")).set_index("method")
    assert found.loc["sbp", ["places", "smaller", "larger", "near"]].tolist() == [2, 1, 0, 1]
    assert found.loc["hgr", ["places", "smaller", "larger", "near"]].tolist() == [2, 1, 1, 1]
    assert found.at["neu", "median_difference"] == pytest.approx((0.086 - 0.085) / 2)
    # KS-GSP and SP of table 2: SBP in the paper; of table 7: HGR.
    same = tables.same_winners(rows)
    assert same == tables.Count(finished=4, holds=2)


def deviation(published_value: float, written: float, released: float) -> str:
    cell = Cell(scenario="I", dataset="law", notion="separation", method="hgr")
    runs = {cell: constant(cell, written)}
    other = of(cell, method="hgr_product")
    runs[other] = constant(other, released)
    found = tables.deviations(runs)
    assert set(found["method"]) == {"hgr"} and len(found) == 4
    (row,) = found[found["published"] == published_value].to_dict("records")
    assert row["change"] == pytest.approx(released - written)
    return row["nearer"]


def test_which_variant_is_nearer_to_the_paper():
    (value,) = published().query(
        "table == 'table8' and dataset == 'law' and method == 'HGR' and metric == 'KS-GEO'"
    )["mean"]
    assert deviation(value, value + 0.01, value + 0.02) == "written"
    assert deviation(value, value + 0.03, value - 0.02) == "released"
    assert deviation(value, value - 0.01, value + 0.01) == "same"


def test_con_is_written_without_and_released_with_the_covariance_term():
    cell = Cell(scenario="III", dataset="crime", notion="separation", method="con")
    plain = of(cell, method="con_plain")
    found = tables.deviations({cell: constant(cell, 0.3), plain: constant(plain, 0.2)})
    assert found["written"].tolist() == pytest.approx([0.2, 0.2])
    assert found["released"].tolist() == pytest.approx([0.3, 0.3])
    (row,) = tables.changes(found).to_dict("records")
    assert (row["method"], row["places"], row["larger_as_released"]) == ("con", 2, 2)
    assert (row["smaller_as_released"], row["median_change"]) == (0, pytest.approx(0.1))
    # The paper has 0.094 and 0.062 for CON.
    assert row["written_distance"] == pytest.approx(0.2 - (0.094 + 0.062) / 2)
    assert row["released_distance"] == pytest.approx(0.3 - (0.094 + 0.062) / 2)


def test_changes_are_counted_as_printed():
    # 0.1004 and 0.1006 are printed as 0.100 and 0.101, 0.1006 and 0.1014 both as 0.101.
    cell = Cell(scenario="III", dataset="crime", notion="separation", method="hgr")
    product = of(cell, method="hgr_product")
    for written, released, larger in ((0.1004, 0.1006, 2), (0.1006, 0.1014, 0)):
        runs = {cell: constant(cell, written), product: constant(product, released)}
        (row,) = tables.changes(tables.deviations(runs)).to_dict("records")
        assert (row["larger_as_released"], row["smaller_as_released"]) == (larger, 0)


def test_areas_compare_the_default_with_every_rival():
    cells = in_both_protocols((of(LAW, method="hgr"),))[1:]
    cells += (of(LAW, settings="equipoise", protocol="honest"),)
    cells += (of(LAW, method="dcov", settings="equipoise", protocol="honest"),)
    values = dict(zip(cells, (0.06, 0.12, 0.03), strict=True))
    areas = tables.areas_by_split({cell: constant(cell, v) for cell, v in values.items()})
    # AUC 0.95 of 0.5..1, unfairness v of 0..0.3.
    found = tables.hypervolumes(areas).query("metric == 'SP'").set_index("method")
    expected = {m: 0.9 * (0.3 - v) / 0.3 for m, v in (("hgr", 0.06), ("sbp", 0.12), ("dcov", 0.03))}
    assert found["mean"].to_dict() == pytest.approx(expected)
    assert found["first"].to_dict() == {"hgr": False, "sbp": False, "dcov": True}
    row = tables.against_rivals(areas).query("metric == 'SP'").iloc[0]
    assert (row["rival"], row["rival_settings"], row["larger"]) == ("dcov", "equipoise", False)
    assert (row["splits_larger"], row["splits"]) == (0, 5)
    assert row["default"] == pytest.approx(expected["sbp"]) and np.isnan(row["as_in_paper"])


def test_areas_without_a_rival_are_not_compared():
    cell = of(LAW, settings="equipoise", protocol="honest")
    areas = tables.areas_by_split({cell: made_up(cell)})
    assert len(areas) == 2 * 5 and tables.against_rivals(areas).empty
