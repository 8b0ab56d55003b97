"""Small tables for boosting, and what a step hands to LightGBM."""

import numpy as np
import torch
from torch import nn

from equipoise.predictors.boosting import LIBRARIES
from equipoise.predictors.boosting.growing import OBJECTIVES, BoostingStep, Growing
from equipoise.training import TASKS, Predictor, TrainingData


def simulate(task="binary", n=240, *, weighted=False, seed=0):
    """Rows with one continuous and one binary attribute that the features tell of."""
    rng = np.random.default_rng(seed)
    age, group = rng.normal(size=n), (rng.random(n) < 0.4).astype(float)
    x = rng.normal(size=(n, 4)) + np.stack([age, group, 0 * age, 0 * age], 1)
    signal = x.sum(1) + rng.normal(size=n)
    if task == "multiclass":
        target, outcome = np.digitize(signal, [-1.0, 1.0]), None
        outcome = np.eye(3)[target]
    elif task == "binary":
        target = (signal > 0).astype(float)
        outcome = target[:, None]
    else:
        target = 20 + 5 * signal
        outcome = ((target - target.mean()) / target.std())[:, None]
    classes = None if outcome.shape[1] == 1 and task != "binary" else target.astype(np.int64)
    return TrainingData(
        x=torch.from_numpy(x),
        target=torch.from_numpy(target),
        outcome=torch.from_numpy(outcome).float(),
        outcome_class=None if classes is None else torch.from_numpy(classes),
        attribute=torch.from_numpy(np.stack([age, group], 1)).float(),
        weight=torch.from_numpy(rng.exponential(3, n)).float() if weighted else None,
    )


class Tilted:
    """A penalty whose slope is known: the mean of c_i s_i - c_j s_j / 3 over rows i, resampled j.

    ``coefficients`` (n,) stand for what a method knows of the rows.
    """

    def __init__(self, coefficients):
        self._coefficients = coefficients
        self.networks = nn.Module()

    def penalty(self, penalized, rows, resampled):
        tilt = self._coefficients[rows] - self._coefficients[resampled] / 3
        return (tilt[..., None] * penalized).sum(-1).mean(-1)


class Recorded(Growing):
    """Growing that remembers gradients and Hessians (m, o) of every member's latest round."""

    def grow(self, member, gradient, hessian):
        self.__dict__.setdefault("given", {})[member] = gradient.clone(), hessian.clone()
        super().grow(member, gradient, hessian)


def prepared(data, members, task, *, method, warmup=0, library="lightgbm", **parameters):
    """Return a step and what it grows."""
    growing = Recorded(
        data,
        members,
        library=LIBRARIES[library],
        objective=OBJECTIVES[task],
        n_outputs=data.outcome.shape[1],
        categorical=(),
        parameters={"learning_rate": 0.3, "nthread": 1, **parameters},
        most_rounds=100,
    )
    predictor = Predictor(growing.trees, TASKS[task])
    return BoostingStep(predictor, growing, members, method=method, warmup=warmup), growing


#: A parameter of each library that makes trees small.
SMALL_TREES = {"lightgbm": {"num_leaves": 7}, "xgboost": {"max_depth": 3}}


def small_trees(library):
    """Options of an estimator whose trees are small."""
    return {"library": library, library: SMALL_TREES[library]}
