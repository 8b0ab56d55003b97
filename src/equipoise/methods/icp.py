"""FairICP: attributes are permuted given the outcome, by a density of Y given A."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from equipoise.divergences import weighted_mean
from equipoise.methods.conditional import DRAWS, ConditionalGame, game_with_networks
from equipoise.methods.declaration import GAME, Capabilities, Context, Declaration
from equipoise.networks import StackedMLP, select_members
from equipoise.training import OptimizerSettings, TrainingData
from equipoise.training.data import generators, streams_of
from equipoise.training.optimizers import minimize

#: Hidden widths of the density network, as in the authors' program for classes.
HIDDEN = (64,)
OPTIMIZER = OptimizerSettings(learning_rate=5e-3)
#: Rounds of the sampler before a permutation is used, as in the authors' program.
ROUNDS = 50

#: log q(y | a), from outcomes (...) and the network's parameters (..., d) of the density given a.
LogDensity = Callable[[Tensor, Tensor], Tensor]


def class_log_density(outcome: Tensor, logits: Tensor) -> Tensor:
    """Log probability of classes (...), given logits (..., C)."""
    return logits.log_softmax(-1).gather(-1, outcome.unsqueeze(-1)).squeeze(-1)


def normal_log_density(outcome: Tensor, moments: Tensor) -> Tensor:
    """Log density of numbers (...), given mean and log variance (..., 2)."""
    mean, log_variance = moments.unbind(-1)
    squared = (outcome - mean).square() * (-log_variance).exp()
    return -(squared + log_variance + math.log(2 * math.pi)) / 2


def inverse_conditional_permutation(context: Context) -> ConditionalGame:
    """Lai and Guan 2025: A' is A permuted; permutations follow their distribution given Y.

    Up to a constant, that distribution depends on q(y | a) only, and Y is simple even if A is not.
    For classes q is a softmax network, as in the paper. For a continuous Y it is a normal density
    with mean and variance from a network, where the authors fit a masked autoregressive flow. Each
    member's networks and permutations use its own training rows only, and are made before training.
    """
    streams, _ = streams_of(context.members)
    density = OutcomeDensity(context.data, context.known_attribute, [seed for seed, _ in streams])
    return game_with_networks(context, density, needed_by="method='icp'")


class OutcomeDensity:
    """Networks for the density of Y given A, one for each seed, and permutations drawn by them."""

    def __init__(self, data: TrainingData, attribute: Tensor, seeds: Sequence[int]) -> None:
        self._data, self._attribute = data, attribute
        self._log_density: LogDensity = class_log_density
        if data.outcome_class is None:
            self._outcome, width = data.outcome[:, 0], 2
            self._log_density = normal_log_density
        else:
            self._outcome, width = data.outcome_class, int(data.outcome_class.max()) + 1
        starts = generators(seeds, "conditional distribution")
        network = StackedMLP(
            attribute.shape[1], HIDDEN, width, generators=starts, normalization="none"
        )
        self.networks = network.to(data.x)
        self._optimizer = OPTIMIZER.build(self.networks.parameters())
        self.optimizers = [self._optimizer]

    def update(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        likelihood = self._log_density(self._outcome[rows], self.networks(self._attribute[rows]))
        weight, _ = self._data.pair_weights(rows, rows)
        loss = -weighted_mean(likelihood, weight)
        minimize(loss, self._optimizer)
        return loss.detach(), torch.zeros_like(loss)

    def draw(self, number: int, available: Tensor, generator: torch.Generator) -> Tensor:
        rows = available.to(self._data.x.device)
        with torch.no_grad():
            parameters = select_members(self.networks, [number])(self._attribute[rows][None])[0]
        outcome = self._outcome[rows].cpu()
        return permutations(
            outcome, parameters.cpu(), self._log_density, draws=DRAWS, generator=generator
        )


def permutations(
    outcome: Tensor,
    parameters: Tensor,
    log_density: LogDensity,
    *,
    draws: int,
    generator: torch.Generator,
) -> Tensor:
    """Draw permutations p with probability proportional to the product of q(y_i | a_p(i)).

    Returns (draws, m). This is the parallel pairwise sampler of Berrett, Wang, Barber and Samworth
    2020 (algorithm 1). Each round pairs the rows at random. In each pair the two donors are swapped
    or not, by the odds of the two orders. outcome: (m,). parameters: (m, d), of the density given
    each row's attributes. The draws are separate chains that share their pairs.
    """
    m = len(outcome)
    donor = torch.arange(m, device="cpu").repeat(draws, 1)
    for _ in range(ROUNDS):
        left, right = torch.randperm(m, generator=generator, device="cpu")[: m // 2 * 2].view(2, -1)
        left_donor, right_donor = donor[:, left], donor[:, right]
        y_left, y_right = (outcome[side].expand_as(left_donor) for side in (left, right))
        log_odds = (
            log_density(y_left, parameters[right_donor])
            + log_density(y_right, parameters[left_donor])
            - log_density(y_left, parameters[left_donor])
            - log_density(y_right, parameters[right_donor])
        )
        uniform = torch.rand(log_odds.shape, dtype=torch.float64, generator=generator, device="cpu")
        swap = uniform < log_odds.double().sigmoid()
        donor[:, left] = torch.where(swap, right_donor, left_donor)
        donor[:, right] = torch.where(swap, left_donor, right_donor)
    return donor


DECLARATION = Declaration(
    name="icp",
    title="Inverse conditional permutation",
    reference="Lai and Guan (2025), FairICP: encouraging equalized odds via inverse conditional "
    "permutation, ICML",
    summary="A critic compares (score, A, Y) with (score, A', Y), where A' is A permuted given Y; "
    "the predictor learns to leave it guessing.",
    # A permutation uses every row's attributes once, whatever the weight of the row.
    capabilities=Capabilities(independence=False, sample_weight=False),
    build=inverse_conditional_permutation,
    options=GAME,
)
