"""An audit as one self-contained HTML page: tables and sentences in, text of a page out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from equipoise.report.page import number, records, render_page
from equipoise.report.plotting import Scale, area, points, spanning, stairs

#: Most groups of one column whose histograms are drawn; the largest are, and the page says so.
MOST_GROUPS = 12
#: What the table calls the group of everybody.
ALL_ROWS = "all rows"
#: Metrics of a group that lie between 0 and 1.
_RATES = ("decision rate", "true positive rate", "false positive rate", "outcome rate")


@dataclass(frozen=True)
class Finding:
    """What was found about one attribute under one notion, in sentences."""

    notion: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class AuditedAttribute:
    """A sensitive column, all columns jointly, or the combinations of several.

    Attributes
    ----------
    name : str
        As in the table's column "attribute".
    headlines : mapping of notion to metric
        The number to open with.
    findings : tuple of Finding
    """

    name: str
    headlines: Mapping[str, str]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditContents:
    """What the page of an audit says.

    Attributes
    ----------
    title : str
    answer : tuple of str
        The answer, a sentence each.
    opening, remarks : tuple of str
        What was audited; what else a reader must know.
    attributes : tuple of AuditedAttribute
    rows : DataFrame
        Columns notion, metric, attribute, group, value, low, high, p_value, certificate, n, reason,
        note; one number a row, group "all rows" for numbers about everybody.
    not_assessed : DataFrame
        Columns metric, attribute, reason.
    histograms : DataFrame
        Columns attribute, group, n, low, high, share, q10, q25, q50, q75, q90; one row per group
        and bin, a bin holding scores of at least low and less than high, the last also all above.
    bands : DataFrame
        Columns attribute, position, n, q10, q25, q50, q75, q90; one row per position.
    threshold : float or None
        A decision is score > threshold.
    level : float
        Of the intervals.
    sensitive : str
        How the sensitive columns were read, as a text table.
    settings, versions : mapping
    """

    title: str
    answer: tuple[str, ...]
    opening: tuple[str, ...]
    remarks: tuple[str, ...]
    attributes: tuple[AuditedAttribute, ...]
    rows: pd.DataFrame
    not_assessed: pd.DataFrame
    histograms: pd.DataFrame
    bands: pd.DataFrame
    threshold: float | None
    level: float
    sensitive: str
    settings: Mapping[str, object]
    versions: Mapping[str, object]


def audit_page(contents: AuditContents) -> str:
    """Return the page's HTML; it needs nothing but a browser."""
    return render_page(
        "audit.html",
        scripts=("sortable.js", "audit.js"),
        data={
            "histograms": list(_counts(contents.histograms)),
            "threshold": contents.threshold,
        },
        title=contents.title,
        contents=contents,
        glance=_glance(contents),
        sections=[_section(contents, attribute) for attribute in contents.attributes],
        rows=records(contents.rows),
        not_assessed=contents.not_assessed.to_dict("records"),
        percent=f"{100 * contents.level:g} %",
        number=number,
    )


def _glance(contents: AuditContents) -> list[dict[str, Any]]:
    """The number each attribute opens with, notion by notion, metrics of a kind on one axis."""
    found = []
    for notion in dict.fromkeys(f.notion for a in contents.attributes for f in a.findings):
        chosen = [
            _about(contents.rows, attribute.name, notion, attribute.headlines[notion])
            for attribute in contents.attributes
            if notion in attribute.headlines
        ]
        for metric in dict.fromkeys(row["metric"] for row in chosen):
            rows = [row for row in chosen if row["metric"] == metric]
            ends = [row[end] for row in rows for end in ("value", "high", "certificate")]
            scale = spanning([0.0, *ends])
            found.append(
                {
                    "notion": notion,
                    "metric": metric,
                    "ticks": scale.ticks(about=3),
                    "rows": [row | {"bar": _bar(row, scale)} for row in rows],
                }
            )
    return found


def _about(rows: pd.DataFrame, attribute: str, notion: str, metric: str) -> dict[str, Any]:
    wanted = (rows["attribute"] == attribute) & (rows["notion"] == notion)
    (row,) = records(rows[wanted & (rows["metric"] == metric) & (rows["group"] == ALL_ROWS)])
    return row


def _bar(row: Mapping[str, Any], scale: Scale) -> dict[str, float | None]:
    """Positions of value, interval and certificate in percent; None where undefined."""
    return {
        name: None if math.isnan(row[name]) else scale.percent(row[name])
        for name in ("value", "low", "high", "certificate")
    }


