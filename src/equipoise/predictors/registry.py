"""Families of predictors by name, and the words for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from equipoise.predictors.boosting import LIBRARIES


@dataclass(frozen=True)
class Family:
    """Words for one family: one model of it, many, and what its training counts."""

    one: str
    many: str
    unit: str


#: Every family by name. Trees are of the family that their library names.
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {"network": Family("network", "networks", "iteration")}
    | {each.family: Family(each.words, each.words, "round") for each in LIBRARIES.values()}
)
