"""Run cases: ``python -m tests.fuzz --cases 1000 --workers 2 --out result.json``.

With ``--out`` of an earlier run the seeds go on where that ended, and the counts are added up.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .cases import run_case, run_cases
from .draw import Column, Table
from .entries import ENTRIES
from .oracle import FAULTS, Result

_CHUNK = 50
_PACKAGES = ("equipoise", "lightgbm", "numpy", "pandas", "polars", "pyarrow", "scikit-learn",
             "scipy", "torch")  # fmt: skip


def main() -> int:
    asked = _arguments()
    if asked.seed is not None:
        return _tell(run_case(asked.seed, entry=asked.entry))
    document = _read(asked.out)
    first = _first_seed(asked, document)
    end = time.monotonic() + 60 * asked.minutes if asked.minutes else None
    chunks = _chunks(first, asked.cases, end)
    examples: dict[str, list[int]] = {}
    start, told = time.monotonic(), time.monotonic()
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("spawn")) as pool:
        running: deque[Future[list[Result]]] = deque()
        while True:
            while len(running) < 2 * asked.workers and (seeds := next(chunks, None)):
                running.append(pool.submit(run_cases, seeds, asked.entry))
            if not running:
                break
            for result in running.popleft().result():
                _count(document, result)
                if result.kind in FAULTS:
                    examples.setdefault(result.signature, []).append(result.seed)
            if time.monotonic() - told > 30:
                told = time.monotonic()
                _say(document, told - start)
                _write(asked.out, document)
    _say(document, time.monotonic() - start)
    _write(asked.out, document)
    for signature, seeds in sorted(examples.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds):5d}  {signature}  seeds {seeds[:4]}")
    return 1 if examples else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, help="repeat and print the case of this seed")
    parser.add_argument("--entry", choices=list(ENTRIES), help="only cases of this entry")
    parser.add_argument(
        "--from-seed",
        type=int,
        help="first seed  [default: where --out ended; of --minutes new ones; else 0]",
    )
    parser.add_argument("--cases", type=int, default=10**9, help="how many cases")
    parser.add_argument("--minutes", type=float, help="stop handing out cases after so long")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--out", type=Path, help="JSON file to write counts to, or add them to")
    asked = parser.parse_args()
    if asked.seed is None and asked.minutes is None and asked.cases == 10**9:
        parser.error("say --seed, --cases or --minutes")
    return asked


def _first_seed(asked: argparse.Namespace, document: dict[str, Any]) -> int:
    """The seed named, the next one, or for a run of minutes seeds that no run has had before."""
    if asked.from_seed is not None:
        return int(asked.from_seed)
    if asked.minutes is None or document["cases"]:
        return int(document["next_seed"])
    return int(time.time()) * 1000


def _chunks(first: int, cases: int, end: float | None) -> Iterator[range]:
    last = first + cases
    while first < last and (end is None or time.monotonic() < end):
        yield range(first, min(first + _CHUNK, last))
        first += _CHUNK


def _read(out: Path | None) -> dict[str, Any]:
    if out is not None and out.exists():
        document: dict[str, Any] = json.loads(out.read_text())
        return document
    return {"cases": 0, "next_seed": 0, "outcomes": {}, "seconds": 0.0, "entries": {}, "faults": []}


def _count(document: dict[str, Any], result: Result) -> None:
    document["cases"] += 1
    document["next_seed"] = max(document["next_seed"], result.seed + 1)
    document["seconds"] += result.seconds
    document["outcomes"][result.kind] = document["outcomes"].get(result.kind, 0) + 1
    entry = document["entries"].setdefault(result.entry, {"cases": 0, "seconds": 0.0})
    entry["cases"] += 1
    entry["seconds"] += result.seconds
    entry[result.kind] = entry.get(result.kind, 0) + 1
    if result.kind in FAULTS:
        document["faults"].append({"seed": result.seed, "fault": result.signature})


def _write(out: Path | None, document: dict[str, Any]) -> None:
    if out is None:
        return
    told = {
        **document,
        "seconds": round(document["seconds"], 1),
        "entries": {
            name: {**entry, "seconds": round(entry["seconds"], 1)}
            for name, entry in sorted(document["entries"].items())
        },
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
    }
    out.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def _commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, timeout=10).stdout.strip()
    except OSError:
        return "unknown"


def _say(document: dict[str, Any], seconds: float) -> None:
    outcomes = ", ".join(f"{count} {kind}" for kind, count in document["outcomes"].items())
    print(f"{document['cases']} cases ({outcomes}) after {seconds:.0f} s", flush=True)


def _tell(result: Result) -> int:
    print(f"seed {result.seed}: {result.entry}")
    for name, value in result.notes.items():
        if isinstance(value, Column | Table):
            print(f"--- {name}, form {value.form!r}, index {value.index_kind!r}\n{value.data!r}")
        else:
            print(f"--- {name}: {value!r}")
    print(f"=== {result.kind} in {result.seconds:.2f} s\n{result.detail}")
    return int(result.kind in FAULTS)


if __name__ == "__main__":
    sys.exit(main())
