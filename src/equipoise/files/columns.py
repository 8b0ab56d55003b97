"""Decide how each column of a table is used, and explain it before training."""

from __future__ import annotations

import difflib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pandas as pd

from equipoise.errors import InputError
from equipoise.files.contents import (
    Content,
    Flag,
    TargetColumn,
    Task,
    content_of,
    find_flags,
    numbers_of,
    read_outcome,
)
from equipoise.tables import Kind, SensitiveTable
from equipoise.tables.columns import kind_of, refuse_repeated_names
from equipoise.tables.encoders import MAX_CATEGORIES
from equipoise.tables.printing import as_text

#: Flags of one kind that are printed in full.
_FLAGS_SHOWN = 5
#: Seconds between lines of progress.
_SILENCE = 2.0
#: Why a column must not have these two roles.
_REASONS = {
    ("sensitive", "target"): "a model cannot be kept from depending on what it predicts",
    ("sensitive", "features"): "sensitive columns are never features "
    "(sensitive_at_prediction, --sensitive-at-prediction, lets the score see them)",
    ("target", "features"): "the target would predict itself",
}

Role = Literal["feature", "sensitive", "target", "id", "weight", "split", "dropped"]
_ROLES: dict[str, Role] = {
    "sensitive": "sensitive",
    "target": "target",
    "id": "id",
    "weight": "weight",
    "drop": "dropped",
    "features": "feature",
}


@dataclass(frozen=True)
class ReadColumn:
    """One column: its role, how its values are read, and why."""

    name: str
    role: Role
    read_as: str  # such as "number", "category", "discrete", "continuous", "classes"
    values: str  # range or categories, in words
    missing: int  # rows without a value
    why: str  # why it is dropped, or which rule decided its kind


@dataclass(frozen=True)
class Columns:
    """How each column of a table is used; `print` shows it."""

    rows: int
    columns: tuple[ReadColumn, ...]  # in the order of the table
    outcome: TargetColumn  # task, the rule that decided it, and classes
    flags: tuple[Flag, ...]  # what a user should check before training

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        return self._names("feature")

    @property
    def sensitive(self) -> list[str]:
        """Names of the sensitive columns."""
        return self._names("sensitive")

    @property
    def id(self) -> list[str]:
        """Names of the columns that identify a row."""
        return self._names("id")

    @property
    def target(self) -> str:
        """Name of the column to predict."""
        return self._names("target")[0]

    @property
    def dropped(self) -> dict[str, str]:
        """Columns that are not used, with the reasons."""
        return {column.name: column.why for column in self.columns if column.role == "dropped"}

    @property
    def task(self) -> Task:
        """Either "classification" or "regression"."""
        return self.outcome.task

    def to_frame(self) -> pd.DataFrame:
        """One row for each column: role, read as, values, missing, why."""
        frame = pd.DataFrame(list(map(vars, self.columns)))
        return frame.rename(columns={"name": "column", "read_as": "read as"})

    @property
    def parts(self) -> tuple[str | pd.DataFrame, ...]:
        """The parts of the printed text: size and target, table, and flags if there are any."""
        size = f"{_counted(self.rows, 'row')}, {_counted(len(self.columns), 'column')}"
        used = f"{_counted(len(self.features), 'feature')}, {len(self.sensitive)} sensitive"
        head = f"{size}: {used}, {len(self.dropped)} dropped."
        target = f"Predicted: {self.target!r}, {self.outcome.task} ({self.outcome.rule})."
        classes = [str(label) for label in self.outcome.classes]
        if len(classes) == 2:
            target += f" The score is the probability of {classes[1]!r} rather than {classes[0]!r}."
        flags = "".join(f"! {line}\n" for line in _flag_lines(self.flags))
        return (f"{head}\n{target}\n", self.to_frame(), *([flags] if flags else []))

    def __str__(self) -> str:
        parts = [each if isinstance(each, str) else f"{as_text(each)}\n" for each in self.parts]
        return "\n".join(parts).rstrip("\n")

    def _names(self, role: Role) -> list[str]:
        return [column.name for column in self.columns if column.role == role]


def _flag_lines(flags: Sequence[Flag]) -> Iterator[str]:
    """The words of flags; of many columns with the same concern, the first and a count."""
    by_concern: dict[str, list[Flag]] = {}
    for flag in flags:
        by_concern.setdefault(flag.concern, []).append(flag)
    for alike in by_concern.values():
        yield from (flag.words for flag in alike[:_FLAGS_SHOWN])
        if rest := alike[_FLAGS_SHOWN:]:
            names = list(dict.fromkeys(repr(flag.column) for flag in rest))
            more = ", ..." if len(names) > _FLAGS_SHOWN else ""
            yield (
                f"and {len(rest):,} more like the last, about {', '.join(names[:_FLAGS_SHOWN])}"
                f"{more}; settings.json lists all (flags in Python)"
            )


