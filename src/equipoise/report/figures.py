"""Figures of an audit, in shades of gray for black and white printers."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: Most groups in one panel; the largest are shown and the title says so.
MOST_GROUPS = 12
_COLUMNS = 2
_LABEL_LENGTH = 28


def score_figure(
    histograms: pd.DataFrame, bands: pd.DataFrame, *, threshold: float | None
) -> Figure:
    """One panel per sensitive column: how scores are distributed.

    histograms, bands: as in `equipoise.auditing.groups`; the threshold is drawn as a dotted line.
    """
    panels: list[tuple[str, pd.DataFrame, bool]] = [
        *((str(name), table, True) for name, table in bands.groupby("attribute", sort=False)),
        *((str(name), table, False) for name, table in histograms.groupby("attribute", sort=False)),
    ]
    across = min(_COLUMNS, len(panels))
    down = math.ceil(len(panels) / across)
    figure = Figure(figsize=(5.6 * across, 4.2 * down), layout="constrained")
    for number, (name, table, continuous) in enumerate(panels, start=1):
        axes = figure.add_subplot(down, across, number)
        (_along if continuous else _by_group)(axes, name, table, threshold)
    return figure


def _along(axes: Axes, name: str, table: pd.DataFrame, threshold: float | None) -> None:
    """Quantiles of the score against a continuous column."""
    place = table["position"]
    axes.fill_between(place, table["q10"], table["q90"], color="0.88", label="middle 80 %")
    axes.fill_between(place, table["q25"], table["q75"], color="0.70", label="middle 50 %")
    axes.plot(place, table["q50"], color="black", marker="o", markersize=3, label="median")
    if threshold is not None and table["q10"].min() <= threshold <= table["q90"].max():
        axes.axhline(threshold, color="black", linestyle=":", label="threshold")
    axes.set(title=f"Scores along {name}", xlabel=name, ylabel="score")
    axes.margins(x=0)
    axes.spines[["top", "right"]].set_visible(False)
    # Room above the bands, so that the legend hides nothing.
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.22 * (high - low))
    axes.legend(frameon=False, ncols=2, loc="upper left", fontsize="small")


def _by_group(axes: Axes, name: str, table: pd.DataFrame, threshold: float | None) -> None:
    """A histogram per group, one above the other, over a bar of its quantiles."""
    sizes = table.groupby("group", sort=False)["n"].first()
    shown = sizes.nlargest(MOST_GROUPS).index if len(sizes) > MOST_GROUPS else sizes.index
    kept = [group for group in sizes.index if group in set(shown)]
    labels = []
    for height, group in enumerate(reversed(kept)):
        rows = table[table["group"] == group]
        # Every group fills its own strip: shapes are compared, sizes stand in the label.
        top = height + 0.7 * rows["share"] / rows["share"].max()
        edges = [*rows["low"], rows["high"].iloc[-1]]
        axes.stairs(top, edges, baseline=height, fill=True, color="0.78")
        axes.stairs(top, edges, baseline=height, color="black", linewidth=0.8)
        q10, q25, q50, q75, q90 = rows[["q10", "q25", "q50", "q75", "q90"]].iloc[0]
        bar = height - 0.09
        axes.plot([q10, q90], [bar, bar], color="0.6", linewidth=2, solid_capstyle="butt")
        axes.plot([q25, q75], [bar, bar], color="0.3", linewidth=6, solid_capstyle="butt")
        axes.plot(q50, bar, color="black", marker="o", markeredgecolor="white", markersize=7)
        labels.append(f"{_short(str(group))}\n(n = {sizes[group]:,})")
    if threshold is not None and table["low"].min() <= threshold <= table["high"].max():
        axes.axvline(threshold, color="black", linestyle=":")
    axes.set_yticks([height + 0.25 for height in range(len(kept))], labels)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    more = f", {len(kept)} largest of {len(sizes)} groups" if len(kept) < len(sizes) else ""
    dotted = "; dotted: threshold" if threshold is not None else ""
    axes.set(title=f"Scores by {name}{more}", xlim=(table["low"].min(), table["high"].max()))
    axes.set_xlabel(f"score (bars: middle 80 % and 50 %; dot: median{dotted})", fontsize="small")


def _short(label: str) -> str:
    return label if len(label) <= _LABEL_LENGTH else f"{label[: _LABEL_LENGTH - 3]}..."
