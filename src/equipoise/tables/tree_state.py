"""What a fitted encoder for trees has learned, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from equipoise.tables.columns import Family
from equipoise.tables.state import Unfamiliar, named_levels


@dataclass(frozen=True)
class TreeEncoderState:
    """Everything that decides how a fitted `TreeEncoder` encodes rows.

    Attributes
    ----------
    families : mapping of input column to its family, in the order seen at fit
    levels : mapping of text and categorical columns to the level of each code
        None in the place of a category that the type of the column declares and that no row had
        at fit.
    ordered : tuple of str
        Categorical columns whose order means something.
    complete : tuple of str
        Numbers and booleans of which no row at fit was missing.
    powers : mapping of numbers to the power of two that they are divided by
        Only where LightGBM could not tell their values apart as they are.
    """

    families: Mapping[str, Family]
    levels: Mapping[str, tuple[str | None, ...]]
    ordered: tuple[str, ...]
    complete: tuple[str, ...] = ()
    powers: Mapping[str, int] = field(default_factory=dict)

    def unfamiliar(self, never_missing: frozenset[int]) -> Unfamiliar:
        """What no row held at fit.

        never_missing: positions of the columns for whose missing values the trees have no rule.
        """
        names = [name for place, name in enumerate(self.families) if place in never_missing]
        lowest = "LightGBM takes it for the lowest category"
        treated = {
            **dict.fromkeys(self.families, "LightGBM takes it for 0"),
            **dict.fromkeys(self.levels, "they are scored as having no category"),
            **dict.fromkeys(self.ordered, lowest),
        }
        unseen = dict.fromkeys(self.levels, "they are treated as missing")
        unseen |= {name: lowest for name in names if name in self.ordered}
        known = {name: named_levels(levels) for name, levels in self.levels.items()}
        return Unfamiliar({name: treated[name] for name in names}, unseen, known)

    def check(self) -> None:
        """Refuse parts that do not fit one another, as only a forged file has them (ValueError)."""
        text = {name for name, kind in self.families.items() if kind in ("text", "categorical")}
        if not self.families or set(self.levels) != text or not set(self.ordered) <= text:
            raise ValueError("there must be levels for each column of text or categories")
        if not set(self.complete) <= self.families.keys() - text:
            raise ValueError("only numbers and booleans can be complete")

    @property
    def categorical(self) -> tuple[int, ...]:
        """Positions of the columns whose codes are names of categories, not amounts."""
        return tuple(
            position
            for position, name in enumerate(self.families)
            if name in self.levels and name not in self.ordered
        )