def read_columns(
    frame: pd.DataFrame,
    *,
    target: str,
    sensitive: str | Iterable[str],
    id: str | Iterable[str] = (),
    drop: str | Iterable[str] = (),
    features: str | Iterable[str] | None = None,
    task: str | None = None,
    sensitive_types: Mapping[str, Kind] | None = None,
    positive: Any = None,
    weight: str | None = None,
    split: str | None = None,
    say: Callable[[str], None] | None = None,
) -> Columns:
    """Decide how each column of ``frame`` is used, and look for problems.

    Parameters
    ----------
    frame : pandas.DataFrame
        As `read_table` returns it.
    target : str
        The column to predict.
    sensitive : str or names
        Columns that the prediction should not depend on; never features.
    id : str or names
        Columns that identify a row; copied to files of scores, never features.
    drop : str or names
        Columns to leave out.
    features : str or names, optional
        The features; all remaining columns by default. A column named here is kept even if it is
        constant or an identifier.
    task : {"classification", "regression"}, optional
        Overrides the rules that decide it.
    sensitive_types : mapping of sensitive column to "discrete" or "continuous", optional
        Overrides the rules of :class:`SensitiveTable`.
    positive : label of the target, optional
        Of two classes, the one whose probability is the score; by default the second in sorted
        order. Text stands for the label that reads so.
    weight : str, optional
        The column that says how much each row counts; never a feature.
    split : str, optional
        The column that splits the rows, by groups or by time; a feature only if ``features`` names
        it. It may be an id, too.
    say : callable, optional
        Receives a line of text on the progress every few seconds.

    Examples
    --------
    >>> frame = pd.DataFrame(
    ...     {"hours": [20, 40, 35, 60], "sex": list("FMFM"), "hired": ["no", "yes", "yes", "no"]}
    ... )
    >>> print(read_columns(frame, target="hired", sensitive="sex"))
    4 rows, 3 columns: 1 feature, 1 sensitive, 0 dropped.
    Predicted: 'hired', classification (text of 2 distinct values). The score is the probability
    of 'yes' rather than 'no'.
    <BLANKLINE>
    column  role       read as   values    missing  why
    hours   feature    number    20 to 60  0
    sex     sensitive  discrete  F, M      0        text is discrete
    hired   target     classes   no, yes   0        text of 2 distinct values
    <BLANKLINE>
    ! 4 rows are too few of each class to look for columns that give the target away (at least 40
    are needed)
    """
    if not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"frame must be a pandas DataFrame, got {type(frame).__name__}; read a file with "
            "read_table(path)"
        )
    if not isinstance(target, str):
        raise InputError(f"target must be the name of one column, got {target!r}; pass text")
    given = {
        "sensitive": as_names("sensitive", sensitive),
        "target": (target,),
        "id": as_names("id", id),
        "weight": () if weight is None else (weight,),
        "drop": as_names("drop", drop),
    }
    if features is not None:
        given["features"] = as_names("features", features)
    roles = assign_roles(_text_names(frame), given)
    if split is not None:
        check_columns("split", [split], list(roles))
        if split == target:
            raise InputError(
                f"split must not be the target, got {split!r} for both; name another column"
            )
        if not any(split in names for names in given.values()):
            roles[split] = "split"
    if weight is not None:
        check_weights(weight, frame[weight])
    read = [name for name, role in roles.items() if role in ("feature", "sensitive", "target")]
    # Each column is described, then compared with the target and every sensitive column.
    compared = 1 + sum(role == "sensitive" for role in roles.values())
    step = _steps(say, len(read), 1 + compared)
    contents = {}
    for name in read:
        contents[name] = content_of(frame[name], name)
        step()
    outcome = read_outcome(frame[target], contents[target], target, task, positive)
    table = SensitiveTable.from_data(
        frame[[name for name, role in roles.items() if role == "sensitive"]],
        types=sensitive_types,
        missing="skip",
    ).warned()
    left_out = {"dropped": "not named by features", "weight": "how much each row counts"}
    left_out["split"] = "decides the part of each row"
    unused = {name: left_out.get(role, "") for name, role in roles.items()}
    unused |= dict.fromkeys(given["drop"], "named by drop")
    columns = tuple(
        _read(name, role, contents[name], table, outcome, listed=features is not None)
        if name in contents
        else ReadColumn(name, role, "", "", int(frame[name].isna().sum()), unused[name])
        for name, role in roles.items()
    )
    used = {each.name: contents[each.name] for each in columns if each.role == "feature"}
    if not used:
        raise InputError(
            "the data must have at least one column left as a feature, got none: "
            + "; ".join(f"{each.name!r} is {each.role}" for each in columns)
        )
    flags = find_flags(frame, used, target=target, outcome=outcome, table=table, step=step)
    return Columns(len(frame), columns, outcome, tuple(flags))


