"""Distance covariance of score and A within the batch."""

from __future__ import annotations

from torch import Tensor

from equipoise.methods.declaration import Capabilities, Declaration
from equipoise.methods.shared.batch import BatchPenalty, distances, pair_covariance, standardized


class DistanceCovariance(BatchPenalty):
    """Squared distance covariance of the standardized score and A (Huang and Liu 2024).

    The sample version of Szekely, Rizzo and Bakirov (2007), zero in the population exactly at
    independence. For separation it is conditional on Y (Wang et al. 2015), here by the average
    over strata of Y.
    """

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        weight, shares = self._stratified(rows)
        score = standardized(penalized, self._data.row_weights(rows))
        attribute = distances(self._attribute[rows])
        return (pair_covariance(distances(score), attribute, weight) * shares).sum(-1)


DECLARATION = Declaration(
    name="dcov",
    title="Distance covariance",
    reference="Huang and Liu (2024), Bridging fairness gaps: a (conditional) distance covariance "
    "perspective in fairness learning, arXiv:2412.00720",
    summary="Penalizes the distance covariance of score and A within the batch; under separation, "
    "within strata of Y.",
    capabilities=Capabilities(),
    build=DistanceCovariance,
)
