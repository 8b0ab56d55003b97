"""Which of two runs wins at a limit, or that chance may decide."""

import functools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from equipoise import FairClassifier, FairFrontier
from equipoise.frontier.comparison import ComparedRun, Contest, compare
from equipoise.inference import Estimate
from equipoise.inference.verdict import Verdict


@functools.cache
def fitted(noise=0.0, seed=0):
    """A frontier on the same people each time; the noise is in one feature."""
    random = np.random.default_rng(5)
    n = 1200
    sex = random.integers(0, 2, n)
    x = random.normal(size=n)
    y = (x + 0.7 * random.normal(size=n) > 0).astype(int)
    X = pd.DataFrame({"x": x + noise * random.normal(size=n), "z": random.normal(size=n)})
    options = {"iterations": 60, "hidden": (8,), "critic_hidden": (4,), "device": "cpu"}
    return FairFrontier(
        FairClassifier(**options), strengths=(0.0, 0.5), seeds=1, random_state=seed
    ).fit(X, y, sensitive_features=pd.DataFrame({"sex": np.where(sex, "F", "M")}))


def run(name, **options):
    return ComparedRun(name, fitted(**options), {})


def test_a_clear_lead_wins_on_the_same_rows():
    found = compare([run("noisy", noise=1.5), run("clear")], 0.9).contest
    assert found.winner == "clear" and found.paired
    assert found.entrants == ("clear", "noisy")
    (lead,) = found.leads
    clear, noisy = (found.selections[name].rows[0].test for name in found.entrants)
    assert lead.value == pytest.approx(clear - noisy)
    assert 0 < lead.low < lead.value < lead.high
    assert found.sentence.startswith("clear wins: with gap by sex <= 0.9, the AUC of clear on test")
    assert "same test rows" in found.rule and "paired bootstrap" in found.rule
    assert [v.attribute for v in found.selections["noisy"].verdicts] == ["sex"]


def test_a_difference_within_chance_has_no_winner():
    found = compare([run("a"), ComparedRun("b", fitted(noise=0.01), {})], 0.9).contest
    assert found.winner is None
    assert found.sentence.startswith("No winner: ") and found.sentence.endswith("within chance.")
    assert found.to_document()["winner"] is None


def test_other_rows_have_an_interval_of_two():
    found = compare([run("a"), run("b", seed=1)], 0.9).contest
    assert not found.paired and "test rows differ" in found.rule
    (lead,) = found.leads
    high, low = (found.selections[name].rows[0] for name in found.entrants)
    assert lead.value == pytest.approx(high.test - low.test)
    # Intervals of 200 draws in the selections, of 400 in the contest.
    below = math.hypot(high.test - high.low, low.high - low.test)
    assert lead.value - lead.low == pytest.approx(below, rel=0.25)


def test_a_run_without_such_a_model_loses():
    contest = compare([run("a"), run("b", noise=1.5)], 0.9).contest
    alone = replace(contest, entrants=("a",), leads=(), selections={"a": contest.selections["a"]})
    assert alone.winner == "a" and "it alone has a model" in alone.sentence
    none = replace(contest, entrants=(), leads=(), selections={})
    assert none.winner is None and none.sentence.startswith(
        "No winner: no run with test rows has a model"
    )


def test_a_lead_beyond_the_limit_does_not_win():
    contest = compare([run("clear"), run("noisy", noise=1.5)], 0.9).contest
    beyond = tuple(
        replace(each, estimate=replace(each.estimate, value=0.95))
        for each in contest.selections["clear"].verdicts
    )
    clear = replace(contest.selections["clear"], verdicts=beyond)
    found = replace(contest, selections={**contest.selections, "clear": clear})
    assert found.winner is None
    assert "the model of clear is not within the limit on its test rows, and that of noisy is" in (
        found.sentence
    )


def test_a_winner_that_does_not_keep_the_limit_is_called_so():
    contest = compare([run("clear"), run("noisy", noise=1.5)], 0.9).contest
    assert "Yet" not in contest.sentence
    beyond = {
        name: replace(
            found,
            verdicts=tuple(
                replace(each, estimate=replace(each.estimate, value=0.95))
                for each in found.verdicts
            ),
        )
        for name, found in contest.selections.items()
    }
    found = replace(contest, selections=beyond)
    assert found.winner == "clear"
    assert found.sentence.endswith(" Yet its model is not within the limit on its test rows.")


def test_three_runs_are_told_apart_together():
    runs = [run("a"), run("b", noise=1.5), run("c", noise=1.0)]
    found = compare(runs, 0.9).contest
    assert [lead.level for lead in found.leads] == pytest.approx([1 - 0.05 / 3] * 2)
    assert isinstance(found, Contest) and all(isinstance(lead, Estimate) for lead in found.leads)
    assert "All intervals hold together" in found.rule
    assert all(isinstance(v, Verdict) for s in found.selections.values() for v in s.verdicts)
