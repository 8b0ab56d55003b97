"""Tables 2, 3 and 7-12 as numbers: what the paper printed beside what we found, one entry a row.

A *place* of a table is what the paper calls a column: data set, attribute, metric and threshold on
utility. In every place the methods compete; the smallest value wins, compared as the paper prints
it, to three decimals, so that ties are shared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.errors import InputError
from experiments.paper.plan import (
    METRICS,
    NAMES,
    STAND_IN,
    TABLES,
    Cell,
    cells_of,
    published,
    training_of,
)
from experiments.paper.results import (
    SMALLEST,
    CellResult,
    Entry,
    HonestEntry,
    honest_entry,
    measure_column,
    paper_entry,
    read_results,
    test_hypervolumes,
)

Results = Mapping[Cell, CellResult]

#: What tells one place from another.
PLACE = ["table", "scenario", "dataset", "attribute", "metric", "threshold"]
#: Digits after the point that the paper prints, and that decide who wins.
DECIMALS = 3
#: The data of these columns of the paper cannot be had, so nothing of ours stands beside them.
NOT_TO_BE_HAD = "acs_employment"
#: Our entries of a row, by the start of their columns' names: settings and protocol of the run.
RUNS: Mapping[str, dict[str, Any]] = {
    "ours": {"settings": "paper", "protocol": "paper"},
    "library": {"settings": "equipoise", "protocol": "paper"},
    "honest": {"settings": "paper", "protocol": "honest"},
    "library_honest": {"settings": "equipoise", "protocol": "honest"},
}
_METHODS = {name: method for method, name in NAMES.items()}
_NOTIONS = {metric: notion for notion, metrics in METRICS.items() for metric in metrics}


def table_rows(results: Results, tables: Iterable[str] = tuple(TABLES)) -> pd.DataFrame:
    """Every entry of the tables, in the paper's order.

    Columns: those of `PLACE`, method; published, published_std, published_about_zero,
    published_wins; for runs under the paper's protocol ("ours" has the paper's settings, "library"
    those of this library) X, X_std, X_count (how many values the mean rests on, of five), X_run
    (whether the run is finished), X_defined (whether some snapshot has the metric), X_wins; for
    runs under the honest protocol ("honest", "library_honest") X, X_low, X_high, X_validation,
    X_test_utility, X_splits (that reached the threshold), X_of (splits), X_run, X_defined, X_wins.

    An entry that rests on fewer than five values, or under the honest protocol on fewer than all
    splits, is not compared: it wins nowhere. Nobody wins a place in which some method was not run.
    """
    asked = published().query("table in @names", local_dict={"names": list(tables)})
    return _filled(asked, results)


def stand_in_rows(results: Results, tables: Iterable[str] = tuple(TABLES)) -> pd.DataFrame:
    """The same for the stand-in of the data that cannot be had: without the paper's numbers."""
    asked = published().query("table in @names", local_dict={"names": list(tables)})
    asked = asked[asked["dataset"] == NOT_TO_BE_HAD].assign(
        dataset=STAND_IN, mean=np.nan, std=np.nan, approx_zero=False
    )
    return _filled(asked, results)


def _filled(asked: pd.DataFrame, results: Results) -> pd.DataFrame:
    # The file goes through a table method by method; here the methods of a place come together.
    order = asked["table"].map(list(TABLES).index)
    place = asked.groupby(PLACE, sort=False).ngroup()
    asked = asked.iloc[np.lexsort([place, order])]
    table = pd.DataFrame([_row(row, results) for row in asked.to_dict("records")])
    for name in ("published", *RUNS):
        table[f"{name}_wins"] = _wins(table, name)
    return table


def _row(row: Mapping[Any, Any], results: Results) -> dict[str, Any]:
    method = _METHODS[row["method"]]
    found: dict[str, Any] = {name: row[name] for name in PLACE} | {
        "method": method,
        "published": row["mean"],
        "published_std": row["std"],
        "published_about_zero": row["approx_zero"],
    }
    for name, run in RUNS.items():
        cell = Cell(
            scenario=row["scenario"],
            dataset=row["dataset"],
            notion=_NOTIONS[row["metric"]],
            method=method,
            **run,
        )
        result = results.get(cell)
        honest = run["protocol"] == "honest"
        entry = _honest(result, row) if honest else _paper(result, row)
        found |= {_column(name, part): value for part, value in entry.items()}
        found[f"{name}_run"] = result is not None
        measure = measure_column(row["metric"], row["attribute"])
        found[f"{name}_defined"] = result is not None and bool(
            np.isfinite(result.snapshots[measure]).any()
        )
    return found


