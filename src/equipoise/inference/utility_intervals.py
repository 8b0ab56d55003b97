"""Bootstrap intervals for utility: AUC of classes, R2 and MAE of a continuous outcome.

These are smooth functions of means, so the basic bootstrap interval is the right one. Rows are
drawn with replacement and keep their weights. AUC needs only how many positives and negatives have
each score: above `EXACT_ROWS` rows, scores are first cut into bins of equal rank, which moves an
AUC by at most half the share of a bin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from equipoise.inference.bootstrap import (
    EXACT_ROWS,
    SCORE_EDGES,
    Floats,
    basic_interval,
    multinomial_counts,
    row_counts,
)
from equipoise.inference.estimate import Estimate
from equipoise.metrics.partition import rank
from equipoise.metrics.sample import Scored, UtilityMeasure

_LIMITS = {"AUC": (0.0, 1.0), "R2": (-math.inf, 1.0), "MAE": (0.0, math.inf)}


def utility_intervals(
    scored: Scored,
    measures: Sequence[UtilityMeasure],
    *,
    columns: int = 1,
    draws: int,
    level: float,
    random_state: int,
) -> tuple[tuple[Estimate, ...], ...]:
    """Utility of each of E models, scores (E * columns, n), by every measure.

    Every draw serves all models and measures; a model gets the interval it would get alone.
    `columns` is as in `Scored.utility`.

    >>> from equipoise.metrics import prepare
    >>> y = np.arange(400) % 2
    >>> scored = prepare(np.random.default_rng(0).normal(size=400) + y, y)
    >>> ((found,),) = utility_intervals(scored, ["AUC"], draws=200, level=0.95, random_state=0)
    >>> round(found.low, 2), round(found.value, 2), round(found.high, 2)
    (0.75, 0.79, 0.83)
    """
    n = scored.scores.shape[-1]
    countable = list(measures) == ["AUC"] and columns == 1 and bool((scored.weights == 1).all())
    drawn = (
        [_auc_of_counts(scored, draws, random_state)]
        if countable and n > EXACT_ROWS
        else _by_row(scored, measures, columns, draws, random_state)
    )
    return tuple(
        tuple(
            _estimate(float(value), found, level, _LIMITS[measure], n)
            for value, found in zip(_values(scored, measure, columns)[0], of_draws.T, strict=True)
        )
        for measure, of_draws in zip(measures, drawn, strict=True)
    )


def _values(scored: Scored, measure: UtilityMeasure, columns: int) -> Floats:
    return scored.utility(measure, columns=columns).cpu().numpy()


def _estimate(
    value: float, drawn: Floats, level: float, limits: tuple[float, float], n: int
) -> Estimate:
    if not math.isfinite(value):
        reason = f"a float cannot hold it, {value}; rescale scores and y"
        return Estimate(level=level, n=n, reason=reason)
    # A draw without a class, or of a single outcome, says nothing about utility.
    low, high = basic_interval(value, drawn[np.isfinite(drawn)], level, limits)
    return Estimate(value=value, low=low, high=high, level=level, n=n)


def _by_row(
    scored: Scored, measures: Sequence[UtilityMeasure], columns: int, draws: int, seed: int
) -> list[Floats]:
    """Utilities (draws, E) of rows drawn with replacement, by every measure."""
    found: list[list[Floats]] = [[] for _ in measures]
    for counts, _ in row_counts(draws, scored.scores.shape[-1], seed):
        weights = torch.from_numpy(counts).to(scored.weights.device) * scored.weights
        resampled = replace(scored, weights=weights)
        for values, measure in zip(found, measures, strict=True):
            values.append(_values(resampled, measure, columns))
    return [np.concatenate(values) for values in found]


def _auc_of_counts(scored: Scored, draws: int, seed: int) -> Floats:
    """AUC (draws, K) from drawn counts of (bin of the score, class), moved to the exact value."""
    exact = _values(scored, "AUC", 1)
    assert scored.y is not None
    positive = scored.y.cpu().numpy().astype(np.int64)
    columns = []
    for score, value in zip(scored.scores.cpu().numpy(), exact[0], strict=True):
        edges = np.unique(np.quantile(score, np.arange(1, SCORE_EDGES) / SCORE_EDGES))
        levels, bins = np.unique(np.searchsorted(edges, score, side="left"), return_inverse=True)
        counts = np.bincount(2 * bins + positive, minlength=2 * len(levels)).astype(np.float64)
        scores = torch.arange(len(levels), dtype=torch.float64).repeat_interleave(2)[None]
        small = replace(
            scored,
            scores=scores,
            ranking=rank(scores),
            weights=torch.from_numpy(counts)[None],
            y=torch.tensor([0.0, 1.0], dtype=torch.float64).repeat(len(levels)),
        )
        found = [
            _values(replace(small, weights=torch.from_numpy(drawn)), "AUC", 1)[:, 0]
            for drawn in multinomial_counts(counts, draws, seed)
        ]
        columns.append(np.concatenate(found) - _values(small, "AUC", 1)[0, 0] + value)
    return np.stack(columns, axis=1)
