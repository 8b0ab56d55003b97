"""Tables 2, 3 and 7-12 as numbers: what the paper printed beside what we found, one entry a row.

A *place* of a table is what the paper calls a column: data set, attribute, metric and threshold on
utility. In every place the methods compete; the smallest value wins, compared as the paper prints
it, to three decimals, so that ties are shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from experiments.paper.files import CellResult
from experiments.paper.plan import METRICS, NAMES, STAND_IN, TABLES, Cell
from experiments.paper.protocols import (
    SMALLEST,
    Entry,
    HonestEntry,
    honest_entry,
    measure_column,
    paper_entry,
)
from experiments.paper.published import published

Results = Mapping[Cell, CellResult]

#: What tells one place from another.
PLACE = ["table", "scenario", "dataset", "attribute", "metric", "threshold"]
#: Digits after the point that the paper prints, and that decide who wins.
DECIMALS = 3
#: The data of these columns of the paper can not be had, so nothing of ours stands beside them.
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
    """The same for the stand-in of the data that can not be had: without the paper's numbers."""
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