def _column(name: str, part: str) -> str:
    return name if part == "mean" else f"{name}_{part}"


def _paper(result: CellResult | None, row: Mapping[Any, Any]) -> dict[str, Any]:
    entry = Entry(np.nan, np.nan, 0)
    if result is not None:
        measure = measure_column(row["metric"], row["attribute"])
        entry = paper_entry(result, measure, row["threshold"])
    return {field.name: getattr(entry, field.name) for field in fields(entry)}


def _honest(result: CellResult | None, row: Mapping[Any, Any]) -> dict[str, Any]:
    entry = HonestEntry(np.nan, np.nan, np.nan, np.nan, np.nan, 0)
    if result is not None:
        entry = honest_entry(result, row["metric"], row["attribute"], row["threshold"])
    splits = 0 if result is None else result.snapshots["split"].nunique()
    return {field.name: getattr(entry, field.name) for field in fields(entry)} | {"of": splits}


def comparable(table: pd.DataFrame, name: str) -> pd.Series[bool]:
    """Which entries rest on all the values they should rest on."""
    if name == "published":
        return table["published"].notna()
    if RUNS[name]["protocol"] == "paper":
        return table[f"{name}_count"] == SMALLEST
    return table[f"{name}_run"] & (table[f"{name}_splits"] == table[f"{name}_of"])


def _wins(table: pd.DataFrame, name: str) -> pd.Series[bool]:
    """Whether all methods of the same place were run, and none that can be compared has less."""
    place = [table[each] for each in PLACE]
    values = table[name].round(DECIMALS).where(comparable(table, name))
    least = values.groupby(place, sort=False).transform("min")
    run = table[name].notna() if name == "published" else table[f"{name}_run"]
    return (values == least) & run.groupby(place, sort=False).transform("all")


#: Places of tables 2, 3 and 7-12 whose data can be had.
PLACES = 52
#: Numbers at most so far apart are called near.
NEAR = 0.01


@dataclass(frozen=True)
class Count:
    """In how many places our entry is finished, and in how many as good as the paper's best."""

    finished: int
    holds: int


def scoreboard(rows: pd.DataFrame) -> pd.DataFrame:
    """For each place whose data can be had: the paper's best entry of any method, and our SBP.

    Parameters
    ----------
    rows : DataFrame
        From `table_rows`, of all tables.

    Returns
    -------
    DataFrame
        Columns: those of `PLACE`, published (the smallest), published_by (names, several if tied),
        ours and ours_holds (the paper's settings), library and library_holds (this library's
        settings), best_holds (either). A place holds if our mean of five values, rounded to three
        decimals, is at most the published one; it is NA as long as the run is not finished.
    """
    known = rows[rows["dataset"] != NOT_TO_BE_HAD]
    table = pd.DataFrame([_place(place) for _, place in known.groupby(PLACE, sort=False)])
    for name in ("ours_holds", "library_holds", "best_holds"):
        table[name] = table[name].astype("boolean")
    return table


def _place(place: pd.DataFrame) -> dict[str, Any]:
    published = place["published"].min()
    by = place.loc[place["published"] == published, "method"]
    found = {name: place[name].iloc[0] for name in PLACE} | {
        "published": published,
        "published_by": ", ".join(NAMES[method] for method in by),
    }
    table = place[place["method"] == "sbp"]
    (sbp,) = table.to_dict("records")
    for name in ("ours", "library"):
        found[name], found[f"{name}_count"] = sbp[name], sbp[f"{name}_count"]
        holds = comparable(table, name).all() and round(sbp[name], DECIMALS) <= published
        found[f"{name}_holds"] = bool(holds) if sbp[f"{name}_run"] else pd.NA
    either = [each for each in (found["ours_holds"], found["library_holds"]) if each is not pd.NA]
    found["best_holds"] = any(either) if either else pd.NA
    return found


def counts(board: pd.DataFrame) -> dict[str, Count]:
    """How many places hold, by settings: "ours" (the paper's), "library" (our own), "best"."""
    return {
        name: Count(
            finished=int(board[f"{name}_holds"].notna().sum()),
            holds=int(board[f"{name}_holds"].sum()),
        )
        for name in ("ours", "library", "best")
    }


