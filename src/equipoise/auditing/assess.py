"""`audit`: read, measure, gather."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from equipoise.auditing.groups import bands, calibration, group_rows, histograms, joined
from equipoise.auditing.inputs import (
    AuditData,
    AuditSettings,
    crossed_name,
    read_data,
)
from equipoise.auditing.result import ALL_ROWS, Audit, AuditRow, NotAssessed
from equipoise.auditing.several import Audits
from equipoise.cores import count_jobs, in_threads
from equipoise.errors import InputError
from equipoise.inference import Estimate, permutation_test
from equipoise.inference.bootstrap import (
    estimates_of,
    hidden_in_bins,
    utility_differences,
    utility_intervals,
)
from equipoise.inference.certificate import CERTIFIED, certificate_of
from equipoise.inference.dependence_intervals import dependence_interval
from equipoise.inference.estimate import holm, notes
from equipoise.inference.gap import gap_estimates
from equipoise.inference.verdict import DEFAULT_LIMIT, Favourable
from equipoise.metrics.by_group import group_label
from equipoise.metrics.dependence import MEASURES
from equipoise.metrics.gap import GAPS
from equipoise.metrics.outcome import OutcomeKind
from equipoise.metrics.registry import METRICS, Metric
from equipoise.metrics.sample import (
    SMALL_GROUP,
    Intersection,
    Scored,
    Threshold,
    UtilityMeasure,
    intersect,
    prepare,
)
from equipoise.notions import Notion
from equipoise.report.page import Source
from equipoise.tables import Kind, SensitiveColumn, SensitiveTable
from equipoise.tables.sensitive_table import describe


@overload
def audit(scores: Mapping[str, Any], y: Any, sensitive_features: Any, **options: Any) -> Audits: ...


@overload
def audit(scores: Any, y: Any, sensitive_features: Any, **options: Any) -> Audit: ...


def audit(  # type: ignore[misc]  # overloads need not repeat every option
    scores: Any,
    y: Any,
    sensitive_features: Any,
    *,
    notion: Literal["independence", "separation"] | None = None,
    threshold: Threshold = "paper",
    positive: Hashable | None = None,
    outcome: OutcomeKind | None = None,
    favourable: Favourable = "high",
    decision: str = "",
    max_gap: float | Mapping[str, float] = DEFAULT_LIMIT,
    references: Mapping[str, Hashable] | None = None,
    intersections: bool = True,
    level: float = 0.95,
    draws: int = 200,
    permutations: int = 999,
    candidates: int = 1,
    random_state: int = 0,
    sensitive_types: Mapping[str, Kind] | None = None,
    missing_sensitive: Literal["error", "skip"] = "error",
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> Audit | Audits:
    """Assess how unfair scores are, how sure that is, and for whom.

    Parameters
    ----------
    scores : array or Series, shape (n,)
        Of any model: probabilities, predictions, points. A high score counts as favourable. A
        mapping of names to columns of scores audits several models side by side.
    y : array or Series, shape (n,), or None
        What came true. Without it only independence is assessed. Two values are a binary outcome,
        whose larger value is the positive one; numbers with more than 10 values are continuous,
        and the scores then predictions of them.
    sensitive_features : DataFrame, Series, array, dict of columns or SensitiveTable, n rows
    notion : {"independence", "separation"}, optional
        Both where y is given, else independence.
    threshold : "paper", "youden", float or None
        A decision is score > threshold. "paper" is Youden's J for a binary y and no decision
        otherwise.
    positive : value of y, optional
        The positive outcome; of several classes, one against the rest.
    outcome : {"binary", "multiclass", "continuous"}, optional
        What y is, where the rules would say otherwise.
    favourable : {"high", "low"}
        Whether a high or a low score is good for the person it is about: decides who is worst off.
    decision : str
        What a positive decision means, for sentences: "are invited". By default "are selected", or
        "are flagged" where a low score is favourable.
    max_gap : float or mapping of column name to float
        The limit that verdicts are about: the largest gap, 0.1 being 10 points, of every column or
        of those named.
    references : mapping of column name to category, optional
        Groups that SP and EO divide by; the largest group where not named.
    intersections : bool
        Whether to compare all combinations of the discrete columns too.
    level : float
        Of intervals and certificates.
    draws, permutations : int
        Bootstrap draws, and permutations of a test.
    candidates : int
        How many models these scores were picked from on these very rows; certificates hold for the
        best of so many.
    random_state : int
        The same number gives the same audit, whatever the order of the rows.
    sensitive_types : mapping of column name to "discrete" or "continuous", optional
    missing_sensitive : {"error", "skip"}
        "skip" assesses each column on the rows in which it is known, and shows the others as a
        group of their own.
    sample_weight : array or Series, shape (n,), optional
        How much each row counts, above 0. Only ratios of weights count; unequal ones make intervals
        wider. Certificates, permutation tests and measures of dependence take no weights.
    n_jobs : int, optional
        Number of threads; -1 is all cores. By default it is the number of threads of torch
        (``OMP_NUM_THREADS``), at most the cores that this process may use. Every number is the same
        in any number of threads.

    Returns
    -------
    Audit, or Audits of several models
        Print it for verdicts and next steps; `to_frame`, `to_html`, `to_json` and `plot` for the
        rest.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> sex = np.repeat(["F", "M"], 500)
    >>> scores = random.random(1000) + 0.3 * (sex == "M")
    >>> found = audit(scores, None, {"sex": sex})
    >>> found.to_frame().query("metric == 'gap'")[["attribute", "value", "p_value"]].round(3)
      attribute  value  p_value
    0       sex  0.294    0.001
    """
    jobs = count_jobs(n_jobs)
    settings = AuditSettings(
        notion=notion,
        threshold=threshold,
        positive=positive,
        outcome=outcome,
        favourable=favourable,
        decision=decision,
        max_gap=max_gap,
        references={} if references is None else references,
        intersections=intersections,
        level=level,
        draws=draws,
        permutations=permutations,
        candidates=candidates,
        random_state=random_state,
    )
    reading = {
        "types": sensitive_types,
        "missing": missing_sensitive,
        "sample_weight": sample_weight,
    }
    if not isinstance(scores, Mapping):
        arrived = read_data(scores, y, sensitive_features, settings, **reading)
        return audit_of(arrived, settings, jobs=jobs)
    if len(scores) < 2:
        raise InputError(
            f"scores must name at least two models to compare, got {list(scores)}; pass the scores "
            "of a single one as they are"
        )
    several = {
        str(name): read_data(each, y, sensitive_features, settings, **reading)
        for name, each in scores.items()
    }
    return audits_of(several, settings, jobs=jobs)


def audits_of(
    arrived: Mapping[str, AuditData | Sequence[AuditData]],
    settings: AuditSettings,
    single: Mapping[str, AuditData] | None = None,
    *,
    jobs: int = 1,
) -> Audits:
    """Audit several columns of scores of the same rows; arguments are as in `audit_of`."""
    # Whoever compares models on these rows picks one of them: certificates must hold for all.
    settings = replace(settings, candidates=max(settings.candidates, len(arrived)))
    audits = {
        name: audit_of(each, settings, None if single is None else single[name], jobs=jobs)
        for name, each in arrived.items()
    }
    by_row = [each for each in (single or arrived).values() if isinstance(each, AuditData)]
    return Audits(audits, *_compared_utility(by_row, settings, next(iter(audits.values())).n))


def audit_of(
    arrived: AuditData | Sequence[AuditData],
    settings: AuditSettings,
    single: AuditData | None = None,
    *,
    jobs: int = 1,
) -> Audit:
    """Audit one column of scores that was read before.

    Where rows stand for many, the same rows may arrive several times, each time with some of the
    sensitive columns, all discrete ones together; then `single` are some of the rows, each for
    itself, with all columns: measures of dependence and permutation tests need them. `jobs` is the
    number of threads.
    """
    given = [arrived] if isinstance(arrived, AuditData) else list(arrived)
    notions = settings.notions(outcome_given=given[0].y is not None)
    if not isinstance(settings.threshold, str):
        for each in given:
            each.scored(settings)  # an error about a score must name its position on arrival
    ordered = [each.sorted() for each in given]
    parts = tuple(_Part(each, each.scored(settings)) for each in ordered)
    data = ordered[0]
    rows_apart = data if single is None else single.sorted()
    assessor = _Assessor(parts, settings, notions, rows_apart)
    found = assessor.rows(jobs)
    rows = [row for row in found if isinstance(row, AuditRow)]
    names = rows_apart.table.names
    columns = tuple(assessor.part_of(name).data.table[name] for name in names)
    cut = parts[0].scored.threshold
    return Audit(
        rows=tuple(_adjusted(rows, ", ".join(names) if len(names) > 1 else "")),
        not_assessed=tuple(row for row in found if isinstance(row, NotAssessed)),
        settings=settings,
        notions=tuple(map(str, notions)),
        n=data.n,
        outcome=data.outcome,
        outcome_words=data.outcome_words,
        threshold=None if cut is None else float(cut[0]),
        sensitive=describe(columns, [assessor.part_of(name).data.people for name in names]),
        attributes=names,
        crossed=crossed_name(rows_apart.table) if settings.intersections else "",
        histograms=joined(map(histograms, ordered), names),
        bands=joined(map(bands, ordered), names),
        calibration=joined((calibration(each, settings.level) for each in ordered), names),
        weighted=data.weights is not None,
        source=Source(sha256=given[0].digest()),
        remedy=_remedy(data, settings),
        repeat="audit(scores, y, sensitive_features)",
    )


def _compared_utility(
    data: Sequence[AuditData], settings: AuditSettings, n: int
) -> tuple[str, tuple[Estimate, ...]]:
    """What utility is, and by how much every score but the first has more of it.

    The data may be some of n rows.
    """
    first = data[0]
    measure: UtilityMeasure = "AUC" if first.positive is not None else "R2"
    if first.y is None or first.outcome == "multiclass":
        return "", ()
    scored = prepare(
        np.stack([each.scores for each in data]),
        first.y,
        weights=first.weights,
        threshold=None,
        outcome=first.outcome,
    )
    found = utility_differences(
        scored,
        measure,
        draws=settings.draws,
        level=settings.level,
        random_state=settings.random_state,
    )
    used = _used(first.n, n)
    return measure, tuple(replace(each, note=notes(each.note, used)) for each in found)


def _remedy(data: AuditData, settings: AuditSettings) -> str:
    """The line of Python that trains a model within the limit."""
    estimator = "FairRegressor" if data.outcome == "continuous" else "FairClassifier"
    notion = "" if settings.notion is None else f"notion={settings.notion!r}"
    return (
        f"FairFrontier({estimator}({notion})).fit(X, y, sensitive_features=A)"
        f".select(max_gap={settings.max_gap!r}).model"
    )


Rows = Iterator[AuditRow | NotAssessed]
#: The row of an audit that tests a notion for an attribute, whatever the dependence looks like.
TEST = "permutation test"
#: Metrics whose p-values are adjusted together.
FAMILIES = (("gap", "gap given Y"), ("decision gap", "decision gap given Y"), (TEST,))


class _Part(NamedTuple):
    """Rows with some or all sensitive columns."""

    data: AuditData  # sorted
    scored: Scored  # made of `data`


@dataclass(frozen=True, eq=False)
class _Assessor:
    """Makes the rows of one audit."""

    parts: tuple[_Part, ...]  # the same rows, each with other columns
    settings: AuditSettings
    notions: tuple[Notion, ...]
    single: AuditData  # sorted rows of which each stands for itself, with all columns

    def part_of(self, name: str) -> _Part:
        """The rows with this column."""
        return next(part for part in self.parts if name in part.data.table.names)

    @property
    def data(self) -> AuditData:
        """Rows for what depends on no sensitive column."""
        return self.parts[0].data

    def rows(self, jobs: int) -> list[AuditRow | NotAssessed]:
        """Every number, computed in so many threads.

        First comes utility, then unfairness by attribute, then groups.
        """
        makers = in_threads(lambda make: list(make()), self._makers(), jobs)
        return [row for rows in makers for row in rows]

    def _makers(self) -> Iterator[Callable[[], Rows]]:
        """Yield functions that make the rows; none needs another."""
        yield self._utility
        table = self.single.table
        for name in table.names:
            part = self.part_of(name)
            column = part.data.table[name]
            yield partial(self._gaps, (part, column), attribute=name)
            yield partial(self._comparisons, part, column)
            yield from self._dependence(SensitiveTable((table[name],)), name)
        if len(table.columns) > 1:
            pairs = [
                (part, part.data.table[name])
                for name, part in ((name, self.part_of(name)) for name in table.names)
            ]
            yield partial(self._gaps, *pairs, attribute=", ".join(table.names))
            yield from self._dependence(table, ", ".join(table.names))
        crossed = None
        discrete = self.single.discrete
        if self.settings.intersections and len(discrete) > 1:
            part = self.part_of(discrete[0].name)
            try:
                crossed = intersect(part.data.discrete)
            except InputError as too_many:
                names = " x ".join(column.name for column in discrete)
                yield partial(iter, [NotAssessed("intersections", names, str(too_many))])
        if crossed is not None:
            yield partial(self._gaps, (part, crossed.column), attribute=crossed.column.name)
            yield partial(self._comparisons, part, crossed.column)
            # Where all columns are discrete, it is the test of all columns.
            if self.data.weights is None and len(discrete) < len(table.columns):
                yield partial(self._tests, SensitiveTable(discrete), crossed.column.name)
        yield partial(self._groups, crossed)

    def _utility(self) -> Rows:
        measures: tuple[UtilityMeasure, ...] = ()
        if self.data.positive is not None:
            measures = ("AUC",)
        elif self.data.outcome == "continuous":
            measures = ("MAE", "R2")
        found = utility_intervals(
            self.parts[0].scored,
            measures,
            draws=self.settings.draws,
            level=self.settings.level,
            random_state=self.settings.random_state,
        )
        for measure, (estimate,) in zip(measures, found, strict=True):
            yield AuditRow("", measure, "", ALL_ROWS, estimate)

    def _comparisons(self, part: _Part, column: SensitiveColumn) -> Rows:
        """Metrics that compare groups or ranges of one column."""
        settings, data = self.settings, part.data
        sample = part.scored.against(column, settings.references.get(column.name))
        chosen: list[Metric] = []
        for metric in METRICS.values():
            # Gaps and measures of dependence have rows of their own.
            own_rows = metric.name in GAPS or metric.name.removesuffix("|Y") in MEASURES
            if own_rows or not self._asked_for(metric, column):
                continue
            problem = metric.why_not(sample)
            if problem is None:
                chosen.append(metric)
            else:
                yield NotAssessed(metric.name, column.name, problem)
        small = _small_groups(column, data.people)
        found = estimates_of(chosen, sample, settings.draws, settings.level, settings.random_state)
        for metric, estimate in zip(chosen, found, strict=True):
            bound, remark = certificate_of(
                metric,
                data.ranked,
                column,
                data.y,
                data.outcome,
                level=settings.level,
                candidates=settings.candidates,
                weights=data.weights,
                people=data.people,
            )
            bound += hidden_in_bins(sample, metric.notion) if metric.name in CERTIFIED else 0.0
            caveat = metric.caveat(self.data.outcome)
            estimate = estimate.certified(bound, notes(caveat, remark, small))
            yield AuditRow(str(metric.notion or ""), metric.name, column.name, ALL_ROWS, estimate)

    def _asked_for(self, metric: Metric, column: SensitiveColumn) -> bool:
        """Whether the metric's notion is assessed; what belongs to neither is, where both are."""
        if metric.notion is not None:
            return metric.notion in self.notions
        fits = self.data.outcome in metric.outcomes and column.kind in metric.attributes
        return fits and self.settings.notion is None

    def _gaps(self, *columns: tuple[_Part, SensitiveColumn], attribute: str) -> Rows:
        """Gaps over the groups of these columns."""
        settings = self.settings
        samples = [part.scored.against(column) for part, column in columns]
        for metric in (METRICS[name] for name in GAPS):
            if metric.notion not in self.notions:
                continue
            problem = metric.why_not(samples[0])
            if problem is not None:
                yield NotAssessed(metric.name, attribute, problem)
                continue
            (estimate,) = gap_estimates(
                metric,
                *samples,
                level=settings.level,
                permutations=settings.permutations,
                candidates=settings.candidates,
                random_state=settings.random_state,
            )
            yield AuditRow(str(metric.notion), metric.name, attribute, ALL_ROWS, estimate)

    def _dependence(self, table: SensitiveTable, attribute: str) -> Iterator[Callable[[], Rows]]:
        """As `_makers`: measures of dependence on these columns jointly, and the test of it."""
        if self.data.weights is not None:
            why = "does not take row weights"
            yield partial(iter, [NotAssessed(name, attribute, why) for name in (*MEASURES, TEST)])
            return
        for notion in self.notions:
            for name in MEASURES:
                yield partial(self._measure, name, table, attribute, notion)
        yield partial(self._tests, table, attribute)

    def _measure(self, name: str, table: SensitiveTable, attribute: str, notion: Notion) -> Rows:
        """One measure of dependence on these columns jointly."""
        found = dependence_interval(
            name,
            self.single.scores,
            table,
            **self._given(notion),
            draws=self.settings.draws,
            level=self.settings.level,
            random_state=self.settings.random_state,
        )
        used = _used(found.n, self._known(table))
        estimate = replace(found, note=notes(found.note, used))
        metric = f"{name}|Y" if notion.conditions_on_outcome else name
        yield AuditRow(str(notion), metric, attribute, ALL_ROWS, estimate)

    def _known(self, table: SensitiveTable) -> int:
        """Of how many rows these columns are known; of rows that were drawn, about so many."""
        return round(self.data.n * float(table.known.mean()))

    def _tests(self, table: SensitiveTable, attribute: str) -> Rows:
        """Whether scores depend on these columns jointly, notion by notion."""
        known = self._known(table)
        for notion in self.notions:
            try:
                found = permutation_test(
                    self.single.scores,
                    table,
                    **self._given(notion),
                    permutations=self.settings.permutations,
                    random_state=self.settings.random_state,
                )
            except InputError as impossible:
                yield NotAssessed(TEST, attribute, str(impossible))
                continue
            estimate = replace(found, note=notes(found.note, _used(found.n, known)))
            yield AuditRow(str(notion), TEST, attribute, ALL_ROWS, estimate)

    def _given(self, notion: Notion) -> dict[str, Any]:
        """What a notion is conditioned on."""
        given = notion.conditions_on_outcome
        return {"y": self.single.y, "outcome": self.single.outcome} if given else {}

    def _groups(self, crossed: Intersection | None) -> Rows:
        cut = self.parts[0].scored.threshold
        threshold = None if cut is None else float(cut[0])
        for name in self.single.table.names:
            data = self.part_of(name).data
            yield from group_rows(data.table[name], data, threshold, self.settings.level)
        if crossed is None:
            return
        data = self.part_of(self.single.discrete[0].name).data
        yield from group_rows(crossed.column, data, threshold, self.settings.level)
        for combination in crossed.empty:
            estimate = Estimate(reason="no row has this combination")
            group = group_label(combination)
            yield AuditRow("", "mean score", crossed.column.name, group, estimate)


