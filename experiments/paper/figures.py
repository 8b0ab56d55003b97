"""The paper's figures, and one of our own: unfairness to the right, utility upwards.

Every method has a marker and a color of its own (Okabe and Ito's palette, which color-blind
readers can tell apart), so that neither alone carries the meaning.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from equipoise.storage import write_atomically
from experiments.paper.layout import DATA_NAMES, NOT_DEFINED, method_name
from experiments.paper.plan import FIGURES, Cell, FigurePlan
from experiments.paper.results import CellResult, measure_column, run_fronts
from experiments.paper.tables import TRADE_OFF, Contents, Results

#: Name of our own figure.
AREAS = "areas"
#: The paper shows SBP and CON once more on their own in this figure, so close are they.
SBP_AND_CON = "figure2_sbp_con"
#: Marker and color of each method.
LOOKS = {
    "sbp": ("o", "#0072B2"),
    "con": ("^", "#D55E00"),
    "hgr": ("s", "#009E73"),
    "kde": ("D", "#CC79A7"),
    "neu": ("v", "#E69F00"),
    "sbp_nw": ("x", "#000000"),
}
#: The same for the least, the middle and the greatest strength.
STRENGTH_LOOKS = (("o", "#56B4E9"), ("s", "#0072B2"), ("^", "#000000"))
_PANEL = 2.9, 2.5
#: Share of the points, of greatest unfairness and again of least utility, that may be cut off.
_BEYOND = 0.02
#: Resolution of PNG files, and of the points inside SVG files.
_DPI = 80
_COLORS_OF_SMALL = 128


def caption(figure: str) -> str:
    """What a figure shows.

    >>> caption("figure7")
    'Figure 7. Scenario III'
    """
    if figure == AREAS:
        return "Share of the rectangle of trade-offs that each method reaches on test rows"
    if figure == SBP_AND_CON:
        return f"{caption('figure2')}: SBP and CON alone"
    plan = FIGURES[figure]
    return f"Figure {plan.number}. {plan.title}"


def drawable(contents: Contents) -> tuple[str, ...]:
    """Names of the figures of which something has been run, in the order of a page."""
    names: list[str] = []
    for name, plan in FIGURES.items():
        if any(cell in contents.results for cell in plan.cells):
            names += [name, SBP_AND_CON] if name == "figure2" else [name]
    return (*names, *([AREAS] if len(contents.areas) else []))


@dataclass(frozen=True)
class Points:
    """Front points of one method, or of one strength: unfairness x and utility y, (n,) each."""

    label: str
    marker: str
    color: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """One trade-off; ``missing`` names what has not been run."""

    title: str
    unfairness: str
    utility: str
    points: tuple[Points, ...]
    missing: tuple[str, ...]


def panels(plan: FigurePlan, results: Results) -> list[list[Panel]]:
    """Panels of a figure, row by row, as the paper lays them out.

    Scenario I has a metric a row and a data set a column, Scenario II a data set a row, Scenario
    III a notion a row.
    """
    trade_offs: dict[tuple[str, str, str, str], list[Cell]] = {}
    for cell in plan.cells:
        for metric, attribute in cell.measures:
            place = (cell.dataset, str(cell.notion), metric, attribute)
            trade_offs.setdefault(place, []).append(cell)
    row_of = {"I": 2, "II": 0, "III": 1}[plan.scenario]
    rows: dict[str, list[Panel]] = {}
    for key, cells in trade_offs.items():
        dataset, _, metric, attribute = key
        found = [
            points for cell in cells for points in _points(plan, cell, metric, attribute, results)
        ]
        panel = Panel(
            f"{DATA_NAMES[dataset]}, {attribute}",
            metric,
            "MAE" if plan.scenario == "III" else "AUC",
            tuple(found),
            tuple(method_name(cell.method) for cell in cells if cell not in results),
        )
        rows.setdefault(key[row_of], []).append(panel)
    return list(rows.values())


def _points(
    plan: FigurePlan, cell: Cell, metric: str, attribute: str, results: Results
) -> Iterator[Points]:
    if cell not in results:
        return
    result = results[cell]
    measure = measure_column(metric, attribute)
    front = result.snapshots[run_fronts(result, measure)]
    if plan.by == "method":
        marker, color = LOOKS[cell.method]
        yield _of(front, measure, method_name(cell.method), marker, color)
        return
    for strength, (marker, color) in zip(_three(result), STRENGTH_LOOKS, strict=False):
        mine = front[front["strength"] == strength]
        yield _of(mine, measure, f"strength {strength:g}", marker, color)


def _of(front: pd.DataFrame, measure: str, label: str, marker: str, color: str) -> Points:
    x, y = front[measure].to_numpy(np.float64), front["utility"].to_numpy(np.float64)
    return Points(label, marker, color, x, y)


def _three(result: CellResult) -> list[float]:
    """The least, the middle and the greatest strength: more would hide one another."""
    found = sorted(result.snapshots["strength"].unique().tolist())
    return list(dict.fromkeys((found[0], found[len(found) // 2], found[-1])))


def draw(name: str, contents: Contents) -> Figure:
    """Draw the figure of a name that `experiments.paper.page.drawable` gives."""
    if name == AREAS:
        return draw_areas(contents.areas)
    if name == SBP_AND_CON:
        whole = FIGURES["figure2"]
        pair = tuple(cell for cell in whole.cells if cell.method in ("sbp", "con"))
        return draw_panels(caption(name), panels(replace(whole, cells=pair), contents.results))
    return draw_panels(caption(name), panels(FIGURES[name], contents.results))


def draw_panels(title: str, rows: Sequence[Sequence[Panel]]) -> Figure:
    """Draw panels; what is missing is said in the panel."""
    across = max(len(row) for row in rows)
    size = _PANEL[0] * across, _PANEL[1] * len(rows) + 0.7
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title, fontsize="medium")
    grid = figure.subplots(len(rows), across, squeeze=False)
    for row, line in zip(rows, grid, strict=True):
        for number, axes in enumerate(line):
            if number < len(row):
                _panel(axes, row[number])
            else:
                axes.set_axis_off()
    labels = {
        str(handle.get_label()): handle
        for axes in figure.axes
        for handle in reversed(axes.get_legend_handles_labels()[0])
    }
    if labels:
        figure.legend(
            list(labels.values()),
            list(labels),
            loc="outside lower center",
            ncols=6,
            frameon=False,
            markerscale=2,
        )
    return figure


def _panel(axes: Axes, panel: Panel) -> None:
    # All points of a panel are one picture in an SVG; one for each method would be much larger.
    axes.set_rasterization_zorder(1.5)
    # The first one named is what the figure is about: drawn last, on top of the others.
    for points in reversed(panel.points):
        open_marker = points.marker not in "x+"
        axes.scatter(
            points.x,
            points.y,
            s=9,
            marker=points.marker,
            facecolors="none" if open_marker else points.color,
            edgecolors=points.color if open_marker else None,
            linewidths=0.6,
            label=points.label,
            zorder=1,
        )
    axes.set_title(panel.title, fontsize="small")
    # Arrows point to what is better; the second one is turned with its label.
    better = "← better" if panel.utility == "MAE" else "better →"
    axes.set_ylabel(f"{panel.utility} ({better})", fontsize="small")
    axes.tick_params(labelsize="small")
    axes.spines[["top", "right"]].set_visible(False)
    empty = not any(len(points.x) for points in panel.points)
    if empty:
        axes.set(xticks=[], yticks=[])
    beyond = 0 if empty else _cut(axes, panel)
    notes = [f"{beyond} points beyond the edge"] if beyond else []
    notes += [NOT_DEFINED] if empty and panel.points else []
    notes += [f"not run: {', '.join(panel.missing)}"] if panel.missing else []
    # Outside of the axes, where no point can be under them.
    axes.set_xlabel("\n".join([f"{panel.unfairness} (← fairer)", *notes]), fontsize="small")


def _cut(axes: Axes, panel: Panel) -> int:
    """Leave the worst few points outside, so that they do not squeeze the rest; say how many."""
    x = np.concatenate([points.x for points in panel.points])
    y = np.concatenate([points.y for points in panel.points])
    error = panel.utility == "MAE"
    most = np.quantile(x, 1 - _BEYOND)
    worst = np.quantile(y, 1 - _BEYOND if error else _BEYOND)
    shown = (x <= most) & (y <= worst if error else y >= worst)
    for cut, values in ((axes.set_xlim, x[shown]), (axes.set_ylim, y[shown])):
        margin = 0.04 * max(float(np.ptp(values)), 1e-3)
        cut(values.min() - margin, values.max() + margin)
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    return int(((x < left) | (x > right) | (y < bottom) | (y > top)).sum())


def draw_areas(areas: pd.DataFrame) -> Figure:
    """Area under the trade-off on test rows: the penalty with either settings, and every rival."""
    groups = list(areas.groupby(TRADE_OFF, sort=False))
    figure = Figure(figsize=(8, 0.24 * len(groups) + 1.4), layout="constrained")
    axes = figure.subplots()
    labels = []
    for height, (key, mine) in enumerate(reversed(groups)):
        scenario, dataset, _, metric, attribute = map(str, key)
        labels.append(f"{scenario} {DATA_NAMES[dataset].split(' (')[0]}, {metric} {attribute}")
        rivals = mine[~mine["method"].isin(["sbp", "sbp_nw"])]
        ours = mine[mine["method"] == "sbp"].set_index("settings")["mean"]
        for table, marker, look in (
            (rivals["mean"], "|", {"color": "0.55", "s": 40, "label": "rivals, any settings"}),
            (
                ours[ours.index == "paper"],
                "D",
                {"facecolors": "none", "edgecolors": "#D55E00", "label": "SBP, paper's settings"},
            ),
            (
                ours[ours.index == "equipoise"],
                "o",
                {"color": "#0072B2", "label": "SBP, our settings"},
            ),
        ):
            axes.scatter(table, [height] * len(table), marker=marker, **({"s": 26} | look))
    axes.set_yticks(range(len(labels)), labels, fontsize="x-small")
    axes.set_ylim(-0.7, len(labels) - 0.3)
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(
        "share of the rectangle of trade-offs reached, mean over splits, test rows (better →)"
    )
    handles, names = axes.get_legend_handles_labels()
    first = dict(zip(reversed(names), reversed(handles), strict=True))
    figure.legend(
        list(first.values()), list(first), loc="outside upper center", ncols=3, frameon=False
    )
    return figure


def write_figure(name: str, contents: Contents, folder: Path) -> None:
    """Draw a figure and write it as ``name.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{name}.png", png_bytes(draw(name, contents)))


def png_bytes(figure: Figure) -> bytes:
    """A figure as a PNG of few colors, which is a third of the size and looks the same."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    small = io.BytesIO()
    image = Image.open(buffer).convert("RGB").quantize(_COLORS_OF_SMALL)
    image.save(small, format="png", optimize=True)
    return small.getvalue()
