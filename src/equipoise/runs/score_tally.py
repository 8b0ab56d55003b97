"""What was unknown about rows that were scored all the same, counted over a whole file."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from equipoise.runs.unknowns import Unknowns


class ScoreTally:
    """Counts rows that were scored although something about them was unknown at fit."""

    def __init__(self, unknowns: Unknowns) -> None:
        self._unknowns = unknowns
        self._missing: Counter[str] = Counter()
        self._unseen: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def count(self, features: pd.DataFrame) -> None:
        """Count the rows of one more block."""
        for name in self._unknowns.missing:
            self._missing[name] += int(features[name].isna().sum())
        for name, categories in self._unknowns.categories.items():
            values = features[name]
            unseen = values.notna() & ~values.isin(list(categories))
            if unseen.any():
                self._examples.setdefault(name, str(values[unseen].iloc[0]))
            self._unseen[name] += int(unseen.sum())

    def notes(self) -> tuple[str, ...]:
        """Say what was counted."""
        missing, unseen = self._unknowns.missing, self._unknowns.unseen
        return tuple(
            [
                f"rows without a value in {name!r}, {missing[name].why}: {count:,}; "
                f"{missing[name].treated}"
                for name, count in self._missing.items()
                if count
            ]
            + [
                f"rows with a category in {name!r} not seen at fit, such as "
                f"{self._examples[name]!r}: {count:,}; {unseen[name]}"
                for name, count in self._unseen.items()
                if count
            ]
        )
