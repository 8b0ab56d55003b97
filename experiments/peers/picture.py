"""The trade-offs as a picture: what everybody reaches on test rows, by the KS measures."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import matplotlib
import numpy as np

from equipoise.storage import write_atomically
from experiments.paper.figures import Panel, Points, draw_panels
from experiments.paper.files import CellResult
from experiments.paper.layout import DATA_NAMES
from experiments.paper.plan import Cell
from experiments.paper.protocols import measure_column, reported_fronts, test_hypervolumes
from experiments.peers.evidence import (
    BOOSTING,
    FAIRGBM,
    GRADIENT,
    NETWORKS,
    PLAIN,
    READINGS,
    Contenders,
    Evidence,
)

#: Marker and colour of each contender (Okabe and Ito's palette, as the other figures).
LOOKS: Mapping[str, tuple[str, str]] = {
    BOOSTING: ("o", "#0072B2"),
    NETWORKS: ("^", "#D55E00"),
    PLAIN: ("x", "#000000"),
    GRADIENT: ("D", "#CC79A7"),
    FAIRGBM: ("v", "#009E73"),
}
#: Scenarios in the rows of the figure: with one attribute, regression among them, and with two.
_ROWS = (("I", "III"), ("II",))
_DPI = 72


def panels(evidence: Evidence) -> list[list[Panel]]:
    """A row for each notion with one attribute, then with two."""
    places = evidence.of("honest")
    rows = []
    for scenarios in _ROWS:
        for notion in ("independence", "separation"):
            chosen = {
                cell: found
                for cell, found in places.items()
                if cell.scenario in scenarios and cell.notion == notion
            }
            ordered = sorted(chosen, key=lambda cell: (cell.scenario, cell.dataset))
            rows.append(
                [
                    _panel(cell, metric, attribute, chosen[cell])
                    for cell in ordered
                    for metric, attribute in cell.measures
                    if metric.startswith("KS")
                ]
            )
    return rows


def _panel(cell: Cell, metric: str, attribute: str, contenders: Contenders) -> Panel:
    measure = measure_column(metric, attribute)
    readings = [contenders[name] for name in READINGS.values() if name in contenders]
    shown = dict(contenders)
    if readings:
        shown[GRADIENT] = max(
            readings, key=lambda result: float(test_hypervolumes(result, measure).mean())
        )
    points = tuple(
        _points(name, shown[name], measure, *look) for name, look in LOOKS.items() if name in shown
    )
    utility = "R2" if cell.scenario == "III" else "AUC"
    return Panel(f"{DATA_NAMES[cell.dataset]}, {attribute}", metric, utility, points, ())


def _points(name: str, result: CellResult, measure: str, marker: str, colour: str) -> Points:
    found = np.concatenate(reported_fronts(result, measure))
    return Points(name, marker, colour, found[:, 1], found[:, 0])


def write_picture(evidence: Evidence, path: Path) -> None:
    """Draw all panels into an SVG whose points are pixels, to keep it small."""
    figure = draw_panels("Scenario I and Crime, then Scenario II", panels(evidence))
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", dpi=_DPI, metadata={"Date": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())
