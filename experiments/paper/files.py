"""Results of cells on disk: found again by anybody, written whole or not at all.

A cell has two files, named by its key: ``KEY.parquet`` with one snapshot a row, and ``KEY.json``
with everything else. The second is written last, so that a cell with both is finished. A folder of
many cells can be packed into two files (`experiments.paper.packing`), to be kept for good.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.errors import InputError
from equipoise.storage import write_atomically
from experiments.paper.plan import Cell

#: Format of the files; results of another one are not read.
FORMAT = 1
#: Files of packed results.
SNAPSHOTS, RECORDS = "snapshots.parquet", "records.json"


@dataclass(frozen=True, eq=False)
class CellResult:
    """What one training run gave.

    Attributes
    ----------
    cell : Cell
    snapshots : DataFrame
        One snapshot a row: split, strength, iteration, utility (AUC, or MAE of a regression), one
        column for every measure, such as "KS-GSP race", on the validation rows; under the honest
        protocol the same on test rows, as "test utility", "test KS-GSP race". A regression has R2
        as well. A member, a run of the paper, is a split with a strength.
    picks : DataFrame
        Under the honest protocol: for every measure, threshold on utility and split the snapshot
        that the validation rows pick, and its value on test rows with a bootstrap interval:
        metric, attribute, threshold, split, strength, iteration, utility, value, test_utility,
        test_value, low, high. A threshold that no snapshot of a split reaches has no row.
    record : mapping
        Settings, sizes, versions, device, seconds.
    """

    cell: Cell
    snapshots: pd.DataFrame
    picks: pd.DataFrame
    record: Mapping[str, Any]


def write_result(folder: Path, result: CellResult) -> None:
    """Write the two files of a cell."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{result.cell.key}.parquet", parquet_bytes(result.snapshots))
    content = {
        "format": FORMAT,
        "cell": asdict(result.cell),
        "record": dict(result.record),
        "picks": json.loads(result.picks.to_json(orient="records", double_precision=15)),
    }
    text = json.dumps(content, indent=1, allow_nan=False)
    write_atomically(folder / f"{result.cell.key}.json", text.encode())


def read_results(folder: Path, cells: Iterable[Cell]) -> dict[Cell, CellResult]:
    """Results of those ``cells`` that are finished, from files of their own or packed."""
    packed = _read_packed(folder)
    found = {}
    for cell in cells:
        one = folder / f"{cell.key}.json"
        if one.is_file():
            content = _checked(_read_json(one), one)
            snapshots = _read_table(folder / f"{cell.key}.parquet", one)
            found[cell] = _result(content, snapshots)
        elif cell.key in packed:
            found[cell] = packed[cell.key]
    return found


def _read_packed(folder: Path) -> dict[str, CellResult]:
    if not (folder / RECORDS).is_file():
        return {}
    records = _read_json(folder / RECORDS)
    table = _read_table(folder / SNAPSHOTS, folder / RECORDS)
    snapshots = dict(iter(table.groupby("key", sort=False)))
    found = {}
    for content in records:
        _checked(content, folder / RECORDS)
        cell = Cell(**content["cell"])
        mine = snapshots[cell.key].drop(columns="key").dropna(axis=1, how="all")
        found[cell.key] = _result(content, mine.reset_index(drop=True))
    return found


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InputError(
            f"'{path}' must be a JSON file of results, got one that can not be read ({error}); "
            "move it away to train its cells anew, or fetch it again"
        ) from error


def _read_table(path: Path, beside: Path) -> pd.DataFrame:
    if not path.is_file():
        raise InputError(
            f"'{beside}' must have '{path.name}' beside it, got none; move it away to train its "
            "cells anew, or fetch both again"
        )
    return pd.read_parquet(path)


def _result(content: Mapping[str, Any], snapshots: pd.DataFrame) -> CellResult:
    picks = content["picks"]
    frame = pd.DataFrame(**picks) if isinstance(picks, dict) else pd.DataFrame(picks)
    return CellResult(Cell(**content["cell"]), snapshots, frame, content["record"])


def _checked(content: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    if content.get("format") != FORMAT:
        raise InputError(
            f"'{path}' has results of format {content.get('format')!r}, this version reads "
            f"{FORMAT}; move the file away to train its cells anew"
        )
    return content


def parquet_bytes(table: pd.DataFrame) -> bytes:
    """A table as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    table.to_parquet(buffer, compression="zstd", index=False)
    return buffer.getvalue()
