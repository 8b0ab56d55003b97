"""Sensitive features as inputs: for methods that need them to predict."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.scales import center_and_spread, standardized
from equipoise.tables.columns import read_columns
from equipoise.tables.kinds import Kind, SensitiveColumn, as_kind
from equipoise.tables.sensitive_table import SensitiveTable

#: Name, kind, categories (discrete), mean and standard deviation (continuous) of a column.
Learned = tuple[str, Kind, tuple[Hashable, ...], float, float]


@dataclass(frozen=True)
class AttributeInputs:
    """How columns of sensitive features become columns of numbers, as learned from some rows.

    A continuous column is moved and scaled to mean 0 and variance 1; of a discrete one, two
    categories become one 0/1 column and more become one each.
    """

    columns: tuple[Learned, ...]

    @classmethod
    def of(cls, table: SensitiveTable) -> AttributeInputs:
        """Learn from the rows of a table.

        >>> table = SensitiveTable.from_data({"sex": ["F", "M", "M", "M"], "race": list("abca")})
        >>> AttributeInputs.of(table).encode(table)[:3]
        array([[0., 1., 0., 0.],
               [1., 0., 1., 0.],
               [1., 0., 0., 1.]], dtype=float32)
        """
        return cls(tuple(_learned(column) for column in table.columns))

    @property
    def width(self) -> int:
        """Number of columns of numbers."""
        return sum(_width(len(categories)) for _, _, categories, _, _ in self.columns)

    def read(self, data: Any, n_rows: int) -> NDArray[np.float32]:
        """Encode the sensitive features of new rows, (n, width)."""
        kinds = {column[0]: column[1] for column in self.columns}
        given = read_columns(data, argument="sensitive_features", prefix="sensitive_")
        names = [column.name for column in given]
        if sorted(names) != sorted(kinds):
            raise InputError(
                f"sensitive_features must have the columns seen at fit, {', '.join(kinds)}, "
                f"got {', '.join(names)}"
            )
        for column in given:
            if len(column.missing) != n_rows:
                raise InputError(
                    f"sensitive_features must have one row for each of the {n_rows} rows of X, "
                    f"got {len(column.missing)}"
                )
            if column.missing.any():
                raise InputError(
                    f"sensitive_features column {column.name!r} must be known to predict, got a "
                    f"missing value in row {int(column.missing.argmax())}"
                )
        return self.encode(
            SensitiveTable(
                tuple(as_kind(column, kinds[column.name], "as at fit") for column in given)
            )
        )

    def encode(self, table: SensitiveTable) -> NDArray[np.float32]:
        """Encode the rows of a table with the same columns, (n, width)."""
        blocks = [_encoded(table[learned[0]], learned) for learned in self.columns]
        return np.concatenate(blocks, axis=1).astype(np.float32)


def _learned(column: SensitiveColumn) -> Learned:
    if column.values is None:
        return column.name, column.kind, column.categories, 0.0, 1.0
    center, spread = center_and_spread(column.values[~column.missing])
    return column.name, column.kind, (), center, spread if spread > 0 else 1.0


def _width(categories: int) -> int:
    return categories if categories > 2 else 1


def _encoded(column: SensitiveColumn, learned: Learned) -> NDArray[np.float64]:
    name, _, categories, center, scale = learned
    if column.values is not None:
        return standardized(column.values, center, scale)[:, None]
    assert column.codes is not None
    present = np.unique(column.codes[column.codes >= 0])
    unseen = [
        column.categories[code] for code in present if column.categories[code] not in categories
    ]
    if unseen:
        raise InputError(
            f"sensitive_features column {name!r} must have the categories seen at fit, got "
            f"{unseen[0]!r}; the model knows nothing of it"
        )
    codes = {category: code for code, category in enumerate(categories)}
    place = np.array([codes.get(category, -1) for category in column.categories] + [-1])
    shown = np.arange(1, 2) if len(categories) == 2 else np.arange(len(categories))
    return np.asarray(place[column.codes][:, None] == shown, dtype=np.float64)
