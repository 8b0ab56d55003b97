"""The input of a metric: scores, weights, decisions, and the sets of rows by A and Y.

`prepare` checks and sorts the scores once; `Scored.against` combines them with a sensitive column.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from equipoise.errors import InputError, check_count
from equipoise.metrics.arrays import Floats, Integers, Mask, as_numbers, as_scores, as_weights
from equipoise.metrics.outcome import OutcomeKind, equal_frequency, outcome_kind, split_outcome
from equipoise.metrics.partition import Partition, Ranking, by_decile, everybody, rank
from equipoise.metrics.utility import (
    auc_of_ranking,
    explained_absolute_share,
    explained_share,
    mean_absolute,
    youden_of_ranking,
)
from equipoise.notions import Notion
from equipoise.tables import SensitiveColumn, SensitiveTable, check_aligned

UtilityMeasure = Literal["AUC", "macro AUC", "R2", "D2 absolute error", "MAE"]
Threshold = Literal["paper", "youden"] | float | None | Any
# Measures of numbers: scores (K, n), y (n,) and weights (R, n) -> (R, K).
_OF_NUMBERS: Mapping[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = MappingProxyType(
    {
        "R2": explained_share,
        "D2 absolute error": explained_absolute_share,
        "MAE": mean_absolute,
    }
)
# Smaller groups say little: with 30 rows the 95 % interval of a rate of 1/2 is 0.36 wide.
SMALL_GROUP = 30
# More combinations cannot be listed, and hardly any would have enough rows.
MAX_COMBINATIONS = 10_000


@dataclass(frozen=True, eq=False)
class Repeats:
    """Rows that stand for many, such as counts of a data set that does not fit into memory.

    Scores may be in bins. The score of a row is then the mean of the rows that it stands for.
    """

    number: Floats  # (n,): how many rows, of equal weight, each row stands for
    lowest: Floats  # (n,): lowest score of its bin, which all rows of the bin share
    coarse: Mask  # (n,): whether its bin holds several distinct scores

    def take(self, rows: Any) -> Repeats:
        """These rows (positions or a mask)."""
        return Repeats(self.number[rows], self.lowest[rows], self.coarse[rows])


def of_equal_weight(
    number: Floats, total: Floats, squares: Floats
) -> tuple[Integers, Floats, Floats]:
    """Rows that stand for rows of equal weight, from sums over the rows of m cells.

    number, total, squares: (m,), the rows of each cell, the sum of their weights, and that of the
    squares. A cell whose weights differ becomes two: some of its rows with a larger weight and the
    others with a smaller one, with the same three sums. So what weighted sums are, how much they
    vary when rows are drawn, and effective numbers of rows are those of the rows themselves.

    Returns the cell, the number and the weight of each row.

    >>> cell, number, weight = of_equal_weight(*np.array([[4.0, 2.0], [8.0, 2.0], [20.0, 2.0]]))
    >>> cell.tolist(), number.tolist(), weight.tolist()
    ([0, 0, 1], [2.0, 2.0, 2.0], [3.0, 1.0, 1.0])
    """
    mean = total / number
    varied = np.maximum(squares / number / mean**2 - 1, 0.0)  # variance of weights of mean one
    # Squares are rounded, so smaller differences cannot be seen.
    cells = np.flatnonzero((number > 1) & (varied > 1e-12))
    of_cells, varied = number[cells], varied[cells]
    # More rows of the larger weight would leave the others a negative one.
    most = np.ceil(of_cells / (1 + varied)) - 1
    upper = np.clip(np.minimum(most, np.floor(of_cells / 2)), 1, None)
    lower = of_cells - upper
    above = mean[cells] * (1 + np.sqrt(varied * lower / upper))
    below = (total[cells] - upper * above) / lower
    place = np.concatenate([np.arange(len(number)), cells])
    rows, weights = np.concatenate([number, lower]), np.concatenate([mean, below])
    rows[cells], weights[cells] = upper, above
    order = np.argsort(place, kind="stable")
    return place[order], rows[order], weights[order]


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of K members with the outcome, R weightings of the rows, and the thresholds."""

    scores: Tensor  # (K, n)
    ranking: Ranking
    weights: Tensor  # (R, n): how many rows each row counts for
    threshold: Tensor | None  # (K,): decision = score > threshold; None: no decisions
    outcome: Partition | None  # the sets of rows by y: classes, or deciles of a continuous y
    outcome_kind: OutcomeKind | None
    y: Tensor | None  # (n,): numbers, or the position of the class in sorted order
    threshold_found: bool = False  # whether Youden's J chose the threshold on these rows
    repeats: Repeats | None = None  # None: every row stands for itself

    @property
    def people(self) -> Tensor:
        """How many rows each row stands for, (n,)."""
        if self.repeats is None:
            return torch.ones_like(self.weights[0])
        return torch.from_numpy(self.repeats.number).to(self.weights)

    @property
    def responses(self) -> Tensor:
        """Decisions as 0 and 1 (K, n), or the scores if there is no threshold."""
        if self.threshold is None:
            return self.scores
        return (self.scores > self.threshold[:, None]).to(torch.float64)

    def utility(self, measure: UtilityMeasure, *, columns: int = 1) -> Tensor:
        """Utility (R, E) of E models, from scores (E * columns, n), a model's columns together.

        A model has one column, or one for each of several classes. The macro AUC of several classes
        is the mean over classes of the AUC of the class's probability for the class against the
        rest, with equal weight for every class
        (Fawcett 2006, An introduction to ROC analysis, section 9, without weights by class size;
        ``sklearn.metrics.roc_auc_score`` with ``multi_class="ovr", average="macro"``).
        """
        assert self.y is not None
        if measure in _OF_NUMBERS:
            return _OF_NUMBERS[measure](self.scores, self.y, self.weights)
        if columns == 1:
            return auc_of_ranking(self.ranking, self.y, self.weights)
        order, values = self.ranking.order, self.ranking.values
        by_class = [
            auc_of_ranking(
                Ranking(order[number::columns], values[number::columns]),
                (self.y == number).to(torch.float64),
                self.weights,
            )
            for number in range(columns)
        ]
        return torch.stack(by_class).mean(0)

    def take(self, rows: Tensor, weights: Tensor) -> Scored:
        """These rows (positions, repeats allowed) under weights (R, m); same thresholds."""
        scores = self.scores[:, rows]
        return replace(
            self,
            scores=scores,
            ranking=rank(scores),
            weights=weights,
            outcome=None if self.outcome is None else self.outcome.take(rows),
            y=None if self.y is None else self.y[rows],
            repeats=None if self.repeats is None else self.repeats.take(rows.cpu().numpy()),
        )

    def against(self, column: SensitiveColumn, reference: Hashable | None = None) -> Sample:
        """Combine the scores with one sensitive column.

        Rows in which the column is missing get weight 0. `reference` is the category by whose rate
        the parity ratios of a discrete column divide; by default it is the largest group.
        """
        if not isinstance(column, SensitiveColumn):
            raise InputError(
                f"column must be one column of a SensitiveTable, got {type(column).__name__}; "
                "take it by name, such as SensitiveTable.from_data(A)['age']"
            )
        where = f"sensitive_features column {column.name!r}"
        check_count(where, len(column.missing), self.scores.shape[-1])
        device = self.scores.device
        known = torch.from_numpy(~column.missing).to(device)
        weights = self.weights * known
        # Under R re-weightings of one sample, its deciles and groups stay the same.
        base = weights[0] if len(weights) == 1 else known.to(torch.float64)
        if column.values is not None:
            if reference is not None:
                raise InputError(
                    f"reference must not be given for the continuous column {column.name!r}, got "
                    f"{reference!r}; leave it out: parity ratios divide by the rate of all rows"
                )
            values = torch.from_numpy(np.nan_to_num(column.values)).to(device)
            _refuse_constant(where, values[base > 0])
            return Sample(self, column, weights, by_decile(values, base, column.name), ())
        assert column.codes is not None
        codes = torch.from_numpy(np.maximum(column.codes, 0)).to(device)
        labels = tuple(f"{column.name} = {category}" for category in column.categories)
        sizes = torch.bincount(codes, weights=base, minlength=len(labels))
        _refuse_constant(where, codes[base > 0])
        if bool((sizes == 0).any()):
            empty = column.categories[int((sizes == 0).nonzero()[0])]
            raise InputError(
                f"{where} must have rows in every group, got none in group {empty!r}; rebuild the "
                "column from the rows in use"
            )
        if reference is None:
            references = tuple((sizes == sizes.max()).nonzero()[:, 0].tolist())
        elif reference in column.categories:
            references = (column.categories.index(reference),)
        else:
            raise InputError(
                f"reference must be a category of {where} "
                f"({', '.join(map(repr, column.categories))}), got {reference!r}; name one of these"
            )
        return Sample(self, column, weights, Partition(codes, labels, nested=False), references)


