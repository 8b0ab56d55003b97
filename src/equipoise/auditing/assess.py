"""`audit`: read, measure, gather."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from equipoise.auditing.groups import (
    Treatment,
    along_attribute,
    by_group,
    group_label,
    group_rows,
    grouping,
)
from equipoise.auditing.inputs import AuditData, AuditSettings, Favourable, read_data
from equipoise.auditing.result import ALL_ROWS, NAN, Audit, AuditRow, NotAssessed
from equipoise.errors import InputError
from equipoise.inference.bootstrap import Interval, intervals_of
from equipoise.inference.certificate import certify
from equipoise.inference.dependence_intervals import MEASURES, dependence_interval
from equipoise.inference.permutation import permutation_test
from equipoise.inference.utility_intervals import auc_interval, regression_intervals
from equipoise.metrics.outcome import OutcomeKind
from equipoise.metrics.registry import METRICS, Metric
from equipoise.metrics.sample import SMALL_GROUP, Intersection, Scored, Threshold
from equipoise.notions import Notion
from equipoise.tables import Kind, SensitiveColumn, SensitiveTable


def audit(
    scores: Any,
    y: Any,
    sensitive_features: Any,
    *,
    notion: Literal["independence", "separation"] | None = None,
    threshold: Threshold = "paper",
    positive: Hashable | None = None,
    outcome: OutcomeKind | None = None,
    favourable: Favourable = "high",
    references: Mapping[str, Hashable] | None = None,
    intersections: bool = True,
    level: float = 0.95,
    draws: int = 200,
    permutations: int = 999,
    candidates: int = 1,
    random_state: int = 0,
    sensitive_types: Mapping[str, Kind] | None = None,
    missing_sensitive: Literal["error", "skip"] = "error",
) -> Audit:
    """Assess how unfair scores are, how sure that is, and for whom.

    Parameters
    ----------
    scores : array or Series, shape (n,)
        Of any model: probabilities, predictions, points. A high score counts as favourable.
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
    references : mapping of column name to category, optional
        Groups that SP and EO divide by; the largest group where not named.
    intersections : bool
        Whether to compare all combinations of the discrete columns too.
    level : float
        Of intervals and certificates.
    draws, permutations : int
        Bootstrap draws, and permutations of a test.
    candidates : int
        How many scores these one was picked from on these very rows; certificates hold for the best
        of so many.
    random_state : int
        The same number gives the same audit, whatever the order of the rows (a certificate for a
        continuous column or outcome apart, whose rows set aside depend on it).
    sensitive_types : mapping of column name to "discrete" or "continuous", optional
    missing_sensitive : {"error", "skip"}
        "skip" assesses each column on the rows in which it is known, and shows the others as a
        group of their own.

    Returns
    -------
    Audit
        Print it for a summary; `to_frame`, `to_json` and `plot` for the rest.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> sex = np.repeat(["F", "M"], 500)
    >>> scores = random.random(1000) + 0.3 * (sex == "M")
    >>> found = audit(scores, None, {"sex": sex})
    >>> found.to_frame().query("metric == 'KS-GSP'")[["attribute", "value", "p_value"]].round(3)
      attribute  value  p_value
    0       sex  0.306    0.001
    """
    settings = AuditSettings(
        notion=notion,
        threshold=threshold,
        positive=positive,
        outcome=outcome,
        favourable=favourable,
        references={} if references is None else references,
        intersections=intersections,
        level=level,
        draws=draws,
        permutations=permutations,
        candidates=candidates,
        random_state=random_state,
    )
    arrived = read_data(
        scores,
        y,
        sensitive_features,
        settings,
        sensitive_types=sensitive_types,
        missing_sensitive=missing_sensitive,
    )
    notions = settings.notions(outcome_given=arrived.y is not None)
    if not isinstance(threshold, str):
        arrived.scored(settings)  # an error about a score must name its position on arrival
    data = arrived.sorted()
    scored = data.scored(settings)
    assessor = Assessor(data, arrived, scored, settings, notions)
    cut = None if scored.threshold is None else float(scored.threshold[0])
    found = [
        *_utility(data, settings),
        *_unfairness(assessor),
        *_groups(data, cut, settings),
    ]
    return Audit(
        rows=tuple(row for row in found if isinstance(row, AuditRow)),
        not_assessed=tuple(row for row in found if isinstance(row, NotAssessed)),
        settings=settings,
        notions=tuple(map(str, notions)),
        n=len(data.scores),
        outcome=data.outcome,
        outcome_words=data.outcome_words,
        threshold=cut,
        sensitive=data.table.describe(),
        attributes=data.table.names,
        histograms=by_group(data),
        bands=along_attribute(data),
    )


def _utility(data: AuditData, settings: AuditSettings) -> Iterator[AuditRow]:
    options: dict[str, Any] = {
        "draws": settings.draws,
        "level": settings.level,
        "random_state": settings.random_state,
    }
    if data.positive is not None:
        found = [auc_interval(data.scores, data.positive, **options)]
    elif data.outcome == "continuous" and data.y is not None:
        found = [*regression_intervals(data.scores, data.y, **options)]
    else:
        found = []
    for each in found:
        holds = math.isfinite(each.value)
        yield AuditRow(
            notion="",
            metric=each.metric,
            attribute="",
            group=ALL_ROWS,
            value=each.value if holds else NAN,
            low=each.low if holds else NAN,
            high=each.high if holds else NAN,
            n=each.rows,
            reason="" if holds else f"a float cannot hold it, {each.value}; rescale scores and y",
        )


def _unfairness(assessor: Assessor) -> Iterator[AuditRow | NotAssessed]:
    for column in assessor.data.table.columns:
        yield from assessor.column(column)
    if len(assessor.data.table.columns) > 1:
        yield from assessor.jointly()
    if not assessor.settings.intersections or len(assessor.data.discrete) < 2:
        return
    try:
        here, arrived = assessor.data.intersection(), assessor.arrived.intersection()
    except InputError as too_many:
        names = " x ".join(column.name for column in assessor.data.discrete)
        yield NotAssessed("intersections", names, str(too_many))
        return
    assert here is not None and arrived is not None
    yield from assessor.crossed(here, arrived)


def _groups(data: AuditData, cut: float | None, settings: AuditSettings) -> Iterator[AuditRow]:
    continuous = data.outcome == "continuous" and data.y is not None
    treatment = Treatment(
        scores=data.scores,
        decisions=None if cut is None else data.scores > cut,
        positive=data.positive,
        errors=data.scores - data.y if continuous and data.y is not None else None,
    )
    for column in data.table.columns:
        yield from group_rows(grouping(column), treatment, settings.level)
    if not settings.intersections or len(data.discrete) < 2:
        return
    try:
        crossed = data.intersection()
    except InputError:  # said among what is not assessed
        return
    assert crossed is not None
    yield from group_rows(grouping(crossed.column), treatment, settings.level)
    for combination in crossed.empty:
        yield AuditRow(
            notion="",
            metric="mean score",
            attribute=crossed.column.name,
            group=group_label(combination),
            value=NAN,
            n=0,
            reason="no row has this combination",
        )


#: Metrics that compare sets of rows; the measures of dependence have rows of their own.
COMPARISONS = tuple(metric for metric in METRICS.values() if metric.deviation is not None)
_CERTIFIED = {Notion.INDEPENDENCE: "KS-GSP", Notion.SEPARATION: "KS-GEO"}


@dataclass(frozen=True)
class _Test:
    """P-value of one notion for one attribute, and what to know about it."""

    p_value: float
    note: str


@dataclass(frozen=True, eq=False)
class Assessor:
    """Makes the rows of one audit.

    Attributes
    ----------
    data : AuditData
        Sorted.
    arrived : AuditData
        The same rows in their order of arrival, for certificates.
    scored : Scored
        Of `data`.
    settings : AuditSettings
    notions : tuple of Notion
    """

    data: AuditData
    arrived: AuditData
    scored: Scored
    settings: AuditSettings
    notions: tuple[Notion, ...]

    def column(self, column: SensitiveColumn) -> Iterator[AuditRow | NotAssessed]:
        """Everything about one sensitive column."""
        table = SensitiveTable((column,))
        tests = self._tests(table)
        yield from self._comparisons(column, self.arrived.table[column.name], tests)
        yield from self._dependence(table, column.name, tests)

    def crossed(
        self, here: Intersection, arrived: Intersection
    ) -> Iterator[AuditRow | NotAssessed]:
        """The comparisons among all combinations of the discrete columns."""
        tests = self._tests(SensitiveTable(self.data.discrete))
        yield from self._comparisons(here.column, arrived.column, tests)

    def jointly(self) -> Iterator[AuditRow | NotAssessed]:
        """The dependence on all columns taken together."""
        table = self.data.table
        yield from self._dependence(table, ", ".join(table.names), self._tests(table))

    def _comparisons(
        self,
        column: SensitiveColumn,
        arrived: SensitiveColumn,
        tests: dict[Notion, _Test],
    ) -> Iterator[AuditRow | NotAssessed]:
        settings = self.settings
        sample = self.scored.against(column, settings.references.get(column.name))
        chosen: list[Metric] = []
        for metric in COMPARISONS:
            if metric.notion not in self.notions:
                continue
            problem = metric.why_not(sample)
            if problem is None:
                chosen.append(metric)
            else:
                yield NotAssessed(metric.name, column.name, problem)
        n, small = int((~column.missing).sum()), _small_groups(column)
        found = intervals_of(chosen, sample, settings.draws, settings.level, settings.random_state)
        for metric, interval in zip(chosen, found, strict=True):
            test = tests[metric.notion]
            bound, remark = NAN, ""
            if metric.name == _CERTIFIED[metric.notion]:
                bound, remark = self._certificate(arrived, metric.notion)
            notes = (*_interval_notes(interval, settings.draws), test.note, remark, small)
            yield AuditRow(
                notion=str(metric.notion),
                metric=metric.name,
                attribute=column.name,
                group=ALL_ROWS,
                value=interval.value,
                low=interval.low,
                high=interval.high,
                p_value=test.p_value,
                certificate=bound,
                n=n,
                reason=interval.reason or "",
                note="; ".join(filter(None, notes)),
            )

    def _dependence(
        self, table: SensitiveTable, attribute: str, tests: dict[Notion, _Test]
    ) -> Iterator[AuditRow]:
        settings, data = self.settings, self.data
        known = int(table.known.sum())
        for notion in self.notions:
            given = notion.conditions_on_outcome
            for name in MEASURES:
                found = dependence_interval(
                    name,
                    data.scores,
                    table,
                    y=data.y if given else None,
                    outcome=data.outcome if given else None,
                    draws=settings.draws,
                    level=settings.level,
                    random_state=settings.random_state,
                )
                used = f"computed on {found.rows} of {known} rows" if found.rows < known else ""
                yield AuditRow(
                    notion=str(notion),
                    metric=f"{name}|Y" if given else name,
                    attribute=attribute,
                    group=ALL_ROWS,
                    value=found.value,
                    low=found.low,
                    high=found.high,
                    p_value=tests[notion].p_value,
                    n=found.rows,
                    reason=found.reason or "",
                    note="; ".join(filter(None, (used, tests[notion].note))),
                )

    def _tests(self, table: SensitiveTable) -> dict[Notion, _Test]:
        return {notion: self._test(table, notion) for notion in self.notions}

    def _test(self, table: SensitiveTable, notion: Notion) -> _Test:
        given = notion.conditions_on_outcome
        try:
            found = permutation_test(
                self.data.scores,
                table,
                y=self.data.y if given else None,
                outcome=self.data.outcome if given else None,
                permutations=self.settings.permutations,
                random_state=self.settings.random_state,
            )
        except InputError as impossible:
            return _Test(NAN, f"no test: {impossible}")
        note = "" if found.exact else "the level of the test is approximate for a continuous y"
        return _Test(float(found.p_value), note)

    def _certificate(self, column: SensitiveColumn, notion: Notion) -> tuple[float, str]:
        """Upper bound, or NaN and why there is none."""
        given = notion.conditions_on_outcome
        try:
            found = certify(
                self.arrived.scores,
                column,
                y=self.arrived.y if given else None,
                outcome=self.arrived.outcome if given else None,
                level=self.settings.level,
                candidates=self.settings.candidates,
                random_state=self.settings.random_state,
            )
        except InputError as impossible:
            return NAN, f"no certificate: {impossible}"
        return float(found.upper), ""


def _small_groups(column: SensitiveColumn) -> str:
    """How many groups are small; a sum over groups rests on them as much as on the others."""
    if column.codes is None:
        return ""
    sizes = np.bincount(column.codes[~column.missing], minlength=len(column.categories))
    small = int((sizes < SMALL_GROUP).sum())
    return f"{small} of {len(sizes)} groups with fewer than {SMALL_GROUP} rows" if small else ""


def _interval_notes(interval: Interval, draws: int) -> Iterator[str]:
    if interval.undefined_draws:
        yield f"undefined in {interval.undefined_draws} of {draws} draws, which are left out"
    if interval.bin_share:
        yield f"draws from binned scores, which move a distance by at most {interval.bin_share:.2g}"
