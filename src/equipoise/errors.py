"""Errors and warnings that equipoise raises on purpose, and checks of single options."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning


class InputError(ValueError):
    """An argument breaks a rule; the message names argument, rule, value and remedy."""


class NoSuchModel(InputError):
    """No model keeps the limits that were asked for; the message names the nearest.

    Attributes
    ----------
    found : str
        The message without its remedy.
    nearest : mapping or None
        The nearest model: ``snapshot``, ``utility`` and ``unfairness`` by attribute on the
        validation rows, rounded so that a model keeps them as limits. None where no model may be
        chosen at all.
    useless : bool
        Whether it helps to admit models that are no better than chance.
    """

    def __init__(
        self,
        found: str,
        remedy: str = "",
        *,
        nearest: Mapping[str, Any] | None = None,
        useless: bool = False,
    ) -> None:
        super().__init__(f"{found}; {remedy}" if remedy else found)
        self.found = found
        self.nearest = nearest
        self.useless = useless


class DataNotFound(FileNotFoundError):
    """A data set is neither bundled nor found; the message says which file to put where."""


class ConvergenceWarning(_SklearnConvergenceWarning):
    """Training ended in a state that needs attention; the message says what to do about it."""


@contextmanager
def needs(package: str, *, user: str, extra: str) -> Iterator[None]:
    """Turn a failed import of an optional package into an error that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != package:
            raise
        raise InputError(
            f'{user} needs {package}, which is not installed; pip install "equipoise[{extra}]"'
        ) from None


def refuse_unread(option: str, value: Any, setting: str, remedy: str) -> NoReturn:
    """Refuse an option that has no effect under this ``setting``."""
    raise InputError(
        f"{option} has no meaning for {setting}, got {value!r}; leave it out, or {remedy}"
    )


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """Return the end of an error message that proposes the nearest known name, or ``""``.

    >>> did_you_mean("adlut", ["adult", "law"])
    "; did you mean 'adult'?"
    """
    nearest = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def check_choice(name: str, value: Any, allowed: Sequence[str], remedy: str = "") -> None:
    """Refuse a value that is not one of the allowed words."""
    if isinstance(value, str) and value in allowed:
        return
    words = [repr(str(word)) for word in allowed]
    rule = " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}"
    raise InputError(f"{name} must be {rule}, got {value!r}{remedy}")


def check_number(
    name: str,
    value: Any,
    rule: str = "must be finite",
    holds: Callable[[float], bool] = math.isfinite,
    remedy: str = "",
) -> float:
    """Return a finite number that satisfies the rule; True and False do not count as numbers.

    >>> check_number("momentum", 2, "must lie in [0, 1)", lambda momentum: 0 <= momentum < 1)
    Traceback (most recent call last):
    equipoise.errors.InputError: momentum must lie in [0, 1), got 2
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name} {rule}, got {value!r}{remedy}")
    try:
        number = float(value)
    except OverflowError:  # a whole number too large for a float
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{name} must be finite, got {value}{remedy}")
    if not holds(number):
        raise InputError(f"{name} {rule}, got {value}{remedy}")
    return number


def check_level(value: Any) -> float:
    """Return the confidence level of intervals and certificates."""
    return check_number(
        "level",
        value,
        "must lie strictly between 0 and 1",
        lambda level: 0 < level < 1,
        "; try level=0.95",
    )


def check_whole(name: str, value: Any, *, least: int = 1, of: str = "") -> int:
    """Return a whole number of at least ``least``; True and False do not count as numbers.

    >>> check_whole("warmup", 0.5, least=0, of=" of rounds")
    Traceback (most recent call last):
    equipoise.errors.InputError: warmup must be a whole number of rounds of at least 0, got 0.5
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number{of} of at least {least}, got {value!r}")
    if value >= 2**63:
        raise InputError(f"{name} must be below 2**63, got {value}")
    return int(value)


def check_widths(name: str, value: Any) -> tuple[int, ...]:
    """Return the widths of layers from a tuple, list or array of positive whole numbers."""
    widths = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(widths, list | tuple) or not all(
        isinstance(width, int | np.integer) and not isinstance(width, bool) and 0 < width < 2**31
        for width in widths
    ):
        raise InputError(
            f"{name} must be a tuple of positive widths, got {value!r}; () is a linear model"
        )
    return tuple(int(width) for width in widths)


def check_count(name: str, found: int, n: int, of: str = "scores", *, each: str = "value") -> None:
    """Refuse data that do not have one value (or row) for each of n scores (or rows)."""
    if found != n:
        raise InputError(
            f"{name} must have one {each} for each of the {n} {of}, got {found}; pass the {each}s "
            "of the same rows in the same order"
        )


def check_flag(name: str, value: Any) -> bool:
    """Return True or False; refuse other values, such as "no"."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {value!r}")
    return bool(value)
