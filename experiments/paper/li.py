"""Adversarial matching: a critic tells the scores of one group from those of the other."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from equipoise.critic import CriticGame, CriticSettings
from equipoise.density_ratio import RatioKind, fit_density_ratio
from equipoise.errors import InputError
from equipoise.methods.declaration import Capabilities, Declaration
from equipoise.methods.shared.batch_statistics import row_weights
from equipoise.notions import Notion
from equipoise.training import Member, TrainingData
from equipoise.training.data import mean_one
from equipoise.training.members import generators


class GroupMatching:
    """Li et al. 2021: the loss of a GAN between P(score | A = 1) and P(score | A = 0).

    Written after its description in Sohn, Song and Lin 2024, section 2; we had no access to the
    paper itself. Under separation the critic sees Y as well, and rows weigh p(a) p(y) / p(a, y), so
    that both groups have the same law of Y and only scores can tell them apart.
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
        if data.attribute_cell is None:
            raise InputError("method='li' needs discrete sensitive features")
        self._data = data
        self._group = (data.attribute_cell > 0).to(data.x.dtype)
        self._outcome = data.outcome if notion.conditions_on_outcome else None
        self._ratio = (
            fit_density_ratio(data, members, kind="counts")
            if notion.conditions_on_outcome
            else None
        )
        self._game = CriticGame(
            penalized_width,
            0,
            0 if self._outcome is None else self._outcome.shape[1],
            settings=critic,
            generators=generators([member.seed for member in members], "critic"),
        ).to(data.x)
        self._game.start()
        self.networks: nn.Module = self._game

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Train the critics on this batch and return their value (K,)."""
        weight = row_weights(self._data, rows)
        if self._ratio is not None:
            weight = weight / self._ratio(rows, rows).clamp_min(1e-12)
        group = self._group[rows]
        # The critic sees no attribute: which of the two kinds a row counts for is its weight.
        nothing = penalized[..., :0].detach()
        return self._game.play(
            penalized,
            nothing,
            nothing,
            None if self._outcome is None else self._outcome[rows],
            (mean_one(weight * group), mean_one(weight * (1 - group))),
        )


DECLARATION = Declaration(
    name="li",
    title="Adversarial matching of two groups",
    reference="Li and others (2021), As described by Sohn, Song and Lin (2024), section 2",
    summary="A critic tells the scores of one group from those of the other, as in a generative "
    "adversarial network; the predictor learns to leave it guessing.",
    capabilities=Capabilities(
        continuous=False, mixed=False, many_groups=False, numbers=False, representation=False
    ),
    build=GroupMatching,
    options=frozenset({"divergence", "gradient_penalty"}),
)
