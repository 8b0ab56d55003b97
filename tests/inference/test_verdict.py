"""Four verdicts, one rule each, and the limits they are about."""

import math

import pytest

from equipoise.errors import InputError
from equipoise.inference import Estimate
from equipoise.inference.verdict import Fared, Rates, State, Verdict, judge, limits_of
from tests.error_parts import says


@pytest.mark.parametrize(
    ("value", "high", "resolution", "state"),
    [
        (math.nan, math.nan, math.nan, State.UNKNOWN),
        (0.11, 0.3, 0.02, State.BEYOND),
        (0.11, 0.3, 0.2, State.BEYOND),  # it stands out in spite of few rows
        (0.10, 0.1, 0.02, State.CERTAIN),  # at the limit is within it
        (0.00, 0.1, 0.3, State.CERTAIN),
        (0.05, 0.2, 0.09, State.WITHIN),
        (0.00, 0.2, 0.10, State.WITHIN),
        (0.00, 0.4, 0.11, State.UNKNOWN),  # a difference of 10 points would not stand out
        (0.05, 0.2, math.nan, State.WITHIN),  # a number that is not compared with chance
        (0.05, math.nan, math.nan, State.WITHIN),  # without an interval nothing is certain
    ],
)
def test_the_first_rule_that_applies_decides(value, high, resolution, state):
    assert judge(Estimate(value=value, high=high, resolution=resolution), 0.1) is state


def verdict(metric="gap", limit=0.1, **numbers):
    worst, best = Fared("sex = F", 0.31, 90), Fared("sex = M", 0.5, 80)
    rates = Rates("selection rate", "", worst, best, "win")
    found = Estimate(level=0.95, where="sex = F, 19 points", **numbers)
    return Verdict("independence", "sex", metric, limit, found, rates)


def test_words_name_limit_confidence_rates_and_place():
    said = str(verdict(value=0.15, high=0.25, resolution=0.05))
    assert says(said, "sex", "not within", "10 points", "31 %", "sex = F", "50 %", "sex = M", "win")
    assert says(said, "sex = F, 19 points", "95 %", "25 points")
    assert says(verdict(value=0.0, high=0.09), "within", "10 points", "95 % confidence")
    assert says(verdict(value=0.0, high=0.2, resolution=0.05), "on these rows", "not certain")
    assert says(verdict(value=0.0, high=0.5, resolution=0.2), "too few rows", "below 20 points")
    assert says(verdict("SP", 0.2, value=0.3, high=0.4), "not within", "SP 0.2", "SP is 0.300")


def test_groups_that_cannot_be_judged_are_never_left_out():
    found = verdict(value=0.0, high=0.09, unjudged="sex = X (3 in, 170 out)")
    assert says(found, "Too few rows to judge", "sex = X (3 in, 170 out)")


@pytest.mark.parametrize(
    ("wished", "parts"),
    [
        ({}, ("max_gap", "at least one attribute", "{}")),
        ({"agee": 0.1}, ("max_gap", "'age'", "'agee'", "did you mean 'age'")),
        ({"age": 1.5}, ("max_gap", "[0, 1]", "1.5", "age")),
        (-0.1, ("max_gap", "[0, 1]", "-0.1", "leave out")),
        (True, ("max_gap", "[0, 1]", "True")),
    ],
)
def test_a_limit_must_name_an_attribute_and_lie_between_0_and_1(wished, parts):
    with pytest.raises(InputError) as refused:
        limits_of("max_gap", wished, ["age", "sex"])
    assert says(refused.value, *parts)
