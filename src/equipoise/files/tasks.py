"""Whether a target column holds classes or numbers, by stated rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_args

import numpy as np
import pandas as pd

from equipoise.errors import InputError
from equipoise.files.kinds import Content, numbers_of
from equipoise.tables.columns import whole

Task = Literal["classification", "regression"]

MAX_CLASSES = 20


@dataclass(frozen=True)
class Outcome:
    """What is predicted.

    Attributes
    ----------
    task : {"classification", "regression"}
    rule : str
        In words: why.
    classes : tuple
        Labels in sorted order; () for regression.
    """

    task: Task
    rule: str
    classes: tuple[Any, ...]

    @property
    def positive(self) -> Any:
        """The class whose probability is the score: the second of two; None otherwise."""
        return self.classes[1] if len(self.classes) == 2 else None


def read_outcome(values: pd.Series[Any], content: Content, name: str, task: str | None) -> Outcome:
    """Decide what a target column (n,) is; a ``task`` given wins where the values allow it.

    Text, booleans and whole numbers of 2 to 20 distinct values are classes; other numbers are
    numbers. Text of more than 20 distinct values must be called classes by ``task``.
    """
    if task is not None and task not in get_args(Task):
        allowed = ", ".join(map(repr, get_args(Task)))
        raise InputError(f"task must be one of {allowed} or None, got {task!r}")
    if content.kind in ("date", "bytes", "nested", "empty"):
        _refuse(name, f"must hold classes or numbers, got {content.words}; name another column")
    if content.missing:
        _refuse(
            name,
            f"must be known in every row, got {content.missing:,} of {content.rows:,} rows "
            "without it; leave these rows out of the data",
        )
    if content.distinct == 1:
        one = values.iloc[0]
        _refuse(
            name,
            f"must hold at least two values, got {str(one)!r} in every row; name another column, "
            "or take rows of every class",
        )
    if content.kind == "number":
        return _from_numbers(values, content, name, task)
    if task == "regression":
        _refuse(
            name, f"must hold numbers for task='regression', got {content.words}; leave out task"
        )
    if content.distinct > MAX_CLASSES and task is None:
        _refuse(
            name,
            f"must have at most {MAX_CLASSES} classes unless task='classification' is given, got "
            f"{content.words}; name another column if these are not classes",
        )
    why = "booleans" if content.kind == "boolean" else "text"
    return _classes(values, f"{why} of {content.distinct} distinct values", task)


def _from_numbers(values: pd.Series[Any], content: Content, name: str, task: str | None) -> Outcome:
    few = content.codes and content.distinct <= MAX_CLASSES
    if not np.isfinite(numbers_of(values)).all():
        _refuse(name, "must hold finite numbers, got an infinite one; leave these rows out")
    if task == "classification" and not content.codes:
        _refuse(
            name,
            f"must hold whole numbers, text or booleans for task='classification', got numbers "
            f"from {content.words}; leave out task, or cut them into classes first",
        )
    if few and task != "regression":
        return _classes(values, f"whole numbers of {content.distinct} distinct values", task)
    if task == "classification":
        return _classes(values, f"{content.distinct:,} distinct values", task)
    kind = f"numbers of {content.distinct:,} distinct values"
    if not content.codes:
        kind += ", not all whole"
    return Outcome("regression", _because(kind, task), ())


def _classes(values: pd.Series[Any], why: str, task: str | None) -> Outcome:
    labels = [
        whole(float(label)) if isinstance(label, float | np.floating) else label
        for label in values.unique().tolist()
    ]
    return Outcome("classification", _because(why, task), tuple(sorted(labels)))


def _because(why: str, task: str | None) -> str:
    return why if task is None else f"as task says; {why}"


def _refuse(name: str, found: str) -> NoReturn:
    raise InputError(f"target {name!r} {found}")