def disagreements(rows: pd.DataFrame) -> pd.DataFrame:
    """Where the two protocols do not say the same of runs with the paper's settings.

    Returns
    -------
    DataFrame
        Columns: those of `PLACE`, kind, paper_winners, honest_winners, method, paper_value,
        honest_value, honest_low. Two kinds of rows: "winner" names the winners where no method
        wins under both protocols; "flattered" gives a method whose value under the paper's
        protocol lies below the whole interval of the honest one.
    """
    found: list[dict[str, Any]] = []
    flattered = _under_both(rows) & (rows["ours"] < rows["honest_low"])
    for key, place in rows.groupby(PLACE, sort=False):
        where = dict(zip(PLACE, key, strict=True))
        paper, honest = _winners(place, "ours"), _winners(place, "honest")
        if paper and honest and not set(paper) & set(honest):
            names = [", ".join(NAMES[method] for method in each) for each in (paper, honest)]
            winners = dict(zip(("paper_winners", "honest_winners"), names, strict=True))
            found.append({**where, "kind": "winner", **winners})
        found += [
            {
                **where,
                "kind": "flattered",
                "method": row["method"],
                "paper_value": row["ours"],
                "honest_value": row["honest"],
                "honest_low": row["honest_low"],
            }
            for row in place[flattered[place.index]].to_dict("records")
        ]
    columns = [*PLACE, "kind", "paper_winners", "honest_winners", "method"]
    return pd.DataFrame(found, columns=[*columns, "paper_value", "honest_value", "honest_low"])


def compared_under_both(rows: pd.DataFrame) -> int:
    """How many entries with the paper's settings have a value under both protocols."""
    return int(_under_both(rows).sum())


def _under_both(rows: pd.DataFrame) -> pd.Series[bool]:
    return comparable(rows, "ours") & comparable(rows, "honest")


def _winners(place: pd.DataFrame, name: str) -> tuple[str, ...]:
    return tuple(place.loc[place[f"{name}_wins"], "method"])


def agreement(rows: pd.DataFrame) -> pd.DataFrame:
    """How near our runs with the paper's settings and protocol come to its numbers, by method.

    Returns
    -------
    DataFrame
        Columns: method, places (that both have), smaller and larger (ours, to three decimals),
        near (at most `NEAR` apart), median_difference (ours minus the paper's).
    """
    both = rows[comparable(rows, "ours") & rows["published"].notna()]
    difference = (both["ours"].round(DECIMALS) - both["published"]).round(DECIMALS)
    table = pd.DataFrame(
        {
            "method": both["method"],
            "places": 1,
            "smaller": (difference < 0).astype(int),
            "larger": (difference > 0).astype(int),
            "near": (difference.abs() <= NEAR).astype(int),
        }
    )
    by_method = table.groupby("method", sort=False).sum()
    medians = difference.groupby(both["method"], sort=False).median()
    return by_method.assign(median_difference=medians).reset_index()


def same_winners(rows: pd.DataFrame) -> Count:
    """In how many places a method that wins in the paper wins in our runs with its settings too."""
    known = rows[rows["dataset"] != NOT_TO_BE_HAD]
    finished = holds = 0
    for _, place in known.groupby(PLACE, sort=False):
        ours = _winners(place, "ours")
        finished += bool(ours)
        holds += bool(set(ours) & set(_winners(place, "published")))
    return Count(finished, holds)


#: What tells one trade-off from another.
TRADE_OFF = ["scenario", "dataset", "notion", "metric", "attribute"]
#: Each method as the text has it, and as the released program has it. The covariance term of CON
#: is the program's; its text has the plain penalty.
AS_WRITTEN_AND_RELEASED = {
    "hgr": ("hgr", "hgr_product"),
    "neu": ("neu", "neu_any_pair"),
    "con": ("con_plain", "con"),
    "sbp": ("sbp", "sbp_nw"),
}
#: Not rivals of the penalty but the penalty itself.
_PENALTY = ("sbp", "sbp_nw")


