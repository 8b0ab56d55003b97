"""What the tables say, counted: where our penalty is as good as the best, where numbers flatter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from experiments.paper.plan import NAMES
from experiments.paper.tables import DECIMALS, NOT_TO_BE_HAD, PLACE, comparable

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
        From `experiments.paper.tables.table_rows`, of all tables.

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
