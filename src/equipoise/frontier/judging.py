"""How good and how unfair: the metrics by which models are judged, on which rows, how surely.

`criteria_for` names the metrics. `Judge` computes them on validation rows, for every snapshot at
once; `estimates` computes them on test rows, for a few models, with intervals and certificates.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError, check_level, check_whole, did_you_mean
from equipoise.estimators.fitting import UTILITIES, Outcome, UtilityName
from equipoise.inference import Estimate, bootstrap
from equipoise.inference.bootstrap import utility_intervals
from equipoise.inference.certificate import certificate_of
from equipoise.inference.gap import gap_estimates
from equipoise.metrics import Metric, OutcomeKind, Sample, find_metric, prepare
from equipoise.metrics.gap import GAPS
from equipoise.metrics.partition import rank
from equipoise.metrics.utility import youden_of_ranking
from equipoise.notions import Notion
from equipoise.tables import SensitiveTable

Floats = NDArray[np.float64]

#: Utility of a score that knows nothing.
UNINFORMED: Mapping[UtilityName, float] = {"AUC": 0.5, "macro AUC": 0.5, "R2": 0.0}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Outcome, weights and sensitive columns of n rows that do not train."""

    part: str  # "validation" or "test"
    # Class numbers, 1 being the positive of two classes; else numbers in the user's units.
    y: NDArray[Any]
    outcome: OutcomeKind
    table: SensitiveTable
    # How many rows each stands for, one on average; None when all are one.
    weights: Floats | None

    @classmethod
    def read(
        cls,
        part: str,
        y: NDArray[Any],
        table: SensitiveTable,
        weights: Floats | None,
        outcome: Outcome,
    ) -> HeldOut:
        """Read y (n,) as the training rows' outcome was read."""
        if weights is not None:
            weights = weights / weights.mean()
        classes = outcome.classes
        if classes is None:
            return cls(part, y.astype(np.float64), "continuous", table, weights)
        strange, absent = np.setdiff1d(y, classes).tolist(), np.setdiff1d(classes, y).tolist()
        if strange:
            raise InputError(
                f"y must have every class among the rows that train, got {strange[0]!r} among the "
                f"{part} rows only; merge rare classes, or lower {part}"
            )
        if absent:
            raise InputError(
                f"the {len(y)} {part} rows do not suffice: none has y = {absent[0]!r}; merge rare "
                f"classes, or raise {part}"
            )
        kind: OutcomeKind = "binary" if len(classes) == 2 else "multiclass"
        return cls(part, np.searchsorted(classes, y), kind, table, weights)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def counts(self) -> Floats:
        """How many rows each row stands for, (n,)."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def tensors(self) -> list[Tensor]:
        """What snapshots are judged by, which a resumed run must find unchanged."""
        seen = [self.y, self.table.encode(), self.table.known]
        weights = [] if self.weights is None else [self.weights]
        return [torch.from_numpy(values.copy()) for values in [*seen, *weights]]


@dataclass(frozen=True)
class Criteria:
    """One utility (larger is better) and M measures of unfairness (0 is fair)."""

    utility: UtilityName
    # Metric and attribute: by metric, then by attribute. The first metric is the default.
    measures: tuple[tuple[str, str], ...]

    @property
    def outcome(self) -> OutcomeKind:
        """The kind of outcome that has this utility."""
        return next(kind for kind, utility in UTILITIES.items() if utility == self.utility)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, each once."""
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
                f"{metric!r}; name it in metrics= and fit again to add it"
                f"{did_you_mean(metric, self.metrics)}"
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
                f"({', '.join(known)}), got {attribute!r}{did_you_mean(attribute, known)}"
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


def default_metrics(notion: Notion, outcome: OutcomeKind) -> tuple[str, ...]:
    """The gap, then the paper's measures wherever they are 0 for a fair score."""
    names = ["gap", "KS-GSP", "SP"]
    if notion.conditions_on_outcome:
        names = ["gap given Y", "KS-GEO", "EO"]
    if outcome != "binary":
        names = names[:2]
    return tuple(name for name in names if outcome in find_metric(name).exact_for)


