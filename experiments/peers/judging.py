"""A peer's scores as rows of a table, judged exactly as the cells of the paper are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch

from experiments.paper.plan import Cell
from experiments.paper.running import measures_of
from experiments.peers.peer import Scored
from experiments.peers.rows import PeerRows


def judged(cell: Cell, split: int, rows: PeerRows, models: Iterable[Scored]) -> pd.DataFrame:
    """One model a row.

    Columns: scenario, dataset, notion, protocol, peer, setting, split, iteration; utility (AUC, or
    MAE with R2 beside it) and every measure on the validation rows; the same on test rows with
    "test " before the name, decisions cut where the validation rows have it best.
    """
    return pd.concat([_judged(cell, split, rows, each) for each in models], ignore_index=True)


def _judged(cell: Cell, split: int, rows: PeerRows, models: Scored) -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "scenario": cell.scenario,
            "dataset": cell.dataset,
            "notion": cell.notion,
            "protocol": cell.protocol,
            "peer": cell.method,
            "setting": models.setting,
            "split": np.int8(split),
            "iteration": np.array(models.iterations, np.int32),
        }
    )
    thresholds = None
    for prefix, part, scores in zip(("", "test "), rows.parts, models.scores, strict=False):
        found = measures_of(cell, part, 0, torch.from_numpy(scores), thresholds)
        table = table.join(found[0].add_prefix(prefix))
        thresholds = found[1]
    return table
