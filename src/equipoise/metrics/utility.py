"""Utility of K scores at once: AUC, Youden's threshold, MAE, MSE, R2, D2 of the absolute error.

Every function takes scores (n,) or (K, n), NumPy or torch, and returns a scalar or (K,) of the same
type; weights (R, n) add a first axis R. A weight is the number of rows that a row counts for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from equipoise.errors import InputError
from equipoise.metrics.arrays import (
    Array,
    as_numbers,
    as_scores,
    as_weights,
    like,
    members_at_once,
)
from equipoise.metrics.outcome import outcome_kind, split_outcome
from equipoise.metrics.partition import Ranking, rank


def auc(scores: Any, y: Any, *, weights: Any = None) -> Array:
    """Area under the ROC curve: P(score of a positive > score of a negative); ties count half.

    >>> auc(np.array([[0.1, 0.4, 0.4, 0.8], [0.8, 0.4, 0.1, 0.1]]), [0, 0, 1, 1])
    array([0.875, 0.   ])
    """
    tensor = as_scores(scores)
    rows = as_weights(weights, tensor.shape[-1], tensor.device)
    positive = _binary(y, rows.sum(0))
    return like(auc_of_ranking(rank(tensor), positive, rows), scores, weights)


def youden_threshold(scores: Any, y: Any, *, weights: Any = None) -> Array:
    """The threshold with the largest true-positive rate minus false-positive rate (Youden's J).

    A decision is positive if score >= t in ``sklearn.metrics.roc_curve``, and if score > threshold
    in the paper. The number returned is the largest float64 below the first t that maximizes J on
    sklearn's curve, so that both decide the same. If no threshold is better than no positive
    decision (t = inf), it is the largest float64. Compare in float64: float32 would round it to t.

    Youden (1950), Index for rating diagnostic tests.

    >>> float(youden_threshold(np.array([0.1, 0.4, 0.35, 0.8]), [0, 0, 1, 1])) < 0.8
    True
    """
    tensor = as_scores(scores)
    if weights is not None and np.ndim(weights) != 1:
        raise InputError(
            f"weights must have shape (n,) to find one threshold, got {np.ndim(weights)} axes; "
            "pass one weight for each row"
        )
    rows = as_weights(weights, tensor.shape[-1], tensor.device)
    positive = _binary(y, rows[0])
    return like(youden_of_ranking(rank(tensor), positive, rows[0])[None], scores, weights)


def mae(scores: Any, y: Any, *, weights: Any = None) -> Array:
    """Mean absolute error, E |y - score|.

    >>> float(mae(np.array([1.0, 2.0]), [1.5, 4.0]))
    1.25
    """
    return like(_finite(mean_absolute(*_regression(scores, y, weights))), scores, weights)


def mse(scores: Any, y: Any, *, weights: Any = None) -> Array:
    """Mean squared error, E (y - score)^2.

    >>> float(mse(np.array([1.0, 2.0]), [1.5, 4.0]))
    2.125
    """
    tensor, values, rows = _regression(scores, y, weights)
    return like(_finite(_mean((values - tensor).square(), rows)), scores, weights)


def r2(scores: Any, y: Any, *, weights: Any = None) -> Array:
    """Share of the variance of y that the score explains, 1 - E (y - score)^2 / Var y.

    A constant y is refused, since it has no variance.

    >>> float(r2(np.array([1.0, 2.0, 3.0]), [1.0, 2.0, 4.0]))
    0.785...
    """
    tensor, values, rows = _regression(scores, y, weights)
    _refuse_constant("r2", values, rows)
    found = explained_share(tensor, values, rows)
    return like(_finite(found, "give both in the same unit"), scores, weights)


def d2_absolute_error(scores: Any, y: Any, *, weights: Any = None) -> Array:
    """Share of the absolute error explained, 1 - sum |y - score| / sum |y - median(y)|.

    1 is perfect, and 0 is the best constant, the median. A constant y is refused.
    Koenker and Machado (1999), Goodness of fit and related inference processes for quantile
    regression; ``sklearn.metrics.d2_absolute_error_score``.

    >>> float(d2_absolute_error(np.array([1.0, 2.0, 3.0]), [1.0, 2.0, 4.0]))
    0.666...
    """
    tensor, values, rows = _regression(scores, y, weights)
    _refuse_constant("d2_absolute_error", values, rows)
    found = explained_absolute_share(tensor, values, rows)
    return like(_finite(found, "give both in the same unit"), scores, weights)


def mean_absolute(scores: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """MAE (R, K) of scores (K, n) for y (n,) under weights (R, n)."""
    small, small_y, power = _of_size_one(scores, y)
    return _mean((small_y - small).abs(), weights) * 2.0 ** (power // 2) * 2.0 ** (-(-power // 2))


def explained_share(scores: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """R2 (R, K) of scores (K, n) for y (n,) under weights (R, n).

    Not finite if all rows of positive weight have the same outcome.
    """
    scores, y, _ = _of_size_one(scores, y)
    center = _mean(y[None], weights)  # (R, 1)
    total = weights.sum(-1, keepdim=True)
    spread = ((y - center).square() * weights).sum(-1, keepdim=True) / total
    return 1 - _mean((y - scores).square(), weights) / spread


def explained_absolute_share(scores: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """D2 of the absolute error (R, K) of scores (K, n) for y (n,) under weights (R, n).

    Not finite if all rows of positive weight have the same outcome.
    """
    scores, y, _ = _of_size_one(scores, y)
    # Any weighted median serves: all have the same sum of absolute errors.
    order = y.argsort()
    below = weights[:, order].cumsum(-1)
    middle = (below < below[:, -1:] / 2).sum(-1)
    center = y[order][middle][:, None]  # (R, 1)
    total = weights.sum(-1, keepdim=True)
    spread = ((y - center).abs() * weights).sum(-1, keepdim=True) / total
    return 1 - _mean((y - scores).abs(), weights) / spread


def auc_of_ranking(ranking: Ranking, positive: Tensor, weights: Tensor) -> Tensor:
    """AUC (R, K) from a ranking, positive (n,) of 0 and 1, and weights (R, n)."""
    first, last = ranking.ties
    areas = []
    # Without reading values from the device.
    at_once = members_at_once(weights)
    blocks = (torch.split(each, at_once) for each in (ranking.order, first, last))
    for order, start, end in zip(*blocks, strict=True):
        won = (weights * positive)[:, order]  # (R, members at once, n)
        lost = functional.pad((weights * (1 - positive))[:, order].cumsum(-1), (1, 0))
        before, after = (place.expand(won.shape) for place in (start, end + 1))
        # Negatives strictly below a score, and half of those that tie with it.
        below = (lost.gather(-1, before) + lost.gather(-1, after)) / 2
        areas.append((won * below).sum(-1) / (won.sum(-1) * lost[..., -1]))
    return torch.cat(areas, dim=1)


def youden_of_ranking(ranking: Ranking, positive: Tensor, weights: Tensor) -> Tensor:
    """`youden_threshold` (K,) from a ranking, positive (n,) of 0 and 1, and weights (n,)."""
    ranking = ranking.restrict(weights > 0)
    true = (weights * positive).take(ranking.order).flip(-1).cumsum(-1)
    false = (weights * (1 - positive)).take(ranking.order).flip(-1).cumsum(-1)
    if float(true[0, -1]) == 0 or float(false[0, -1]) == 0:
        raise InputError(
            "y must have both classes among the rows of positive weight for Youden's J, got one; "
            "pass a number as threshold"
        )
    # Places are counted from the highest score downwards, which swaps first and last of ties.
    values = ranking.values.flip(-1)
    place = torch.arange(values.shape[-1], device=values.device)
    last, first = (len(place) - 1 - tied.flip(-1) for tied in ranking.ties)
    gain = true / true[:, -1:] - false / false[:, -1:]
    # roc_curve drops points inside a straight line of equal steps. They are better than its ends
    # only by rounding. They are dropped here, too, so that the same point is first among the best.
    before = (first - 1).clamp_min(0)
    after = last.gather(-1, (last + 1).clamp_max(len(place) - 1))
    straight = (first > 0) & (last < len(place) - 1)
    for counted in (true, false):
        straight &= counted.gather(-1, after) - counted == counted - counted.gather(-1, before)
    gain = gain.masked_fill((place != last) | straight, -torch.inf)
    best = gain.argmax(-1, keepdim=True)
    found = torch.where(gain.gather(-1, best) > 0, values.gather(-1, best), torch.inf)[:, 0]
    return torch.nextafter(found, torch.full_like(found, -torch.inf))


def youden_of_weightings(ranking: Ranking, positive: Tensor, weights: Tensor) -> Tensor:
    """Youden's threshold (R,) of one member under each of the weights (R, n).

    NaN if a weighting leaves out a class. If several scores are best up to rounding, any of them
    may be returned. So this function is for draws; values use `youden_of_ranking`.
    """
    order, values = ranking.order[0].flip(-1), ranking.values[0].flip(-1)
    ends = torch.cat([values[1:] != values[:-1], torch.ones_like(values[:1], dtype=torch.bool)])
    ranked = weights[:, order]
    true = (ranked * positive[order]).cumsum(-1)
    false = (ranked * (1 - positive[order])).cumsum(-1)
    gain = true / true[:, -1:] - false / false[:, -1:]
    best = gain.masked_fill(~ends, -torch.inf).max(-1)
    found = torch.where(best.values > 0, values[best.indices], torch.inf)
    found = torch.nextafter(found, torch.full_like(found, -torch.inf))
    return found.masked_fill((true[:, -1] == 0) | (false[:, -1] == 0), torch.nan)


def _binary(y: Any, weights: Tensor) -> Tensor:
    """The outcome as 0 and 1 (n,), for weights (n,); 1 is the larger of its two values."""
    if outcome_kind(y, counted=(weights > 0).cpu().numpy()) != "binary":
        raise InputError(
            "y must have two distinct values, got more; compare one class with the rest"
        )
    return split_outcome(y, "binary", weights, len(weights))[1]


def _regression(scores: Any, y: Any, weights: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Scores (K, n), y (n,), weights (R, n)."""
    tensor = as_scores(scores)
    n = tensor.shape[-1]
    values = as_numbers("y", y).to(tensor.device)
    if values.shape != (n,):
        raise InputError(
            f"y must have one value for each of the {n} scores, got shape {tuple(values.shape)}; "
            "pass the outcomes of the same rows"
        )
    return tensor, values, as_weights(weights, n, tensor.device)


def _refuse_constant(name: str, y: Tensor, weights: Tensor) -> None:
    """Refuse y (n,) with a single value in the rows that count under some weights (R, n)."""
    counted = y[weights.sum(0) > 0]
    if bool((counted == counted[0]).all()):
        raise InputError(
            f"y must have at least two distinct values for {name}, got {float(counted[0]):g} in "
            f"all {len(counted)} rows; add rows with other outcomes"
        )


def _finite(errors: Tensor, remedy: str = "divide scores and y by the same number") -> Tensor:
    """Refuse errors that are too large for a float."""
    if not bool(errors.isfinite().all()):
        raise InputError(
            "scores must be close enough to y that their mean error is finite, got one above "
            f"{torch.finfo(errors.dtype).max:.3g}; {remedy}"
        )
    return errors


def _of_size_one(scores: Tensor, y: Tensor) -> tuple[Tensor, Tensor, int]:
    """Divide both by one power of two, so that none is above 1 and squares stay finite.

    Also returns the power.
    """
    power = math.frexp(max(float(part.abs().max()) for part in (scores, y)))[1]
    # In two steps, because the inverse of the smallest floats overflows.
    first = -(power // 2)
    small, small_y = (part * 2.0**first * 2.0 ** (-power - first) for part in (scores, y))
    return small, small_y, power


def _mean(values: Tensor, weights: Tensor) -> Tensor:
    """Weighted means (R, K) of values (K, n) under weights (R, n)."""
    return weights @ values.T / weights.sum(-1, keepdim=True)
