"""How an audit is made: every choice a user has, checked once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from equipoise.errors import InputError, check_choice, check_flag, check_level, check_whole
from equipoise.metrics.outcome import OutcomeKind
from equipoise.metrics.sample import Threshold
from equipoise.notions import Notion

Favourable = Literal["high", "low"]


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Options of `audit`, under the same names."""

    notion: str | None = None
    threshold: Threshold = "paper"
    positive: Hashable | None = None
    outcome: OutcomeKind | None = None
    favourable: Favourable = "high"
    references: Mapping[str, Hashable] = field(default_factory=dict)
    intersections: bool = True
    level: float = 0.95
    draws: int = 200
    permutations: int = 999
    candidates: int = 1
    random_state: int = 0

    def __post_init__(self) -> None:
        if self.notion is not None:
            Notion.parse(self.notion)
        if self.outcome is not None:
            check_choice("outcome", self.outcome, get_args(OutcomeKind))
        check_choice(
            "favourable",
            self.favourable,
            get_args(Favourable),
            "; it says whether a high score is good for the person it is about",
        )
        if not isinstance(self.references, Mapping):
            raise InputError(
                "references must map names of columns to categories, got "
                f"{self.references!r}; for example references={{'sex': 'M'}}"
            )
        check_flag("intersections", self.intersections)
        check_level(self.level)
        for name, least in (("draws", 2), ("permutations", 1), ("candidates", 1)):
            check_whole(name, getattr(self, name), least=least)
        check_whole("random_state", self.random_state, least=0)

    def notions(self, *, outcome_given: bool) -> tuple[Notion, ...]:
        """The notions to assess: the one named, else all for which the data suffice."""
        if self.notion is None:
            return tuple(n for n in Notion if outcome_given or not n.conditions_on_outcome)
        chosen = Notion.parse(self.notion)
        if chosen.conditions_on_outcome and not outcome_given:
            raise InputError(
                "y must be given to assess separation, which compares people of equal outcome, got "
                "None; pass y, or notion='independence'"
            )
        return (chosen,)
