"""How each group, or range of a continuous attribute, fares: rates, means, distributions.

Intervals are closed forms that also work for a handful of people, where a bootstrap does not: the
score interval of Wilson (1927) for rates, Student's t for means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import binomtest

from equipoise.auditing.inputs import AuditData
from equipoise.auditing.result import MISSING, AuditRow
from equipoise.inference import Estimate
from equipoise.metrics.sample import SMALL_GROUP, even_ranges
from equipoise.notions import Notion
from equipoise.scales import reduced
from equipoise.tables import SensitiveColumn

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Most ranges of a continuous attribute, in tables and along its axis in a figure.
MOST_RANGES = 10
_MOST_POSITIONS = 25
_BINS = 40
#: Quantiles of the score that bands show.
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
QUANTILES = tuple(f"q{100 * level:.0f}" for level in LEVELS)


def group_rows(
    column: SensitiveColumn, data: AuditData, threshold: float | None, level: float
) -> Iterator[AuditRow]:
    """Rows of every group, those with a missing attribute last."""
    labels, codes = grouping(column)
    for code, label in [*enumerate(labels), (-1, MISSING)]:
        if code >= 0 or bool((codes < 0).any()):
            for notion, metric, estimate in _estimates(data, codes == code, threshold, level):
                yield AuditRow(notion, metric, column.name, label, estimate)


def grouping(column: SensitiveColumn) -> tuple[tuple[str, ...], Integers]:
    """Groups of a discrete column; ranges of equal frequency of a continuous one.

    Returns their labels and the group (n,) of every row, -1 where the attribute is missing. There
    are at most `MOST_RANGES` ranges, and so few that each has about `SMALL_GROUP` rows. A range is
    called by the smallest and largest value in it.

    >>> from equipoise.tables import SensitiveTable
    >>> grouping(SensitiveTable.from_data({"age": range(20, 80)})["age"])[0]
    ('20 to 49', '50 to 79')
    """
    if column.codes is not None:
        return tuple(map(group_label, column.categories)), column.codes
    assert column.values is not None
    known = column.values[~column.missing]
    inside = even_ranges(known, MOST_RANGES)
    codes = np.full(len(column.values), -1, dtype=np.int64)
    codes[~column.missing] = inside
    return _range_labels([known[inside == band] for band in range(inside.max() + 1)]), codes


def _range_labels(ranges: Sequence[Floats]) -> tuple[str, ...]:
    """Smallest to largest value of every range, in so many digits that no two read the same."""
    labels: tuple[str, ...] = ()
    for digits in range(4, 18):
        labels = tuple(f"{v.min():.{digits}g} to {v.max():.{digits}g}" for v in ranges)
        if len(set(labels)) == len(labels):
            break
    return labels


def group_label(category: object) -> str:
    """A category in words; combinations of several columns are tuples."""
    return ", ".join(map(str, category)) if isinstance(category, tuple) else str(category)


def _estimates(
    data: AuditData, rows: Mask, threshold: float | None, level: float
) -> Iterator[tuple[str, str, Estimate]]:
    """Notion, metric and number of everything about one group."""
    independence, separation = str(Notion.INDEPENDENCE), str(Notion.SEPARATION)
    positive, decisions = data.positive, None if threshold is None else data.scores > threshold
    yield independence, "mean score", mean_of(data.scores[rows], level)
    if decisions is not None:
        yield independence, "decision rate", rate_of(decisions[rows], level)
    if positive is not None:
        yield "", "outcome rate", rate_of(positive[rows], level)
    if decisions is not None and positive is not None:
        for word, outcome in (("positive", positive), ("negative", ~positive)):
            estimate = rate_of(
                decisions[rows & outcome], level, f"no row of this group has the {word} outcome"
            )
            yield separation, f"{'true' if word == 'positive' else 'false'} positive rate", estimate
    if data.outcome == "continuous" and data.y is not None:
        yield separation, "mean error", mean_of((data.scores - data.y)[rows], level)


def rate_of(hits: Mask, level: float, reason: str = "") -> Estimate:
    """Share of hits (n,), with its Wilson score interval; `reason` is why there may be no row.

    >>> found = rate_of(np.array([False, False, False]), 0.95)
    >>> found.value, found.low, round(found.high, 3)
    (0.0, 0.0, 0.561)
    """
    n = len(hits)
    if n == 0:
        return Estimate(level=level, reason=reason)
    successes = int(hits.sum())
    low, high = map(float, binomtest(successes, n).proportion_ci(level, method="wilson"))
    return Estimate(value=successes / n, low=low, high=high, level=level, n=n, note=_about_size(n))


def mean_of(values: Floats, level: float) -> Estimate:
    """Mean of at least one value, with its t interval; one value has no spread and no interval.

    >>> found = mean_of(np.array([1.0, 2.0, 3.0]), 0.95)
    >>> round(found.low, 3), found.value, round(found.high, 3)
    (-0.484, 2.0, 4.484)
    """
    n = len(values)
    small, power = reduced(values)
    mean = float(np.ldexp(small.mean(), power))
    reach = math.nan
    if n > 1:
        spread = float(np.ldexp(small.std(ddof=1), power))
        reach = float(stdtrit(n - 1, (1 + level) / 2)) * spread / math.sqrt(n)
    return Estimate(
        value=mean, low=mean - reach, high=mean + reach, level=level, n=n, note=_about_size(n)
    )


def _about_size(n: int) -> str:
    return f"fewer than {SMALL_GROUP} rows" if n < SMALL_GROUP else ""


def histograms(data: AuditData) -> pd.DataFrame:
    """Histogram of the score in every group of every discrete column.

    Columns: attribute, group, n, low, high, share, and quantiles such as q10. Bins are the same for
    all groups and reach from the 0.1 % to the 99.9 % quantile; what lies beyond counts in the
    outermost bins.
    """
    low, high = np.quantile(data.scores, [0.001, 0.999])
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, _BINS + 1)
    place = np.clip(np.searchsorted(edges, data.scores, side="right") - 1, 0, _BINS - 1)
    tables = []
    for column in data.discrete:
        labels, codes = grouping(column)
        for code, label in enumerate(labels):
            rows = codes == code
            table = {
                "attribute": column.name,
                "group": label,
                "n": int(rows.sum()),
                "low": edges[:-1],
                "high": edges[1:],
                "share": np.bincount(place[rows], minlength=_BINS) / rows.sum(),
                **_quantiles(data.scores[rows]),
            }
            tables.append(pd.DataFrame(table))
    columns = ["attribute", "group", "n", "low", "high", "share", *QUANTILES]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def bands(data: AuditData) -> pd.DataFrame:
    """Quantiles of the score at positions along every continuous column.

    Columns: attribute, position, n, and one per level such as q10. Positions are medians of ranges
    of equal frequency, so few that each has about `SMALL_GROUP` rows.
    """
    rows = []
    for column in data.table.columns:
        if column.values is None:
            continue
        known = ~column.missing
        values, scores = column.values[known], data.scores[known]
        ranges = even_ranges(values, _MOST_POSITIONS)
        for inside in (ranges == number for number in range(ranges.max() + 1)):
            place = {"attribute": column.name, "position": float(np.median(values[inside]))}
            rows.append({**place, "n": int(inside.sum()), **_quantiles(scores[inside])})
    return pd.DataFrame(rows, columns=["attribute", "position", "n", *QUANTILES])


def _quantiles(scores: Floats) -> dict[str, float]:
    return dict(zip(QUANTILES, np.quantile(scores, LEVELS).tolist(), strict=True))