def criteria_for(
    metrics: Literal["default"] | Sequence[str], notion: str, *parts: HeldOut
) -> Criteria:
    """Find which metrics apply to which attributes, and refuse parts on which they would fail."""
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
            said = next(iter(problems.values()))
            raise InputError(f"metrics must apply to some attribute: {said}")
        for part, beside in zip(parts, samples, strict=True):
            _refuse_empty_sets(metric, part, {name: beside[name] for name in applies})
        measures += [(metric.name, name) for name in applies]
    return Criteria(UTILITIES[rows.outcome], tuple(measures))


def samples_of(
    rows: HeldOut,
    device: torch.device | None = None,
    references: Mapping[str, Hashable] | None = None,
) -> dict[str, Sample]:
    """Any scores, all distinct, beside each attribute: what metrics need to know of the rows."""
    any_scores = torch.linspace(0, 1, len(rows), dtype=torch.float64, device=device)
    named = references or {}
    try:
        scored = prepare(any_scores, rows.y, weights=rows.weights, outcome=rows.outcome)
        return {
            column.name: scored.against(column, named.get(column.name))
            for column in rows.table.columns
        }
    except InputError as problem:
        raise InputError(
            f"the {len(rows)} {rows.part} rows do not suffice: {problem}; or merge rare groups, "
            f"or raise {rows.part}"
        ) from None


def _refuse_empty_sets(metric: Metric, rows: HeldOut, samples: Mapping[str, Sample]) -> None:
    """Say before training, not after, that a metric has no rows to compare."""
    # Whether a rate is 0 depends on the score; whether a set is empty does not.
    for attribute, sample in {} if metric.needs_decisions else samples.items():
        (reason,) = metric.compute(sample).reasons
        if reason is not None:
            raise InputError(
                f"the {len(rows)} {rows.part} rows do not suffice for {metric.name} by "
                f"{attribute}: {reason}; merge rare groups, raise {rows.part}, or name other "
                f"metrics, such as {'KS-GEO' if metric.needs_outcome else 'KS-GSP'}"
            )


