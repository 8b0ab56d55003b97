"""FairGBM (Cruz et al. 2023): LightGBM with multipliers on error rates of groups.

Equal rates of false positives and of false negatives (``constraint_type="FPR,FNR"``, its default)
are equalized odds, so it is offered for separation of classes, and by discrete groups only: where
there is a continuous attribute it gets the crossing with its quartiles, which ``setting`` says.
What moves it along the trade-off is the learning rate of its multipliers, tried here far below its
default of 0.1 as well, since with eight groups it diverges there; and what difference of rates it
tolerates, tried at its default of 0.01 and at none.

The package needs NumPy 1, so it runs in an environment of its own: the interpreter that the
environment variable ``EQUIPOISE_FAIRGBM_PYTHON`` names.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from experiments.paper.plan import Cell
from experiments.peers.peer import Peer, PeerRows, Scored, groups, groups_in_setting

INTERPRETER = "EQUIPOISE_FAIRGBM_PYTHON"
LEARNING_RATES = (0.0002, 0.001, 0.005, 0.02, 0.1, 0.5)
TOLERANCES = (0.0, 0.01)
ROUNDS, EVERY = 200, 20
_SCRIPT = Path(__file__).with_name("fairgbm_script.py")
_PARTS = ("validation", "test")


def scored(cell: Cell, rows: PeerRows) -> Iterator[Scored]:
    """One model for each learning rate and tolerance, judged every few rounds."""
    checks = tuple(range(EVERY, ROUNDS + 1, EVERY))
    grid = tuple(product(LEARNING_RATES, TOLERANCES))
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        parts: dict[str, Any] = dict(zip(_PARTS, rows.held_out, strict=False))
        np.savez(
            given,
            x=rows.x,
            y=rows.y,
            groups=groups(rows.sensitive),
            grid=grid,
            checks=checks,
            **parts,
        )
        _interpreted([str(_SCRIPT), str(given), str(found)])
        with np.load(found) as file:
            scores = [file[part] for part, _ in zip(_PARTS, rows.held_out, strict=False)]
    said = groups_in_setting(rows.sensitive)
    for number, (rate, tolerance) in enumerate(grid):
        setting = f"multiplier_learning_rate={rate:g}, tolerance={tolerance:g}{said}"
        yield Scored(setting, checks, tuple(part[number] for part in scores))


def _interpreted(arguments: list[str]) -> str:
    command = [os.environ[INTERPRETER], *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"FairGBM's interpreter failed:\n{done.stderr}")
    return done.stdout


def _versions() -> dict[str, str]:
    asked = "import fairgbm, numpy; print(fairgbm.__version__, numpy.__version__)"
    found = _interpreted(["-c", asked]).split()
    return dict(zip(("fairgbm", "numpy beside fairgbm"), found, strict=True))


def _why_not() -> str | None:
    if INTERPRETER in os.environ:
        return None
    return f"{INTERPRETER} must name the interpreter of an environment with fairgbm, it is not set"


PEER = Peer(
    name="fairgbm",
    settings={
        "constraint_type": "FPR,FNR",
        "multiplier_learning_rate": LEARNING_RATES,
        "constraint_fpr_tolerance and constraint_fnr_tolerance": TOLERANCES,
        "rounds": ROUNDS,
        "every": EVERY,
    },
    offers=lambda cell: cell.scenario != "III" and cell.notion == "separation",
    scored=scored,
    versions=_versions,
    why_not=_why_not,
)
