"""docs/ray.md: its costs are those that were measured."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ray.md").read_text("utf-8")
MEASURED = json.loads((ROOT / "benchmarks" / "results" / "cluster.json").read_text("utf-8"))


def test_costs_are_those_measured():
    table = re.search(r"<!-- cluster: .*? -->\n\|.*?\n\|.*?\n((?:\|.*\n)+)", PAGE).group(1)
    shown = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
    assert shown == [
        [
            f"`{name}`",
            f"{row['rows']:,}",
            str(row["workers"]),
            f"{row['seconds']:.0f}",
            f"{row['worker_gib']:.1f}",
            f"{row['driver_gib']:.1f}",
        ]
        for name in ("audit", "predict")
        for row in MEASURED[name]
    ]


def test_a_worker_stays_within_what_was_promised():
    assert all(row["worker_gib"] < 3 for name in ("audit", "predict") for row in MEASURED[name])


def test_the_true_distance_lies_in_every_interval():
    for row in MEASURED["audit"]:
        assert row["low"] <= MEASURED["true_distance"] <= row["high"]
