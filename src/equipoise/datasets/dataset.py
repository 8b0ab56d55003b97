"""What a loaded data set is: features, outcome, sensitive attributes, and what one should know."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from typing import Literal

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

    def of(self, X: pd.DataFrame, A: pd.DataFrame, notes: tuple[str, ...]) -> DatasetDescription:
        """Return this description of loaded rows."""
        sensitive = tuple(map(str, A.columns))
        return replace(self, rows=len(X), features=X.shape[1], sensitive=sensitive, notes=notes)


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
