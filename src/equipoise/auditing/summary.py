"""An audit in plain language: notion by notion, attribute by attribute, who is worst off."""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from equipoise.auditing.groups import told_apart
from equipoise.auditing.result import ALL_ROWS, MISSING, AuditRow
from equipoise.metrics.sample import SMALL_GROUP
from equipoise.notions import Notion
from equipoise.report.page import number

if TYPE_CHECKING:
    from equipoise.auditing.result import Audit


_WIDTH = 100
NOTIONS = {
    Notion.INDEPENDENCE: "Independence: scores should not depend on the attribute.",
    Notion.SEPARATION: "Separation: among people of equal outcome, scores should not depend on the "
    "attribute.",
}
#: The number an attribute's paragraph opens with.
HEADLINES = {Notion.INDEPENDENCE: "gap", Notion.SEPARATION: "gap given Y"}
_MOST_LISTED = 5
State = Literal["found", "unclear", "not found", "undefined"]


def summarize(audit: Audit) -> str:
    """Say what was found, wrapped to 100 columns."""
    blocks = [list(opening(audit))]
    blocks += [
        [NOTIONS[notion], *_findings(audit, notion)] for notion in map(Notion, audit.notions)
    ]
    blocks.append(list(remarks(audit)))
    return "\n\n".join("\n".join(map(_wrapped, block)) for block in blocks if block)


def _wrapped(line: str) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(
        line.strip(), _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  "
    )


def opening(audit: Audit) -> Iterator[str]:
    """What was audited and how well the scores do, a sentence a line."""
    yield f"Audit of {audit.n:,} scores by {', '.join(audit.attributes)}."
    yield f"Outcome y: {audit.outcome_words}."
    if audit.threshold is None:
        yield "Nothing is decided by a threshold; mean scores are compared."
    elif audit.threshold == sys.float_info.max:
        yield "Decision: never positive, as no threshold tells the outcomes apart (Youden's J)."
    else:
        rule = audit.settings.threshold
        chosen = "where Youden's J is largest" if isinstance(rule, str) else "as given"
        yield f"Decision: score > {audit.threshold:.4g}, {chosen}."
    yield f"A {audit.settings.favourable} score is taken as favourable."
    utility = [f"{row.metric} {sized(row)}" for row in audit.rows if not row.attribute]
    if utility:
        yield f"Utility: {', '.join(utility)}. Ranges in brackets are {_percent(audit)} intervals."


def _findings(audit: Audit, notion: Notion) -> Iterator[str]:
    about = [row for row in audit.rows if row.notion == notion and row.group == ALL_ROWS]
    for attribute, some in groupby(about, key=lambda row: row.attribute):
        rows = list(some)
        yield f"  {attribute}: {verdict(audit, rows, notion)}"
        yield from (f"    {line}" for line in group_findings(audit, attribute, notion))


def headline_of(rows: Sequence[AuditRow], notion: Notion) -> AuditRow:
    """The gap under a notion; rows: about all rows of one attribute."""
    return next(row for row in rows if row.metric == HEADLINES[notion])


def state_of(audit: Audit, row: AuditRow) -> State:
    """What a gap says, by the one rule that its interval and its p-value share."""
    if math.isnan(row.value):
        return "undefined"
    error = 1 - audit.settings.level
    if row.p_value > error:
        return "not found"
    return "found" if row.p_adjusted <= error else "unclear"


def p_in_words(shown: str) -> str:
    """A p-value in a sentence; at its floor it is an upper bound."""
    return f"p {shown}" if shown.startswith("<=") else f"p = {shown}"


def verdict(audit: Audit, rows: Sequence[AuditRow], notion: Notion) -> str:
    """Whether groups differ by more than chance, how much, where, and how sure that is."""
    row = headline_of(rows, notion)
    state = state_of(audit, row)
    if state == "undefined":
        return f"too few rows to say: {row.reason}."
    p = p_in_words(row.estimate.p_shown)
    adjusted = p_in_words(row.estimate.p_adjusted_shown)
    start = {
        "found": f"groups differ by more than chance explains ({adjusted}).",
        "unclear": f"groups differ by more than chance explains in this test alone ({p}), but not "
        f"when all tests of the audit are counted ({adjusted}).",
        "not found": f"no difference between groups beyond chance was found ({p}).",
    }[state]
    size = f"The {row.metric} is {sized(row)}"
    if not math.isnan(row.certificate):
        size += f", certified to be at most {number(row.certificate)}"
    place = "Largest beyond chance" if row.value > 0 else "Closest to its chance level"
    return f"{start} {size}. {place}: {row.where}."


def ranked_groups(
    audit: Audit, attribute: str, notion: Notion
) -> tuple[list[AuditRow], list[AuditRow]]:
    """Groups from the worst off to the best off, and all that are small, ranked or not."""
    metric, worst_is_lowest = _yardstick(audit, notion)
    rows = [r for r in audit.rows if (r.attribute, r.metric) == (attribute, metric)]
    rows = [r for r in rows if r.group not in (ALL_ROWS, MISSING) and not math.isnan(r.value)]
    large = [row for row in rows if row.n >= SMALL_GROUP]
    ranked = large if len(large) > 1 else rows
    ordered = sorted(ranked, key=lambda row: row.value, reverse=not worst_is_lowest)
    return ordered, [row for row in rows if row.n < SMALL_GROUP]


