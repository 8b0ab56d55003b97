"""What the page of an audit says: its tables, and its sentences sorted by attribute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

import pandas as pd

from equipoise.auditing.rows import ALL_ROWS, AuditRow, NotAssessed
from equipoise.auditing.summary import (
    group_findings,
    headline_of,
    opening,
    ranked_groups,
    remarks,
    verdict,
)
from equipoise.notions import Notion
from equipoise.report.audit_page import AuditContents, AuditedAttribute, Finding
from equipoise.report.page import listed, number

if TYPE_CHECKING:
    from equipoise.auditing.result import Audit


def contents_of(audit: Audit, versions: Mapping[str, str]) -> AuditContents:
    """Gather what `equipoise.report.audit_page.audit_page` shows."""
    title, *opened = opening(audit)
    return AuditContents(
        title=title.removesuffix("."),
        answer=tuple(answer(audit)),
        opening=tuple(opened),
        remarks=tuple(remarks(audit)),
        attributes=tuple(_attributes(audit)),
        rows=audit.to_frame(),
        not_assessed=pd.DataFrame(
            [asdict(row) for row in audit.not_assessed], columns=list(NotAssessed.__annotations__)
        ),
        histograms=audit.histograms,
        bands=audit.bands,
        threshold=audit.threshold,
        level=audit.settings.level,
        sensitive=audit.sensitive,
        settings=asdict(audit.settings),
        versions=versions,
    )


def answer(audit: Audit) -> Iterator[str]:
    """Two sentences: on what scores depend, how much and how sure that is, notion by notion.

    Intervals stand in square brackets. Where one notion was assessed, the second sentence says why
    the other was not.
    """
    for notion in map(Notion, audit.notions):
        yield _dependence(audit, notion)
    if len(audit.notions) == 1:
        yield next(line for line in remarks(audit) if line.startswith("Only "))


def _dependence(audit: Audit, notion: Notion) -> str:
    found, not_found, untested = [], [], []
    for attribute in audit.attributes:
        rows = [
            row
            for row in audit.rows
            if (row.notion, row.attribute, row.group) == (notion, attribute, ALL_ROWS)
        ]
        headline = headline_of(rows, notion)
        size = _size(headline)
        if math.isnan(headline.p_value):
            untested.append(f"{attribute} ({size})")
            continue
        size += f", p = {headline.p_value:.2g}"
        if headline.p_value <= 1 - audit.settings.level:
            found.append(f"{attribute} ({_range(audit, attribute, notion)}{size})")
        else:
            not_found.append(f"{attribute} ({size})")
    parts = []
    if found:
        parts.append(f"scores depend on {listed(found)}")
    if not_found:
        parts.append(f"no dependence on {listed(not_found, 'or')} was found")
    if untested:
        parts.append(f"whether they depend on {listed(untested, 'or')} could not be tested")
    sentence = "; ".join(parts) + "."
    if notion.conditions_on_outcome:
        return f"Among people of equal outcome, {sentence}"
    return _capital(sentence)


def _size(row: AuditRow) -> str:
    if math.isnan(row.value):
        return f"{row.metric} undefined"
    if math.isnan(row.low):
        return f"{row.metric} {number(row.value)}"
    return f"{row.metric} {number(row.value)} [{number(row.low)} to {number(row.high)}]"


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


def _attributes(audit: Audit) -> Iterator[AuditedAttribute]:
    about = [row for row in audit.rows if row.attribute and row.group == ALL_ROWS]
    for attribute, some in groupby(about, key=lambda row: row.attribute):
        rows = list(some)
        headlines, findings = {}, []
        for notion in map(Notion, audit.notions):
            under = [row for row in rows if row.notion == notion]
            if under:
                headlines[str(notion)] = headline_of(under, notion).metric
                sentences = [
                    _capital(verdict(audit, under, notion)),
                    *group_findings(audit, attribute, notion),
                ]
                findings.append(Finding(str(notion), tuple(sentences)))
        yield AuditedAttribute(attribute, headlines, tuple(findings))


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
