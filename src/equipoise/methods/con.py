"""CON: attributes resampled given the outcome, and a critic that must not see the difference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from scipy.spatial import KDTree
from torch import Tensor, nn
from torch.nn.functional import softplus

from equipoise.critic import frozen
from equipoise.divergences import DIVERGENCES, weighted_mean
from equipoise.methods.declaration import GAME, Capabilities, Context, Declaration
from equipoise.methods.shared.conditional import (
    DRAWS,
    ConditionalGame,
    Donors,
    game_by_law,
    near_rows,
)
from equipoise.networks import StackedMLP, select_members
from equipoise.networks.mlp import SINGLE
from equipoise.training import OptimizerSettings, TrainingData
from equipoise.training.data import generators, streams_of
from equipoise.training.loop import minimize

#: Of the generator and of its critic.
HIDDEN = (64, 64)
NOISE_WIDTH = 2
#: Half of Mescheder's gamma: weighs the mean squared gradient of the critic at real attributes.
GRADIENT_WEIGHT = 0.5
CRITIC_OPTIMIZER = OptimizerSettings(learning_rate=3e-3)
GENERATOR_OPTIMIZER = OptimizerSettings(learning_rate=1e-3)


def conditional_resampling(context: Context, *, covariance: bool = True) -> ConditionalGame:
    """Romano, Bates and Candes 2020, with the ``covariance`` term of their released program.

    A' ~ P(A | Y), estimated on each member's own training rows. Mixed A: by the small conditional
    GAN of Sohn, Song and Lin 2024 (`ConditionalGAN`). Otherwise A' is the attribute of a row drawn
    at random among those of the same class of Y, which for discrete A is maximum likelihood, and
    for continuous A has the law of a permutation within classes. For continuous Y the row is drawn
    among the sqrt(n) nearest in rank (the original smooths P(A | Y) by kernels there).
    """
    data = context.data
    attribute = context.known_attribute
    if data.attribute_cell is not None or not indicators(data, attribute).any():
        donors = Donors(data, context.members, partial(_draw_like_outcomes, data))
        donors.fill()
        return ConditionalGame(context, donors, covariance=covariance)
    streams, _ = streams_of(context.members)
    law = GANTraining(data, attribute, [seed for seed, _ in streams])
    return game_by_law(context, law, asked_by="method='con'", covariance=covariance)


def _draw_like_outcomes(
    data: TrainingData, _: int, available: Tensor, generator: torch.Generator
) -> Tensor:
    """Draw rows of the same class, or of a near outcome."""
    outcome, reach = data.outcome_class, 0
    if outcome is None:
        outcome, reach = data.outcome[:, 0], max(1, round(len(available) ** 0.5 / 2))
    weight = torch.ones(len(data), **SINGLE) if data.weight is None else data.weight
    rows, weights = outcome.cpu()[available], weight.cpu()[available]
    return near_rows(rows, weights, reach, draws=DRAWS, generator=generator)


def indicators(data: TrainingData, attribute: Tensor) -> Tensor:
    """Which columns of the attribute (n, q) hold categories as 0 and 1, (q,)."""
    binary = (attribute == 0) | (attribute == 1)
    return (binary if data.known is None else binary[data.known]).all(0)


class ConditionalGAN(nn.Module):
    """K small generators of A given Y (Mirza and Osindero 2014), and their critics.

    As in Sohn, Song and Lin 2024, section D.1: the generator has [Dense(64)-ReLU] x 2 on two
    uniform numbers beside Y, a linear output for a continuous attribute and a sigmoid one for a
    discrete attribute, which is binned when drawn; the critic has the same widths. They train for
    20 000 steps of Adam 0.0002. Ours has three changes, without which it drew nearly one value per
    outcome in our trials: fewer and larger steps whose size falls, noise of unit variance, and a
    penalty on the critic's gradient at the data (Mescheder, Geiger and Nowozin 2018). Binning moves
    every draw to the nearest attributes that a training row has: for a 0/1 column that is the
    threshold 0.5, and no draw shows categories together that exclude one another.
    """

    def __init__(
        self, is_indicator: Tensor, outcome_width: int, *, generators: Sequence[torch.Generator]
    ) -> None:
        super().__init__()
        # In a tuple: no weight of a member, so nothing that the module should count as one.
        self._is_indicator = (is_indicator,)
        width = len(is_indicator)
        network = partial(StackedMLP, generators=generators, normalization="none")
        self.generator = network(NOISE_WIDTH + outcome_width, HIDDEN, width)
        self.critic = network(width + outcome_width, HIDDEN, 1, twice_differentiable=True)

    def forward(self, noise: Tensor, outcome: Tensor) -> Tensor:
        """Make attributes (K, B, q) of noise (K, B, 2) and outcomes (K, B, v)."""
        output: Tensor = self.generator(torch.cat([noise, outcome], -1))
        return torch.where(self._is_indicator[0], output.sigmoid(), output)

    def judge(self, attribute: Tensor, outcome: Tensor) -> Tensor:
        """Critics' outputs (K, B) for attributes (K, B, q) beside outcomes (K, B, v)."""
        output: Tensor = self.critic(torch.cat([attribute, outcome], -1)).squeeze(-1)
        return output


