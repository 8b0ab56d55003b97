"""How much one column alone tells of another, measured on rows held out.

Used to find columns that give the target away and columns that stand in for a sensitive one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.tree import DecisionTreeRegressor

#: Rows looked at: half to learn from, half to measure on. An AUC of 0.99 is then known to 0.005.
SAMPLED_ROWS = 10_000
FEWEST_ROWS = 40
#: Values looked at in all: of a table of more than 500 columns fewer rows are sampled.
_SAMPLED_VALUES = 5_000_000
_FEWEST_SAMPLED = 1_000
#: The tree that reads a number: leaves enough to follow any curve that tells much.
#: With one column to split on nothing is drawn, but a generator made for each tree takes its time.
_TREE: dict[str, Any] = {
    "max_leaf_nodes": 64,
    "min_samples_leaf": 5,
    "random_state": np.random.RandomState(0),
}


@dataclass(frozen=True, eq=False)
class Told:
    """A column that others may tell: its sampled rows and their values.

    Attributes
    ----------
    rows : ndarray of int64, (m,)
        Which rows of the table were sampled, in random order; the first half is learned from.
    classes : ndarray of int64, (m,), or None
        Numbers of the classes of a discrete column.
    values : ndarray of float64, (m,), or None
        A continuous column.
    """

    rows: NDArray[np.int64]
    classes: NDArray[np.int64] | None
    values: NDArray[np.float64] | None

    @property
    def measure(self) -> str:
        """What `told_by` returns: "AUC" or "R2"."""
        return "AUC" if self.values is None else "R2"


def rows_to_sample(columns: int) -> int:
    """How many rows of a table of so many columns are looked at.

    >>> rows_to_sample(20), rows_to_sample(1_000), rows_to_sample(100_000)
    (10000, 5000, 1000)
    """
    return min(SAMPLED_ROWS, max(_FEWEST_SAMPLED, _SAMPLED_VALUES // columns))


def sample_discrete(
    codes: NDArray[np.int64], generator: np.random.Generator, most: int = SAMPLED_ROWS
) -> Told | None:
    """Sample rows of every class alike; codes (n,), -1 where unknown. None: too few rows.

    The area under the ROC curve does not change with the shares of the classes, and a rare class
    is represented this way.
    """
    classes = [np.flatnonzero(codes == code) for code in np.unique(codes[codes >= 0])]
    each = most // max(len(classes), 1)
    # A class of one row or two can not be both learned and measured.
    taken = [_take(rows, each, generator) for rows in classes if len(rows) >= 4]
    rows = generator.permutation(np.concatenate(taken)) if len(taken) > 1 else np.zeros(0, int)
    if len(rows) < FEWEST_ROWS:
        return None
    return Told(rows, np.unique(codes[rows], return_inverse=True)[1].astype(np.int64), None)


def sample_continuous(
    values: NDArray[np.float64], generator: np.random.Generator, most: int = SAMPLED_ROWS
) -> Told | None:
    """Sample rows of a continuous column; values (n,), NaN where unknown. None: too few rows."""
    rows = generator.permutation(_take(np.flatnonzero(~np.isnan(values)), most, generator))
    return Told(rows, None, values[rows]) if len(rows) >= FEWEST_ROWS else None


def told_by(column: NDArray[Any], *, categories: bool, told: Told) -> float:
    """Return how well ``column`` alone predicts ``told`` on the half of the rows held out.

    For a discrete column the mean over its classes of the area under the ROC curve (0.5: nothing,
    1: everything), for a continuous one the share of variance explained (0 to 1).

    column: values of the sampled rows (m,), codes (-1 where missing) if ``categories``, else
    numbers (NaN where missing).

    >>> rng = np.random.default_rng(0)
    >>> codes = rng.integers(0, 2, 400)
    >>> told = sample_discrete(codes, rng)
    >>> told_by(10.0 - codes[told.rows], categories=False, told=told)
    1.0
    """
    half = len(told.rows) // 2
    measure = slice(half, None)
    if not categories:
        # Order is all that matters, and ranks are finite whatever the numbers are.
        column = _ranks(column)
    if told.values is not None:
        seen, actual = told.values[:half, None], told.values[measure]
        predicted = (_by_category if categories else _by_number)(column, seen)[measure, 0]
        ordered = 0.0 if categories else _rank_correlation(column[measure], actual) ** 2
        return max(_explained(predicted, actual), ordered)
    assert told.classes is not None
    indicators = np.eye(told.classes.max() + 1)[told.classes]
    scores = (_by_category if categories else _by_number)(column, indicators[:half])[measure]
    # Of two classes the one is told as well as the other.
    classes = range(indicators.shape[1]) if indicators.shape[1] > 2 else (1,)
    areas = [
        _area(scores[:, code], indicators[measure, code] == 1)
        for code in classes
        if 0 < indicators[measure, code].sum() < len(scores)
    ]
    return float(np.mean(areas)) if areas else 0.5


def _take(rows: NDArray[np.int64], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    return rows if len(rows) <= count else generator.choice(rows, count, replace=False)


def _by_category(codes: NDArray[Any], seen: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of ``seen`` (half, c) in each category, for all rows (m, c); overall where unseen."""
    half = len(seen)
    places = codes.astype(np.int64) + 1  # a missing value is a category as well
    counts = np.bincount(places[:half], minlength=places.max() + 1)
    sums = np.stack([np.bincount(places[:half], each, len(counts)) for each in seen.T], axis=1)
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], seen.mean(0))
    return np.asarray(means[places])


