"""Tables 4 and 6: every time of the paper has ours beside it; how long it is, is not tested."""

import re

import numpy as np
import pytest

from equipoise.errors import InputError
from equipoise.estimators.network import PAPER_STRENGTHS
from equipoise.training import RowSet
from experiments.paper.times import _cases, published_times, training_times

CASE = ["table", "scenario", "method", "pretraining"]


@pytest.fixture(scope="module")
def measured():
    with pytest.MonkeyPatch.context() as patch:  # what the networks of con learn is no matter here
        patch.setattr("equipoise.methods.conditional.MOST_STEPS", 20)
        return training_times(iterations=3, repetitions=1, members=(1,), rows=300, device="cpu")


def test_the_published_times_are_those_of_the_paper():
    """Sums over the columns of Tables 4 and 6 as printed."""
    paper = published_times()
    assert len(paper) == 20
    sums = paper.groupby(["table", "scenario", "pretraining"])[["minutes", "std"]].sum().round(2)
    assert sums.to_dict("index") == {
        ("table4", "I", "excluded"): {"minutes": 3.22, "std": 0.31},
        ("table4", "II", "excluded"): {"minutes": 3.22, "std": 0.21},
        ("table4", "II", "included"): {"minutes": 5.86, "std": 0.25},
        ("table6", "I", "excluded"): {"minutes": 2.36, "std": 0.20},
        ("table6", "II", "excluded"): {"minutes": 2.61, "std": 0.25},
        ("table6", "II", "included"): {"minutes": 3.61, "std": 0.73},
    }


def test_every_cell_of_the_paper_is_there_with_its_number(measured):
    theirs = published_times().set_index(CASE)
    ours = measured.set_index(CASE)
    assert ours.index.is_unique
    assert set(theirs.index) <= set(ours.index)
    has_number = ours["paper_minutes"].notna()
    assert set(ours.index[has_number]) == set(theirs.index)
    for column in ("minutes", "std"):
        found = ours.loc[theirs.index, f"paper_{column}"]
        assert found.tolist() == theirs[column].tolist()


def test_the_table_is_tidy_and_complete(measured):
    assert list(measured.columns) == [
        "table",
        "scenario",
        "method",
        "members",
        "iterations",
        "pretraining",
        "minutes",
        "std",
        "paper_minutes",
        "paper_std",
        "device",
    ]
    # Nine methods for separation (five and four), seven for independence, with and without.
    assert measured.groupby("table").size().to_dict() == {"table4": 18, "table6": 14}
    assert not ((measured["method"] == "kde") & (measured["scenario"] == "II")).any()
    assert set(measured["members"]) == {1} and set(measured["iterations"]) == {3}
    assert (measured["minutes"] > 0).all()
    assert measured["device"].nunique() == 1 and measured["device"][0].startswith("CPU")
    # One run has no deviation.
    assert measured["std"].isna().all()


def test_what_comes_before_the_first_step_is_in_the_time_that_includes_it(measured):
    times = measured.pivot(index=CASE[:3], columns="pretraining", values="minutes")
    assert (times["included"] >= times["excluded"]).all()


def test_twenty_five_members_are_all_strengths_with_all_splits():
    ranges = [(10 * split, 10 * split + 1) for split in range(5)]
    for case in _cases((1, 25)):
        stack = case.stack(ranges, 2)
        assert len(stack) == case.members
        if case.members == 1:
            ((strength, seed, rows),) = ((m.strength, m.seed, m.rows) for m in stack)
            assert (strength, seed, rows) == (PAPER_STRENGTHS[0], 2, RowSet(ranges[0]))
            continue
        assert case.splits == 5
        pairs = [(member.strength, member.seed, member.rows) for member in stack]
        assert pairs == [
            (strength, 10 + split, RowSet(ranges[split]))
            for split in range(5)
            for strength in PAPER_STRENGTHS
        ]


def test_seeds_are_never_used_twice():
    (case,) = [c for c in _cases((7,)) if (c.table, c.cell.method) == ("table4", "kde")]
    assert case.splits == 2
    seeds = [{m.seed for m in case.stack([(0, 1), (2, 3)], r)} for r in range(4)]
    assert sorted(np.concatenate([sorted(found) for found in seeds])) == list(range(8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repetitions": 0}, "repetitions must be at least 1, got 0"),
        ({"members": (0, 25)}, "members must be numbers from 1 on, such as (1, 25), got (0, 25)"),
        ({"members": ()}, "members must be numbers from 1 on, such as (1, 25), got ()"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1, got 0"),
        ({"device": "abacus"}, "device must be 'auto' or a device torch can use here, got"),
    ],
)
def test_what_can_not_be_timed_is_refused(options, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        training_times(**({"rows": 300} | options))