@dataclass(frozen=True, eq=False)
class Sample:
    """Scores with one sensitive column: the argument of every metric."""

    scored: Scored
    column: SensitiveColumn  # as the user gave it, including missing values
    weights: Tensor  # (R, n): those of the scores, 0 where the column is missing
    attribute: Partition  # the sets of rows by A: levels, or deciles of a continuous A
    references: tuple[int, ...]  # discrete A: the possible reference groups of parity ratios

    def reweight(self, weights: Tensor) -> Sample:
        """The same rows, sets and thresholds with other weights (R, n)."""
        known = torch.from_numpy(~self.column.missing).to(weights.device)
        return replace(self, weights=weights * known, scored=replace(self.scored, weights=weights))

    def take(self, rows: Tensor) -> Sample:
        """These rows (positions, repeats allowed) with weight 1; same sets and thresholds."""
        taken = self.scored.take(rows, torch.ones_like(self.weights[:1, rows]))
        column = self.column.take(rows.cpu().numpy())
        weights = torch.from_numpy(~column.missing).to(taken.weights)[None]
        return Sample(taken, column, weights, self.attribute.take(rows), self.references)

    @property
    def everybody(self) -> Partition:
        """The one set of all rows."""
        return everybody(self.weights.shape[-1], self.weights.device)

    def within(self, notion: Notion | None) -> Partition:
        """The sets of rows inside which a notion is judged: all rows, or the sets by Y."""
        if notion is None or not notion.conditions_on_outcome:
            return self.everybody
        assert self.scored.outcome is not None  # `Metric.why_not` checks it
        return self.scored.outcome

    def empty_set(self, within: Partition) -> str | None:
        """Name the first set of A that has no row in a set of `within`; None if all have rows."""
        present = self.weights[0] > 0
        for s, place in enumerate(within.labels):
            inside = present & within.inside(s)
            for g, group in enumerate(self.attribute.labels):
                if not bool((inside & self.attribute.inside(g)).any()):
                    return f"no row has {group} in {place}"
        return None


