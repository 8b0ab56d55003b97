"""What stands in the table of a frontier: each member, and averages of members over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from equipoise.training import Member

#: Seed of an average, in tables.
ALL_SEEDS = -1


@dataclass(frozen=True)
class Entry:
    """A member, or the average of the members of one strength.

    Attributes
    ----------
    strength : float
    members : tuple of int
        Positions of the members whose scores are averaged; one for a member by itself.
    seeds : tuple of int
        Their seeds.
    predictor : str
        Their family: "network" or "boosting".
    """

    strength: float
    members: tuple[int, ...]
    seeds: tuple[int, ...]
    predictor: str = "network"

    @property
    def is_average(self) -> bool:
        """Whether several members are averaged."""
        return len(self.members) > 1

    @property
    def seed(self) -> int:
        """The seed, or ALL_SEEDS for an average."""
        return ALL_SEEDS if self.is_average else self.seeds[0]

    def describe(self, iteration: int) -> str:
        """Say in words what it is at an iteration.

        >>> Entry(0.5, (1,), (7,)).describe(100)
        'strength 0.5, seed 7, iteration 100'
        """
        return origin_in_words(
            self.predictor, self.strength, self.seed, len(self.members), iteration
        )


def origin_in_words(
    predictor: str, strength: float, seed: int, averaged: int, iteration: int
) -> str:
    """Say how a snapshot came about.

    >>> origin_in_words("boosting", 0.5, ALL_SEEDS, 2, 40)
    'boosted trees, strength 0.5, average of 2 seeds, round 40'
    """
    kind, moment = {"network": ("", "iteration"), "boosting": ("boosted trees, ", "round")}[
        predictor
    ]
    who = f"seed {seed}" if averaged == 1 else f"average of {averaged} seeds"
    return f"{kind}strength {strength:g}, {who}, {moment} {iteration}"


def entries_of(
    members: Sequence[Member], *, ensemble: bool, predictor: str = "network"
) -> tuple[Entry, ...]:
    """Return every member in order, then with ``ensemble`` the average of each strength."""
    alone = [
        Entry(each.strength, (place,), (each.seed,), predictor)
        for place, each in enumerate(members)
    ]
    if not ensemble:
        return tuple(alone)
    averages = []
    for strength in dict.fromkeys(member.strength for member in members):
        same = [entry for entry in alone if entry.strength == strength]
        averages.append(
            Entry(
                strength,
                tuple(place for entry in same for place in entry.members),
                tuple(seed for entry in same for seed in entry.seeds),
                predictor,
            )
        )
    return (*alone, *averages)
