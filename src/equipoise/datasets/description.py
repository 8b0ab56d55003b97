"""What a loaded data set is: features, outcome, sensitive attributes, and what one should know."""

from __future__ import annotations

import textwrap
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
    """Return the data set with rows renumbered from 0 and its sizes written into ``about``."""
    return Dataset(
        X=X.reset_index(drop=True),
        y=y.reset_index(drop=True),
        A=A.reset_index(drop=True),
        description=describe_size(about, X, A, notes),
        origin=origin,
    )


def describe_size(
    about: DatasetDescription, X: pd.DataFrame, A: pd.DataFrame, notes: tuple[str, ...]
) -> DatasetDescription:
    """Return ``about`` with the sizes of ``X``, the columns of ``A`` and ``notes`` filled in."""
    return replace(
        about,
        rows=len(X),
        features=X.shape[1],
        sensitive=tuple(str(column) for column in A.columns),
        notes=notes,
    )


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
