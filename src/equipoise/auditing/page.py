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
    HEADLINES,
    State,
    group_findings,
    headline_of,
    opening,
    p_in_words,
    ranked_groups,
    remarks,
    sized,
    state_of,
    verdict,
)
from equipoise.metrics.by_group import MEANS
from equipoise.notions import Notion
from equipoise.report.page import listed, number, records, render_page

if TYPE_CHECKING:
    from equipoise.auditing.result import Audit

#: Most groups of one column whose histograms are drawn; the largest are, and the page says so.
MOST_GROUPS = 12
#: Metrics of a group that lie between 0 and 1.
_RATES = tuple(name for name, mean in MEANS.items() if mean.kind == "rate")


def audit_page(audit: Audit) -> str:
    """Return the page's HTML; it needs nothing but a browser."""
    title, *opened = opening(audit)
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
        title=title.removesuffix("."),
        opening=opened,
        answer=tuple(answer(audit)),
        remarks=tuple(remarks(audit)),
        audit=audit,
        glance=_glance(audit, about),
        sections=sections,
        rows=records(frame),
        percent=f"{100 * audit.settings.level:g} %",
        settings=asdict(audit.settings),
        versions=versions(),
    )


def _glance(audit: Audit, about: list[AuditRow]) -> list[dict[str, Any]]:
    """The gap of each attribute, notion by notion."""
    found = []
    for notion, metric in HEADLINES.items():
        rows = [row.columns() for row in about if row.metric == metric]
        if rows:
            found.append({"notion": str(notion), "metric": metric, "rows": rows})
    return found


def _findings(audit: Audit, rows: list[AuditRow]) -> Iterator[dict[str, Any]]:
    """What was found about one attribute; rows: about all rows of it."""
    for notion in map(Notion, audit.notions):
        under = [row for row in rows if row.notion == notion]
        if under:
            first = _capital(verdict(audit, under, notion))
            yield {
                "notion": str(notion),
                "sentences": [first, *group_findings(audit, rows[0].attribute, notion)],
                "metrics": [row.columns() for row in under],
            }


def answer(audit: Audit) -> Iterator[str]:
    """By what scores differ, how much and how sure that is, a sentence for each notion.

    Where one notion was assessed, the second sentence says why the other was not.
    """
    for notion in map(Notion, audit.notions):
        yield _differences(audit, notion)
    if len(audit.notions) == 1:
        yield next(line for line in remarks(audit) if line.startswith("Only "))


def _differences(audit: Audit, notion: Notion) -> str:
    by_state: dict[State, list[str]] = {}
    for attribute in audit.attributes:
        rows = [row for row in audit.rows if (row.attribute, row.group) == (attribute, ALL_ROWS)]
        headline = headline_of(rows, notion)
        state = state_of(audit, headline)
        own, adjusted = headline.estimate.p_shown, headline.estimate.p_adjusted_shown
        p = p_in_words(own if state == "not found" else adjusted)
        said = f"{headline.metric} {sized(headline, '[]')}, {p}"
        if state == "undefined":
            said = "too few rows in every group"
        elif state != "not found":
            said = f"{_range(audit, attribute, notion)}{said}; {headline.where}"
        by_state.setdefault(state, []).append(f"{attribute} ({said})")
    words = {
        "found": "scores differ by {}",
        "unclear": "scores may differ by {}, which is not certain given all tests made",
        "not found": "no difference beyond chance was found by {}",
        "undefined": "nothing can be said about {}",
    }
    parts = [words[state].format(listed(by_state[state])) for state in words if state in by_state]
    sentence = "; ".join(parts) + "."
    if notion.conditions_on_outcome:
        return f"Among people of equal outcome, {sentence}"
    return _capital(sentence)


def _range(audit: Audit, attribute: str, notion: Notion) -> str:
    """Who is worst and best off; nothing where all fare alike."""
    ordered, _ = ranked_groups(audit, attribute, notion)
    if len(ordered) < 2 or ordered[0].value == ordered[-1].value:
        return ""
    worst, best = ordered[0], ordered[-1]
    return (
        f"{worst.metric} {number(worst.value)} for {worst.group}, {number(best.value)} for "
        f"{best.group}; "
    )


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


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
