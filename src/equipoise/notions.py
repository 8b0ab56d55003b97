"""Fairness notions: what must not depend on what."""

from __future__ import annotations

from enum import StrEnum

from equipoise.errors import InputError


class Notion(StrEnum):
    """Which statistical relation between score and sensitive attribute is to vanish.

    ``INDEPENDENCE`` is generalized statistical parity, P(score | A = a) = P(score) for every a.
    ``SEPARATION`` is generalized equalized odds, P(score | A = a, Y = y) = P(score | Y = y) for
    every a and y. (Sohn, Song and Lin 2024, definitions 1 and 2.)
    """

    INDEPENDENCE = "independence"
    SEPARATION = "separation"

    @property
    def conditions_on_outcome(self) -> bool:
        """Whether the outcome Y takes part: separation compares like with like in Y."""
        return self is Notion.SEPARATION

    @classmethod
    def parse(cls, value: str) -> Notion:
        """Return the notion called ``value``.

        >>> Notion.parse("separation").conditions_on_outcome
        True
        """
        try:
            return cls(value)
        except ValueError:
            allowed = ", ".join(repr(str(notion)) for notion in cls)
            raise InputError(f"notion must be one of {allowed}, got {value!r}") from None
