"""Judging on the device, and a recorder that can be put aside and taken up again."""

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from small_frontiers import rows

from equipoise.frontier.judging import Criteria, HeldOut, Judge, criteria_for, samples_of
from equipoise.frontier.snapshots import Entry, Recorder, entries_of, scores_of
from equipoise.metrics import measure, youden_threshold
from equipoise.networks import StackedMLP
from equipoise.tables import SensitiveTable
from equipoise.training import TASKS, Member, Predictor

MEMBERS = [Member(strength, seed) for seed in (1, 2, 3) for strength in (0.0, 0.5)]


def predictor(outputs=1, task="binary", seed=0):
    starts = [torch.Generator().manual_seed(seed + k) for k in range(len(MEMBERS))]
    return Predictor(StackedMLP(4, (5, 3), outputs, generators=starts), TASKS[task])


def held_out():
    data = rows()
    table = SensitiveTable.from_data(data.A)
    return HeldOut("validation", data.y.to_numpy().astype(np.int64), "binary", table, None)


def test_members_and_averages_are_scored_as_predictors_of_their_own():
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    entries = entries_of(MEMBERS, ensemble=True)
    for outputs, task in ((1, "binary"), (3, "multiclass"), (1, "squared")):
        stack = predictor(outputs, task)
        scores = scores_of(stack, x, entries, center=2.0, scale=3.0)
        assert scores.shape == (8, 50, outputs) and stack.training
        assert next(stack.parameters()).dtype == torch.float32
        expected = stack.double().evaluate(x)[1]
        # Up to rounding: six are multiplied otherwise than the eight that six and averages make.
        torch.testing.assert_close(scores[:6], expected * 3 + 2, rtol=1e-12, atol=1e-12)
        for place, members in ((6, [0, 2, 4]), (7, [1, 3, 5])):
            torch.testing.assert_close(
                scores[place], expected[members].mean(0) * 3 + 2, rtol=1e-12, atol=1e-12
            )


def test_portions_do_not_change_scores(monkeypatch):
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    entries = entries_of(MEMBERS, ensemble=True)
    whole = scores_of(predictor(), x, entries)
    monkeypatch.setattr("equipoise.frontier.snapshots.EVALUATED_AT_ONCE", 42)
    torch.testing.assert_close(scores_of(predictor(), x, entries), whole, rtol=1e-12, atol=1e-12)


def test_a_judge_says_what_metrics_say_one_by_one():
    held, data = held_out(), rows()
    criteria = criteria_for(("gap", "KS-GSP", "SP"), "independence", "AUC", held)
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(4, len(held), 1, generator=generator, dtype=torch.float64)
    scores[1] = scores[1].round(decimals=1)  # ties
    scores[2] = 0.5  # no decision at all: parity ratios are undefined
    found = Judge(samples_of(held), criteria)(scores)
    assert found.shape == (4, 8)
    for row, score in zip(found.numpy(), scores[..., 0].numpy(), strict=True):
        assert row[0] == pytest.approx(roc_auc_score(held.y, score), abs=1e-12)
        assert row[1] == float(youden_threshold(score, held.y))
        for value, (metric, attribute) in zip(row[2:], criteria.measures, strict=True):
            column = SensitiveTable.from_data(data.A)[attribute]
            expected = float(measure(metric, score, column, held.y))
            assert value == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert found[2, 6:].isnan().all() and not found[[0, 1, 3]].isnan().any()


def random_judge(seed):
    """Numbers from nowhere, as a judge would give them; some undefined."""
    random = torch.Generator().manual_seed(seed)

    def judge(_):
        table = torch.rand(8, 5, generator=random, dtype=torch.float64)
        table[table > 0.97] = torch.nan
        return table

    return judge


CRITERIA = Criteria("AUC", (("KS-GSP", "a"), ("KS-GSP", "b"), ("SP", "a")))
ENTRIES = entries_of(MEMBERS, ensemble=True)


def recorded(recorder, iterations):
    for iteration in iterations:
        recorder(iteration, predictor(seed=iteration))
    return recorder


def assert_same_snapshots(one, two):
    for name in ("entry", "iteration", "utility", "threshold", "unfairness"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), strict=True)
    assert list(one.weights) == list(two.weights)
    for number, weights in one.weights.items():
        for name, tensor in weights.items():
            assert torch.equal(tensor, two.weights[number][name])


@pytest.mark.parametrize("before", [0, 1, 5])
def test_a_recorder_goes_on_where_another_stopped(before):
    judge = random_judge(0)
    first = recorded(Recorder(judge, CRITERIA, ENTRIES), range(1, before + 1))
    state = first.state_dict()
    second = Recorder(judge, CRITERIA, ENTRIES)
    second.load_state_dict(state)
    if before:
        assert_same_snapshots(first.snapshots(), second.snapshots())
    # What the first records from now on must not reach the second through its state.
    recorded(first, [99])
    recorded(second, range(before + 1, 9))
    whole = recorded(Recorder(skipping(random_judge(0), before), CRITERIA, ENTRIES), range(1, 9))
    assert_same_snapshots(second.snapshots(), whole.snapshots())


def skipping(judge, after):
    """The numbers of ``judge`` without those that went to iteration 99."""
    calls = iter(range(100))

    def judged(predictor):
        if next(calls) == after:
            judge(predictor)
        return judge(predictor)

    return judged


def test_the_state_is_tensors_and_plain_values():
    state = recorded(Recorder(random_judge(0), CRITERIA, ENTRIES), [10, 20]).state_dict()
    tensors = []

    def plain(value):
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            return "tensor"
        if isinstance(value, dict):
            assert all(isinstance(key, str) for key in value)
            return {key: plain(each) for key, each in value.items()}
        return [plain(each) for each in value] if isinstance(value, list) else value

    assert json.loads(json.dumps(plain(state)))["iterations"] == [10, 20]
    assert len(tensors) > 2


def test_weights_kept_are_those_of_the_moment():
    recorder = Recorder(random_judge(1), CRITERIA, ENTRIES)
    stack = predictor()
    recorder(1, stack)
    expected = {name: tensor.detach().clone() for name, tensor in stack.named_parameters()}
    with torch.no_grad():
        for tensor in stack.parameters():
            tensor.zero_()
    snapshots = recorder.snapshots()
    assert any(ENTRIES[snapshots.entry[number]].is_average for number in snapshots.weights)
    for number, weights in snapshots.weights.items():
        members = list(ENTRIES[snapshots.entry[number]].members)
        for name, tensor in expected.items():
            assert torch.equal(weights[name], tensor[members])


def test_entries_are_members_and_then_averages_of_a_strength():
    assert entries_of(MEMBERS, ensemble=False) == tuple(
        Entry(member.strength, (place,), (member.seed,)) for place, member in enumerate(MEMBERS)
    )
    assert entries_of(MEMBERS, ensemble=True)[6:] == (
        Entry(0.0, (0, 2, 4), (1, 2, 3)),
        Entry(0.5, (1, 3, 5), (1, 2, 3)),
    )
