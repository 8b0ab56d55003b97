"""FairICP: attributes permuted given the outcome, by a density of the outcome given attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.methods.declaration import Capabilities, Declaration
from equipoise.methods.shared.conditional import (
    DRAWS,
    ConditionalGame,
    Donors,
    Stream,
    known_attribute,
    streams_of,
)
from equipoise.methods.shared.pretraining import pretrain
from equipoise.networks import StackedMLP, select_members
from equipoise.notions import Notion
from equipoise.training import Member, OptimizerSettings, TrainingData
from equipoise.training.members import generators
from equipoise.training.step import minimize

#: Of the network for the density: as in the authors' program for classes.
HIDDEN = (64,)
EPOCHS = 100
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


class _DensityStep:
    """One update of the networks that describe Y given A, by maximum likelihood."""

    def __init__(
        self, network: StackedMLP, attribute: Tensor, outcome: Tensor, data: TrainingData
    ) -> None:
        self._attribute, self._outcome, self._data = attribute, outcome, data
        self._log_density = _log_density(data)
        self._optimizer = OPTIMIZER.build(network.parameters())
        self._network = network
        self.rates: Mapping[torch.optim.Optimizer, float] = {
            self._optimizer: OPTIMIZER.learning_rate
        }
        self.modules: nn.Module = network

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        likelihood = self._log_density(self._outcome[rows], self._network(self._attribute[rows]))
        weight, _ = self._data.pair_weights(rows, rows)
        loss = -(likelihood if weight is None else likelihood * weight).mean(-1)
        minimize(loss, self._optimizer)
        return loss.detach(), torch.zeros_like(loss)


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
        chance = torch.rand(mine.shape, dtype=torch.float64, generator=generator, device="cpu")
        swap = chance < log_odds.double().sigmoid()
        donor[:, left] = torch.where(swap, theirs, mine)
        donor[:, right] = torch.where(swap, mine, theirs)
    return donor


def inverse_conditional_permutation(
    data: TrainingData,
    members: Sequence[Member],
    *,
    penalized_width: int,
    notion: Notion,
    critic: CriticSettings,
    density_ratio: RatioKind,
) -> ConditionalGame:
    """Lai and Guan 2025: A' is A permuted, permutations following their law given Y.

    That law needs q(y | a) only, up to what does not depend on the permutation, and Y is simple
    where A is not. For classes q is a softmax network, as theirs; for a continuous Y it is a normal
    density whose mean and variance are a network's, where they fit a masked autoregressive flow.
    Networks and permutations are made of each member's own training rows, before training starts.
    """
    attribute = known_attribute(data)
    outcome = _outcome(data)
    streams, _ = streams_of(members)
    network = describe_outcome(data, streams, attribute)
    log_density = _log_density(data)

    def draw(number: int, available: Tensor, generator: torch.Generator) -> Tensor:
        rows = available.to(data.x.device)
        with torch.no_grad():
            described = select_members(network, [number])(attribute[rows][None])[0]
        sample = partial(permutations, outcome[rows].cpu(), described.cpu(), log_density)
        return sample(draws=DRAWS, generator=generator)

    return ConditionalGame(
        data,
        members,
        Donors(data, members, draw),
        penalized_width=penalized_width,
        critic=critic,
        covariance=False,
    )


def describe_outcome(
    data: TrainingData, streams: Sequence[Stream], attribute: Tensor
) -> StackedMLP:
    """Train a network for every stream that describes Y given A."""
    outcome = _outcome(data)
    width = 2 if data.outcome_class is None else int(outcome.max()) + 1
    network = StackedMLP(
        attribute.shape[1],
        HIDDEN,
        width,
        generators=generators([seed for seed, _ in streams], "conditional law"),
        normalization="none",
    ).to(data.x)
    step = _DensityStep(network, attribute, outcome, data)
    pretrain(
        step,
        streams,
        len(data),
        epochs=EPOCHS,
        device=data.x.device,
        asked_by="method='icp'",
    )
    return network


def _outcome(data: TrainingData) -> Tensor:
    """The outcome (n,): class numbers, or numbers."""
    return data.outcome[:, 0] if data.outcome_class is None else data.outcome_class


def _log_density(data: TrainingData) -> LogDensity:
    return normal_log_density if data.outcome_class is None else class_log_density


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
    options=frozenset({"divergence", "gradient_penalty"}),
)
