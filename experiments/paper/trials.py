"""What trials of other settings, and of rivals with this library's settings, have shown.

Trials came before the runs that are kept: the same protocols, of which only areas and means of the
five smallest were written down (``trials.csv`` in the results folder), not every snapshot.
"""

from __future__ import annotations

import pandas as pd

from experiments.paper.published import published

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
        [(_place(cell), measure) for cell, measure in areas.index], names=["place", "measure"]
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
    sbp = default.assign(place=default["cell"].map(_place)).set_index(["place", "measure"])["value"]
    rows = []
    for method, table in areas[areas["method"] != "sbp"].groupby("method"):
        rival = table.assign(place=table["cell"].map(_place)).set_index(["place", "measure"])
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

    against: from `experiments.paper.comparisons.against_rivals`. A trade-off in which no rival was
    tried is decided by the rivals kept.
    """
    rivals = trials[(trials["quantity"] == "area") & (trials["method"] != "sbp")]
    most = rivals.groupby([rivals["cell"].map(_place), "measure"])["value"].max()
    measures = against["metric"] + " " + against["attribute"]
    places = against["scenario"] + "-" + against["dataset"] + "-" + against["notion"]
    tried = most.reindex(pd.MultiIndex.from_arrays([places, measures])).to_numpy()
    return int((against["larger"] & ~(against["default"].to_numpy() <= tried)).sum())


def _place(cell: str) -> str:
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
