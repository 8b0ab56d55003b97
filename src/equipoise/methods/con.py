"""CON: attributes resampled given the outcome, and a critic that must not see the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.methods.capabilities import Capabilities
from equipoise.methods.conditional_game import ConditionalGame, known_attribute
from equipoise.methods.conditional_gan import generated_donors, indicators
from equipoise.methods.declaration import Declaration
from equipoise.methods.donors import DRAWS, Donors, Draw, near_rows
from equipoise.notions import Notion
from equipoise.training import Member, TrainingData


def conditional_resampling(
    data: TrainingData,
    members: Sequence[Member],
    *,
    penalized_width: int,
    notion: Notion,
    critic: CriticSettings,
    density_ratio: RatioKind,
    covariance: bool = True,
) -> ConditionalGame:
    """Romano, Bates and Candes 2020, with the ``covariance`` term of their released program.

    A' ~ P(A | Y), estimated on each member's own training rows. Mixed A: by the small conditional
    GAN of Sohn, Song and Lin 2024 (`conditional_gan`). Otherwise A' is the attribute of a row drawn
    at random among those of the same class of Y, which for discrete A is maximum likelihood, and
    for continuous A has the law of a permutation within classes. For continuous Y the row is drawn
    among the sqrt(n) nearest in rank (the original smooths P(A | Y) by kernels there).
    """
    attribute = known_attribute(data)
    is_mixed = data.attribute_cell is None and bool(indicators(data).any())
    draw = generated_donors(data, members, attribute) if is_mixed else _like_outcomes(data)
    return ConditionalGame(
        data,
        members,
        Donors(data, members, draw),
        penalized_width=penalized_width,
        critic=critic,
        covariance=covariance,
    )


def _like_outcomes(data: TrainingData) -> Draw:
    """Draw rows of the same class, or of a near outcome."""
    is_discrete = data.outcome_class is not None
    outcome = data.outcome_class if data.outcome_class is not None else data.outcome[:, 0]
    outcome = outcome.cpu()
    weight = (
        torch.ones(len(data), dtype=torch.float32, device="cpu")
        if data.weight is None
        else data.weight.cpu()
    )

    def draw(_: int, available: Tensor, generator: torch.Generator) -> Tensor:
        reach = 0 if is_discrete else max(1, round(len(available) ** 0.5 / 2))
        return near_rows(
            outcome[available], weight[available], reach, draws=DRAWS, generator=generator
        )

    return draw


DECLARATION = Declaration(
    name="con",
    title="Resampling given the outcome",
    reference="Romano, Bates and Candes (2020), Achieving equalized odds by resampling sensitive "
    "attributes, NeurIPS",
    summary="A critic tells score, A and Y from the same with A drawn given Y; the predictor "
    "learns to leave it guessing.",
    capabilities=Capabilities(independence=False),
    build=conditional_resampling,
    options=frozenset({"divergence", "gradient_penalty"}),
)

PLAIN = replace(
    DECLARATION,
    name="con_plain",
    title="Resampling given the outcome, by the critic alone",
    summary="As the text of Sohn, Song and Lin has it: the critic without the covariance term of "
    "the released programs.",
    build=partial(conditional_resampling, covariance=False),
)
