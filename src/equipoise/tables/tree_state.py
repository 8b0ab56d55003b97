"""What a fitted encoder for trees has learned, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from equipoise.tables.columns import Family


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
