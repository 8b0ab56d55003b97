"""Measures utility and unfairness of models on rows that were not used to train.

`criteria_for` chooses the metrics. `Judge` computes them on validation rows for all snapshots at
once. `estimates` computes them on test rows for a few models, with intervals and certificates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError, check_level, check_whole, did_you_mean
from equipoise.estimators.fitting import OUTCOMES, Outcome, UtilityName
from equipoise.inference import Estimate
from equipoise.inference.bootstrap import estimates_of, utility_intervals
from equipoise.inference.certificate import certificate_of
from equipoise.inference.gap import gap_estimates
from equipoise.inference.groups import group_estimates
from equipoise.inference.verdict import Decisions, Rates, Yardstick
from equipoise.metrics import Metric, OutcomeKind, Sample, Scored, find_metric, prepare
from equipoise.metrics.by_group import ByGroup, Given, group_in_words, grouping
from equipoise.metrics.gap import GAPS
from equipoise.metrics.partition import rank
from equipoise.metrics.sample import SMALL_GROUP
from equipoise.metrics.utility import youden_of_ranking
from equipoise.notions import Notion
from equipoise.tables import SensitiveTable

Floats = NDArray[np.float64]

#: Draws of the bootstrap on pages that report on many models.
DRAWS_FOR_MANY = 100
#: Utility of a score that is unrelated to the outcome.
UNINFORMED: Mapping[UtilityName, float] = {
    "AUC": 0.5,
    "macro AUC": 0.5,
    "R2": 0.0,
    "D2 absolute error": 0.0,
}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Outcome, weights and sensitive columns of n rows that are not used to train."""

    part: str  # "validation" or "test"
    y: NDArray[Any]  # class numbers, or a continuous outcome in the user's units
    outcome: OutcomeKind
    table: SensitiveTable
    weights: Floats | None  # with mean 1; None if all rows count the same

    @classmethod
    def read(
        cls,
        part: str,
        y: NDArray[Any],
        table: SensitiveTable,
        weights: Floats | None,
        outcome: Outcome,
    ) -> HeldOut:
        """Encode y (n,) with the classes of the training rows."""
        if weights is not None:
            weights = weights / weights.mean()
        classes = outcome.classes
        if classes is None:
            return cls(part, y.astype(np.float64), "continuous", table, weights)
        unknown, absent = np.setdiff1d(y, classes).tolist(), np.setdiff1d(classes, y).tolist()
        if unknown:
            raise InputError(
                f"y must have every class among the training rows, got {unknown[0]!r} among the "
                f"{part} rows only; merge rare classes, or lower {part}"
            )
        if absent:
            raise InputError(
                f"the {len(y)} {part} rows do not suffice: none has y = {absent[0]!r}; merge rare "
                f"classes, or raise {part}"
            )
        kind: OutcomeKind = "binary" if len(classes) == 2 else "multiclass"
        # The classes are not in sorted order where a user names the positive one.
        order = np.argsort(classes)
        return cls(part, order[np.searchsorted(classes[order], y)], kind, table, weights)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def counts(self) -> Floats:
        """The weights, or ones, (n,)."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def tensors(self) -> list[Tensor]:
        """All values, which must be unchanged when a run is resumed."""
        values = [self.y, self.table.encode(), self.table.known]
        if self.weights is not None:
            values.append(self.weights)
        return [torch.from_numpy(each.copy()) for each in values]


@dataclass(frozen=True)
class Criteria:
    """One utility (larger is better) and M measures of unfairness (0 is fair)."""

    utility: UtilityName
    # Pairs of metric and attribute, all of a metric together. The first metric is the default.
    measures: tuple[tuple[str, str], ...]

    @property
    def outcome(self) -> OutcomeKind:
        """The kind of outcome that the utility is for."""
        return OUTCOMES[self.utility]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, each once."""
        return tuple(dict.fromkeys(metric for metric, _ in self.measures))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the measures in tables, such as "KS-GSP age"."""
        return tuple(f"{metric} {attribute}" for metric, attribute in self.measures)

    @property
    def fronts(self) -> tuple[tuple[int, ...], ...]:
        """The fronts to keep: one for each measure, and one for all attributes of each metric.

        The best snapshot within limits on several attributes may be on no front for a single
        attribute, but it is on the front for all of them. Each front is a tuple of measures.
        """
        single = [(number,) for number in range(len(self.measures))]
        joint = [tuple(self.by_attribute(metric).values()) for metric in self.metrics]
        return tuple(dict.fromkeys([*single, *joint]))

    def by_attribute(self, metric: str) -> dict[str, int]:
        """Attributes for which this metric is measured, with the position of each measure."""
        return {
            attribute: number
            for number, (each, attribute) in enumerate(self.measures)
            if each == metric
        }

    def find(self, metric: str | None) -> str:
        """Return the metric if it is one of these; the first one if it is None."""
        if metric is None:
            return self.metrics[0]
        if metric not in self.metrics:
            raise InputError(
                f"metric must be one the frontier was judged by ({', '.join(self.metrics)}), got "
                f"{metric!r}; to add it, fit again with it in metrics="
                f"{did_you_mean(metric, self.metrics)}"
            )
        return metric

    def find_attribute(
        self, metric: str, attribute: str, *, rule: str = "attribute must be a sensitive column"
    ) -> int:
        """Position of the measure for this attribute; an error message starts with ``rule``."""
        known = self.by_attribute(metric)
        if not isinstance(attribute, str) or attribute not in known:
            raise InputError(
                f"{rule} that {metric} was measured for "
                f"({', '.join(known)}), got {attribute!r}{did_you_mean(attribute, known)}"
            )
        return known[attribute]

    def one(self, metric: str | None, attribute: str | None) -> int:
        """Position of one measure; the attribute may be None if there is only one."""
        name = self.find(metric)
        if attribute is not None:
            return self.find_attribute(name, attribute)
        known = self.by_attribute(name)
        if len(known) > 1:
            raise InputError(
                f"attribute must be named if there are several, got None; choose one of "
                f"{', '.join(known)}"
            )
        return next(iter(known.values()))


def default_metrics(notion: Notion, outcome: OutcomeKind) -> tuple[str, ...]:
    """Return the gap and the paper's metrics, without those that are not 0 for a fair score."""
    names = ["gap", "KS-GSP", "SP"]
    if notion.conditions_on_outcome:
        names = ["gap given Y", "KS-GEO", "EO"]
    if outcome != "binary":
        names = names[:2]
    return tuple(name for name in names if outcome in find_metric(name).exact_for)


