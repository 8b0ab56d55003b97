"""Which part each column plays, from the names a user gives."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NoReturn

from equipoise.errors import InputError

Role = Literal["feature", "sensitive", "target", "id", "dropped"]

#: What goes wrong when a column is given two parts; other pairs are simply refused.
_REASONS = {
    ("sensitive", "target"): "a model can not be kept from depending on what it predicts",
    ("sensitive", "features"): "sensitive columns are never features",
    ("target", "features"): "the target would predict itself",
}


def assign_roles(
    names: Sequence[str],
    *,
    target: str,
    sensitive: Sequence[str],
    id: Sequence[str],
    drop: Sequence[str],
    features: Sequence[str] | None,
) -> dict[str, Role]:
    """Return the part of every column, in the order of the table.

    Every name must be a column and be given one part only. Without ``features`` all columns that
    are not named otherwise are features; with it, those not named at all are dropped.
    """
    if not sensitive:
        raise InputError("sensitive must name at least one column, got none")
    given = {
        "sensitive": sensitive,
        "target": (target,),
        "id": id,
        "drop": drop,
        "features": () if features is None else features,
    }
    for option, columns in given.items():
        check_columns(option, columns, names)
    _refuse_two_parts(given)
    parts: dict[str, Role] = dict.fromkeys(names, "feature" if features is None else "dropped")
    parts |= dict.fromkeys(given["features"], "feature")
    parts |= dict.fromkeys(sensitive, "sensitive")
    parts |= dict.fromkeys(id, "id")
    parts |= dict.fromkeys(drop, "dropped")
    parts[target] = "target"
    return parts


def as_names(option: str, value: str | Iterable[str]) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    if isinstance(value, str):
        return (value,)
    names = tuple(value)
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None:
        raise InputError(f"{option} must hold names of columns as text, got {wrong!r}")
    return names


def check_columns(option: str, columns: Sequence[str], names: Sequence[str]) -> None:
    """Refuse names that are not among ``names``, and those given twice."""
    known = set(names)
    for name in columns:
        if name not in known:
            refuse_unknown(option, name, names)
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise InputError(f"{option} must name a column once, got {twice[0]!r} twice")


def refuse_unknown(option: str, name: str, names: Sequence[str]) -> NoReturn:
    """Raise the error for a column that is not there, naming the nearest one."""
    raise InputError(
        f"{option} names a column {name!r} that the data do not have; {nearest(name, names)}"
    )


def nearest(name: str, names: Sequence[str]) -> str:
    """Say which column was probably meant, or which there are."""
    folded = {each.strip().lower(): each for each in names}
    near = difflib.get_close_matches(name.strip().lower(), list(folded), n=1)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    shown = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
    return f"the columns are {shown}"


def _refuse_two_parts(given: dict[str, Sequence[str]]) -> None:
    options = list(given)
    for first, option in enumerate(options):
        for other in options[first + 1 :]:
            named = set(given[other])
            both = [name for name in given[option] if name in named]
            if both:
                reason = _REASONS.get((option, other), "a column plays one part")
                raise InputError(
                    f"column {both[0]!r} must not be named both by {option} and by {other}: "
                    f"{reason}; take it out of one of them"
                )
