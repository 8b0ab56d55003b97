"""Tables as people read them: the numbers of a frame as text, the winner in bold.

The same layout goes into Markdown and into the HTML page; the numbers behind it, with all their
digits, go into a CSV of the same name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from equipoise.report.page import escaped
from experiments.paper.plan import NAMES, STAND_IN
from experiments.paper.results import SMALLEST
from experiments.paper.tables import DECIMALS, NOT_TO_BE_HAD, RUNS

NOT_RUN = "not run"
#: A metric compares shares of groups; a group without rows, or without decisions, has none.
NOT_DEFINED = "not defined on these rows"
#: How data sets are called in print.
DATA_NAMES = {
    "adult": "Adult",
    "credit": "Credit",
    "law": "Law",
    "crime": "Crime",
    NOT_TO_BE_HAD: "ACSEmployment",
    STAND_IN: "ACS stand-in (public coverage)",
}
SETTINGS_NAMES = {"paper": "the paper's settings", "equipoise": "our settings"}


@dataclass(frozen=True)
class Text:
    """One entry of a table."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Shown:
    """A table ready to be read; the first ``labels`` columns say what a row is about."""

    header: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    labels: int

    def markdown(self) -> str:
        """As lines of Markdown."""
        lines = [list(self.header), ["---"] * len(self.header)]
        lines += [[_marked(each) for each in row] for row in self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _each(table: pd.DataFrame) -> Iterator[Any]:
    """Rows by name of column, which types cannot know."""
    yield from table.itertuples()


def _marked(entry: Text) -> str:
    text = escaped(entry.text)
    return f"**{text}**" if entry.strong else text


def shown(header: Sequence[str], rows: Sequence[Sequence[str | Text]], labels: int) -> Shown:
    """Lay out rows of text."""
    entries = tuple(
        tuple(each if isinstance(each, Text) else Text(each) for each in row) for row in rows
    )
    return Shown(tuple(header), entries, labels)


def number(value: float, decimals: int = DECIMALS) -> str:
    """A value as the paper prints it.

    >>> number(0.0126), number(float("nan"))
    ('0.013', 'none')
    """
    return "none" if math.isnan(value) else f"{value:.{decimals}f}"


def signed(value: float) -> str:
    """A difference as it is printed, with its sign.

    >>> signed(-0.0004), signed(0.0126)
    ('+0.000', '+0.013')
    """
    return f"{round(value, DECIMALS) + 0.0:+.{DECIMALS}f}"


def method_name(method: str) -> str:
    """How a method is called in print."""
    return NAMES.get(method, method)


def threshold_text(scenario: str, threshold: float) -> str:
    """Which models count.

    >>> threshold_text("I", 0.8), threshold_text("III", 0.12)
    ('AUC ≥ 0.80', 'MAE ≤ 0.12')
    """
    sign = "MAE ≤" if scenario == "III" else "AUC ≥"
    return f"{sign} {threshold:.2f}"


def place_texts(row: Any) -> list[str]:
    """Data set with threshold, metric, attribute of a row that has them."""
    data = f"{DATA_NAMES[row.dataset]}, {threshold_text(row.scenario, row.threshold)}"
    return [data, row.metric, row.attribute]


def compared(rows: pd.DataFrame) -> Shown:
    """A table of the paper: its numbers, ours under its protocol, and ours on test rows.

    Parameters
    ----------
    rows : DataFrame
        Rows of one table, from `table_rows` or `stand_in_rows`.
    """
    with_published = bool(rows["published"].notna().any())
    header = ["data", "metric", "attribute", "method"]
    header += ["paper"] if with_published else []
    header += ["ours, paper's settings", "ours, our settings"]
    header += ["test rows, paper's settings", "test rows, our settings"]
    lines: list[list[str | Text]] = []
    for row in _each(rows):
        line: list[str | Text] = [*place_texts(row), method_name(str(row.method))]
        if with_published:
            line.append(_published(row))
        line += [_entry(row, name) for name in RUNS]
        lines.append(line)
    return shown(header, lines, labels=4)


def _published(row: Any) -> Text:
    mean = "≈ 0" if row.published_about_zero else number(row.published)
    return Text(f"{mean} ({number(row.published_std)})", bool(row.published_wins))


def _entry(row: Any, name: str) -> Text:
    """Mean and deviation, or mean and interval; and what it rests on where that is too little."""
    if row.dataset == NOT_TO_BE_HAD:
        return Text("data not to be had" if name == "ours" else "")
    if not getattr(row, f"{name}_run"):
        # Rivals are trained with our settings under the honest protocol only.
        return Text("" if name == "library" and row.method != "sbp" else NOT_RUN)
    if not getattr(row, f"{name}_defined"):
        return Text(NOT_DEFINED)
    wins = bool(getattr(row, f"{name}_wins"))
    mean = number(getattr(row, name))
    if RUNS[name]["protocol"] == "paper":
        count = getattr(row, f"{name}_count")
        if count == 0:
            return Text("threshold not reached")
        few = f", {count} of {SMALLEST} values" if count < SMALLEST else ""
        return Text(f"{mean} ({number(getattr(row, f'{name}_std'))}){few}", wins)
    splits, of = getattr(row, f"{name}_splits"), getattr(row, f"{name}_of")
    if splits == 0:
        return Text("threshold not reached")
    interval = f"{number(getattr(row, f'{name}_low'))}–{number(getattr(row, f'{name}_high'))}"
    few = f", {splits} of {of} splits" if splits < of else ""
    return Text(f"{mean} ({interval}){few}", wins)


def board_table(board: pd.DataFrame) -> Shown:
    """The scoreboard; bold where our value is at most the published one."""
    lines: list[list[str | Text]] = []
    for row in _each(board):
        line: list[str | Text] = [str(row.table).removeprefix("table"), *place_texts(row)]
        line += [f"{number(row.published)} ({row.published_by})"]
        for name in ("ours", "library"):
            holds = getattr(row, f"{name}_holds")
            line.append(_held(holds, getattr(row, name), int(getattr(row, f"{name}_count"))))
        lines.append(line)
    header = ["table", "data", "metric", "attribute", "paper's best (method)"]
    header += ["our SBP, paper's settings", "our SBP, our settings"]
    return shown(header, lines, labels=4)


def _held(holds: Any, value: Any, count: int) -> Text:
    if pd.isna(holds):
        return Text(NOT_RUN)
    if count == 0:
        return Text("no value")
    few = f", {count} of {SMALLEST} values" if count < SMALLEST else ""
    return Text(f"{number(float(value))} {'yes' if holds else 'no'}{few}", bool(holds))


def area_table(against: pd.DataFrame) -> Shown:
    """Our default beside the best rival, and beside our penalty with the paper's settings."""
    lines: list[list[str | Text]] = []
    for row in _each(against):
        rival = f"{number(row.rival_mean)} ({method_name(row.rival)}, "
        rival += f"{SETTINGS_NAMES[row.rival_settings]})"
        line: list[str | Text] = [row.scenario, DATA_NAMES[row.dataset], row.metric, row.attribute]
        line += [Text(number(row.default), bool(row.larger)), Text(rival, not row.larger)]
        line += [f"{row.splits_larger} of {row.splits}"]
        line += [NOT_RUN if math.isnan(row.as_in_paper) else number(row.as_in_paper)]
        lines.append(line)
    header = ["scenario", "data", "metric", "attribute", "SBP, our settings", "best rival"]
    return shown([*header, "splits in which SBP has more", "SBP, paper's settings"], lines, 4)


def deviation_table(table: pd.DataFrame) -> Shown:
    """Each method as written and as released; bold is the one nearer to the paper's number."""
    lines: list[list[str | Text]] = []
    for row in _each(table):
        line: list[str | Text] = [method_name(str(row.method)), *place_texts(row)]
        line += [number(row.published)]
        line += [
            Text(number(getattr(row, each)), bool(row.nearer == each))
            for each in ("written", "released")
        ]
        lines.append(line)
    header = ["method", "data", "metric", "attribute", "paper", "as written", "as released"]
    return shown(header, lines, labels=4)


def change_table(table: pd.DataFrame) -> Shown:
    """The deviations, counted."""
    lines = [
        [
            method_name(str(row.method)),
            str(row.places),
            str(row.smaller_as_released),
            str(row.larger_as_released),
            signed(row.median_change),
            f"{row.written_nearer}, {number(row.written_distance)} away",
            f"{row.released_nearer}, {number(row.released_distance)} away",
        ]
        for row in _each(table)
    ]
    header = ["method", "places", "smaller as released", "larger as released", "median change"]
    header += ["as written is nearer to the paper (mean distance)", "as released is nearer"]
    return shown(header, lines, labels=1)


def time_table(times: pd.DataFrame) -> Shown:
    """Tables 4 and 6: minutes of 1000 iterations."""
    lines = []
    for row in _each(times):
        mine = f"{row.minutes:.4f}" + ("" if math.isnan(row.std) else f" ({row.std:.4f})")
        theirs = f"{row.paper_minutes:.2f} ({row.paper_std:.2f})"
        paper = "" if math.isnan(row.paper_minutes) else theirs
        table = str(row.table).removeprefix("table")
        about = [table, str(row.scenario), method_name(str(row.method)), str(row.members)]
        lines.append([*about, str(row.pretraining), mine, paper])
    header = ["table", "scenario", "method", "members", "pre-training", "ours, minutes"]
    return shown([*header, "paper, minutes (one member, A30)"], lines, labels=5)


def toy_table(toy: pd.DataFrame) -> Shown:
    """Table 5: the density ratio of the toy."""
    lines = [
        [
            str(row.cell),
            number(row.true, 4),
            *(
                f"{number(getattr(row, each), 4)} ({number(getattr(row, f'{each}_std'), 4)})"
                for each in ("paper", "network", "counts")
            ),
        ]
        for row in _each(toy)
    ]
    return shown(["ratio", "true", "paper", "our network", "our counts"], lines, labels=1)


def settings_trial_table(tried: pd.DataFrame) -> Shown:
    """SBP with other settings: areas on test rows, and places of the paper that hold."""
    lines = [
        [
            SETTINGS_NAMES[str(row.settings)],
            "" if pd.isna(row.changed) else str(row.changed),
            str(row.iterations),
            "" if pd.isna(row.area) else number(row.area),
            "" if pd.isna(row.holds) else f"{row.holds:g} of {row.places:g}",
        ]
        for row in _each(tried)
    ]
    header = ["settings", "changed", "iterations", "area, test rows", "places that hold"]
    return shown(header, lines, labels=3)


def rival_trial_table(tried: pd.DataFrame) -> Shown:
    """Rivals with this library's defaults beside SBP with them."""
    lines: list[list[str | Text]] = [
        [
            method_name(str(row.method)),
            f"{row.sbp_has_more} of {row.trade_offs}",
            Text(number(row.sbp), row.sbp > row.rival),
            Text(number(row.rival), row.rival > row.sbp),
        ]
        for row in _each(tried)
    ]
    header = ["rival", "SBP has more in", "SBP, mean area", "rival, mean area"]
    return shown(header, lines, labels=1)
