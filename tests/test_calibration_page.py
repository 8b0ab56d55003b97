"""Tables of simulations say what their result files say, and the truths are right."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import calibration, health  # noqa: E402
from benchmarks.page import filled  # noqa: E402


@pytest.mark.parametrize("simulation", [calibration, health])
def test_every_table_is_the_one_of_its_result_file(simulation):
    page = simulation.PAGE.read_text(encoding="utf-8")
    assert filled(page, simulation.blocks()) == page, f"run {simulation.__name__}"


def test_a_claim_that_fails_is_in_bold():
    setting = calibration.Setting("binary", "discrete", "independent", 200)
    cell = calibration.Cell("tests", setting)
    for hits, shown in ((936, "0.936"), (900, "**0.900**")):
        document = {"cells": {str(cell): {"held": {"level": [hits, 1_000]}}}}
        assert f"| level | binary | discrete | {shown} |" in calibration.table(document, "tests")


def test_worlds_are_as_fair_as_they_say():
    """Correlations of the score with A, and with A given y, of 20 000 rows."""
    for world, (_, effect) in calibration.WORLDS.items():
        data = calibration.draw(
            calibration.Setting("continuous", "continuous", world, 200), 0, 20_000
        )
        a = data.table["a"].values
        coefficients = np.linalg.lstsq(np.column_stack([data.y, a]), data.scores - 4, rcond=None)[0]
        assert coefficients == pytest.approx([1, effect], abs=0.03)
        assert abs(np.corrcoef(data.y, a)[0, 1] - (world != "independent") * 0.6) < 0.02


def test_mean_and_deviation_of_outcomes_are_those_of_cut_normals():
    share = 1 - norm.cdf(0.3)
    tail = 1 - norm.cdf(0.5)
    moments = calibration.MOMENTS
    assert moments["binary"] == pytest.approx((share, np.sqrt(share * (1 - share))), abs=1e-4)
    assert moments["multiclass"] == pytest.approx((1, np.sqrt(2 * tail)), abs=1e-4)


def test_a_cell_counts_how_often_a_statement_held():
    setting = calibration.Setting("binary", "discrete", "separated", 200)
    found = calibration.run(calibration.Cell("tests", setting), 3, {})
    ((held, total),) = found["held"].values()
    assert (total, found["datasets"]) == (3, 3)
    assert 0 <= held <= 3
