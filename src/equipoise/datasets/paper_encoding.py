"""The encoding the authors of Sohn, Song and Lin (2024) gave all their data sets."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def scaled(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of ``frame`` (n, p) mapped linearly onto [-1, 1], least value to -1.

    The range is that of all rows, as in the authors' program: they scale before they split.

    >>> scaled(pd.DataFrame({"age": [20, 30, 60]}))["age"].tolist()
    [-1.0, -0.5, 1.0]
    """
    low, high = frame.min(), frame.max()
    return (2.0 * (frame - low) / (high - low) - 1.0).astype(float)


def one_hot(frame: pd.DataFrame) -> pd.DataFrame:
    """Return 0/1 columns, one per level of each column except its first in sorted order.

    >>> one_hot(pd.DataFrame({"race": ["White", "Black", "Asian"]})).columns.tolist()
    ['race_Black', 'race_White']
    """
    return pd.get_dummies(frame, columns=list(frame.columns), drop_first=True, dtype=float)


def encoded(frame: pd.DataFrame, *, scale: Sequence[str], levels: Sequence[str]) -> pd.DataFrame:
    """Return the ``scale`` columns scaled, then the ``levels`` columns one-hot encoded."""
    return pd.concat([scaled(frame[list(scale)]), one_hot(frame[list(levels)])], axis=1)
