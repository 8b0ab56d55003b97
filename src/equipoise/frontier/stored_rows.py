"""Outcome, weights and sensitive columns of held-out rows as plain values and arrays, and back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from equipoise.frontier.rows import HeldOut
from equipoise.metrics.outcome import OutcomeKind
from equipoise.sensitive import SensitiveColumn, SensitiveTable
from equipoise.storage import from_json, to_json

_PER_ROW = ("codes", "values", "scores")


def rows_document(rows: HeldOut) -> dict[str, Any]:
    """Return what is no array: kinds, and the columns by name with their categories."""
    columns = [
        (column.name, column.kind, column.rule, tuple(map(_plain, column.categories)))
        for column in rows.table.columns
    ]
    return {
        "part": rows.part,
        "outcome": rows.outcome,
        "columns": to_json(columns, argument="sensitive_features"),
    }


def rows_arrays(rows: HeldOut) -> dict[str, NDArray[Any]]:
    """Return arrays by name, each with the n rows first."""
    arrays = {"y": rows.y}
    if rows.weights is not None:
        arrays["weights"] = rows.weights
    for number, column in enumerate(rows.table.columns):
        for name in _PER_ROW:
            values = getattr(column, name)
            if values is not None:
                arrays[f"{name}.{number}"] = values
    return arrays


def rows_in(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> HeldOut:
    """Return the rows that `rows_document` and `rows_arrays` wrote."""
    if document["outcome"] not in get_args(OutcomeKind):
        raise ValueError(f"no outcome is {document['outcome']!r}")
    if len({len(array) for array in arrays.values()}) > 1:
        raise ValueError("columns of rows differ in length")
    columns = []
    for number, (name, kind, rule, categories) in enumerate(from_json(document["columns"])):
        codes, values, scores = (arrays.get(f"{part}.{number}") for part in _PER_ROW)
        column = SensitiveColumn(name, kind, rule, codes, categories, values, scores)
        if codes is not None and not (codes < len(categories)).all():
            raise ValueError(f"column {name!r} has a category without a name")
        if len(column.missing) != len(arrays["y"]):
            raise ValueError(f"column {name!r} has no values")
        columns.append(column)
    return HeldOut(
        document["part"],
        arrays["y"],
        document["outcome"],
        SensitiveTable(tuple(columns)),
        arrays.get("weights"),
    )


def _plain(category: Hashable) -> Any:
    """A category as JSON can hold it; an interval of pandas.cut goes by what it prints."""
    plain = isinstance(category, bool | int | float | str | np.generic)
    return category if plain else str(category)
