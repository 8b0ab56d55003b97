"""The page of the theory says what its result file says."""

import pytest

from benchmarks.page import filled
from experiments.theory import estimation_bound, study
from experiments.theory import page as theory_page


def test_every_table_is_the_one_of_the_result_file():
    page = theory_page.PAGE.read_text(encoding="utf-8")
    assert filled(page, theory_page.blocks()) == page, "run python -m experiments pages"
    assert filled(page.replace("| 100 |", "| 101 |"), theory_page.blocks()) == page


def test_the_figure_is_there():
    assert theory_page.PLOT.read_text(encoding="utf-8").startswith("<?xml")


def test_the_bounds_in_the_file_are_those_of_the_code():
    document = theory_page.read_results()
    for found in document["bounds"]:
        for version in ("corrected", "printed"):
            bound = estimation_bound(
                study.GAME, n=found["n"], strength=0.5, delta=0.05, version=version
            )
            assert found[version] == pytest.approx(bound.total, rel=1e-9)


def test_in_the_file_errors_lie_below_bounds_and_estimates_below_closed_forms():
    document = theory_page.read_results()
    assert [found["n"] for found in document["bounds"]] == [100, 400, 1600, 6400, 25600]
    for found in document["bounds"]:
        errors = document["errors"][str(found["n"])]
        assert len(errors) == 5 and min(errors) >= 0
        assert max(errors) < found["corrected"] < found["printed"]
        for name in ("predictor", "pair"):
            assert found["estimated"][name] < found["closed_form"][name]