def areas_by_split(results: Results) -> pd.DataFrame:
    """Area under the trade-off on test rows, for every run on scores under the honest protocol.

    Returns
    -------
    DataFrame
        Columns: those of `TRADE_OFF`, method, settings, split, area (a share of the rectangle).
    """
    rows = []
    for cell, result in results.items():
        if cell.protocol != "honest" or cell.place != "score":
            continue
        for metric, attribute in cell.measures:
            about = {
                "scenario": cell.scenario,
                "dataset": cell.dataset,
                "notion": cell.notion,
                "metric": metric,
                "attribute": attribute,
                "method": cell.method,
                "settings": cell.settings,
            }
            areas = test_hypervolumes(result, measure_column(metric, attribute))
            rows += [about | {"split": split, "area": area} for split, area in enumerate(areas)]
    table = pd.DataFrame(rows, columns=[*TRADE_OFF, "method", "settings", "split", "area"])
    return table.sort_values(["scenario", "notion"], kind="stable", ignore_index=True)


def hypervolumes(areas: pd.DataFrame) -> pd.DataFrame:
    """`areas_by_split` averaged.

    Returns
    -------
    DataFrame
        Columns: those of `TRADE_OFF`, method, settings, mean and std over the splits, splits,
        first (whether nobody has more).
    """
    groups = areas.groupby([*TRADE_OFF, "method", "settings"], sort=False)["area"]
    table = groups.agg(["mean", "std", "size"]).rename(columns={"size": "splits"}).reset_index()
    most = table.groupby(TRADE_OFF, sort=False)["mean"].transform("max")
    return table.assign(first=table["mean"] == most)


def against_rivals(areas: pd.DataFrame) -> pd.DataFrame:
    """For each trade-off our penalty, as it is by default, beside the best of all other methods.

    Returns
    -------
    DataFrame
        Columns: those of `TRADE_OFF`, default (mean area of SBP with this library's settings),
        as_in_paper (the same with the paper's settings; NaN if that is not run), rival and
        rival_settings (who has most among the others, with any settings), rival_mean,
        larger (whether the default has more), splits_larger (in how many of the splits), splits.
        Trade-offs without either of the two are left out.
    """
    rows = []
    for key, mine in areas.groupby(TRADE_OFF, sort=False):
        sbp = mine[mine["method"] == "sbp"]
        default = sbp[sbp["settings"] == "equipoise"].set_index("split")["area"]
        rivals = mine[~mine["method"].isin(_PENALTY)].groupby(["method", "settings"], sort=False)
        if default.empty or not len(rivals):
            continue
        (rival, settings), best = max(rivals, key=lambda pair: pair[1]["area"].mean())
        theirs = best.set_index("split")["area"]
        rows.append(
            dict(zip(TRADE_OFF, key, strict=True))
            | {
                "default": default.mean(),
                "as_in_paper": sbp.loc[sbp["settings"] == "paper", "area"].mean(),
                "rival": rival,
                "rival_settings": settings,
                "rival_mean": theirs.mean(),
                "larger": bool(default.mean() > theirs.mean()),
                "splits_larger": int((default > theirs).sum()),
                "splits": len(theirs),
            }
        )
    columns = [*TRADE_OFF, "default", "as_in_paper", "rival", "rival_settings", "rival_mean"]
    return pd.DataFrame(rows, columns=[*columns, "larger", "splits_larger", "splits"])


def deviations(results: Results) -> pd.DataFrame:
    """Each method as its text has it and as the released program has it, beside the paper's number.

    Returns
    -------
    DataFrame
        Columns: those of `PLACE`, method, published, written, released (means under the paper's
        protocol and settings), change (released minus written), nearer ("written", "released" or
        "same": whose rounded value is nearer to the published one). Places where one of the two is
        missing are left out.
    """
    rows = []
    methods = {NAMES[method]: method for method in AS_WRITTEN_AND_RELEASED}
    notions = {metric: notion for notion, metrics in METRICS.items() for metric in metrics}
    table = published()
    known = table[table["method"].isin(list(methods)) & (table["dataset"] != NOT_TO_BE_HAD)]
    for row in known.to_dict("records"):
        method = methods[row["method"]]
        cell = Cell(
            scenario=row["scenario"],
            dataset=row["dataset"],
            notion=notions[row["metric"]],
            method=method,
        )
        pair = [results.get(replace(cell, method=name)) for name in AS_WRITTEN_AND_RELEASED[method]]
        if any(each is None for each in pair):
            continue
        measure = measure_column(row["metric"], row["attribute"])
        written, released = (
            paper_entry(each, measure, row["threshold"]).mean for each in pair if each is not None
        )
        found = {name: row[name] for name in PLACE}
        found |= {"method": method, "published": row["mean"]}
        found |= {"written": written, "released": released, "change": released - written}
        rows.append(found | {"nearer": _nearer(row["mean"], written, released)})
    columns = [*PLACE, "method", "published", "written", "released", "change", "nearer"]
    found_table = pd.DataFrame(rows, columns=columns)
    order = list(AS_WRITTEN_AND_RELEASED)
    return found_table.sort_values(
        "method", key=lambda names: names.map(order.index), kind="stable", ignore_index=True
    )


