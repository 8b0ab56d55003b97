"""Fair ridge regression: bounds the share of the explained variance that is due to A."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit

from equipoise.errors import InputError
from equipoise.methods.declaration import Capabilities, Context, Declaration
from equipoise.networks import StackedLinear, StackedMLP
from equipoise.training import TASKS, Predictor
from equipoise.training.data import RowSet, row_numbers

Floats = NDArray[np.float64]

#: Principal axes whose spread is below this share of the largest spread are left out.
_RANK_TOLERANCE = 1e-7
#: Newton steps end when the gradient is below this.
_GRADIENT = 1e-11
_NEWTON_STEPS = 100
_SMALLEST_STEP = 1e-6
#: Larger log odds mean that coefficients grow to infinity, since scaled features are bounded.
_LARGEST_LOG_ODDS = 15.0
#: A log loss this small has no minimum: coefficients would grow to infinity.
_PERFECT = 1e-6
#: A ridge this large leaves nothing of the sensitive part.
_LARGEST_RIDGE = 1e12


@dataclass(frozen=True, eq=False)
class Parts:
    """Sensitive features S, and U, the residual of X regressed on S; both along principal axes.

    S is only rotated, so that a ridge on the coefficients of the axes is a ridge on those of S.
    """

    sensitive: Floats  # (n, r), centered S along its axes
    rest: Floats  # (n, t), U along its axes, with variance one
    rotation: Floats  # (q, r), axes of S
    weights: Floats  # (p, t), scaled axes of U
    explained: Floats  # (q, p), coefficients of X regressed on S
    centers: tuple[Floats, Floats]  # of X and S
    weight: Floats  # (n,), of rows, summing to one

    @classmethod
    def of(cls, x: Floats, s: Floats, weight: Floats) -> Parts:
        """Regress x (n, p) on s (n, q) and rotate both."""
        centers = weight @ x, weight @ s
        x, s = x - centers[0], s - centers[1]
        root = np.sqrt(weight)[:, None]
        rotation, spread = _axes(root * s)
        sensitive = s @ rotation
        explained = rotation @ ((sensitive / spread**2 * weight[:, None]).T @ x)
        rest = x - s @ explained
        axes, spreads = _axes(root * rest, scale=float(np.linalg.norm(root * x)))
        weights = axes / spreads
        return cls(sensitive, rest @ weights, rotation, weights, explained, centers, weight)

    def coefficients(self, a: Floats, b: Floats, intercept: float) -> Floats:
        """Coefficients of X and S and the constant, (p + q + 1,), from those a, b of the axes."""
        of_x = self.weights @ b
        of_s = self.rotation @ a - self.explained @ of_x
        constant = intercept - self.centers[0] @ of_x - self.centers[1] @ of_s
        return np.concatenate([of_x, of_s, [constant]])


def _axes(columns: Floats, scale: float | None = None) -> tuple[Floats, Floats]:
    """Principal axes (columns, r) with nonzero spread, and the spread along them (r,)."""
    _, spread, axes = np.linalg.svd(columns, full_matrices=False)
    least = _RANK_TOLERANCE * (spread.max(initial=0.0) if scale is None else scale)
    return axes[spread > least].T, spread[spread > least]


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Least squares with a ridge on the sensitive part only (the paper's FRRM)."""

    parts: Parts
    y: Floats

    def at(self, ridge: float) -> tuple[Floats, float]:
        """Return coefficients (p + q + 1,), and the share of explained variance that is due to S.

        The parts are uncorrelated, so the ridge shrinks the sensitive part only.
        """
        parts, y = self.parts, self.y
        variance = parts.weight @ parts.sensitive**2
        a = (parts.weight * y) @ parts.sensitive / (variance + ridge)
        b = (parts.weight * y) @ parts.rest
        of_sensitive, of_rest = float(variance @ a**2), float(b @ b)
        total = of_sensitive + of_rest
        coefficients = parts.coefficients(a, b, float(parts.weight @ y))
        return coefficients, of_sensitive / total if total > 0 else 0.0


class LogisticFit:
    """Logistic regression with a ridge on the sensitive part only (the paper's FGRRM)."""

    def __init__(self, parts: Parts, y: Floats) -> None:
        self.parts = parts
        self.y = y
        self._design = np.column_stack([np.ones(len(y)), parts.sensitive, parts.rest])
        # Newton's method starts at the previous solution, since similar ridges have similar ones.
        self._start = np.zeros(self._design.shape[1])

    def at(self, ridge: float) -> tuple[Floats, float]:
        """Return coefficients (p + q + 1,), and the share of explained deviance that is due to S.

        The share is (D(0, b) - D(a, b)) / (D(0, 0) - D(a, b)): the loss without the sensitive part,
        relative to everything that the model explains.
        """
        parts, design = self.parts, self._design
        count = parts.sensitive.shape[1]
        ridges = np.zeros(design.shape[1])
        ridges[1 : 1 + count] = ridge
        found = _newton(design, self.y, parts.weight, ridges, self._start)
        if np.abs(design @ found).max() > _LARGEST_LOG_ODDS:
            raise InputError(
                "method='scutari' found no finite coefficients: rare values of the features "
                "separate the classes of some rows without error, so a bound on the share due to A "
                "could be met without changing the model; merge rare levels, leave out such "
                "columns, or use another method"
            )
        self._start = found
        without = found.copy()
        without[1 : 1 + count] = 0.0
        mean = np.full(len(self.y), logit(parts.weight @ self.y))
        full, reduced, null = (
            _log_loss(log_odds, self.y, parts.weight)
            for log_odds in (design @ found, design @ without, mean)
        )
        coefficients = parts.coefficients(found[1 : 1 + count], found[1 + count :], found[0])
        return coefficients, (reduced - full) / (null - full) if null > full else 0.0


