"""The game for separation: critics compare (score, a, y) with (score, a', y), a' drawn given y.

If a' follows P(A | Y), the two distributions are equal exactly if the score is independent of A
given Y. Before training, several donors are drawn for every row: rows whose attributes stand in for
its own. In each step the resampled row numbers decide which donor is used, so that a step needs no
generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from equipoise.methods.declaration import Context
from equipoise.training import History, Member, NetworkStep, Phase, TrainingData, TrainingSettings
from equipoise.training.data import BatchStream, generator, row_numbers, streams_of

#: Donors drawn for every row. A run uses each of them many times; more would only cost memory.
DRAWS = 16
#: Training of networks that draw donors: epochs, rows of a batch, and limits on the steps.
EPOCHS, BATCH_SIZE = 100, 300
FEWEST_STEPS, MOST_STEPS = 400, 3_000

#: Draws donors: from the number of a stream, the rows (m,) that may be drawn, and a generator on
#: the CPU to the positions of the donors among these rows, (DRAWS, m).
Draw = Callable[[int, Tensor, torch.Generator], Tensor]


class ConditionalGame:
    """Critics in a game about donors drawn given Y; ``covariance`` adds `covariance_gap`.

    phases: train the networks that draw ``donors``, if there are any, and then draw these.
    """

    def __init__(
        self, context: Context, donors: Donors, phases: Sequence[Phase] = (), *, covariance: bool
    ) -> None:
        self._data, self._attribute = context.data, context.known_attribute
        self.donors, self._covariance, self.phases = donors, covariance, phases
        self._game = context.game(self._attribute.shape[1], context.data.outcome)
        self.networks: nn.Module = self._game

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        # Donors were drawn in proportion to their weights, so only the weights of rows are needed.
        weight, _ = self._data.pair_weights(rows, rows)
        attribute = self._attribute[rows]
        drawn = self._attribute[self.donors(rows, resampled)]
        value = self._game.play(
            penalized, attribute, drawn, self._data.outcome[rows], (weight, weight)
        )
        if not self._covariance:
            return value
        return value + covariance_gap(penalized, attribute, drawn, self._data.row_weights(rows))


def covariance_gap(score: Tensor, attribute: Tensor, resampled: Tensor, weight: Tensor) -> Tensor:
    """Sum over columns of (cov(score, A) - cov(score, A'))^2, (K,).

    score: (K, B, w). attribute, resampled: (K, B, q). weight: (K, B), summing to one.
    """
    weighted = score * weight[..., None]
    centered = weighted - weight[..., None] * weighted.sum(1, keepdim=True)
    # Both covariances use the same centered score, so their difference is one product.
    return (centered.transpose(1, 2) @ (attribute - resampled)).square().sum((1, 2))


class Donors:
    """A table of donors (streams, DRAWS, n); a row without drawn donors is its own donor."""

    def __init__(self, data: TrainingData, members: Sequence[Member], draw: Draw) -> None:
        self._streams, which = streams_of(members)
        self._known = None if data.known is None else data.known.cpu()
        self._draw = draw
        device = data.x.device
        self.table = torch.arange(len(data), device=device).repeat(len(self._streams), DRAWS, 1)
        self._which = torch.tensor(which, device=device)[:, None]

    def fill(self) -> None:
        table = self.table.cpu()
        for number, (seed, rows) in enumerate(self._streams):
            available = row_numbers(rows, table.shape[-1])
            if self._known is not None:
                available = available[self._known[available]]
            position = self._draw(number, available, generator(seed, "attribute draws"))
            table[number][:, available] = available[position]
        self.table.copy_(table)

    def __call__(self, rows: Tensor, resampled: Tensor) -> Tensor:
        """Return a donor for each of ``rows`` (K, B); ``resampled`` (K, B) says which one."""
        donor: Tensor = self.table[self._which, resampled % DRAWS, rows]
        return donor


class DonorNetworks(Protocol):
    """Networks, one for each stream, that draw donors after a phase has trained them.

    ``update`` trains on one batch and returns two losses, (K,) each; ``draw`` is a :data:`Draw`.
    """

    optimizers: list[torch.optim.Optimizer]  # with their initial learning rates

    @property
    def networks(self) -> nn.Module: ...

    def update(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]: ...

    def draw(self, number: int, available: Tensor, generator: torch.Generator) -> Tensor: ...


def game_with_networks(
    context: Context, donor_networks: DonorNetworks, *, needed_by: str, covariance: bool = False
) -> ConditionalGame:
    """Return the game about donors that networks draw.

    Their learning rates fall to zero over the second half of the phase that trains them, so that
    the weights settle.
    """
    donors = Donors(context.data, context.members, donor_networks.draw)
    streams, which = streams_of(context.members)
    learners, device = [Member(0.0, *stream) for stream in streams], context.data.x.device
    batches = BatchStream(learners, len(context.data), batch_size=BATCH_SIZE, device=device)
    steps = min(max(EPOCHS * batches.batches_per_epoch, FEWEST_STEPS), MOST_STEPS)
    settings = TrainingSettings(iterations=steps, schedule="decay")

    def finish(history: History) -> History:
        donors.fill()
        return history

    trained = donor_networks.networks, donor_networks.update, donor_networks.optimizers
    phase = Phase(
        label="distribution of A given Y",
        needed_by=needed_by,
        step=NetworkStep(*trained, settings),
        batches=batches,
        settings=settings,
        serves=which,
        finish=finish,
    )
    return ConditionalGame(context, donors, (phase,), covariance=covariance)


def near_rows(
    outcome: Tensor, weight: Tensor, reach: int, *, draws: int, generator: torch.Generator
) -> Tensor:
    """For every row draw rows with a similar outcome, with replacement; positions (draws, m).

    outcome: (m,). weight: (m,); probabilities are proportional to it. reach: largest distance in
    ranks of the outcome. Rows of equal outcome are always treated alike. So a reach of 0 draws from
    the rows of exactly the same outcome: the maximum-likelihood estimate of P(A | Y).
    """
    order = outcome.argsort(stable=True)
    ordered = outcome[order].contiguous()
    rank = torch.arange(len(order), device=order.device)
    nearest, furthest = (rank - reach).clamp_min(0), (rank + reach).clamp_max(len(order) - 1)
    begin = torch.searchsorted(ordered, ordered[nearest])
    end = torch.searchsorted(ordered, ordered[furthest], right=True)
    mass = torch.nn.functional.pad(weight[order].double().cumsum(0), (1, 0))
    low, high = mass[begin], mass[end]
    point = low + (high - low) * torch.rand(
        draws, len(order), dtype=torch.float64, generator=generator, device=order.device
    )
    # Rounding, or a range without any weight, could lead outside the range.
    drawn = torch.searchsorted(mass[1:].contiguous(), point, right=True).clamp(begin, end - 1)
    donor = torch.empty_like(drawn)
    donor[:, order] = order[drawn]
    return donor
