"""The list of metrics: what each measures, where it applies, and how to compute it.

Audits, frontiers and the common tests use all of `METRICS`, so a registered metric is available
everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from torch import Tensor

from equipoise.errors import InputError, did_you_mean
from equipoise.metrics.arrays import Array, like
from equipoise.metrics.outcome import OutcomeKind
from equipoise.metrics.sample import Sample, Threshold, prepare
from equipoise.notions import Notion
from equipoise.tables import Kind, SensitiveColumn


class Computed(NamedTuple):
    """What a metric returns: values (R, K), NaN where undefined, and K reasons.

    A reason says why the member's value is undefined under the first weighting; None if it is
    defined.
    """

    values: Tensor
    reasons: tuple[str | None, ...]


@dataclass(frozen=True)
class Metric:
    """One measure of unfairness."""

    name: str  # as tables print it
    #: The relation whose violation it measures. None if it belongs to neither notion: precision,
    #: calibration, accuracy, errors. These describe a score. No method trains for them, and they
    #: are used for a choice only if they are named.
    notion: Notion | None
    description: str  # one sentence in plain words
    formula: str  # in plain text
    compute: Callable[[Sample], Computed]
    #: Kinds of A and of Y for which it is defined; independence needs no Y.
    attributes: frozenset[Kind] = frozenset(get_args(Kind))
    outcomes: frozenset[OutcomeKind] = frozenset(get_args(OutcomeKind))
    #: Whether it uses decisions, not scores. For a continuous outcome there are no decisions, and
    #: the paper's SP and EO use mean scores instead.
    needs_decisions: bool = False
    #: Kinds of Y for which it has the fair value whenever the notion holds in the population.
    exact_for: frozenset[OutcomeKind] = frozenset(get_args(OutcomeKind))
    range: tuple[float, float] = (0.0, float("inf"))
    fair_value: float = 0.0  # of a score that satisfies the notion
    rank_based: bool = False  # whether increasing transformations of the score do not change it
    weighted: bool = True  # whether it takes row weights
    #: Whether it is the excess over what chance explains. A repeated row adds no information about
    #: chance, so only the ratios of weights matter.
    beyond_chance: bool = False
    needs_probabilities: bool = False  # whether the scores must lie in [0, 1]
    is_ratio: bool = False  # whether it is exp(-size) of the departure from fairness, not its size
    #: For metrics whose size is a seminorm of signed departures from fairness. Takes a sample and a
    #: center (the same rows with weights (1, n)) and returns the size (R, K) of the difference
    #: between their departures. The two sizes differ by at most this, which bootstrap intervals
    #: use.
    deviation: Callable[[Sample, Sample], Tensor] | None = None
    #: By how much deviations of bootstrap draws fall short on average, (K,), where they do.
    missed: Callable[[Sample], Tensor] | None = None
    #: Whether such a metric needs only the weight of every (score, set of A, set of Y), so that
    #: many rows can be summed up before drawing.
    from_counts: bool = True

    @property
    def needs_outcome(self) -> bool:
        """Whether it needs y, as all metrics do except those of independence."""
        return self.notion is None or self.notion.conditions_on_outcome

    def caveat(self, outcome: OutcomeKind | None) -> str:
        """What a reader must know about its value for this kind of outcome, or ""."""
        if outcome is None or outcome in self.exact_for:
            return ""
        return (
            f"{self.name} is not {self.fair_value:g} for a fair score if y is {outcome}, not even "
            "for a perfect prediction. So it does not show unfairness here; use gap given Y"
        )

    def why_not(self, sample: Sample) -> str | None:
        """Why the metric is not defined for this kind of attribute, outcome or score; or None."""
        scored = sample.scored
        if sample.column.kind not in self.attributes:
            return (
                f"{self.name} is defined for {' or '.join(sorted(self.attributes))} attributes, "
                f"got the {sample.column.kind} {sample.column.name!r}"
            )
        if scored.outcome is None and self.needs_outcome:
            compared = "scores with outcomes" if self.notion is None else "rows of equal outcome"
            return f"{self.name} compares {compared} and needs y, got none"
        if scored.outcome_kind is not None and scored.outcome_kind not in self.outcomes:
            return (
                f"{self.name} is defined for {' or '.join(sorted(self.outcomes))} outcomes, "
                f"got a {scored.outcome_kind} y"
            )
        decides = scored.outcome_kind != "continuous"
        if self.needs_decisions and decides and scored.threshold is None:
            return (
                f"{self.name} compares decisions and needs a threshold, or a binary y to find one, "
                "got neither"
            )
        if self.needs_probabilities:
            outside = scored.scores[(scored.scores < 0) | (scored.scores > 1)]
            if len(outside):
                return f"{self.name} needs probabilities in [0, 1] as scores, got {outside[0]:g}"
        return None


METRICS: dict[str, Metric] = {}


def register_metric(metric: Metric) -> Metric:
    """Add a metric to `METRICS`; its name must be new."""
    if metric.name in METRICS:
        raise InputError(
            f"metric name must be new, got {metric.name!r}, which is registered; choose another"
        )
    METRICS[metric.name] = metric
    return metric


def find_metric(name: str) -> Metric:
    """The registered metric called `name`."""
    if not isinstance(name, str) or name not in METRICS:
        hint = did_you_mean(name, METRICS)
        raise InputError(f"metric must be one of {', '.join(METRICS)}, got {name!r}{hint}")
    return METRICS[name]


@dataclass(frozen=True, eq=False)
class Measurement:
    """Values of one metric, and why some are undefined."""

    metric: str
    values: Array  # (), (K,), (R,) or (R, K), NaN where undefined
    reasons: tuple[str | None, ...]  # K, as in `Computed`

    def __float__(self) -> float:
        return float(self.values)


def measure(
    metric: str | Metric,
    scores: Any,
    column: SensitiveColumn,
    y: Any = None,
    *,
    weights: Any = None,
    threshold: Threshold = "paper",
    outcome: OutcomeKind | None = None,
    reference: Hashable | None = None,
) -> Measurement:
    """Compute one metric for K scores at once.

    Parameters
    ----------
    metric : str or Metric
        A name in `METRICS`, or the metric itself.
    scores : array or tensor, shape (n,) or (K, n)
    column : SensitiveColumn
        Rows in which it is missing are left out.
    y : array or tensor, shape (n,), optional
    weights : array or tensor, shape (n,) or (R, n), optional
        How many rows each row counts for. Weights (n,) describe the sample and count in quantiles
        and thresholds. Weights (R, n) are R re-weightings of one sample, such as bootstrap draws:
        quantiles, reference groups and thresholds stay those of the sample with equal weights.
    threshold : "paper", "youden", float, array of shape (K,), or None
        Decision = score > threshold. "youden" maximizes Youden's J. With None there are no
        decisions; for a continuous outcome mean scores replace decision rates. "paper" does what
        the paper does: "youden" for a binary y, None for a continuous one.
    outcome : "binary", "multiclass", "continuous", optional
        Kind of y; by default the rules of `equipoise.metrics.outcome` decide.
    reference : category, optional
        The group whose rate SP and EO of a discrete column divide by; by default the largest group.

    Returns
    -------
    Measurement
        `values` of the type of `scores`, with shape () or (K,); weights (R, n) add a first axis R.

    Examples
    --------
    >>> import numpy as np
    >>> from equipoise.tables import SensitiveTable
    >>> sex = SensitiveTable.from_data({"sex": ["F", "F", "M", "M", "M"]})["sex"]
    >>> scores = np.array([0.1, 0.2, 0.2, 0.6, 0.9])
    >>> float(measure("SP", scores, sex, threshold=0.15))  # |P(F) / P(M) - 1|; M is larger
    0.5
    >>> float(measure("KS-GSP", scores, sex))  # 0.4 for F, 0.2667 for M
    0.666...
    """
    chosen = metric if isinstance(metric, Metric) else find_metric(metric)
    scored = prepare(scores, y, weights=weights, threshold=threshold, outcome=outcome)
    sample = scored.against(column, reference)
    problem = chosen.why_not(sample)
    if problem is not None:
        raise InputError(problem)
    computed = chosen.compute(sample)
    return Measurement(chosen.name, like(computed.values, scores, weights), computed.reasons)
