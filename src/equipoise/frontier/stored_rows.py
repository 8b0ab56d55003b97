"""Outcome, weights and sensitive columns of held-out rows as plain values and arrays, and back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.frontier.rows import HeldOut
from equipoise.storage import from_json, made, to_json
from equipoise.tables import SensitiveColumn, SensitiveTable

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
    if len({len(array) for array in arrays.values()}) > 1:
        raise ValueError("columns of rows differ in length")
    y, weights = arrays["y"], arrays.get("weights")
    columns = []
    for number, (name, kind, rule, categories) in enumerate(from_json(document["columns"])):
        codes, values, scores = (arrays.get(f"{part}.{number}") for part in _PER_ROW)
        found = (name, kind, rule, codes, categories, values, scores)
        names = (field.name for field in fields(SensitiveColumn))
        column = made(SensitiveColumn, dict(zip(names, found, strict=True)))
        if (kind == "discrete") != (codes is not None) or (codes is None) != (values is not None):
            raise ValueError(f"column {name!r} is of another kind than its values")
        if codes is not None and not ((codes >= -1) & (codes < len(categories))).all():
            raise ValueError(f"column {name!r} has a category without a name")
        if {each.shape for each in (codes, values, scores) if each is not None} != {y.shape}:
            raise ValueError(f"column {name!r} has no values")
        columns.append(column)
    if not columns or len({column.name for column in columns}) < len(columns):
        raise ValueError("sensitive columns must have distinct names")
    _check_outcome(document["outcome"], y, weights)
    outcome, table = document["outcome"], SensitiveTable(tuple(columns))
    found_rows = {"part": document["part"], "y": y, "outcome": outcome, "weights": weights}
    return made(HeldOut, {**found_rows, "table": table})


def _check_outcome(outcome: str, y: NDArray[Any], weights: NDArray[Any] | None) -> None:
    """Refuse outcomes (n,) that are not of this kind, and weights that are none."""
    if y.ndim != 1 or not len(y):
        raise ValueError("there must be one outcome for each row")
    if outcome == "continuous" and not (y.dtype == np.float64 and np.isfinite(y).all()):
        raise ValueError("outcomes must be finite numbers")
    if outcome != "continuous":
        classes = np.unique(y)
        whole = y.dtype == np.int64 and np.array_equal(classes, np.arange(len(classes)))
        if not whole or (len(classes) > 2) != (outcome == "multiclass") or len(classes) < 2:
            raise ValueError("outcomes must be numbers of classes, each of them there")
    if weights is not None and (weights.shape != y.shape or not (weights > 0).all()):
        raise ValueError("weights must be positive")
    if weights is not None and not np.isfinite(weights).all():
        raise ValueError("weights must be finite")


def _plain(category: Hashable) -> Any:
    """A category as JSON can hold it; an interval of pandas.cut goes by what it prints."""
    plain = isinstance(category, bool | int | float | str | np.generic)
    return category if plain else str(category)
