"""Results of cells: their files, and two protocols that turn snapshots into one number.

A cell has two files, named by its key: ``KEY.parquet`` with one snapshot a row, and ``KEY.json``
with everything else. The second is written last, so that a cell with both is finished. `pack` puts
many cells into two files, to be kept for good.

The paper's protocol: on the validation fifth, the Pareto front of every run (a strength with a
split); among all points of these fronts whose utility reaches a threshold, mean and deviation of
the five smallest values. The rows that pick are the rows that report, so the numbers flatter.

The honest protocol: in each split the snapshot, of all strengths and iterations, that the
validation rows like best at the threshold; its value on test rows, which
picked nothing, is reported.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.pareto import hypervolume, non_dominated
from equipoise.storage import write_atomically
from experiments.paper.plan import Cell

#: Format of the files; results of another one are not read.
FORMAT = 1
#: Files of packed results.
SNAPSHOTS, RECORDS = "snapshots.parquet", "records.json"


@dataclass(frozen=True, eq=False)
class CellResult:
    """What one training run gave.

    Attributes
    ----------
    cell : Cell
    snapshots : DataFrame
        One snapshot a row: split, strength, iteration, utility (AUC, or MAE of a regression), one
        column for every measure, such as "KS-GSP race", on the validation rows; under the honest
        protocol the same on test rows, as "test utility", "test KS-GSP race". A regression has R2
        as well. A member, a run of the paper, is a split with a strength.
    picks : DataFrame
        Under the honest protocol: for every measure, threshold on utility and split the snapshot
        that the validation rows pick, and its value on test rows with a bootstrap interval:
        metric, attribute, threshold, split, strength, iteration, utility, value, test_utility,
        test_value, low, high. A threshold that no snapshot of a split reaches has no row.
    record : mapping
        Settings, sizes, versions, device, seconds.
    """

    cell: Cell
    snapshots: pd.DataFrame
    picks: pd.DataFrame
    record: Mapping[str, Any]


def write_result(folder: Path, result: CellResult) -> None:
    """Write the two files of a cell."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{result.cell.key}.parquet", parquet_bytes(result.snapshots))
    content = {
        "format": FORMAT,
        "cell": asdict(result.cell),
        "record": dict(result.record),
        "picks": json.loads(result.picks.to_json(orient="records", double_precision=15)),
    }
    text = json.dumps(content, indent=1, allow_nan=False)
    write_atomically(folder / f"{result.cell.key}.json", text.encode())


def read_results(folder: Path, cells: Iterable[Cell]) -> dict[Cell, CellResult]:
    """Results of those ``cells`` that are finished, from files of their own or packed."""
    packed = _read_packed(folder)
    found = {}
    for cell in cells:
        one = folder / f"{cell.key}.json"
        if one.is_file():
            content = _checked(_read_json(one), one)
            snapshots = _read_table(folder / f"{cell.key}.parquet", one)
            found[cell] = _result(content, snapshots)
        elif cell.key in packed:
            found[cell] = packed[cell.key]
    return found


def _read_packed(folder: Path) -> dict[str, CellResult]:
    if not (folder / RECORDS).is_file():
        return {}
    records = _read_json(folder / RECORDS)
    table = _read_table(folder / SNAPSHOTS, folder / RECORDS)
    snapshots = dict(iter(table.groupby("key", sort=False)))
    found = {}
    for content in records:
        _checked(content, folder / RECORDS)
        cell = Cell(**content["cell"])
        mine = snapshots[cell.key].drop(columns="key").dropna(axis=1, how="all")
        found[cell.key] = _result(content, mine.reset_index(drop=True))
    return found


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InputError(
            f"'{path}' must be a JSON file of results, got one that cannot be read ({error}); "
            "move it away to train its cells anew, or fetch it again"
        ) from error


def _read_table(path: Path, beside: Path) -> pd.DataFrame:
    if not path.is_file():
        raise InputError(
            f"'{beside}' must have '{path.name}' beside it, got none; move it away to train its "
            "cells anew, or fetch both again"
        )
    return pd.read_parquet(path)


