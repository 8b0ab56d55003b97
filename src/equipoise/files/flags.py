"""What a person should know about the columns of a table before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.files.kinds import (
    Content,
    are_numbers_with_commas,
    name_suggests_identifier,
    numbers_of,
    numeric_share,
)
from equipoise.files.tasks import Outcome
from equipoise.files.telling import (
    FEWEST_ROWS,
    Told,
    level_telling,
    rows_to_sample,
    sample_continuous,
    sample_discrete,
    told_by,
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
