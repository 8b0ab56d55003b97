"""Compares several frontiers: what utility each reaches within the same limits on unfairness."""

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
from equipoise.frontier.estimator import FairFrontier
from equipoise.frontier.judging import DRAWS_FOR_MANY, HeldOut, ReportSettings
from equipoise.frontier.selection import SelectionRow, reports, steps
from equipoise.frontier.snapshots import Curve
from equipoise.inference.estimate import notes
from equipoise.metrics import find_metric

#: Limits on unfairness at which runs are compared.
BUDGETS = (0.02, 0.05, 0.1, 0.2)
_PARTS = ("", "_test", "_low", "_high")
COLUMNS = (
    *("metric", "attribute", "run", "hypervolume", "budget", "snapshot"),
    *(f"{name}{part}" for name in ("utility", "unfairness") for part in _PARTS),
    *("where", "predictor", "note"),
)
Measure = tuple[str, str]


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """A fitted frontier to compare."""

    name: str
    frontier: FairFrontier
    settings: Mapping[str, object]  # the comparison lists those that differ

    @property
    def curve(self) -> Curve:
        """The result of training."""
        return self.frontier.fitted_curve()


@dataclass(frozen=True)
class Difference:
    """A setting that differs between runs, and its value in each run as text."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison:
    """A comparison of several frontiers.

    The table has one row for each metric, attribute, run and budget. ``hypervolume`` is that of the
    front. ``snapshot`` is the one that ``select`` picks within the budget, NA for none. ``utility``
    and ``unfairness`` are its values on the validation rows; with ``_test`` on the test rows, with
    ``_low`` and ``_high`` the ends of the interval. ``where`` is the group and the score at which a
    gap is largest on the test rows.
    """

    runs: tuple[str, ...]
    utility: str
    table: pd.DataFrame
    # By measure and run: unfairness, utility and description of each snapshot, fairest first.
    fronts: Mapping[Measure, Mapping[str, pd.DataFrame]]
    families: Mapping[str, tuple[str, ...]]  # of predictors, by run
    differences: tuple[Difference, ...]
    cautions: tuple[str, ...]  # reasons why the runs are less comparable than they look


def compare(runs: Sequence[ComparedRun]) -> Comparison:
    """Compare runs by every metric and attribute by which all of them were judged."""
    measures = _common_measures(runs)
    reached = [_reached(run, measures, _other_test_rows(run, runs[0])) for run in runs]
    rows = [row for measure in measures for found in reached for row in found[measure]]
    return Comparison(
        runs=tuple(run.name for run in runs),
        utility=runs[0].frontier.utility_,
        table=pd.DataFrame(rows, columns=list(COLUMNS)).astype({"snapshot": "Int64"}),
        fronts={measure: {run.name: _front(run, *measure) for run in runs} for measure in measures},
        families={run.name: run.curve.families for run in runs},
        differences=tuple(_differences(runs)),
        cautions=tuple(_cautions(runs, measures)),
    )


def _common_measures(runs: Sequence[ComparedRun]) -> tuple[Measure, ...]:
    """Return the measures that all runs share, in the order of the first run."""
    names = [run.name for run in runs]
    if len(names) < 2:
        raise InputError(f"runs must be at least two to compare, got {len(names)}")
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(f"runs must have different names, got {name!r} more than once")
    first, *others = (run.curve.snapshots.criteria for run in runs)
    for name, criteria in zip(names[1:], others, strict=True):
        if criteria.utility != first.utility:
            raise InputError(
                f"runs must have the same utility, got {first.utility} of {names[0]!r} and "
                f"{criteria.utility} of {name!r}; compare runs on outcomes of one kind"
            )
    common = tuple(each for each in first.measures if all(each in c.measures for c in others))
    if not common:
        columns = "; ".join(
            f"{name!r} has {', '.join(criteria.columns)}"
            for name, criteria in zip(names, (first, *others), strict=True)
        )
        raise InputError(
            f"runs must share a metric by the same attribute, got none: {columns}; fit with the "
            "same notion, or with the same metrics="
        )
    return common


def _front(run: ComparedRun, metric: str, attribute: str) -> pd.DataFrame:
    curve, front = run.curve, run.frontier.front(metric, attribute)
    mixed = len(curve.trained) > 1
    return pd.DataFrame(
        {
            "unfairness": front[f"{metric} {attribute}"].to_numpy(),
            "utility": front["utility"].to_numpy(),
            "origin": [
                curve.owner(int(str(number)))[1].describe(int(iteration), mixed=mixed)
                for number, iteration in front["iteration"].items()
            ],
        }
    )


def _differences(runs: Sequence[ComparedRun]) -> Iterator[Difference]:
    for name in dict.fromkeys(name for run in runs for name in run.settings):
        values = [run.settings.get(name, "") for run in runs]
        # The settings list the options of an estimator one by one.
        estimators = any(hasattr(value, "get_params") for value in values)
        if not estimators and len({repr(same_form(value)) for value in values}) > 1:
            yield Difference(name, tuple(map(str, values)))


def _cautions(runs: Sequence[ComparedRun], common: Sequence[Measure]) -> Iterator[str]:
    first, *others = runs
    notions = {run.name: run.curve.template.notion for run in runs}
    if len(set(notions.values())) > 1:
        by_run = ", ".join(f"{name} for {notion}" for name, notion in notions.items())
        yield f"The runs were trained for different notions: {by_run}."
    outcome = first.curve.snapshots.criteria.outcome
    for metric in dict.fromkeys(metric for metric, _ in common):
        if caveat := find_metric(metric).caveat(outcome):
            yield f"{caveat}."
    for run in others:
        if _other_test_rows(run, first):
            yield (
                f"The test rows of {run.name} are not those of {first.name}: what differs may be "
                "the people, not the models."
            )
        if not np.array_equal(run.frontier.split_.validation, first.frontier.split_.validation):
            yield (
                f"The validation rows of {run.name} are not those of {first.name}: hypervolumes "
                "and selected models are based on different rows."
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


def _other_test_rows(run: ComparedRun, first: ComparedRun) -> bool:
    """Whether both runs have test rows, but not the same."""
    here, there = run.curve.test, first.curve.test
    if here is None or there is None:
        return False
    (names, arrays), (other_names, other_arrays) = map(_values, (here, there))
    return names != other_names or not all(
        np.array_equal(*pair, equal_nan=True) for pair in zip(arrays, other_arrays, strict=True)
    )


def _values(rows: HeldOut) -> tuple[list[object], list[NDArray[Any]]]:
    """Return names and categories of sensitive columns, and all values of the rows."""
    columns = rows.table.columns
    values = [each.codes if each.values is None else each.values for each in columns]
    named: list[object] = [(column.name, column.categories) for column in columns]
    return named, [rows.y, rows.counts, *map(np.asarray, values)]


def _reached(
    run: ComparedRun, measures: Sequence[Measure], other_rows: bool
) -> dict[Measure, list[dict[str, object]]]:
    """Return the rows of the table for one run, by measure; each has one row for each budget."""
    curve = run.curve
    picks = {measure: _picks(curve, measure) for measure in measures}
    numbers = sorted({each for found in picks.values() for each in found if each is not None})
    settings = ReportSettings(draws=DRAWS_FOR_MANY)
    assessed = reports(curve, numbers, settings) if numbers else []
    report_of = dict(zip(numbers, assessed, strict=True))
    rows_note = "kept without test rows" if curve.test is None else ""
    if other_rows:
        rows_note = "other test rows than the first run"
    found: dict[Measure, list[dict[str, object]]] = {}
    for metric, attribute in measures:
        shared = {
            "metric": metric,
            "attribute": attribute,
            "run": run.name,
            "hypervolume": run.frontier.hypervolume(metric, attribute),
        }
        found[metric, attribute] = lines = []
        for budget, number in zip(BUDGETS, picks[metric, attribute], strict=True):
            line: dict[str, object] = {**shared, "budget": budget, "snapshot": number}
            if number is None:
                note, predictor, where = "no snapshot within the budget", "", ""
            else:
                utility, *unfairness = report_of[number]
                (row,) = (r for r in unfairness if (r.metric, r.attribute) == (metric, attribute))
                line |= _numbers("utility", utility) | _numbers("unfairness", row)
                note = row.note if math.isnan(row.test) else ""
                predictor, where = curve.owner(number)[1].predictor, row.where
            line |= {"where": where, "predictor": predictor, "note": notes(note, rows_note)}
            lines.append(line)
    return found


def _picks(curve: Curve, measure: Measure) -> list[int | None]:
    """Return the snapshot that ``select`` picks within each budget."""
    stairs = steps(curve.snapshots, *measure)
    within = [[step.snapshot for step in stairs if step.unfairness <= most] for most in BUDGETS]
    return [found[-1] if found else None for found in within]


def _numbers(name: str, row: SelectionRow) -> dict[str, float]:
    values = (row.validation, row.test, row.low, row.high)
    return {f"{name}{part}": value for part, value in zip(_PARTS, values, strict=True)}
