"""Which metric applies where, and bad input refused in words."""

import numpy as np
import pytest
import torch

from equipoise.errors import InputError
from equipoise.metrics import METRICS, find_metric, measure, outcome_kind, register_metric
from equipoise.notions import Notion
from equipoise.tables import SensitiveTable

SCORES = np.array([0.1, 0.2, 0.6, 0.9])
Y = np.array([0, 1, 0, 1])
TABLE = SensitiveTable.from_data(
    {"sex": list("FFMM"), "age": [20.0, 30, 40, 50]}, types={"age": "continuous"}
)
SEX, AGE = TABLE["sex"], TABLE["age"]


def test_the_papers_metrics_have_their_names_and_notions():
    names = {"SP": "independence", "EO": "separation"}
    names |= {"KS-GSP": "independence", "KS-GEO": "separation"}
    assert {name: METRICS[name].notion for name in names} == {
        name: Notion(notion) for name, notion in names.items()
    }


def test_every_metric_says_what_it_is():
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.description.endswith(".") and metric.formula
        low, high = metric.range
        assert low <= metric.fair_value <= high


def test_a_name_is_registered_once():
    with pytest.raises(InputError) as caught:
        register_metric(METRICS["SP"])
    assert (
        str(caught.value)
        == "metric name must be new, got 'SP', which is registered; choose another"
    )


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(InputError) as caught:
        find_metric("KS-GPS")
    allowed = ", ".join(METRICS)
    assert str(caught.value) == (
        f"metric must be one of {allowed}, got 'KS-GPS'; did you mean 'KS-GSP'?"
    )


def test_the_papers_threshold_is_youdens_for_a_binary_outcome():
    # J is 1/2 at t = 0.9 and at t = 0.2; the first is taken, so one man of two and no woman.
    for rule in ("paper", "youden"):
        found = measure("demographic parity difference", SCORES, SEX, Y, threshold=rule)
        assert float(found) == 0.5


def test_one_threshold_for_each_member():
    scores = np.stack([SCORES, SCORES])
    found = measure("demographic parity difference", scores, SEX, threshold=[0.5, 0.15])
    np.testing.assert_array_equal(found.values, [1.0, 0.5])


@pytest.mark.parametrize(
    ("metric", "column", "options", "message"),
    [
        (
            "demographic parity ratio",
            AGE,
            {"threshold": 0.5},
            (
                "demographic parity ratio is defined for discrete attributes, got the "
                "continuous 'age'"
            ),
        ),
        ("EO", SEX, {"threshold": 0.5}, "EO compares rows of equal outcome and needs y, got none"),
        (
            "SP",
            SEX,
            {"y": [0, 1, 2, 0]},
            ("SP is defined for binary or continuous outcomes, got a multiclass y"),
        ),
        (
            "SP",
            SEX,
            {},
            ("SP compares decisions and needs a threshold, or a binary y to find one, got neither"),
        ),
        (
            "SP",
            SEX,
            {"y": Y, "threshold": None},
            ("SP compares decisions and needs a threshold, or a binary y to find one, got neither"),
        ),
        (
            "SP",
            SEX,
            {"threshold": "best"},
            ("threshold must be 'paper', 'youden', None or numbers, got 'best'"),
        ),
        (
            "SP",
            SEX,
            {"threshold": "youden"},
            (
                "threshold='youden' needs a binary y, got no y; pass a number, or None to "
                "compare mean scores"
            ),
        ),
        (
            "SP",
            SEX,
            {"threshold": [0.5, 0.6]},
            ("threshold must be one number or one for each of the 1 members, got shape (2,)"),
        ),
        (
            "SP",
            SEX,
            {"threshold": 0.5, "reference": "X"},
            ("reference must be a category of sensitive_features column 'sex' ('F', 'M'), got 'X'"),
        ),
        (
            "SP",
            AGE,
            {"threshold": 0.5, "reference": 20},
            (
                "reference must not be given for the continuous column 'age', got 20; leave "
                "it out: parity ratios divide by the rate of all rows"
            ),
        ),
        (
            "KS-GEO",
            SEX,
            {"y": [1, 1, 1, 1]},
            ("y must have at least two distinct values, got 1 in all 4 rows; add rows"),
        ),
        ("KS-GEO", SEX, {"y": [0, 1]}, "y must have one value for each of the 4 scores, got 2"),
        (
            "KS-GEO",
            SEX,
            {"y": [[0, 1]]},
            "y must have shape (n,) with at least one row, got (1, 2)",
        ),
        (
            "KS-GEO",
            SEX,
            {"y": Y, "outcome": "ordinal"},
            ("outcome must be one of 'binary', 'multiclass', 'continuous', got 'ordinal'"),
        ),
        (
            "KS-GEO",
            SEX,
            {"y": [0, 1, 2, 3], "outcome": "binary"},
            "y must have two distinct values to be binary, got 4",
        ),
        (
            "KS-GEO",
            SEX,
            {"y": list("abca"), "outcome": "continuous"},
            ("y must hold numbers, got ndarray that does not convert to floats"),
        ),
        (
            "KS-GSP",
            SEX.take([0, 1]),
            {},
            ("sensitive_features column 'sex' must have one value for each of the 4 scores, got 2"),
        ),
        (
            "KS-GSP",
            SEX.take([0, 1, 1, 0]),
            {},
            (
                "sensitive_features column 'sex' must have at least two distinct values, got "
                "one; no score can depend on a constant, so leave out the column"
            ),
        ),
        (
            "KS-GSP",
            AGE.take([0, 0, 0, 0]),
            {},
            (
                "sensitive_features column 'age' must have at least two distinct values, got "
                "one; no score can depend on a constant, so leave out the column"
            ),
        ),
    ],
)
def test_what_does_not_apply_is_refused_in_words(metric, column, options, message):
    with pytest.raises(InputError) as caught:
        measure(metric, SCORES, column, **options)
    assert str(caught.value).startswith(message)


def test_an_empty_group_is_refused():
    races = SensitiveTable.from_data({"race": list("abcabc")})["race"].take([0, 1, 3, 4])
    with pytest.raises(InputError) as caught:
        measure("KS-GSP", SCORES, races)
    assert str(caught.value) == (
        "sensitive_features column 'race' must have rows in every group, got none in group 'c'; "
        "rebuild the column from the rows in use"
    )


@pytest.mark.parametrize("wrong", [-0.25, 1.5])
def test_decisions_at_a_probability_need_probabilities(wrong):
    scores = SCORES.copy()
    scores[2] = wrong
    with pytest.raises(InputError) as caught:
        measure("SP", scores, SEX, threshold=0.5)
    assert str(caught.value) == (
        "scores must be probabilities in [0, 1] for decisions at threshold=0.5, "
        f"got {wrong} at position 2; pass probabilities, or the decisions as scores of 0 and 1"
    )
    measure("SP", scores, SEX, threshold=0.0)  # a threshold of another scale, such as of logits


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        ([0.5, 1.5], "binary"),
        ([True, False], "binary"),
        (["a", "b", "c"], "multiclass"),
        (range(10), "multiclass"),
        (range(11), "continuous"),
        (torch.arange(11), "continuous"),
        ([str(number) for number in range(20)], "multiclass"),
    ],
)
def test_the_kind_of_outcome_follows_the_rules(y, kind):
    assert outcome_kind(y) == kind


def test_a_named_kind_of_outcome_wins():
    assert outcome_kind(range(11), "multiclass") == "multiclass"
    assert outcome_kind([0, 1, 2], "continuous") == "continuous"
