"""An audit in plain language: verdicts first, then what to do, then what they rest on."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from equipoise.auditing.result import ALL_ROWS, MISSING, AuditRow
from equipoise.inference import Estimate
from equipoise.inference.verdict import (
    Rates,
    State,
    Verdict,
    Yardstick,
    limits_of,
    rows_needed_in_words,
    told_apart,
)
from equipoise.metrics.sample import SMALL_GROUP
from equipoise.notions import Notion
from equipoise.words import listed, number, percent

if TYPE_CHECKING:
    from equipoise.auditing.result import Audit


NOTIONS = {
    Notion.INDEPENDENCE: "Independence: scores should not depend on the attribute.",
    Notion.SEPARATION: "Separation: among people of equal outcome, scores should not depend on the "
    "attribute.",
}
#: The number that a verdict is about.
HEADLINES = {Notion.INDEPENDENCE: "gap", Notion.SEPARATION: "gap given Y"}
_MOST_LISTED = 5
Evidence = Literal["found", "unclear", "not found", "undefined"]


def summarize(audit: Audit) -> str:
    """Say what was found, one sentence or verdict a line."""
    blocks = [[title(audit)]]
    for notion in map(Notion, audit.notions):
        blocks.append([NOTIONS[notion], *_findings(audit, notion)])
    steps = list(next_steps(audit))
    if steps:
        blocks.append(["Next:", *(f"  {line}" for step in steps for line in step.split("\n"))])
    blocks += [list(opening(audit)), list(remarks(audit))]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def title(audit: Audit) -> str:
    """What was audited."""
    return f"Audit of {audit.n:,} scores by {', '.join(audit.attributes)}"


def opening(audit: Audit) -> Iterator[str]:
    """What the verdicts rest on, a sentence a line."""
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
        level = percent(audit.settings.level)
        yield f"Utility: {', '.join(utility)}. Ranges in brackets are {level} intervals."


def verdicts_of(audit: Audit) -> tuple[Verdict, ...]:
    """A verdict for each notion and attribute that has a limit, crossed attributes last."""
    names = [*audit.attributes, *([audit.crossed] if audit.crossed else [])]
    limits = limits_of("max_gap", audit.settings.max_gap, names)
    found = []
    for notion in map(Notion, audit.notions):
        for attribute, limit in limits.items():
            row = headline_of(audit, attribute, notion)
            if row is not None:
                ratio = _ratio(audit, attribute) if notion is Notion.INDEPENDENCE else None
                rates = _rates(audit, attribute, notion)
                found.append(
                    Verdict(str(notion), attribute, row.metric, limit, row.estimate, rates, ratio)
                )
    return tuple(found)


def headline_of(audit: Audit, attribute: str, notion: Notion) -> AuditRow | None:
    """The gap of an attribute under a notion; None where it was not assessed."""
    wanted = (attribute, ALL_ROWS, HEADLINES[notion])
    return next((r for r in audit.rows if (r.attribute, r.group, r.metric) == wanted), None)


def _rates(audit: Audit, attribute: str, notion: Notion) -> Rates | None:
    """How the worst and the best group fare."""
    rows = _group_rows(audit, attribute, notion)
    names = [group_in_words(audit, attribute, row.group) for row in rows]
    return _yardstick(audit, notion).rates(names, [row.estimate for row in rows])


def _ratio(audit: Audit, attribute: str) -> Estimate | None:
    found = (r for r in audit.rows if r.attribute == attribute)
    return next((row.estimate for row in found if row.metric == "selection rate ratio"), None)


def group_in_words(audit: Audit, attribute: str, group: str) -> str:
    """A group by its attribute: "sex = F", "age 17 to 22", "sex = F, race = Black"."""
    if attribute in set(audit.bands["attribute"]):
        return f"{attribute} {group}"
    names, levels = attribute.split(" x "), group.split(", ")
    if len(names) != len(levels):
        return f"{attribute} = {group}"
    return ", ".join(f"{name} = {level}" for name, level in zip(names, levels, strict=True))


def _findings(audit: Audit, notion: Notion) -> Iterator[str]:
    yield from (f"  {each}" for each in audit.verdicts if each.notion == notion)


def next_steps(audit: Audit) -> Iterator[str]:
    """What to do about the verdicts, one step for each of them that occurs."""
    by_state: dict[State, list[Verdict]] = {}
    for each in audit.verdicts:
        by_state.setdefault(each.state, []).append(each)
    if beyond := by_state.get(State.BEYOND):
        about = _named(beyond)
        yield f"Not within the limit ({about}): train a model within it.\n{audit.remedy}"
    uncertain = by_state.get(State.WITHIN, []) + by_state.get(State.UNKNOWN, [])
    if uncertain:
        yield (
            f"Not certain ({_named(uncertain)}): audit {rows_needed_in_words(uncertain)} of the "
            f"same population, or larger groups.\n{audit.repeat}"
        )
    if by_state and not (beyond or uncertain):
        yield "Keep this audit with the model. Repeat it when the model or the people change."


def _named(some: Sequence[Verdict]) -> str:
    return listed(list(dict.fromkeys(each.attribute for each in some)))


def evidence(audit: Audit, row: AuditRow) -> Evidence:
    """What a gap says about chance, by the one rule that its interval and its p-value share."""
    if math.isnan(row.value):
        return "undefined"
    error = 1 - audit.settings.level
    if row.p_value > error:
        return "not found"
    return "found" if row.p_adjusted <= error else "unclear"


def evidence_in_words(audit: Audit, row: AuditRow) -> str:
    """Whether groups differ by more than chance, and how sure that is."""
    p, adjusted = map(_p_in_words, (row.estimate.p_shown, row.estimate.p_adjusted_shown))
    certified = ""
    if not math.isnan(row.certificate):
        certified = f", certified to be at most {number(row.certificate)}"
    size = f"The {row.metric} is {sized(row)}{certified}."
    return {
        "undefined": f"Too few rows to say: {row.reason}.",
        "found": f"Groups differ by more than chance explains ({adjusted}). {size}",
        "unclear": f"Groups differ by more than chance explains in this test alone ({p}), but not "
        f"when all tests of the audit are counted ({adjusted}). {size}",
        "not found": f"No difference between groups beyond chance was found ({p}). {size}",
    }[evidence(audit, row)]


def _p_in_words(shown: str) -> str:
    """A p-value in a sentence; at its floor it is an upper bound."""
    return f"p {shown}" if shown.startswith("<=") else f"p = {shown}"


def ranked_groups(
    audit: Audit, attribute: str, notion: Notion
) -> tuple[list[AuditRow], list[AuditRow]]:
    """Groups from the worst off to the best off, and all that are small, ranked or not."""
    rows = _group_rows(audit, attribute, notion)
    order = _yardstick(audit, notion).ranked([row.estimate for row in rows])
    small = [row for row in rows if row.n < SMALL_GROUP and not math.isnan(row.value)]
    return [rows[place] for place in order], small


def _group_rows(audit: Audit, attribute: str, notion: Notion) -> list[AuditRow]:
    """The number that groups are ranked by, one row a group."""
    wanted = (attribute, _yardstick(audit, notion).measure)
    rows = [row for row in audit.rows if (row.attribute, row.metric) == wanted]
    return [row for row in rows if row.group not in (ALL_ROWS, MISSING)]


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
        certain = (
            ""
            if told_apart(worst.estimate, best.estimate)
            else "; too few rows to be sure that the two differ"
        )
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


def _yardstick(audit: Audit, notion: Notion) -> Yardstick:
    decided = audit.threshold is not None
    return Yardstick.of(notion, audit.outcome, audit.settings.decisions, decided=decided)


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
            f"Each certificate holds with {percent(audit.settings.level)} confidence if these rows "
            f"were used neither to train nor to choose the model{among} and stand for the people "
            "it will score."
        )


def sized(row: AuditRow, brackets: str = "()") -> str:
    """Value and interval, as far as there are any."""
    if math.isnan(row.value):
        return "undefined"
    interval = f" {brackets[0]}{number(row.low)} to {number(row.high)}{brackets[1]}"
    return number(row.value) + ("" if math.isnan(row.low) else interval)


def _listed(items: Sequence[str], separator: str) -> str:
    more = len(items) - _MOST_LISTED
    shown = separator.join(items[:_MOST_LISTED])
    return f"{shown} and {more} more" if more > 0 else shown