def group_findings(audit: Audit, attribute: str, notion: Notion) -> Iterator[str]:
    """Who is worst and best off, and whom too few rows keep out of that comparison."""
    ordered, small = ranked_groups(audit, attribute, notion)
    if len(ordered) < 2:
        return
    worst, best = ordered[0], ordered[-1]
    metric = worst.metric
    if worst.value == best.value:
        yield f"All groups have the same {metric}, {number(worst.value)}."
    else:
        certain = "" if told_apart(worst, best) else "; too few rows to be sure that the two differ"
        yield (
            f"Worst off: {worst.group}, with a {metric} of {sized(worst)}; best off: "
            f"{best.group}, with {sized(best)}{certain}."
        )
    if small:
        # Where fewer than two groups are large, all are ranked.
        apart = all(row.n >= SMALL_GROUP for row in ordered)
        known = "not ranked" if apart else "ranked all the same"
        listed = _listed([f"{row.group} ({row.n})" for row in small], "; ")
        yield f"Fewer than {SMALL_GROUP} rows, {known}: {listed}."


def _yardstick(audit: Audit, notion: Notion) -> tuple[str, bool]:
    """What groups are ranked by, and whether the lowest value is the worst."""
    high_is_good = audit.settings.favourable == "high"
    if notion is Notion.INDEPENDENCE:
        return ("mean score" if audit.threshold is None else "selection rate"), high_is_good
    if audit.outcome == "continuous":
        return "mean error", high_is_good
    # Who deserved the good decision and did not get it, or got a bad one undeserved.
    return ("true positive rate" if high_is_good else "false positive rate"), high_is_good


def remarks(audit: Audit) -> Iterator[str]:
    """What else a reader must know: gaps in the audit, and how far its numbers hold."""
    for row in audit.rows:
        if row.group == MISSING and row.metric == "mean score":
            yield (
                f"{row.n:,} rows have no {row.attribute}: they are left out of its numbers and "
                f"shown as a group, with a mean score of {number(row.value)}."
            )
    empty = [row for row in audit.rows if row.n == 0 and row.metric == "mean score"]
    if empty:
        listed = _listed([row.group for row in empty], "; ")
        yield f"No row has these combinations of {empty[0].attribute}: {listed}."
    for row in audit.rows:
        if row.group == ALL_ROWS and math.isnan(row.value):
            yield f"{row.metric} by {row.attribute} is undefined: {row.reason}."
    for attribute, some in groupby(audit.not_assessed, key=lambda row: row.attribute):
        reasons = list(some)
        if reasons[0].metric == "intersections":
            yield f"Intersections were not assessed: {reasons[0].reason}."
        else:
            names = _listed([row.metric for row in reasons], ", ")
            yield f"Not defined for {attribute} here: {names} (not_assessed has the reasons)."
    if "separation" not in audit.notions:
        why = "asked for" if audit.outcome is not None else "possible without y"
        yield f"Only independence was assessed; separation was not {why}."
    elif "independence" not in audit.notions:
        yield "Only separation was assessed; independence was not asked for."
    if audit.outcome == "multiclass":
        yield "y has several classes: positive= names one to get AUC, decisions and their rates."
    made = sum(not math.isnan(row.p_value) for row in audit.rows)
    if made:
        yield (
            f"{made} {'test was' if made == 1 else 'tests were'} made. p-values are adjusted for "
            "all attributes and notions (Holm), gaps, decision gaps and permutation tests each by "
            "themselves: the chance of one wrong finding among them is "
            f"{100 * (1 - audit.settings.level):.3g} %. Not finding a difference does not show "
            "that there is none."
        )
    if any(not math.isnan(row.certificate) for row in audit.rows):
        count = audit.settings.candidates
        among = f", except to pick the best of {count} candidates," if count > 1 else ""
        yield (
            f"Each certificate holds with {_percent(audit)} confidence if these rows were used "
            f"neither to train nor to choose the model{among} and stand for the people it will "
            "score."
        )


def sized(row: AuditRow, brackets: str = "()") -> str:
    """Value and interval, as far as there are any."""
    if math.isnan(row.value):
        return "undefined"
    interval = f" {brackets[0]}{number(row.low)} to {number(row.high)}{brackets[1]}"
    return number(row.value) + ("" if math.isnan(row.low) else interval)


def _percent(audit: Audit) -> str:
    return f"{100 * audit.settings.level:g} %"


def _listed(items: Sequence[str], separator: str) -> str:
    more = len(items) - _MOST_LISTED
    shown = separator.join(items[:_MOST_LISTED])
    return f"{shown} and {more} more" if more > 0 else shown
