"""Several workers that train the same members on different rows."""

import pytest
import torch
from simulated_rows import simulate

from equipoise.density_ratio import CountedRatio
from equipoise.methods import SBP, Context
from equipoise.networks import StackedMLP
from equipoise.notions import Notion
from equipoise.training import (
    TASKS,
    BatchStream,
    Member,
    OptimizerSettings,
    Predictor,
    TrainingData,
    TrainingSettings,
    run,
    train,
)
from equipoise.training.data import generators
from equipoise.training.loop import PredictorStep, RunState
from equipoise.training.stopping import EarlyStopping
from equipoise.training.workers import agreed, total, worker_count
from tests.workers_as_threads import Threads

MEMBERS = [Member(0.0, 3), Member(0.0, 4)]


class Union:
    """The batches of both workers as one."""

    def __init__(self, batches, n):
        self._batches, self._n = batches, n
        self.members, self.device = batches.members, batches.device

    def draw(self):
        rows = self._batches.draw()
        return torch.cat([rows, rows + self._n], -1)

    def spread(self, batch):
        return self._batches.spread(batch)


def part(data, rows):
    return TrainingData(
        **{name: each[rows] for name, each in vars(data).items() if each is not None}
    )


def networks(data, members):
    starts = generators([member.seed for member in members], "predictor")
    network = StackedMLP(data.x.shape[1], (8,), 1, generators=starts, normalization="none")
    return Predictor(network.to(data.x), TASKS["binary"])


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_two_workers_take_the_steps_of_one_with_their_rows_together(kind):
    data = simulate(200)
    settings = TrainingSettings(
        iterations=30,
        batch_size=20,
        check_every=10,
        optimizer=OptimizerSettings(kind=kind, learning_rate=0.01, weight_decay=0.0),
    )

    def trained(own, batches):
        predictor = networks(own, MEMBERS)
        step = PredictorStep(predictor, own, MEMBERS, method=None, settings=settings)
        state = RunState.at_start(batches, settings.iterations)
        history = run(step, batches, state, check_every=10)
        return predictor.evaluate(data.x)[0], history.task

    def batches():
        return BatchStream(MEMBERS, 100, batch_size=20, device=data.x.device)

    alone, losses = trained(data, Union(batches(), 100))
    halves = [part(data, slice(0, 100)), part(data, slice(100, 200))]
    for scores, task in Threads(2).each(lambda number: trained(halves[number], batches())):
        torch.testing.assert_close(scores, alone, rtol=0, atol=1e-10)
        assert task == pytest.approx(losses, abs=1e-10)
    single, _ = trained(halves[0], batches())
    assert (single - alone).abs().max() > 1e-3


def test_workers_have_the_same_weights_critics_and_end():
    data = simulate(200)
    members = [Member(0.5, 3), Member(0.8, 3)]
    settings = TrainingSettings(iterations=40, batch_size=20, check_every=5)

    def work(number):
        own = part(data, slice(100 * number, 100 * number + 100))
        predictor = networks(own, members)
        method = SBP(Context(data=own, members=members, notion=Notion.INDEPENDENCE))
        method.networks.to(own.x)
        # Each worker has its own opinion of what is best, and only the first would go on.
        opinions = iter([torch.tensor([3.0, 3.0 - 4 * number])] * 2 + [torch.ones(2) * number] * 9)
        stopping = EarlyStopping(
            list(predictor.parameters()), lambda _: next(opinions), patience=10
        )
        found = train(
            own, members, predictor=predictor, method=method, settings=settings, stopping=stopping
        )
        critics = [each.detach() for each in method.networks.parameters()]
        return found.predictor.evaluate(data.x)[0], critics, found.history, stopping.least

    first, second = Threads(2).each(work)
    torch.testing.assert_close(first[0], second[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(first[1], second[1], rtol=0, atol=1e-12)
    assert first[2].iterations.tolist() == second[2].iterations.tolist() == [5, 10, 15, 20, 25]
    assert first[2].penalty == pytest.approx(second[2].penalty)
    assert first[3].tolist() == second[3].tolist() == [0.5, 0.5]


def test_a_loss_that_fails_in_one_worker_stops_the_member_in_all():
    data = simulate(200)
    members = [Member(0.0, 3), Member(0.0, 4)]

    def work(number):
        own = part(data, slice(100 * number, 100 * number + 100))
        predictor = networks(own, members)
        if number == 1:
            own.target[:] = torch.nan
        settings = TrainingSettings(iterations=10, batch_size=20, check_every=5)
        return train(own, members, predictor=predictor, method=None, settings=settings).history

    for history in Threads(2).each(work):
        assert history.stopped_at.tolist() == [1, 1]


def test_counted_ratios_are_those_of_all_rows():
    data = simulate(400)
    cell = data.attribute[:, 1].long()
    data = TrainingData(
        **{name: each for name, each in vars(data).items() if each is not None}
        | {"attribute_cell": cell}
    )
    member = [Member(0.5, 0)]
    rows = torch.arange(50)[None]
    alone = CountedRatio(data, member)(rows, rows + 50)
    halves = [part(data, slice(0, 200)), part(data, slice(200, 400))]
    found = Threads(2).each(lambda number: CountedRatio(halves[number], member)(rows, rows + 50))
    torch.testing.assert_close(found[0], alone)
    assert (CountedRatio(halves[0], member)(rows, rows + 50) - alone).abs().max() > 1e-3


def test_the_first_worker_decides_and_sums_leave_their_terms_alone():
    mine = [torch.tensor([1.0]), torch.tensor([2.0])]

    def work(number):
        return agreed(number == 0), agreed(number == 1), total(mine[number]), worker_count()

    assert Threads(2).each(work) == [(True, False, torch.tensor([3.0]), 2)] * 2
    assert [float(each) for each in mine] == [1.0, 2.0]
    assert (agreed(True), float(total(mine[1])), worker_count()) == (True, 2.0, 1)


class Windows:
    """Rows that are the number of their window."""

    def __init__(self, data):
        self._data, self.shown = data, []

    def show(self, number):
        self.shown.append(number)
        self._data.x[:] = number


def test_every_epoch_shows_the_next_window_also_in_a_resumed_run():
    window = Windows(simulate(10))

    def stream():
        own = torch.device("cpu")
        return BatchStream([Member(0.0, 1)], 10, batch_size=4, device=own, window=window)

    batches = stream()
    for _ in range(7):
        batches.draw()
    assert window.shown == [0, 1, 2, 3]
    resumed = stream()
    resumed.load_state_dict(batches.state_dict())
    assert window.shown == [0, 1, 2, 3, 0, 3]
    after = [resumed.draw() for _ in range(4)]
    assert window.shown[6:] == [4, 5]
    assert torch.equal(torch.stack(after), torch.stack([batches.draw() for _ in range(4)]))