def criteria_for(
    metrics: Literal["default"] | Sequence[str],
    notion: str,
    utility: UtilityName,
    *parts: HeldOut,
) -> Criteria:
    """Pair metrics with the attributes they apply to, and refuse rows that are too few."""
    rows = parts[0]
    names: Any = metrics.tolist() if isinstance(metrics, np.ndarray) else metrics
    if isinstance(names, str) and names == "default":
        names = default_metrics(Notion.parse(notion), rows.outcome)
    sequence = isinstance(names, Sequence) and not isinstance(names, str)
    if not sequence or not all(isinstance(name, str) for name in names):
        raise InputError(f"metrics must be 'default' or a sequence of names, got {metrics!r}")
    if not names:
        raise InputError("metrics must name at least one metric, got none")
    samples = [samples_of(part) for part in parts]
    measures: list[tuple[str, str]] = []
    for metric in map(find_metric, dict.fromkeys(names)):
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
        problems = {name: metric.why_not(sample) for name, sample in samples[0].items()}
        applies = [name for name, problem in problems.items() if problem is None]
        if not applies:
            problem = next(iter(problems.values()))
            raise InputError(f"metrics must apply to some attribute: {problem}")
        for part, by_attribute in zip(parts, samples, strict=True):
            _refuse_empty_sets(metric, part, {name: by_attribute[name] for name in applies})
        measures += [(metric.name, name) for name in applies]
    return Criteria(utility, tuple(measures))


