"""What peers gave, on disk: a small file for each task, to be packed into one table for good.

A task's file is written whole or not at all, and carries its record (settings, versions, device,
seconds) with it: whatever is there is finished, and a run that was cut short goes on from there.
Packed, the tables are ``peers.parquet``, the records ``peers.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.storage import write_atomically
from experiments.paper.files import parquet_bytes
from experiments.paper.plan import Cell

_PIECES, _TABLE, _RECORDS = "peers", "peers.parquet", "peers.json"
_CELL = ["scenario", "dataset", "notion", "peer", "protocol"]


@dataclass(frozen=True)
class Task:
    """One peer on one split of a cell; the cell's method is the peer."""

    cell: Cell
    split: int

    @property
    def name(self) -> str:
        """Name of its file, and of it in the records.

        >>> cell = Cell(scenario="I", dataset="law", notion="separation", method="fairgbm")
        >>> Task(cell, 3).name
        'I-law-separation-fairgbm-paper-3'
        """
        cell = self.cell
        parts = cell.scenario, cell.dataset, cell.notion, cell.method, cell.protocol, self.split
        return "-".join(map(str, parts))


def write_piece(out: Path, task: Task, table: pd.DataFrame, record: Mapping[str, Any]) -> None:
    """Keep what a task gave."""
    folder = out / _PIECES
    folder.mkdir(parents=True, exist_ok=True)
    # Parquet keeps what pandas has in `attrs`: one file, so that no half of it can be missing.
    kept = table.copy()
    kept.attrs.update(record)
    write_atomically(folder / f"{task.name}.parquet", parquet_bytes(kept))


def finished(out: Path) -> set[str]:
    """Names of the tasks that are done, packed or not."""
    return set(_read_records(out)["tasks"]) | {path.stem for path in _pieces(out)}


def read_peers(out: Path) -> pd.DataFrame:
    """Everything that peers gave so far, packed or not, in one table."""
    new = {path.stem: pd.read_parquet(path) for path in _pieces(out)}
    parts = list(new.values())
    if (out / _TABLE).is_file():
        packed = pd.read_parquet(out / _TABLE)
        if new:
            names = packed[[*_CELL, "split"]].astype(str).agg("-".join, axis=1)
            packed = packed[~names.isin(list(new))]
        parts.insert(0, packed)
    for part in parts:
        # The records are not about the whole table.
        part.attrs = {}
    order = [*_CELL, "setting", "split", "iteration"]
    return pd.concat(parts, ignore_index=True).sort_values(order, ignore_index=True)


def pack(out: Path) -> None:
    """Add the pieces to the packed files and remove them."""
    pieces = _pieces(out)
    records = _read_records(out)
    runs: list[Any] = records["runs"]
    for path in pieces:
        record = dict(pd.read_parquet(path).attrs)
        seconds = record.pop("seconds")
        if record not in runs:
            runs.append(record)
        records["tasks"][path.stem] = {"run": runs.index(record), "seconds": seconds}
    records["tasks"] = dict(sorted(records["tasks"].items()))
    table = read_peers(out)
    write_atomically(out / _TABLE, parquet_bytes(table))
    write_atomically(out / _RECORDS, (json.dumps(records, indent=1) + "\n").encode())
    for path in pieces:
        path.unlink()
    if pieces and not any((out / _PIECES).iterdir()):
        (out / _PIECES).rmdir()


def _pieces(out: Path) -> list[Path]:
    return sorted((out / _PIECES).glob("*.parquet"))


def _read_records(out: Path) -> dict[str, Any]:
    """Runs: everything but seconds. Tasks: number of the run and seconds, by name."""
    path = out / _RECORDS
    if not path.is_file():
        return {"runs": [], "tasks": {}}
    records: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return records
