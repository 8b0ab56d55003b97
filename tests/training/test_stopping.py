"""Early stopping: which rows are set aside, which weights are kept, and when training ends."""

import itertools

import numpy as np
import pytest
import scipy.stats
import torch
from simulated_rows import simulate
from torch.nn import functional

from equipoise.errors import InputError
from equipoise.networks import StackedMLP
from equipoise.training import TASKS, Member, Predictor, RowSet
from equipoise.training.data import generators
from equipoise.training.stopping import (
    MOST_ASIDE,
    EarlyStopping,
    TradeOff,
    count_parts,
    counted_divergence,
    equal_parts,
    set_aside,
    with_rows_aside,
)


def parted(count, n, classes=None):
    """Rows and rows set aside of so many members, as sets."""
    found = with_rows_aside([Member(0.5, 3 + k) for k in range(count)], n, classes)
    return [(set(each.rows.numbers.tolist()), set(each.aside.numbers.tolist())) for each in found]


@pytest.mark.parametrize("members", [1, 4, 5, 8, 12])
def test_members_set_a_fifth_aside_and_five_in_a_row_no_row_twice(members):
    parts = parted(members, 200)
    for training, other in parts:
        assert len(other) == 40 and not training & other
        assert training | other == set(range(200))
    for first in range(0, members, 5):
        five = [aside for _, aside in parts[first : first + 5]]
        assert all(not one & two for one, two in itertools.combinations(five, 2))
    # The sixth begins with the rows in another order.
    assert all(one != two for (_, one), (_, two) in itertools.combinations(parts, 2))


def test_of_many_rows_no_more_are_set_aside_than_tell_when_to_stop():
    parts = parted(4, 60_000)
    assert [len(aside) for _, aside in parts] == [MOST_ASIDE] * 4
    assert len(set().union(*(aside for _, aside in parts))) == 4 * MOST_ASIDE


def test_rows_are_drawn_by_the_seed_and_among_those_that_a_member_sees():
    seen = RowSet(range(0, 100, 2))
    (first,), (again,), (other,) = (
        with_rows_aside([Member(0.5, seed, seen)], 100) for seed in (1, 1, 2)
    )
    assert first == again and first.aside != other.aside
    both = [*first.rows.numbers.tolist(), *first.aside.numbers.tolist()]
    assert sorted(both) == list(range(0, 100, 2))


@pytest.mark.parametrize("seed", range(5))
def test_every_class_keeps_a_training_row_with_every_member(seed):
    classes = torch.zeros(100, dtype=torch.long)
    classes[17], classes[60:63] = 1, 2
    members = [Member(0.5, seed) for _ in range(4)]
    found = with_rows_aside(members, 100, classes)
    for member in found:
        assert set(classes[member.rows.numbers].tolist()) == {0, 1, 2}
        assert len(member.aside) == 20 and len(member.rows) == 80


def test_too_few_rows_to_part_are_refused():
    with pytest.raises(InputError) as refused:
        set_aside(0, None, 3, 0.2, needed_by="density_ratio='network'")
    for part in ("density_ratio='network'", "at least 4 rows", "n_samples=3", "give more rows"):
        assert part in str(refused.value)


class Counting:
    """Three members whose tensors hold the iteration, and their stated losses."""

    def __init__(self, losses, patience):
        self.losses = losses
        self.tensors = [torch.zeros(3, 2), torch.zeros(3, dtype=torch.long)]
        self.stopping = EarlyStopping(self.tensors, lambda _: self.now, patience=patience)

    def check(self, iteration):
        for tensor in self.tensors:
            tensor.fill_(iteration)
        self.now = torch.tensor(self.losses[iteration])
        return self.stopping(iteration, torch.zeros(3))

    def restored(self):
        self.stopping.restore()
        assert (self.tensors[0] == self.tensors[1][:, None]).all()
        return self.tensors[1].tolist()


