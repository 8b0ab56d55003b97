"""What snapshots are judged by: one utility, and metrics of unfairness by attribute."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from equipoise.errors import InputError
from equipoise.frontier.rows import HeldOut
from equipoise.metrics import Metric, OutcomeKind, Sample, find_metric, prepare
from equipoise.notions import Notion

UtilityName = Literal["AUC", "macro AUC", "R2"]

#: What is called utility, by the kind of outcome.
UTILITIES: Mapping[OutcomeKind, UtilityName] = {
    "binary": "AUC",
    "multiclass": "macro AUC",
    "continuous": "R2",
}
#: Utility of a score that knows nothing.
UNINFORMED: Mapping[UtilityName, float] = {"AUC": 0.5, "macro AUC": 0.5, "R2": 0.0}


@dataclass(frozen=True)
class Criteria:
    """One utility (larger is better) and M measures of unfairness (0 is fair).

    Attributes
    ----------
    utility : {"AUC", "macro AUC", "R2"}
    measures : tuple of (name of a metric, attribute)
        By metric, then by attribute; the first metric is the one meant where none is named.
    """

    utility: UtilityName
    measures: tuple[tuple[str, str], ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return tuple(dict.fromkeys(metric for metric, _ in self.measures))

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each measure, as tables print it."""
        return tuple(f"{metric} {attribute}" for metric, attribute in self.measures)

    @property
    def fronts(self) -> tuple[tuple[int, ...], ...]:
        """The fronts to keep: each measure by itself, and each metric by all attributes at once.

        The best snapshot within limits on several attributes may be on no front of a single one,
        but it is on the front of all of them.
        """
        single = [(number,) for number in range(len(self.measures))]
        joint = [tuple(self.by_attribute(metric).values()) for metric in self.metrics]
        return tuple(dict.fromkeys([*single, *joint]))

    def by_attribute(self, metric: str) -> dict[str, int]:
        """Position among the measures of this metric for each attribute it is defined for."""
        return {
            attribute: number
            for number, (each, attribute) in enumerate(self.measures)
            if each == metric
        }

    def find(self, metric: str | None) -> str:
        """The metric of this name, or the first."""
        if metric is None:
            return self.metrics[0]
        if metric not in self.metrics:
            raise InputError(
                f"metric must be one the frontier was judged by ({', '.join(self.metrics)}), got "
                f"{metric!r}{_did_you_mean(metric, self.metrics)}; name it in metrics= and fit "
                "again to add it"
            )
        return metric

    def find_attribute(
        self, metric: str, attribute: str, *, rule: str = "attribute must be a sensitive column"
    ) -> int:
        """Position of the measure for this attribute; ``rule`` begins the message if none."""
        known = self.by_attribute(metric)
        if not isinstance(attribute, str) or attribute not in known:
            raise InputError(
                f"{rule} that {metric} was measured for "
                f"({', '.join(known)}), got {attribute!r}{_did_you_mean(attribute, tuple(known))}"
            )
        return known[attribute]

    def one(self, metric: str | None, attribute: str | None) -> int:
        """Position of one measure; the attribute may be left out where there is one."""
        name = self.find(metric)
        if attribute is not None:
            return self.find_attribute(name, attribute)
        known = self.by_attribute(name)
        if len(known) > 1:
            raise InputError(
                f"attribute must be named where there are several ({', '.join(known)}), got none"
            )
        return next(iter(known.values()))


def criteria_for(
    metrics: Literal["default"] | Sequence[str], notion: str, *parts: HeldOut
) -> Criteria:
    """Find which metrics apply to which attributes, and refuse parts on which they would fail.

    ``"default"`` is the paper's distance of distributions for the notion, and its parity of
    decisions where the outcome is binary.
    """
    rows = parts[0]
    names: tuple[str, ...]
    if isinstance(metrics, str):
        if metrics != "default":
            raise InputError(f"metrics must be 'default' or a sequence of names, got {metrics!r}")
        separation = Notion.parse(notion).conditions_on_outcome
        distance, parity = ("KS-GEO", "EO") if separation else ("KS-GSP", "SP")
        names = (distance, parity) if rows.outcome == "binary" else (distance,)
    else:
        listed = metrics.tolist() if isinstance(metrics, np.ndarray) else metrics
        if not isinstance(listed, Sequence) or not all(isinstance(name, str) for name in listed):
            raise InputError(f"metrics must be 'default' or a sequence of names, got {metrics!r}")
        names = tuple(dict.fromkeys(listed))
        if not names:
            raise InputError("metrics must name at least one metric, got none")
    chosen = [find_metric(name) for name in names]
    for metric in chosen:
        if metric.fair_value != 0:
            raise InputError(
                f"metrics must be 0 for a fair score, got {metric.name!r}, which is "
                f"{metric.fair_value:g}; take the difference instead of the ratio"
            )
        if rows.weights is not None and not metric.weighted:
            raise InputError(
                f"metrics must count row weights when sample_weight is given, got {metric.name!r}, "
                "which does not; leave one of the two out"
            )
    samples = [samples_of(part) for part in parts]
    measures = [
        (metric.name, attribute)
        for metric in chosen
        for attribute in _applicable(metric, samples[0])
    ]
    criteria = Criteria(UTILITIES[rows.outcome], tuple(measures))
    for part, beside in zip(parts, samples, strict=True):
        _refuse_empty_sets(criteria, part, beside)
    return criteria


def _applicable(metric: Metric, samples: Mapping[str, Sample]) -> list[str]:
    """Attributes the metric is defined for, at least one."""
    problems = {name: metric.why_not(sample) for name, sample in samples.items()}
    found = [name for name, problem in problems.items() if problem is None]
    if not found:
        raise InputError(f"metrics must apply to some attribute: {next(iter(problems.values()))}")
    return found


def samples_of(rows: HeldOut) -> dict[str, Sample]:
    """Any scores, all distinct, beside each attribute: what metrics need to know of the rows."""
    try:
        any_scores = np.linspace(0.0, 1.0, len(rows))
        scored = prepare(any_scores, rows.y, weights=rows.weights, outcome=rows.outcome)
        return {column.name: scored.against(column) for column in rows.table.columns}
    except InputError as problem:
        raise InputError(
            f"the {len(rows)} {rows.part} rows do not suffice: {problem}; or merge rare groups, "
            f"or raise {rows.part}"
        ) from None


def _refuse_empty_sets(criteria: Criteria, rows: HeldOut, samples: Mapping[str, Sample]) -> None:
    """Say before training, not after, that a metric has no rows to compare."""
    for name, attribute in criteria.measures:
        metric = find_metric(name)
        # Whether a rate is 0 depends on the score; whether a set is empty does not.
        if metric.needs_decisions:
            continue
        (reason,) = metric.compute(samples[attribute]).reasons
        if reason is not None:
            raise InputError(
                f"the {len(rows)} {rows.part} rows do not suffice for {name} by "
                f"{attribute}: {reason}; merge rare groups, or raise {rows.part}"
            )


def _did_you_mean(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(name), known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
