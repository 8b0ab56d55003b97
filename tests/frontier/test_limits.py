"""A limit is kept as it was asked for: granted, refused with the nearest, or marked as not kept."""

import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

from equipoise import load
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError, NoSuchModel
from equipoise.frontier.judging import ReportSettings
from equipoise.frontier.selection import read_wish, select, stricter
from equipoise.inference.verdict import State
from tests.composing import composed
from tests.error_parts import says

OPTIONS = {
    "strengths": (0.0, 0.5, 0.9),
    "seeds": 1,
    "iterations": 60,
    "evaluate_every": 20,
    "hidden": (16,),
    "critic_hidden": (8,),
    "batch_size": 100,
    "random_state": 7,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def rows():
    return make_synthetic(1500, random_state=3)


@pytest.fixture(scope="module")
def frontier(rows):
    return composed(**OPTIONS).fit(rows.X, rows.y, sensitive_features=rows.A)


@pytest.fixture(scope="module")
def noise(rows):
    """A frontier for an outcome that nothing predicts."""
    y = np.random.default_rng(5).integers(0, 2, len(rows.X))
    return composed(**OPTIONS).fit(rows.X, y, sensitive_features=rows.A)


def numbers(text):
    return [float(each) for each in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", text)]


@pytest.mark.parametrize("favourable", ["high", "low"])
def test_rates_in_the_sentences_are_those_of_the_test_rows(rows, frontier, favourable):
    wish = {"max_gap": {"group": 0.9}, "draws": 2, "favourable": favourable}
    selection = frontier.select(**wish, decision="are invited")
    test = frontier.split_.test
    scores = selection.model.predict_proba(rows.X.iloc[test])[:, 1]
    group = rows.A["group"].to_numpy()[test]
    shares = {g: 100 * np.mean(scores[group == g] > selection.threshold) for g in np.unique(group)}
    order = sorted(shares, key=shares.get, reverse=favourable == "low")
    (verdict,) = selection.verdicts
    rates, apart, *_ = verdict.sentences
    assert numbers(rates) == pytest.approx([shares[order[0]], shares[order[-1]]], abs=0.051)
    says(rates, f"people with group = {order[0]}", f"those with group = {order[-1]} are invited")
    # The largest difference at any threshold, and for which group.
    found = re.search(r"group = (\w+), ([\d.]+) points at scores above ([\d.]+)", apart)
    inside, above = group == found[1], scores[:, None] > np.sort(scores)
    differences = np.abs(above[inside].mean(0) - above[~inside].mean(0))
    assert float(found[2]) == pytest.approx(100 * differences.max(), abs=0.051)
    assert str(selection).startswith(f"group: {verdict.words}.\n\n{' '.join(rates.split()[:4])}")
    assert selection.decisions.verb == "are invited"


def test_words_about_people_are_checked(frontier):
    with pytest.raises(InputError) as refused:
        frontier.select(max_gap=1.0, favourable="big")
    says(str(refused.value), "favourable", "'high' or 'low'", "got 'big'")
    with pytest.raises(InputError) as refused:
        frontier.select(max_gap=1.0, decision=1)
    says(str(refused.value), "decision", "must be words", "got 1", "'are invited'")


def test_every_verdict_is_reached(rows, frontier):
    certain = frontier.select(max_gap={"group": 1.0}, draws=2).verdicts[0]
    assert certain.state is State.CERTAIN
    beyond = frontier.select(max_gap={"group": 0.0}, draws=2, allow_nearest=True).verdicts[0]
    assert beyond.state is State.BEYOND and beyond.words == "not within the limit of 0 points"
    between = (certain.estimate.value + certain.estimate.high) / 2
    assert certain.estimate.resolution < between
    assert replace(certain, limit=between).state is State.WITHIN
    few = composed(**OPTIONS | {"test": range(70), "strengths": (0.0,)})
    few.fit(rows.X, rows.y, sensitive_features=rows.A)
    selection = few.select(max_gap=0.01, draws=2, allow_nearest=True, attribute="age")
    assert selection.verdicts[0].state in (State.UNKNOWN, State.BEYOND)
    unknown = replace(certain, estimate=replace(certain.estimate, value=math.nan))
    assert unknown.state is State.UNKNOWN


def test_a_limit_that_nothing_keeps_is_refused_or_kept_on_record(frontier):
    with pytest.raises(NoSuchModel) as refused:
        frontier.select(max_gap=0.0)
    nearest = refused.value.nearest
    says(str(refused.value), "gap by age <= 0", f"snapshot {nearest['snapshot']} ")
    says(str(refused.value), f"gap by group {nearest['unfairness']['group']:.4f}", "allow_nearest")
    taken = frontier.select(max_gap=0.0, draws=2, allow_nearest=True)
    assert (taken.snapshot, taken.nearest, taken.useless) == (nearest["snapshot"], True, False)
    assert taken.wish == "gap by age <= 0 and gap by group <= 0"
    assert [v.limit for v in taken.verdicts] == [0.0, 0.0]
    assert {row.limit for row in taken.rows if row.metric == "gap"} == {0.0}
    told = " ".join(str(taken).split())
    says(told, "does not keep the limit", "has the smallest excess over the limits")
    assert told.index("does not keep the limit") < told.index("Snapshot")
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.nearest) == (str(refused.value), nearest)


def test_a_wish_that_is_granted_is_the_same_with_the_nearest_allowed(frontier):
    one, other = (frontier.select(max_gap=0.9, draws=2, allow_nearest=a) for a in (False, True))
    assert str(one) == str(other) and not other.nearest


def test_a_utility_that_nothing_reaches_is_refused(frontier):
    best = frontier.table()["utility"].max()
    with pytest.raises(NoSuchModel) as refused:
        frontier.select(max_gap=1.0, min_utility=min(1.0, best + 0.01))
    assert refused.value.nearest["utility"] == pytest.approx(best, abs=1e-4)
    taken = frontier.select(min_utility=1.0, draws=2, allow_nearest=True)
    assert taken.nearest and taken.rows[0].limit == 1.0
    says(taken.headlines[0], f"AUC: {taken.rows[0].test:.4f} on the test rows", "below the 1 that")


def test_the_level_of_chance_is_that_of_the_rank_test(rows, frontier):
    y = rows.y.to_numpy()[frontier.split_.validation]
    m, n = (y == y.max()).sum(), (y != y.max()).sum()
    expected = 0.5 + 1.645 * math.sqrt((m + n + 1) / (12 * m * n))
    assert frontier.fitted_curve().chance == pytest.approx(expected, abs=1e-12)


def test_a_model_no_better_than_chance_is_no_choice_unless_asked_for(noise, tmp_path):
    table = noise.table()
    assert table["utility"].max() <= noise.fitted_curve().chance
    with pytest.raises(NoSuchModel) as refused:
        noise.select(max_gap=1.0)
    says(
        str(refused.value), "no snapshot is better than chance", "the best AUC is", "useless score"
    )
    says(str(refused.value), "look for features", "allow_useless=True")
    assert refused.value.nearest is None and refused.value.useless
    with pytest.raises(NoSuchModel):
        noise.select(max_gap=1.0, allow_nearest=True)
    taken = noise.select(max_gap=1.0, draws=2, allow_useless=True)
    assert taken.useless and not taken.nearest
    assert table.loc[taken.snapshot, "utility"] == table["utility"].max()
    for verdict in taken.verdicts:
        assert verdict.words.endswith(", but the model is no better than chance")
    assert "This model is no better than chance: its AUC on" in " ".join(str(taken).split())
    noise.save(tmp_path / "noise.equipoise")
    with pytest.raises(NoSuchModel, match=re.escape(str(refused.value))):
        load(tmp_path / "noise.equipoise").select(max_gap=1.0)


def test_if_only_useless_models_keep_the_limit_the_message_says_so(frontier):
    curve = frontier.fitted_curve()
    # So high that only the best utility of all is better than chance.
    chance = np.unique(frontier.table()["utility"])[-2]
    top = frontier.table().query("utility > @chance")[["gap age", "gap group"]].max(axis=1)
    tight = read_wish(curve.snapshots.criteria, max_gap=float(top.min()) - 1e-6)
    with pytest.raises(NoSuchModel) as refused:
        select(replace(curve, chance=chance), tight, ReportSettings(draws=2))
    says(str(refused.value), "no better than chance (AUC at most", "useless score reaches up to")
    says(str(refused.value), f"the nearest is snapshot {top.idxmin()} ", "or allow_useless=True")
    assert refused.value.useless
    # A file of an older version does not know the level: nothing is refused for it.
    assert not select(replace(curve, chance=-math.inf), tight, ReportSettings(draws=2)).useless


def test_stricter_limits_give_a_less_unfair_model_that_is_the_best_of_those(frontier):
    curve, table = frontier.fitted_curve(), frontier.table()
    selection = frontier.select(max_gap=1.0, draws=2)
    limits = stricter(curve, selection, ["age", "group"])
    assert len(set(limits.values())) == 1
    other = frontier.select(max_gap=limits, draws=2).snapshot
    worst = table[["gap age", "gap group"]].max(axis=1)
    assert worst[other] < worst[selection.snapshot]
    less = worst < worst[selection.snapshot]
    assert table.loc[other, "utility"] == table["utility"][less].max()
    one = stricter(curve, selection, ["group"])
    assert one["age"] == 1.0 and one["group"] < table.loc[selection.snapshot, "gap group"]
    fairest = frontier.select(max_gap=0.0, draws=2, allow_nearest=True)
    assert stricter(curve, fairest, ["age", "group"]) is None


@pytest.mark.parametrize("option", ["allow_nearest", "allow_useless"])
def test_what_is_allowed_is_true_or_false(frontier, option):
    with pytest.raises(InputError) as refused:
        frontier.select(max_gap=0.5, **{option: "no"})
    says(str(refused.value), option, "True or False", "got 'no'")
