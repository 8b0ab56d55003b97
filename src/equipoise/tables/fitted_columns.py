"""Hold the columns of new rows against those seen at fit."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Mapping, Sequence

from equipoise.errors import InputError
from equipoise.tables.columns import Column, Family

_FAMILY_WORDS = {
    "number": "numbers",
    "boolean": "booleans",
    "text": "text or categories",
    "categorical": "text or categories",
}
# Warnings name the line of the user: the function that warns, its caller here or in an encoder,
# the encoder's public method, the user.
_USER = 4


def arranged(columns: tuple[Column, ...], families: Mapping[str, Family]) -> list[Column]:
    """Bring columns into the order seen at fit, by name where there are names.

    families: family of each column seen at fit, in this order. Columns that are missing, too many
    or of another family are refused.
    """
    fitted, given = list(families), [column.name for column in columns]
    if set(fitted) != set(given):
        _refuse_other_names(fitted, given)
        columns = tuple(
            Column(name, column.family, column.numbers, column.codes, column.levels)
            for name, column in zip(fitted, columns, strict=True)
        )
    by_name = {column.name: column for column in columns}
    in_order = [by_name[name] for name in fitted]
    for column in in_order:
        _check_family(column, families[column.name])
    return in_order


def warn_unseen(unseen: Mapping[str, Sequence[str]], *, treated: str) -> None:
    """Warn of categories not seen at fit, if there are any.

    unseen: what each column holds that is new, as text. treated: what becomes of it.
    """
    described = []
    for name, shown in unseen.items():
        if shown:
            more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
            described.append(f"{name!r} ({', '.join(shown[:3])}{more})")
    if described:
        warnings.warn(
            f"X has categories not seen at fit, {treated}: {'; '.join(described)}",
            UserWarning,
            stacklevel=_USER,
        )


def listed(names: Iterable[str]) -> str:
    """Names as messages show them."""
    return ", ".join(map(repr, names))


def _refuse_other_names(fitted: list[str], given: list[str]) -> None:
    """Let only nameless columns, which are told apart by position, differ in name."""
    if len(fitted) == len(given) and _nameless(len(given)) in (fitted, given):
        return
    known, found = set(fitted), set(given)
    missing = [name for name in fitted if name not in found]
    extra = [name for name in given if name not in known]
    if _nameless(len(given)) == given or _nameless(len(fitted)) == fitted:
        raise InputError(
            f"X must have the {len(fitted)} columns seen at fit, got {len(given)}; "
            "pass the same columns in the same order"
        )
    if missing:
        near = difflib.get_close_matches(missing[0], extra, n=1)
        hint = f"; did you mean {missing[0]!r} by {near[0]!r}?" if near else ""
        raise InputError(
            f"X must have the columns seen at fit, but {listed(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing{hint}"
        )
    raise InputError(
        f"X must have only the columns seen at fit, got also {listed(extra)}; drop them"
    )


def _check_family(column: Column, fitted: Family) -> None:
    if column.family == "empty":
        return
    if fitted == "empty":
        warnings.warn(
            f"X column {column.name!r} had no value at fit, so its values are ignored",
            UserWarning,
            stacklevel=_USER,
        )
    elif _FAMILY_WORDS[column.family] != _FAMILY_WORDS[fitted]:
        raise InputError(
            f"X column {column.name!r} must hold {_FAMILY_WORDS[fitted]} as at fit, got "
            f"{_FAMILY_WORDS[column.family]}; convert the column"
        )


def _nameless(count: int) -> list[str]:
    """The names that reading gives to columns without one."""
    return [f"x{position}" for position in range(count)]