def _log_loss(log_odds: Floats, y: Floats, weight: Floats) -> float:
    """Half the mean deviance."""
    return float(weight @ (np.logaddexp(0, log_odds) - y * log_odds))


def _newton(design: Floats, y: Floats, weight: Floats, ridges: Floats, theta: Floats) -> Floats:
    """Minimize log loss + sum of ridges * theta^2 / 2 by Newton's method with step halving."""

    def value(at: Floats) -> float:
        return _log_loss(design @ at, y, weight) + float(ridges @ at**2) / 2

    now = value(theta)
    for _ in range(_NEWTON_STEPS):
        if now < _PERFECT:
            break
        probability = expit(design @ theta)
        gradient = design.T @ (weight * (probability - y)) + ridges * theta
        if np.abs(gradient).max() < _GRADIENT:
            return theta
        spread = weight * probability * (1 - probability)
        hessian = (design.T * spread) @ design + np.diag(ridges)
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        share = 1.0
        while (then := value(theta - share * step)) > now and share > _SMALLEST_STEP:
            share /= 2
        if share <= _SMALLEST_STEP:  # only rounding errors are left
            return theta
        theta, now = theta - share * step, then
    raise InputError(
        "method='scutari' found no finite coefficients: the features separate the two classes "
        "without error; leave out columns that give y away, or use another method"
    )


def within(fit: Callable[[float], tuple[Floats, float]], bound: float) -> tuple[Floats, float]:
    """Return the fit with the smallest ridge whose share is at most ``bound``, and its share."""
    # The last digits of a fit depend on its starting point. Fitting each ridge only once keeps the
    # bracket of the root search consistent.
    once = functools.cache(fit)
    found = once(0.0)
    if found[1] <= bound:
        return found
    upper = 1e-3
    while once(upper)[1] > bound:
        upper *= 8
        if upper > _LARGEST_RIDGE:
            return once(_LARGEST_RIDGE)
    ridge = brentq(lambda at: once(at)[1] - bound, 0.0, upper, xtol=1e-15, rtol=1e-14)
    return once(float(ridge))


def solve(context: Context) -> Predictor:
    """Scutari, Panero and Proissl 2022: y = S a + U b with a ridge on a.

    The ridge bounds the share due to S by (1 - strength) times the share without a ridge.
    """
    task, members = context.task, context.members
    if task not in ("squared", "binary"):
        raise InputError(
            f"loss must be 'squared' for method='scutari', which is least squares, got {task!r}; "
            "leave loss out, or use another method"
        )
    found: dict[tuple[RowSet | None, float], Floats] = {}
    for rows in dict.fromkeys(member.rows for member in members):
        fit = _fit(context, rows)
        plain, largest = fit.at(0.0)
        found[rows, 0.0] = plain
        for strength in sorted({m.strength for m in members if m.rows == rows and m.strength > 0}):
            found[rows, strength] = within(fit.at, (1 - strength) * largest)[0]
    coefficients = np.stack([found[member.rows, member.strength] for member in members])
    return linear_predictor(coefficients, task).to(context.data.x.device)


def _fit(context: Context, rows: RowSet | None) -> LinearFit | LogisticFit:
    """Return the regression on some rows, or on all if ``rows`` is empty."""
    data = context.data
    chosen = row_numbers(rows, len(data))
    weight = torch.ones_like(data.target) if data.weight is None else data.weight
    x, y, weight = (part.cpu().double()[chosen] for part in (data.x, data.target, weight))
    features, sensitive = np.split(x.numpy(), [-context.attribute_inputs], axis=1)
    parts = Parts.of(features, sensitive, (weight / weight.sum()).numpy())
    return (LinearFit if context.task == "squared" else LogisticFit)(parts, y.numpy())


def linear_predictor(coefficients: NDArray[np.float64], task: str) -> Predictor:
    """Return K linear models in double precision from coefficients (K, p + 1), constants last.

    >>> model = linear_predictor(np.array([[2.0, 1.0]]), "squared")
    >>> model.evaluate(torch.tensor([[3.0]]))[0]
    tensor([[[7.]]], dtype=torch.float64)
    """
    members, inputs = len(coefficients), coefficients.shape[1] - 1
    network = StackedMLP(inputs, (), 1, generators=[torch.Generator()] * members).double()
    (layer,) = network.layers
    assert isinstance(layer, StackedLinear) and layer.bias is not None
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(coefficients[:, None, :-1]))
        layer.bias.copy_(torch.from_numpy(coefficients[:, -1:]))
    return Predictor(network, TASKS[task])


DECLARATION = Declaration(
    name="scutari",
    title="Fair ridge regression",
    reference="Scutari, Panero and Proissl (2022), Achieving fairness with a simple ridge penalty, "
    "Statistics and Computing",
    summary="Linear or logistic regression on A and on the part of X that A does not explain; a "
    "ridge on A bounds A's share of the explained variance. It needs A to predict.",
    capabilities=Capabilities(
        neural=False,
        separation=False,
        many_classes=False,
        representation=False,
        unknown=False,
        needs_attribute=True,
        controls="mean",
    ),
    solve=solve,
)
