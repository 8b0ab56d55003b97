"""Figures: the points are those of the fronts, and everybody can tell them apart."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from made_up_results import made_up_results

from experiments.paper import figures
from experiments.paper.figures import AREAS, SBP_AND_CON, drawable
from experiments.paper.plan import FIGURES, Cell, cells_of
from experiments.paper.results import write_result
from experiments.paper.tables import read_contents

LAYOUTS = {"I": (2, 3), "II": (3, 4), "III": (2, 2)}


@pytest.mark.parametrize("name", FIGURES)
def test_panels_are_laid_out_as_in_the_paper(name):
    plan = FIGURES[name]
    rows = figures.panels(plan, {})
    assert (len(rows), *{len(row) for row in rows}) == LAYOUTS[plan.scenario]
    assert all(panel.points == () for row in rows for panel in row)
    # Without results, every method of the place is named as not run.
    for row in rows:
        for panel in row:
            assert len(panel.missing) == len(set(panel.missing)) > 0


def test_rows_of_scenario_one_are_metrics_and_its_columns_data_sets():
    rows = figures.panels(FIGURES["figure2"], {})
    assert [[panel.unfairness for panel in row] for row in rows] == [["EO"] * 3, ["KS-GEO"] * 3]
    assert [panel.title for panel in rows[0]] == ["Adult, race", "Credit, gender", "Law, race"]
    assert {panel.utility for row in rows for panel in row} == {"AUC"}
    assert figures.panels(FIGURES["figure7"], {})[0][0].utility == "MAE"


def front_of_numpy(utility, unfairness):
    """Non-dominated points when utility is to be large."""
    better = (utility[:, None] >= utility) & (unfairness[:, None] <= unfairness)
    strictly = (utility[:, None] > utility) | (unfairness[:, None] < unfairness)
    return ~(better & strictly).any(axis=0)


def test_points_are_the_fronts_of_the_runs():
    plan = FIGURES["figure1"]
    results = made_up_results(plan.cells)
    panel = figures.panels(plan, results)[1][2]
    assert (panel.title, panel.unfairness) == ("Law, race", "KS-GSP")
    assert [points.label for points in panel.points] == ["SBP", "HGR", "KDE", "NEU"]
    for points, method in zip(panel.points, ("sbp", "hgr", "kde", "neu"), strict=True):
        cell = Cell(scenario="I", dataset="law", notion="independence", method=method)
        expected = set()
        for _, run in results[cell].snapshots.groupby(["split", "strength"]):
            x, y = run["KS-GSP race"].to_numpy(), run["utility"].to_numpy()
            on = front_of_numpy(y, x)
            expected |= set(zip(x[on], y[on], strict=True))
        assert set(zip(points.x, points.y, strict=True)) == expected
        assert len(points.x) == len(expected)


def test_a_trade_off_by_strength_shows_the_least_the_middle_and_the_greatest():
    plan = FIGURES["figure5"]
    results = made_up_results(plan.cells)
    panel = figures.panels(plan, results)[0][0]
    assert [points.label for points in panel.points] == [f"strength {s}" for s in (0.1, 0.5, 0.9)]
    means = [points.x.mean() for points in panel.points]
    assert means == sorted(means, reverse=True)


def test_methods_differ_in_marker_and_in_color():
    for looks in (list(figures.LOOKS.values()), list(figures.STRENGTH_LOOKS)):
        markers, colors = zip(*looks, strict=True)
        assert len(set(markers)) == len(set(colors)) == len(looks)
    shown = {cell.method for plan in FIGURES.values() for cell in plan.cells}
    assert shown == set(figures.LOOKS)


def luminance(color: str) -> float:
    """Relative luminance (WCAG 2)."""
    shares = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_strengths_are_told_apart_in_shades_of_grey_as_well():
    shades = [luminance(color) for _, color in figures.STRENGTH_LOOKS]
    assert shades == sorted(shades, reverse=True)
    assert min(-np.diff(shades)) > 0.1


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """Scenario I, separation: figure 2 with one cell missing; and honest runs of one data set."""
    folder = tmp_path_factory.mktemp("results")
    results = made_up_results(FIGURES["figure2"].cells)
    del results[FIGURES["figure2"].cells[-1]]
    honest = [replace(cell, protocol="honest") for cell in FIGURES["figure2"].cells[:3]]
    for result in (*results.values(), *made_up_results(tuple(honest)).values()):
        write_result(folder, result)
    return read_contents(folder)


def test_what_can_be_drawn_is_what_has_been_run(contents):
    assert drawable(contents) == (
        "figure2",
        SBP_AND_CON,
        "figure6",
        "figure8",
        AREAS,
    )


def png_size(data: bytes) -> tuple[int, int]:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("figure2", ["SBP", "CON", "HGR", "KDE", "NEU"]),
        (SBP_AND_CON, ["SBP", "CON"]),
        (AREAS, ["SBP, paper's settings", "rivals, any settings"]),
    ],
)
def test_figures_are_drawn_small_with_a_legend(contents, name, labels):
    figure = figures.draw(name, contents)
    (legend,) = figure.legends
    shown = [text.get_text() for text in legend.get_texts()]
    assert [label for label in shown if label != "SBP, our settings"] == labels
    png = figures.png_bytes(figure)
    width, height = png_size(png)
    assert 500 < width < 1500 and 100 < height < 1500
    assert len(png) < 120_000
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert any(text.endswith("\nnot run: NEU") for text in labels) == (name == "figure2")


def test_points_beyond_the_edge_are_counted(contents):
    plan = FIGURES["figure6"]
    (panel, *_), *_ = figures.panels(plan, contents.results)
    first = panel.points[0]
    x, y = np.append(first.x, [5.0, 9.0]), np.append(first.y, [0.9, 0.9])
    least = replace(first, x=x, y=y)
    axes = figures.draw_panels("", [[replace(panel, points=(least, *panel.points[1:]))]]).axes[0]
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    x = np.concatenate([least.x, *(points.x for points in panel.points[1:])])
    y = np.concatenate([least.y, *(points.y for points in panel.points[1:])])
    outside = int(np.sum((x < left) | (x > right) | (y < bottom) | (y > top)))
    assert right < 1 and 2 <= outside < 0.05 * len(x)
    assert axes.get_xlabel() == f"EO (← fairer)\n{outside} points beyond the edge"


def test_a_metric_that_is_defined_nowhere_leaves_an_empty_panel(contents):
    (panel, *_), *_ = figures.panels(FIGURES["figure6"], contents.results)
    none = replace(panel.points[0], x=np.empty(0), y=np.empty(0))
    axes = figures.draw_panels("", [[replace(panel, points=(none,))]]).axes[0]
    assert axes.get_xlabel() == "EO (← fairer)\nnot defined on these rows"


def test_axes_say_which_way_is_better(contents):
    (panel, *_), *_ = figures.panels(FIGURES["figure6"], contents.results)
    error = replace(panel, utility="MAE")
    drawn = figures.draw_panels("", [[panel, error]]).axes
    assert [axes.get_ylabel() for axes in drawn] == ["AUC (better →)", "MAE (← better)"]
    assert all(axes.get_xlabel().startswith("EO (← fairer)") for axes in drawn)


def test_the_same_figure_is_the_same_file(tmp_path, contents):
    for folder in ("one", "two"):
        figures.write_figure("figure6", contents, tmp_path / folder)
    one, two = ((tmp_path / folder / "figure6.png").read_bytes() for folder in ("one", "two"))
    assert one == two


def test_every_target_that_is_a_figure_has_a_plan():
    assert {name for name in FIGURES if not cells_of(name)} == set()