def samples_of(rows: HeldOut, device: torch.device | None = None) -> dict[str, Sample]:
    """Return all that metrics need to know about the rows, by attribute, with arbitrary scores."""
    scores = torch.linspace(0, 1, len(rows), dtype=torch.float64, device=device)
    try:
        scored = prepare(scores, rows.y, weights=rows.weights, outcome=rows.outcome)
        return {column.name: scored.against(column) for column in rows.table.columns}
    except InputError as problem:
        raise InputError(
            f"the {len(rows)} {rows.part} rows do not suffice: {problem}; or merge rare groups, "
            f"or raise {rows.part}"
        ) from None


def _refuse_empty_sets(metric: Metric, rows: HeldOut, samples: Mapping[str, Sample]) -> None:
    """Refuse, before training, a metric that has no rows to compare."""
    # An empty group can be seen now. Metrics of decisions also depend on the score, so they wait.
    for attribute, sample in {} if metric.needs_decisions else samples.items():
        (reason,) = metric.compute(sample).reasons
        if reason is not None:
            raise InputError(
                f"the {len(rows)} {rows.part} rows do not suffice for {metric.name} by "
                f"{attribute}: {reason}; merge rare groups, raise {rows.part}, or name other "
                f"metrics, such as {'KS-GEO' if metric.needs_outcome else 'KS-GSP'}"
            )


class Judge:
    """Measures scores on the rows of the ``samples``, which `samples_of` prepares once."""

    def __init__(self, samples: Mapping[str, Sample], criteria: Criteria) -> None:
        self._scored = next(iter(samples.values())).scored
        self._utility = criteria.utility
        self._measures = [
            (find_metric(metric), samples[attribute]) for metric, attribute in criteria.measures
        ]

    def __call__(self, scores: Tensor, threshold: Tensor | None = None) -> Tensor:
        """Return utility, threshold and M measures of E models, (E, 2 + M), on the CPU.

        scores: (E, n, s). threshold: of decisions, (E,); by default Youden's on these rows. It is
        NaN unless there are two classes. With several classes a measure is the largest over the
        classes. Undefined values are NaN.
        """
        classes = scores.shape[-1]
        flat = scores.transpose(1, 2).flatten(0, 1)
        scored = replace(self._scored, scores=flat, ranking=rank(flat), threshold=None)
        utility = scored.utility(self._utility, columns=classes)[0]
        if scored.outcome_kind != "binary":
            threshold = torch.full_like(utility, torch.nan)
        else:
            assert scored.y is not None
            if threshold is None:
                threshold = youden_of_ranking(scored.ranking, scored.y, scored.weights[0])
            threshold = threshold.to(utility)
            scored = replace(scored, threshold=threshold)
        columns = [utility, threshold]
        for metric, sample in self._measures:
            values = metric.compute(replace(sample, scored=scored)).values[0]
            columns.append(values.view(-1, classes).amax(-1))
        # One transfer from the device for all columns.
        return torch.stack([column.to(utility.device) for column in columns], dim=1).cpu()


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """Settings of intervals and certificates in a report."""

    level: float = 0.95
    draws: int = 200  # of the bootstrap
    candidates: int = 1  # number of selections for which certificates hold together
    decisions: Decisions = field(default_factory=Decisions)

    def __post_init__(self) -> None:
        check_level(self.level)
        for name, least in (("draws", 2), ("candidates", 1)):
            check_whole(name, getattr(self, name), least=least)


def estimates(
    scores: Floats,
    rows: HeldOut,
    criteria: Criteria,
    thresholds: Sequence[float | None],
    settings: ReportSettings,
) -> list[tuple[Estimate, ...]]:
    """Measure scores (E, n, s) of E snapshots on test rows: utility, then each measure.

    The numbers of a snapshot do not depend on the others. With several classes a measure is the
    largest over the classes.
    """
    classes = scores.shape[-1]
    scored = _scored(scores, rows, thresholds)
    (utility,) = utility_intervals(
        scored,
        [criteria.utility],
        columns=classes,
        draws=settings.draws,
        level=settings.level,
        random_state=0,
    )
    columns: list[Sequence[Estimate]] = [utility]
    # The intervals of all classes hold together (Bonferroni).
    level = settings.level if classes == 1 else 1 - (1 - settings.level) / classes
    for name, attribute in criteria.measures:
        metric, sample = find_metric(name), scored.against(rows.table[attribute])
        if name in GAPS:
            found = gap_estimates(metric, sample, level=level, candidates=settings.candidates)
        else:
            found = list(estimates_of([metric], sample, settings.draws, level, seed=0))
        starts = range(0, len(found), classes)
        worst = [_worst(found[start : start + classes], settings.level) for start in starts]
        if name not in GAPS:  # gaps have their certificates already
            worst = [
                estimate.certified(*_certificate(own, rows, metric, attribute, settings))
                for estimate, own in zip(worst, scores, strict=True)
            ]
        columns.append(worst)
    return list(zip(*columns, strict=True))


