"""Utility of scores: AUC of two classes, its mean over several classes, R2 of numbers.

With several classes it is the mean, over the classes, of the AUC of a class's probability for that
class against the rest, every class counting the same (Fawcett 2006, An introduction to ROC
analysis, section 9, without the weights by class size; ``sklearn.metrics.roc_auc_score`` with
``multi_class="ovr", average="macro"``). A score that knows nothing has 0.5, as with two classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.inference.bootstrap import basic_interval
from equipoise.metrics.partition import Ranking
from equipoise.metrics.sample import Scored
from equipoise.metrics.utility import auc_of_ranking, explained_share

#: Draws are taken in blocks of about this many (draw, row) numbers: 32 MiB.
_BLOCK = 2**22


def utilities(scored: Scored, columns: int) -> Tensor:
    """Utility (R, E) of E models, from scores (E * columns, n), a model's columns together.

    There is one column, or one for each of several classes.
    """
    assert scored.y is not None
    if scored.outcome_kind == "continuous":
        return explained_share(scored.scores, scored.y, scored.weights)
    if columns == 1:
        return auc_of_ranking(scored.ranking, scored.y, scored.weights)
    order, values = scored.ranking.order, scored.ranking.values
    by_class = [
        auc_of_ranking(
            Ranking(order[number::columns], values[number::columns]),
            (scored.y == number).to(torch.float64),
            scored.weights,
        )
        for number in range(columns)
    ]
    return torch.stack(by_class).mean(0)


@dataclass(frozen=True)
class UtilityInterval:
    """Utility of one model with its bootstrap interval."""

    value: float
    low: float
    high: float


def utility_intervals(
    scored: Scored, columns: int, *, draws: int, level: float, random_state: int
) -> tuple[UtilityInterval, ...]:
    """Utility of each of E models, scores (E * columns, n), with basic bootstrap intervals.

    Rows are drawn with replacement and keep their weights; every draw serves all models, each of
    which gets the interval it would get alone.
    """
    values = utilities(scored, columns)[0].cpu().numpy()
    n = scored.scores.shape[-1]
    random = np.random.default_rng(random_state)
    found = []
    size = max(1, _BLOCK // n)
    for start in range(0, draws, size):
        counts = np.stack(
            [
                np.bincount(random.integers(n, size=n), minlength=n)
                for _ in range(min(size, draws - start))
            ]
        )
        drawn = torch.from_numpy(counts.astype(np.float64)).to(scored.weights.device)
        resampled = replace(scored, weights=drawn * scored.weights)
        found.append(utilities(resampled, columns).cpu().numpy())
    least = -np.inf if scored.outcome_kind == "continuous" else 0.0
    return tuple(
        _interval(float(value), drawn, level, (least, 1.0))
        for value, drawn in zip(values, np.concatenate(found).T, strict=True)
    )


def _interval(
    value: float, draws: NDArray[np.float64], level: float, limits: tuple[float, float]
) -> UtilityInterval:
    # A draw without a class, or of a single outcome, says nothing about utility.
    return UtilityInterval(value, *basic_interval(value, draws[np.isfinite(draws)], level, limits))
