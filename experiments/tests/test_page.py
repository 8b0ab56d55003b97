"""The page of a run: whole, escaped, the same twice; and the sentences that numbers make."""

from dataclasses import replace

import pandas as pd
import pytest
from made_up_results import DEVICE, constant, made_up, made_up_results

from equipoise.errors import InputError
from experiments.paper.page import (
    QUICK,
    say_agreement,
    say_areas,
    say_runs,
    say_settings,
    write_page,
)
from experiments.paper.plan import Cell, cells_of
from experiments.paper.results import write_result
from experiments.paper.tables import read_contents

#: Nothing that a device may be called can change the page.
EVIL = "<script>alert(1)</script> & <!-- | `x`"


@pytest.fixture(scope="module")
def results_folder(tmp_path_factory):
    """Table 12 whole, one cell of table 2, the toy and the times."""
    folder = tmp_path_factory.mktemp("results")
    law = Cell(scenario="I", dataset="law", notion="independence", method="hgr")
    for result in (*made_up_results(cells_of("table12")).values(), made_up(law, quick=True)):
        write_result(folder, replace(result, record=result.record | {"device": EVIL}))
    toy = {"cell": ["p(1|1)/p(1)"], "true": 1.18771, "paper": 1.181, "paper_std": 0.0077}
    toy |= {"network": 1.18234, "network_std": 0.00512, "counts": 1.18761, "counts_std": 0.0011}
    pd.DataFrame(toy).to_csv(folder / "table5.csv", index=False)
    times = {"table": ["table4", "table4"], "scenario": "I", "method": "sbp", "members": [1, 25]}
    times |= {"iterations": 1000, "pretraining": "excluded", "minutes": [0.0123, 0.0321]}
    times |= {"std": 0.0004, "paper_minutes": [0.22, None], "paper_std": [0.02, None]}
    pd.DataFrame(times | {"device": EVIL}).to_csv(folder / "times.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def out(results_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    assert write_page(read_contents(results_folder), folder) == folder / "page.md"
    return folder


@pytest.fixture(scope="module")
def page(out):
    return (out / "page.md").read_text("utf-8")


def test_nothing_in_the_results_can_become_markup(page):
    assert "<script" not in page and "alert(1)" in page


def test_all_files_are_there_and_figures_are_shown(out, page):
    names = {path.name for path in (out / "figures").iterdir()}
    assert names == {f"{name}.png" for name in ("figure1", "figure7", "areas")}
    assert all(f"](figures/{name})" in page for name in names)
    tables = {path.name for path in (out / "tables").iterdir()}
    for name in ("table2", "table12", "scoreboard", "table5", "times", "areas_against_rivals"):
        assert f"{name}.csv" in tables
    assert {"runs.csv", "disagreements.csv", "agreement.csv"} <= tables


def test_a_quick_run_is_called_so(page):
    assert QUICK.capitalize() in page


def test_what_was_not_run_is_named(page):
    assert "Tables of which nothing has been run: 3, 8, 9, 10, 11." in page  # 7 shares its cells
    assert "Not run: figure2, figure3, figure4, figure5, figure6, figure8, figure9" in page
    assert "| SBP | **0.004 (0.003)** | not run | not run | not run | not run |" in page


def test_the_answer_comes_first(page):
    answer = page.index("Our SBP with our settings is at least as good as the best entry")
    assert answer < page.index("## Scoreboard") < page.index("## Table 2. Scenario I")
    assert "places (4 of them are run)." in page


def test_the_same_results_give_the_same_page(results_folder, page, tmp_path):
    again = write_page(read_contents(results_folder), tmp_path)
    assert again.read_text("utf-8") == page


def test_settings_that_are_not_the_defaults_are_named(tmp_path):
    cell = Cell(
        scenario="I", dataset="law", notion="independence", method="sbp", settings="equipoise"
    )
    for each, schedule in ((cell, "constant"), (replace(cell, protocol="honest"), "decay")):
        result = made_up(each)
        options = result.record["options"] | {"schedule": schedule}
        write_result(tmp_path, replace(result, record=result.record | {"options": options}))
    contents = read_contents(tmp_path)
    row = contents.settings.set_index("option").loc["schedule"]
    assert row.to_dict() == {"paper": "", "library": '"constant"', "library_honest": '"decay"'}
    (sentence,) = say_settings(contents)
    assert sentence.endswith("there our settings differ from the defaults in: schedule.")


def test_a_training_run_that_cells_share_is_counted_once(tmp_path):
    cell = Cell(scenario="I", dataset="law", notion="independence", method="neu")
    for each in (cell, replace(cell, notion="separation"), replace(cell, method="hgr")):
        write_result(tmp_path, made_up(each))
    first, device, time, *_ = say_runs(read_contents(tmp_path))
    assert first.startswith(f"3 of {len(cells_of('all'))} cells are finished, from 2 training runs")
    assert device == f"Device: {DEVICE}. Versions: python 3.11, equipoise 0.0, torch 2.0."
    # Twice half a second to prepare and 12.25 to train.
    assert time.startswith(
        "Wall time of the training runs, added up: 0.4 minutes, of which 0.4 training"
    )


def test_cells_that_are_missing_are_named(tmp_path):
    left_out = Cell(scenario="II", dataset="adult", notion="separation", method="con")
    wanted = [cell for cell in cells_of("all") if cell not in cells_of("rivals")]
    kept = [cell for cell in wanted if replace(cell, protocol="paper") != left_out]
    result = made_up(kept[0])
    write_result(tmp_path, result)
    one = read_contents(tmp_path)
    assert not any("Not finished" in text for text in say_runs(one))  # nearly all of them
    *_, last = say_runs(replace(one, results=dict.fromkeys(kept, result)))
    assert last == (
        f"Not finished: {len(cells_of('rivals'))} cells of rivals with our settings; CON, Adult, "
        "Scenario II, separation."
    )


def test_who_wins_again_is_told_by_table(tmp_path):
    for cell in cells_of("table12"):
        # SBP is best in independence, where the paper has it first twice, and worst in separation.
        worst = (cell.method == "sbp") == (cell.notion == "separation")
        write_result(tmp_path, constant(cell, 0.5 if worst else 0.1))
    first, *_ = say_agreement(read_contents(tmp_path))
    assert first == (
        "In 3 of the 4 places in which our runs with the paper's settings and protocol have a "
        "winner, a method that wins in the paper wins again (ties count). Places that SBP wins, "
        "alone or tied, in the paper and in ours: table 12: 3 and 2 of 4."
    )


def test_rivals_of_trials_are_counted_where_areas_are_compared(tmp_path):
    law = Cell(scenario="I", dataset="law", notion="independence", method="sbp")
    law = replace(law, settings="equipoise", protocol="honest")
    for cell, value in ((law, 0.1), (replace(law, method="hgr"), 0.2)):
        write_result(tmp_path, constant(cell, value))
    kept = (
        "SBP with our settings reaches more of the rectangle than every rival that is kept, with "
        "any settings, in 2 of 2 trade-offs"
    )
    rivals = len(cells_of("rivals"))
    first, *_ = say_areas(read_contents(tmp_path))
    assert first == f"{kept}. Of the {rivals} cells of rivals with our settings 1 are kept."
    tried = {"trial": "rival", "method": "kde", "settings": "equipoise", "changed": None}
    tried |= {"iterations": 1_500, "device": DEVICE, "quantity": "area", "measure": "SP race"}
    tried |= {"cell": replace(law, method="kde").key, "value": 0.99}
    pd.DataFrame([tried]).to_csv(tmp_path / "trials.csv", index=False)
    first, *_ = say_areas(read_contents(tmp_path))
    assert first == (
        f"{kept}, and in 1 if rivals of the trials count as well. Of the {rivals} cells of rivals "
        "with our settings 1 are kept, and of 1 more only the areas of a trial."
    )


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        read_contents(tmp_path / "nowhere")


def test_an_empty_folder_gives_a_page_that_says_so(tmp_path):
    (tmp_path / "results").mkdir()
    page = write_page(read_contents(tmp_path / "results"), tmp_path / "out").read_text("utf-8")
    assert "No cell has been run yet." in page
    assert "in 0 of 52 places (0 of them are run)." in page
