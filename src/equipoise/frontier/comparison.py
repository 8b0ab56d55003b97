"""Several frontiers beside one another: what each reaches, and at what budget."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.estimators.fitting import same_form
from equipoise.frontier.curve import Curve
from equipoise.frontier.estimator import FairFrontier
from equipoise.frontier.offer import DRAWS, steps
from equipoise.frontier.rows import HeldOut
from equipoise.frontier.selection import ReportSettings, SelectionRow

#: Tolerated unfairness at which runs are compared.
BUDGETS = (0.02, 0.05, 0.1, 0.2)
_PARTS = ("", "_test", "_low", "_high")
COLUMNS = (
    *("metric", "attribute", "run", "hypervolume", "budget", "snapshot"),
    *(f"{name}{part}" for name in ("utility", "unfairness") for part in _PARTS),
    *("predictor", "note"),
)
Measure = tuple[str, str]


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """One of the runs to compare, fitted or loaded."""

    name: str
    frontier: FairFrontier
    settings: Mapping[str, object]  # what to look for differences in

    @property
    def curve(self) -> Curve:
        """What training left behind."""
        return self.frontier.fitted_curve()


@dataclass(frozen=True)
class Difference:
    """A setting that is not the same in all runs, and what it is in each, as text."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison:
    """What several frontiers reach, side by side.

    The table has one row for each metric, attribute, run and budget. hypervolume: of the front, as
    `FairFrontier.hypervolume` gives it. snapshot: what ``select`` picks within the budget, NA where
    there is none. utility, unfairness: its values on the validation rows, which picked it; with
    _test on the test rows, and _low and _high the interval. predictor: family of the snapshot,
    empty where there is none. note: what to beware of.
    """

    runs: tuple[str, ...]
    utility: str
    table: pd.DataFrame
    # By measure and run: unfairness, utility and origin on the validation rows, fairest first.
    fronts: Mapping[Measure, Mapping[str, pd.DataFrame]]
    families: Mapping[str, tuple[str, ...]]  # of predictors, by run
    differences: tuple[Difference, ...]
    cautions: tuple[str, ...]  # on what makes the runs less comparable than they look


def compare(runs: Sequence[ComparedRun]) -> Comparison:
    """Compare runs by every metric and attribute that all of them were judged by."""
    measures = common_measures(runs)
    rows = [row for run in runs for row in _rows_of(run, measures, other_test_rows(run, runs[0]))]
    order = {measure: place for place, measure in enumerate(measures)}
    rows.sort(key=lambda row: order[(str(row["metric"]), str(row["attribute"]))])
    return Comparison(
        runs=tuple(run.name for run in runs),
        utility=runs[0].frontier.utility_,
        table=pd.DataFrame(rows, columns=list(COLUMNS)).astype({"snapshot": "Int64"}),
        fronts={measure: {run.name: _front(run, *measure) for run in runs} for measure in measures},
        families={run.name: run.curve.families for run in runs},
        differences=tuple(_differences(runs)),
        cautions=tuple(_cautions(runs, measures)),
    )


def _front(run: ComparedRun, metric: str, attribute: str) -> pd.DataFrame:
    curve, mixed = run.curve, len(run.curve.strands) > 1
    front = run.frontier.front(metric, attribute)
    origins = [
        curve.owner(int(str(number)))[1].describe(int(iteration), mixed=mixed)
        for number, iteration in front["iteration"].items()
    ]
    return pd.DataFrame(
        {
            "unfairness": front[f"{metric} {attribute}"].to_numpy(),
            "utility": front["utility"].to_numpy(),
            "origin": origins,
        }
    )


def _differences(runs: Sequence[ComparedRun]) -> Iterator[Difference]:
    for name in dict.fromkeys(name for run in runs for name in run.settings):
        values = [run.settings.get(name, "") for run in runs]
        # The options of an estimator are settings by themselves.
        if (
            not any(hasattr(value, "get_params") for value in values)
            and len({repr(same_form(value)) for value in values}) > 1
        ):
            yield Difference(name, tuple(map(str, values)))


