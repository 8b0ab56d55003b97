"""Verdicts of an audit, read back from the data with NumPy alone, and what to do about them."""

import json
import math
import re

import numpy as np
import pytest

from equipoise import audit
from equipoise.auditing.summary import next_steps
from equipoise.errors import InputError
from equipoise.inference.verdict import State, rows_needed
from tests.error_parts import says

FAST = {"draws": 20, "permutations": 199}


def people(n=2000, shift=0.0, seed=0):
    random = np.random.default_rng(seed)
    sex = random.choice(["F", "M"], n)
    y = random.integers(0, 2, n)
    scores = random.normal(size=n) + y + shift * (sex == "M")
    return 1 / (1 + np.exp(-scores)), y, {"sex": sex}


def numbers(text):
    return [float(each) for each in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", text)]


def test_numbers_of_the_sentences_are_those_of_the_data():
    scores, y, A = people(shift=0.8)
    found = audit(scores, y, A, threshold=0.7, **FAST)
    independence, separation = found.verdicts
    for verdict, among in ((independence, slice(None)), (separation, y == 1)):
        rates, apart, sure = verdict.sentences
        decided = scores[among] > 0.7
        shares = [100 * decided[A["sex"][among] == sex].mean() for sex in "FM"]
        assert numbers(rates) == pytest.approx(shares, abs=0.051)
    # The largest difference at any threshold, and where.
    _, apart, sure = independence.sentences
    points, threshold, _ = numbers(apart.replace("sex = F", ""))
    above = (scores[:, None] > np.sort(scores)).T
    by_threshold = above[:, A["sex"] == "M"].mean(1) - above[:, A["sex"] == "F"].mean(1)
    assert points == pytest.approx(100 * by_threshold.max(), abs=0.051)
    assert threshold == pytest.approx(np.sort(scores)[by_threshold.argmax()], rel=0.005)
    confidence, high = numbers(sure)
    assert (confidence, high) == (95, pytest.approx(100 * independence.estimate.high, abs=0.051))


def test_every_verdict_can_be_reached():
    states = [
        audit(*people(shift=0.8), **FAST).verdicts[0].state,
        audit(*people(20_000), **FAST).verdicts[0].state,
        audit(*people(1200), **FAST).verdicts[0].state,
        audit(*people(120, seed=1), **FAST).verdicts[0].state,
        audit(*people(50), **FAST).verdicts[0].state,
    ]
    assert states == [State.BEYOND, State.CERTAIN, State.WITHIN, State.UNKNOWN, State.UNKNOWN]


def test_a_limit_for_each_attribute_and_none_for_others():
    scores, y, A = people(1200, shift=0.8)
    A["town"] = np.random.default_rng(1).choice(["p", "q", "r"], 1200)
    found = audit(scores, y, A, max_gap={"sex": 0.9, "town": 0.3}, notion="independence", **FAST)
    assert [(v.attribute, v.limit) for v in found.verdicts] == [("sex", 0.9), ("town", 0.3)]
    assert found.verdicts[0].state is State.CERTAIN
    one = audit(scores, y, A, max_gap={"town": 0.3, "sex x town": 0.2}, **FAST)
    assert {v.attribute for v in one.verdicts} == {"town", "sex x town"}
    alike = audit(scores, y, A, notion="independence", **FAST)
    assert [v.attribute for v in alike.verdicts] == ["sex", "town", "sex x town"]
    with pytest.raises(InputError) as refused:
        audit(scores, y, A, max_gap={"twon": 0.3}, **FAST)
    assert says(refused.value, "max_gap", "'sex'", "'twon'", "did you mean 'town'")


def test_json_holds_the_verdicts():
    found = audit(*people(shift=0.8), **FAST)
    document = json.loads(found.to_json())["verdicts"]
    for written, verdict in zip(document, found.verdicts, strict=True):
        assert written["verdict"] == verdict.state == "beyond"
        assert written["limit"] == 0.1
        assert written["value"] == verdict.estimate.value
        assert written["high"] == verdict.estimate.high
        assert written["worst"]["group"] == "sex = F"
        assert written["words"] == verdict.words


def test_the_next_step_follows_from_the_verdicts():
    (step,) = next_steps(audit(*people(shift=0.8), notion="separation", **FAST))
    assert says(step, "sex", "\n", "FairClassifier(notion='separation')", "max_gap=0.1")
    (step,) = next_steps(audit(*people(20_000), notion="independence", **FAST))
    assert "\n" not in step and "Repeat it" in step
    few = audit(*people(1200), notion="independence", **FAST)
    (step,) = next_steps(few)
    needed = rows_needed(few.verdicts[0])
    assert says(step, "sex", f"{needed:,} rows")
    # The reach falls with the square root of the rows, so as many rows would do.
    found = few.verdicts[0].estimate
    reach = (found.high - found.value) * math.sqrt(few.n / needed)
    assert found.value + reach == pytest.approx(0.1, rel=0.06)


def test_a_decision_has_its_own_words():
    said = str(audit(*people(), decision="are invited", **FAST))
    assert "are invited" in said and "are selected" not in said
    with pytest.raises(InputError) as refused:
        audit(*people(), decision=3, **FAST)
    assert says(refused.value, "decision", "3", "are invited")


# ------------------------------------------------------------------------------- several models


@pytest.fixture(scope="module")
def compared():
    scores, y, A = people(1500, shift=0.8)
    noise = np.random.default_rng(5).normal(size=1500)
    alike = scores + 1e-9 * noise
    return audit({"plain": scores, "noisy": scores + 2 * noise, "same": alike}, y, A, **FAST)


def test_each_of_several_models_is_audited_as_if_alone(compared):
    scores, y, A = people(1500, shift=0.8)
    alone = audit(scores, y, A, candidates=3, **FAST)
    assert list(compared) == ["plain", "noisy", "same"]
    assert compared["plain"].to_frame().equals(alone.to_frame())
    frame = compared.to_frame()
    assert frame.columns[0] == "model"
    assert (frame["model"] == "plain").sum() == len(alone.rows)


@pytest.mark.parametrize("y", [None, np.arange(300) % 3])
def test_models_without_a_utility_are_compared_by_verdicts_alone(y):
    random = np.random.default_rng(0)
    A = {"sex": random.choice(["F", "M"], 300)}
    outcome = None if y is None else "multiclass"
    found = audit({"a": random.random(300), "b": random.random(300)}, y, A, outcome=outcome, **FAST)
    assert found.differences == () and found.usefulness() == ""
    assert json.loads(found.to_json())["differences"] == []
    assert "b:" in str(found) and "<html" in found.to_html()


def test_certificates_hold_for_all_models_that_are_compared(compared):
    scores, y, A = people(1500, shift=0.8)
    alone = audit(scores, y, A, **FAST)
    assert compared["plain"].settings.candidates == 3
    value = compared["plain"].verdicts[0].estimate.certificate
    assert value > alone.verdicts[0].estimate.certificate


def test_the_more_useful_model_is_named_unless_it_is_chance(compared):
    noisy, same = compared.differences
    assert noisy.high < 0 and noisy.low <= noisy.value <= noisy.high
    assert same.low <= 0 <= same.high
    said = " ".join(str(compared).split())
    assert says(said, "noisy is less useful than plain", "in AUC", "same and plain do not differ")


def test_pages_and_json_show_models_side_by_side(compared, tmp_path):
    html = compared.to_html()
    assert html.count('data-verdict="') == 2 * 3  # notions, models; one attribute
    for name in compared:
        assert f'<th scope="col">{name}</th>' in html
    document = json.loads(compared.to_json())
    assert list(document["models"]) == list(compared)
    assert [each["model"] for each in document["differences"]] == ["noisy", "same"]


def test_a_single_model_in_a_mapping_is_refused():
    scores, y, A = people(200)
    with pytest.raises(InputError) as refused:
        audit({"only": scores}, y, A)
    assert says(refused.value, "scores", "two models", "only", "as they are")