def _read(
    name: str,
    role: Role,
    content: Content,
    table: SensitiveTable,
    outcome: TargetColumn,
    *,
    listed: bool,
) -> ReadColumn:
    read_as, why = content.kind, ""
    if role == "sensitive":
        read_as, why = table[name].kind, table[name].rule
    elif role == "target":
        read_as = "classes" if outcome.task == "classification" else "numbers"
        why = outcome.rule
    else:
        constant = content.distinct == 1 and not content.missing
        reason = "constant: the same value in every row" if constant else content.unusable
        if content.is_identifier:
            reason = "an identifier: every value is distinct"
        if listed and content.unusable:
            raise InputError(f"features must be numbers or categories, got {name!r}: {reason}")
        if reason and not listed:
            role, why = "dropped", reason
        elif content.kind == "category" and content.distinct > MAX_CATEGORIES:
            why = f"{MAX_CATEGORIES - 1} most frequent categories, the others together"
    return ReadColumn(name, role, read_as, content.words, content.missing, why)


def _steps(say: Callable[[str], None] | None, columns: int, looks: int) -> Callable[[], None]:
    """Return what counts the ``looks`` at each column and reports progress every few seconds."""
    done, last = 0, time.monotonic()

    def step() -> None:
        nonlocal done, last
        done += 1
        if say is not None and time.monotonic() >= last + _SILENCE:
            share = done / (columns * looks)
            say(f"Looking at {_counted(columns, 'column')}: {share:.0%} done ...")
            last = time.monotonic()

    return step


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _text_names(frame: pd.DataFrame) -> list[str]:
    for name in frame.columns:
        if not isinstance(name, str):
            raise InputError(f"frame must have text as column names, got {name!r}; rename it")
    refuse_repeated_names(frame, argument="frame")
    return list(frame.columns)


def assign_roles(names: Sequence[str], given: Mapping[str, Sequence[str]]) -> dict[str, Role]:
    """Return the role of every column, in the order of the table.

    Every name in ``given`` must be a column and have one role only. Columns that are not named are
    features, or dropped if "features" is given.
    """
    if not given["sensitive"]:
        raise InputError("sensitive must name at least one column, got none; name one")
    for option, columns in given.items():
        check_columns(option, columns, names)
    for (option, columns), (other, others) in combinations(given.items(), 2):
        named = set(others)
        both = [name for name in columns if name in named]
        if both:
            reason = _REASONS.get((option, other), "a column has one role only")
            raise InputError(
                f"column {both[0]!r} must not be named both by {option} and by {other}: {reason}; "
                "take it out of one of them"
            )
    unnamed: Role = "dropped" if "features" in given else "feature"
    roles = dict.fromkeys(names, unnamed)
    for option, columns in given.items():
        roles |= dict.fromkeys(columns, _ROLES[option])
    return roles


def check_weights(name: str, values: pd.Series[Any]) -> None:
    """Refuse a column of weights that has other values than numbers of at least 0."""
    rule = f"weight {name!r} must hold a number of at least 0 in every row, got"
    kind = kind_of(values)
    if kind != "number":
        raise InputError(f"{rule} {kind}; name another column")
    numbers = numbers_of(values)
    wrong = np.flatnonzero(~((numbers >= 0) & np.isfinite(numbers)))
    if len(wrong):
        raise InputError(
            f"{rule} {numbers[wrong[0]]:g} in row {wrong[0]}; give rows that should not count "
            "weight 0, or leave them out"
        )


def as_names(option: str, value: str | Iterable[str]) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    if isinstance(value, str):
        return (value,)
    names = tuple(value)
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None:
        raise InputError(f"{option} must hold names of columns as text, got {wrong!r}; pass text")
    return names


def check_columns(option: str, columns: Sequence[str], names: Sequence[str]) -> None:
    """Refuse names that are not among ``names``, and those given twice."""
    known = set(names)
    for name in columns:
        if name not in known:
            raise InputError(
                f"{option} names the column {name!r}, which the data do not have; "
                f"{nearest(name, names)}"
            )
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise InputError(f"{option} must name a column once, got {twice[0]!r} twice; name it once")


def nearest(name: str, names: Sequence[str]) -> str:
    """Suggest the column that was probably meant, or list those that exist."""
    folded = {each.strip().lower(): each for each in names}
    near = difflib.get_close_matches(name.strip().lower(), list(folded), n=1)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    shown = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
    return f"the columns are {shown}"
