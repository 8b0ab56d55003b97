"""What the numbers say, in sentences that a program writes from them, so that none can be off."""

from __future__ import annotations

import pandas as pd

from experiments.paper.contents import Contents
from experiments.paper.layout import (
    DATA_NAMES,
    method_name,
    number,
    signed,
    threshold_text,
)
from experiments.paper.plan import TABLES, Cell, cells_of
from experiments.paper.scoreboard import NEAR, PLACES, compared_under_both, counts, same_winners
from experiments.paper.tables import NOT_TO_BE_HAD
from experiments.paper.trials import larger_than_tried

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


def title(name: str) -> str:
    """Heading of a table.

    >>> title("table12")
    'Table 12. Scenario III, regression'
    """
    return f"Table {name.removeprefix('table')}. {TITLES[name]}"


def runs(contents: Contents) -> list[str]:
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


def settings(contents: Contents) -> list[str]:
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


def score(contents: Contents) -> list[str]:
    """In how many places our penalty is at least as good as the best of the paper."""
    found = counts(contents.board)
    library, ours, best = found["library"], found["ours"], found["best"]
    run = "" if library.finished == PLACES else f" ({library.finished} of them are run)"
    return [
        "Our SBP with our settings is at least as good as the best entry of any method in the "
        f"paper in {library.holds} of {PLACES} places{run}.",
        f"With the paper's settings it is in {ours.holds}, with one of the two in {best.holds}.",
        *areas(contents)[:1],
    ]


def missed(contents: Contents) -> list[str]:
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


def agreement(contents: Contents) -> list[str]:
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


def winners(contents: Contents, name: str) -> list[str]:
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


def disagreement(contents: Contents, name: str) -> list[str]:
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


def all_disagreements(contents: Contents) -> list[str]:
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


def areas(contents: Contents) -> list[str]:
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


def deviations(contents: Contents) -> list[str]:
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
