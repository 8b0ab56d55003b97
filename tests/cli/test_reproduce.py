"""``equipoise reproduce``: what is finished is written without training, what is wrong is said."""

import json
import sys
from pathlib import Path

import pytest
from people import equipoise

from equipoise.paper.packing import pack
from equipoise.paper.plan import TABLES, cells_of, targets

sys.path.insert(0, str(Path(__file__).parents[1] / "paper"))
from made_up_results import made_up_results

PLACES = 52


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Table 12 finished under both protocols, packed as results are kept."""
    folder = tmp_path_factory.mktemp("kept") / "results"
    pack(folder, made_up_results(cells_of("table12")).values())
    return folder


def finished(results, out, target, *more):
    return equipoise(
        "reproduce", target, "--results", results, "--out", out, "--finished-only", *more
    )


def test_a_table_from_kept_results(results, tmp_path):
    before = {path.name: path.read_bytes() for path in results.iterdir()}
    ran = finished(results, tmp_path / "out", "table12")
    assert ran.code == 0, ran.err
    first, *_, last = ran.out.splitlines()
    assert first == "Table 12. Scenario III, regression"
    assert last == f"page: {tmp_path / 'out' / 'index.html'}"
    # What the paper has for SBP stands beside ours.
    assert "| Crime, MAE ≤ 0.12 | SP | racepctblack | SBP | **0.225 (0.007)** | " in ran.out
    for name in ("index.html", "tables/table12.md", "tables/table12.csv", "figures/figure7.svg"):
        assert (tmp_path / "out" / name).is_file()
    assert {path.name: path.read_bytes() for path in results.iterdir()} == before


def test_for_machines(results, tmp_path):
    ran = finished(results, tmp_path / "out", "table12", "--json")
    assert ran.code == 0, ran.err
    answer = json.loads(ran.out)
    asked = len(cells_of("table12"))
    assert (answer["cells_asked"], answer["cells_finished"]) == (asked, asked)
    assert (answer["cells_trained_now"], answer["left_out"]) == (0, [])
    assert answer["page"] == str(tmp_path / "out" / "index.html")
    holds = answer["published_cells_that_hold"]
    assert {name: count["finished"] for name, count in holds.items()} == {
        "ours": 4,
        "library": 4,
        "best": 4,
    }


def test_what_is_not_finished_is_said(results, tmp_path):
    ran = finished(results, tmp_path / "out", "figure1")
    assert ran.code == 0, ran.err
    page = tmp_path / "out" / "index.html"
    assert ran.out == f"Figure 1. Scenario I, independence: not run\npage: {page}\n"
    assert not (tmp_path / "out" / "figures" / "figure1.png").exists()
    ran = finished(results, tmp_path / "out", "figure7")
    picture = tmp_path / "out" / "figures" / "figure7.png"
    assert ran.out == f"Figure 7. Scenario III: {picture}\npage: {page}\n"
    assert picture.is_file()
    ran = finished(results, tmp_path / "out", "all")
    assert f"of {PLACES} places (4 of them are run)." in ran.out.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("tabel2",),
            f"target must be one of {', '.join(targets())}, got 'tabel2'; did you mean 'table2'?",
        ),
        (
            ("table2", "--finished-only", "--results", "nowhere"),
            "results must be a folder of finished runs, got 'nowhere', which is not there; name "
            "another one, or train first",
        ),
        (("table2", "--workers", "0"), "workers must be at least 1, got 0"),
        (("table2", "--workers", "0", "--finished-only"), "workers must be at least 1, got 0"),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_nothing(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = equipoise("reproduce", *arguments)
    assert (ran.code, ran.out, ran.err) == (1, "", f"error: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_folder_is_named(results, tmp_path):
    records = tmp_path / "records.json"
    for text, message in (
        (
            (results / "records.json").read_text("utf-8"),
            "'{path}' must have 'snapshots.parquet' beside it, got none; move it away to train its "
            "cells anew, or fetch both again",
        ),
        (
            "[1,",
            "'{path}' must be a JSON file of results, got one that can not be read (Expecting "
            "value: line 1 column 4 (char 3)); move it away to train its cells anew, or fetch it "
            "again",
        ),
    ):
        records.write_text(text, "utf-8")
        ran = finished(tmp_path, tmp_path / "out", "table12")
        expected = message.format(path=records)
        assert (ran.code, ran.out, ran.err) == (1, "", f"error: {expected}\n")
        assert not (tmp_path / "out").exists()


def test_results_of_another_size_are_not_mixed(results, tmp_path):
    ran = equipoise("reproduce", "table12", "--results", results, "--out", tmp_path, "--quick")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"error: '{results}' holds results of a full run, got a quick one; choose another folder, "
        "or the same size\n"
    )


def test_help_names_what_can_be_asked_for():
    ran = equipoise("reproduce", "--help")
    assert ran.code == 0
    words = " ".join(ran.out.replace("│", " ").split())
    assert "table2 ... table12, figure1 ... figure11, scenario1" in words
    assert set(TABLES) | {"all", "ours", "rivals", "deviations"} <= set(targets())
