"""Fairness notions: which independence between score and sensitive attribute is asked for."""

from __future__ import annotations

from enum import StrEnum

from equipoise.errors import check_choice


class Notion(StrEnum):
    """The independence that a fair score satisfies (Sohn, Song and Lin 2024, definitions 1 and 2).

    ``INDEPENDENCE`` is generalized statistical parity: P(score | A = a) = P(score) for every a.
    ``SEPARATION`` is generalized equalized odds: P(score | A = a, Y = y) = P(score | Y = y) for
    every a and y.
    """

    INDEPENDENCE = "independence"
    SEPARATION = "separation"

    @property
    def conditions_on_outcome(self) -> bool:
        """Whether people are compared within the same outcome Y only, as separation does."""
        return self is Notion.SEPARATION

    @classmethod
    def parse(cls, value: str) -> Notion:
        """Return the notion called ``value``.

        >>> Notion.parse("separation").conditions_on_outcome
        True
        """
        check_choice("notion", value, tuple(cls))
        return cls(value)
