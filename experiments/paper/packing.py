"""Many results in two files: what tables and figures need, small enough to keep for good."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from equipoise.storage import write_atomically
from experiments.paper.files import FORMAT, RECORDS, SNAPSHOTS, CellResult, parquet_bytes
from experiments.paper.protocols import on_a_front


def pack(folder: Path, results: Iterable[CellResult]) -> None:
    """Write results as two files; the snapshots are those on a front, all that pages need."""
    results = list(results)
    folder.mkdir(parents=True, exist_ok=True)
    parts = [result.snapshots[on_a_front(result)].assign(key=result.cell.key) for result in results]
    table = pd.concat(parts, ignore_index=True)
    measured = table.select_dtypes("number").columns.difference(["split", "strength", "iteration"])
    # Five digits are beyond what a few thousand rows can tell, and pack well.
    table[measured] = table[measured].astype("float64").round(5).astype("float32")
    write_atomically(folder / SNAPSHOTS, parquet_bytes(table))
    records = [
        {
            "format": FORMAT,
            "cell": asdict(result.cell),
            "record": dict(result.record),
            "picks": json.loads(result.picks.to_json(orient="split", double_precision=6)),
        }
        for result in results
    ]
    lines = ",\n".join(json.dumps(record, allow_nan=False) for record in records)
    write_atomically(folder / RECORDS, f"[\n{lines}\n]\n".encode())
