"""What each column of a table holds, and what a user should check before training.

A feature that predicts the target almost perfectly on its own gives the target away. A feature that
predicts a sensitive column on its own is a proxy for it. Both are measured on held-out rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn import config_context
from sklearn.tree import DecisionTreeRegressor

from equipoise.errors import InputError, check_choice
from equipoise.tables import MAX_DISCRETE_NUMBERS, SensitiveColumn, SensitiveTable
from equipoise.tables.columns import REFUSED, differ_by_design, kind_of, whole

Task = Literal["classification", "regression"]
TRUE_WORDS = ("true", "True", "TRUE")
FALSE_WORDS = ("false", "False", "FALSE")
MAX_CLASSES = 20
#: Names of types as reports and terminals show them.
_KINDS = {"text": "category", "categorical": "category", "temporal": "date"}
_NEARLY_DISTINCT = 0.95
_FEWEST_DISTINCT = 50
_LEVELS_SHOWN = 5
_LONGEST_LIST = 40

Concern = Literal["giveaway", "proxy", "identifier", "text", "missing", "rows"]

#: AUC or R2 above which a feature gives the target away, or is a proxy for a sensitive column.
_GIVEAWAY_ABOVE = 0.99
_PROXY_ABOVE = {"AUC": 0.95, "R2": 0.9}
#: A level reveals a group if it has this share of all rows, and this share of its own rows belong
#: to the group.
_LEVEL_SHARE = 0.01
_LEVEL_PURITY = 0.99
#: A whole number, one with a decimal comma, or one with commas between thousands.
_WITH_COMMAS = r"\s*[+-]?(\d+|\d*,\d+|\d{1,3}(,\d{3})*(\.\d+)?)\s*"
#: Usual names of identifiers; a hint only, the values of a column decide.
_IDENTIFIER_NAME = re.compile(
    r"(?:^|[_\W])(?:id|uuid|guid|ssn|e?mail|phone|iban|passport|key|index|row)(?:[_\W]|$)", re.I
)
#: A text column with this share of numbers was probably meant to hold numbers.
_MOSTLY_NUMBERS = 0.5
#: Rows sampled: half to learn from, half to measure on. An AUC of 0.99 is then known to 0.005.
SAMPLED_ROWS = 10_000
FEWEST_ROWS = 40
#: Values sampled at most: tables of more than 500 columns get fewer rows.
_SAMPLED_VALUES = 5_000_000
_FEWEST_SAMPLED = 1_000
#: Trees that read one number; 64 leaves follow any curve that explains much. One generator serves
#: all of them: with one column a tree draws no random number, and making generators takes time.
_TREE: dict[str, Any] = {
    "max_leaf_nodes": 64,
    "min_samples_leaf": 5,
    "random_state": np.random.RandomState(0),
}


@dataclass(frozen=True)
class Content:
    """What a column holds."""

    kind: str  # "number", "boolean", "category", "empty", or an unusable kind such as "date"
    rows: int
    missing: int
    distinct: int  # of the known values
    words: str  # range of numbers, number of categories
    unusable: str = ""  # why nothing can be learned from it
    codes: bool = False  # whether all values are whole numbers or text, as in identifiers
    is_identifier: bool = False  # whether all codes differ, and not by chance

    @property
    def may_be_identifier(self) -> bool:
        """Whether it is an identifier, or nearly all of its codes are distinct."""
        known = self.rows - self.missing
        many = known >= _FEWEST_DISTINCT and self.distinct >= _NEARLY_DISTINCT * known
        return self.is_identifier or (self.codes and many)


def content_of(values: pd.Series[Any], name: str) -> Content:
    """Describe one column (n,)."""
    found = kind_of(values)
    if " and " in found:
        raise InputError(
            f"column {name!r} must hold values of one type, got {found}; convert it to numbers or "
            "to text, or drop it"
        )
    rows, missing = len(values), int(values.isna().sum())
    if missing == rows:
        return Content("empty", rows, missing, 0, "no value in any row", "no value in any row")
    kind = _KINDS.get(found, found)
    if found in REFUSED:
        what, remedy = REFUSED[found]
        return Content(kind, rows, missing, 0, what, f"{what}: {remedy}")
    distinct = int(values.nunique())
    if kind == "boolean":
        return Content(kind, rows, missing, distinct, "true or false")
    all_differ = distinct == rows > 1
    if kind == "category":
        words = _levels(values, distinct)
        return Content(kind, rows, missing, distinct, words, codes=True, is_identifier=all_differ)
    known = numbers_of(values.dropna())
    low, high = float(known.min()), float(known.max())
    codes = bool(np.isfinite(known).all() and (known == np.floor(known)).all())
    words = f"{low:g} to {high:g}" if low < high else f"{low:g} only"
    identifier = codes and all_differ and differ_by_design(rows, low, high)
    return Content(kind, rows, missing, distinct, words, codes=codes, is_identifier=identifier)


def numbers_of(values: pd.Series[Any] | pd.api.extensions.ExtensionArray) -> NDArray[np.float64]:
    """Numbers or booleans as float64 (n,), NaN where missing."""
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def _levels(values: pd.Series[Any], distinct: int) -> str:
    """The names of few, short categories; the number of others."""
    if distinct <= _LEVELS_SHOWN:
        shown = ", ".join(sorted(str(level) for level in values.dropna().unique()))
        if len(shown) <= _LONGEST_LIST:
            return shown
    return f"{distinct:,} categories"


@dataclass(frozen=True)
class TargetColumn:
    """What is predicted."""

    task: Task
    rule: str  # what decided the task, in words
    classes: tuple[Any, ...]  # labels in sorted order, or the positive one last; () for regression


def label_of(text: object, labels: Iterable[Any]) -> Any:
    """The label that reads as ``text``: options are text, labels may be numbers.

    >>> label_of("1", [0, 1]), label_of("true", [False, True]), label_of("yes", [0, 1])
    (1, True, 'yes')
    """
    for label in labels:
        words = TRUE_WORDS if label is True else FALSE_WORDS if label is False else (str(label),)
        if label == text or text in words:
            return label
    return text


def read_outcome(
    values: pd.Series[Any], content: Content, name: str, task: str | None, positive: Any = None
) -> TargetColumn:
    """Decide whether a target column (n,) holds classes or numbers.

    Text, booleans and whole numbers of 2 to 20 distinct values are classes; other numbers are
    numbers. ``task`` overrides this if the values allow it. Text of more than 20 distinct values
    needs ``task="classification"``. ``positive`` is the label of two that is scored.
    """

    def refuse(found: str) -> NoReturn:
        raise InputError(f"target {name!r} {found}")

    if task is not None:
        check_choice("task", task, get_args(Task), "; leave it out to let the values decide")
    number = content.kind == "number"
    if content.unusable:
        refuse(f"must hold classes or numbers, got {content.words}; name another column")
    if content.missing:
        refuse(
            f"must be known in every row, but is missing in {content.missing:,} of "
            f"{content.rows:,} rows; leave out these rows"
        )
    if content.distinct == 1:
        refuse(
            f"must hold at least two values, got {str(values.iloc[0])!r} in every row; name "
            "another column, or add rows of other classes"
        )
    if number and not np.isfinite(numbers_of(values)).all():
        refuse("must hold finite numbers, got an infinite one; leave out such rows")
    if number and task == "classification" and not content.codes:
        refuse(
            "must hold whole numbers, text or booleans for task='classification' (--task "
            f"classification), got numbers from {content.words}; leave out task, or divide them "
            "into classes first"
        )
    if not number and task == "regression":
        refuse(
            f"must hold numbers for task='regression' (--task regression), got {content.words}; "
            "leave out task"
        )
    if not number and content.distinct > MAX_CLASSES and task is None:
        refuse(
            f"must have at most {MAX_CLASSES} classes unless task='classification' (--task "
            f"classification) is given, got {content.words}; name another column if these are not "
            "classes"
        )
    few = content.codes and content.distinct <= MAX_CLASSES
    classes = not number or task == "classification" or (few and task is None)
    nouns = {"number": "whole numbers" if classes else "numbers", "boolean": "booleans"}
    rule = f"{nouns.get(content.kind, 'text')} of {content.distinct:,} distinct values"
    if not content.codes and not classes:
        rule += ", not all whole"
    if task is not None:
        rule = f"as task says; {rule}"
    if not classes:
        if positive is not None:
            refuse(f"must hold classes for positive (--positive), got {rule}; leave it out")
        return TargetColumn("regression", rule, ())
    labels = [
        whole(float(label)) if isinstance(label, float | np.floating) else label
        for label in values.unique().tolist()
    ]
    labels = sorted(labels)
    if positive is not None:
        positive = label_of(positive, labels)
        if len(labels) != 2 or positive not in labels:
            named = ", ".join(map(str, labels[:MAX_CLASSES]))
            raise InputError(
                f"positive (--positive) must be one of two labels of {name!r}, got "
                f"{str(positive)!r}, but the labels are {named}; "
                f"{'name one of them' if len(labels) == 2 else 'leave it out'}"
            )
        labels = [*(label for label in labels if label != positive), positive]
    return TargetColumn("classification", rule, tuple(labels))


@dataclass(frozen=True)
class Flag:
    """One thing to know about a column."""

    concern: Concern
    column: str  # "" if it is about the whole table
    words: str  # the message


def find_flags(
    frame: pd.DataFrame,
    contents: Mapping[str, Content],
    *,
    target: str,
    outcome: TargetColumn,
    table: SensitiveTable,
    step: Callable[[], None],
) -> Iterator[Flag]:
    """Look for problems in the features, which are the keys of ``contents``, and in the table.

    ``step`` is called once for each comparison of a feature with the target or a sensitive column.
    """
    generator = np.random.default_rng(0)
    most = min(SAMPLED_ROWS, max(_FEWEST_SAMPLED, _SAMPLED_VALUES // len(contents)))
    codes = pd.factorize(frame[target])[0].astype(np.int64) if outcome.classes else None
    values = numbers_of(frame[target]) if codes is None else None
    goal = sample_goal(codes, values, generator, most)
    if goal is None:
        of_classes = "" if codes is None else " of each class"
        words = (
            f"{len(frame):,} rows are too few{of_classes} to look for columns that give the target "
            f"away (at least {FEWEST_ROWS} are needed)"
        )
        yield Flag("rows", "", words)
    else:
        yield from _giveaways(frame, contents, codes, outcome, goal, step)
        for column in table.columns:
            goal = sample_goal(column.codes, column.values, generator, most)
            if goal is not None:
                yield from _proxies(frame, contents, column, goal, step)
    for name, content in contents.items():
        if content.may_be_identifier:
            hint = ", and its name suggests it" if _IDENTIFIER_NAME.search(name) else ""
            words = (
                f"{name!r} may be an identifier: {content.distinct:,} of "
                f"{content.rows - content.missing:,} values are distinct{hint}; if so, name it as "
                "id or drop it"
            )
            yield Flag("identifier", name, words)
        if content.kind == "category" and (words := _about_numbers(name, frame[name])):
            yield Flag("text", name, words)
    for column in table.columns:
        if count := int(column.missing.sum()):
            words = (
                f"sensitive {column.name!r} is missing in {count:,} of {table.n_rows:,} rows; "
                "fitting needs missing_sensitive='skip' (--missing-sensitive skip), which leaves "
                "these rows out of the penalty"
            )
            yield Flag("missing", column.name, words)


def _giveaways(
    frame: pd.DataFrame,
    contents: Mapping[str, Content],
    codes: NDArray[np.int64] | None,
    outcome: TargetColumn,
    goal: Goal,
    step: Callable[[], None],
) -> Iterator[Flag]:
    """Features that give the target away."""
    renamed, classes = set(), len(outcome.classes)
    for name, content in contents.items():
        if codes is None or content.missing or content.distinct != classes:
            continue
        pairs = pd.factorize(frame[name])[0] * classes + codes
        if len(np.unique(pairs)) == classes:
            renamed.add(name)
            words = (
                f"{name!r} is the target under another name: each of its values belongs to one "
                "class; drop it"
            )
            yield Flag("giveaway", name, words)
    for name, measured in _measure(frame, contents, goal, step):
        if measured > _GIVEAWAY_ABOVE and name not in renamed:
            words = (
                f"{name!r} gives the target away: {goal.measure} {measured:.3f} on its own, on "
                "held-out rows; drop it if it is not known when decisions are made"
            )
            yield Flag("giveaway", name, words)


def _proxies(
    frame: pd.DataFrame,
    contents: Mapping[str, Content],
    sensitive: SensitiveColumn,
    goal: Goal,
    step: Callable[[], None],
) -> Iterator[Flag]:
    """Features that reveal one sensitive column, as a whole or by one of their levels."""
    revealing = set()
    for name, measured in _measure(frame, contents, goal, step):
        if measured > _PROXY_ABOVE[goal.measure]:
            revealing.add(name)
            words = (
                f"{name!r} nearly determines {sensitive.name}: {goal.measure} {measured:.3f} on "
                "its own, on held-out rows"
            )
            yield Flag("proxy", name, words)
    for name, content in contents.items():
        # Among so many distinct values, no level has enough rows.
        most = MAX_DISCRETE_NUMBERS if content.kind == "number" else 1 / _LEVEL_SHARE**2
        if sensitive.codes is None or name in revealing or content.distinct > most:
            continue
        codes, levels = pd.factorize(frame[name], use_na_sentinel=True)
        for level, group, within, overall in revealing_levels(codes, sensitive.codes):
            words = (
                f"{name!r} = {str(levels[level])!r} reveals {sensitive.name}: {within:.1%} of its "
                f"rows are {str(sensitive.categories[group])!r}, {overall:.1%} of all rows are"
            )
            yield Flag("proxy", name, words)


def _measure(
    frame: pd.DataFrame, contents: Mapping[str, Content], goal: Goal, step: Callable[[], None]
) -> Iterator[tuple[str, float]]:
    """How well each feature alone predicts the goal."""
    for name, content in contents.items():
        step()
        values = frame[name].array.take(goal.rows)
        categories = content.kind == "category"
        column = pd.factorize(values, use_na_sentinel=True)[0] if categories else numbers_of(values)
        yield name, predictability(column, categories=categories, goal=goal)


def _about_numbers(name: str, values: pd.Series[Any]) -> str:
    """A message about text that was probably meant to be numbers, or ""."""
    counts = values.astype(object).value_counts()
    levels = pd.Series([str(level) for level in counts.index], dtype=object)
    numeric = pd.to_numeric(levels, errors="coerce").notna().to_numpy()
    if numeric.all():
        return ""
    share, other = counts.to_numpy()[numeric].sum() / counts.sum(), levels[~numeric].iloc[0]
    if levels.str.fullmatch(_WITH_COMMAS).all():
        return (
            f"{name!r} is read as categories although its values are numbers with commas, such as "
            f"{other!r}; write them with a decimal point and no separator between thousands"
        )
    if share < _MOSTLY_NUMBERS:
        return ""
    return (
        f"{name!r} is read as categories although {share:.1%} of its values are numbers, because "
        f"of values such as {other!r}; leave the field empty if a value is unknown"
    )


@dataclass(frozen=True, eq=False)
class Goal:
    """A column that features may predict: sampled rows and their values."""

    rows: NDArray[np.int64]  # (m,) of the table, in random order; the first half is for learning
    targets: NDArray[np.float64]  # (m, c) indicators of classes, or (m, 1) a continuous column
    measure: Literal["AUC", "R2"]  # what `predictability` returns


def sample_goal(
    codes: NDArray[np.int64] | None,
    values: NDArray[np.float64] | None,
    generator: np.random.Generator,
    most: int = SAMPLED_ROWS,
) -> Goal | None:
    """Sample rows of a discrete column (codes, -1 if unknown) or a continuous one (values, or NaN).

    codes, values: (n,). Every class gets the same number of rows: the area under the ROC curve does
    not depend on the shares of the classes, and rare classes are represented. Returns None if there
    are too few rows.
    """
    if codes is None:
        assert values is not None
        rows = generator.permutation(_take(np.flatnonzero(~np.isnan(values)), most, generator))
        return Goal(rows, values[rows, None], "R2") if len(rows) >= FEWEST_ROWS else None
    classes = [np.flatnonzero(codes == code) for code in np.unique(codes[codes >= 0])]
    each = most // max(len(classes), 1)
    # A class needs rows to learn from and rows to measure on.
    taken = [_take(rows, each, generator) for rows in classes if len(rows) >= 4]
    rows = generator.permutation(np.concatenate(taken)) if len(taken) > 1 else np.zeros(0, int)
    if len(rows) < FEWEST_ROWS:
        return None
    numbers, places = np.unique(codes[rows], return_inverse=True)
    return Goal(rows, np.eye(len(numbers))[places], "AUC")


def predictability(column: NDArray[Any], *, categories: bool, goal: Goal) -> float:
    """Return how well ``column`` alone predicts ``goal`` on the second, held-out half of the rows.

    For classes this is the area under the ROC curve, averaged over classes (0.5: no better than
    chance, 1: perfect); for numbers the share of variance explained (0 to 1).

    column: values of the sampled rows (m,), codes (-1 where missing) if ``categories``, else
    numbers (NaN where missing).

    >>> rng = np.random.default_rng(0)
    >>> codes = rng.integers(0, 2, 400)
    >>> goal = sample_goal(codes, None, rng)
    >>> predictability(10.0 - codes[goal.rows], categories=False, goal=goal)
    1.0
    """
    half = len(goal.rows) // 2
    if not categories:
        # Only the order matters, and ranks are finite even if numbers are not.
        column = rankdata(column, nan_policy="omit")
    seen, actual = goal.targets[:half], goal.targets[half:]
    predicted = (_by_category if categories else _by_number)(column, seen)[half:]
    if goal.measure == "R2":
        ordered = 0.0 if categories else _rank_correlation(column[half:], actual[:, 0]) ** 2
        return max(_explained(predicted, actual), ordered)
    # With two classes both have the same area.
    classes = range(actual.shape[1]) if actual.shape[1] > 2 else (1,)
    areas = [
        _area(predicted[:, code], actual[:, code] == 1)
        for code in classes
        if 0 < actual[:, code].sum() < len(actual)
    ]
    return float(np.mean(areas)) if areas else 0.5


def _take(rows: NDArray[np.int64], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    return rows if len(rows) <= count else generator.choice(rows, count, replace=False)


def _by_category(codes: NDArray[Any], seen: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of ``seen`` (half, c) in the category of each row, (m, c); overall mean if unseen."""
    half = len(seen)
    places = codes.astype(np.int64) + 1  # missing values are a category, too
    counts = np.bincount(places[:half], minlength=places.max() + 1)
    sums = np.stack([np.bincount(places[:half], each, len(counts)) for each in seen.T], axis=1)
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], seen.mean(0))
    return np.asarray(means[places])