NAN = float("nan")
LOSSES = {
    10: [3.0, 5.0, NAN],
    20: [1.0, 4.0, NAN],
    30: [2.0, 3.0, NAN],
    40: [2.0, 4.0, NAN],
    50: [0.5, 2.0, NAN],  # the first ran out of patience before
    60: [0.1, 3.0, NAN],
    70: [0.1, 3.0, NAN],
}


def test_every_member_keeps_its_own_best_until_its_patience_ends():
    run = Counting(LOSSES, patience=20)
    ends = {iteration: run.check(iteration) for iteration in LOSSES}
    assert ends == {**dict.fromkeys(LOSSES, False), 70: True}
    torch.testing.assert_close(run.stopping.least, torch.tensor([1.0, 2.0, torch.inf]))
    # What was never finite stays as it is.
    assert run.restored() == [20, 50, 70]


def test_a_loss_that_falls_at_every_check_never_ends_training():
    """Also where patience is shorter than the time between two checks."""
    for patience in (1, 5, 10, 15):
        run = Counting({10 * k: [1.0 / k] * 3 for k in range(1, 6)}, patience)
        assert not any(run.check(iteration) for iteration in run.losses), patience
        assert run.restored() == [50, 50, 50]


def test_patience_shorter_than_the_time_between_checks_ends_at_the_first_that_is_no_better():
    run = Counting({10: [2.0] * 3, 20: [1.0] * 3, 30: [1.0] * 3}, patience=5)
    assert [run.check(iteration) for iteration in run.losses] == [False, False, True]
    assert run.restored() == [20, 20, 20]


@pytest.mark.parametrize("kept_at", [10, 30, 50])
def test_a_state_read_again_goes_on_the_same(kept_at):
    whole, first, second = (Counting(LOSSES, patience=20) for _ in range(3))
    expected = [whole.check(iteration) for iteration in LOSSES]
    found = [first.check(iteration) for iteration in LOSSES if iteration <= kept_at]
    state = first.stopping.state_dict()
    second.stopping.load_state_dict(state)
    found += [second.check(iteration) for iteration in LOSSES if iteration > kept_at]
    assert found == expected
    assert second.restored() == whole.restored()


@pytest.mark.parametrize("strengths", [(0.0, 0.0), (0.25, 0.75)])
def test_the_trade_off_is_of_the_rows_set_aside_in_evaluation(strengths):
    data = simulate()
    asides = RowSet(range(0, 60)), RowSet(range(60, 120))
    members = [
        Member(s, k, aside=each) for k, (s, each) in enumerate(zip(strengths, asides, strict=True))
    ]
    network = StackedMLP(
        4, (6,), 1, generators=generators([1, 2], "predictor"), normalization="batch"
    )
    predictor = Predictor(network.to(data.x), TASKS["binary"])
    predictor(data.x.expand(2, -1, -1))  # moves the running statistics, which evaluation uses
    predictor.train()
    stated = {"counts": False, "given_outcome": False}
    found = TradeOff(predictor, data, members, **stated)(torch.tensor([0.7, -2.0]))
    assert predictor.training
    predictor.eval()
    for k, (member, penalty) in enumerate(zip(members, (0.7, 0.0), strict=True)):
        rows = member.aside.numbers
        output, _ = predictor(data.x[rows].expand(2, -1, -1))
        task = functional.binary_cross_entropy_with_logits(output[k, :, 0], data.target[rows])
        expected = (1 - member.strength) * task + member.strength * penalty
        torch.testing.assert_close(found[k], expected)


def table_divergence(one, other, weight):
    """Twice the Jensen-Shannon divergence of a weighted table from its product, by hand."""
    joint = np.zeros((10, 10))
    np.add.at(joint, (one, other), weight / weight.sum())
    product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    middle = (joint + product) / 2
    return sum(scipy.stats.entropy(p.ravel(), middle.ravel()) * p.sum() for p in (joint, product))


