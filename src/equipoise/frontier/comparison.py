"""Compares several frontiers: what utility each reaches within the same limits on unfairness.

Which run wins is decided at one limit. Each run picks its model within it on its validation rows.
The run whose model is the most useful on its test rows wins if

1. the interval of its lead over every other run that has such a model excludes 0, and
2. its model is within the limit on its test rows, or that of no other run is.

A run that is the only one with such a model wins, too. If runs have the same test rows, these are
drawn for both models together (paired bootstrap), so that what they share cancels out. If not, the
interval is made of two independent ones: an end is as far from the difference as the root of the
sum of the squared distances of their ends (Zou and Donner 2008). With three runs or more, all
intervals hold together (Bonferroni, over all pairs).
"""

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
from equipoise.frontier.selection import Selection, SelectionRow, reports, steps
from equipoise.frontier.snapshots import Curve
from equipoise.inference import Estimate
from equipoise.inference.bootstrap import utility_differences, utility_intervals
from equipoise.inference.estimate import independent_difference, notes
from equipoise.inference.verdict import DEFAULT_LIMIT, State
from equipoise.metrics import Scored, find_metric, prepare
from equipoise.words import listed, number

#: Limits on unfairness at which runs are compared.
BUDGETS = (0.02, 0.05, 0.1, 0.2)
_PARTS = ("", "_test", "_low", "_high")
COLUMNS = (
    *("metric", "attribute", "run", "hypervolume", "budget", "snapshot"),
    *(f"{name}{part}" for name in ("utility", "unfairness") for part in _PARTS),
    *("where", "predictor", "note"),
)
Measure = tuple[str, str]
Limits = float | Mapping[str, float]
#: Draws of the bootstrap by which runs are told apart, and the probability that all of it holds.
_DRAWS, _LEVEL = 400, 0.95


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
class Contest:
    """Which run wins at a limit, by the rules of this module."""

    wish: str  # the limit, in words
    utility: str
    selections: Mapping[str, Selection]  # of runs that have a model to show, by name
    # Runs with a model within the limit on validation rows, and test rows to compare it on. The
    # most useful is the first.
    entrants: tuple[str, ...]
    leads: tuple[Estimate, ...]  # by how much the first is more useful than each other one
    paired: bool  # whether entrants have the same test rows
    names: tuple[str, ...]  # of all runs

    @property
    def winner(self) -> str | None:
        """The run that wins; None where chance may decide, or the limit is not kept."""
        if not self.entrants or not all(lead.low > 0 for lead in self.leads):
            return None
        alone = not self.leads
        untested = any(found.test_rows == 0 for found in self.selections.values())
        return None if self._kept_by_others or (alone and untested) else self.entrants[0]

    @property
    def _kept_by_others(self) -> list[str]:
        """Entrants whose models are within the limit on test rows, where the first one's is not."""
        first, *others = ((name, self._is_beyond(name)) for name in self.entrants)
        return [name for name, beyond in others if first[1] and not beyond]

    def _is_beyond(self, name: str) -> bool:
        return any(each.state is State.BEYOND for each in self.selections[name].verdicts)

    @property
    def _but(self) -> str:
        """What must be said of a winner that does not keep the limit on its test rows."""
        beyond = self._is_beyond(self.entrants[0])
        return " Yet its model is not within the limit on its test rows." if beyond else ""

    @property
    def sentence(self) -> str:
        """Which run wins, or why none does."""
        without = [name for name in self.names if name not in self.entrants]
        if not self.entrants:
            return (
                f"No winner: no run with test rows has a model with {self.wish} on its validation "
                "rows."
            )
        first, *others = self.entrants
        if not others:
            if self.winner is None:
                return f"No winner: {listed(without)} cannot be compared without test rows."
            alone = f"{first} wins: it alone has a model with {self.wish} on its validation rows."
            return f"{alone}{self._but}"
        said = [
            f"that of {name} by {number(lead.value)} ({number(lead.low)} to {number(lead.high)})"
            for name, lead in zip(others, self.leads, strict=True)
        ]
        rest = ""
        if without:
            rest = f" Not compared, without such a model or without test rows: {listed(without)}."
        higher = f"the {self.utility} of {first} on test rows is higher than {listed(said)}"
        if self.winner is not None:
            return f"{first} wins: with {self.wish}, {higher}.{self._but}{rest}"
        if self._kept_by_others:
            kept = listed(self._kept_by_others)
            return (
                f"No winner: with {self.wish}, {higher}, but the model of {first} is not within "
                f"the limit on its test rows, and that of {kept} is.{rest}"
            )
        return f"No winner: with {self.wish}, {higher}, which is within chance.{rest}"

    @property
    def rule(self) -> str:
        """How the runs were told apart; "" where there was nothing to tell apart."""
        if not self.leads:
            return ""
        how = (
            f"The runs have the same test rows, so that these were drawn for all models together "
            f"(paired bootstrap, {_DRAWS} draws)."
            if self.paired
            else "The test rows differ, so that the interval of a difference is made of two "
            f"independent bootstrap intervals ({_DRAWS} draws each)."
        )
        both = "" if len(self.leads) == 1 else f" All intervals hold together with {_LEVEL:.0%}."
        return how + both

    def to_document(self) -> dict[str, Any]:
        """Everything about the contest, as JSON has it."""
        first = self.entrants[0] if self.entrants else None
        return {
            "wish": self.wish,
            "winner": self.winner,
            "sentence": self.sentence,
            "rule": self.rule,
            "paired": self.paired,
            "differences": [
                {"run": first, "from": name, "value": lead.value, "low": lead.low}
                | {"high": lead.high, "level": lead.level}
                for name, lead in zip(self.entrants[1:], self.leads, strict=True)
            ],
            "runs": {
                name: {
                    "snapshot": found.snapshot,
                    "nearest": found.nearest,
                    self.utility: found.rows[0].columns(),
                    "verdicts": [each.to_document() for each in found.verdicts],
                }
                for name, found in self.selections.items()
            },
        }


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
    contest: Contest | None  # None where no common metric can be limited


