"""Optimal transport to the barycentre: the best score under independence, where A is discrete.

The score of a person is replaced by the mean, over the groups, of the scores that have the same
rank there (Chzhen et al. 2020; Gouic, Loubes and Rigollet 2020). ``share`` goes part of the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def repaired(
    score: Floats,
    group: NDArray[Any],
    *,
    learned_score: Floats,
    learned_group: NDArray[Any],
    share: float = 1.0,
) -> Floats:
    """Return repaired scores (n,); quantiles and sizes of groups are learned from other rows."""
    levels = np.unique(learned_group)
    sorted_scores = [np.sort(learned_score[learned_group == level]) for level in levels]
    target = np.empty_like(score)
    for level, own in zip(levels, sorted_scores, strict=True):
        members = group == level
        rank = _rank(own, score[members])
        target[members] = sum(
            len(others) / len(learned_score) * np.quantile(others, rank) for others in sorted_scores
        )
    return (1 - share) * score + share * target


def _rank(learned: Floats, values: Floats) -> Floats:
    """Share of the learned values below each value, half of the ties among them."""
    below, upto = (np.searchsorted(learned, values, side) for side in ("left", "right"))
    return (below + upto) / (2 * len(learned))
