"""SBP: the penalty by simple random sampling of the sensitive attribute."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from equipoise.critic import Weights
from equipoise.density_ratio import DensityRatio, NetworkRatio, build_density_ratio
from equipoise.methods.declaration import GAME, Capabilities, Context, Declaration
from equipoise.training import phases_of
from equipoise.training.data import take


class SBP:
    """Sohn, Song and Lin 2024: critics compare (score, a[, y]) with (score, a'[, y]).

    Under separation resampled pairs are weighted by a density ratio; ``density_ratio="none"`` is
    the paper's SBP_NW.
    """

    def __init__(self, context: Context, *, density_ratio: DensityRatio | None = None) -> None:
        self._data = context.data
        self._attribute = context.attribute
        self._outcome = context.outcome
        if density_ratio is None and self._outcome is not None:
            given = context.data, context.members
            density_ratio = build_density_ratio(*given, kind=context.density_ratio)
        self._density_ratio = density_ratio
        self.phases = phases_of(self._density_ratio)
        self._game = context.game(self._attribute.shape[1], self._outcome)
        self.networks: nn.Module = self._game

    def part(self, context: Context, members: slice) -> SBP:
        """Return the method of some members, for whom the phases of this one train, too."""
        assert isinstance(self._density_ratio, NetworkRatio)
        return SBP(context, density_ratio=self._density_ratio.part(members))

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        return self._game.play(penalized, *self._pairs(rows, resampled))

    def _pairs(
        self, rows: Tensor, resampled: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None, Weights]:
        """Return attributes, resampled attributes, outcomes and weights of the pairs."""
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
    options=GAME | {"density_ratio"},
    by_batch=True,
)


WITHOUT_RATIO = replace(
    DECLARATION,
    name="sbp_nw",
    title="Penalty by simple random sampling, without weights",
    summary="SBP whose resampled pairs carry no density ratio: under separation the penalty also "
    "counts what Y tells about A.",
    build=lambda context: SBP(replace(context, density_ratio="none")),
    options=GAME,
)
