"""`audit`: read, measure, gather."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Literal

from equipoise.auditing.distributions import along_attribute, by_group
from equipoise.auditing.groups import Treatment, group_label, group_rows, grouping
from equipoise.auditing.inputs import AuditData, read_data
from equipoise.auditing.result import Audit
from equipoise.auditing.rows import ALL_ROWS, NAN, AuditRow, NotAssessed
from equipoise.auditing.settings import AuditSettings, Favourable
from equipoise.auditing.unfairness import Assessor
from equipoise.errors import InputError
from equipoise.inference.utility_intervals import auc_interval, regression_intervals
from equipoise.metrics.outcome import OutcomeKind
from equipoise.metrics.sample import Threshold
from equipoise.tables import Kind


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
