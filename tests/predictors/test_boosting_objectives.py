"""Gradients and Hessians are derivatives of the task losses, up to the factors of libraries."""

import lightgbm
import numpy as np
import pytest
import torch

from equipoise.predictors.boosting import LIBRARIES
from equipoise.predictors.boosting.growing import OBJECTIVES
from equipoise.training import TASKS

#: Tasks whose losses have a second derivative everywhere.
SMOOTH = ("binary", "multiclass", "squared")


def drawn(task, rows=40):
    """Outputs (2, rows, o) and targets (2, rows)."""
    random = torch.Generator().manual_seed(0)
    width = 3 if task == "multiclass" else 1
    output = 2 * torch.randn(2, rows, width, generator=random, dtype=torch.float64)
    if task == "multiclass":
        return output, torch.randint(3, (2, rows), generator=random)
    if task == "binary":
        return output, torch.randint(2, (2, rows), generator=random).double()
    return output, 3 * torch.randn(2, rows, generator=random, dtype=torch.float64)


def derivatives(task, output, target):
    """First and second derivative of every row's loss in each of its own outputs, (2, rows, o)."""
    output = output.clone().requires_grad_()
    loss = TASKS[task].row_loss(output, target).sum()
    (first,) = torch.autograd.grad(loss, output, create_graph=True)
    second = [
        torch.autograd.grad(first[..., j].sum(), output, retain_graph=True)[0][..., j]
        for j in range(output.shape[-1])
    ]
    return first.detach(), torch.stack(second, -1)


@pytest.mark.parametrize("task", SMOOTH)
def test_gradients_and_hessians_are_derivatives_of_the_task_loss(task):
    output, target = drawn(task)
    first, second = derivatives(task, output, target)
    objective = OBJECTIVES[task]
    gradient, hessian = objective.gradients(output, target, torch.ones(2))
    torch.testing.assert_close(gradient, objective.share * first)
    torch.testing.assert_close(hessian, objective.share * second)


@pytest.mark.parametrize("task", ["absolute", "huber"])
def test_robust_gradients_are_those_of_the_loss_in_units_of_the_outcome(task):
    output, target = drawn(task)
    unit = torch.tensor([0.5, 4.0], dtype=torch.float64)
    scale = unit[:, None]
    first, _ = derivatives(task, output / scale[..., None], target / scale)
    gradient, hessian = OBJECTIVES[task].gradients(output, target, unit)
    torch.testing.assert_close(gradient, first * scale[..., None])
    assert hessian.eq(1).all()


@pytest.mark.parametrize("task", OBJECTIVES)
def test_no_hessian_is_above_the_largest_and_some_reach_it(task):
    width = 3 if task == "multiclass" else 1
    output = torch.zeros(1, 4001, width, dtype=torch.float64)
    output[0, :, 0] = torch.linspace(-5, 5, 4001)
    target = torch.zeros(1, 4001, dtype=torch.long if width > 1 else torch.float64)
    _, hessian = OBJECTIVES[task].gradients(output, target, torch.ones(1))
    assert hessian.max() <= OBJECTIVES[task].largest_hessian
    assert hessian.max() == pytest.approx(OBJECTIVES[task].largest_hessian, rel=1e-5)


@pytest.mark.parametrize("task", ["binary", "multiclass", "squared", "huber"])
@pytest.mark.parametrize("weighted", [False, True])
def test_boosting_starts_where_lightgbm_does(task, weighted):
    rng = np.random.default_rng(0)
    y = {"binary": rng.random(90) < 0.3, "multiclass": np.arange(90) % 7 % 3}.get(
        task, rng.exponential(5, 90)
    )
    y = torch.as_tensor(y.astype(np.int64 if task == "multiclass" else np.float64))
    weight = torch.from_numpy(rng.exponential(size=90) if weighted else np.ones(90))
    objective = OBJECTIVES[task]
    parameters = {
        "objective": LIBRARIES["lightgbm"].objectives[task],
        "verbosity": -1,
        "num_threads": 1,
    }
    if task == "multiclass":
        parameters["num_class"] = 3
    # Nothing to split by: the first tree is the start.
    rows = lightgbm.Dataset(np.zeros((90, 1)), label=y.numpy(), weight=weight.numpy())
    model = lightgbm.train({**parameters, "feature_pre_filter": False}, rows, 1)
    start = objective.start(y, weight)
    assert start.shape == (3 if task == "multiclass" else 1,)
    expected = model.predict(np.zeros((1, 1)), raw_score=True).ravel()
    np.testing.assert_allclose(start.numpy(), expected, rtol=1e-5)


def test_the_absolute_error_starts_at_a_weighted_median():
    rng = np.random.default_rng(0)
    for seed in range(5):
        y = torch.from_numpy(rng.exponential(5, 30 + seed))
        weight = torch.from_numpy(rng.exponential(size=30 + seed))
        (start,) = OBJECTIVES["absolute"].start(y, weight)

        def loss(constant, y=y, weight=weight):
            return (weight * (y - constant).abs()).sum()

        assert loss(start) <= min(loss(value) for value in y) + 1e-9
