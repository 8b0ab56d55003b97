"""The comparison of adjusters with their peers: its measures and curves, on rows made by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from experiments import RESULTS
from experiments.adjusting.run import compared, ks_gsp, odds_gap
from experiments.adjusting.transport import repaired


def test_the_page_says_what_was_found():
    found = pd.read_csv(RESULTS / "adjusting" / "compared.csv")
    assert set(found["method"]) == {"adjuster", "increasing"}
    assert set(found["peer"]) == {"transport", "equipy", "error_parity"}
    assert found["worst"].min() > -0.005


def test_transport_of_normal_groups_is_the_closed_form():
    """Groups N(0, 1) and N(2, 1) of equal size have the barycentre N(1, 1)."""
    ranks = (np.arange(4000) + 0.5) / 4000
    score = np.concatenate([norm.ppf(ranks), norm.ppf(ranks) + 2])
    group = np.repeat([0, 1], 4000)
    learned = {"learned_score": score, "learned_group": group}
    inner = (np.abs(norm.ppf(np.tile(ranks, 2))) < 2).nonzero()[0]
    expected = score + np.where(group == 0, 1, -1)
    for share in (0.0, 0.5, 1.0):
        found = repaired(score, group, share=share, **learned)
        wanted = (1 - share) * score + share * expected
        np.testing.assert_allclose(found[inner], wanted[inner], atol=0.01)
    assert ks_gsp(repaired(score, group, **learned), group) < 0.001
    assert ks_gsp(score, group) == pytest.approx(norm.cdf(1) - norm.cdf(-1), abs=0.001)


def test_the_gap_in_odds_is_the_largest_difference_given_the_outcome():
    y, group = np.repeat([0, 1], 8), np.tile([0, 1], 8)
    decision = np.array([1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0])
    assert odds_gap(decision == 1, y, group) == 0.5  # 2 of 4 against 0 of 4 where y = 0


def test_methods_are_compared_at_equal_unfairness():
    rows = []
    for split in (0, 1):
        for unfairness in (0.0, 0.1, 0.2):
            for method, utility in (("transport", 0.8), ("adjuster", 0.81)):
                both = {"unfairness": unfairness, "utility": utility + unfairness / 10}
                test = {f"test {name}": value for name, value in both.items()}
                named = {"data": "made", "attribute": "a", "task": "scores", "split": split}
                rows.append({**named, "method": method, **both, **test})
    # Decisions that are all alike are fair and useless; they do not count.
    rows.append({**rows[1], "utility": 0.5, "test utility": 0.5})
    (line,) = compared(pd.DataFrame(rows)).to_dict("records")
    assert (line["method"], line["peer"]) == ("adjuster", "transport")
    assert line["mean"] == pytest.approx(0.01) == pytest.approx(line["worst"])
