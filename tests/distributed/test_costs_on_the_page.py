"""docs/ray.md: its costs are those that were measured."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ray.md").read_text("utf-8")
MEASURED = json.loads((ROOT / "benchmarks" / "results" / "cluster.json").read_text("utf-8"))
FITS = json.loads((ROOT / "benchmarks" / "results" / "files.json").read_text("utf-8"))


def shown(table):
    """The cells of a table on the page."""
    found = re.search(rf"<!-- {table}.*? -->\n\|.*?\n\|.*?\n((?:\|.*\n)+)", PAGE).group(1)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found.splitlines()]


def test_costs_are_those_measured():
    assert shown("cluster: ") == [
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


def test_fits_are_those_measured():
    one, two = (row["picked"] for row in FITS["adult"])
    assert shown("files: adult") == [
        [
            str(each["budget"]),
            *(f"{p['AUC']:.3f} ({p['low']:.3f} to {p['high']:.3f})" for p in (each, other)),
        ]
        for each, other in zip(one, two, strict=True)
    ]
    assert all(a["low"] <= b["AUC"] <= a["high"] for a, b in zip(one, two, strict=True))
    (curve,) = FITS["curve"]
    assert shown("files: curve") == [
        [str(p["budget"]), f"{p['Wasserstein']:.3f}", f"{p['R2']:.3f}", f"{p['best_R2']:.3f}"]
        for p in curve["picked"]
    ]
    assert curve["rows"] == 10**7 and curve["workers"] == 2
    assert all(abs(p["best_R2"] - p["R2"]) < 0.01 for p in curve["picked"])
    if FITS["pass"]:
        assert shown("files: pass") == [
            [f"{row['rows']:,}", str(row["workers"]), f"{row['rows_a_second']:,}"]
            for row in FITS["pass"]
        ]