def _nearer(published_value: float, written: float, released: float) -> str:
    """Which of two values is nearer; one that does not exist is farthest."""
    apart = [
        round(abs(round(value, DECIMALS) - published_value), DECIMALS)
        if np.isfinite(value)
        else np.inf
        for value in (written, released)
    ]
    if apart[0] == apart[1]:
        return "same"
    return "written" if apart[0] < apart[1] else "released"


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """`deviations` counted: for each method, how many places change and to whose favour.

    Returns
    -------
    DataFrame
        Columns: method, places, smaller_as_released, larger_as_released, median_change,
        written_nearer, released_nearer, written_distance and released_distance (mean absolute
        distance to the published number).
    """
    rows = []
    for method, mine in table.groupby("method", sort=False):
        # As the table prints them, so that a reader who counts finds the same.
        change = (mine["released"].round(DECIMALS) - mine["written"].round(DECIMALS)).round(
            DECIMALS
        )
        rows.append(
            {
                "method": method,
                "places": len(mine),
                "smaller_as_released": int((change < 0).sum()),
                "larger_as_released": int((change > 0).sum()),
                "median_change": mine["change"].median(),
                "written_nearer": int((mine["nearer"] == "written").sum()),
                "released_nearer": int((mine["nearer"] == "released").sum()),
                "written_distance": (mine["written"] - mine["published"]).abs().mean(),
                "released_distance": (mine["released"] - mine["published"]).abs().mean(),
            }
        )
    columns = ["method", "places", "smaller_as_released", "larger_as_released"]
    columns += ["median_change", "written_nearer", "released_nearer"]
    return pd.DataFrame(rows, columns=[*columns, "written_distance", "released_distance"])


#: What tells one trial from another.
_ABOUT = ["trial", "settings", "changed", "iterations"]


def settings_tried(trials: pd.DataFrame) -> pd.DataFrame:
    """SBP with each settings tried, one trial a row.

    Columns: trial, settings, changed, iterations; area, the mean over the trade-offs that all
    trials with areas have, and trade_offs, their number; holds, in how many of the paper's places
    the mean of the five smallest is at most the best entry of any method in the paper, and places,
    in how many it was tried. NaN where a trial was under the other protocol only.
    """
    own = trials[trials["method"] == "sbp"]
    areas = own[own["quantity"] == "area"].pivot(
        index=["cell", "measure"], columns="trial", values="value"
    )
    # Cells of the two settings differ in name only.
    areas.index = pd.MultiIndex.from_tuples(
        [(_place_of(cell), measure) for cell, measure in areas.index], names=["place", "measure"]
    )
    areas = areas.groupby(level=[0, 1]).first().dropna()
    found = own[_ABOUT].drop_duplicates().set_index("trial")
    found["area"] = areas.mean()
    found["trade_offs"] = len(areas)
    held = _held(own[own["quantity"] == "five smallest"]).groupby("trial")["holds"]
    found["holds"], found["places"] = held.sum(), held.size()
    return found.reset_index()


def rivals_tried(trials: pd.DataFrame) -> pd.DataFrame:
    """Rivals with this library's defaults beside SBP with them, one method a row.

    Columns: method, trade_offs, sbp_has_more (in how many of them), sbp, rival (mean areas over
    these trade-offs).
    """
    areas = trials[trials["quantity"] == "area"]
    default = areas[
        (areas["method"] == "sbp")
        & (areas["settings"] == "equipoise")
        & areas["changed"].isna()
        & (areas["iterations"] == 1_500)
    ]
    sbp = default.assign(place=default["cell"].map(_place_of)).set_index(["place", "measure"])[
        "value"
    ]
    rows = []
    for method, table in areas[areas["method"] != "sbp"].groupby("method"):
        rival = table.assign(place=table["cell"].map(_place_of)).set_index(["place", "measure"])
        both = rival[["value"]].join(sbp.rename("sbp"), how="inner")
        rows.append(
            {
                "method": method,
                "trade_offs": len(both),
                "sbp_has_more": int((both["sbp"] > both["value"]).sum()),
                "sbp": both["sbp"].mean(),
                "rival": both["value"].mean(),
            }
        )
    columns = ["method", "trade_offs", "sbp_has_more", "sbp", "rival"]
    return pd.DataFrame(rows, columns=columns).sort_values(
        ["trade_offs", "method"], ascending=[False, True], ignore_index=True
    )