@pytest.mark.parametrize("parts", [4, 7])
def test_the_divergence_is_that_of_a_table_of_counts_less_chance(parts):
    random = np.random.default_rng(0)
    one, other = random.integers(0, parts, (2, 3, 500))
    other[0] = one[0]  # a strong dependence, so that it exceeds what chance gives
    weight = random.uniform(0.5, 2, (3, 500))
    tensors = [torch.from_numpy(each) for each in (one[:, None], other[:, None])]
    share = torch.from_numpy(weight / weight.sum(1, keepdims=True))
    stratum = torch.zeros(3, 500, dtype=torch.long)
    found = counted_divergence(*tensors, stratum, share, parts=parts)
    for k in range(3):
        expected = table_divergence(one[k], other[k], weight[k]) - (parts - 1) ** 2 / 2000
        assert float(found[k]) == pytest.approx(max(0.0, expected), abs=1e-8)
    assert float(found[0]) > 0.5 > 0.03 > float(found[1])


def test_given_a_stratum_only_dependence_within_it_counts():
    random = np.random.default_rng(1)
    stratum = random.integers(0, 2, 4000)
    one, other = (np.where(random.random(4000) < 0.9, stratum, 1 - stratum) for _ in range(2))
    score, groups, strata = (torch.from_numpy(each)[None] for each in (one, other, stratum))
    share = torch.full((1, 4000), 1 / 4000, dtype=torch.float64)
    alone = counted_divergence(score[None], groups[None], torch.zeros_like(strata), share, parts=4)
    given = counted_divergence(score[None], groups[None], strata, share, parts=4)
    assert float(alone) > 0.08 and float(given) < 0.002


def test_parts_are_of_equal_size_and_ties_stay_together():
    values = torch.randn(3, 400, generator=torch.Generator().manual_seed(0))
    for parts in (4, 10):
        for each in equal_parts(values, parts):
            assert torch.bincount(each).tolist() == [400 // parts] * parts
    assert equal_parts(torch.ones(1, 7), 4).tolist() == [[0] * 7]


def test_there_are_more_parts_the_more_rows_there_are_as_long_as_chance_is_small():
    assert [count_parts(rows) for rows in (2, 450, 800, 10**6)] == [4, 4, 5, 10]
    for rows in range(450, 20_000, 97):
        assert (count_parts(rows) - 1) ** 2 / (4 * rows) <= 0.005


@pytest.mark.parametrize("given_outcome", [False, True])
@pytest.mark.parametrize("training", [None, range(120, 150)], ids=["aside", "with training rows"])
def test_a_divergence_is_counted_given_y_where_the_notion_says_so(given_outcome, training):
    """On the rows set aside, and on training rows where they are known; the task on the former."""
    data = simulate()
    aside = torch.arange(0, 120)
    rows = torch.arange(0, 120 if training is None else 150)
    network = StackedMLP(4, (6,), 1, generators=generators([1], "predictor"), normalization="none")
    predictor = Predictor(network.to(data.x), TASKS["binary"])
    seen = None if training is None else RowSet(training)
    members = [Member(0.5, 0, seen, aside=RowSet(aside))]
    counted = TradeOff(predictor, data, members, counts=True, given_outcome=given_outcome)
    output, score = predictor(data.x[rows][None])
    task = functional.binary_cross_entropy_with_logits(output[0, :120, 0], data.target[aside])
    stratum = data.outcome_class[rows] if given_outcome else torch.zeros_like(rows)
    expected = counted_divergence(
        equal_parts(score.movedim(-1, 1), 4),
        equal_parts(data.attribute[rows].T[None], 4),
        stratum[None],
        torch.full((1, len(rows)), 1 / len(rows)),
        parts=4,
    )
    # What the critic saw on the training rows, 9 here, does not count.
    torch.testing.assert_close(counted(torch.tensor([9.0])), 0.5 * task[None] + 0.5 * expected)
    assert float(expected) > 0
