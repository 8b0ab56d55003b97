"""What a loaded data set is: features, outcome, sensitive attributes, and what one should know."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

Task = Literal["classification", "regression"]
Preprocessing = Literal["default", "paper"]
Part = Literal["all", "train", "test"]


@dataclass(frozen=True, kw_only=True)
class DatasetDescription:
    """What a data set is, where it comes from and what to beware of.

    ``positive`` says in words what y = 1 means (classification) or what y measures (regression);
    ``rows`` and ``features`` count what was loaded, ``notes`` names every column or row left out.
    """

    name: str
    title: str
    task: Task
    target: str
    positive: str
    source: str
    licence: str
    citation: str
    sensitive: tuple[str, ...] = ()
    rows: int = 0
    features: int = 0
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the description as text for a person."""
        lines = [
            f"{self.name}: {self.title}",
            f"task       {self.task}: {self.target} ({self.positive})",
            f"size       {self.rows} rows, {self.features} features",
            f"sensitive  {', '.join(self.sensitive)}",
            f"source     {self.source}",
            f"licence    {self.licence}",
            f"citation   {self.citation}",
            *(f"note       {note}" for note in self.notes),
        ]
        wrapped = (textwrap.fill(line, 100, subsequent_indent=" " * 11) for line in lines)
        return "\n".join(wrapped)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Features ``X`` (n, p), outcome ``y`` (n,), sensitive attributes ``A`` (n, q).

    The three share the index 0..n-1; no column of ``A`` is a column of ``X``. ``origin`` is the
    file the rows came from, or "bundled" or "simulated".
    """

    X: pd.DataFrame
    y: pd.Series
    A: pd.DataFrame
    description: DatasetDescription
    origin: str

    def __repr__(self) -> str:
        """Return one line: name, size, task and sensitive columns."""
        about = self.description
        return (
            f"{type(self).__name__}({about.name!r}, {about.rows} rows, {about.features} features, "
            f"{about.task} of {about.target!r}, sensitive {', '.join(about.sensitive)})"
        )


def assemble(
    X: pd.DataFrame,
    y: pd.Series,
    A: pd.DataFrame,
    *,
    about: DatasetDescription,
    notes: tuple[str, ...],
    origin: str,
) -> Dataset:
    """Return the data set with rows renumbered from 0, its sizes and ``notes`` in ``about``."""
    return Dataset(
        X=X.reset_index(drop=True),
        y=y.reset_index(drop=True),
        A=A.reset_index(drop=True),
        description=described(replace(about, notes=notes), X, A),
        origin=origin,
    )


def described(about: DatasetDescription, X: pd.DataFrame, A: pd.DataFrame) -> DatasetDescription:
    """Return ``about`` with the sizes of ``X`` and the columns of ``A`` filled in."""
    return replace(about, rows=len(X), features=X.shape[1], sensitive=tuple(map(str, A.columns)))


def as_categories(column: pd.Series, labels: dict[int, str]) -> pd.Series:
    """Return integer codes as a categorical of their ``labels``; a code without one is shown.

    Codes the data's documentation does not explain become "code 5" instead of being merged or lost.

    >>> as_categories(pd.Series([2.0, 7.0]), {1: "male", 2: "female"}).tolist()
    ['female', 'code 7']
    """
    codes = column.astype(np.int64)
    unexplained = {code: f"code {code}" for code in sorted(set(codes.unique()) - set(labels))}
    used = {code: text for code, text in (labels | unexplained).items() if (codes == code).any()}
    return codes.map(used).astype(pd.CategoricalDtype(list(used.values())))


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
