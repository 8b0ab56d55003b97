"""Table 1 of the paper, live: what each method can do, from the methods' own declarations."""

from __future__ import annotations

import pandas as pd

from equipoise.methods.declaration import Declaration
from equipoise.methods.registry import METHODS


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
