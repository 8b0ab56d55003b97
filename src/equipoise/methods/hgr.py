"""Soft maximal correlation: networks look for correlated functions of the score and A."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from equipoise.critic import CriticSettings, frozen
from equipoise.methods.batch_penalties import standardized
from equipoise.methods.declaration import CRITIC, Capabilities, Context, Declaration
from equipoise.networks import StackedMLP
from equipoise.training.optimizers import minimize


def soft_correlation(left: Tensor, right: Tensor, weight: Tensor) -> Tensor:
    """E[f g] - var(f) var(g) / 2 for f and g with mean zero, (K,) (Wang et al. 2019).

    Its maximum over all f and g is half the squared maximal correlation, which is 0 exactly at
    independence. left, right: values of f and g, (K, B). weight: (K, B), summing to one.
    """
    f, g = (values - (values * weight).sum(-1, keepdim=True) for values in (left, right))
    variances = [(part.square() * weight).sum(-1) for part in (f, g)]
    return (f * g * weight).sum(-1) - variances[0] * variances[1] / 2


class CorrelatedPair(nn.Module):
    """K pairs of networks f and g that look for correlated functions of two variables."""

    def __init__(
        self, widths: Iterable[int], settings: CriticSettings, starts: Sequence[torch.Generator]
    ) -> None:
        super().__init__()
        shape = partial(StackedMLP, generators=starts, normalization=settings.normalization)
        self.left, self.right = (shape(width, settings.hidden, 1) for width in widths)

    def forward(self, left: Tensor, right: Tensor, weight: Tensor) -> Tensor:
        """Return the soft correlation (K,) of f(left) and g(right), inputs (K, B, width)."""
        return soft_correlation(self.left(left)[..., 0], self.right(right)[..., 0], weight)


def joint(attribute: Tensor, outcome: Tensor) -> Tensor:
    """The variable (A, Y), (n, q + v): attributes (n, q) and outcomes (n, v) side by side."""
    return torch.cat([attribute, outcome], 1)


class SoftHGR:
    """Lee et al. 2022, with networks of one output as in the experiments of Sohn et al. 2024.

    For independence the penalty is HGR(score, A), with two networks. For separation it is
    HGR(score, (A, Y)) - HGR(score, Y), which is what A adds to Y, with four networks. ``both``
    makes the variable (A, Y). Widths, normalization, steps and optimizer are those of a critic.
    """

    def __init__(
        self, context: Context, *, both: Callable[[Tensor, Tensor], Tensor] = joint
    ) -> None:
        self._data = context.data
        self._steps = context.critic.steps
        self._partners = [context.attribute]
        if context.outcome is not None:
            self._partners = [both(context.attribute, context.outcome), context.outcome]
        starts = context.generators("critic")
        self.networks: nn.Module = nn.ModuleList(
            CorrelatedPair((context.penalized_width, partner.shape[1]), context.critic, starts)
            for partner in self._partners
        ).to(self._data.x)
        self._optimizer = context.critic.optimizer.build(self.networks.parameters())

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        weight = self._data.row_weights(rows)
        score = standardized(penalized, weight)
        partners = [partner[rows] for partner in self._partners]
        for _ in range(self._steps):
            found = self._values(score.detach(), partners, weight)
            minimize(-torch.stack(found).sum(0), self._optimizer)
        with frozen(self.networks):
            found = self._values(score, partners, weight)
        return found[0] - found[1] if len(found) == 2 else found[0]

    def _values(self, score: Tensor, partners: list[Tensor], weight: Tensor) -> list[Tensor]:
        pairs = zip(self.networks.children(), partners, strict=True)
        return [pair(score, partner, weight) for pair, partner in pairs]


DECLARATION = Declaration(
    name="hgr",
    title="Soft maximal correlation",
    reference="Lee, Bu, Sattigeri, Panda, Wornell, Karlinsky and Feris (2022), A maximal "
    "correlation approach to imposing fairness in machine learning, ICASSP",
    summary="Two networks look for correlated functions of the score and A, and the predictor "
    "learns to prevent the correlation; under separation two more find what Y alone explains.",
    capabilities=Capabilities(),
    build=SoftHGR,
    options=CRITIC,
)
