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
    """

    strength: float
    members: tuple[int, ...]
    seeds: tuple[int, ...]

    @property
    def is_average(self) -> bool:
        """Whether several members are averaged."""
        return len(self.members) > 1

    @property
    def seed(self) -> int:
        """The seed, or ALL_SEEDS for an average."""
        return ALL_SEEDS if self.is_average else self.seeds[0]

    def describe(self) -> str:
        """Say in words what it is.

        >>> Entry(0.5, (1,), (7,)).describe(), Entry(0.5, (1, 3), (7, 8)).describe()
        ('strength 0.5, seed 7', 'strength 0.5, average of 2 seeds')
        """
        who = f"average of {len(self.seeds)} seeds" if self.is_average else f"seed {self.seed}"
        return f"strength {self.strength:g}, {who}"


def entries_of(members: Sequence[Member], *, ensemble: bool) -> tuple[Entry, ...]:
    """Return every member in order, then with ``ensemble`` the average of each strength."""
    alone = [Entry(each.strength, (place,), (each.seed,)) for place, each in enumerate(members)]
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
            )
        )
    return (*alone, *averages)
