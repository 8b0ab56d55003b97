"""Bootstrap intervals for utility: AUC of a binary outcome, MAE and R2 of a continuous one.

These are smooth functions of means, so the basic bootstrap interval is the right one. AUC needs
only how many positives and negatives have each score; above `EXACT_ROWS` rows scores are first cut
into bins of equal rank, which moves an AUC by at most half the share of a bin. MAE and R2 need four
sums of every draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.inference.bootstrap import EXACT_ROWS, SCORE_EDGES, basic_interval
from equipoise.scales import reduced

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class UtilityInterval:
    """A measure of utility with its bootstrap interval.

    Attributes
    ----------
    metric : {"AUC", "MAE", "R2"}
    value, low, high : float
    rows : int
    """

    metric: str
    value: float
    low: float
    high: float
    rows: int


def auc_interval(
    scores: Floats, positive: NDArray[np.bool_], *, draws: int, level: float, random_state: int
) -> UtilityInterval:
    """AUC of scores (n,) for a boolean outcome (n,), with its interval.

    >>> random = np.random.default_rng(0)
    >>> positive = np.arange(400) % 2 == 1
    >>> found = auc_interval(
    ...     random.normal(size=400) + positive, positive, draws=200, level=0.95, random_state=0
    ... )
    >>> round(found.low, 2), round(found.value, 2), round(found.high, 2)
    (0.75, 0.79, 0.84)
    """
    n = len(scores)
    exact = _auc(_counts(scores, positive))
    counts = _counts(_binned(scores), positive) if n > EXACT_ROWS else _counts(scores, positive)
    generator = np.random.default_rng(random_state)
    flat = counts.ravel()
    drawn = np.concatenate(
        [
            _auc(generator.multinomial(n, flat / n, size=1).reshape(1, *counts.shape[1:]))
            for _ in range(draws)
        ]
    )
    # Draws without a positive or without a negative say nothing about the ranking of the two.
    kept = drawn[~np.isnan(drawn)] - _auc(counts) + exact
    low, high = basic_interval(float(exact[0]), kept, level, (0.0, 1.0))
    return UtilityInterval("AUC", float(exact[0]), low, high, n)


def regression_intervals(
    scores: Floats, y: Floats, *, draws: int, level: float, random_state: int
) -> tuple[UtilityInterval, UtilityInterval]:
    """MAE and R2 of predictions (n,) of y (n,), with their intervals."""
    n = len(scores)
    (scores, y), power = reduced(np.stack([scores, y]))
    # y is centred first: R2 does not change, and its sum of squares loses no digits.
    centred = y - y.mean()
    error = y - scores
    table = np.stack([np.abs(error), error**2, centred, centred**2])
    unit = np.array([power, 0])
    exact = np.ldexp(_mae_and_r2(table.sum(axis=1)[None], n)[0], unit)
    generator = np.random.default_rng(random_state)
    sums = np.empty((draws, 4))
    for draw in range(draws):
        sums[draw] = table @ np.bincount(generator.integers(n, size=n), minlength=n)
    drawn = np.ldexp(_mae_and_r2(sums, n), unit)
    return (
        _regression_interval("MAE", exact[0], drawn[:, 0], level, (0.0, np.inf), n),
        _regression_interval("R2", exact[1], drawn[:, 1], level, (-np.inf, 1.0), n),
    )


def _regression_interval(
    metric: str, value: float, drawn: Floats, level: float, limits: tuple[float, float], n: int
) -> UtilityInterval:
    low, high = basic_interval(float(value), drawn[np.isfinite(drawn)], level, limits)
    return UtilityInterval(metric, float(value), low, high, n)


def _counts(scores: Floats, positive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows by distinct score and class, (1, distinct scores, 2)."""
    levels, place = np.unique(scores, return_inverse=True)
    counts = np.bincount(2 * place + positive, minlength=2 * len(levels))
    return counts.reshape(1, -1, 2).astype(np.int64)


def _binned(scores: Floats) -> Floats:
    """Number of the bin of equal rank of every score; equal scores share a bin."""
    edges = np.unique(np.quantile(scores, np.arange(1, SCORE_EDGES) / SCORE_EDGES))
    return np.searchsorted(edges, scores, side="left").astype(np.float64)


def _auc(counts: NDArray[np.int64]) -> Floats:
    """AUC (R,) from counts (R, distinct scores, 2); NaN without both classes."""
    negative, positive = counts[..., 0].astype(np.float64), counts[..., 1].astype(np.float64)
    below = negative.cumsum(axis=-1) - negative / 2
    pairs = negative.sum(axis=-1) * positive.sum(axis=-1)
    won = (positive * below).sum(axis=-1)
    return np.asarray(np.where(pairs > 0, won / np.maximum(pairs, 1.0), np.nan))


def _mae_and_r2(sums: Floats, n: int) -> Floats:
    """MAE and R2 (R, 2) from sums (R, 4) of |e|, e^2, y and y^2; R2 is -inf for a constant y."""
    absolute, squared, total, square = sums.T / n
    spread = np.maximum(square - total**2, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.stack([absolute, 1 - squared / spread], axis=1)
