"""LightGBM as it comes: what anybody has who does nothing about fairness."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments.paper.plan import Cell
from experiments.peers.peer import Peer, PeerRows, Scored, missing_package

ROUNDS, EVERY = 200, 10
#: One thread and a fixed order of sums: the same trees whenever they are grown.
PARAMETERS: dict[str, Any] = {
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
    "verbosity": -1,
}
#: Table 12 is about the absolute error; R2, the utility of areas, is about the squared one.
OBJECTIVES = {"classification": ("binary",), "regression": ("regression_l1", "regression")}


def scored(cell: Cell, rows: PeerRows) -> Iterator[Scored]:
    """One model for each objective, judged every few rounds."""
    import lightgbm

    checks = tuple(range(EVERY, ROUNDS + 1, EVERY))
    kind = "regression" if cell.scenario == "III" else "classification"
    for objective in OBJECTIVES[kind]:
        booster = lightgbm.train(
            PARAMETERS | {"objective": objective},
            lightgbm.Dataset(rows.x, rows.y),
            num_boost_round=ROUNDS,
        )
        scores = tuple(
            np.stack(
                [
                    np.asarray(booster.predict(x, num_iteration=check, num_threads=1))
                    for check in checks
                ]
            )
            for x in rows.held_out
        )
        yield Scored(f"objective={objective}", checks, scores)


def _versions() -> dict[str, str]:
    import lightgbm

    return {"lightgbm": lightgbm.__version__}


PEER = Peer(
    name="plain",
    settings={"rounds": ROUNDS, "every": EVERY, "objectives": OBJECTIVES, "parameters": PARAMETERS},
    offers=lambda cell: True,
    scored=scored,
    versions=_versions,
    why_not=lambda: missing_package("lightgbm"),
)
