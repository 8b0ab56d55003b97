"""Which methods there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.errors import InputError
from equipoise.methods.sbp import SBP
from equipoise.notions import Notion
from equipoise.training import Member, Method, TrainingData


class MethodFactory(Protocol):
    """How a method is made ready for a run; ``penalised_width`` is the width of what it sees."""

    def __call__(
        self,
        data: TrainingData,
        members: Sequence[Member],
        *,
        penalised_width: int,
        notion: Notion,
        critic: CriticSettings,
        density_ratio: RatioKind,
    ) -> Method:
        """Return the method, ready for these members on these rows."""
        ...


METHODS: Mapping[str, MethodFactory] = MappingProxyType({"sbp": SBP})


def parse_method(name: str) -> MethodFactory:
    """Return the method called ``name``."""
    try:
        return METHODS[name]
    except KeyError:
        allowed = ", ".join(map(repr, METHODS))
        raise InputError(f"method must be one of {allowed}, got {name!r}") from None
