"""The game that asks for separation: critics compare (score, a, y) with (score, a', y), a' given y.

If a' follows P(A | Y), the two laws agree exactly where the score is independent of A given Y.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from equipoise.critic import CriticGame, CriticSettings
from equipoise.errors import InputError
from equipoise.methods.donors import Donors
from equipoise.methods.strata import row_weights
from equipoise.training import Member, TrainingData
from equipoise.training.members import generators


def covariance_gap(score: Tensor, attribute: Tensor, resampled: Tensor, weight: Tensor) -> Tensor:
    """Sum over columns of (cov(score, A) - cov(score, A'))^2, (K,).

    score: (K, B, w). attribute, resampled: (K, B, q). weight: (K, B), summing to one.
    """
    weighted = score * weight[..., None]
    centered = weighted - weight[..., None] * weighted.sum(1, keepdim=True)
    # Both covariances have the same centered score, so their difference is one product.
    return (centered.transpose(1, 2) @ (attribute - resampled)).square().sum((1, 2))


class ConditionalGame:
    """Critics in a game about donors drawn given Y; with ``covariance`` the gap above is added."""

    def __init__(
        self,
        data: TrainingData,
        members: Sequence[Member],
        donors: Donors,
        *,
        penalized_width: int,
        critic: CriticSettings,
        covariance: bool,
    ) -> None:
        self._data = data
        self._attribute = known_attribute(data)
        self.donors = donors
        self._covariance = covariance
        self._game = CriticGame(
            penalized_width,
            self._attribute.shape[1],
            data.outcome.shape[1],
            settings=critic,
            generators=generators([member.seed for member in members], "critic"),
        ).to(data.x)
        self._game.start()
        self.networks: nn.Module = self._game

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Train the critics on this batch and return their value, and the gap, (K,)."""
        # Donors were drawn in proportion to their weights, so those of the rows remain.
        weight, _ = self._data.pair_weights(rows, rows)
        attribute = self._attribute[rows]
        drawn = self._attribute[self.donors(rows, resampled)]
        value = self._game.play(
            penalized, attribute, drawn, self._data.outcome[rows], (weight, weight)
        )
        if not self._covariance:
            return value
        return value + covariance_gap(penalized, attribute, drawn, row_weights(self._data, rows))


def known_attribute(data: TrainingData) -> Tensor:
    """The attributes (n, q), zeros where unknown, so that nothing can depend on them there."""
    if data.attribute is None:
        raise InputError("sensitive_features is required unless strength=0")
    if data.known is None:
        return data.attribute
    return torch.where(data.known[:, None], data.attribute, 0.0)
