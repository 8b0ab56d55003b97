"""Families of predictors as pages put them into words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

#: One model of a family, and many.
ONE: Mapping[str, str] = MappingProxyType({"network": "network", "boosting": "boosted trees"})
MANY: Mapping[str, str] = MappingProxyType({"network": "networks", "boosting": "boosted trees"})
#: What passes in training.
MOMENT: Mapping[str, str] = MappingProxyType({"network": "iteration", "boosting": "round"})


def families_in_words(families: Sequence[str]) -> str:
    """Name the families of a frontier.

    >>> families_in_words(["network", "boosting"])
    'networks and boosted trees'
    """
    return " and ".join(MANY[family] for family in families)


def origin_in_words(family: str, strength: float, seed: int, moment: int, *, mixed: bool) -> str:
    """Say how a snapshot of a table came about; of networks by themselves not that they are ones.

    >>> origin_in_words("boosting", 0.9, 3, 20, mixed=False)
    'boosted trees, strength 0.9, seed 3, round 20'
    """
    kind = f"{ONE[family]}, " if mixed or family != "network" else ""
    who = f"seed {seed}" if seed >= 0 else "average over seeds"
    return f"{kind}strength {strength:g}, {who}, {MOMENT[family]} {moment}"
