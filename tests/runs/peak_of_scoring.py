"""Score a file of so many rows in a process of its own; print the peak of its memory in bytes."""

import resource
import sys

from equipoise import load
from equipoise.runs.scoring import score_file

if __name__ == "__main__":
    model, data, out, rows = sys.argv[1:]
    report = score_file(load(model), data, out)
    assert report.scored == report.rows == int(rows)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
