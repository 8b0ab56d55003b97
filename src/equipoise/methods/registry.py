"""Which methods there are, and which of them can do what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pandas as pd

from equipoise.errors import InputError, did_you_mean, refuse_unread
from equipoise.methods import (
    adel,
    agarwal,
    con,
    dcov,
    edwards_storkey,
    gdp,
    hgr,
    hsic,
    icp,
    kde,
    neu,
    sbp,
    scutari,
)
from equipoise.methods.declaration import Declaration, Problem, unsupported
from equipoise.notions import Notion

_LISTED: dict[str, Declaration] = {}
_KNOWN: dict[str, Declaration] = {}
#: The methods that tables and errors offer, by name.
METHODS: Mapping[str, Declaration] = MappingProxyType(_LISTED)


def register_method(method: Declaration, *, listed: bool = True) -> None:
    """Make ``method=NAME`` known to every estimator.

    listed: whether tables and errors offer it; otherwise only its name finds it.
    """
    if _KNOWN.get(method.name, method) != method:
        raise InputError(f"name must be new, got {method.name!r}, which is a method; rename yours")
    _KNOWN[method.name] = method
    if listed:
        _LISTED[method.name] = method


for _method in (
    sbp.DECLARATION,
    sbp.WITHOUT_RATIO,
    con.DECLARATION,
    hgr.DECLARATION,
    kde.DECLARATION,
    neu.DECLARATION,
    scutari.DECLARATION,
    agarwal.DECLARATION,
    edwards_storkey.DECLARATION,
    adel.DECLARATION,
    dcov.DECLARATION,
    hsic.DECLARATION,
    gdp.DECLARATION,
    icp.DECLARATION,
):
    register_method(_method)


def parse_method(name: str) -> Declaration:
    """Return the method called ``name``.

    >>> parse_method("sbp").title
    'Penalty by simple random sampling'
    """
    try:
        return _KNOWN[name]
    except (KeyError, TypeError):
        hint = did_you_mean(name, _KNOWN)
        allowed = ", ".join(map(repr, METHODS))
        raise InputError(f"method must be one of {allowed}, got {name!r}{hint}") from None


def methods_for(problem: Problem) -> tuple[str, ...]:
    """Names of the methods that can do all that ``problem`` asks for.

    >>> from equipoise.notions import Notion
    >>> "sbp" in methods_for(Problem(notion=Notion.SEPARATION, continuous=("age",)))
    True
    """
    return tuple(
        name for name, method in METHODS.items() if not unsupported(problem, method.capabilities)
    )


def refuse_unsupported(method: Declaration, problem: Problem) -> None:
    """Raise an InputError that names the methods that can, where ``method`` cannot."""
    if missing := unsupported(problem, method.capabilities):
        able = ", ".join(map(repr, methods_for(problem))) or "none"
        raise InputError(
            f"method={method.name!r} does not support {' or '.join(missing)}; "
            f"methods that support all that is asked here: {able}"
        )


def refuse_unused_options(
    method: Declaration, notion: Notion, changed: Mapping[str, object]
) -> None:
    """Raise an InputError where an option that would change nothing was set.

    changed: the options that differ from their defaults, with their values.
    """
    for option, value in changed.items():
        if not method.reads(option):
            able = ", ".join(repr(name) for name, other in METHODS.items() if other.reads(option))
            remedy = f"use a method that has it: {able}"
            refuse_unread(option, value, f"method={method.name!r}", remedy)
    if "density_ratio" in changed and not notion.conditions_on_outcome:
        ratio = changed["density_ratio"]
        refuse_unread("density_ratio", ratio, f"notion='{notion}'", "set notion='separation'")


def capability_table() -> pd.DataFrame:
    """What each method supports, one a row, by the paper's columns and a few more.

    "two groups" and "two classes" mean that more of them are refused. "controls" says of which
    part of the score's dependence on A the penalty takes care.

    Examples
    --------
    >>> table = capability_table()
    >>> table.loc["kde", ["separation", "discrete A", "continuous A", "discrete Y"]].tolist()
    ['yes', 'yes', 'no', 'two classes']
    """
    rows = {name: _row(method) for name, method in METHODS.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")


def _row(method: Declaration) -> dict[str, str]:
    can = method.capabilities
    # A reference opens with its authors and, in brackets, the year.
    source, closing, _ = method.reference.partition(")")
    return {
        "source": source + closing,
        "neural network": _word(can.neural),
        "independence": _word(can.independence),
        "separation": _word(can.separation),
        "discrete A": _word(can.discrete, limit=None if can.many_groups else "two groups"),
        "continuous A": _word(can.continuous),
        "mixed A": _word(can.mixed),
        "discrete Y": _word(can.classes, limit=None if can.many_classes else "two classes"),
        "continuous Y": _word(can.numbers),
        "representation": _word(can.representation),
        "A to predict": _word(can.needs_attribute),
        "controls": can.controls,
    }


def _word(able: bool, *, limit: str | None = None) -> str:
    return (limit or "yes") if able else "no"
