"""Rows about unfairness: metrics with intervals, tests of the notion, certificates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from equipoise.auditing.inputs import AuditData
from equipoise.auditing.rows import ALL_ROWS, NAN, AuditRow, NotAssessed
from equipoise.auditing.settings import AuditSettings
from equipoise.errors import InputError
from equipoise.inference.bootstrap import Interval, intervals_of
from equipoise.inference.certificate import certify
from equipoise.inference.dependence_intervals import MEASURES, dependence_interval
from equipoise.inference.permutation import permutation_test
from equipoise.metrics.groups import SMALL_GROUP, Intersection
from equipoise.metrics.registry import METRICS, Metric
from equipoise.metrics.sample import Scored
from equipoise.notions import Notion
from equipoise.tables import SensitiveColumn, SensitiveTable

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
