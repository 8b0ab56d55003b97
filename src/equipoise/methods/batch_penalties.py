"""Penalties that are a formula of the batch: distance covariance, HSIC, GDP and rates by KDE.

Separation compares rows within strata of the outcome: each class of a discrete one, and of a
continuous one :data:`OUTCOME_PARTS` parts of equal frequency. Independence has one stratum, all
rows. Distance covariance and HSIC are one formula of matrices of pairs (K, B, B), weighted and
within strata (Sejdinovic et al. 2013).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss

from equipoise.errors import InputError
from equipoise.methods.declaration import Capabilities, Context, Declaration
from equipoise.notions import Notion
from equipoise.training import TrainingData

#: Parts of equal frequency that a continuous outcome is cut into. More parts follow Y more closely
#: and leave fewer rows of a batch in each.
OUTCOME_PARTS = 5
#: Added to variances, so that roots have gradients where these are zero.
_TINY = 1e-6


class BatchPenalty:
    """What these methods share: strata, and no networks."""

    def __init__(self, context: Context) -> None:
        self._attribute = context.attribute
        self._data = context.data
        self._stratum = _stratum(context.data, context.notion)
        self._strata = int(self._stratum.max()) + 1
        self.networks: nn.Module = nn.Module()

    def _stratified(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights of rows within strata (K, C, B), and shares of the strata (K, C).

        rows: (K, B). Weights sum to one in every stratum that has rows and to zero in the others;
        shares sum to one. Rows without known attributes weigh nothing, the others their sample
        weight.
        """
        weight = self._data.row_weights(rows)
        number = torch.arange(self._strata, device=rows.device)[:, None]
        member = weight[:, None] * (self._stratum[rows][:, None] == number)
        share = member.sum(-1)
        return member / share.clamp_min(1e-12)[..., None], share


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


