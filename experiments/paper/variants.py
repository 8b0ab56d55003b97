"""Methods that only the reproduction needs; importing this module registers them, unlisted.

Three do what the released program of Sohn, Song and Lin (2024), or their text, did otherwise than
the papers of the methods say. `li` is known to us only from its description in their paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import torch

from equipoise.methods import Capabilities, Declaration, con, hgr, neu, register_method
from equipoise.training import Member, Predictor, TrainingData, TrainingSettings
from experiments.paper import li

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


def _any_pair(
    data: TrainingData,
    members: Sequence[Member],
    *,
    predictor: Predictor,
    settings: TrainingSettings,
) -> neu.Neutralized:
    """Mixtures of any two rows of equal Y: as if every row had a sensitive feature of its own."""
    own = torch.arange(len(data), device=data.x.device)[:, None]
    blind = replace(data, attribute=own, attribute_cell=None, known=None)
    return neu.Neutralized(
        blind, members, predictor=predictor, settings=settings, name="neu_any_pair"
    )


NEU_ANY_PAIR = replace(
    neu.DECLARATION,
    name="neu_any_pair",
    title="Neutralized representations of any two rows",
    summary="As the program of Sohn, Song and Lin did it: rows of equal Y are mixed whatever their "
    "A, so that sensitive features are never used.",
    objective=_any_pair,
)

VARIANTS: Mapping[str, Declaration] = MappingProxyType(
    {method.name: method for method in (CON_PLAIN, HGR_PRODUCT, NEU_ANY_PAIR)}
)
for _method in (*VARIANTS.values(), li.DECLARATION):
    register_method(_method, listed=False)
