"""Score a file of so many rows in a process of its own; print the peak of its memory in bytes."""

import re
import resource
import sys
from pathlib import Path

from equipoise import load
from equipoise.runs.scoring import score_file

if __name__ == "__main__":
    model, data, out, rows = sys.argv[1:]
    report = score_file(load(model), data, out)
    assert report.scored == report.rows == int(rows)
    # On Linux the peak that getrusage knows is inherited from the process that started this one.
    status = Path("/proc/self/status")
    if status.is_file():
        print(int(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) * 1024)
    else:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
