"""SBP: the penalty by simple random sampling of the sensitive attribute."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from equipoise.critic import CriticGame, CriticSettings
from equipoise.density_ratio import RatioKind, fit_density_ratio
from equipoise.errors import InputError
from equipoise.notions import Notion
from equipoise.training import Member, TrainingData
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
        penalised_width: int,
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
            penalised_width,
            data.attribute.shape[1],
            0 if self._outcome is None else self._outcome.shape[1],
            settings=critic,
            generators=generators([member.seed for member in members], "critic"),
        ).to(data.x)
        self._game.start()
        self.networks: nn.Module = self._game

    def penalty(self, penalised: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Train the critics on this batch and return their value (K,)."""
        real, drawn = self._data.pair_weights(rows, resampled)
        if self._density_ratio is not None:
            beta = self._density_ratio(rows, resampled)
            drawn = beta if drawn is None else beta * drawn
        return self._game.play(
            penalised,
            self._attribute[rows],
            self._attribute[resampled],
            None if self._outcome is None else self._outcome[rows],
            (real, drawn),
        )
