"""`audit`: read, measure, gather."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from equipoise.auditing.groups import bands, group_label, group_rows, histograms
from equipoise.auditing.inputs import AuditData, AuditSettings, Favourable, read_data
from equipoise.auditing.result import ALL_ROWS, Audit, AuditRow, NotAssessed
from equipoise.errors import InputError
from equipoise.inference import Estimate, permutation_test
from equipoise.inference.bootstrap import estimates_of, utility_intervals
from equipoise.inference.certificate import certificate_of
from equipoise.inference.dependence_intervals import dependence_interval
from equipoise.inference.estimate import notes
from equipoise.metrics.dependence import MEASURES
from equipoise.metrics.outcome import OutcomeKind
from equipoise.metrics.registry import METRICS, Metric
from equipoise.metrics.sample import (
    SMALL_GROUP,
    Intersection,
    Scored,
    Threshold,
    UtilityMeasure,
    intersect,
)
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
        How many models these scores were picked from on these very rows; certificates hold for the
        best of so many.
    random_state : int
        The same number gives the same audit, whatever the order of the rows. The exception is a
        certificate for a continuous column or outcome: the rows it sets aside depend on the order.
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
        scores, y, sensitive_features, settings, types=sensitive_types, missing=missing_sensitive
    )
    notions = settings.notions(outcome_given=arrived.y is not None)
    if not isinstance(threshold, str):
        arrived.scored(settings)  # an error about a score must name its position on arrival
    data = arrived.sorted()
    scored = data.scored(settings)
    found = list(_Assessor(data, arrived, scored, settings, notions).rows())
    return Audit(
        rows=tuple(row for row in found if isinstance(row, AuditRow)),
        not_assessed=tuple(row for row in found if isinstance(row, NotAssessed)),
        settings=settings,
        notions=tuple(map(str, notions)),
        n=len(data.scores),
        outcome=data.outcome,
        outcome_words=data.outcome_words,
        threshold=None if scored.threshold is None else float(scored.threshold[0]),
        sensitive=data.table.describe(),
        attributes=data.table.names,
        histograms=histograms(data),
        bands=bands(data),
    )


Rows = Iterator[AuditRow | NotAssessed]


@dataclass(frozen=True, eq=False)
class _Assessor:
    """Makes the rows of one audit."""

    data: AuditData  # sorted
    arrived: AuditData  # the same rows in their order of arrival, for certificates
    scored: Scored  # made of `data`
    settings: AuditSettings
    notions: tuple[Notion, ...]

    def rows(self) -> Rows:
        """Every number: utility, then unfairness by attribute, then groups."""
        yield from self._utility()
        table = self.data.table
        for column in table.columns:
            alone = SensitiveTable((column,))
            tests = self._tests(alone)
            yield from self._comparisons(column, self.arrived.table[column.name], tests)
            yield from self._dependence(alone, column.name, tests)
        if len(table.columns) > 1:
            yield from self._dependence(table, ", ".join(table.names), self._tests(table))
        crossed = None
        if self.settings.intersections and len(self.data.discrete) > 1:
            try:
                crossed = intersect(self.data.discrete)
            except InputError as too_many:
                names = " x ".join(column.name for column in self.data.discrete)
                yield NotAssessed("intersections", names, str(too_many))
        if crossed is not None:
            tests = self._tests(SensitiveTable(self.data.discrete))
            arrived = intersect(self.arrived.discrete).column
            yield from self._comparisons(crossed.column, arrived, tests)
        yield from self._groups(crossed)

    def _utility(self) -> Rows:
        measures: tuple[UtilityMeasure, ...] = ()
        if self.data.positive is not None:
            measures = ("AUC",)
        elif self.data.outcome == "continuous":
            measures = ("MAE", "R2")
        found = utility_intervals(
            self.scored,
            measures,
            draws=self.settings.draws,
            level=self.settings.level,
            random_state=self.settings.random_state,
        )
        for measure, (estimate,) in zip(measures, found, strict=True):
            yield AuditRow("", measure, "", ALL_ROWS, estimate)

    def _comparisons(
        self, column: SensitiveColumn, arrived: SensitiveColumn, tests: dict[Notion, Estimate]
    ) -> Rows:
        """Metrics that compare groups or ranges of one column."""
        settings = self.settings
        sample = self.scored.against(column, settings.references.get(column.name))
        chosen: list[Metric] = []
        for metric in METRICS.values():
            # The measures of dependence have rows of their own.
            if not self._asked_for(metric, column) or metric.name.removesuffix("|Y") in MEASURES:
                continue
            problem = metric.why_not(sample)
            if problem is None:
                chosen.append(metric)
            else:
                yield NotAssessed(metric.name, column.name, problem)
        small = _small_groups(column)
        found = estimates_of(chosen, sample, settings.draws, settings.level, settings.random_state)
        for metric, estimate in zip(chosen, found, strict=True):
            # What belongs to neither notion is described, not tested.
            test = Estimate() if metric.notion is None else tests[metric.notion]
            bound, remark = certificate_of(
                metric,
                self.arrived.scores,
                arrived,
                self.arrived.y,
                self.arrived.outcome,
                level=settings.level,
                candidates=settings.candidates,
                random_state=settings.random_state,
            )
            note = notes(estimate.note, test.note, remark, small)
            estimate = replace(estimate, p=test.p, certificate=bound, note=note)
            yield AuditRow(str(metric.notion or ""), metric.name, column.name, ALL_ROWS, estimate)

    def _asked_for(self, metric: Metric, column: SensitiveColumn) -> bool:
        """Whether the metric's notion is assessed; what belongs to neither is, where both are."""
        if metric.notion is not None:
            return metric.notion in self.notions
        fits = self.data.outcome in metric.outcomes and column.kind in metric.attributes
        return fits and self.settings.notion is None

    def _dependence(
        self, table: SensitiveTable, attribute: str, tests: dict[Notion, Estimate]
    ) -> Rows:
        known = int(table.known.sum())
        for notion in self.notions:
            for name in MEASURES:
                found = dependence_interval(
                    name,
                    self.data.scores,
                    table,
                    **self._given(notion),
                    draws=self.settings.draws,
                    level=self.settings.level,
                    random_state=self.settings.random_state,
                )
                used = f"computed on {found.n} of {known} rows" if found.n < known else ""
                estimate = replace(found, p=tests[notion].p, note=notes(used, tests[notion].note))
                metric = f"{name}|Y" if notion.conditions_on_outcome else name
                yield AuditRow(str(notion), metric, attribute, ALL_ROWS, estimate)

    def _tests(self, table: SensitiveTable) -> dict[Notion, Estimate]:
        """Whether scores depend on these columns, notion by notion."""
        found = {}
        for notion in self.notions:
            try:
                found[notion] = permutation_test(
                    self.data.scores,
                    table,
                    **self._given(notion),
                    permutations=self.settings.permutations,
                    random_state=self.settings.random_state,
                )
            except InputError as impossible:
                found[notion] = Estimate(note=f"no test: {impossible}")
        return found

    def _given(self, notion: Notion) -> dict[str, Any]:
        """What a notion is conditioned on."""
        given = notion.conditions_on_outcome
        return {"y": self.data.y, "outcome": self.data.outcome} if given else {}

    def _groups(self, crossed: Intersection | None) -> Rows:
        threshold = None if self.scored.threshold is None else float(self.scored.threshold[0])
        columns = [*self.data.table.columns, *([] if crossed is None else [crossed.column])]
        for column in columns:
            yield from group_rows(column, self.data, threshold, self.settings.level)
        for combination in () if crossed is None else crossed.empty:
            estimate = Estimate(reason="no row has this combination")
            group = group_label(combination)
            yield AuditRow("", "mean score", columns[-1].name, group, estimate)


def _small_groups(column: SensitiveColumn) -> str:
    """How many groups are small; a sum over groups rests on them as much as on the others."""
    if column.codes is None:
        return ""
    sizes = np.bincount(column.codes[~column.missing], minlength=len(column.categories))
    small = int((sizes < SMALL_GROUP).sum())
    return f"{small} of {len(sizes)} groups with fewer than {SMALL_GROUP} rows" if small else ""
