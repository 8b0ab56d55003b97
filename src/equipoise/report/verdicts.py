"""Verdicts as all pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.inference.verdict import Decisions, Verdict
from equipoise.metrics.by_group import FOUR_FIFTHS
from equipoise.metrics.sample import SMALL_GROUP
from equipoise.notions import Notion
from equipoise.words import percent

QUESTIONS = {
    Notion.INDEPENDENCE: "Do scores treat groups alike?",
    Notion.SEPARATION: "Do scores treat groups alike among people with the same outcome?",
}


def verdict_panels(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """The verdicts of each notion, as ``verdict_table`` of ``verdicts.html`` takes them."""
    return [
        _panel(notion, [verdict for verdict in verdicts if verdict.notion == notion])
        for notion in dict.fromkeys(verdict.notion for verdict in verdicts)
    ]


def _panel(notion: str, found: Sequence[Verdict]) -> dict[str, Any]:
    return {
        **_heading(notion),
        "measure": next((each.rates.measure for each in found if each.rates is not None), ""),
        "amount": "gap in points" if found[0].in_points else found[0].metric,
        "level": percent(found[0].estimate.level),
        "verdicts": found,
        "ratios": any(each.ratio is not None for each in found),
        "four_fifths": FOUR_FIFTHS,
    }


def side_by_side(verdicts: Sequence[Sequence[Verdict]]) -> list[dict[str, Any]]:
    """The verdicts on each of several models, as ``models_table`` of ``verdicts.html`` takes them.

    All models have verdicts on the same notions and attributes, in the same order.
    """
    rows = list(zip(*verdicts, strict=True))
    return [
        {
            **_heading(notion),
            "rows": [(row[0].attribute, row) for row in rows if row[0].notion == notion],
        }
        for notion in dict.fromkeys(row[0].notion for row in rows)
    ]


def _heading(notion: str) -> dict[str, Any]:
    return {"notion": notion, "question": QUESTIONS[Notion(notion)], "small": SMALL_GROUP}


def verb_of(verdicts: Sequence[Verdict]) -> str:
    """What happens to people with a positive decision, in the words of the verdicts."""
    said = (each.rates.decides for each in verdicts if each.rates is not None)
    return next(filter(None, said), Decisions().verb)