def larger_than_tried(against: pd.DataFrame, trials: pd.DataFrame) -> int:
    """In how many trade-offs our default has more than the rivals kept and every rival tried.

    against: from `against_rivals`. A trade-off in which no rival was
    tried is decided by the rivals kept.
    """
    rivals = trials[(trials["quantity"] == "area") & (trials["method"] != "sbp")]
    most = rivals.groupby([rivals["cell"].map(_place_of), "measure"])["value"].max()
    measures = against["metric"] + " " + against["attribute"]
    places = against["scenario"] + "-" + against["dataset"] + "-" + against["notion"]
    tried = most.reindex(pd.MultiIndex.from_arrays([places, measures])).to_numpy()
    return int((against["larger"] & ~(against["default"].to_numpy() <= tried)).sum())


def _place_of(cell: str) -> str:
    """Scenario, data set and notion of a cell's key."""
    return "-".join(cell.split("-")[:3])


def _held(smallest: pd.DataFrame) -> pd.DataFrame:
    """Every place of the paper in which a trial has a value, and whether it holds there."""
    best = (
        published()
        .groupby(["table", "scenario", "dataset", "metric", "attribute", "threshold"])["mean"]
        .min()
        .rename("best")
        .reset_index()
    )
    parts = smallest["cell"].str.split("-", expand=True)
    measures = smallest["measure"].str.rsplit(" ", n=1, expand=True)
    tried = smallest.assign(
        scenario=parts[0], dataset=parts[1], metric=measures[0], attribute=measures[1]
    )
    joined = tried.merge(best, on=["scenario", "dataset", "metric", "attribute", "threshold"])
    return joined.assign(holds=joined["value"].round(3) <= joined["best"])


#: Results that are no cells: the toy of the density ratio, the training times, and trials.
TOY, TIMES, TRIALS = "table5.csv", "times.csv", "trials.csv"
#: Options of an estimator that tell cells apart rather than say how they are trained.
NO_SETTINGS = ("method", "notion", "device", "random_state", "strength", "verbose")


#: Whose settings: the paper's; this library's where the paper's protocol judges, which rewards
#: passing many models; and this library's defaults, under the honest protocol.
SETTINGS = ("paper", "library", "library_honest")


@dataclass(frozen=True, eq=False)
class Contents:
    """Frames by what they are about; see the functions that make them.

    rows: entries of all tables. stand_in: the same of the stand-in. board, agreement,
    disagreements, areas, against, deviations, changes: what they compare and count.
    runs: one finished cell a row. settings: one option of training a row. toy, times, trials: None
    as long as they have not been measured. quick: whether some run is a quick one. results: the
    cells.
    """

    results: Results
    rows: pd.DataFrame
    stand_in: pd.DataFrame
    board: pd.DataFrame
    agreement: pd.DataFrame
    disagreements: pd.DataFrame
    areas: pd.DataFrame
    against: pd.DataFrame
    deviations: pd.DataFrame
    changes: pd.DataFrame
    runs: pd.DataFrame
    settings: pd.DataFrame
    toy: pd.DataFrame | None
    times: pd.DataFrame | None
    trials: pd.DataFrame | None
    quick: bool

    def of_table(self, name: str) -> pd.DataFrame:
        """Entries of one table."""
        return self.rows[self.rows["table"] == name]

    def of_stand_in(self, name: str) -> pd.DataFrame:
        """Entries of the stand-in in one table."""
        return self.stand_in[self.stand_in["table"] == name]

    def frames(self) -> dict[str, pd.DataFrame]:
        """Every frame by the name of its CSV."""
        found = {name: self.of_table(name) for name in TABLES}
        own = {f"{name}_stand_in": self.of_stand_in(name) for name in TABLES}
        found |= {name: frame for name, frame in own.items() if len(frame)}
        found |= {
            "scoreboard": self.board,
            "agreement": self.agreement,
            "disagreements": self.disagreements,
            "areas": self.areas,
            "areas_against_rivals": self.against,
            "deviations": self.deviations,
            "deviations_counted": self.changes,
            "runs": self.runs,
            "settings": self.settings,
        }
        found |= {} if self.toy is None else {"table5": self.toy}
        found |= {} if self.times is None else {"times": self.times}
        if self.trials is not None:
            found |= {
                "trials_of_settings": settings_tried(self.trials),
                "trials_of_rivals": rivals_tried(self.trials),
            }
        return found