def compare(runs: Sequence[ComparedRun], limit: Limits = DEFAULT_LIMIT) -> Comparison:
    """Compare runs by every metric and attribute by which all of them were judged.

    Which run wins is decided within ``limit`` on the first such metric, for all attributes or for
    those named.
    """
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
        contest=_contest(runs, measures, limit),
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
                f"{criteria.utility} of {name!r}; compare runs on outcomes of one kind and, in "
                "regression, with the same loss"
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
    # The same people may be judged by other columns, too.
    shared = sorted(
        {each.name for each in here.table.columns} & {each.name for each in there.table.columns}
    )
    (categories, arrays), (other_categories, other_arrays) = (
        _values(rows, shared) for rows in (here, there)
    )
    return categories != other_categories or not all(
        np.array_equal(one, other, equal_nan=True)
        for one, other in zip(arrays, other_arrays, strict=True)
    )


def _values(rows: HeldOut, names: Sequence[str]) -> tuple[list[object], list[NDArray[Any]]]:
    """Return categories of these sensitive columns, and the values of the rows."""
    columns = [rows.table[name] for name in names]
    values = [each.codes if each.values is None else each.values for each in columns]
    categories: list[object] = [column.categories for column in columns]
    return categories, [rows.y, rows.counts, *map(np.asarray, values)]


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
        for budget, snapshot in zip(BUDGETS, picks[metric, attribute], strict=True):
            line: dict[str, object] = {**shared, "budget": budget, "snapshot": snapshot}
            if snapshot is None:
                note, predictor, where = "no snapshot within the budget", "", ""
            else:
                utility, *unfairness = report_of[snapshot]
                (row,) = (r for r in unfairness if (r.metric, r.attribute) == (metric, attribute))
                line |= _numbers("utility", utility) | _numbers("unfairness", row)
                note = row.note if math.isnan(row.test) else ""
                predictor, where = curve.owner(snapshot)[1].predictor, row.where
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


def _contest(
    runs: Sequence[ComparedRun], measures: Sequence[Measure], limit: Limits
) -> Contest | None:
    outcome = runs[0].curve.snapshots.criteria.outcome
    # What select refuses to limit decides nothing here.
    metrics = [metric for metric, _ in measures if not find_metric(metric).caveat(outcome)]
    attributes = [each for metric, each in measures if metrics and metric == metrics[0]]
    limits = limit if isinstance(limit, Mapping) else dict.fromkeys(attributes, limit)
    limits = {name: each for name, each in limits.items() if name in attributes}
    if not limits:
        return None
    selections = {run.name: _selected(run, metrics[0], limits) for run in runs}
    shown = {name: found for name, found in selections.items() if found is not None}
    entrants = [
        run
        for run in runs
        if run.name in shown and not shown[run.name].nearest and shown[run.name].test_rows
    ]
    entrants.sort(key=lambda run: -shown[run.name].rows[0].test)
    paired = not any(_other_test_rows(run, entrants[0]) for run in entrants[1:])
    pairs = len(entrants) * (len(entrants) - 1) / 2
    return Contest(
        wish=" and ".join(f"{metrics[0]} by {name} <= {each:g}" for name, each in limits.items()),
        utility=runs[0].frontier.utility_,
        selections=shown,
        entrants=tuple(run.name for run in entrants),
        leads=tuple(
            _lead(
                (entrants[0], shown[entrants[0].name].snapshot),
                (run, shown[run.name].snapshot),
                paired=paired,
                level=1 - (1 - _LEVEL) / pairs,
            )
            for run in entrants[1:]
        ),
        paired=paired,
        names=tuple(run.name for run in runs),
    )


def _selected(run: ComparedRun, metric: str, limits: Mapping[str, float]) -> Selection | None:
    """The model that a run picks within the limits; None where it has none."""
    try:
        return run.frontier.select(max_unfairness=limits, metric=metric)
    except InputError:
        return None


def _lead(
    first: tuple[ComparedRun, int], other: tuple[ComparedRun, int], *, paired: bool, level: float
) -> Estimate:
    """By how much the first of two snapshots is more useful than the other, on test rows."""
    tests, scores = [], []
    for run, snapshot in (other, first):
        found = run.curve.test_scores([snapshot])
        assert found is not None and run.curve.test is not None
        tests.append(run.curve.test)
        scores.append(found[0].T)
    measure = first[0].curve.snapshots.criteria.utility
    columns = len(scores[0])
    about: dict[str, Any] = {"columns": columns, "draws": _DRAWS, "level": level, "random_state": 0}

    def scored(rows: HeldOut, of: NDArray[np.float64]) -> Scored:
        return prepare(of, rows.y, weights=rows.weights, outcome=rows.outcome)

    if paired:
        both = scored(tests[0], np.vstack(scores))
        return utility_differences(both, measure, **about)[0]
    ((low,),), ((high,),) = (
        utility_intervals(scored(*each), [measure], **about)
        for each in zip(tests, scores, strict=True)
    )
    return independent_difference(high, low)
