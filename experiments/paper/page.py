"""The page on the reproduction: tables, figures, and text that a program writes from the numbers.

docs/reproduction.md has each section between marks (such as ``<!-- scoreboard -->`` and
``<!-- end -->``); what stands outside of them is written by hand. A run of anybody's gets a page of
its own with the same sections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.page import filled
from equipoise.report.page import escaped
from equipoise.storage import write_atomically
from experiments import RESULTS as RESULTS_FOLDER
from experiments import ROOT
from experiments.paper import layout
from experiments.paper.figures import AREAS, caption, drawable, write_figure
from experiments.paper.layout import (
    DATA_NAMES,
    method_name,
    number,
    signed,
    threshold_text,
)
from experiments.paper.plan import FIGURES, TABLES, Cell, cells_of
from experiments.paper.results import LEAST_UTILITY, MOST_UNFAIRNESS
from experiments.paper.tables import (
    NEAR,
    NOT_TO_BE_HAD,
    PLACES,
    SETTINGS,
    Contents,
    compared_under_both,
    counts,
    larger_than_tried,
    read_contents,
    rivals_tried,
    same_winners,
    settings_tried,
)

#: Where results are kept for good, the page, and the folder of its figures beside it.
RESULTS, PAGE = RESULTS_FOLDER / "paper", ROOT / "docs" / "reproduction.md"
FIGURES_FOLDER = "figures/reproduction"
TITLE = "Fair supervised learning with a simple random sampler: the paper's experiments again"


#: What a quick run is called wherever it is shown.
QUICK = "quick run: fewer iterations, strengths, splits and rows; shows the shape, not the numbers"
#: Cells that are missing are named if they are so few; a run of one table lacks most of them.
_FEW = 12
#: What each table is about.
TITLES = {
    "table2": "Scenario I, independence",
    "table3": "Scenario II, separation",
    "table7": "Scenario I, independence, other thresholds",
    "table8": "Scenario I, separation",
    "table9": "Scenario I, separation, other thresholds",
    "table10": "Scenario II, independence",
    "table11": "Scenario II, separation, other thresholds",
    "table12": "Scenario III, regression",
}
#: How to read the tables of the paper beside ours.
GUIDE = (
    "Smaller is fairer. Paper, and ours under its protocol: mean (deviation) of the five smallest "
    "values, on the rows that also picked them. Test rows: mean over the splits (with the means of "
    "the ends of their 95 % bootstrap intervals) of models picked on other rows. Bold: no method "
    "in that place has less in that column, to three decimals. Nothing is bold where a method was "
    "not run, nor an entry that rests on fewer values, or splits, than it should."
)


def write_document() -> None:
    """Fill docs/reproduction.md from the results that are kept, and draw its figures."""
    contents = read_contents(RESULTS)
    text = filled(PAGE.read_text("utf-8"), blocks(contents))
    for name in drawable(contents):
        write_figure(name, contents, PAGE.parent / FIGURES_FOLDER)
    write_atomically(PAGE, text.encode())


def write_page(contents: Contents, folder: Path) -> Path:
    """Write ``tables/*.csv``, ``figures/*.png`` and ``page.md`` with all of them; return the last.

    What is not run is called so; tables of which nothing is run are left out.
    """
    for name in drawable(contents):
        write_figure(name, contents, folder / "figures")
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    for name, frame in contents.frames().items():
        write_atomically(folder / "tables" / f"{name}.csv", frame.to_csv(index=False).encode())
    parts = [f"# {TITLE}", _score(contents)]
    for section in sections(contents):
        parts += [f"## {section.title}", _markdown(section, "figures")]
    page = folder / "page.md"
    write_atomically(page, ("\n\n".join(parts) + "\n").encode())
    return page


def blocks(contents: Contents) -> dict[str, str]:
    """Markdown by the name of its mark."""
    found = [
        settings(contents),
        scoreboard(contents),
        agreement(contents),
        trade_offs(contents),
        protocols(contents),
        *(table(contents, name) for name in TABLES),
        figures(contents),
        deviations(contents),
        times(contents),
        toy(contents),
        trials(contents),
    ]
    texts = {section.name: _markdown(section, FIGURES_FOLDER) for section in found}
    return {"score": _score(contents)} | texts


def _score(contents: Contents) -> str:
    quick = [QUICK.capitalize() + "."] if contents.quick else []
    return _paragraphs([*quick, *say_score(contents)])


@dataclass(frozen=True)
class Part:
    """A table with its caption; ``long`` ones are folded away until somebody asks for them."""

    caption: str
    table: layout.Shown
    long: bool = False


@dataclass(frozen=True)
class Section:
    """A heading's worth of page: ``before`` stands above the tables, ``after`` below them."""

    name: str
    title: str
    before: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    after: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()


def _markdown(section: Section, folder: str) -> str:
    parts = [_paragraphs(section.before)]
    for part in section.parts:
        table = part.table.markdown()
        if part.long:
            summary = f"<details>\n<summary>{escaped(part.caption)}</summary>"
            parts.append(f"{summary}\n\n{table}\n\n</details>")
        else:
            parts.append(f"{escaped(part.caption)}:\n\n{table}")
    parts += [f"![{caption(name)}]({folder}/{name}.png)" for name in section.figures]
    many = len(section.after) > 1
    after = [f"- {escaped(each)}" for each in section.after]
    parts.append("\n".join(after) if many else _paragraphs(section.after))
    return "\n\n".join(part for part in parts if part)


def _paragraphs(texts: Sequence[str]) -> str:
    return "\n\n".join(escaped(text) for text in texts)


def sections(contents: Contents) -> list[Section]:
    """Every section in the order of a page."""
    shown = [name for name in TABLES if has_runs(contents, name)]
    missing = [name.removeprefix("table") for name in TABLES if name not in shown]
    note = f"Tables of which nothing has been run: {', '.join(missing)}."
    found = [scoreboard(contents), agreement(contents), trade_offs(contents), protocols(contents)]
    found += [table(contents, name) for name in shown]
    found += [Section("not-run", "Tables that are not run", (note,))] if missing else []
    return [
        *found,
        figures(contents),
        deviations(contents),
        times(contents),
        toy(contents),
        *([] if contents.trials is None else [trials(contents)]),
        settings(contents),
    ]


def scoreboard(contents: Contents) -> Section:
    """Where our penalty is as good as the paper's best."""
    about = (
        "The paper's best entry is that of whichever method has least in a place (data set, "
        "attribute, metric, threshold). Ours holds if the mean of its five smallest values, under "
        "the paper's protocol and rounded as the paper rounds, is at most that. Two things help "
        "our settings beyond the method: a full run has more strengths than the paper's, and the "
        "smallest of more values is smaller; and they were chosen among trials by this very count, "
        "on the same rows."
    )
    board = layout.board_table(contents.board)
    part = Part("Our SBP beside the best of any method in the paper", board)
    return Section("scoreboard", "Scoreboard", (about, *say_missed(contents)), (part,))


def agreement(contents: Contents) -> Section:
    """How near our numbers are to the paper's when everything is done as there."""
    first, *more = say_agreement(contents)
    heading = "The paper's settings again"
    return Section("agreement", heading, (first,), after=tuple(more))


def trade_offs(contents: Contents) -> Section:
    """Areas on test rows."""
    about = (
        f"One number for a whole curve: the share of the rectangle between a useless score (AUC "
        f"{LEAST_UTILITY['AUC']:g}, R² {LEAST_UTILITY['R2']:g}) with an unfairness of "
        f"{MOST_UNFAIRNESS:g} and a perfect one that the models of a method reach. The front is "
        "found on validation rows, the area is that of its points on test rows; mean over the "
        "splits. Our settings were chosen with such areas of trials in view, on the same test "
        "rows, while most rivals have the paper's, which nobody chose for them."
    )
    if contents.against.empty:
        return Section("areas", "Whole curves on test rows", (about, *say_areas(contents)))
    table = layout.area_table(contents.against)
    part = Part("Bold: SBP with our settings, or the rival, has more", table)
    before = (about, *say_areas(contents))
    title = "Whole curves on test rows"
    return Section("areas", title, before, (part,), figures=(AREAS,))


def protocols(contents: Contents) -> Section:
    """How the two protocols differ, over all tables."""
    about = (
        "The paper picks models and reports them on the same fifth of the rows. We do that too, "
        "for the side-by-side columns; and beside it 60 % of the rows train, 20 % pick and 20 % "
        "report."
    )
    found = say_all_disagreements(contents)
    return Section("protocols", "Two protocols", (about, GUIDE, *found))


def table(contents: Contents, name: str) -> Section:
    """One table of the paper under both protocols."""
    rows = contents.of_table(name)
    shown = layout.compared(rows)
    caption = "Bold is the smallest of its place"
    parts = [Part(caption, shown)]
    before = say_winners(contents, name)
    own = contents.of_stand_in(name)
    if (rows["dataset"] == NOT_TO_BE_HAD).any():
        before.append(
            "The data of the ACSEmployment columns is not to be had here; a stand-in from the same "
            "survey, of other persons, has a table of its own and compares with nothing in "
            "the paper."
        )
        alone = "The stand-in alone, with the thresholds of ACSEmployment"
        parts.append(Part(alone, layout.compared(own)))
    after = tuple(say_disagreement(contents, name))
    return Section(name, title(name), tuple(before), tuple(parts), after)


def figures(contents: Contents) -> Section:
    """The paper's figures, those of which something has been run."""
    about = (
        "Each point is a model on the front of its own run (a strength with a split), on the "
        "validation rows, with the paper's settings: unfairness to the right, utility upwards, so "
        "that the upper left is better (the lower left where utility is an error)."
    )
    drawn = drawable(contents)
    missing = [name for name in FIGURES if name not in drawn]
    after = (f"Not run: {', '.join(missing)}.",) if missing else ()
    own = tuple(name for name in drawn if name != AREAS)
    return Section("figures", "Figures", (about,), after=after, figures=own)


def deviations(contents: Contents) -> Section:
    """What the released program does otherwise than the text."""
    about = (
        "The released program departs from the text: HGR gets the product A·Y where the text has "
        "the joint variable, NEU mixes pairs whose A may be the same, CON adds a covariance term, "
        "and SBP leaves its weights out (β = 1). Each was run both ways with the paper's settings, "
        "in the places that are counted here. In the tables above CON has its covariance term, and "
        "the others are as written."
    )
    before = (about, *say_deviations(contents))
    if contents.deviations.empty:
        return Section("deviations", "Deviations of the released program", before)
    counted = Part("Counted", layout.change_table(contents.changes))
    caption = "Place by place; bold is the one nearer to the paper's number"
    each = Part(caption, layout.deviation_table(contents.deviations), long=True)
    return Section("deviations", "Deviations of the released program", before, (counted, each))


def times(contents: Contents) -> Section:
    """Tables 4 and 6."""
    heading = "Tables 4 and 6. Training times"
    if contents.times is None:
        return Section("times", heading, (layout.NOT_RUN.capitalize() + ".",))
    about = (
        f"Minutes of {contents.times['iterations'].iloc[0]} iterations on Adult; the paper's are "
        "of 1000, with one member on an A30. Ours: "
        f"{'; '.join(contents.times['device'].unique())}. Members are models trained together; "
        "pre-training is what a method does before its first step."
    )
    part = Part("Minutes (deviation)", layout.time_table(contents.times))
    return Section("times", heading, (about,), (part,))


def toy(contents: Contents) -> Section:
    """Table 5."""
    heading = "Table 5. The density ratio where it is known"
    if contents.toy is None:
        return Section("toy", heading, (layout.NOT_RUN.capitalize() + ".",))
    about = (
        "The weights of separation, p(y|a)/p(y), in the paper's toy: estimated by a network as "
        "there, and by counting, which is what we do where A and Y are discrete."
    )
    part = Part("Mean (deviation) over the replications", layout.toy_table(contents.toy))
    return Section("toy", heading, (about,), (part,))


def trials(contents: Contents) -> Section:
    """Other settings, and rivals with ours."""
    heading = "Trials of settings"
    if contents.trials is None:
        return Section("trials", heading, (layout.NOT_RUN.capitalize() + ".",))
    about = (
        "Trials on the way to the runs above, of which only these numbers were kept: SBP with "
        "other settings (area: mean over the trade-offs that all have; places: the mean of the "
        "five smallest is at most the paper's best entry), and rivals with our defaults on "
        f"the same splits. Device: {'; '.join(contents.trials['device'].unique())}; Crime had a "
        "quarter of the iterations, but at least 1000."
    )
    tried, rivals = settings_tried(contents.trials), rivals_tried(contents.trials)
    parts = (
        Part("SBP", layout.settings_trial_table(tried)),
        Part(
            "Rivals with this library's defaults, as far as they were run",
            layout.rival_trial_table(rivals),
        ),
    )
    return Section("trials", heading, (about,), parts)


def settings(contents: Contents) -> Section:
    """What was run, and every option."""
    before = (*say_runs(contents), *say_settings(contents))
    heading = "What was run"
    if contents.settings.empty:
        return Section("settings", heading, before)
    lines = contents.settings[["option", *SETTINGS]].to_numpy().tolist()
    header = ["option", "the paper's settings", "ours, paper's protocol", "ours, test rows"]
    table = layout.shown(header, lines, labels=1)
    caption = "Every option; several values where data sets or methods differ, commonest first"
    return Section("settings", heading, before, (Part(caption, table, long=True),))


def title(name: str) -> str:
    """Heading of a table.

    >>> title("table12")
    'Table 12. Scenario III, regression'
    """
    return f"Table {name.removeprefix('table')}. {TITLES[name]}"


def say_runs(contents: Contents) -> list[str]:
    """What was trained, where, with what, for how long."""
    table = contents.runs
    if table.empty:
        return ["No cell has been run yet."]
    trained = table.drop_duplicates("training")
    seconds = trained["train_seconds"].sum() + trained["prepare_seconds"].sum()
    found = [
        f"{len(table)} of {len(cells_of('all'))} cells are finished, from {len(trained)} training "
        "runs: a cell is one method on one data set, all strengths and splits trained together.",
        f"Device: {'; '.join(table['device'].unique())}. "
        f"Versions: {'; '.join(table['versions'].unique())}.",
        f"Wall time of the training runs, added up: {seconds / 60:.1f} minutes, of which "
        f"{trained['train_seconds'].sum() / 60:.1f} training; several may have run at a time.",
        "Seeds: splits are numbered from 0, and a split's number is the seed of its members.",
    ]
    stopped = int(trained["stopped_members"].sum())
    if stopped:
        found.append(f"{stopped} members stopped early because their values were no longer finite.")
    return [*found, *_missing(contents)]


def _missing(contents: Contents) -> list[str]:
    """Which cells are not finished, those of rivals with our settings as a number."""
    missing = [cell for cell in cells_of("all") if cell not in contents.results]
    rivals = set(missing) & set(cells_of("rivals"))
    others = [cell for cell in missing if cell not in rivals]
    if not missing or len(others) > _FEW:
        return []
    parts = [f"{len(rivals)} cells of rivals with our settings"] if rivals else []
    names = dict.fromkeys(_cell_name(cell) for cell in others)
    return [f"Not finished: {'; '.join([*parts, *names])}."]


def _cell_name(cell: Cell) -> str:
    """A cell in words; whether one protocol or both are missing is left to the tables."""
    place = " on the representation" if cell.place == "representation" else ""
    return (
        f"{method_name(cell.method)}{place}, {DATA_NAMES[cell.dataset]}, Scenario {cell.scenario}, "
        f"{cell.notion}"
    )


def say_settings(contents: Contents) -> list[str]:
    """Where our settings under the paper's protocol are not the defaults."""
    table = contents.settings
    both = table[(table["library"] != "") & (table["library_honest"] != "")]
    changed = both.loc[both["library"] != both["library_honest"], "option"]
    if changed.empty:
        return []
    return [
        "Our settings are the defaults of this library where test rows judge. The paper's protocol "
        "takes the smallest of all values that a run passes, which rewards passing many; there our "
        f"settings differ from the defaults in: {', '.join(changed)}."
    ]


def say_score(contents: Contents) -> list[str]:
    """In how many places our penalty is at least as good as the best of the paper."""
    found = counts(contents.board)
    library, ours, best = found["library"], found["ours"], found["best"]
    run = "" if library.finished == PLACES else f" ({library.finished} of them are run)"
    return [
        "Our SBP with our settings is at least as good as the best entry of any method in the "
        f"paper in {library.holds} of {PLACES} places{run}.",
        f"With the paper's settings it is in {ours.holds}, with one of the two in {best.holds}.",
        *say_areas(contents)[:1],
    ]


def say_missed(contents: Contents) -> list[str]:
    """Where our penalty with our settings is not as good as the best of the paper."""
    board = contents.board
    lost = board[~board["library_holds"].fillna(value=True)]
    if lost.empty:
        return []
    gaps = (lost["library"] - lost["published"]).dropna()
    by = f", by a median of {number(gaps.median())}" if len(gaps) else ""
    return [f"With our settings it is not as good{by}, in {_places(lost)}."]


def _places(board: pd.DataFrame) -> str:
    """List places, grouped by table."""
    parts = []
    for table, mine in board.groupby("table", sort=False):
        names = [f"{DATA_NAMES[r['dataset']]} {r['metric']} {r['attribute']}" for r in _each(mine)]
        parts.append(f"table {str(table).removeprefix('table')}: {', '.join(names)}")
    return "; ".join(parts)


def _each(table: pd.DataFrame) -> list[dict[str, str]]:
    return [
        {str(key): str(value) for key, value in row.items()} for row in table.to_dict("records")
    ]


def say_agreement(contents: Contents) -> list[str]:
    """How near our runs with the paper's settings come to the paper."""
    same = same_winners(contents.rows)
    if same.finished == 0:
        return ["Nothing has been run with the paper's settings yet."]
    return [
        f"In {same.holds} of the {same.finished} places in which our runs with the paper's "
        "settings and protocol have a winner, a method that wins in the paper wins again (ties "
        f"count). {_wins_of_sbp(contents)}",
        *(
            f"{method_name(row['method'])}: {row['near']} of {row['places']} numbers are within "
            f"{NEAR:g} of the paper's, {row['smaller']} are smaller and {row['larger']} larger "
            f"(median difference {signed(row['median_difference'])})."
            for row in contents.agreement.to_dict("records")
        ),
    ]


def _wins_of_sbp(contents: Contents) -> str:
    """In how many places of each table the penalty wins, in the paper and in our runs."""
    rows = contents.rows
    rows = rows[(rows["dataset"] != NOT_TO_BE_HAD) & (rows["method"] == "sbp") & rows["ours_run"]]
    parts = []
    for name in TABLES:
        mine = rows[rows["table"] == name]
        if len(mine):
            counted = f"{mine['published_wins'].sum()} and {mine['ours_wins'].sum()}"
            parts.append(f"table {name.removeprefix('table')}: {counted} of {len(mine)}")
    return f"Places that SBP wins, alone or tied, in the paper and in ours: {'; '.join(parts)}."


def say_winners(contents: Contents, name: str) -> list[str]:
    """Who wins most places of a table: in the paper, under its protocol, on test rows."""
    rows = contents.of_table(name)
    rows = rows[rows["dataset"] != NOT_TO_BE_HAD]
    found = []
    for column, words in (
        ("published", "In the paper"),
        ("ours", "In our runs with the paper's settings and protocol"),
        ("honest", "On test rows with the paper's settings"),
        ("library_honest", "On test rows with our settings"),
    ):
        won = rows.loc[rows[f"{column}_wins"], "method"].value_counts()
        if len(won):
            each = ", ".join(f"{method_name(str(m))} {count}" for m, count in won.items())
            found.append(f"{words} the places (a tie counts for each) go to: {each}.")
    return found


def say_disagreement(contents: Contents, name: str) -> list[str]:
    """Where the two protocols differ in a table; one sentence for each place and two to sum up."""
    table = contents.disagreements[contents.disagreements["table"] == name]
    rows = contents.of_table(name)
    compared = compared_under_both(rows)
    if compared == 0:
        return []
    flattered = table[table["kind"] == "flattered"]
    found = [
        f"With the paper's settings {len(flattered)} of {compared} entries are flattered by its "
        "protocol: the value lies below the whole interval on test rows."
    ]
    for row in table[table["kind"] == "winner"].to_dict("records"):
        place = f"{DATA_NAMES[row['dataset']]}, {row['metric']} {row['attribute']}, "
        place += threshold_text(row["scenario"], row["threshold"])
        found.append(
            f"{place}: the paper's protocol names {row['paper_winners']}, test rows name "
            f"{row['honest_winners']}."
        )
    if len(found) == 1:
        found.append("No place has other winners under the other protocol.")
    return found


def say_all_disagreements(contents: Contents) -> list[str]:
    """The disagreements of all tables, counted."""
    table = contents.disagreements
    compared = compared_under_both(contents.rows)
    if compared == 0:
        return ["Nothing has been run under both protocols yet."]
    flattered, other = ((table["kind"] == kind).sum() for kind in ("flattered", "winner"))
    return [
        f"With the paper's settings {flattered} of {compared} entries are flattered by its "
        "protocol: the value lies below the whole interval on test rows.",
        f"In {other} places no method wins under both protocols.",
    ]


def say_areas(contents: Contents) -> list[str]:
    """Whether our default has more area than every rival."""
    against = contents.against
    if against.empty:
        return ["Nothing has been run under the honest protocol yet."]
    won = int(against["larger"].sum())
    found = [
        f"SBP with our settings reaches more of the rectangle than every rival that is kept, with "
        f"any settings, in {won} of {len(against)} trade-offs{_tried(contents)}."
    ]
    lost = against[~against["larger"]]
    if len(lost):
        by = lost["rival"].value_counts()
        each = ", ".join(f"{method_name(str(m))} {count}" for m, count in by.items())
        gap = (lost["rival_mean"] - lost["default"]).median()
        found.append(f"Kept rivals that have more: {each}; by a median of {number(gap)}.")
    both = against.dropna(subset="as_in_paper")
    if len(both):
        more = int((both["default"] > both["as_in_paper"]).sum())
        gain = (both["default"] - both["as_in_paper"]).median()
        found.append(
            f"Our settings reach more than the paper's in {more} of {len(both)} trade-offs "
            f"(median difference {signed(gain)})."
        )
    return found


def _tried(contents: Contents) -> str:
    """How few rivals had our settings, and what those of the trials change."""
    rivals = {cell.key for cell in cells_of("rivals")}
    kept = {cell.key for cell in contents.results} & rivals
    text = f". Of the {len(rivals)} cells of rivals with our settings {len(kept)} are kept"
    if contents.trials is None:
        return text
    more = (set(contents.trials["cell"]) & rivals) - kept
    left = larger_than_tried(contents.against, contents.trials)
    return (
        f", and in {left} if rivals of the trials count as well{text}, and of {len(more)} more "
        "only the areas of a trial"
    )


def say_deviations(contents: Contents) -> list[str]:
    """What each deviation of the released program changes."""
    found = []
    for row in contents.changes.to_dict("records"):
        table = contents.deviations[contents.deviations["method"] == row["method"]]
        found.append(
            f"{method_name(row['method'])}: as released instead of as written, "
            f"{row['smaller_as_released']} of {row['places']} places get smaller and "
            f"{row['larger_as_released']} larger (median {signed(row['median_change'])}); the "
            f"paper's number is nearer to the method as written in {row['written_nearer']} (mean "
            f"distance {number(row['written_distance'])}) and to the program in "
            f"{row['released_nearer']} ({number(row['released_distance'])}). {_largest(table)}"
        )
    return found or ["Neither variant has been run yet."]


def _largest(table: pd.DataFrame) -> str:
    """The place that changes most."""
    known = table.dropna(subset="change").reset_index(drop=True)
    if known.empty:
        return ""
    row = known.to_dict("records")[int(known["change"].abs().argmax())]
    return (
        f"Most changes {DATA_NAMES[row['dataset']]}, {row['metric']} {row['attribute']}, "
        f"{threshold_text(row['scenario'], row['threshold'])}: paper {number(row['published'])}, "
        f"as written {number(row['written'])}, as released {number(row['released'])}."
    )


def has_runs(contents: Contents, name: str) -> bool:
    """Whether something of a table has been run."""
    rows = pd.concat([contents.of_table(name), contents.of_stand_in(name)])
    return bool(
        rows[[f"{run}_run" for run in ("ours", "library", "honest", "library_honest")]].any(
            axis=None
        )
    )
