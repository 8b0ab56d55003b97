"""SBP: the penalty by simple random sampling of the sensitive attribute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from equipoise.critic import CriticGame, CriticSettings, Weights
from equipoise.density_ratio import RatioKind, fit_density_ratio
from equipoise.errors import InputError
from equipoise.methods.declaration import Capabilities, Declaration
from equipoise.notions import Notion
from equipoise.training import Member, TrainingData
from equipoise.training.data import take
from equipoise.training.members import generators


class SBP:
    """Sohn, Song and Lin 2024: critics compare (score, a[, y]) with (score, a'[, y]).

    Under separation resampled pairs carry a density ratio as weight; ``density_ratio="none"``
    is their SBP_NW.
    """

    def __init__(
        self,
        data: TrainingData,
        members: Sequence[Member],
        *,
        penalized_width: int,
        notion: Notion,
        critic: CriticSettings,
        density_ratio: RatioKind,
    ) -> None:
        if data.attribute is None:
            raise InputError("sensitive_features is required unless strength=0")
        self._data = data
        self._attribute = data.attribute
        self._outcome = data.outcome if notion.conditions_on_outcome else None
        self._density_ratio = (
            fit_density_ratio(data, members, kind=density_ratio)
            if notion.conditions_on_outcome
            else None
        )
        self._game = CriticGame(
            penalized_width,
            data.attribute.shape[1],
            0 if self._outcome is None else self._outcome.shape[1],
            settings=critic,
            generators=generators([member.seed for member in members], "critic"),
        ).to(data.x)
        self._game.start()
        self.networks: nn.Module = self._game

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Train the critics on this batch and return their value (K,)."""
        return self._game.play(penalized, *self._pairs(rows, resampled))

    @torch.no_grad()
    def value(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Return the critics' value (K,) on these rows; nothing is trained."""
        return self._game.value(penalized, *self._pairs(rows, resampled))

    def _pairs(
        self, rows: Tensor, resampled: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None, Weights]:
        """What the critics see beside the score, for real and resampled pairs, and weights."""
        real, drawn = self._data.pair_weights(rows, resampled)
        if self._density_ratio is not None:
            beta = self._density_ratio(rows, resampled)
            drawn = beta if drawn is None else beta * drawn
        return (
            take(self._attribute, rows),
            take(self._attribute, resampled),
            None if self._outcome is None else take(self._outcome, rows),
            (real, drawn),
        )


DECLARATION = Declaration(
    name="sbp",
    title="Penalty by simple random sampling",
    reference="Sohn, Song and Lin (2024), Fair supervised learning with a simple random sampler "
    "of sensitive attributes, AISTATS",
    summary="A critic tells pairs of score and A from pairs in which A was drawn at random; the "
    "predictor learns to leave it guessing.",
    capabilities=Capabilities(),
    build=SBP,
    options=frozenset({"divergence", "density_ratio", "gradient_penalty"}),
)


def _without_ratio(*arguments: Any, density_ratio: Any, **options: Any) -> SBP:
    return SBP(*arguments, density_ratio="none", **options)


WITHOUT_RATIO = replace(
    DECLARATION,
    name="sbp_nw",
    title="Penalty by simple random sampling, without weights",
    summary="SBP whose resampled pairs carry no density ratio: under separation the penalty also "
    "counts what Y tells about A.",
    build=_without_ratio,
    options=frozenset({"divergence", "gradient_penalty"}),
)