def _adjusted(rows: Sequence[AuditRow], jointly: str) -> Iterator[AuditRow]:
    """The rows with p-values adjusted for all attributes and notions (Holm).

    Gaps, decision gaps and permutation tests answer different questions and are adjusted by
    themselves. The gap of all attributes `jointly` counts them already.
    """
    p_adjusted: dict[int, float] = {}
    for family in FAMILIES:
        places = [place for place, row in enumerate(rows) if row.metric in family]
        together = [p for p in places if rows[p].attribute == jointly and TEST not in family]
        places = [place for place in places if place not in together]
        p_adjusted |= {place: rows[place].p_value for place in together}
        p_adjusted |= dict(zip(places, holm([rows[p].p_value for p in places]), strict=True))
    for place, row in enumerate(rows):
        adjusted = float(p_adjusted.get(place, math.nan))
        yield replace(row, estimate=replace(row.estimate, p_adjusted=adjusted))


def _used(rows: int, known: int) -> str:
    """How many rows a number is computed from, if not from all."""
    return f"computed on {rows} of {known} rows" if rows < known else ""


def _small_groups(column: SensitiveColumn, people: NDArray[np.float64]) -> str:
    """How many groups are small; a sum over groups rests on them as much as on the others."""
    if column.codes is None:
        return ""
    known = ~column.missing
    sizes = np.bincount(column.codes[known], people[known], len(column.categories))
    small = int((sizes < SMALL_GROUP).sum())
    return f"{small} of {len(sizes)} groups with fewer than {SMALL_GROUP} rows" if small else ""
