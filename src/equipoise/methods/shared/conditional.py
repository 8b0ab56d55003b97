"""Donors: rows whose attributes stand in for those of other rows, drawn before training.

A method that draws A given Y keeps a table of several draws for every row. A step picks one of them
by the row numbers that the batch stream drew, so that it needs no generator of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from equipoise.critic import CriticGame, CriticSettings
from equipoise.errors import InputError
from equipoise.methods.shared.batch_statistics import row_weights
from equipoise.training import Member, TrainingData
from equipoise.training.members import generator, generators

#: Draws kept for every row. Over a run each is met many times; more would cost memory only.
DRAWS = 16

#: Seed and rows of a member: members that share both share their draws.
Stream = tuple[int, tuple[int, ...]]

#: Given the number of a stream, the rows (m,) that may be drawn and a generator on the CPU: for
#: each draw and each of these rows the position of its donor among them, (DRAWS, m).
Draw = Callable[[int, Tensor, torch.Generator], Tensor]


def streams_of(members: Sequence[Member]) -> tuple[list[Stream], list[int]]:
    """Distinct streams of the members, and which of them each member has."""
    streams = list(dict.fromkeys((member.seed, member.rows) for member in members))
    return streams, [streams.index((member.seed, member.rows)) for member in members]


class Donors:
    """A table of donors (streams, DRAWS, n); a row that is never drawn for is its own donor."""

    def __init__(self, data: TrainingData, members: Sequence[Member], draw: Draw) -> None:
        streams, which = streams_of(members)
        n, device = len(data), data.x.device
        known = (
            torch.ones(n, dtype=torch.bool, device="cpu")
            if data.known is None
            else data.known.cpu()
        )
        table = torch.arange(n, device="cpu").repeat(len(streams), DRAWS, 1)
        for number, (seed, rows) in enumerate(streams):
            available = torch.tensor(rows, device="cpu") if rows else torch.arange(n, device="cpu")
            available = available[known[available]]
            position = draw(number, available, generator(seed, "attribute draws"))
            table[number][:, available] = available[position]
        self.table = table.to(device)
        self._which = torch.tensor(which, device=device)[:, None]

    def __call__(self, rows: Tensor, resampled: Tensor) -> Tensor:
        """Return a donor for each of ``rows`` (K, B); ``resampled`` (K, B) chooses the draw."""
        donor: Tensor = self.table[self._which, resampled % DRAWS, rows]
        return donor


def near_rows(
    outcome: Tensor, weight: Tensor, reach: int, *, draws: int, generator: torch.Generator
) -> Tensor:
    """For every row draw rows of like outcome, with replacement; positions (draws, m).

    outcome: (m,). weight: (m,), to which chances are proportional. reach: rows may lie this many
    ranks of the outcome away, and rows of equal outcome are never told apart, so that 0 draws from
    the rows of exactly the same outcome: the maximum-likelihood estimate of P(A | Y).

    >>> drawn = near_rows(
    ...     torch.tensor([0, 1, 0, 1]), torch.ones(4), 0, draws=50,
    ...     generator=torch.Generator().manual_seed(0),
    ... )
    >>> [sorted(set(column.tolist())) for column in drawn.T]
    [[0, 2], [1, 3], [0, 2], [1, 3]]
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
    # Where rounding, or a neighbourhood without any weight, leads outside, stay inside.
    drawn = torch.searchsorted(mass[1:].contiguous(), point, right=True).clamp(begin, end - 1)
    donor = torch.empty_like(drawn)
    donor[:, order] = order[drawn]
    return donor


def covariance_gap(score: Tensor, attribute: Tensor, resampled: Tensor, weight: Tensor) -> Tensor:
    """Sum over columns of (cov(score, A) - cov(score, A'))^2, (K,).

    score: (K, B, w). attribute, resampled: (K, B, q). weight: (K, B), summing to one.
    """
    weighted = score * weight[..., None]
    centered = weighted - weight[..., None] * weighted.sum(1, keepdim=True)
    # Both covariances have the same centered score, so their difference is one product.
    return (centered.transpose(1, 2) @ (attribute - resampled)).square().sum((1, 2))


class ConditionalGame:
    """Critics in a game about donors drawn given Y; with ``covariance`` the gap above is added."""

    def __init__(
        self,
        data: TrainingData,
        members: Sequence[Member],
        donors: Donors,
        *,
        penalized_width: int,
        critic: CriticSettings,
        covariance: bool,
    ) -> None:
        self._data = data
        self._attribute = known_attribute(data)
        self.donors = donors
        self._covariance = covariance
        self._game = CriticGame(
            penalized_width,
            self._attribute.shape[1],
            data.outcome.shape[1],
            settings=critic,
            generators=generators([member.seed for member in members], "critic"),
        ).to(data.x)
        self._game.start()
        self.networks: nn.Module = self._game

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Train the critics on this batch and return their value, and the gap, (K,)."""
        # Donors were drawn in proportion to their weights, so those of the rows remain.
        weight, _ = self._data.pair_weights(rows, rows)
        attribute = self._attribute[rows]
        drawn = self._attribute[self.donors(rows, resampled)]
        value = self._game.play(
            penalized, attribute, drawn, self._data.outcome[rows], (weight, weight)
        )
        if not self._covariance:
            return value
        return value + covariance_gap(penalized, attribute, drawn, row_weights(self._data, rows))


def known_attribute(data: TrainingData) -> Tensor:
    """The attributes (n, q), zeros where unknown, so that nothing can depend on them there."""
    if data.attribute is None:
        raise InputError("sensitive_features is required unless strength=0")
    if data.known is None:
        return data.attribute
    return torch.where(data.known[:, None], data.attribute, 0.0)
