"""A small conditional GAN that draws A given Y (Mirza and Osindero 2014), for mixed A.

As in Sohn, Song and Lin 2024, section D.1: the generator has [Dense(64)-ReLU] x 2 on two uniform
numbers beside Y, a linear output for a continuous attribute and a sigmoid one for a discrete
attribute, which is binned when drawn; the critic has the same widths. They train for 20 000 steps
of Adam 0.0002. Ours has three changes, without which it drew nearly one value per outcome in our
trials: fewer and larger steps whose size falls, noise of unit variance, and a penalty on the
critic's slope at the data (Mescheder, Geiger and Nowozin 2018). Binning moves every draw to the
nearest attributes that a training row has: for a 0/1 column that is the threshold 0.5, and no draw
shows categories together that exclude one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from scipy.spatial import KDTree
from torch import Tensor, nn
from torch.nn.functional import softplus

from equipoise.critic import frozen
from equipoise.divergences import DIVERGENCES
from equipoise.methods.donors import DRAWS, Draw, Stream, streams_of
from equipoise.methods.pretraining import pretrain
from equipoise.networks import StackedMLP, select_members
from equipoise.networks.layers import SINGLE
from equipoise.training import Member, OptimizerSettings, TrainingData
from equipoise.training.members import generators
from equipoise.training.optimizers import minimize

HIDDEN = (64, 64)
NOISE_WIDTH = 2
EPOCHS = 100
#: Half of Mescheder's gamma: weighs the mean squared slope of the critic at real attributes.
SLOPE_WEIGHT = 0.5
CRITIC = OptimizerSettings(learning_rate=3e-3)
GENERATOR = OptimizerSettings(learning_rate=1e-3)


def indicators(data: TrainingData) -> Tensor:
    """Which columns of the attribute hold categories as 0 and 1, (q,)."""
    assert data.attribute is not None
    binary = (data.attribute == 0) | (data.attribute == 1)
    return (binary if data.known is None else binary[data.known]).all(0)


class ConditionalGAN(nn.Module):
    """K generators of A given Y, and their critics."""

    def __init__(
        self,
        is_indicator: Tensor,
        outcome_width: int,
        *,
        generators: Sequence[torch.Generator],
    ) -> None:
        super().__init__()
        # In a tuple: no weight of a member, so nothing that the module should count as one.
        self._is_indicator = (is_indicator,)
        width = len(is_indicator)
        self.generator = StackedMLP(
            NOISE_WIDTH + outcome_width, HIDDEN, width, generators=generators, normalization="none"
        )
        self.critic = StackedMLP(
            width + outcome_width,
            HIDDEN,
            1,
            generators=generators,
            normalization="none",
            twice_differentiable=True,
        )

    def forward(self, noise: Tensor, outcome: Tensor) -> Tensor:
        """Make attributes (K, B, q) of noise (K, B, 2) and outcomes (K, B, v)."""
        output: Tensor = self.generator(torch.cat([noise, outcome], -1))
        return torch.where(self._is_indicator[0], output.sigmoid(), output)

    def judge(self, attribute: Tensor, outcome: Tensor) -> Tensor:
        """Critics' outputs (K, B) for attributes (K, B, q) beside outcomes (K, B, v)."""
        output: Tensor = self.critic(torch.cat([attribute, outcome], -1)).squeeze(-1)
        return output


class _GANStep:
    """One update of the critics, then one of the generators."""

    def __init__(
        self, gan: ConditionalGAN, data: TrainingData, attribute: Tensor, noise: Tensor
    ) -> None:
        self._gan, self._data, self._attribute = gan, data, attribute
        self._noise = noise
        self._stream = torch.arange(len(noise), device=noise.device)[:, None]
        self._critic = CRITIC.build(gan.critic.parameters())
        self._generator = GENERATOR.build(gan.generator.parameters())
        self.rates: Mapping[torch.optim.Optimizer, float] = {
            self._critic: CRITIC.learning_rate,
            self._generator: GENERATOR.learning_rate,
        }
        self.modules: nn.Module = gan

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        outcome = self._data.outcome[rows]
        weight, _ = self._data.pair_weights(rows, rows)
        # Resampled rows are new to each epoch, and so is the noise that a row meets.
        made = self._gan(self._noise[self._stream, resampled], outcome)
        real = self._attribute[rows].requires_grad_()
        judged = self._gan.judge(real, outcome)
        (slope,) = torch.autograd.grad(judged.sum(), real, create_graph=True)
        value = DIVERGENCES["js"](judged, self._gan.judge(made.detach(), outcome), weight, weight)
        slopes = _mean(slope.square().sum(-1), weight)
        minimize(SLOPE_WEIGHT * slopes - value, self._critic)
        with frozen(self._gan.critic):
            # -log D of what was made: the loss of Goodfellow et al. 2014 that does not saturate.
            loss = _mean(softplus(-self._gan.judge(made, outcome)), weight)
        minimize(loss, self._generator)
        return value.detach(), loss.detach()


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Mean over the batch, (K,), of values (K, B) with weights (K, B) that average one."""
    return (values if weight is None else values * weight).mean(-1)


def generated_donors(data: TrainingData, members: Sequence[Member], attribute: Tensor) -> Draw:
    """Train a generator for every stream; draw the donors nearest to what it makes."""
    streams, _ = streams_of(members)
    gan = train_gan(data, streams, attribute)
    points = attribute.cpu().double().numpy()

    def draw(number: int, available: Tensor, generator: torch.Generator) -> Tensor:
        made = draw_attributes(gan, number, data.outcome[available.to(data.x.device)], generator)
        _, nearest = KDTree(points[available]).query(made.cpu().double().numpy())
        return torch.from_numpy(nearest)

    return draw


def train_gan(data: TrainingData, streams: Sequence[Stream], attribute: Tensor) -> ConditionalGAN:
    """Train the generators of all streams together."""
    starts = generators([seed for seed, _ in streams], "conditional law")
    gan = ConditionalGAN(indicators(data), data.outcome.shape[1], generators=starts).to(data.x)
    noise = torch.stack([_noise(len(data), start) for start in starts])
    step = _GANStep(gan, data, attribute, noise.to(data.x))
    pretrain(
        step,
        streams,
        len(data),
        epochs=EPOCHS,
        device=data.x.device,
        asked_by="method='con'",
    )
    return gan


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