def prepare(
    scores: Any,
    y: Any = None,
    *,
    weights: Any = None,
    threshold: Threshold = "paper",
    outcome: OutcomeKind | None = None,
    repeats: Repeats | None = None,
) -> Scored:
    """Check scores, outcome and weights, sort the scores once and find the thresholds.

    Arguments are those of `equipoise.metrics.measure`. Without y, `outcome` says what the score
    predicts. With `repeats`, there is one score, and weights are those of each of the rows that a
    row stands for.
    """
    check_aligned(scores=scores, y=y, weights=weights)
    tensor = as_scores(scores)
    n = tensor.shape[-1]
    rows = as_weights(weights, n, tensor.device)
    if repeats is not None:
        rows = rows * torch.from_numpy(repeats.number)
    base = rows[0] if len(rows) == 1 else torch.ones_like(rows[0])
    ranking = rank(tensor if repeats is None else as_scores(repeats.lowest))
    kind, parts, values = outcome, None, None
    if y is not None:
        kind = outcome_kind(y, outcome, counted=(base > 0).cpu().numpy())
        parts, values = split_outcome(y, kind, base, n)
    cut = None
    if isinstance(threshold, str):
        if threshold not in ("paper", "youden"):
            raise InputError(
                f"threshold must be 'paper', 'youden', None or numbers, got {threshold!r}; use one "
                "of these"
            )
        if kind == "binary" and values is not None:
            cut = youden_of_ranking(ranking, values, base)
        elif threshold == "youden":
            raise InputError(
                "threshold='youden' needs a binary y, got "
                f"{'no y' if kind is None else f'a {kind} y'}; pass a number, or None to compare "
                "mean scores"
            )
    elif threshold is not None:
        cut = _given(threshold, tensor)
    found = isinstance(threshold, str) and cut is not None
    return Scored(tensor, ranking, rows, cut, parts, kind, values, found, repeats)


