"""Ridge and logistic regression, from which plain networks and plain trees start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from equipoise.training import TASKS, Member
from equipoise.training.data import RowSet, TrainingData
from equipoise.training.predictor import exact_device

#: Rows to which linear models are fitted; more would hardly change where training starts.
LINEAR_ROWS = 5_000
#: Ridge penalties to choose from on the rows set aside; without such rows the first is taken.
RIDGES = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)
#: Steps to fit a linear model.
_LINEAR_STEPS = 50
#: Largest second derivative of a task loss in an output; other tasks get ridge regression.
_CURVATURE = {"binary": 0.25, "multiclass": 0.5}

#: Weights (o, p) and biases (o,).
LinearModel = tuple[Tensor, Tensor]


def linear_models(
    data: TrainingData,
    members: Sequence[Member],
    task: str,
    n_outputs: int,
    inputs: Callable[[Tensor], Tensor] = lambda x: x,
) -> list[LinearModel]:
    """Return a linear model of the rows that each member trains on.

    It reads ``inputs(x)`` (n, q) of rows x (n, p).
    """

    def sample(rows: RowSet | None) -> TrainingData:
        drawn = data.sample(LINEAR_ROWS, rows)
        return replace(drawn, x=inputs(drawn.x))

    found: dict[tuple[RowSet | None, RowSet | None], LinearModel] = {}
    for member in members:
        key = member.rows, member.aside
        if key in found:
            continue
        ridges = RIDGES if member.aside is not None else RIDGES[:1]
        training = sample(member.rows)
        models = [linear_model(training, task, n_outputs, ridge) for ridge in ridges]
        found[key] = models[0]
        if member.aside is not None:
            aside = sample(member.aside)
            weight = None if aside.weight is None else aside.weight[None]
            outputs = [(aside.x.to(w) @ w.T + b)[None] for w, b in models]
            losses = [TASKS[task].loss(each, aside.target[None], weight) for each in outputs]
            found[key] = models[int(torch.cat(losses).argmin())]
    return [found[member.rows, member.aside] for member in members]


def linear_model(
    rows: TrainingData, task: str, n_outputs: int, ridge: float
) -> LinearModel:
    """Return weights (n_outputs, p) and biases (n_outputs,) of logistic or ridge regression.

    The second derivative of the loss is nowhere larger than a constant (Böhning 1992). So each step
    minimizes a quadratic function that touches the loss from above, and no step can overshoot.
    """
    x = rows.x.to(exact_device(rows.x.device), torch.double)
    weight = torch.ones_like(x[:, 0]) if rows.weight is None else rows.weight.to(x)
    share = weight / weight.sum()
    center = share @ x
    x = x - center
    target = rows.target.to(x.device)
    curvature = _CURVATURE.get(task, 1.0)
    matrix = curvature * (x.T * weight) @ x
    matrix.diagonal().add_(ridge)
    factor = torch.linalg.cholesky(matrix)
    weights, bias = x.new_zeros(x.shape[1], n_outputs), x.new_zeros(n_outputs)
    for _ in range(_LINEAR_STEPS if task in _CURVATURE else 1):
        output = x @ weights + bias
        if task == "binary":
            residual = target.to(x)[:, None] - output.sigmoid()
        elif task == "multiclass":
            residual = one_hot(target, n_outputs).to(x) - output.softmax(-1)
        else:
            residual = target.to(x)[:, None] - output
        step = torch.cholesky_solve(x.T @ (residual * weight[:, None]) - ridge * weights, factor)
        weights = weights + step
        bias = bias + share @ residual / curvature
    return weights.T, bias - center @ weights
