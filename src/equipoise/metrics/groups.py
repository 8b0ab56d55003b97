"""Who the groups are: sizes, rates and errors per group, and intersections of discrete columns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.metrics.parity import cell_sums
from equipoise.metrics.sample import Scored
from equipoise.tables import SensitiveColumn

# Below this many rows a rate is a few people: at a rate of 1/2 its 95 % interval is 0.36 wide.
SMALL_GROUP = 30


@dataclass(frozen=True)
class GroupRow:
    """One group, or one band of a continuous attribute, as one member's scores treat it.

    Attributes
    ----------
    attribute : str
        Name of the column.
    group : str
        In words.
    size : float
        Number of rows (sum of weights).
    share : float
        Of the rows in which the attribute is known.
    small : bool
        Whether fewer than `SMALL_GROUP` rows.
    mean_score : float
    decision_rate, outcome_rate, true_positive_rate, false_positive_rate : float or None
        None where there are no decisions or no binary y; NaN where no row has that outcome.
    """

    attribute: str
    group: str
    size: float
    share: float
    small: bool
    mean_score: float
    decision_rate: float | None
    outcome_rate: float | None
    true_positive_rate: float | None
    false_positive_rate: float | None


def group_table(
    scored: Scored, column: SensitiveColumn, *, member: int = 0
) -> tuple[GroupRow, ...]:
    """Sizes and rates of every group of a discrete column, or of ten bands of a continuous one.

    Bands lie between the deciles; bands that ties leave empty are left out, since no value of the
    attribute falls there. Uses the first weighting of `scored`.
    """
    sample = scored.against(column)
    attribute = sample.attribute
    weights = sample.weights[:1]
    one = torch.ones_like(weights)
    columns = [one, scored.scores[member : member + 1]]
    binary = scored.outcome_kind == "binary" and scored.y is not None
    decided = scored.threshold is not None
    positive = one * scored.y if binary and scored.y is not None else torch.zeros_like(one)
    decision = scored.responses[member : member + 1] if decided else torch.zeros_like(one)
    columns += [decision, positive, decision * positive, decision * (1 - positive)]
    sums = cell_sums(torch.cat(columns), weights, attribute.codes, attribute.n_bins)[0].cpu()
    names = _band_names(column, sums.shape[1], attribute.codes.cpu().numpy())
    rows = []
    for name, (size, score, decisions, positives, true, false) in zip(
        names, sums.T.tolist(), strict=True
    ):
        if size == 0:
            continue
        rows.append(
            GroupRow(
                attribute=column.name,
                group=name,
                size=size,
                share=size / float(weights.sum()),
                small=size < SMALL_GROUP,
                mean_score=score / size,
                decision_rate=decisions / size if decided else None,
                outcome_rate=positives / size if binary else None,
                true_positive_rate=_share(true, positives) if decided and binary else None,
                false_positive_rate=_share(false, size - positives) if decided and binary else None,
            )
        )
    return tuple(rows)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _band_names(column: SensitiveColumn, n_bins: int, codes: NDArray[np.int64]) -> tuple[str, ...]:
    """Category, or smallest and largest value found in the band."""
    if column.values is None:
        return tuple(str(category) for category in column.categories)
    names = []
    for band in range(n_bins):
        values = column.values[(codes == band) & ~column.missing]
        names.append(f"{values.min():.6g} to {values.max():.6g}" if len(values) else "")
    return tuple(names)


@dataclass(frozen=True, eq=False)
class Intersection:
    """All combinations of categories of several discrete columns.

    Attributes
    ----------
    column : SensitiveColumn
        Discrete; its categories are the combinations that occur, as tuples.
    sizes : dict of tuple to int
        Rows per combination, those without rows included.
    """

    column: SensitiveColumn
    sizes: dict[tuple[Hashable, ...], int]

    @property
    def small(self) -> tuple[tuple[Hashable, ...], ...]:
        """Combinations with some rows, but fewer than `SMALL_GROUP`."""
        return tuple(group for group, size in self.sizes.items() if 0 < size < SMALL_GROUP)

    @property
    def empty(self) -> tuple[tuple[Hashable, ...], ...]:
        """Combinations without rows: nothing can be said about them."""
        return tuple(group for group, size in self.sizes.items() if size == 0)


# More combinations than this cannot be listed for a person, nor do they hold enough rows.
MAX_COMBINATIONS = 10_000


def intersect(columns: Sequence[SensitiveColumn]) -> Intersection:
    """Cross discrete columns into one; missing where any of them is.

    >>> from equipoise.tables import SensitiveTable
    >>> data = {"sex": ["F", "F", "M", "M", "F"], "old": [True, False, True, True, True]}
    >>> crossed = intersect(SensitiveTable.from_data(data).columns)
    >>> crossed.sizes
    {('F', False): 1, ('F', True): 2, ('M', False): 0, ('M', True): 2}
    >>> crossed.column.name, crossed.column.codes.tolist(), crossed.empty
    ('sex x old', [1, 0, 2, 2, 1], (('M', False),))
    """
    continuous = [column.name for column in columns if column.kind == "continuous"]
    if len(columns) < 2 or continuous:
        found = f"continuous {', '.join(map(repr, continuous))}" if continuous else len(columns)
        raise InputError(f"columns to intersect must be two or more discrete ones, got {found}")
    shape = [len(column.categories) for column in columns]
    if prod(shape) > MAX_COMBINATIONS:
        raise InputError(
            f"columns to intersect must have at most {MAX_COMBINATIONS} combinations, got "
            f"{prod(shape)}; leave some out"
        )
    known = ~np.any([column.missing for column in columns], axis=0)
    parts = [column.codes[known] for column in columns if column.codes is not None]
    cells = np.ravel_multi_index(tuple(parts), tuple(shape))
    counts = np.bincount(cells, minlength=prod(shape))
    combinations = list(product(*(column.categories for column in columns)))
    position = np.cumsum(counts > 0) - 1  # of each occurring combination among those that occur
    codes = np.full(len(known), -1, dtype=np.int64)
    codes[known] = position[cells]
    names = [column.name for column in columns]
    column = SensitiveColumn(
        name=" x ".join(names),
        kind="discrete",
        rule=f"intersection of {', '.join(names)}",
        codes=codes,
        categories=tuple(group for group, count in zip(combinations, counts, strict=True) if count),
        values=None,
    )
    return Intersection(column, dict(zip(combinations, counts.tolist(), strict=True)))
