"""What a person should know about the columns of a table before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.tree import DecisionTreeRegressor

from equipoise.files.kinds import (
    Content,
    Outcome,
    are_numbers_with_commas,
    name_suggests_identifier,
    numbers_of,
    numeric_share,
)
from equipoise.tables import SensitiveTable
from equipoise.tables.kinds import MAX_DISCRETE_NUMBERS, SensitiveColumn

Concern = Literal["giveaway", "proxy", "identifier", "text", "missing", "rows"]

#: From here on a column is said to give the target away, or to stand in for a sensitive one.
GIVES_AWAY = 0.99
STANDS_IN = {"AUC": 0.95, "R2": 0.9}
#: A level tells a group when this share of its rows are of it, and it has this share of all rows.
_LEVEL_PURITY = 0.99
_LEVEL_SHARE = 0.01
#: Text of which this share are numbers was probably meant to be numbers.
_MOSTLY_NUMBERS = 0.5


@dataclass(frozen=True)
class Flag:
    """One thing to know about a column.

    Attributes
    ----------
    concern : {"giveaway", "proxy", "identifier", "text", "missing", "rows"}
    column : str
        "" where the table as a whole is meant.
    words : str
        The whole sentence.
    """

    concern: Concern
    column: str
    words: str


def content_flags(contents: Mapping[str, Content], frame: pd.DataFrame) -> list[Flag]:
    """Flags that follow from what each feature holds."""
    flags = []
    for name, content in contents.items():
        if content.is_identifier or content.is_nearly_identifier:
            hint = ", and its name says so" if name_suggests_identifier(name) else ""
            known = content.rows - content.missing
            flags.append(
                Flag(
                    "identifier",
                    name,
                    f"{name!r} may be an identifier: {content.distinct:,} of {known:,} values are "
                    f"distinct{hint}; name it as id or drop it if so",
                )
            )
        if content.kind == "category":
            flags += _text_flags(name, frame[name])
    return flags


def missing_flags(table: SensitiveTable) -> list[Flag]:
    """Say which sensitive columns have missing values."""
    counts = {column.name: int(column.missing.sum()) for column in table.columns}
    return [
        Flag(
            "missing",
            name,
            f"sensitive {name!r} is missing in {count:,} of {table.n_rows:,} rows, which fitting "
            "refuses unless told to leave them out of the penalty (missing_sensitive='skip')",
        )
        for name, count in counts.items()
        if count
    ]


def telling_flags(
    frame: pd.DataFrame,
    contents: Mapping[str, Content],
    *,
    target: str,
    outcome: Outcome,
    table: SensitiveTable,
    step: Callable[[], None],
) -> list[Flag]:
    """Find features that give the target away, and features that stand in for sensitive ones.

    step: is called for each feature and column that it is measured against.
    """
    generator = np.random.default_rng(0)
    most = rows_to_sample(len(contents))
    told = _sample_target(frame[target], outcome, generator, most)
    if told is None:
        of_classes = "" if outcome.task == "regression" else " of each class"
        words = f"{len(frame):,} rows are too few{of_classes} to look for columns that give"
        return [Flag("rows", "", f"{words} the target away (at least {FEWEST_ROWS} are needed)")]
    flags = []
    classes = pd.factorize(frame[target])[0] if outcome.classes else None
    renamed = [name for name in contents if _renames(frame[name], contents[name], classes, outcome)]
    for name in renamed:
        words = f"{name!r} is the target under another name: each of its values goes with one class"
        flags.append(Flag("giveaway", name, f"{words}; drop it"))
    already = set(renamed)
    for name, measured in _measure(frame, contents, told, step):
        if measured > GIVES_AWAY and name not in already:
            flags.append(
                Flag(
                    "giveaway",
                    name,
                    f"{name!r} gives the target away: {told.measure} {measured:.3f} on its own, on "
                    "rows held out; drop it if it is not known when decisions are made",
                )
            )
    for column in table.columns:
        sampled = _sample_sensitive(column, generator, most)
        flags += _proxies(frame, contents, column, sampled, step)
    return flags


def _proxies(
    frame: pd.DataFrame,
    contents: Mapping[str, Content],
    column: SensitiveColumn,
    told: Told | None,
    step: Callable[[], None],
) -> list[Flag]:
    """Features that stand in for one sensitive column, as a whole or by one of their levels."""
    if told is None:
        return []
    nearly = {
        name: measured
        for name, measured in _measure(frame, contents, told, step)
        if measured > STANDS_IN[told.measure]
    }
    flags = [
        Flag(
            "proxy",
            name,
            f"{name!r} nearly tells {column.name}: {told.measure} {measured:.3f} on its own, on "
            "rows held out",
        )
        for name, measured in nearly.items()
    ]
    rest = [name for name in contents if name not in nearly]
    return flags if column.codes is None else flags + _level_flags(frame, contents, rest, column)


def _level_flags(
    frame: pd.DataFrame,
    contents: Mapping[str, Content],
    names: Iterable[str],
    sensitive: SensitiveColumn,
) -> list[Flag]:
    assert sensitive.codes is not None
    flags = []
    for name in names:
        # A number of many values has no levels, and of very many no level has enough rows.
        most = MAX_DISCRETE_NUMBERS if contents[name].kind == "number" else 1 / _LEVEL_SHARE**2
        if contents[name].distinct > most:
            continue
        codes, levels = pd.factorize(frame[name], use_na_sentinel=True)
        found = level_telling(codes, sensitive.codes, purity=_LEVEL_PURITY, share=_LEVEL_SHARE)
        for level, group, within, overall in found:
            flags.append(
                Flag(
                    "proxy",
                    name,
                    f"{name!r} = {str(levels[level])!r} tells {sensitive.name}: {within:.1%} of "
                    f"its rows are {str(sensitive.categories[group])!r}, {overall:.1%} of all rows "
                    "are",
                )
            )
    return flags


def _measure(
    frame: pd.DataFrame, contents: Mapping[str, Content], told: Told, step: Callable[[], None]
) -> Iterator[tuple[str, float]]:
    """How much each feature tells."""
    for name, content in contents.items():
        step()
        values = frame[name].array.take(told.rows)
        categories = content.kind == "category"
        column = pd.factorize(values, use_na_sentinel=True)[0] if categories else numbers_of(values)
        yield name, told_by(column, categories=categories, told=told)


def _sample_target(
    values: pd.Series[Any], outcome: Outcome, generator: np.random.Generator, most: int
) -> Told | None:
    if outcome.task == "regression":
        return sample_continuous(numbers_of(values), generator, most)
    return sample_discrete(pd.factorize(values)[0].astype(np.int64), generator, most)


def _sample_sensitive(
    column: SensitiveColumn, generator: np.random.Generator, most: int
) -> Told | None:
    if column.codes is not None:
        return sample_discrete(column.codes, generator, most)
    assert column.values is not None
    return sample_continuous(column.values, generator, most)


def _renames(
    values: pd.Series[Any], content: Content, classes: NDArray[Any] | None, outcome: Outcome
) -> bool:
    """Whether each value of a column goes with one class and each class with one value."""
    if classes is None or content.missing or content.distinct != len(outcome.classes):
        return False
    pairs = pd.factorize(values)[0] * len(outcome.classes) + classes
    return len(np.unique(pairs)) == content.distinct


def _text_flags(name: str, values: pd.Series[Any]) -> list[Flag]:
    share, other = numeric_share(values)
    if share < 1.0 and are_numbers_with_commas(values):
        return [
            Flag(
                "text",
                name,
                f"{name!r} is read as categories although its values are numbers with commas, "
                f"such as {other!r}; write them with a decimal point and nothing between "
                "thousands",
            )
        ]
    if not _MOSTLY_NUMBERS <= share < 1.0:
        return []
    return [
        Flag(
            "text",
            name,
            f"{name!r} is read as categories although {share:.1%} of its values are numbers, "
            f"because of others such as {other!r}; leave the field empty where a value is unknown",
        )
    ]


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
