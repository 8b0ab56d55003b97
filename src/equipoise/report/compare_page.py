"""Several frontiers on one self-contained HTML page, drawn over each other."""

from __future__ import annotations

import math
from typing import Any

from equipoise.frontier.assessed import DRAWS
from equipoise.frontier.comparison import BUDGETS, Comparison, Measure
from equipoise.frontier.snapshots import ONE, families_in_words
from equipoise.report.page import listed, number, records, render_page
from equipoise.report.plotting import Scale, spanning, staircase

#: Line and marker of the first run, the second, ...; then they repeat, and only names tell.
STYLES = ("a", "b", "c", "d")


def compare_page(found: Comparison) -> str:
    """Return the page's HTML: fronts of all runs by metric and attribute, and the table."""
    styles = {name: STYLES[place % len(STYLES)] for place, name in enumerate(found.runs)}
    only_networks = set(found.families.values()) == {("network",)}
    return render_page(
        "compare.html",
        scripts=("sortable.js",),
        title=f"Comparison of {listed(found.runs)}",
        answer=_answer(found),
        cautions=found.cautions,
        utility=found.utility,
        budgets=BUDGETS,
        draws=DRAWS,
        styles=styles,
        panels=[_panel(found, styles, measure) for measure in found.fronts],
        rows=records(found.table),
        differences=found.differences,
        runs=found.runs,
        number=number,
        families={}
        if only_networks
        else {name: families_in_words(each) for name, each in found.families.items()},
        one_of=ONE,
    )


def _answer(found: Comparison) -> tuple[str, str]:
    """Say how much each run reaches, and what it keeps at the least budget that all keep."""
    table = found.table
    metric, attribute = table["metric"].iloc[0], table["attribute"].iloc[0]
    rows = table[(table["metric"] == metric) & (table["attribute"] == attribute)]
    first = rows.drop_duplicates("run")
    volumes = [
        f"{name} {number(volume)}"
        for name, volume in zip(first["run"], first["hypervolume"], strict=True)
    ]
    reached = (
        f"Of all trade-offs between {found.utility} and {metric} by {attribute}, the "
        f"front reaches this share on validation rows: {', '.join(volumes)}."
    )
    for budget in BUDGETS:
        kept = rows[(rows["budget"] == budget) & rows["snapshot"].notna()]
        if len(kept) == len(found.runs):
            where = ", on test rows" if kept["utility_test"].notna().all() else ""
            said = [_tested(row, found.utility) for row in records(kept)]
            return reached, f"Within a budget of {budget:g}{where}, {listed(said)}."
    return reached, f"No budget up to {BUDGETS[-1]:g} is kept by all of them."


def _tested(row: dict[str, Any], utility: str) -> str:
    if math.isnan(row["utility_test"]):
        return f"{row['run']} has {utility} {number(row['utility'])} on validation rows"
    return (
        f"{row['run']} has {utility} {number(row['utility_test'])} "
        f"[{number(row['utility_low'])} to {number(row['utility_high'])}]"
    )


def _panel(found: Comparison, styles: dict[str, str], measure: Measure) -> dict[str, Any]:
    metric, attribute = measure
    fronts = found.fronts[measure]
    x = spanning([0.0, *(value for front in fronts.values() for value in front["unfairness"])])
    y = spanning([value for front in fronts.values() for value in front["utility"]], margin=0.06)
    table = found.table
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
                "line": staircase(list(front["unfairness"]), list(front["utility"]), x, y),
                "points": [_point(row, f"{metric} {attribute}", x, y) for row in records(front)],
            }
            for name, front in fronts.items()
        ],
        "runs": [
            {"name": name, "style": styles[name], "cells": records(rows[rows["run"] == name])}
            for name in found.runs
        ],
    }


def _point(row: dict[str, Any], column: str, x: Scale, y: Scale) -> dict[str, Any]:
    unfairness, utility = row["unfairness"], row["utility"]
    return {
        "left": x.percent(unfairness),
        "bottom": y.percent(utility),
        "title": f"{row['origin']}: utility {utility:.4f}, {column} {unfairness:.4f}",
    }
