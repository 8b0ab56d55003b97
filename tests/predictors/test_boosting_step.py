"""One round of boosting against the same round written out row by row."""

import numpy as np
import pytest
import torch
from boosted_rows import Tilted, prepared, simulate
from scipy.special import expit, softmax

from equipoise.critic import CriticSettings
from equipoise.methods import METHODS
from equipoise.notions import Notion
from equipoise.training import TASKS, BatchStream, Member, Predictor
from equipoise.training.data import TrainingData

MEMBERS = [Member(0.3, 1), Member(0.8, 1), Member(0.8, 2)]
N, BATCH = 240, 60


def coefficients(n=N):
    return torch.from_numpy(np.random.default_rng(5).normal(size=n)).float()


def batch_of(members, n=N, batch_size=BATCH):
    return BatchStream(members, n, batch_size=batch_size, device=torch.device("cpu"))


def standard_units(data):
    """Mean and spread of the outcome; a row of weight two is two rows."""
    y = data.target.double().numpy()
    weight = None if data.weight is None else data.weight.double().numpy()
    center = np.average(y, weights=weight)
    return center, np.sqrt(np.average((y - center) ** 2, weights=weight))


def literal_round(task, data, output, strength, rows, resampled):
    """Slopes and curvatures (n, o) by loops over rows and outputs; strength is as warmed up."""
    n, width = output.shape
    weight = np.ones(n) if data.weight is None else data.weight.double().numpy()
    y, c = data.target.numpy(), coefficients(n).double().numpy()
    slope, curvature = np.zeros((n, width)), np.zeros((n, width))
    for i in range(n):
        for j in range(width):
            if task == "binary":
                chance = expit(output[i, 0])
                first, second, most = chance - y[i], chance * (1 - chance), 0.25
            elif task == "multiclass":
                chance = softmax(output[i])[j]
                first = chance - (y[i] == j)
                second, most = 1.5 * chance * (1 - chance), 1.5 * 0.25
            else:
                first, second, most = output[i, j] - y[i], 1.0, 1.0
            slope[i, j] = (1 - strength) * weight[i] * first
            curvature[i, j] = weight[i] * ((1 - strength) * second + strength * most)
    for i, other in zip(rows, resampled, strict=True):
        tilt = (c[i] - c[other] / 3) / len(rows)
        if task == "binary":
            chance = expit(output[i])
            by_output = tilt * chance * (1 - chance)
        elif task == "multiclass":
            # The tilts of all classes are equal, and chances sum to one: nothing to be gained.
            by_output = np.zeros(3)
        else:
            # As if the outcome had been scaled: d/dz of the penalty, z = (f - mean) / sd, and a
            # step in z is sd times as long in f.
            by_output = tilt * np.ones(1) * standard_units(data)[1]
        slope[i] += strength * weight.sum() * by_output
    return slope, curvature


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", ["binary", "multiclass", "squared"])
def test_a_round_is_what_its_formula_says(task, weighted):
    data = simulate(task, weighted=weighted)
    step, growing = prepared(data, MEMBERS, task, method=Tilted(coefficients()), warmup=4)
    batches = batch_of(MEMBERS)
    center, spread = standard_units(data)
    for iteration, share in enumerate((0, 0.25, 0.5, 0.75, 1, 1), start=1):
        before = growing.outputs.clone()
        rows, resampled = batches.next()
        step.prepare(iteration)
        loss, penalty = step(rows, resampled)
        for k, member in enumerate(MEMBERS):
            slope, curvature = literal_round(
                task,
                data,
                before[k].numpy(),
                share * member.strength,
                rows[k].numpy(),
                resampled[k].numpy(),
            )
            given = [part.numpy() for part in growing.given[k]]
            np.testing.assert_allclose(given[0], slope, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(given[1], curvature, rtol=1e-9)
            weight = np.ones(N) if data.weight is None else data.weight.numpy()
            losses = TASKS[task].row_loss(before[k : k + 1], data.target[None])[0].numpy()
            if task == "squared":  # LightGBM minimizes half of it, here in standard units
                losses = losses / 2 / spread**2
            assert loss[k] == pytest.approx(np.average(losses, weights=weight), rel=1e-6)
        seen = before
        if task == "squared":
            seen = (before - center) / spread
        tilt = coefficients()[rows] - coefficients()[resampled] / 3
        score = TASKS[task].score(seen).sum(-1).gather(1, rows)
        torch.testing.assert_close(
            penalty, (tilt * score).mean(-1).double(), rtol=1e-4, atol=1e-6, check_dtype=False
        )


@pytest.mark.parametrize("task", ["binary", "multiclass", "squared", "absolute", "huber"])
def test_outputs_in_training_are_those_of_the_trees(task):
    data = simulate(task)
    members = [Member(0.0, 1), Member(0.7, 1)]
    step, growing = prepared(data, members, task, method=Tilted(coefficients()))
    batches = batch_of(members)
    for iteration in range(1, 5):
        step.prepare(iteration)
        step(*batches.next())
    trees = step.modules[0].network
    assert trees.rounds.tolist() == [4, 4]
    found, kept = trees(data.x.expand(2, *data.x.shape)), growing.outputs
    if task == "multiclass":
        # LightGBM's own objective shows chances, which outputs give up to a constant of the row.
        found, kept = found.log_softmax(-1), kept.log_softmax(-1)
    torch.testing.assert_close(kept, found, rtol=1e-9, atol=1e-9)


def test_members_on_rows_of_their_own_are_pushed_on_these():
    data = simulate()
    members = [
        Member(0.5, 1, tuple(range(0, 240, 2))),
        Member(0.5, 1, tuple(range(239, 0, -2))),
    ]
    step, growing = prepared(data, members, "binary", method=Tilted(coefficients()))
    rows, resampled = batch_of(members, batch_size=40).next()
    before = growing.outputs.clone()
    step.prepare(1)
    step(rows, resampled)
    for k, member in enumerate(members):
        mine = torch.tensor(member.rows)
        own = TrainingData(
            x=data.x[mine], target=data.target[mine], outcome=data.outcome[mine], weight=None
        )
        output = before[k].numpy()
        slope, _ = literal_round("binary", own, output, 0.5, [], [])
        c = coefficients().numpy()
        for i, j in zip(rows[k].tolist(), resampled[k].tolist(), strict=True):
            place = member.rows.index(i)
            chance = expit(output[place])
            slope[place] += 0.5 * 120 * (c[i] - c[j] / 3) / 40 * chance * (1 - chance)
        np.testing.assert_allclose(growing.given[k][0].numpy(), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("task", ["binary", "squared"])
def test_the_penaltys_slope_is_right_on_average(task):
    """Over the batches of an epoch the slopes average to the slope of all rows at once.

    So it is for penalties that are means over rows, as critics' values are.
    """
    data = simulate(task, weighted=True)
    member = [Member(0.6, 1)]

    def slope(rows, resampled):
        step, growing = prepared(data, member, task, method=Tilted(coefficients()))
        step.prepare(1)
        step(rows, resampled)
        return growing.given[0][0]

    batches = batch_of(member)
    epoch = [batches.next() for _ in range(N // BATCH)]
    average = torch.stack([slope(*batch) for batch in epoch]).mean(0)
    everything = slope(*(torch.cat(parts, 1) for parts in zip(*epoch, strict=True)))
    torch.testing.assert_close(average, everything, rtol=1e-5, atol=1e-5)


def partly_known():
    """Rows of which every third does not tell its attribute."""
    data = simulate()
    known = torch.arange(N) % 3 > 0
    return TrainingData(**{**vars(data), "known": known}), known.numpy()


def third_round(data, method):
    """Slopes (n,) of a third round, those of the task alone, and which rows the batch had."""
    members = [Member(0.9, 1)]
    built = METHODS[method].build(
        TrainingData(**{**vars(data), "x": data.outcome[:, :0]}),
        members,
        penalized_width=1,
        notion=Notion.INDEPENDENCE,
        critic=CriticSettings(hidden=(8,)),
        density_ratio="auto",
    )
    step, growing = prepared(data, members, "binary", method=built)
    batches = batch_of(members)
    for iteration in range(1, 4):
        before = growing.outputs.clone()
        rows, resampled = batches.next()
        step.prepare(iteration)
        step(rows, resampled)
    task, _ = literal_round("binary", data, before[0].numpy(), 0.9, [], [])
    return growing.given[0][0][:, 0].numpy(), task[:, 0], np.isin(np.arange(N), rows[0].numpy())


@pytest.mark.parametrize("method", ["gdp", "hgr"])
def test_rows_of_unknown_attributes_follow_the_task_alone(method):
    data, known = partly_known()
    slope, task, batch = third_round(data, method)
    pushed = ~np.isclose(slope, task, rtol=1e-9, atol=1e-12)
    assert not pushed[~known].any()
    assert not pushed[~batch].any()
    assert pushed[batch & known].mean() > 0.9


@pytest.mark.parametrize("method", ["sbp", "dcov"])
def test_what_stands_for_unknown_attributes_does_not_matter(method):
    """Nor where all scores of a batch are standardized together, unknown rows among them."""
    data, known = partly_known()
    slope, task, batch = third_round(data, method)
    assert np.abs(slope - task)[batch & known].mean() > 0.01
    np.testing.assert_allclose(slope[~batch], task[~batch], rtol=1e-12)
    attribute = data.attribute.clone()
    attribute[torch.from_numpy(~known)] = 3.0
    other = TrainingData(**{**vars(data), "attribute": attribute})
    np.testing.assert_allclose(third_round(other, method)[0], slope, rtol=1e-6, atol=1e-9)


def test_slopes_that_are_not_finite_are_not_grown():
    data = simulate()
    members = [Member(0.5, 1), Member(0.5, 2)]
    broken = coefficients().clone()
    rows, resampled = batch_of(members).next()
    only_second = set(rows[1].tolist()) - set(rows[0].tolist()) - set(resampled[0].tolist())
    broken[only_second.pop()] = torch.nan
    step, growing = prepared(data, members, "binary", method=Tilted(broken))
    assert isinstance(step.modules[0], Predictor)
    step.prepare(1)
    _, penalty = step(rows, resampled)
    assert penalty.isnan().tolist() == [False, True]
    assert step.modules[0].network.rounds.tolist() == [1, 0]
    assert [growing.rounds(k) for k in range(2)] == [1, 0]
