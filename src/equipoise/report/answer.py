"""The answer at the top of a page: two sentences in plain language, with their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from equipoise.frontier.selection import Selection, SelectionRow


@dataclass(frozen=True)
class Answer:
    """What a reader should know first.

    Attributes
    ----------
    sentences : tuple of Markup
        How useful the model is, and how unfair: HTML in which what users named is escaped.
    basis : str
        What the numbers rest on.
    """

    sentences: tuple[Markup, Markup]
    basis: str


def answer(
    selection: Selection,
    most_useful: Sequence[SelectionRow] | None,
    *,
    target: str,
    labels: Sequence[str],
    meaning: str,
) -> Answer:
    """Say how the selected model does, beside the most useful one of its frontier.

    Parameters
    ----------
    selection : Selection
    most_useful : sequence of SelectionRow, or None
        Of the snapshot with the best utility, whatever its unfairness; None where that is the
        selected one.
    target : str
        Name of the outcome; may be empty.
    labels : sequence of str
        Of the classes, () for a continuous outcome.
    meaning : str
        Of the metric, in words.
    """
    return Answer(
        (
            _useful(selection, most_useful, target, labels),
            _unfair(selection, most_useful),
        ),
        _basis(selection, meaning),
    )


def _useful(
    selection: Selection,
    most_useful: Sequence[SelectionRow] | None,
    target: str,
    labels: Sequence[str],
) -> Markup:
    row = selection.rows[0]
    share = _percent(_value(row, selection))
    sure = ""
    if not math.isnan(row.low):
        level = _percent(selection.level)
        sure = f" ({level} interval {_percent(row.low)} to {_percent(row.high)})"
    also = "; no model of this run does better"
    if most_useful is not None:
        best = _percent(_value(most_useful[0], selection))
        also = f"; the most useful model of this run reaches {best}"
    if row.metric == "R2":
        text = Markup("The selected model explains <strong>{}</strong> of the variation of {}{}{}.")
        return text.format(share, target or "the outcome", sure, also)
    if row.metric == "macro AUC":
        text = Markup(
            "Given one case of a class and one of another, the selected model finds the former "
            "likelier to be of that class <strong>{}</strong> of the time, averaged over the {} "
            "classes{}{}."
        )
        return text.format(share, len(labels), sure, also)
    case = f"with {target} = {labels[1]}" if target else f"of class {labels[1]}"
    text = Markup(
        "Given one case {} and one without, the selected model gives the former the higher score "
        "<strong>{}</strong> of the time{}{}."
    )
    return text.format(case, share, sure, also)


def _unfair(selection: Selection, most_useful: Sequence[SelectionRow] | None) -> Markup:
    counted = {
        place: row
        for place, row in enumerate(selection.rows)
        if row.metric == selection.metric and row.attribute in selection.attributes
    }
    undefined = [row for row in counted.values() if math.isnan(_value(row, selection))]
    if undefined:
        text = Markup("Its unfairness for {} is not defined: {}.")
        return text.format(undefined[0].attribute, undefined[0].note)
    place, row = max(counted.items(), key=lambda pair: _value(pair[1], selection))
    head = f"Its unfairness is largest for {row.attribute}:"
    if len(counted) == 1:
        head = f"Its unfairness for {row.attribute} is"
    level = _percent(selection.level)
    sure = [] if math.isnan(row.low) else [f"{level} interval {row.low:.3f} to {row.high:.3f}"]
    if not math.isnan(row.certificate):
        sure.append(f"with {level} confidence at most {row.certificate:.3f}")
    how_sure = f" ({'; '.join(sure)})" if sure else ""
    also = ""
    if most_useful is not None:
        also = f"; for the most useful model it is {_value(most_useful[place], selection):.3f}"
    text = Markup("{} <strong>{:.3f}</strong>{} on a scale where 0 is no difference at all{}{}.")
    limit = _limit(selection, list(counted.values()), row)
    return text.format(head, _value(row, selection), limit, how_sure, also)


def _limit(selection: Selection, counted: Sequence[SelectionRow], largest: SelectionRow) -> str:
    """Say whether the limits on unfairness were kept."""
    limited = [row for row in counted if not math.isnan(row.limit)]
    if not limited:
        return ""
    kept = all(_value(row, selection) <= row.limit for row in limited)
    if len({row.limit for row in limited}) == 1 and largest in limited:
        return f", {'within' if kept else 'above'} the limit of {largest.limit:g} that was set,"
    return f" (it {'keeps' if kept else 'does not keep'} the limits that were set)"


def _value(row: SelectionRow, selection: Selection) -> float:
    """Value on the test rows, or on the validation rows where there are no others."""
    return row.test if selection.test_rows else row.validation


def _basis(selection: Selection, meaning: str) -> str:
    unfairness = f"Unfairness is {selection.metric}: {meaning[0].lower()}{meaning[1:]}"
    if selection.test_rows == 0:
        return (
            f"There are no test rows in this run's file, so these are values on the "
            f"{selection.validation_rows:,} validation rows that picked the model: they flatter "
            f"the best of many, and nothing says how sure they are. {unfairness}"
        )
    return (
        f"Measured on {selection.test_rows:,} test rows that took part neither in training nor "
        f"in choosing. {unfairness}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g}\N{NO-BREAK SPACE}%"