class Judge:
    """Judges scores on one set of rows; what does not depend on the scores is prepared once.

    ``references`` names the group of a column that SP and EO compare with; the largest one where
    it names none.
    """

    def __init__(
        self,
        rows: HeldOut,
        criteria: Criteria,
        device: torch.device,
        references: Mapping[str, Hashable] | None = None,
    ) -> None:
        samples = samples_of(rows, device, references)
        self._scored = next(iter(samples.values())).scored
        self._measures = [
            (find_metric(metric), samples[attribute]) for metric, attribute in criteria.measures
        ]

    def __call__(self, scores: Tensor, threshold: Tensor | None = None) -> Tensor:
        """Utility, threshold and M measures of each of E models, (E, 2 + M), on the CPU.

        scores: (E, n, s). threshold: (E,), where decisions are cut; Youden's on these rows unless
        given. It is NaN unless there are two classes. With several classes a measure is the largest
        over the classes. NaN where undefined.
        """
        columns = scores.shape[-1]
        flat = scores.transpose(1, 2).flatten(0, 1)
        scored = replace(self._scored, scores=flat, ranking=rank(flat), threshold=None)
        utility = scored.utility(columns=columns)[0]
        cut = torch.full_like(utility, torch.nan)
        if scored.outcome_kind == "binary":
            assert scored.y is not None
            cut = (
                youden_of_ranking(scored.ranking, scored.y, scored.weights[0])
                if threshold is None
                else threshold.to(utility)
            )
            scored = replace(scored, threshold=cut)
        found = [utility, cut]
        for metric, sample in self._measures:
            values = metric.compute(replace(sample, scored=scored)).values[0]
            found.append(values.view(-1, columns).amax(-1))
        # Everything stays on the device until all is there.
        return torch.stack([each.to(utility.device) for each in found], dim=1).cpu()


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """How sure a report is to be, and for how many selections."""

    level: float = 0.95
    draws: int = 200
    candidates: int = 1
    random_state: int = 0

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

    Each snapshot gets the numbers it would get alone.
    """
    found = [
        _utility(scores, rows, settings),
        *(
            _unfairness(scores, rows, find_metric(name), attribute, thresholds, settings)
            for name, attribute in criteria.measures
        ),
    ]
    return list(zip(*found, strict=True))


def certificates(
    scores: Floats, rows: HeldOut, criteria: Criteria, settings: ReportSettings
) -> Floats:
    """Upper bounds (E, M) of E snapshots, scores (E, n, s); NaN where there is none."""
    measures = [(find_metric(name), attribute) for name, attribute in criteria.measures]
    return np.array(
        [
            [_certificate(each.T, rows, *measure, settings)[0] for measure in measures]
            for each in scores
        ]
    )


def _utility(scores: Floats, rows: HeldOut, settings: ReportSettings) -> Sequence[Estimate]:
    outcome = rows.outcome
    (found,) = utility_intervals(
        prepare(_by_class(scores), rows.y, weights=rows.weights, threshold=None, outcome=outcome),
        ["R2" if outcome == "continuous" else "AUC"],
        columns=scores.shape[-1],
        draws=settings.draws,
        level=settings.level,
        random_state=settings.random_state,
    )
    return found


def _unfairness(
    scores: Floats,
    rows: HeldOut,
    metric: Metric,
    attribute: str,
    thresholds: Sequence[float | None],
    settings: ReportSettings,
) -> list[Estimate]:
    """One measure of scores (E, n, s); of several classes the largest.

    The level of every class by itself is raised so that all intervals hold together (Bonferroni);
    then the largest value lies between the largest lower and the largest upper end.
    """
    classes, by_class = scores.shape[-1], _by_class(scores)
    level = settings.level if classes == 1 else 1 - (1 - settings.level) / classes
    decides = all(threshold is not None for threshold in thresholds)
    cuts = np.array(thresholds, np.float64) if decides else None
    intervals: Sequence[Estimate]
    if metric.name in GAPS:
        sample = _beside(by_class, rows, attribute, cuts)
        intervals = gap_estimates(metric, sample, level=level, candidates=settings.candidates)
    else:
        intervals = bootstrap(
            [metric],
            by_class,
            [rows.table[attribute]],
            rows.y,
            weights=rows.weights,
            draws=settings.draws,
            level=level,
            random_state=settings.random_state,
            threshold=cuts,
            outcome=rows.outcome,
        )
    found = []
    for number, each in enumerate(scores):
        own = intervals[classes * number : classes * (number + 1)]
        estimate = _worst(own, settings.level)
        if metric.name not in GAPS:
            estimate = estimate.certified(*_certificate(each.T, rows, metric, attribute, settings))
        found.append(estimate)
    return found


def _worst(classes: Sequence[Estimate], level: float) -> Estimate:
    """The largest of the values for each class, with ends that hold for all of them."""
    for each in classes:
        if each.reason:
            return replace(each, level=level)
    ends = np.array([(each.low, each.high, each.certificate) for each in classes])
    low, high, bound = map(float, ends.max(axis=0))
    worst = max(classes, key=lambda each: each.value)
    return replace(worst, low=low, high=high, certificate=bound, level=level)


def _beside(
    by_class: Floats, rows: HeldOut, attribute: str, threshold: Floats | None = None
) -> Sample:
    """Scores (E * s, n) beside one attribute."""
    scored = prepare(
        by_class, rows.y, weights=rows.weights, threshold=threshold, outcome=rows.outcome
    )
    return scored.against(rows.table[attribute])


def _by_class(scores: Floats) -> Floats:
    """Scores (E, n, s) as (E * s, n), those of a snapshot together."""
    return np.ascontiguousarray(scores.transpose(0, 2, 1)).reshape(-1, scores.shape[1])


def _certificate(
    by_class: Floats, rows: HeldOut, metric: Metric, attribute: str, settings: ReportSettings
) -> tuple[float, str]:
    """Upper bound for one snapshot, scores (s, n), or NaN and why there is none."""
    # The bounds of all classes hold together, and so does that of the worst.
    candidates = settings.candidates * len(by_class)
    if metric.name in GAPS:  # of scores, which bounds that of decisions
        sample = _beside(by_class, rows, attribute)
        found = gap_estimates(metric, sample, level=settings.level, candidates=candidates)
        return max(each.certificate for each in found), found[0].note
    return certificate_of(
        metric,
        by_class,
        rows.table[attribute],
        rows.y,
        rows.outcome,
        weights=rows.weights,
        level=settings.level,
        candidates=candidates,
    )