def _section(contents: AuditContents, attribute: AuditedAttribute) -> dict[str, Any]:
    rows = contents.rows[contents.rows["attribute"] == attribute.name]
    everybody = rows[rows["group"] == ALL_ROWS]
    return {
        "name": attribute.name,
        "findings": [
            {
                "notion": finding.notion,
                "sentences": finding.sentences,
                "metrics": records(everybody[everybody["notion"] == finding.notion]),
            }
            for finding in attribute.findings
        ],
        "histogram": _histogram(contents, attribute.name),
        "bands": _bands(contents, attribute.name),
        "groups": _groups(rows[rows["group"] != ALL_ROWS]),
    }


def _groups(rows: pd.DataFrame) -> dict[str, Any] | None:
    """Rates and means of every group, a metric a column; n is that of the whole group."""
    if rows.empty:
        return None
    metrics = [str(name) for name in dict.fromkeys(rows["metric"])]
    scales = {
        metric: Scale(0.0, 1.0)
        if metric in _RATES
        else spanning(rows.loc[rows["metric"] == metric, ["low", "value", "high"]].to_numpy().flat)
        for metric in metrics
    }
    table = []
    for group, some in rows.groupby("group", sort=False):
        cells: dict[str, Any] = {}
        for row in records(some):
            cells[row["metric"]] = row | {"bar": _bar(row, scales[row["metric"]])}
        first = next(iter(cells.values()))
        size = max(int(cell["n"]) for cell in cells.values())
        table.append({"group": group, "n": size, "cells": cells, "note": first["note"]})
    return {"metrics": metrics, "rows": table}


def _histogram(contents: AuditContents, attribute: str) -> dict[str, Any] | None:
    table = contents.histograms[contents.histograms["attribute"] == attribute]
    if table.empty:
        return None
    scale = Scale(float(table["low"].min()), float(table["high"].max()))
    shown, total = _largest(table)
    cut = contents.threshold
    inside = cut is not None and scale.low <= cut <= scale.high
    return {
        "ticks": scale.ticks(),
        "threshold": scale.percent(cut) if cut is not None and inside else None,
        "left_out": total - len(shown),
        "groups": [
            {
                "name": group,
                "n": int(rows["n"].iloc[0]),
                "outline": stairs([float(share) for share in rows["share"]]),
                "q": {
                    name: scale.percent(float(rows[name].iloc[0]))
                    for name in ("q10", "q25", "q50", "q75", "q90")
                },
                "median": float(rows["q50"].iloc[0]),
            }
            for group, rows in shown
        ],
    }


def _largest(table: pd.DataFrame) -> tuple[list[tuple[str, pd.DataFrame]], int]:
    """The largest groups of a histogram in their own order, and how many groups there are."""
    groups = [(str(name), rows) for name, rows in table.groupby("group", sort=False)]
    ranked = sorted(groups, key=lambda group: -int(group[1]["n"].iloc[0]))[:MOST_GROUPS]
    kept = {name for name, _ in ranked}
    return [group for group in groups if group[0] in kept], len(groups)


def _bands(contents: AuditContents, attribute: str) -> dict[str, Any] | None:
    table = contents.bands[contents.bands["attribute"] == attribute]
    if table.empty:
        return None
    xs = [float(x) for x in table["position"]]
    q = {name: [float(v) for v in table[name]] for name in ("q10", "q25", "q50", "q75", "q90")}
    cut = contents.threshold
    ends = [*q["q10"], *q["q90"]]
    x, y = spanning(xs), spanning(ends, margin=0.04)
    return {
        "x_ticks": x.ticks(),
        "y_ticks": y.ticks(),
        "outer": area(xs, q["q10"], q["q90"], x, y),
        "inner": area(xs, q["q25"], q["q75"], x, y),
        "median": points(xs, q["q50"], x, y),
        "threshold": y.percent(cut) if cut is not None and y.low <= cut <= y.high else None,
        "rows": records(table),
    }


def _counts(histograms: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Counts of scores by bin, from which shares at or above an edge are exact."""
    for attribute, table in histograms.groupby("attribute", sort=False):
        shown, _ = _largest(table)
        yield {
            "attribute": attribute,
            "edges": [float(low) for low in shown[0][1]["low"]],
            "groups": [
                {
                    "n": int(rows["n"].iloc[0]),
                    "counts": [round(float(s) * int(rows["n"].iloc[0])) for s in rows["share"]],
                }
                for _, rows in shown
            ],
        }