def _given(threshold: Any, scores: Tensor) -> Tensor:
    """Thresholds (K,) of the user; a number strictly between 0 and 1 is a probability."""
    cut = as_numbers("threshold", threshold).to(scores.device)
    if cut.ndim > 1 or (cut.ndim == 1 and len(cut) != len(scores)):
        raise InputError(
            f"threshold must be one number or one for each of the {len(scores)} members, got shape "
            f"{tuple(cut.shape)}; pass a number"
        )
    cut = cut.expand(len(scores))
    probability = (cut > 0) & (cut < 1)
    outside = probability[:, None] & ((scores < 0) | (scores > 1))
    if bool(outside.any()):
        member, row = outside.nonzero()[0].tolist()
        raise InputError(
            f"scores must be probabilities in [0, 1] for decisions at threshold="
            f"{float(cut[member]):g}, got {float(scores[member, row]):g} at position {row}; pass "
            "probabilities, or the decisions as scores of 0 and 1"
        )
    return cut


def _refuse_constant(where: str, present: Tensor) -> None:
    if len(present) == 0 or bool((present == present[0]).all()):
        found = "no known value" if len(present) == 0 else "one"
        raise InputError(
            f"{where} must have at least two distinct values, got {found}; no score can depend on "
            "a constant, so leave out the column"
        )


def even_ranges(values: Floats, most: int, people: Floats | None = None) -> Integers:
    """Divide values (n,) into ranges of equal frequency, numbered 0, 1, ...

    There are at most ``most`` ranges, and so few that each has about `SMALL_GROUP` rows. A value
    stands for as many rows as `people` (n,) says.
    """
    n = len(values) if people is None else int(people.sum())
    return equal_frequency(values, int(np.clip(n // SMALL_GROUP, 2, most)), people)


@dataclass(frozen=True, eq=False)
class Intersection:
    """All combinations of categories of several discrete columns."""

    column: SensitiveColumn  # its categories are the combinations that occur, as tuples
    sizes: dict[tuple[Hashable, ...], int]  # rows of each combination, also of those without rows

    @property
    def empty(self) -> tuple[tuple[Hashable, ...], ...]:
        """Combinations without rows."""
        return tuple(group for group, size in self.sizes.items() if size == 0)


def intersect(columns: Sequence[SensitiveColumn]) -> Intersection:
    """Cross discrete columns into one, which is missing where any of them is.

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
    cells = SensitiveTable(tuple(columns)).cells()
    known = cells >= 0
    counts = np.bincount(cells[known], minlength=prod(shape))
    combinations = list(product(*(column.categories for column in columns)))
    position = np.cumsum(counts > 0) - 1  # of each occurring combination among those that occur
    codes = np.where(known, position[cells], -1)
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
