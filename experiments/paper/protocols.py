"""Two ways to turn snapshots into one number: the paper's, and one that test rows decide.

The paper's: on the validation fifth, the Pareto front of every run (a strength with a split); among
all points of these fronts whose utility reaches a threshold, mean and deviation of the five
smallest values. The rows that pick are the rows that report, so the numbers flatter.

The honest one: in each split the snapshot, of all strengths and iterations, that the validation
rows like best at the threshold; reported is its value on test rows that nobody looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from equipoise.pareto import hypervolume, non_dominated
from experiments.paper.files import CellResult

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
    found = []
    for _, table in result.snapshots.groupby("split"):
        costs = np.column_stack([-table[name], table[measure]]).astype(np.float64)
        defined = ~np.isnan(costs).any(axis=1)
        front = table[defined][non_dominated(costs[defined])]
        points = front[[prefix + name, prefix + measure]].to_numpy(np.float64)
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