def _result(content: Mapping[str, Any], snapshots: pd.DataFrame) -> CellResult:
    picks = content["picks"]
    frame = pd.DataFrame(**picks) if isinstance(picks, dict) else pd.DataFrame(picks)
    return CellResult(Cell(**content["cell"]), snapshots, frame, content["record"])


def _checked(content: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    if content.get("format") != FORMAT:
        raise InputError(
            f"'{path}' has results of format {content.get('format')!r}, this version reads "
            f"{FORMAT}; move the file away to train its cells anew"
        )
    return content


def pack(folder: Path, results: Iterable[CellResult]) -> None:
    """Write results as two files; the snapshots are those on a front, all that pages need."""
    results = list(results)
    folder.mkdir(parents=True, exist_ok=True)
    parts = [result.snapshots[on_a_front(result)].assign(key=result.cell.key) for result in results]
    table = pd.concat(parts, ignore_index=True)
    measured = table.select_dtypes("number").columns.difference(["split", "strength", "iteration"])
    # Five digits are beyond what a few thousand rows can tell, and pack well.
    table[measured] = table[measured].astype("float64").round(5).astype("float32")
    write_atomically(folder / SNAPSHOTS, parquet_bytes(table))
    records = [
        {
            "format": FORMAT,
            "cell": asdict(result.cell),
            "record": dict(result.record),
            "picks": json.loads(result.picks.to_json(orient="split", double_precision=6)),
        }
        for result in results
    ]
    lines = ",\n".join(json.dumps(record, allow_nan=False) for record in records)
    write_atomically(folder / RECORDS, f"[\n{lines}\n]\n".encode())


def parquet_bytes(table: pd.DataFrame) -> bytes:
    """A table as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    table.to_parquet(buffer, compression="zstd", index=False)
    return buffer.getvalue()


#: Kept results are rounded; a threshold that is met but for this is met.
_ROUNDING = 1e-6
#: The paper averages over so many of the smallest values.
SMALLEST = 5
#: Corner of the rectangle of trade-offs: utility of a score that knows nothing, and the most
#: unfairness that counts (as in the notes on trials: AUC above 0.5, KS below 0.3).
LEAST_UTILITY = {"AUC": 0.5, "R2": 0.0}
MOST_UNFAIRNESS = 0.3


@dataclass(frozen=True)
class Entry:
    """One number of a table: mean, deviation, and how many values it rests on (of five)."""

    mean: float
    std: float
    count: int


@dataclass(frozen=True)
class HonestEntry:
    """Mean over splits on test rows, with the means of the ends of their intervals.

    ``splits`` counts those in which some snapshot reached the threshold on the validation rows;
    ``validation`` is the mean of the values that picked.
    """

    mean: float
    low: float
    high: float
    validation: float
    test_utility: float
    splits: int


def measure_column(metric: str, attribute: str) -> str:
    """Name of a measure's column."""
    return f"{metric} {attribute}"


def is_error(result: CellResult) -> bool:
    """Whether utility is an error (MAE), of which less is better."""
    return result.cell.scenario == "III"


def _costs(result: CellResult, measure: str) -> NDArray[np.float64]:
    utility = result.snapshots["utility"].to_numpy(np.float64)
    unfairness = result.snapshots[measure].to_numpy(np.float64)
    return np.column_stack([utility if is_error(result) else -utility, unfairness])


def run_fronts(result: CellResult, measure: str) -> NDArray[np.bool_]:
    """Which snapshots are on the front of their own run, (n,); undefined values are on none."""
    costs = _costs(result, measure)
    defined = np.asarray(np.isfinite(costs).all(axis=1))
    on_front = np.zeros(len(costs), dtype=bool)
    for rows in _runs(result):
        rows = rows[defined[rows]]
        on_front[rows] = non_dominated(costs[rows])
    return on_front


def _runs(result: CellResult) -> Iterator[NDArray[np.int64]]:
    """Positions of the snapshots of each run."""
    for _, rows in result.snapshots.groupby(["split", "strength"]).indices.items():
        yield np.asarray(rows, dtype=np.int64)


def on_a_front(result: CellResult) -> NDArray[np.bool_]:
    """Which snapshots are on the front of their run for some measure, (n,).

    Of a regression on that of MAE, which tables need, or of R2, which areas need.
    """
    judged = [result]
    if is_error(result):
        by_r2 = result.snapshots.assign(utility=-result.snapshots["R2"])
        judged.append(replace(result, snapshots=by_r2))
    fronts = [
        run_fronts(each, measure_column(*pair)) for each in judged for pair in result.cell.measures
    ]
    found: NDArray[np.bool_] = np.any(fronts, axis=0)
    return found


def paper_entry(result: CellResult, measure: str, threshold: float) -> Entry:
    """The paper's number: mean and deviation of the five smallest values on the runs' fronts."""
    table = result.snapshots[run_fronts(result, measure)]
    utility = table["utility"]
    short = utility - threshold if is_error(result) else threshold - utility
    enough = table[short <= _ROUNDING]
    values = np.sort(enough[measure].to_numpy(np.float64))[:SMALLEST]
    if len(values) == 0:
        return Entry(np.nan, np.nan, 0)
    return Entry(float(values.mean()), float(values.std()), len(values))


def honest_entry(result: CellResult, metric: str, attribute: str, threshold: float) -> HonestEntry:
    """Mean over splits of what was picked on validation rows and measured on test rows."""
    picks = result.picks
    if len(picks) == 0:
        return HonestEntry(np.nan, np.nan, np.nan, np.nan, np.nan, 0)
    mine = picks[
        (picks["metric"] == metric)
        & (picks["attribute"] == attribute)
        & np.isclose(picks["threshold"], threshold)
    ]
    if len(mine) == 0:
        return HonestEntry(np.nan, np.nan, np.nan, np.nan, np.nan, 0)
    reported = ["test_value", "low", "high", "value", "test_utility"]
    means = mine[reported].astype("float64").mean()
    return HonestEntry(
        mean=float(means["test_value"]),
        low=float(means["low"]),
        high=float(means["high"]),
        validation=float(means["value"]),
        test_utility=float(means["test_utility"]),
        splits=len(mine),
    )


def reported_fronts(result: CellResult, measure: str) -> list[NDArray[np.float64]]:
    """For each split the points (utility, unfairness), (k, 2), of its front where it is reported.

    The front is found on the validation rows, over all strengths, and its points are measured on
    the test rows; under the paper's protocol on the validation rows themselves. Utility is AUC, or
    R2 of a regression: larger is better.
    """
    name = "R2" if is_error(result) else "utility"
    prefix = "test " if result.cell.protocol == "honest" else ""
    table, found = result.snapshots, []
    costs = table[[name, measure]].to_numpy(np.float64) * (-1, 1)
    reported = table[[prefix + name, prefix + measure]].to_numpy(np.float64)
    defined, splits = ~np.isnan(costs).any(axis=1), table["split"].to_numpy()
    for split in np.unique(splits):
        rows = np.flatnonzero(defined & (splits == split))
        points = reported[rows[non_dominated(costs[rows])]]
        found.append(points[~np.isnan(points).any(axis=1)])
    return found


def test_hypervolumes(result: CellResult, measure: str) -> NDArray[np.float64]:
    """For each split the share of the rectangle of trade-offs that its models reach, (splits,).

    The area is that of the points of `reported_fronts`.
    """
    least = LEAST_UTILITY["R2" if is_error(result) else "AUC"]
    found = []
    for points in reported_fronts(result, measure):
        costs = points * (-1, 1)
        area = hypervolume(costs, (-least, MOST_UNFAIRNESS)) if len(points) else 0.0
        found.append(area / ((1 - least) * MOST_UNFAIRNESS))
    return np.array(found)
