"""Rows of a cell: five splits of one data set, side by side in one table of training rows.

Members of one run train on rows of different splits. Each split's training rows are encoded by what
they say themselves and laid one after the other; a member's rows are then a range of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.datasets import Dataset, load_dataset
from equipoise.estimators.inputs import Outcome, read_classes, read_numbers, training_data
from equipoise.frontier.rows import HeldOut
from equipoise.tables import FeatureEncoder, SensitiveTable
from equipoise.training import TrainingData
from experiments.paper.plan import Cell, Protocol
from experiments.paper.settings import Size

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of the rows that train, pick and report (none under the paper's protocol)."""

    train: Positions
    validation: Positions
    test: Positions


@dataclass(frozen=True, eq=False)
class Part:
    """Rows that do not train, of all splits: encoded (S, n, p), and what they are judged by."""

    x: Tensor
    held_out: tuple[HeldOut, ...]


@dataclass(frozen=True, eq=False)
class CellRows:
    """Everything a cell trains and is judged on.

    data: training rows of all splits. ranges: rows of each split among them. trained_on: the table
    behind ``data.attribute``. outcome: of the training rows. validation, test: None for no test.
    """

    data: TrainingData
    ranges: tuple[tuple[int, ...], ...]
    trained_on: SensitiveTable
    outcome: Outcome
    validation: Part
    test: Part | None


def split_rows(n: int, protocol: Protocol, number: int) -> Split:
    """Deal n rows: four fifths and one, or three fifths, one and one; by the split's number.

    >>> split = split_rows(10, "honest", 0)
    >>> len(split.train), len(split.validation), len(split.test)
    (6, 2, 2)
    """
    order = np.random.default_rng([number, n]).permutation(n)
    fifth = n // 5
    test = fifth if protocol == "honest" else 0
    return Split(order[fifth + test :], order[:fifth], order[fifth : fifth + test])


def cell_rows(cell: Cell, size: Size, device: torch.device) -> CellRows:
    """Load, deal and encode the rows of a cell."""
    data = load_dataset(cell.dataset, preprocessing="paper")
    chosen = np.arange(len(data.y))
    if size.rows is not None and len(chosen) > size.rows:
        chosen = np.random.default_rng(0).permutation(len(chosen))[: size.rows]
    splits = [split_rows(len(chosen), cell.protocol, number) for number in size.split_numbers]
    table = _sensitive(cell, data, chosen)
    y = data.y.to_numpy()[chosen]
    frame = data.X.iloc[chosen]
    outcome = _outcome(cell, np.concatenate([y[split.train] for split in splits]))
    train, validation, test = _encoded(cell, frame, splits)
    trained_on = table.take(np.concatenate([split.train for split in splits]))

    def part(name: str, x: list[NDArray[Any]], rows: Sequence[Positions]) -> Part:
        held_out = tuple(HeldOut.read(name, y[r], table.take(r), None, outcome) for r in rows)
        return Part(torch.from_numpy(np.stack(x)).to(device), held_out)

    each = len(splits[0].train)
    return CellRows(
        data=training_data(np.concatenate(train), outcome, trained_on, None).to(device),
        ranges=tuple(tuple(range(k * each, (k + 1) * each)) for k in range(len(splits))),
        trained_on=trained_on,
        outcome=outcome,
        validation=part("validation", validation, [split.validation for split in splits]),
        test=part("test", test, [split.test for split in splits])
        if cell.protocol == "honest"
        else None,
    )


def _sensitive(cell: Cell, data: Dataset, chosen: Positions) -> SensitiveTable:
    """The scenario's sensitive columns, under the paper's names."""
    columns = {name: data.A[column].to_numpy()[chosen] for column, name, _ in cell.sensitive}
    return SensitiveTable.from_data(columns, types={name: kind for _, name, kind in cell.sensitive})


def _outcome(cell: Cell, y: NDArray[Any]) -> Outcome:
    if cell.scenario != "III":
        return read_classes(y)
    if cell.settings != "paper":
        return read_numbers(y, own_units=cell.settings == "boosting")
    # In the paper's own units, on which the balance of loss and penalty depends.
    values = y.astype(np.float32)
    return Outcome(values, values[:, None])


def _encoded(cell: Cell, frame: Any, splits: Sequence[Split]) -> tuple[list[NDArray[Any]], ...]:
    """Features of training, validation and test rows, each by split."""
    parts: tuple[list[NDArray[Any]], ...] = ([], [], [])
    for split in splits:
        rows = split.train, split.validation, split.test
        if cell.settings == "boosting":
            # Every column is numeric here, and trees read numbers as they are.
            x = frame.to_numpy(np.float64)
            encoded = [x[r] for r in rows]
        elif cell.settings == "paper":
            # The authors scaled all rows before they split; the loader has done so.
            x = frame.to_numpy(np.float32)
            encoded = [x[r] for r in rows]
        else:
            encoder = FeatureEncoder(scaling="rank").fit(frame.iloc[split.train])
            encoded = [
                encoder.transform(frame.iloc[r]) if len(r) else np.empty((0, 0), np.float32)
                for r in rows
            ]
        for kept, found in zip(parts, encoded, strict=True):
            kept.append(found)
    return parts