def rates(
    scores: Floats,
    rows: HeldOut,
    attribute: str,
    notion: Notion,
    threshold: float | None,
    decisions: Decisions,
    level: float,
) -> tuple[Rates | None, Estimate | None]:
    """How groups fare by scores (n,), and the ratio of the lowest to the highest selection rate.

    Either is None where it is undefined, as without a threshold or with several classes.
    """
    if rows.outcome == "multiclass":
        return None, None
    decided = None if threshold is None else np.asarray(scores > threshold, np.int64)
    given = Given(scores, decided, rows.y, rows.outcome, (rows.y, decided))
    yardstick = Yardstick.of(notion, rows.outcome, decisions, decided=threshold is not None)
    column = rows.table[attribute]
    labels, codes = grouping(column)
    selection = [] if decided is None else ["selection rate"]
    quantities = tuple(given.quantities(list(dict.fromkeys([*selection, yardstick.measure]))))
    found = group_estimates(
        ByGroup(attribute, labels, codes, quantities, rows.weights),
        level=level,
        simultaneous=True,
        least=SMALL_GROUP,
    )
    named = [group_in_words(column, label) for label in labels]
    ratio = found.ratio.get("selection rate")
    about = yardstick.rates(named, found.by_group[yardstick.measure])
    return about, None if ratio is None or ratio.reason else ratio


def certificates(
    scores: Floats, rows: HeldOut, criteria: Criteria, settings: ReportSettings
) -> Floats:
    """Return the certificates (E, M) of E snapshots with scores (E, n, s); NaN for none."""
    measures = [(find_metric(name), attribute) for name, attribute in criteria.measures]
    return np.array(
        [[_certificate(own, rows, *measure, settings)[0] for measure in measures] for own in scores]
    )


def _scored(scores: Floats, rows: HeldOut, thresholds: Sequence[float | None]) -> Scored:
    """Join scores (E, n, s), as (E * s, n), with the rows and, for two classes, thresholds (E,)."""
    return prepare(
        np.ascontiguousarray(scores.transpose(0, 2, 1)).reshape(-1, scores.shape[1]),
        rows.y,
        weights=rows.weights,
        threshold=None if None in thresholds else np.array(thresholds, np.float64),
        outcome=rows.outcome,
    )


def _worst(classes: Sequence[Estimate], level: float) -> Estimate:
    """Return the largest of the estimates for each class, with bounds that hold for all.

    The largest value lies between the largest lower and the largest upper end.
    """
    for each in classes:
        if each.reason:
            return replace(each, level=level)
    ends = np.array([(each.low, each.high, each.certificate) for each in classes])
    low, high, bound = map(float, ends.max(axis=0))
    worst = max(classes, key=lambda each: each.value)
    return replace(worst, low=low, high=high, certificate=bound, level=level)


def _certificate(
    scores: Floats, rows: HeldOut, metric: Metric, attribute: str, settings: ReportSettings
) -> tuple[float, str]:
    """Return the certificate of one snapshot with scores (n, s), or NaN and a reason."""
    # Bounds that hold for all classes together hold for the worst class.
    candidates = settings.candidates * scores.shape[1]
    column = rows.table[attribute]
    if metric.name in GAPS:  # a bound on the gap of scores is one on that of decisions
        sample = _scored(scores[None], rows, [None]).against(column)
        found = gap_estimates(metric, sample, level=settings.level, candidates=candidates)
        return max(each.certificate for each in found), found[0].note
    return certificate_of(
        metric,
        scores.T,
        column,
        rows.y,
        rows.outcome,
        weights=rows.weights,
        level=settings.level,
        candidates=candidates,
    )
