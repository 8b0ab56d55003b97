"""Comparisons beyond the paper: areas under the trade-off, and deviations of its program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.paper.plan import METRICS, NAMES, Cell
from experiments.paper.protocols import measure_column, paper_entry, test_hypervolumes
from experiments.paper.published import published
from experiments.paper.tables import DECIMALS, NOT_TO_BE_HAD, PLACE, Results

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
