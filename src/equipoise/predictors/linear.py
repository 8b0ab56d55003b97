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
_LINEAR_STEPS = 30
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
        models = fit_linear(training, task, n_outputs, ridges)
        found[key] = models[0]
        if member.aside is not None:
            aside = sample(member.aside)
            weight = None if aside.weight is None else aside.weight[None]
            outputs = [(aside.x.to(w) @ w.T + b)[None] for w, b in models]
            losses = [TASKS[task].loss(each, aside.target[None], weight) for each in outputs]
            found[key] = models[int(torch.cat(losses).argmin())]
    return [found[member.rows, member.aside] for member in members]


def fit_linear(
    rows: TrainingData, task: str, n_outputs: int, ridges: Sequence[float]
) -> list[LinearModel]:
    """Return logistic or ridge regression with each of R ridge penalties.

    The second derivative of the loss is nowhere larger than a constant (Böhning 1992). So each step
    minimizes a quadratic function that touches the loss from above. Each begins ahead of where the
    last one ended, which makes them faster (Beck and Teboulle 2009).
    """
    x = rows.x.to(exact_device(rows.x.device), torch.double)
    weight = x.new_ones(len(x)) if rows.weight is None else rows.weight.to(x)
    share = weight / weight.sum()
    center = share @ x
    x = x - center
    target = rows.target.to(x.device)
    curvature = _CURVATURE.get(task, 1.0)
    penalties = x.new_tensor(ridges)
    matrix = torch.diag_embed(penalties[:, None].expand(-1, x.shape[1]))
    factors = torch.linalg.cholesky(matrix + curvature * (x.T * weight) @ x)  # (R, p, p)
    actual = one_hot(target, n_outputs) if task == "multiclass" else target[:, None]
    sizes = len(ridges), n_outputs
    weights, bias = ahead = x.new_zeros(x.shape[1], *sizes), x.new_zeros(sizes)
    for step in range(_LINEAR_STEPS if task in _CURVATURE else 1):
        # One product for the models of all ridges, (n, R, o).
        output = (x @ ahead[0].flatten(1)).view(-1, *sizes) + ahead[1]
        residual = actual[:, None] - TASKS[task].score(output)
        gradient = (x.T @ (residual * weight[:, None, None]).flatten(1)).view(-1, *sizes)
        descent = (gradient - penalties[:, None] * ahead[0]).movedim(1, 0)
        before = weights, bias
        weights = ahead[0] + torch.cholesky_solve(descent, factors).movedim(0, 1)
        bias = ahead[1] + torch.tensordot(share, residual, 1) / curvature
        momentum = step / (step + 3)
        ahead = weights.lerp(before[0], -momentum), bias.lerp(before[1], -momentum)
    found = weights.permute(1, 2, 0)  # (R, o, p)
    return list(zip(found, bias - found @ center, strict=True))
