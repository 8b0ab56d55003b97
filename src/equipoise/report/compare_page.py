"""Several frontiers on one self-contained HTML page, drawn over each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.frontier.comparison import BUDGETS, Comparison, Contest, Measure
from equipoise.frontier.judging import DRAWS_FOR_MANY
from equipoise.frontier.snapshots import families_in_words, predictor_in_words
from equipoise.inference.verdict import Verdict
from equipoise.report.frontier_page import gap_in_words
from equipoise.report.page import Made, records, render_page, side_by_side
from equipoise.words import listed, number

#: The beginning of its title, by which the page is known.
TITLE = "Comparison of"


def compare_page(found: Comparison, made: Sequence[Made] = ()) -> str:
    """Return the page's HTML: who wins, fronts of all runs by metric and attribute, the table."""
    mixed = set(found.families.values()) != {("network",)}
    labels = {
        name: f"{name} ({families_in_words(families)})" if mixed else name
        for name, families in found.families.items()
    }
    panels = [_panel(found, labels, measure) for measure in found.fronts]
    return render_page(
        "compare.html",
        scripts=("charts.js", "tables.js", "compare.js"),
        data={
            "utility": found.utility,
            "budgets": BUDGETS,
            "runs": list(labels.values()),
            "panels": [
                {
                    "metric": panel["metric"],
                    "attribute": panel["attribute"],
                    "fronts": [run["front"] for run in panel["runs"]],
                }
                for panel in panels
            ],
        },
        title=f"{TITLE} {listed(found.runs)}",
        answer=_answer(found),
        contest=found.contest,
        verdicts=[] if found.contest is None else side_by_side(_verdicts(found.contest)),
        models=[] if found.contest is None else _models(found.contest),
        utilities=[] if found.contest is None else _utilities(found.contest),
        made=made,
        found=found,
        budgets=BUDGETS,
        draws=DRAWS_FOR_MANY,
        panels=panels,
        gap_in_words=gap_in_words(metric for metric, _ in found.fronts),
        rows=records(found.table),
        mixed=mixed,
        one_of={
            each: predictor_in_words(each) for each in found.table["predictor"].unique() if each
        },
    )


def _verdicts(contest: Contest) -> list[tuple[Verdict, ...]]:
    return [selection.verdicts for selection in contest.selections.values()]


def _models(contest: Contest) -> list[str]:
    return [
        f"{name} (nearest)" if selection.nearest else name
        for name, selection in contest.selections.items()
    ]


def _utilities(contest: Contest) -> list[str]:
    """The utility of each model with its interval, or that it is on validation rows only."""
    rows = [selection.rows[0] for selection in contest.selections.values()]
    return [
        f"{number(row.validation)} on validation rows"
        if math.isnan(row.test)
        else f"{number(row.test)} ({number(row.low)} to {number(row.high)})"
        for row in rows
    ]


def _panel(found: Comparison, labels: Mapping[str, str], measure: Measure) -> dict[str, Any]:
    metric, attribute = measure
    table = found.table
    rows = table[(table["metric"] == metric) & (table["attribute"] == attribute)]
    return {
        "metric": metric,
        "attribute": attribute,
        "runs": [
            {
                "name": labels[name],
                "front": records(found.fronts[measure][name]),
                "cells": records(rows[rows["run"] == name]),
            }
            for name in found.runs
        ],
    }


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
        f"Share of the achievable trade-offs between {found.utility} and {metric} by {attribute}, "
        f"on validation rows (0 to 1): {', '.join(volumes)}."
    )
    for budget in BUDGETS:
        kept = rows[(rows["budget"] == budget) & rows["snapshot"].notna()]
        if len(kept) == len(found.runs):
            where = ", on test rows" if kept["utility_test"].notna().all() else ""
            said = [_tested(row, found.utility) for row in records(kept)]
            return reached, f"Within a budget of {budget:g}{where}, {listed(said)}."
    return reached, f"No budget up to {BUDGETS[-1]:g} is kept by all runs."


def _tested(row: dict[str, Any], utility: str) -> str:
    if math.isnan(row["utility_test"]):
        return f"{row['run']} has {utility} {number(row['utility'])} on validation rows"
    return (
        f"{row['run']} has {utility} {number(row['utility_test'])} "
        f"[{number(row['utility_low'])} to {number(row['utility_high'])}]"
    )
