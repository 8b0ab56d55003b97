"""The parts of a page on the reproduction: text that the numbers make, tables, figures.

The HTML page and the page of the documentation show the same sections.
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.paper import layout, sentences
from experiments.paper.contents import SETTINGS, Contents
from experiments.paper.plan import FIGURES, TABLES
from experiments.paper.protocols import LEAST_UTILITY, MOST_UNFAIRNESS
from experiments.paper.tables import NOT_TO_BE_HAD
from experiments.paper.trials import rivals_tried, settings_tried

#: Name of our own figure.
AREAS = "areas"
#: The paper shows SBP and CON once more on their own in this figure, so close are they.
SBP_AND_CON = "figure2_sbp_con"
#: How to read the tables of the paper beside ours.
GUIDE = (
    "Smaller is fairer. Paper, and ours under its protocol: mean (deviation) of the five smallest "
    "values, on the rows that also picked them. Test rows: mean over the splits (with the means of "
    "the ends of their 95 % bootstrap intervals) of models picked on other rows. Bold: no method "
    "in that place has less in that column, to three decimals. Nothing is bold where a method was "
    "not run, nor an entry that rests on fewer values, or splits, than it should."
)


@dataclass(frozen=True)
class Part:
    """A table with its caption, and the CSV (``name``) that has its numbers.

    ``long`` tables are folded away until somebody asks for them; ``guide`` says how to read the
    table where it stands alone.
    """

    name: str
    caption: str
    table: layout.Shown
    long: bool = False
    guide: str = ""


@dataclass(frozen=True)
class Section:
    """A heading's worth of page: ``before`` stands above the tables, ``after`` below them."""

    name: str
    title: str
    before: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    after: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()


def caption(figure: str) -> str:
    """What a figure shows.

    >>> caption("figure7")
    'Figure 7. Scenario III'
    """
    if figure == AREAS:
        return "Share of the rectangle of trade-offs that each method reaches on test rows"
    if figure == SBP_AND_CON:
        return f"{caption('figure2')}: SBP and CON alone"
    plan = FIGURES[figure]
    return f"Figure {plan.number}. {plan.title}"


def drawable(contents: Contents) -> tuple[str, ...]:
    """Names of the figures of which something has been run, in the order of a page."""
    names: list[str] = []
    for name, plan in FIGURES.items():
        if any(cell in contents.results for cell in plan.cells):
            names += [name, SBP_AND_CON] if name == "figure2" else [name]
    return (*names, *([AREAS] if len(contents.areas) else []))


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
    part = Part("scoreboard", "Our SBP beside the best of any method in the paper", board)
    return Section("scoreboard", "Scoreboard", (about, *sentences.missed(contents)), (part,))


def agreement(contents: Contents) -> Section:
    """How near our numbers are to the paper's when everything is done as there."""
    first, *more = sentences.agreement(contents)
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
        return Section("areas", "Whole curves on test rows", (about, *sentences.areas(contents)))
    table = layout.area_table(contents.against)
    part = Part(
        "areas_against_rivals", "Bold: SBP with our settings, or the rival, has more", table
    )
    before = (about, *sentences.areas(contents))
    title = "Whole curves on test rows"
    return Section("areas", title, before, (part,), figures=(AREAS,))


def protocols(contents: Contents) -> Section:
    """How the two protocols differ, over all tables."""
    about = (
        "The paper picks models and reports them on the same fifth of the rows. We do that too, "
        "for the side-by-side columns; and beside it 60 % of the rows train, 20 % pick and 20 % "
        "report."
    )
    found = sentences.all_disagreements(contents)
    return Section("protocols", "Two protocols", (about, GUIDE, *found))


def table(contents: Contents, name: str) -> Section:
    """One table of the paper under both protocols."""
    rows = contents.of_table(name)
    shown = layout.compared(rows)
    caption = "Bold is the smallest of its place"
    parts = [Part(name, caption, shown, guide=GUIDE)]
    before = sentences.winners(contents, name)
    own = contents.of_stand_in(name)
    if (rows["dataset"] == NOT_TO_BE_HAD).any():
        before.append(
            "The data of the ACSEmployment columns is not to be had here; a stand-in from the same "
            "survey, of other persons, has a table of its own and compares with nothing in "
            "the paper."
        )
        alone = "The stand-in alone, with the thresholds of ACSEmployment"
        parts.append(Part(f"{name}_stand_in", alone, layout.compared(own), guide=GUIDE))
    after = tuple(sentences.disagreement(contents, name))
    return Section(name, sentences.title(name), tuple(before), tuple(parts), after)


def deviations(contents: Contents) -> Section:
    """What the released program does otherwise than the text."""
    about = (
        "The released program departs from the text: HGR gets the product A·Y where the text has "
        "the joint variable, NEU mixes pairs whose A may be the same, CON adds a covariance term, "
        "and SBP leaves its weights out (β = 1). Each was run both ways with the paper's settings, "
        "in the places that are counted here. In the tables above CON has its covariance term, and "
        "the others are as written."
    )
    before = (about, *sentences.deviations(contents))
    if contents.deviations.empty:
        return Section("deviations", "Deviations of the released program", before)
    counted = Part("deviations_counted", "Counted", layout.change_table(contents.changes))
    caption = "Place by place; bold is the one nearer to the paper's number"
    each = Part("deviations", caption, layout.deviation_table(contents.deviations), long=True)
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
    part = Part("times", "Minutes (deviation)", layout.time_table(contents.times))
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
    part = Part("table5", "Mean (deviation) over the replications", layout.toy_table(contents.toy))
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
        Part("trials_of_settings", "SBP", layout.settings_trial_table(tried)),
        Part(
            "trials_of_rivals",
            "Rivals with this library's defaults, as far as they were run",
            layout.rival_trial_table(rivals),
        ),
    )
    return Section("trials", heading, (about,), parts)


def settings(contents: Contents) -> Section:
    """What was run, and every option."""
    before = (*sentences.runs(contents), *sentences.settings(contents))
    heading = "What was run"
    if contents.settings.empty:
        return Section("settings", heading, before)
    lines = contents.settings[["option", *SETTINGS]].to_numpy().tolist()
    header = ["option", "the paper's settings", "ours, paper's protocol", "ours, test rows"]
    table = layout.shown(header, lines, labels=1)
    caption = "Every option; several values where data sets or methods differ, commonest first"
    return Section("settings", heading, before, (Part("settings", caption, table, long=True),))


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


def sections(contents: Contents) -> list[Section]:
    """Every section in the order of a page."""
    shown = [name for name in TABLES if sentences.has_runs(contents, name)]
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
