"""docs/auditing.md quotes what the benchmark measured."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "auditing.md").read_text("utf-8")
MEASURED = json.loads((ROOT / "benchmarks" / "results" / "audit.json").read_text("utf-8"))


def table_after(mark):
    """Cells of the table that follows a comment."""
    rows = re.search(rf"<!-- {mark}: .*? -->\n\|.*?\n\|.*?\n((?:\|.*\n)+)", PAGE).group(1)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]


def test_times_and_memory_are_those_measured():
    assert table_after("rows") == [
        [f"{row['n']:,}".replace(",", " "), f"{row['seconds']:.1f}", f"{row['peak_gib']:.1f}"]
        for row in MEASURED["rows"]
    ]


def test_a_million_rows_keep_within_what_was_promised():
    last = MEASURED["rows"][-1]
    assert last["n"] == 1_000_000
    assert last["seconds"] < 60 and last["peak_gib"] < 4
    assert all(row["times_the_first"] <= row["n_log_n_times_the_first"] for row in MEASURED["rows"])