DCOV = Declaration(
    name="dcov",
    title="Distance covariance",
    reference="Huang and Liu (2024), Bridging fairness gaps: a (conditional) distance covariance "
    "perspective in fairness learning, arXiv:2412.00720",
    summary="Penalizes the distance covariance of score and A within the batch; under separation, "
    "within strata of Y.",
    capabilities=Capabilities(),
    build=DistanceCovariance,
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


HSIC = Declaration(
    name="hsic",
    title="Hilbert-Schmidt independence criterion",
    reference="Perez-Suay, Laparra, Mateo-Garcia, Munoz-Mari, Gomez-Chova and Camps-Valls (2017), "
    "Fair kernel learning, ECML PKDD",
    summary="Penalizes the normalized HSIC (Gaussian kernels) of score and A within the batch; "
    "under separation, within strata of Y.",
    capabilities=Capabilities(),
    build=NormalizedHSIC,
)


#: Width of the kernel on A, whose continuous columns have variance one. It is small enough to keep
#: groups apart (at their distance of at least 1 the kernel is below 0.004), and about what suits a
#: batch of 300: 300^(-1/5) standard deviations.
PARITY_WIDTH = 0.3


class GeneralizedParity(BatchPenalty):
    """E abs(m(A) - m) with m(a) = E[score given A = a], m = E[score] (Jiang et al. 2022).

    m(a) by kernel regression on the batch. For separation within strata of Y; for several columns
    of scores, their mean.
    """

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        weight, shares = self._stratified(rows)
        kernel = gaussian_kernel(self._attribute[rows], PARITY_WIDTH)
        return (parity(penalized, kernel, weight) * shares).sum(-1)


def parity(score: Tensor, kernel: Tensor, weight: Tensor) -> Tensor:
    """Mean distance of local from overall means, (K, C).

    score: (K, B, w). kernel: (K, B, B) between the rows' attributes. weight: (K, C, B).
    """
    near = weight[:, :, None] * kernel[:, None]
    sums = near @ score[:, None]
    local = sums / near.sum(-1, keepdim=True).clamp_min(1e-12)
    overall = torch.einsum("kcb,kbw->kcw", weight, score)
    return torch.einsum("kcb,kcbw->kcw", weight, (local - overall[:, :, None]).abs()).mean(-1)


GDP = Declaration(
    name="gdp",
    title="Generalized demographic parity",
    reference="Jiang, Han, Fan, Yang, Mostafavi and Hu (2022), Generalized demographic parity for "
    "group fairness, ICLR",
    summary="Penalizes how far the mean score among people of similar A lies from the mean score; "
    "under separation, within strata of Y.",
    # It is in units of the score; a representation has none and could shrink without changing.
    capabilities=Capabilities(representation=False, controls="mean"),
    build=GeneralizedParity,
)


#: Width of the kernel, and the score above which a decision is positive.
BANDWIDTH = 0.02
THRESHOLD = 0.5


class KernelDensity(BatchPenalty):
    """Cho, Hwang and Suh 2020: DDP for independence, DEO for separation.

    The sum over groups z (and classes y) of Huber(P(decision = 1 | z, y) - P(decision = 1 | y)),
    probabilities from a Gaussian kernel density estimate of the score. They are exact normal tails
    here; the paper approximates these for speed.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        cell = context.data.attribute_cell
        if cell is None:
            raise InputError("method='kde' needs discrete sensitive features")
        # Cells that nobody is in would cost time and change nothing.
        occupied, self._group = torch.unique(cell.clamp_min(0), return_inverse=True)
        self._groups = len(occupied)

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        weight, _ = self._stratified(rows)
        number = torch.arange(self._groups, device=rows.device)[:, None]
        group = (self._group[rows][:, None] == number).to(penalized.dtype)
        return unequal_rates(positive_probability(penalized.squeeze(-1)), group, weight)


def positive_probability(score: Tensor) -> Tensor:
    """Each row's share in the estimate of P(score > threshold): a normal tail, shape of score.

    >>> positive_probability(torch.tensor([0.5, 0.54])).numpy().round(4)
    array([0.5   , 0.9772], dtype=float32)
    """
    probability: Tensor = torch.special.ndtr((score - THRESHOLD) / BANDWIDTH)
    return probability


def unequal_rates(positive: Tensor, group: Tensor, weight: Tensor) -> Tensor:
    """Sum over groups and strata of Huber(rate in the group - rate in the stratum), (K,).

    positive: (K, B). group: (K, G, B) of zeros and ones. weight: (K, C, B). A group that a stratum
    of this batch lacks adds nothing.
    """
    overall = (weight * positive[:, None]).sum(-1, keepdim=True)
    size = weight @ group.transpose(1, 2)
    rate = (weight * positive[:, None]) @ group.transpose(1, 2) / size.clamp_min(1e-12)
    difference = torch.where(size > 0, rate - overall, 0)
    loss = huber_loss(difference, torch.zeros_like(difference), reduction="none")
    return loss.sum((-2, -1))


KDE = Declaration(
    name="kde",
    title="Kernel density estimation",
    reference="Cho, Hwang and Suh (2020), A fair classifier using kernel density estimation, "
    "NeurIPS",
    summary="Penalizes differences between groups in a smooth estimate of the rate of positive "
    "decisions at the threshold 0.5; under separation, within classes of Y.",
    capabilities=Capabilities(
        continuous=False,
        mixed=False,
        many_classes=False,
        numbers=False,
        representation=False,
        controls="decisions",
    ),
    build=KernelDensity,
)


def _stratum(data: TrainingData, notion: Notion) -> Tensor:
    """Number of the stratum of every training row, (n,)."""
    if not notion.conditions_on_outcome:
        return torch.zeros(len(data), dtype=torch.long, device=data.x.device)
    if data.outcome_class is not None:
        return data.outcome_class
    outcome = data.outcome[:, 0].contiguous()
    order = outcome.sort().values
    places = torch.arange(1, OUTCOME_PARTS, device=order.device) * len(order) // OUTCOME_PARTS
    # Equal outcomes fall into one part, whatever their number.
    return torch.searchsorted(torch.unique(order[places]), outcome, right=True)


def standardized(values: Tensor, weight: Tensor) -> Tensor:
    """Columns of (K, B, w) moved and scaled to weighted mean 0 and variance 1.

    A score then cannot escape a penalty by shrinking. weight: (K, B), summing to one.
    """
    centered = values - _mean(values, weight)
    return centered / (_mean(centered.square(), weight) + _TINY).sqrt()


def distances(values: Tensor) -> Tensor:
    """Euclidean distances between rows of (K, B, w), with gradient 0 at zero; (K, B, B).

    Computed from differences. Trees score many rows alike, and a product's rounding error would be
    the whole gradient between them.
    """
    return torch.cdist(values, values, compute_mode="donot_use_mm_for_euclid_dist")


def gaussian_kernel(values: Tensor, width: float) -> Tensor:
    """exp(-d^2 / (2 width^2)) for rows of (K, B, w); (K, B, B)."""
    square = values.square().sum(-1)
    product = values @ values.transpose(1, 2)
    squared_distance = (square[:, :, None] + square[:, None, :] - 2 * product).clamp_min(0)
    return (squared_distance / (-2 * width**2)).exp()


def pair_covariance(left: Tensor, right: Tensor, weight: Tensor) -> Tensor:
    """Covariance of two matrices of pairs after centering both doubly, (K, C).

    sum_ij w_i w_j l_ij r_ij - 2 sum_i w_i l_i. r_i. + l.. r.., where a dot is a weighted mean: a
    V-statistic, never negative for distances and for kernels. left, right: (K, B, B).
    weight: (K, C, B), summing to one over rows.
    """
    of_left, of_right = weight @ left, weight @ right
    products = (weight @ (left * right) * weight).sum(-1)
    means = (of_left * weight).sum(-1) * (of_right * weight).sum(-1)
    return products - 2 * (of_left * of_right * weight).sum(-1) + means


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    """Weighted mean over the rows of (K, B, w); (K, 1, w)."""
    return torch.einsum("kb,kbw->kw", weight, values).unsqueeze(1)
