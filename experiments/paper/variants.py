"""Methods that only the reproduction needs; importing this module registers them, unlisted.

Three do what the released program of Sohn, Song and Lin (2024), or their text, did otherwise than
the papers of the methods say. `li` is known to us only from its description in their paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor, nn

from equipoise.density_ratio import build_density_ratio
from equipoise.errors import InputError
from equipoise.methods import Capabilities, Context, Declaration, con, hgr, neu, register_method
from equipoise.methods.declaration import GAME
from equipoise.training.data import mean_one

CON_PLAIN = replace(
    con.DECLARATION,
    name="con_plain",
    title="Resampling given the outcome, by the critic alone",
    summary="As the text of Sohn, Song and Lin has it: the critic without the covariance term of "
    "the released programs.",
    build=partial(con.conditional_resampling, covariance=False),
)

HGR_PRODUCT = replace(
    hgr.DECLARATION,
    name="hgr_product",
    title="Soft maximal correlation with a product",
    summary="As the program of Sohn, Song and Lin did separation: the product of A and Y takes the "
    "place of (A, Y), so that A is forgotten wherever Y is 0.",
    # Indicators of several classes have no product with A; independence has no Y.
    capabilities=Capabilities(independence=False, many_classes=False),
    build=partial(hgr.SoftHGR, both=torch.mul),
)


def _any_pair(context: Context) -> neu.Neutralized:
    """Mixtures of any two rows of equal Y: as if every row had a sensitive feature of its own."""
    data = context.data
    own = torch.arange(len(data), device=data.x.device)[:, None]
    blind = replace(data, attribute=own, attribute_cell=None, known=None)
    return neu.Neutralized(replace(context, data=blind), name="neu_any_pair")


NEU_ANY_PAIR = replace(
    neu.DECLARATION,
    name="neu_any_pair",
    title="Neutralized representations of any two rows",
    summary="As the program of Sohn, Song and Lin did it: rows of equal Y are mixed whatever their "
    "A, so that sensitive features are never used.",
    objective=_any_pair,
)


class GroupMatching:
    """Li et al. 2021: the loss of a GAN between P(score | A = 1) and P(score | A = 0).

    Written after its description in Sohn, Song and Lin 2024, section 2; we had no access to the
    paper itself. Under separation the critic sees Y as well, and rows weigh p(a) p(y) / p(a, y), so
    that both groups have the same law of Y and only scores can tell them apart.
    """

    def __init__(self, context: Context) -> None:
        self._data = context.data
        if self._data.attribute_cell is None:
            raise InputError("method='li' needs discrete sensitive features")
        self._group = (self._data.attribute_cell > 0).to(self._data.x.dtype)
        self._outcome = context.outcome
        self._ratio = None
        if self._outcome is not None:
            self._ratio = build_density_ratio(self._data, context.members, kind="counts")
        self._game = context.game(0, self._outcome)
        self.networks: nn.Module = self._game

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Train the critics on this batch and return their value (K,)."""
        weight = self._data.row_weights(rows)
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


LI = Declaration(
    name="li",
    title="Adversarial matching of two groups",
    reference="Li and others (2021), As described by Sohn, Song and Lin (2024), section 2",
    summary="A critic tells the scores of one group from those of the other, as in a generative "
    "adversarial network; the predictor learns to leave it guessing.",
    capabilities=Capabilities(
        continuous=False, mixed=False, many_groups=False, numbers=False, representation=False
    ),
    build=GroupMatching,
    options=GAME,
)


VARIANTS: Mapping[str, Declaration] = MappingProxyType(
    {method.name: method for method in (CON_PLAIN, HGR_PRODUCT, NEU_ANY_PAIR)}
)
for _method in (*VARIANTS.values(), LI):
    register_method(_method, listed=False)