class GANTraining:
    """How the generators of all streams train, and how donors are drawn by them."""

    def __init__(self, data: TrainingData, attribute: Tensor, seeds: Sequence[int]) -> None:
        self._data, self._attribute = data, attribute
        starts = generators(seeds, "conditional law")
        self.networks = ConditionalGAN(
            indicators(data, attribute), data.outcome.shape[1], generators=starts
        ).to(data.x)
        self._noise = torch.stack([_noise(len(data), start) for start in starts]).to(data.x)
        self._stream = torch.arange(len(seeds), device=data.x.device)[:, None]
        self._critic = CRITIC_OPTIMIZER.build(self.networks.critic.parameters())
        self._generator = GENERATOR_OPTIMIZER.build(self.networks.generator.parameters())
        self.optimizers = [self._critic, self._generator]

    def update(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        outcome = self._data.outcome[rows]
        weight, _ = self._data.pair_weights(rows, rows)
        # Resampled rows are new to each epoch, and so is the noise that a row meets.
        made = self.networks(self._noise[self._stream, resampled], outcome)
        real = self._attribute[rows].requires_grad_()
        judged = self.networks.judge(real, outcome)
        (gradient,) = torch.autograd.grad(judged.sum(), real, create_graph=True)
        value = DIVERGENCES["js"](
            judged, self.networks.judge(made.detach(), outcome), weight, weight
        )
        gradients = weighted_mean(gradient.square().sum(-1), weight)
        minimize(GRADIENT_WEIGHT * gradients - value, self._critic)
        with frozen(self.networks.critic):
            # -log D of what was made: the loss of Goodfellow et al. 2014 that does not saturate.
            loss = weighted_mean(softplus(-self.networks.judge(made, outcome)), weight)
        minimize(loss, self._generator)
        return value.detach(), loss.detach()

    def draw(self, number: int, available: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the rows that are nearest to what the generator of the stream makes."""
        outcome = self._data.outcome[available.to(self._data.x.device)]
        made = draw_attributes(self.networks, number, outcome, generator)
        points = self._attribute.cpu().double().numpy()[available]
        _, nearest = KDTree(points).query(made.cpu().double().numpy())
        return torch.from_numpy(nearest)


@torch.no_grad()
def draw_attributes(
    gan: ConditionalGAN, number: int, outcome: Tensor, generator: torch.Generator
) -> Tensor:
    """Draw attributes (DRAWS, m, q) for outcomes (m, v) by the generator of one stream."""
    noise = _noise(DRAWS * len(outcome), generator).to(outcome)
    made: Tensor = select_members(gan, [number])(noise[None], outcome.repeat(DRAWS, 1)[None])
    return made.view(DRAWS, len(outcome), -1)


def _noise(n: int, generator: torch.Generator) -> Tensor:
    """Uniform noise of mean 0 and variance 1, (n, NOISE_WIDTH)."""
    noise: Tensor = torch.rand(n, NOISE_WIDTH, generator=generator, **SINGLE)
    return (noise - 0.5) * 12**0.5


DECLARATION = Declaration(
    name="con",
    title="Resampling given the outcome",
    reference="Romano, Bates and Candes (2020), Achieving equalized odds by resampling sensitive "
    "attributes, NeurIPS",
    summary="A critic tells score, A and Y from the same with A drawn given Y; the predictor "
    "learns to leave it guessing.",
    capabilities=Capabilities(independence=False),
    build=conditional_resampling,
    options=GAME,
)
