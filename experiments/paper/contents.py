"""Everything that pages show, read from a folder of results: numbers, nothing drawn yet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.errors import InputError
from experiments.paper import comparisons, scoreboard, tables
from experiments.paper.files import read_results
from experiments.paper.plan import TABLES, cells_of, training_of
from experiments.paper.trials import rivals_tried, settings_tried

#: Results that are no cells: the toy of the density ratio, the training times, and trials.
TOY, TIMES, TRIALS = "table5.csv", "times.csv", "trials.csv"
#: Options of an estimator that tell cells apart rather than say how they are trained.
_NO_SETTINGS = ("method", "notion", "device", "random_state", "strength", "verbose")


#: Whose settings: the paper's; this library's where the paper's protocol judges, which rewards
#: passing many models; and this library's defaults, under the honest protocol.
SETTINGS = ("paper", "library", "library_honest")


@dataclass(frozen=True, eq=False)
class Contents:
    """Frames by what they are about; see the functions that make them.

    rows: entries of all tables. stand_in: the same of the stand-in. board, agreement,
    disagreements: `experiments.paper.scoreboard`. areas, against, deviations, changes:
    `experiments.paper.comparisons`.
    runs: one finished cell a row. settings: one option of training a row. toy, times, trials: None
    as long as they have not been measured. quick: whether some run is a quick one. results: the
    cells.
    """

    results: tables.Results
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
    rows = tables.table_rows(results)
    deviations = comparisons.deviations(results)
    by_split = comparisons.areas_by_split(results)
    records = [result.record for result in results.values()]
    return Contents(
        results=results,
        rows=rows,
        stand_in=tables.stand_in_rows(results),
        board=scoreboard.scoreboard(rows),
        agreement=scoreboard.agreement(rows),
        disagreements=scoreboard.disagreements(rows),
        areas=comparisons.hypervolumes(by_split),
        against=comparisons.against_rivals(by_split),
        deviations=deviations,
        changes=comparisons.changes(deviations),
        runs=_runs(results),
        settings=settings_table(results),
        toy=_csv(folder / TOY),
        times=_csv(folder / TIMES),
        trials=_csv(folder / TRIALS),
        quick=any(record["size"]["name"] == "quick" for record in records),
    )


def _csv(path: Path) -> pd.DataFrame | None:
    return pd.read_csv(path) if path.is_file() else None


def _runs(results: tables.Results) -> pd.DataFrame:
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


def settings_table(results: tables.Results) -> pd.DataFrame:
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
        if name not in _NO_SETTINGS
    ]
    return pd.DataFrame(rows, columns=["option", *kinds])


def _values(records: Iterable[Mapping[str, Any]], name: str) -> str:
    """Distinct values of an option, commonest first."""
    texts = pd.Series([json.dumps(each[name]) for each in records if name in each], dtype="str")
    return "; ".join(str(text) for text in texts.value_counts(sort=True).index)
