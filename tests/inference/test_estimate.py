"""One number type: adjusted p-values, how p-values are shown, certificates and intervals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.inference import Estimate, holm, permutation_test
from equipoise.tables import SensitiveTable


def test_holm_by_hand():
    """0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1 but no less than the one before."""
    assert holm([0.04, 0.005, 0.03, 0.01]) == pytest.approx([0.06, 0.02, 0.06, 0.03])
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert holm([0.7, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.one_of(st.floats(0, 1), st.just(math.nan)), max_size=8))
def test_holm_is_the_step_down_rule(p_values):
    """Adjusted <= level exactly where the rule p_(j) <= level / (m - j + 1) rejects, for all j."""
    adjusted = np.array(holm(p_values))
    p = np.array(p_values)
    assert (np.isnan(adjusted) == np.isnan(p)).all()
    tested = np.sort(p[~np.isnan(p)])
    m = len(tested)
    for level in (0.013, 0.11, 0.57):
        rejected = 0
        while rejected < m and tested[rejected] * (m - rejected) <= level:
            rejected += 1
        assert (adjusted <= level).sum() == rejected


def test_the_smallest_possible_p_value_is_shown_as_a_bound():
    table = SensitiveTable.from_data(["a"] * 10 + ["b"] * 10)
    sure = permutation_test(range(20), table, permutations=199)
    assert (sure.p, sure.p_floor, sure.p_shown) == (0.005, 0.005, "<= 0.005")
    unsure = permutation_test([0, 1] * 10, table, permutations=199)
    assert unsure.p_shown == f"{unsure.p:.3f}"
    assert Estimate().p_shown == ""
    assert Estimate(p=0.005, p_floor=0.005, p_adjusted=0.01).p_adjusted_shown == "<= 0.010"
    assert Estimate(p=1e-4, p_floor=1e-4).p_shown == "<= 0.0001"


def test_an_interval_ends_at_its_certificate():
    found = Estimate(value=0.1, low=0.0, high=0.4).certified(0.3)
    assert (found.low, found.high, found.certificate) == (0.0, 0.3, 0.3)
    loose = Estimate(value=0.1, low=0.0, high=0.2).certified(0.3, "a note")
    assert (loose.high, loose.certificate, loose.note) == (0.2, 0.3, "a note")
    none = Estimate(value=0.1, low=0.0, high=0.2).certified(math.nan, "no certificate")
    assert (none.high, none.note) == (0.2, "no certificate")
