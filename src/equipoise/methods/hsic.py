"""Normalized HSIC of score and A within the batch."""

from __future__ import annotations

from torch import Tensor

from equipoise.methods.declaration import Capabilities, Declaration
from equipoise.methods.shared.batch import (
    BatchPenalty,
    gaussian_kernel,
    pair_covariance,
    standardized,
)

#: Width of the Gaussian kernels for one column; score and A are in standard units. Distances grow
#: with the square root of the number of columns, and so does the width.
HSIC_WIDTH = 1.0


class NormalizedHSIC(BatchPenalty):
    """Normalized HSIC of the standardized score and A with Gaussian kernels.

    HSIC(score, A) / sqrt(HSIC(score, score) HSIC(A, A)), each the biased estimate of Gretton et al.
    (2005), lies in [0, 1] and is zero in the population exactly at independence. It is the centered
    alignment of Cortes, Mohri and Rostamizadeh (2012). Without the division the penalty is so small
    that only strengths above 0.99 would have an effect. For separation each HSIC is the average
    over strata of Y.
    """

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        weight, shares = self._stratified(rows)
        score = standardized(penalized, self._data.row_weights(rows))
        of_score, of_attribute = (
            gaussian_kernel(values, HSIC_WIDTH * values.shape[-1] ** 0.5)
            for values in (score, self._attribute[rows])
        )
        both, score_alone, attribute_alone = (
            (pair_covariance(left, right, weight) * shares).sum(-1)
            for left, right in (
                (of_score, of_attribute),
                (of_score, of_score),
                (of_attribute, of_attribute),
            )
        )
        return both / (score_alone * attribute_alone).clamp_min(1e-12).sqrt()


DECLARATION = Declaration(
    name="hsic",
    title="Hilbert-Schmidt independence criterion",
    reference="Perez-Suay, Laparra, Mateo-Garcia, Munoz-Mari, Gomez-Chova and Camps-Valls (2017), "
    "Fair kernel learning, ECML PKDD",
    summary="Penalizes the normalized HSIC (Gaussian kernels) of score and A within the batch; "
    "under separation, within strata of Y.",
    capabilities=Capabilities(),
    build=NormalizedHSIC,
)