def _by_number(numbers: NDArray[Any], seen: NDArray[np.float64]) -> NDArray[np.float64]:
    """Predictions (m, c) of a tree on one number, trained on ``seen`` (half, c).

    The squared error of class indicators is proportional to the Gini impurity, so a regression tree
    serves classes, too. Input checks are skipped: they cost more than the tree.
    """
    inputs = np.ascontiguousarray(numbers, dtype=np.float32)[:, None]
    check = bool(np.isnan(inputs).any())  # the check prepares a tree for missing values
    with config_context(skip_parameter_validation=True, assume_finite=True):
        tree = DecisionTreeRegressor(**_TREE)
        tree.fit(inputs[: len(seen)], np.ascontiguousarray(seen), check_input=check)
        predicted = tree.predict(inputs, check_input=check)
    return np.asarray(predicted, dtype=np.float64).reshape(len(numbers), -1)


def _area(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Area under the ROC curve; ties count half (the Mann-Whitney statistic)."""
    ranks = rankdata(scores)
    ones, zeros = positive.sum(), (~positive).sum()
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def _explained(predicted: NDArray[np.float64], actual: NDArray[np.float64]) -> float:
    """Share of variance explained, at least 0."""
    total = float(np.sum((actual - actual.mean()) ** 2))
    unexplained = float(np.sum((actual - predicted) ** 2))
    return max(0.0, 1.0 - unexplained / total) if total > 0 else 0.0


def _rank_correlation(column: NDArray[Any], values: NDArray[np.float64]) -> float:
    """Spearman's correlation, which also follows long tails; the steps of a tree cannot."""
    known = ~np.isnan(column)
    first, second = rankdata(column[known]), rankdata(values[known])
    if known.mean() < 0.99 or first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def revealing_levels(
    levels: NDArray[np.int64], groups: NDArray[np.int64]
) -> list[tuple[int, int, float, float]]:
    """Find levels whose rows nearly all belong to one group.

    Returns (level, group, share of the group within the level, its share among all rows) for every
    such level that has enough rows, at least 30. Groups of more than 90 % of all rows do not count.

    levels, groups: codes (n,), -1 where missing.
    """
    known = (levels >= 0) & (groups >= 0)
    width = int(groups.max(initial=0)) + 1
    size = width * (int(levels.max(initial=0)) + 1)
    counts = np.bincount(levels[known] * width + groups[known], minlength=size).reshape(-1, width)
    sizes, base = counts.sum(1), counts.sum(0) / max(counts.sum(), 1)
    largest = counts.argmax(1)
    within = counts.max(1) / np.maximum(sizes, 1)
    enough = sizes >= max(30, _LEVEL_SHARE * counts.sum())
    reveals = enough & (within >= _LEVEL_PURITY) & (base[largest] <= 0.9)
    return [
        (int(level), int(largest[level]), float(within[level]), float(base[largest[level]]))
        for level in np.flatnonzero(reveals)
    ]
