"""FairICP: attributes permuted given the outcome, by a density of the outcome given attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from equipoise.divergences import weighted_mean
from equipoise.methods.declaration import GAME, Capabilities, Context, Declaration
from equipoise.methods.shared.conditional import DRAWS, ConditionalGame, game_by_law
from equipoise.networks import StackedMLP, select_members
from equipoise.training import OptimizerSettings, TrainingData
from equipoise.training.data import generators, streams_of
from equipoise.training.loop import minimize

#: Of the network for the density: as in the authors' program for classes.
HIDDEN = (64,)
OPTIMIZER = OptimizerSettings(learning_rate=5e-3)
#: Rounds of the sampler before a permutation is taken, as in the authors' program.
ROUNDS = 50

#: log q(y | a) for outcomes (...) and what a network says of attributes (..., d).
LogDensity = Callable[[Tensor, Tensor], Tensor]


def class_log_density(outcome: Tensor, described: Tensor) -> Tensor:
    """Log probability of classes (...), given logits (..., C)."""
    return described.log_softmax(-1).gather(-1, outcome.unsqueeze(-1)).squeeze(-1)


def normal_log_density(outcome: Tensor, described: Tensor) -> Tensor:
    """Log density of numbers (...), given mean and log variance (..., 2)."""
    mean, log_variance = described.unbind(-1)
    squared = (outcome - mean).square() * (-log_variance).exp()
    return -(squared + log_variance + math.log(2 * math.pi)) / 2


def inverse_conditional_permutation(context: Context) -> ConditionalGame:
    """Lai and Guan 2025: A' is A permuted, permutations following their law given Y.

    That law needs q(y | a) only, up to what does not depend on the permutation, and Y is simple
    where A is not. For classes q is a softmax network, as theirs; for a continuous Y it is a normal
    density whose mean and variance are a network's, where they fit a masked autoregressive flow.
    Networks and permutations are made of each member's own training rows, before training starts.
    """
    streams, _ = streams_of(context.members)
    law = OutcomeDensity(context.data, context.known_attribute, [seed for seed, _ in streams])
    return game_by_law(context, law, asked_by="method='icp'")


class OutcomeDensity:
    """Networks that describe Y given A, one for each seed, and permutations drawn by them."""

    def __init__(self, data: TrainingData, attribute: Tensor, seeds: Sequence[int]) -> None:
        self._data, self._attribute = data, attribute
        self._log_density: LogDensity = class_log_density
        if data.outcome_class is None:
            self._outcome, width = data.outcome[:, 0], 2
            self._log_density = normal_log_density
        else:
            self._outcome, width = data.outcome_class, int(data.outcome_class.max()) + 1
        self.networks = StackedMLP(
            attribute.shape[1],
            HIDDEN,
            width,
            generators=generators(seeds, "conditional law"),
            normalization="none",
        ).to(data.x)
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
            described = select_members(self.networks, [number])(self._attribute[rows][None])[0]
        outcome = self._outcome[rows].cpu()
        return permutations(
            outcome, described.cpu(), self._log_density, draws=DRAWS, generator=generator
        )


def permutations(
    outcome: Tensor,
    described: Tensor,
    log_density: LogDensity,
    *,
    draws: int,
    rounds: int = ROUNDS,
    generator: torch.Generator,
) -> Tensor:
    """Permutations p of rows, drawn in proportion to the product of q(y_i | a_p(i)); (draws, m).

    The parallel pairwise sampler of Berrett, Wang, Barber and Samworth 2020 (algorithm 1): each
    round pairs the rows at random and swaps the donors of a pair with the odds of the swapped
    against the present order. outcome: (m,). described: (m, d), what ``log_density`` needs of each
    row's attributes. Draws are chains of their own that share their pairs.
    """
    m = len(outcome)
    donor = torch.arange(m, device="cpu").repeat(draws, 1)
    for _ in range(rounds):
        left, right = torch.randperm(m, generator=generator, device="cpu")[: m // 2 * 2].view(2, -1)
        mine, theirs = donor[:, left], donor[:, right]
        log_odds = (
            log_density(outcome[left].expand_as(mine), described[theirs])
            + log_density(outcome[right].expand_as(mine), described[mine])
            - log_density(outcome[left].expand_as(mine), described[mine])
            - log_density(outcome[right].expand_as(mine), described[theirs])
        )
        uniform = torch.rand(mine.shape, dtype=torch.float64, generator=generator, device="cpu")
        swap = uniform < log_odds.double().sigmoid()
        donor[:, left] = torch.where(swap, theirs, mine)
        donor[:, right] = torch.where(swap, mine, theirs)
    return donor


DECLARATION = Declaration(
    name="icp",
    title="Inverse conditional permutation",
    reference="Lai and Guan (2025), FairICP: encouraging equalized odds via inverse conditional "
    "permutation, ICML",
    summary="A critic tells score, A and Y from the same with A permuted given Y, by a density of "
    "Y given A; the predictor learns to leave it guessing.",
    # Permuting moves every row's attributes once, whatever the weight of the row.
    capabilities=Capabilities(independence=False, sample_weight=False),
    build=inverse_conditional_permutation,
    options=GAME,
)
