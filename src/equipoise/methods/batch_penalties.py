"""Penalties that are formulas of the batch: distance covariance, HSIC, parity, decision rates.

They train no networks. Under separation rows are compared within strata of the outcome: the classes
of a discrete outcome, or :data:`OUTCOME_PARTS` parts of equal frequency of a continuous one. Under
independence all rows are one stratum.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss

from equipoise.methods.declaration import Capabilities, Context, Declaration
from equipoise.training.data import take

#: Number of parts of a continuous outcome. More parts follow Y more closely but leave fewer rows of
#: a batch in each part.
OUTCOME_PARTS = 5
#: Added to variances, so that their square roots have gradients at zero.
TINY = 1e-6


class BatchPenalty:
    """The part that these methods share: strata of the rows, and no networks."""

    def __init__(self, context: Context) -> None:
        self._attribute = context.attribute
        self._data = context.data
        self._conditional = context.notion.conditions_on_outcome
        every = context.data.to_build_for
        #: Where the parts of a continuous outcome begin, but the first.
        self._ends = _ends(every.outcome[:, 0])
        self._strata = 1
        if self._conditional:
            classes = every.outcome_class
            self._strata = len(self._ends) + 1 if classes is None else int(classes.max()) + 1
        self.networks: nn.Module = nn.Module()

    def _stratum(self, rows: Tensor) -> Tensor:
        """Return the number of the stratum of each row (K, B)."""
        if not self._conditional:
            return torch.zeros_like(rows)
        if self._data.outcome_class is not None:
            return take(self._data.outcome_class, rows)
        # Equal outcomes always fall into the same part.
        return torch.searchsorted(self._ends, take(self._data.outcome[:, 0], rows), right=True)

    def _stratified(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights of rows within strata (K, C, B), and shares of the strata (K, C).

        rows: (K, B). In every stratum that has rows, weights sum to one. Shares sum to one. Rows
        with unknown attributes have weight 0, the others are weighted by their sample weight.
        """
        weight = self._data.row_weights(rows)
        number = torch.arange(self._strata, device=rows.device)[:, None]
        in_stratum = weight[:, None] * (self._stratum(rows)[:, None] == number)
        share = in_stratum.sum(-1)
        return in_stratum / share.clamp_min(1e-12)[..., None], share


def _ends(outcome: Tensor) -> Tensor:
    """Return the distinct values (at most 4,) that cut an outcome (n,) into equal parts."""
    order = outcome.sort().values
    ends = torch.arange(1, OUTCOME_PARTS, device=order.device) * len(order) // OUTCOME_PARTS
    distinct: Tensor = torch.unique(order[ends])
    return distinct


def standardized(values: Tensor, weight: Tensor) -> Tensor:
    """Columns of (K, B, w), shifted and scaled to weighted mean 0 and variance 1.

    A predictor then cannot lower a penalty by shrinking its score. weight: (K, B), summing to one.
    """
    centered = values - _column_means(values, weight)
    return centered / (_column_means(centered.square(), weight) + TINY).sqrt()


def _column_means(values: Tensor, weight: Tensor) -> Tensor:
    """Weighted means over the rows of (K, B, w); (K, 1, w)."""
    return torch.einsum("kb,kbw->kw", weight, values).unsqueeze(1)


def _gaussian_kernel(values: Tensor, width: float) -> Tensor:
    """exp(-d^2 / (2 width^2)) between the rows of (K, B, w); (K, B, B)."""
    square = values.square().sum(-1)
    product = values @ values.transpose(1, 2)
    squared_distance = (square[:, :, None] + square[:, None, :] - 2 * product).clamp_min(0)
    return (squared_distance / (-2 * width**2)).exp()


def _pair_covariance(left: Tensor, right: Tensor, weight: Tensor) -> Tensor:
    """Covariance (K, C) of two pairwise matrices (K, B, B) after double centering.

    sum_ij w_i w_j l_ij r_ij - 2 sum_i w_i l_i. r_i. + l.. r.., where a dot is a weighted mean. For
    distances it is the distance covariance, for kernels HSIC (Sejdinovic et al. 2013). For both it
    is a V-statistic that is never negative. weight: (K, C, B), summing to one over rows.
    """
    left_means, right_means = weight @ left, weight @ right
    products = (weight @ (left * right) * weight).sum(-1)
    means = (left_means * weight).sum(-1) * (right_means * weight).sum(-1)
    return products - 2 * (left_means * right_means * weight).sum(-1) + means


class DistanceCovariance(BatchPenalty):
    """Squared distance covariance of the standardized score and A (Huang and Liu 2024).

    This is the sample version of Szekely, Rizzo and Bakirov (2007). In the population it is zero
    exactly at independence. For separation it is conditional on Y (Wang et al. 2015), here as the
    average over strata of Y.
    """

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        weight, shares = self._stratified(rows)
        score = standardized(penalized, self._data.row_weights(rows))
        attribute = _distances(self._attribute[rows])
        return (_pair_covariance(_distances(score), attribute, weight) * shares).sum(-1)


def _distances(values: Tensor) -> Tensor:
    """Euclidean distances between rows of (K, B, w), with gradient 0 at zero; (K, B, B).

    Computed from differences. Trees give many rows the same score, and between those the gradient
    of a formula with products would be nothing but rounding error.
    """
    return torch.cdist(values, values, compute_mode="donot_use_mm_for_euclid_dist")