def read_contents(folder: Path) -> Contents:
    """Read the finished cells of a folder, packed or not, and compute what pages show of them."""
    if not folder.is_dir():
        raise InputError(
            f"results_folder must be a folder of results, got '{folder}', which is not there; "
            "train cells into it first"
        )
    results = read_results(folder, cells_of("all"))
    rows = table_rows(results)
    deviating = deviations(results)
    by_split = areas_by_split(results)
    records = [result.record for result in results.values()]
    return Contents(
        results=results,
        rows=rows,
        stand_in=stand_in_rows(results),
        board=scoreboard(rows),
        agreement=agreement(rows),
        disagreements=disagreements(rows),
        areas=hypervolumes(by_split),
        against=against_rivals(by_split),
        deviations=deviating,
        changes=changes(deviating),
        runs=_runs(results),
        settings=settings_table(results),
        toy=_csv(folder / TOY),
        times=_csv(folder / TIMES),
        trials=_csv(folder / TRIALS),
        quick=any(record["size"]["name"] == "quick" for record in records),
    )


def _csv(path: Path) -> pd.DataFrame | None:
    return pd.read_csv(path) if path.is_file() else None


def _runs(results: Results) -> pd.DataFrame:
    """One finished cell a row: what it was, where it ran, and for how long.

    Cells of the same ``training`` share one training run and its seconds.
    """
    rows = [
        {
            "key": cell.key,
            "training": training_of(cell).key,
            "size": record["size"]["name"],
            "splits": record["size"]["splits"],
            "strengths": " ".join(f"{each:g}" for each in record["strengths"]),
            "iterations": record["options"]["iterations"],
            "training_rows": record["rows"]["train"],
            "stopped_members": record["stopped_members"],
            "prepare_seconds": record["seconds"]["prepare"],
            "train_seconds": record["seconds"]["train"],
            "device": record["device"],
            "versions": ", ".join(f"{name} {text}" for name, text in record["versions"].items()),
        }
        for cell, record in ((cell, result.record) for cell, result in results.items())
    ]
    columns = ["key", "training", "size", "splits", "strengths", "iterations", "training_rows"]
    columns += ["stopped_members", "prepare_seconds", "train_seconds"]
    return pd.DataFrame(rows, columns=[*columns, "device", "versions"])


def settings_table(results: Results) -> pd.DataFrame:
    """One option a row: option, and its values by whose settings they are, under which protocol.

    Columns: option, then those of `SETTINGS`. Several values, from cells that differ, are listed
    with what they depend on left to ``runs``.
    """
    kinds: dict[str, list[Mapping[str, Any]]] = {name: [] for name in SETTINGS}
    for cell, result in results.items():
        size = {name: value for name, value in result.record["size"].items() if name != "name"}
        record = result.record["options"] | {"strengths": result.record["strengths"]}
        ours = "library" if cell.protocol == "paper" else "library_honest"
        kinds["paper" if cell.settings == "paper" else ours].append(
            record | {f"run: {name}": value for name, value in size.items() if value is not None}
        )
    names = dict.fromkeys(name for records in kinds.values() for each in records for name in each)
    rows = [
        {"option": name, **{kind: _values(records, name) for kind, records in kinds.items()}}
        for name in sorted(names)
        if name not in NO_SETTINGS
    ]
    return pd.DataFrame(rows, columns=["option", *kinds])


def _values(records: Iterable[Mapping[str, Any]], name: str) -> str:
    """Distinct values of an option, commonest first."""
    texts = pd.Series([json.dumps(each[name]) for each in records if name in each], dtype="str")
    return "; ".join(str(text) for text in texts.value_counts(sort=True).index)
