"""Results with a known trade-off, made without training: for any cell, from a seed."""

import zlib

import numpy as np
import pandas as pd

from experiments.paper.plan import Cell
from experiments.paper.results import CellResult, measure_column

STRENGTHS = (0.1, 0.5, 0.9)
DEVICE = "made-up device"


def made_up(
    cell: Cell,
    *,
    splits: int = 5,
    snapshots: int = 6,
    shift: float = 0.0,
    quick: bool = False,
) -> CellResult:
    """Unfairness falls and utility with it as strength grows; ``shift`` is added to unfairness.

    Utility lies in 0.6..0.95 (an error in 0.05..0.15), so that every threshold of the paper is
    reached by some snapshots and missed by others.
    """
    generator = np.random.default_rng(zlib.crc32(cell.key.encode()))
    index = pd.MultiIndex.from_product(
        [range(splits), STRENGTHS, range(100, 100 * snapshots + 1, 100)],
        names=["split", "strength", "iteration"],
    )
    table = index.to_frame(index=False)
    regression = cell.scenario == "III"
    ease = generator.uniform(size=len(table))
    for prefix in ("", "test ") if cell.protocol == "honest" else ("",):
        noise = generator.normal(scale=0.004, size=len(table))
        quality = np.clip(0.2 + 0.8 * ease - 0.15 * table["strength"] + noise, 0, 1)
        table[f"{prefix}utility"] = 0.15 - 0.1 * quality if regression else 0.6 + 0.35 * quality
        if regression:
            table[f"{prefix}R2"] = 0.7 * quality + 0.02 * generator.normal(size=len(table))
        for metric, attribute in cell.measures:
            drawn = 0.02 * generator.uniform(size=len(table))
            value = shift + 0.2 * quality * (1 - 0.8 * table["strength"]) + drawn
            table[prefix + measure_column(metric, attribute)] = value
    record = {
        "size": {"name": "quick" if quick else "full", "splits": splits, "rows": None},
        "estimator": "FairRegressor" if regression else "FairClassifier",
        "options": {"iterations": 100 * snapshots, "batch_size": 300, "method": cell.method},
        "strengths": list(STRENGTHS),
        "rows": {"train": 1000, "validation": 250},
        "stopped_members": 0,
        "seconds": {"prepare": 0.5, "train": 12.25},
        "device": DEVICE,
        "versions": {"python": "3.11", "equipoise": "0.0", "torch": "2.0"},
    }
    return CellResult(cell, table, _picks(cell, table), record)


def _picks(cell: Cell, table: pd.DataFrame) -> pd.DataFrame:
    """In every split the smallest validation value that reaches the threshold."""
    if cell.protocol != "honest":
        return pd.DataFrame()
    rows = []
    for metric, attribute in cell.measures:
        measure = measure_column(metric, attribute)
        for threshold in cell.thresholds:
            utility = table["utility"]
            reached = utility <= threshold if cell.scenario == "III" else utility >= threshold
            for split, mine in table[reached].groupby("split"):
                best = mine.loc[mine[measure].idxmin()]
                value = best[f"test {measure}"]
                rows.append(
                    {
                        "metric": metric,
                        "attribute": attribute,
                        "threshold": threshold,
                        "split": split,
                        "strength": best["strength"],
                        "iteration": int(best["iteration"]),
                        "utility": best["utility"],
                        "value": best[measure],
                        "test_utility": best["test utility"],
                        "test_value": value,
                        "low": value - 0.01,
                        "high": value + 0.02,
                    }
                )
    return pd.DataFrame(rows)


def made_up_results(cells: tuple[Cell, ...], **options: object) -> dict[Cell, CellResult]:
    return {cell: made_up(cell, **options) for cell in cells}


def constant(cell: Cell, value: float, *, low: float = -0.01, quick: bool = False) -> CellResult:
    """Every snapshot reaches every threshold with the same unfairness; intervals begin at +low."""
    result = made_up(cell, snapshots=2, quick=quick)
    table = result.snapshots.copy()
    for prefix in ("", "test ") if cell.protocol == "honest" else ("",):
        table[f"{prefix}utility"] = 0.05 if cell.scenario == "III" else 0.95
        for pair in cell.measures:
            table[prefix + measure_column(*pair)] = value
    picks = _picks(cell, table)
    if len(picks):
        picks["low"], picks["high"] = value + low, value + 0.02
    return CellResult(cell, table, picks, result.record)