DCOV = Declaration(
    name="dcov",
    title="Distance covariance",
    reference="Huang and Liu (2024), Bridging fairness gaps: a (conditional) distance covariance "
    "perspective in fairness learning, arXiv:2412.00720",
    summary="Penalizes the distance covariance of score and A within the batch; under separation, "
    "within strata of Y.",
    capabilities=Capabilities(),
    build=DistanceCovariance,
    by_batch=True,
)


#: Width of the Gaussian kernels for one column, in standard deviations. Distances grow with the
#: square root of the number of columns, and so does the width.
HSIC_WIDTH = 1.0


class NormalizedHSIC(BatchPenalty):
    """Normalized HSIC of the standardized score and A with Gaussian kernels.

    HSIC(score, A) / sqrt(HSIC(score, score) HSIC(A, A)), each the biased estimate of Gretton et al.
    (2005). It lies in [0, 1], and in the population it is zero exactly at independence. It is the
    centered alignment of Cortes, Mohri and Rostamizadeh (2012). Without the division the penalty is
    so small that only strengths above 0.99 would have an effect. For separation each HSIC is the
    average over strata of Y.
    """

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        weight, shares = self._stratified(rows)
        score = standardized(penalized, self._data.row_weights(rows))
        score_kernel, attribute_kernel = (
            _gaussian_kernel(values, HSIC_WIDTH * values.shape[-1] ** 0.5)
            for values in (score, self._attribute[rows])
        )

        def hsic(left: Tensor, right: Tensor) -> Tensor:
            return (_pair_covariance(left, right, weight) * shares).sum(-1)

        both = hsic(score_kernel, attribute_kernel)
        alone = hsic(score_kernel, score_kernel) * hsic(attribute_kernel, attribute_kernel)
        return both / alone.clamp_min(1e-12).sqrt()


HSIC = Declaration(
    name="hsic",
    title="Hilbert-Schmidt independence criterion",
    reference="Perez-Suay, Laparra, Mateo-Garcia, Munoz-Mari, Gomez-Chova and Camps-Valls (2017), "
    "Fair kernel learning, ECML PKDD",
    summary="Penalizes the normalized HSIC (Gaussian kernels) of score and A within the batch; "
    "under separation, within strata of Y.",
    capabilities=Capabilities(),
    build=NormalizedHSIC,
    by_batch=True,
)


#: Width of the kernel on A, whose continuous columns have variance one. It is small enough to keep
#: groups apart (they differ by at least 1, where the kernel is below 0.004), and about right for a
#: batch of 300 rows: 300^(-1/5) standard deviations.
PARITY_WIDTH = 0.3


class GeneralizedParity(BatchPenalty):
    """E abs(m(A) - m), where m(a) = E[score given A = a] and m = E[score] (Jiang et al. 2022).

    m(a) is estimated by kernel regression on the batch, for separation within strata of Y. For
    several columns of scores the penalty is their mean.
    """

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        weight, shares = self._stratified(rows)
        kernel = _gaussian_kernel(self._attribute[rows], PARITY_WIDTH)
        return (_parity(penalized, kernel, weight) * shares).sum(-1)


def _parity(score: Tensor, kernel: Tensor, weight: Tensor) -> Tensor:
    """Mean distance of local means from the overall mean, (K, C).

    score: (K, B, w). kernel: (K, B, B), between the attributes of rows. weight: (K, C, B).
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
    # The penalty is in units of the score. A representation has no units: it could shrink instead.
    capabilities=Capabilities(representation=False, controls="mean"),
    build=GeneralizedParity,
    by_batch=True,
)


#: Width of the kernel on the score, and the score above which a decision is positive.
BANDWIDTH = 0.02
THRESHOLD = 0.5


class KernelDensity(BatchPenalty):
    """Cho, Hwang and Suh 2020: DDP for independence, DEO for separation.

    The sum over groups z (and classes y) of Huber(P(decision = 1 | z, y) - P(decision = 1 | y)).
    The probabilities come from a Gaussian kernel density estimate of the score. Here they are exact
    normal tails; the paper approximates these for speed.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        cell, every = context.data.attribute_cell, context.data.to_build_for.attribute_cell
        assert cell is not None and every is not None  # continuous attributes were refused already
        self._cell = cell
        # Empty cells would cost time and change nothing.
        self._occupied = torch.unique(every.clamp_min(0))

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        weight, _ = self._stratified(rows)
        cell = take(self._cell, rows).clamp_min(0)[:, None]
        group = (cell == self._occupied[:, None]).to(penalized.dtype)
        return unequal_rates(positive_probability(penalized.squeeze(-1)), group, weight)


def positive_probability(score: Tensor) -> Tensor:
    """Each row's term in the estimate of P(score > threshold), a normal tail; shape of score."""
    probability: Tensor = torch.special.ndtr((score - THRESHOLD) / BANDWIDTH)
    return probability


def unequal_rates(positive: Tensor, group: Tensor, weight: Tensor) -> Tensor:
    """Sum over groups and strata of Huber(rate in the group - rate in the stratum), (K,).

    positive: (K, B). group: (K, G, B), zeros and ones. weight: (K, C, B). A group without rows in a
    stratum of this batch adds nothing.
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
    by_batch=True,
)
