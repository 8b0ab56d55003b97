"""CON: a critic compares attributes with attributes that were resampled given the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from scipy.spatial import KDTree
from torch import Tensor, nn
from torch.nn.functional import softplus

from equipoise.critic import frozen
from equipoise.divergences import DIVERGENCES, weighted_mean
from equipoise.methods.conditional import (
    DRAWS,
    ConditionalGame,
    Donors,
    game_with_networks,
    near_rows,
)
from equipoise.methods.declaration import GAME, Capabilities, Context, Declaration
from equipoise.networks import StackedMLP, select_members
from equipoise.networks.mlp import SINGLE
from equipoise.training import OptimizerSettings, TrainingData
from equipoise.training.data import generators, streams_of
from equipoise.training.optimizers import minimize

#: Hidden widths of the generator and of its critic.
HIDDEN = (64, 64)
NOISE_WIDTH = 2
#: Weight of the mean squared gradient of the critic at real attributes: half of Mescheder's gamma.
GRADIENT_WEIGHT = 0.5
CRITIC_OPTIMIZER = OptimizerSettings(learning_rate=3e-3)
GENERATOR_OPTIMIZER = OptimizerSettings(learning_rate=1e-3)


def conditional_resampling(context: Context, *, covariance: bool = True) -> ConditionalGame:
    """Romano, Bates and Candes 2020, with the ``covariance`` term of their released program.

    A' is drawn from P(A | Y), estimated on each member's own training rows. If A is all discrete or
    all continuous, A' is the attribute of a row drawn at random from the same class of Y. For
    discrete A this is maximum likelihood, for continuous A it has the distribution of a permutation
    within classes. For continuous Y the row is drawn from the sqrt(n) rows nearest in rank, where
    the original smooths P(A | Y) by kernels. For mixed A a small conditional GAN draws A', after
    Sohn, Song and Lin 2024 (`ConditionalGAN`).
    """
    data = context.data
    attribute = context.known_attribute
    if data.attribute_cell is not None or not indicators(data, attribute).any():
        donors = Donors(data, context.members, partial(_draw_like_outcomes, data))
        donors.fill()
        return ConditionalGame(context, donors, covariance=covariance)
    streams, _ = streams_of(context.members)
    gan = GANTraining(data, attribute, [seed for seed, _ in streams])
    return game_with_networks(context, gan, needed_by="method='con'", covariance=covariance)


def _draw_like_outcomes(
    data: TrainingData, _: int, available: Tensor, generator: torch.Generator
) -> Tensor:
    """Draw rows of the same class, or with a similar continuous outcome."""
    outcome, reach = data.outcome_class, 0
    if outcome is None:
        outcome, reach = data.outcome[:, 0], max(1, round(len(available) ** 0.5 / 2))
    weight = torch.ones(len(data), **SINGLE) if data.weight is None else data.weight
    rows, weights = outcome.cpu()[available], weight.cpu()[available]
    return near_rows(rows, weights, reach, draws=DRAWS, generator=generator)


def indicators(data: TrainingData, attribute: Tensor) -> Tensor:
    """Mark the columns of the attribute (n, q) that hold only 0 and 1, (q,)."""
    binary = (attribute == 0) | (attribute == 1)
    return (binary if data.known is None else binary[data.known]).all(0)


class ConditionalGAN(nn.Module):
    """K small generators of A given Y (Mirza and Osindero 2014), and their critics.

    As in Sohn, Song and Lin 2024, section D.1, the generator has [Dense(64)-ReLU] x 2 and sees two
    uniform numbers and Y. Its output is linear for a continuous attribute and sigmoid for a
    discrete one, which is binned when drawn. The critic has the same widths. They train for 20 000
    steps of Adam 0.0002. In our trials this drew nearly one value per outcome, so we made three
    changes: fewer and larger steps with a falling learning rate, noise of unit variance, and a
    penalty on the critic's gradient at the data (Mescheder, Geiger and Nowozin 2018). Binning moves
    every draw to the nearest attributes of a training row. For a 0/1 column that is a threshold of
    0.5, and categories that exclude each other are never drawn together.
    """

    def __init__(
        self, is_indicator: Tensor, outcome_width: int, *, generators: Sequence[torch.Generator]
    ) -> None:
        super().__init__()
        # In a tuple, so that it does not become a buffer, which would need a member axis.
        self._is_indicator = (is_indicator,)
        width = len(is_indicator)
        network = partial(StackedMLP, generators=generators, normalization="none")
        self.generator = network(NOISE_WIDTH + outcome_width, HIDDEN, width)
        self.critic = network(width + outcome_width, HIDDEN, 1, twice_differentiable=True)

    def forward(self, noise: Tensor, outcome: Tensor) -> Tensor:
        """Generate attributes (K, B, q) from noise (K, B, 2) and outcomes (K, B, v)."""
        output: Tensor = self.generator(torch.cat([noise, outcome], -1))
        return torch.where(self._is_indicator[0], output.sigmoid(), output)

    def judge(self, attribute: Tensor, outcome: Tensor) -> Tensor:
        """Return the critics' outputs (K, B) for attributes (K, B, q) and outcomes (K, B, v)."""
        output: Tensor = self.critic(torch.cat([attribute, outcome], -1)).squeeze(-1)
        return output


class GANTraining:
    """The conditional GANs of all streams: how they train and how they draw donors."""

    def __init__(self, data: TrainingData, attribute: Tensor, seeds: Sequence[int]) -> None:
        self._data, self._attribute = data, attribute
        starts = generators(seeds, "conditional distribution")
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
        # Resampled rows change with every epoch, and so does the noise of a row.
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
            # -log D of generated attributes: the non-saturating loss of Goodfellow et al. 2014.
            loss = weighted_mean(softplus(-self.networks.judge(made, outcome)), weight)
        minimize(loss, self._generator)
        return value.detach(), loss.detach()

    def draw(self, number: int, available: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the rows nearest to the attributes that the stream's generator makes."""
        outcome = self._data.outcome[available.to(self._data.x.device)]
        made = draw_attributes(self.networks, number, outcome, generator)
        points = self._attribute.cpu().double().numpy()[available]
        _, nearest = KDTree(points).query(made.cpu().double().numpy())
        return torch.from_numpy(nearest)


@torch.no_grad()
def draw_attributes(
    gan: ConditionalGAN, number: int, outcome: Tensor, generator: torch.Generator
) -> Tensor:
    """Draw attributes (DRAWS, m, q) for outcomes (m, v) from the generator of one stream."""
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
    summary="A critic compares (score, A, Y) with (score, A', Y), where A' is drawn given Y; the "
    "predictor learns to leave it guessing.",
    capabilities=Capabilities(independence=False),
    build=conditional_resampling,
    options=GAME,
)
