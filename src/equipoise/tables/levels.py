"""Categories of one column as 0/1 columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import OneHotEncoder

from equipoise.tables.columns import Column

MAX_CATEGORIES = 255


@dataclass(frozen=True)
class Levels:
    """The categories of a text or categorical column, as learned from training rows.

    Attributes
    ----------
    categories : tuple of str, or None for missing values
        All that occurred, sorted, None last.
    rare : tuple
        Those that share one 0/1 column, the last one: the least frequent, where there are more
        than `MAX_CATEGORIES`.
    """

    categories: tuple[str | None, ...]
    rare: tuple[str | None, ...]

    @classmethod
    def learn(cls, column: Column) -> Levels:
        """Collect the categories of training rows; which are rare is scikit-learn's rule."""
        assert column.codes is not None
        names = {level_names(column)[code] for code in np.unique(column.codes)}
        if len(names) <= MAX_CATEGORIES:
            # None is rare. Text of a million rows need not be looked at to know that.
            known = sorted(name for name in names if name is not None)
            return cls((*known, *([None] if None in names else [])), ())
        encoder = OneHotEncoder(max_categories=MAX_CATEGORIES).fit(_as_text(column)[:, None])
        (categories,), (rare,) = encoder.categories_, encoder.infrequent_categories_
        return cls(tuple(categories), () if rare is None else tuple(rare))

    @property
    def frequent(self) -> list[str | None]:
        """Categories with a 0/1 column of their own, in the order of these."""
        rare = set(self.rare)
        return [category for category in self.categories if category not in rare]

    @property
    def positions(self) -> dict[str | None, int]:
        """Which 0/1 column each category has."""
        frequent = {category: position for position, category in enumerate(self.frequent)}
        return {**frequent, **dict.fromkeys(self.rare, len(frequent))}

    @property
    def width(self) -> int:
        """Number of 0/1 columns."""
        return len(self.categories) - len(self.rare) + bool(self.rare)

    def names(self, column: str) -> list[str]:
        """Names of the 0/1 columns."""
        names = [
            f"{column} is missing" if category is None else f"{column}={category}"
            for category in self.frequent
        ]
        return [*names, f"{column} is infrequent"] if self.rare else names

    def one_hot(self, column: Column) -> NDArray[np.float32]:
        """0/1 columns of new rows (n, width); zeros for a category not seen in training."""
        positions = self.positions
        if column.codes is None:  # an empty column: every value is missing
            places = np.full(len(column.missing), positions.get(None, -1))
        else:
            places = np.array([positions.get(level, -1) for level in level_names(column)])
            places = places[column.codes]
        return np.asarray(places[:, None] == np.arange(self.width), dtype=np.float32)

    def unseen(self, column: Column) -> list[str]:
        """What new rows hold and training rows did not, as text for a message."""
        shown = unseen_levels(column, self.categories)
        if column.missing.any() and None not in self.categories:
            shown.append("missing values")
        return shown


def unseen_levels(column: Column, known: Collection[str | None]) -> list[str]:
    """Levels that new rows hold and that are not known, as text for a message."""
    seen = set(known)
    return [repr(str(level)) for level in column.levels if str(level) not in seen]


def level_names(column: Column) -> list[str | None]:
    """Text of every code; that of missing values, -1, is the last."""
    return [*(str(level) for level in column.levels), None]


def _as_text(column: Column) -> NDArray[np.object_]:
    """Levels as text (n,), None where missing."""
    return np.array(level_names(column), dtype=object)[column.codes]
