"""One round of boosting against the same round written out row by row."""

import numpy as np
import pytest
import torch
from boosted_rows import Tilted, prepared, simulate
from scipy.special import expit, softmax

from equipoise.critic import CriticSettings
from equipoise.methods import METHODS, Context
from equipoise.notions import Notion
from equipoise.predictors.boosting import LIBRARIES
from equipoise.predictors.boosting.growing import OBJECTIVES
from equipoise.training import TASKS, BatchStream, Member, Predictor, RowSet
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


def literal_round(task, data, output, strength, rows, resampled, classes_factor=1.5):
    """Gradients and Hessians (n, o) by loops over rows and outputs; strength is as warmed up."""
    n, width = output.shape
    weight = np.ones(n) if data.weight is None else data.weight.double().numpy()
    y, c = data.target.numpy(), coefficients(n).double().numpy()
    gradient, hessian = np.zeros((n, width)), np.zeros((n, width))
    for i in range(n):
        for j in range(width):
            if task == "binary":
                probability = expit(output[i, 0])
                first, second, most = probability - y[i], probability * (1 - probability), 0.25
            elif task == "multiclass":
                probability = softmax(output[i])[j]
                first = probability - (y[i] == j)
                second, most = probability * (1 - probability), 0.25
                second, most = classes_factor * second, classes_factor * most
            else:
                first, second, most = output[i, j] - y[i], 1.0, 1.0
            gradient[i, j] = (1 - strength) * weight[i] * first
            hessian[i, j] = weight[i] * ((1 - strength) * second + strength * most)
    for i, other in zip(rows, resampled, strict=True):
        tilt = (c[i] - c[other] / 3) / len(rows)
        if task == "binary":
            probability = expit(output[i])
            by_output = tilt * probability * (1 - probability)
        elif task == "multiclass":
            # The tilts of all classes are equal, and probabilities sum to one.
            by_output = np.zeros(3)
        else:
            # As if the outcome had been scaled: d/dz of the penalty, z = (f - mean) / sd, and a
            # step in z is sd times as long in f.
            # Libraries minimize half of the squared error, so half of the penalty is its match.
            by_output = tilt * np.ones(1) * standard_units(data)[1] / 2
        gradient[i] += strength * weight.sum() * by_output
    return gradient, hessian


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", ["binary", "multiclass", "squared"])
def test_a_round_is_what_its_formula_says(task, weighted, library):
    data = simulate(task, weighted=weighted)
    method = Tilted(coefficients())
    step, growing = prepared(data, MEMBERS, task, method=method, warmup=4, library=library)
    batches = batch_of(MEMBERS)
    center, spread = standard_units(data)
    for iteration, share in enumerate((0, 0.25, 0.5, 0.75, 1, 1), start=1):
        before = growing.outputs.clone()
        rows, resampled = batches.spread(batches.draw())
        step.prepare(iteration)
        loss, penalty = step(rows, resampled)
        for k, member in enumerate(MEMBERS):
            gradient, hessian = literal_round(
                task,
                data,
                before[k].numpy(),
                share * member.strength,
                rows[k].numpy(),
                resampled[k].numpy(),
                {"lightgbm": 3 / 2, "xgboost": 2}[library],
            )
            given = [part.numpy() for part in growing.given[k]]
            np.testing.assert_allclose(given[0], gradient, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(given[1], hessian, rtol=1e-9)
            weight = np.ones(N) if data.weight is None else data.weight.numpy()
            losses = TASKS[task].row_loss(before[k : k + 1], data.target[None])[0].numpy()
            if task == "squared":  # in standard units
                losses = losses / spread**2
            assert loss[k] == pytest.approx(np.average(losses, weights=weight), rel=1e-6)
        seen = before
        if task == "squared":
            seen = (before - center) / spread
        tilt = coefficients()[rows] - coefficients()[resampled] / 3
        score = TASKS[task].score(seen).sum(-1).gather(1, rows)
        counted = (share > 0) * (tilt * score).mean(-1).double()
        torch.testing.assert_close(penalty, counted, rtol=1e-4, atol=1e-6, check_dtype=False)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("task", OBJECTIVES)
def test_a_strength_weighs_as_in_a_network(task, library, weighted):
    """Trees follow the gradient of the very objective that a network minimizes, up to a factor.

    The factor is the same for task and penalty, so it does not change what they weigh.
    """
    data = simulate(task, weighted=weighted)
    members = [Member(strength, 1) for strength in (0.1, 0.5, 0.9)]
    method = Tilted(coefficients())
    step, growing = prepared(data, members, task, method=method, library=library)
    batches = batch_of(members, batch_size=N)
    for iteration in (1, 2, 3):
        before = growing.outputs.clone().requires_grad_()
        rows, resampled = batches.spread(batches.draw())
        step.prepare(iteration)
        step(rows, resampled)
    center, spread = (0.0, 1.0) if data.outcome_class is not None else standard_units(data)
    weight = torch.ones(N) if data.weight is None else data.weight
    output, y = (before - center) / spread, data.target
    y = y if task == "multiclass" else (y - center) / spread
    loss = TASKS[task].loss(output, y.expand(3, N), (weight / weight.mean()).expand(3, N))
    score = TASKS[task].score(output)
    penalty = method.penalty(score.gather(1, rows[..., None].expand_as(score)), rows, resampled)
    strength = torch.tensor([member.strength for member in members])
    total = (1 - strength) * loss + strength * penalty
    (expected,) = torch.autograd.grad(total.sum(), before)
    factor = OBJECTIVES[task].share * weight.sum() * spread**2
    for k in range(3):
        torch.testing.assert_close(
            growing.given[k][0], factor * expected[k], rtol=1e-4, atol=1e-5, check_dtype=False
        )


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("task", OBJECTIVES)
def test_outputs_in_training_are_those_of_the_trees(task, library):
    data = simulate(task)
    members = [Member(0.0, 1), Member(0.7, 1)]
    step, growing = prepared(data, members, task, method=Tilted(coefficients()), library=library)
    batches = batch_of(members)
    for iteration in range(1, 5):
        step.prepare(iteration)
        step(*batches.spread(batches.draw()))
    trees = step.modules[0].network
    assert trees.rounds.tolist() == [4, 4]
    found, kept = trees(data.x.expand(2, *data.x.shape)), growing.outputs
    if task == "multiclass":
        # LightGBM's own objective shows probabilities, which give outputs up to a constant.
        found, kept = found.log_softmax(-1), kept.log_softmax(-1)
    precision = 1e-9 if library == "lightgbm" else 1e-5  # XGBoost adds up in single precision
    torch.testing.assert_close(kept, found, rtol=precision, atol=precision)


def test_members_on_rows_of_their_own_are_pushed_on_these():
    data = simulate()
    members = [
        Member(0.5, 1, RowSet(range(0, 240, 2))),
        Member(0.5, 1, RowSet(range(239, 0, -2))),
    ]
    step, growing = prepared(data, members, "binary", method=Tilted(coefficients()))
    batches = batch_of(members, batch_size=40)
    rows, resampled = batches.spread(batches.draw())
    before = growing.outputs.clone()
    step.prepare(1)
    step(rows, resampled)
    for k, member in enumerate(members):
        mine = member.rows.numbers
        own = TrainingData(
            x=data.x[mine], target=data.target[mine], outcome=data.outcome[mine], weight=None
        )
        output = before[k].numpy()
        gradient, _ = literal_round("binary", own, output, 0.5, [], [])
        c = coefficients().numpy()
        for i, j in zip(rows[k].tolist(), resampled[k].tolist(), strict=True):
            place = mine.tolist().index(i)
            probability = expit(output[place])
            gradient[place] += 0.5 * 120 * (c[i] - c[j] / 3) / 40 * probability * (1 - probability)
        np.testing.assert_allclose(growing.given[k][0].numpy(), gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("task", ["binary", "squared"])
def test_the_penaltys_gradient_is_right_on_average(task):
    """Over the batches of an epoch the gradients average to the gradient of all rows at once.

    So it is for penalties that are means over rows, as critics' values are.
    """
    data = simulate(task, weighted=True)
    member = [Member(0.6, 1)]

    def gradient(rows, resampled):
        step, growing = prepared(data, member, task, method=Tilted(coefficients()))
        step.prepare(1)
        step(rows, resampled)
        return growing.given[0][0]

    batches = batch_of(member)
    epoch = [batches.spread(batches.draw()) for _ in range(N // BATCH)]
    average = torch.stack([gradient(*batch) for batch in epoch]).mean(0)
    everything = gradient(*(torch.cat(parts, 1) for parts in zip(*epoch, strict=True)))
    torch.testing.assert_close(average, everything, rtol=1e-5, atol=1e-5)


def partly_known():
    """Rows of which every third does not tell its attribute."""
    data = simulate()
    known = torch.arange(N) % 3 > 0
    return TrainingData(**{**vars(data), "known": known}), known.numpy()


def third_round(data, method):
    """Gradients (n,) of a third round, those of the task alone, and which rows the batch had."""
    members = [Member(0.9, 1)]
    built = METHODS[method].build(
        Context(
            data=TrainingData(**{**vars(data), "x": data.outcome[:, :0]}),
            members=members,
            notion=Notion.INDEPENDENCE,
            critic=CriticSettings(hidden=(8,)),
        )
    )
    step, growing = prepared(data, members, "binary", method=built)
    batches = batch_of(members)
    for iteration in range(1, 4):
        before = growing.outputs.clone()
        rows, resampled = batches.spread(batches.draw())
        step.prepare(iteration)
        step(rows, resampled)
    task, _ = literal_round("binary", data, before[0].numpy(), 0.9, [], [])
    return growing.given[0][0][:, 0].numpy(), task[:, 0], np.isin(np.arange(N), rows[0].numpy())


@pytest.mark.parametrize("method", ["gdp", "hgr"])
def test_rows_of_unknown_attributes_follow_the_task_alone(method):
    data, known = partly_known()
    gradient, task, batch = third_round(data, method)
    pushed = ~np.isclose(gradient, task, rtol=1e-9, atol=1e-12)
    assert not pushed[~known].any()
    assert not pushed[~batch].any()
    assert pushed[batch & known].mean() > 0.9


@pytest.mark.parametrize("method", ["sbp", "dcov"])
def test_what_stands_for_unknown_attributes_does_not_matter(method):
    """Nor where all scores of a batch are standardized together, unknown rows among them."""
    data, known = partly_known()
    gradient, task, batch = third_round(data, method)
    assert np.abs(gradient - task)[batch & known].mean() > 0.01
    np.testing.assert_allclose(gradient[~batch], task[~batch], rtol=1e-12)
    attribute = data.attribute.clone()
    attribute[torch.from_numpy(~known)] = 3.0
    other = TrainingData(**{**vars(data), "attribute": attribute})
    np.testing.assert_allclose(third_round(other, method)[0], gradient, rtol=1e-6, atol=1e-9)


def test_gradients_that_are_not_finite_are_not_grown():
    data = simulate()
    members = [Member(0.5, 1), Member(0.5, 2)]
    broken = coefficients().clone()
    batches = batch_of(members)
    rows, resampled = batches.spread(batches.draw())
    only_second = set(rows[1].tolist()) - set(rows[0].tolist()) - set(resampled[0].tolist())
    broken[only_second.pop()] = torch.nan
    step, growing = prepared(data, members, "binary", method=Tilted(broken))
    assert isinstance(step.modules[0], Predictor)
    step.prepare(1)
    _, penalty = step(rows, resampled)
    assert penalty.isnan().tolist() == [False, True]
    assert step.modules[0].network.rounds.tolist() == [1, 0]
    assert [growing.rounds(k) for k in range(2)] == [1, 0]