def _by_number(numbers: NDArray[Any], seen: NDArray[np.float64]) -> NDArray[np.float64]:
    """Predictions (m, c) of a tree on one number that has learned ``seen`` (half, c).

    Of indicators of classes the squared error is the Gini impurity but for a factor, so that one
    kind of tree serves both. Checks of the input cost more than the tree.
    """
    inputs = np.ascontiguousarray(numbers, dtype=np.float32)[:, None]
    check = bool(np.isnan(inputs).any())  # which sets a tree up for missing values
    with config_context(skip_parameter_validation=True, assume_finite=True):
        tree = DecisionTreeRegressor(**_TREE)
        tree.fit(inputs[: len(seen)], np.ascontiguousarray(seen), check_input=check)
        predicted = tree.predict(inputs, check_input=check)
    return np.asarray(predicted, dtype=np.float64).reshape(len(numbers), -1)


def _ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Ranks from 1 with ties averaged (n,); NaN where missing."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return np.where(np.isnan(values), np.nan, ranks[places])


def _area(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Area under the ROC curve, ties counted half (the Mann-Whitney statistic)."""
    ranks = _ranks(scores)
    ones, zeros = positive.sum(), (~positive).sum()
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def _explained(predicted: NDArray[np.float64], actual: NDArray[np.float64]) -> float:
    spread = float(np.sum((actual - actual.mean()) ** 2))
    left = float(np.sum((actual - predicted) ** 2))
    return max(0.0, 1.0 - left / spread) if spread > 0 else 0.0


def _rank_correlation(column: NDArray[Any], values: NDArray[np.float64]) -> float:
    """Spearman's; the steps of a tree can not follow long tails, which ranks do not have."""
    known = ~np.isnan(column)
    first, second = _ranks(column[known]), _ranks(values[known])
    if known.mean() < 0.99 or first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def level_telling(
    levels: NDArray[np.int64], groups: NDArray[np.int64], *, purity: float, share: float
) -> list[tuple[int, int, float, float]]:
    """Levels of a category whose rows nearly all belong to one group of another.

    Returns (level, group, its share within the level, its share among all rows) for every level
    with at least ``share`` of the rows and 30 of them, whose largest group has at least
    ``purity`` of it and at most 90 % of all rows.

    levels, groups: codes (n,), -1 where missing.
    """
    known = (levels >= 0) & (groups >= 0)
    width = int(groups.max(initial=0)) + 1
    cells = np.bincount(levels[known] * width + groups[known])
    counts = np.append(cells, np.zeros(-len(cells) % width, dtype=np.int64)).reshape(-1, width)
    sizes, base = counts.sum(1), counts.sum(0) / max(counts.sum(), 1)
    largest = counts.argmax(1)
    within = counts.max(1) / np.maximum(sizes, 1)
    tells = (sizes >= max(30, share * counts.sum())) & (within >= purity) & (base[largest] <= 0.9)
    return [
        (int(level), int(largest[level]), float(within[level]), float(base[largest[level]]))
        for level in np.flatnonzero(tells)
    ]
