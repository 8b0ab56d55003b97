"""The figure of a frontier: utility against unfairness."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure


def frontier_figure(table: pd.DataFrame, front: pd.DataFrame, *, x: str, utility: str) -> Figure:
    """Draw all snapshots in grey by strength, and the front as a black staircase.

    table, front: as `FairFrontier.table` and `FairFrontier.front` give them; x: the column of
    unfairness.
    """
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.add_subplot()
    strengths = sorted(table["strength"].unique())
    for number, strength in enumerate(strengths):
        rows = table[table["strength"] == strength]
        shade = f"{0.85 - 0.5 * number / max(1, len(strengths) - 1):.2f}"
        axes.scatter(
            rows[x], rows["utility"], s=10, color=shade, label=f"strength {strength:g}", zorder=2
        )
    axes.step(
        front[x],
        front["utility"],
        where="post",
        color="black",
        marker="o",
        markersize=4,
        label="front",
        zorder=3,
    )
    axes.set(xlabel=f"{x} (validation rows; 0 is fair)", ylabel=f"{utility} (validation rows)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small")
    return figure
