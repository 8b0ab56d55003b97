"""An audit as one self-contained HTML page: answer, figures, every number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pandas as pd

from equipoise.auditing.groups import QUANTILES
from equipoise.auditing.result import ALL_ROWS, AuditRow, versions
from equipoise.auditing.summary import (
    evidence_in_words,
    group_findings,
    headline_of,
    next_steps,
    opening,
    remarks,
    title,
)
from equipoise.metrics.by_group import MEANS
from equipoise.notions import Notion
from equipoise.report.page import records, render_page, verdict_panels

if TYPE_CHECKING:
    from equipoise.auditing.result import Audit

#: Most groups of one column whose histograms are drawn; the largest are, and the page says so.
MOST_GROUPS = 12
#: Metrics of a group that lie between 0 and 1.
_RATES = tuple(name for name, mean in MEANS.items() if mean.kind == "rate")


def audit_page(audit: Audit) -> str:
    """Return the page's HTML; it needs nothing but a browser."""
    about = [row for row in audit.rows if row.attribute and row.group == ALL_ROWS]
    frame = audit.to_frame()
    histograms = {
        str(name): _histogram(table)
        for name, table in audit.histograms.groupby("attribute", sort=False)
    }
    bands = {
        str(name): {
            "attribute": name,
            "positions": table["position"].to_numpy(),
            "quantiles": table[list(QUANTILES)].to_numpy(),
        }
        for name, table in audit.bands.groupby("attribute", sort=False)
    }
    sections = []
    for name, some in groupby(about, key=lambda row: row.attribute):
        histogram = histograms.get(name)
        groups = frame[(frame["attribute"] == name) & (frame["group"] != ALL_ROWS)]
        groups = groups[~groups["metric"].str.endswith((" difference", " ratio"))]
        section = {
            "name": name,
            "findings": list(_findings(audit, list(some))),
            "strips": list(histograms).index(name) if histogram else None,
            "histogram": histogram,
            "left_out": sum(not g["drawn"] for g in histogram["groups"]) if histogram else 0,
            "bands": list(bands).index(name) if name in bands else None,
            "band_rows": records(audit.bands[audit.bands["attribute"] == name]),
            "groups": None if groups.empty else _groups(groups),
        }
        sections.append(section)
    return render_page(
        "audit.html",
        scripts=("charts.js", "tables.js", "audit.js"),
        data={
            "histograms": list(histograms.values()),
            "bands": list(bands.values()),
            "threshold": audit.threshold,
        },
        title=title(audit),
        opening=tuple(opening(audit)),
        panels=verdict_panels(audit.verdicts),
        steps=[step.partition("\n") for step in next_steps(audit)],
        remarks=tuple(remarks(audit)),
        audit=audit,
        sections=sections,
        rows=records(frame),
        percent=f"{100 * audit.settings.level:g} %",
        settings=asdict(audit.settings),
        made=[("", audit.source, versions())],
        versions=versions(),
    )


def _findings(audit: Audit, rows: list[AuditRow]) -> Iterator[dict[str, Any]]:
    """What was found about one attribute; rows: about all rows of it."""
    attribute = rows[0].attribute
    for notion in map(Notion, audit.notions):
        headline = headline_of(audit, attribute, notion)
        if headline is not None:
            yield {
                "notion": str(notion),
                "sentences": [
                    evidence_in_words(audit, headline),
                    *group_findings(audit, attribute, notion),
                ],
                "metrics": [row.columns() for row in rows if row.notion == notion],
            }


def _groups(rows: pd.DataFrame) -> dict[str, Any]:
    """Rates and means of every group, a metric a column; n is that of the whole group."""
    table = []
    for group, some in rows.groupby("group", sort=False):
        cells = {row["metric"]: row for row in records(some)}
        size = max(int(cell["n"]) for cell in cells.values())
        note = next(iter(cells.values()))["note"]
        table.append({"group": group, "n": size, "cells": cells, "note": note})
    metrics = list(dict.fromkeys(rows["metric"]))
    return {"metrics": metrics, "rates": _RATES, "rows": table}


def _histogram(table: pd.DataFrame) -> dict[str, Any]:
    """Counts of scores by bin, from which shares at or above an edge are exact."""
    groups = [(str(name), rows) for name, rows in table.groupby("group", sort=False)]
    ranked = sorted(groups, key=lambda group: -int(group[1]["n"].iloc[0]))
    drawn = {name for name, _ in ranked[:MOST_GROUPS]}
    first = groups[0][1]
    return {
        "attribute": table["attribute"].iloc[0],
        "edges": [*first["low"], first["high"].iloc[-1]],
        "groups": [
            {
                "name": name,
                "n": int(rows["n"].iloc[0]),
                "counts": (rows["share"] * rows["n"]).round().astype(int).tolist(),
                "quantiles": rows[list(QUANTILES)].iloc[0].tolist(),
                "drawn": name in drawn,
            }
            for name, rows in groups
        ],
    }