def common_measures(runs: Sequence[ComparedRun]) -> tuple[Measure, ...]:
    """Metrics and attributes that all runs have, in the order of the first; InputError if none."""
    if len(runs) < 2:
        raise InputError(f"runs must be at least two to compare, got {len(runs)}")
    names = [run.name for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"runs must have different names, got {name!r} more than once")
    first, *others = (run.curve.snapshots.criteria for run in runs)
    for run, criteria in zip(runs[1:], others, strict=True):
        if criteria.utility != first.utility:
            raise InputError(
                f"runs must have the same utility, got {first.utility} of {runs[0].name!r} and "
                f"{criteria.utility} of {run.name!r}; compare runs on outcomes of one kind"
            )
    common = tuple(
        measure for measure in first.measures if all(measure in c.measures for c in others)
    )
    if not common:
        said = "; ".join(
            f"{run.name!r} has {', '.join(run.curve.snapshots.criteria.columns)}" for run in runs
        )
        raise InputError(
            f"runs must share a metric by the same attribute, got none: {said}; fit with the same "
            "notion, or name metrics= that all have"
        )
    return common


def _cautions(runs: Sequence[ComparedRun], common: Sequence[Measure]) -> Iterator[str]:
    first, *others = runs
    notions = {run.name: run.curve.template.notion for run in runs}
    if len(set(notions.values())) > 1:
        said = ", ".join(f"{name} for {notion}" for name, notion in notions.items())
        yield f"The runs were trained for different notions: {said}."
    for run in others:
        if other_test_rows(run, first):
            yield (
                f"The test rows of {run.name} are not those of {first.name}: what differs may be "
                "the people, not the models."
            )
        same = np.array_equal(run.frontier.split_.validation, first.frontier.split_.validation)
        if not same:
            yield (
                f"The validation rows of {run.name} are not those of {first.name}: hypervolumes "
                "and picks rest on different rows."
            )
    for run in runs:
        if run.curve.test is None:
            yield f"{run.name} was kept without test rows: it has values on validation rows only."
        left_out = [
            f"{metric} by {attribute}"
            for metric, attribute in run.curve.snapshots.criteria.measures
            if (metric, attribute) not in common
        ]
        if left_out:
            yield f"Not compared, as not all runs have it: {', '.join(left_out)} of {run.name}."


def other_test_rows(run: ComparedRun, first: ComparedRun) -> bool:
    """Whether both runs have test rows and these are not the same."""
    here, there = run.curve.test, first.curve.test
    return here is not None and there is not None and not _same(here, there)


def _same(here: HeldOut, there: HeldOut) -> bool:
    def named(rows: HeldOut) -> list[object]:
        return [(column.name, column.categories) for column in rows.table.columns]

    def values(rows: HeldOut) -> list[NDArray[Any]]:
        columns = [
            each.codes if each.values is None else each.values for each in rows.table.columns
        ]
        return [rows.y, rows.counts, *map(np.asarray, columns)]

    return named(here) == named(there) and all(
        np.array_equal(*pair, equal_nan=True)
        for pair in zip(values(here), values(there), strict=True)
    )


def _rows_of(
    run: ComparedRun, measures: Sequence[Measure], other_rows: bool
) -> Iterator[dict[str, object]]:
    curve = run.curve
    picks = {measure: _picks(curve, measure) for measure in measures}
    numbers = sorted({each for found in picks.values() for each in found if each is not None})
    reports = curve.reports(numbers, ReportSettings(draws=DRAWS)) if numbers else []
    tested = dict(zip(numbers, reports, strict=True))
    for metric, attribute in measures:
        volume = run.frontier.hypervolume(metric, attribute)
        for budget, number in zip(BUDGETS, picks[metric, attribute], strict=True):
            found: dict[str, object] = {
                "metric": metric,
                "attribute": attribute,
                "run": run.name,
                "hypervolume": volume,
                "budget": budget,
                "snapshot": number,
                "predictor": "" if number is None else curve.owner(number)[1].predictor,
            }
            notes = []
            if number is None:
                notes.append("no snapshot within the budget")
            else:
                utility, *unfairness = tested[number]
                found |= _numbers("utility", utility)
                (row,) = (r for r in unfairness if (r.metric, r.attribute) == (metric, attribute))
                found |= _numbers("unfairness", row)
                notes += [row.note] if row.note and math.isnan(row.test) else []
            if curve.test is None:
                notes.append("kept without test rows")
            elif other_rows:
                notes.append("other test rows than the first run")
            yield found | {"note": "; ".join(notes)}


def _picks(curve: Curve, measure: Measure) -> list[int | None]:
    """What ``select`` picks within each budget."""
    stairs = steps(curve.snapshots, *measure)
    within = [[step for step in stairs if step.unfairness <= budget] for budget in BUDGETS]
    return [found[-1].snapshot if found else None for found in within]


def _numbers(name: str, row: SelectionRow) -> dict[str, float]:
    values = (row.validation, row.test, row.low, row.high)
    return {f"{name}{part}": value for part, value in zip(_PARTS, values, strict=True)}
