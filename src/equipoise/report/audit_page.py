"""An audit as one self-contained HTML page: tables and sentences in, text of a page out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from equipoise.report.page import records, render_page

#: Most groups of one column whose histograms are drawn; the largest are, and the page says so.
MOST_GROUPS = 12
#: What the table calls the group of everybody.
ALL_ROWS = "all rows"
_QUANTILES = ("q10", "q25", "q50", "q75", "q90")
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
    histograms = [
        _histogram(table) for _, table in contents.histograms.groupby("attribute", sort=False)
    ]
    bands = [_bands(table) for _, table in contents.bands.groupby("attribute", sort=False)]
    return render_page(
        "audit.html",
        scripts=("charts.js", "tables.js", "audit.js"),
        data={"histograms": histograms, "bands": bands, "threshold": contents.threshold},
        title=contents.title,
        contents=contents,
        glance=_glance(contents),
        sections=[
            _section(contents, attribute, histograms, bands) for attribute in contents.attributes
        ],
        rows=records(contents.rows),
        not_assessed=contents.not_assessed.to_dict("records"),
        percent=f"{100 * contents.level:g} %",
    )


def _glance(contents: AuditContents) -> list[dict[str, Any]]:
    """The number each attribute opens with, notion by notion; metrics of a kind share an axis."""
    found = []
    for notion in dict.fromkeys(f.notion for a in contents.attributes for f in a.findings):
        chosen = [
            _about(contents.rows, attribute.name, notion, attribute.headlines[notion])
            for attribute in contents.attributes
            if notion in attribute.headlines
        ]
        for metric in dict.fromkeys(row["metric"] for row in chosen):
            rows = [row for row in chosen if row["metric"] == metric]
            found.append({"notion": notion, "metric": metric, "rows": rows})
    return found


def _about(rows: pd.DataFrame, attribute: str, notion: str, metric: str) -> dict[str, Any]:
    wanted = (rows["attribute"] == attribute) & (rows["notion"] == notion)
    (row,) = records(rows[wanted & (rows["metric"] == metric) & (rows["group"] == ALL_ROWS)])
    return row


def _section(
    contents: AuditContents,
    attribute: AuditedAttribute,
    histograms: Sequence[dict[str, Any]],
    bands: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    rows = contents.rows[contents.rows["attribute"] == attribute.name]
    everybody = rows[rows["group"] == ALL_ROWS]
    strips = _place(histograms, attribute.name)
    histogram = None if strips is None else histograms[strips]
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
        "strips": strips,
        "histogram": histogram,
        "left_out": 0 if histogram is None else sum(not g["drawn"] for g in histogram["groups"]),
        "bands": _place(bands, attribute.name),
        "band_rows": records(contents.bands[contents.bands["attribute"] == attribute.name]),
        "groups": _groups(rows[rows["group"] != ALL_ROWS]),
    }


def _place(charts: Sequence[dict[str, Any]], attribute: str) -> int | None:
    return next((k for k, each in enumerate(charts) if each["attribute"] == attribute), None)


def _groups(rows: pd.DataFrame) -> dict[str, Any] | None:
    """Rates and means of every group, a metric a column; n is that of the whole group."""
    if rows.empty:
        return None
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
                "quantiles": rows[list(_QUANTILES)].iloc[0].tolist(),
                "drawn": name in drawn,
            }
            for name, rows in groups
        ],
    }


def _bands(table: pd.DataFrame) -> dict[str, Any]:
    return {
        "attribute": table["attribute"].iloc[0],
        "positions": table["position"].to_numpy(),
        "quantiles": table[list(_QUANTILES)].to_numpy(),
    }
