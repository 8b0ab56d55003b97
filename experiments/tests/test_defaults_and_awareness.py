"""The zoo, the strict area, and the pages that show their results."""

import pandas as pd
import pytest

from benchmarks.page import filled
from experiments.aware import page as aware_page
from experiments.aware.run import strict_area
from experiments.zoo import page as zoo_page
from experiments.zoo.datasets import CLASSIFICATION, FRESH, REGRESSION, UNTOUCHED, ZOO, part_of

#: Data kept for a final examination; parts of names.
RESERVED = ("ufrgs", "admissions", "randhie", "401k", "loanapp", "german", "bank", "hmda")


@pytest.mark.parametrize("page", [aware_page, zoo_page], ids=["aware", "zoo"])
def test_a_page_shows_what_the_results_say(page):
    text = page.PAGE.read_text("utf-8")
    assert filled(text, page.blocks()) == text


def test_the_parts_of_the_zoo_have_no_table_in_common_and_none_is_reserved():
    parts = [part_of(name) for name in ZOO]
    assert parts.count("tuned") == len(CLASSIFICATION) + len(REGRESSION) == 50
    assert parts.count("untouched") == len(UNTOUCHED) == 21
    assert parts.count("fresh") == len(FRESH) == 16
    named = " ".join(entry.source for entry in ZOO.values()).lower()
    assert not [name for name in RESERVED if name in named]


def test_the_strict_area_takes_what_validation_rows_pick():
    columns = ["split", "unfairness", "utility", "test unfairness", "test utility"]
    one = [0, 0.1, 0.8, 0.1, 0.8]
    # From (0, 0.5) to (0.1, 0.8) and on: 0.6 of the height over two thirds, half of it before.
    assert strict_area(pd.DataFrame([one], columns=columns), 0.5) == pytest.approx(0.5, abs=2e-3)
    # A record that is better on test rows only is never picked.
    lucky = [0, 0.1, 0.7, 0.0, 1.0]
    both = pd.DataFrame([one, lucky], columns=columns)
    assert strict_area(both, 0.5) == pytest.approx(0.5, abs=2e-3)
    # Test values are averaged over splits before the area is taken.
    other = [1, 0.1, 0.8, 0.2, 0.6]
    two = pd.DataFrame([one, other], columns=columns)
    mean = pd.DataFrame([[0, 0.1, 0.8, 0.15, 0.7]], columns=columns)
    assert strict_area(two, 0.5) == pytest.approx(strict_area(mean, 0.5))
