"""Several frontiers on one self-contained HTML page, drawn over each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from equipoise.estimators.fitting import same_form
from equipoise.report.comparison import (
    BUDGETS,
    DRAWS,
    ComparedRun,
    Measure,
    beware,
    common_measures,
    comparison,
)
from equipoise.report.families import ONE, families_in_words, origin_in_words
from equipoise.report.page import render_page
from equipoise.report.plotting import Scale, spanning, staircase
from equipoise.report.writing import listed, number, records

#: Line and marker of the first run, the second, ...; then they repeat, and only names tell.
STYLES = ("a", "b", "c", "d")


def compare_page(runs: Sequence[ComparedRun]) -> str:
    """Return the page's HTML: fronts of all runs by metric and attribute, and `comparison`."""
    table = comparison(runs)
    styles = {run.name: STYLES[place % len(STYLES)] for place, run in enumerate(runs)}
    measures = common_measures(runs)
    only_networks = all(run.families == ("network",) for run in runs)
    return render_page(
        "compare.html",
        scripts=("sortable.js",),
        title=f"Comparison of {listed([run.name for run in runs])}",
        answer=_answer(runs, table),
        cautions=beware(runs),
        utility=runs[0].frontier.utility_,
        budgets=BUDGETS,
        draws=DRAWS,
        styles=styles,
        panels=[_panel(runs, styles, table, measure) for measure in measures],
        rows=records(table),
        differences=_differences(runs),
        runs=[run.name for run in runs],
        number=number,
        families={}
        if only_networks
        else {run.name: families_in_words(run.families) for run in runs},
        one_of=ONE,
    )


def _answer(runs: Sequence[ComparedRun], table: pd.DataFrame) -> tuple[str, str]:
    """Say how much each run reaches, and what it keeps at the least budget that all keep."""
    metric, attribute = table["metric"].iloc[0], table["attribute"].iloc[0]
    rows = table[(table["metric"] == metric) & (table["attribute"] == attribute)]
    first = rows.drop_duplicates("run")
    volumes = [
        f"{name} {number(volume)}"
        for name, volume in zip(first["run"], first["hypervolume"], strict=True)
    ]
    reached = (
        f"Of all trade-offs between {runs[0].frontier.utility_} and {metric} by {attribute}, the "
        f"front reaches this share on validation rows: {', '.join(volumes)}."
    )
    for budget in BUDGETS:
        kept = rows[(rows["budget"] == budget) & rows["snapshot"].notna()]
        if len(kept) == len(runs):
            where = ", on test rows" if kept["utility_test"].notna().all() else ""
            said = [_tested(row, runs[0].frontier.utility_) for row in records(kept)]
            return reached, f"Within a budget of {budget:g}{where}, {listed(said)}."
    return reached, f"No budget up to {BUDGETS[-1]:g} is kept by all of them."


def _tested(row: dict[str, Any], utility: str) -> str:
    if math.isnan(row["utility_test"]):
        return f"{row['run']} has {utility} {number(row['utility'])} on validation rows"
    return (
        f"{row['run']} has {utility} {number(row['utility_test'])} "
        f"[{number(row['utility_low'])} to {number(row['utility_high'])}]"
    )


def _panel(
    runs: Sequence[ComparedRun], styles: dict[str, str], table: pd.DataFrame, measure: Measure
) -> dict[str, Any]:
    metric, attribute = measure
    column = f"{metric} {attribute}"
    fronts = {run.name: run.frontier.front(metric, attribute) for run in runs}
    families = {run.name: run.families for run in runs}
    x = spanning([0.0, *(value for front in fronts.values() for value in front[column])])
    y = spanning([value for front in fronts.values() for value in front["utility"]], margin=0.06)
    rows = table[(table["metric"] == metric) & (table["attribute"] == attribute)]
    return {
        "metric": metric,
        "attribute": attribute,
        "x_ticks": x.ticks(),
        "y_ticks": y.ticks(),
        "budgets": [x.percent(budget) for budget in BUDGETS if budget <= x.high],
        "fronts": [
            {
                "style": styles[name],
                "line": staircase(*_columns(front, column), x, y),
                "points": [_point(row, families[name], column, x, y) for row in records(front)],
            }
            for name, front in fronts.items()
        ],
        "runs": [
            {
                "name": run.name,
                "style": styles[run.name],
                "cells": records(rows[rows["run"] == run.name]),
            }
            for run in runs
        ],
    }


def _columns(front: pd.DataFrame, column: str) -> tuple[list[float], list[float]]:
    return [float(v) for v in front[column]], [float(v) for v in front["utility"]]


def _point(
    row: dict[str, Any], families: Sequence[str], column: str, x: Scale, y: Scale
) -> dict[str, Any]:
    origin = origin_in_words(
        # The table of a frontier names the family where there are two.
        row.get("predictor", families[0]),
        row["strength"],
        row["seed"],
        row["iteration"],
        mixed=len(families) > 1,
    )
    return {
        "left": x.percent(row[column]),
        "bottom": y.percent(row["utility"]),
        "title": f"{origin}: utility {row['utility']:.4f}, {column} {row[column]:.4f}",
    }


def _differences(runs: Sequence[ComparedRun]) -> list[dict[str, Any]]:
    """Settings that are not the same in all runs, as text."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    found = []
    for name in names:
        forms = {repr(same_form(run.settings.get(name, ""))) for run in runs}
        if len(forms) > 1:
            values = [str(run.settings.get(name, "")) for run in runs]
            found.append({"name": name, "values": values})
    return found
