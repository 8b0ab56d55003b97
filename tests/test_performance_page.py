"""The page of measured numbers says what the result files say."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import page as performance  # noqa: E402


def test_every_table_is_the_one_of_its_result_file():
    page = performance.PAGE.read_text(encoding="utf-8")
    assert performance.filled(page, performance.blocks()) == page, "run python -m benchmarks.page"


def test_the_plot_is_there():
    assert performance.PLOT.read_text(encoding="utf-8").startswith("<?xml")


def test_a_changed_number_is_noticed():
    page = performance.PAGE.read_text(encoding="utf-8")
    changed = page.replace("| adult |", "| adult | 0.5 |")
    assert performance.filled(changed, performance.blocks()) == page
