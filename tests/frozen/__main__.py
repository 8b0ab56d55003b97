"""Compare what the library answers with ``before.json``; ``--write`` writes that file."""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from .numbers import GROUPS, REFUSED, compute, difference

BEFORE = Path(__file__).parent / "before.json"
TOLERANCE = 1e-6
_PACKAGES = ("equipoise", "fairlearn", "lightgbm", "numpy", "pandas", "scikit-learn", "scipy")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="write before.json, or one group of it"
    )
    parser.add_argument("--only", choices=list(GROUPS), help="only this group of entries")
    parser.add_argument("--quiet", action="store_true", help="tell of entries that differ only")
    asked = parser.parse_args()
    groups = [asked.only] if asked.only else list(GROUPS)
    found = {}
    for group in groups:
        start = time.monotonic()
        found[group] = compute(group)
        refused = sum(value == REFUSED for value in found[group].values())
        seconds = time.monotonic() - start
        print(f"{group}: {len(found[group])} entries, {refused} refused, {seconds:.1f} s")
    before = json.loads(BEFORE.read_text("utf-8"))
    if asked.write:
        write(before["made"] if asked.only else made(), before["entries"] | found)
        return 0
    print(f"before: {before['made']}\nnow:    {made()}")
    return compare({group: before["entries"][group] for group in groups}, found, asked.quiet)


def compare(before: dict[str, Any], now: dict[str, Any], quiet: bool) -> int:
    """Print the largest relative difference of every entry; 1 where one is too large."""
    largest, bad = 0.0, 0
    for group, entries in before.items():
        for name in dict.fromkeys([*entries, *now[group]]):
            here = name in entries and name in now[group]
            by = difference(entries[name], now[group][name]) if here else math.inf
            largest, wrong = max(largest, by), not by <= TOLERANCE
            bad += wrong
            if wrong or not quiet:
                note = "" if here else f" (only {'before' if name in entries else 'now'})"
                print(f"{'DIFFERS' if wrong else 'same':8s}{by:9.2g}  {name}{note}")
    total = sum(map(len, before.values()))
    print(f"{total} entries, {bad} differ by more than {TOLERANCE:g}, the largest by {largest:.3g}")
    return int(bad > 0)


def write(made: dict[str, Any], found: dict[str, Any]) -> None:
    """Write one entry a line, so that a change can be read."""
    groups = []
    for group, entries in found.items():
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items()]
        groups.append(f"{json.dumps(group)}: {{\n" + ",\n".join(lines) + "\n}")
    entries = ",\n".join(groups)
    BEFORE.write_text(f'{{"made": {json.dumps(made)},\n"entries": {{\n{entries}\n}}}}\n', "utf-8")


def made() -> dict[str, Any]:
    """Where and with what numbers are computed."""
    asked = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, cwd=BEFORE.parent, timeout=60)
    return {
        "commit": commit.stdout.strip(),
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        **{name: version(name) for name in _PACKAGES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line[:10] == "model name"), "")


if __name__ == "__main__":
    sys.exit(main())
