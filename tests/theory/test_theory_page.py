"""The page of the theory says what its result file says."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import _environment, _page, _theory_page, theory  # noqa: E402

from equipoise.theory import estimation_bound  # noqa: E402


def test_every_table_is_the_one_of_the_result_file():
    page = _theory_page.PAGE.read_text(encoding="utf-8")
    filled = _page.filled(page, _theory_page.TABLES)
    assert filled == page, "run python -m benchmarks._theory_page"
    assert _page.filled(page.replace("| 100 |", "| 101 |"), _theory_page.TABLES) == page


def test_the_figure_is_there():
    assert _theory_page.PLOT.read_text(encoding="utf-8").startswith("<?xml")


def test_the_bounds_in_the_file_are_those_of_the_code():
    document = _environment.read("theory")
    for found in document["bounds"]:
        for version in ("corrected", "printed"):
            bound = estimation_bound(
                theory.GAME, n=found["n"], strength=0.5, delta=0.05, version=version
            )
            assert found[version] == pytest.approx(bound.total, rel=1e-9)


def test_in_the_file_errors_lie_below_bounds_and_estimates_below_closed_forms():
    document = _environment.read("theory")
    assert [found["n"] for found in document["bounds"]] == [100, 400, 1600, 6400, 25600]
    for found in document["bounds"]:
        errors = document["errors"][str(found["n"])]
        assert len(errors) == 5 and min(errors) >= 0
        assert max(errors) < found["corrected"] < found["printed"]
        for name in ("predictor", "pair"):
            assert found["estimated"][name] < found["closed_form"][name]
