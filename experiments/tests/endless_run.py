"""A program to be killed: one cell that is soon done, then one that would take for ever."""

import sys
from dataclasses import replace
from pathlib import Path

from experiments.paper.plan import Cell
from experiments.paper.training import Size, run_missing

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    cell = Cell(scenario="I", dataset="adult", notion="independence", method=sys.argv[2])
    size = Size(
        name="quick",
        splits=2,
        strengths=(0.5,),
        iterations=20,
        evaluate_every=20,
        rows=900,
        draws=5,
    )
    run_missing([cell], size, folder, device="cpu")
    endless = replace(size, iterations=10**7)
    run_missing([replace(cell, method="hgr")], endless, folder, device="cpu")
