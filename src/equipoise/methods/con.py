"""CON: attributes resampled given the outcome, and a critic that must not see the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from scipy.spatial import KDTree
from torch import Tensor, nn
from torch.nn.functional import softplus

from equipoise.critic import CriticSettings, frozen
from equipoise.density_ratio import RatioKind
from equipoise.divergences import DIVERGENCES
from equipoise.methods.declaration import Capabilities, Declaration
from equipoise.methods.shared.conditional import (
    DRAWS,
    ConditionalGame,
    Donors,
    Draw,
    Stream,
    known_attribute,
    near_rows,
    streams_of,
)
from equipoise.methods.shared.pretraining import pretrain
from equipoise.networks import StackedMLP, select_members
from equipoise.networks.layers import SINGLE
from equipoise.notions import Notion
from equipoise.training import Member, OptimizerSettings, TrainingData
from equipoise.training.members import generators
from equipoise.training.step import minimize


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
