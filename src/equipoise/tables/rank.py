"""Rank scaling: normal scores of ranks, with ties averaged and rare values kept moderate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from equipoise.scales import exponent


class RankScaler:
    """Map each column to normal scores of its ranks, so that no shape of data dominates.

    A value is replaced by the normal quantile of the share of training rows up to it, counting half
    of its ties (the plotting position of Hazen, 1914), cut at +-3.5, then centred and divided by
    its standard deviation. A column ruled by one tied value has little spread; it is stretched by
    at most a factor of two, so that its rare values stay moderate. Values between two training
    values are interpolated, values beyond them get the nearest score. A column with two values
    becomes -1 and 1, a constant one 0.

    NaN is ignored by `fit` and kept by `transform`. Strictly increasing maps of a column leave the
    scores of its training rows as they are, exactly so up to 2000 distinct values; beyond, the map
    is kept at both sides of 1000 even steps in the share of rows and is linear in between.
    """

    _MAX_SCORE = 3.5
    _MAX_STRETCH = 2.0
    _STEPS = 1000

    def fit(self, matrix: NDArray[np.float64]) -> RankScaler:
        """Learn the map of each column of a matrix (n, m)."""
        self.maps_ = [self._map(column[~np.isnan(column)]) for column in matrix.T]
        return self

    def transform(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of a matrix (n, m), in the same shape."""
        scored = np.empty(matrix.shape)
        for position, (knots, scores) in enumerate(self.maps_):
            # Steps between the smallest numbers have no slope that is a number.
            power = -exponent(knots)
            with np.errstate(over="ignore"):
                values = np.ldexp(matrix[:, position], power)
            scored[:, position] = np.interp(values, np.ldexp(knots, power), scores)
        return scored

    def _map(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Distinct values and their scores, (k,) each, for one column without its NaN."""
        distinct, counts = np.unique(values, return_counts=True)
        if len(distinct) == 1:
            return distinct, np.zeros(1)
        if len(distinct) == 2:
            return distinct, np.array([-1.0, 1.0])
        share = (np.cumsum(counts) - counts / 2) / len(values)
        scores = np.clip(ndtri(share), -self._MAX_SCORE, self._MAX_SCORE)
        scores -= np.average(scores, weights=counts)
        spread = np.sqrt(np.average(scores**2, weights=counts))
        scores *= min(1 / spread, self._MAX_STRETCH)
        if len(distinct) > 2 * self._STEPS:
            # Even in share, not in value: knots where the rows are. Both neighbours of a step are
            # kept, so that a large group of ties does not blur into the values beside it.
            above = np.searchsorted(share, np.linspace(share[0], share[-1], self._STEPS))
            kept = np.unique([above, np.maximum(above - 1, 0)])
            distinct, scores = distinct[kept], scores[kept]
        return distinct, scores
