"""What the numbers say, in sentences that a program writes from them, so that none can be off."""

from __future__ import annotations

import pandas as pd

from equipoise.paper.contents import Contents
from equipoise.paper.layout import (
    DATA_NAMES,
    method_name,
    number,
    signed,
    threshold_text,
)
from equipoise.paper.plan import cells_of
from equipoise.paper.scoreboard import NEAR, PLACES, compared_under_both, counts, same_winners
from equipoise.paper.tables import NOT_TO_BE_HAD

#: What a quick run is called wherever it is shown.
QUICK = "quick run: fewer iterations, strengths, splits and rows; shows the shape, not the numbers"
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
    return found


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
        "settings and protocol have a winner, it is the paper's winner.",
        *(
            f"{method_name(row['method'])}: {row['near']} of {row['places']} numbers are within "
            f"{NEAR:g} of the paper's, {row['smaller']} are smaller and {row['larger']} larger "
            f"(median difference {signed(row['median_difference'])})."
            for row in contents.agreement.to_dict("records")
        ),
    ]


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
    rivals = cells_of("rivals")
    found = [
        f"SBP with our settings reaches more of the rectangle than every rival that was run, with "
        f"any settings, in {won} of {len(against)} trade-offs. Of the {len(rivals)} cells of "
        f"rivals with our settings {sum(cell in contents.results for cell in rivals)} were run."
    ]
    lost = against[~against["larger"]]
    if len(lost):
        by = lost["rival"].value_counts()
        each = ", ".join(f"{method_name(str(m))} {count}" for m, count in by.items())
        gap = (lost["rival_mean"] - lost["default"]).median()
        found.append(f"The others go to: {each}; by a median of {number(gap)}.")
    both = against.dropna(subset="as_in_paper")
    if len(both):
        more = int((both["default"] > both["as_in_paper"]).sum())
        gain = (both["default"] - both["as_in_paper"]).median()
        found.append(
            f"Our settings reach more than the paper's in {more} of {len(both)} trade-offs "
            f"(median difference {signed(gain)})."
        )
    return found


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
