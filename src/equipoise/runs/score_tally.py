"""What was unknown about rows that were scored all the same, counted over a whole file."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from equipoise.features import EncoderState


class ScoreTally:
    """Counts rows that were scored although something about them was unknown at fit."""

    def __init__(self, state: EncoderState) -> None:
        self._state = state
        self._missing: Counter[str] = Counter()
        self._unseen: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def count(self, features: pd.DataFrame) -> None:
        """Count the rows of one more block."""
        for name in self._state.medians:
            if name not in self._state.flagged and self._state.families[name] != "empty":
                self._missing[name] += int(features[name].isna().sum())
        for name, levels in self._state.levels.items():
            values = features[name]
            unseen = values.notna() & ~values.isin(list(levels.categories))
            if unseen.any():
                self._examples.setdefault(name, str(values[unseen].iloc[0]))
            self._unseen[name] += int(unseen.sum())
            if None not in levels.categories:
                self._missing[name] += int(values.isna().sum())

    def notes(self) -> tuple[str, ...]:
        """Say what was counted."""
        return tuple(
            [
                f"rows without a value in {name!r}, where every row had one at fit: {count:,}; "
                f"{self._stand_in(name)}"
                for name, count in self._missing.items()
                if count
            ]
            + [
                f"rows with a category in {name!r} not seen at fit, such as "
                f"{self._examples[name]!r}: {count:,}; they are scored as having none"
                for name, count in self._unseen.items()
                if count
            ]
        )

    def _stand_in(self, name: str) -> str:
        if name in self._state.levels:
            return "they are scored as having no category"
        return "the median of the training rows stands in for it"
