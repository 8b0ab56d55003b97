"""Score files in a process of its own; print the peak of its memory in bytes after each of them.

Run as ``python peak_of_scoring.py MODEL FILE ROWS FILE ROWS ...``, the smallest file first: a peak
never falls.
"""

import re
import resource
import sys
from pathlib import Path

from equipoise import load
from equipoise.runs.scoring import score_file


def peak() -> int:
    # On Linux the peak that getrusage knows is inherited from the process that started this one.
    status = Path("/proc/self/status")
    if status.is_file():
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    model, *files = sys.argv[1:]
    for data, rows in zip(files[::2], files[1::2], strict=True):
        out = Path(data).with_suffix(".parquet")
        report = score_file(load(model), data, out, id="note", rows=4_096)
        assert report.scored == report.rows == int(rows)
        print(peak())
