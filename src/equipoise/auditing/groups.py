"""How each group, or range of a continuous attribute, fares: rates and means with intervals.

Intervals are closed forms that also work for a handful of people, where a bootstrap does not: the
score interval of Wilson (1927) for rates, Student's t for means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import norm

from equipoise.auditing.inputs import AuditData
from equipoise.auditing.result import MISSING, NAN, AuditRow
from equipoise.metrics.sample import SMALL_GROUP
from equipoise.notions import Notion
from equipoise.scales import reduced
from equipoise.tables import SensitiveColumn

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_RANGES = 10


@dataclass(frozen=True, eq=False)
class Grouping:
    """Rows sorted into groups.

    Attributes
    ----------
    attribute : str
    labels : tuple of str
    codes : ndarray of int64, shape (n,)
        Index into `labels`, -1 where the attribute is missing.
    """

    attribute: str
    labels: tuple[str, ...]
    codes: NDArray[np.int64]


def grouping(column: SensitiveColumn) -> Grouping:
    """Groups of a discrete column; ranges of equal frequency of a continuous one.

    There are at most `MOST_RANGES` ranges, and so few that each has about `SMALL_GROUP` rows. A
    range is called by the smallest and largest value in it.

    >>> from equipoise.tables import SensitiveTable
    >>> grouping(SensitiveTable.from_data({"age": range(20, 80)})["age"]).labels
    ('20 to 49', '50 to 79')
    """
    if column.codes is not None:
        return Grouping(column.name, tuple(map(group_label, column.categories)), column.codes)
    assert column.values is not None
    known = column.values[~column.missing]
    count = int(np.clip(len(known) // SMALL_GROUP, 2, MOST_RANGES))
    cuts = np.quantile(known, np.arange(1, count) / count)
    used, inside = np.unique(np.searchsorted(cuts, known, side="left"), return_inverse=True)
    codes = np.full(len(column.values), -1, dtype=np.int64)
    codes[~column.missing] = inside
    ranges = [known[inside == band] for band in range(len(used))]
    return Grouping(column.name, _range_labels(ranges), codes)


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


@dataclass(frozen=True, eq=False)
class Treatment:
    """What happened to every row.

    Attributes
    ----------
    scores : ndarray of float64, shape (n,)
    decisions : ndarray of bool, shape (n,), or None
    positive : ndarray of bool, shape (n,), or None
        Whether the outcome is the positive one, where it is binary.
    errors : ndarray of float64, shape (n,), or None
        Score less outcome, where that is continuous.
    """

    scores: Floats
    decisions: Mask | None
    positive: Mask | None
    errors: Floats | None


def group_rows(groups: Grouping, treatment: Treatment, level: float) -> Iterator[AuditRow]:
    """Rows of every group, those with a missing attribute last."""
    for code, label in enumerate(groups.labels):
        yield from _one_group(groups, label, groups.codes == code, treatment, level)
    missing = groups.codes < 0
    if missing.any():
        yield from _one_group(groups, MISSING, missing, treatment, level)


def _one_group(
    groups: Grouping, label: str, rows: Mask, treatment: Treatment, level: float
) -> Iterator[AuditRow]:
    def mean(notion: str, metric: str, values: Floats) -> AuditRow:
        return row(notion, metric, mean_interval(values, level), len(values))

    def rate(notion: str, metric: str, values: Mask, without: str = "") -> AuditRow:
        n, hits = len(values), int(values.sum())
        found = wilson_interval(hits, n, level) if n else (NAN, NAN, NAN)
        return row(notion, metric, found, n, without if n == 0 else "")

    def row(
        notion: str, metric: str, found: tuple[float, float, float], n: int, reason: str = ""
    ) -> AuditRow:
        value, low, high = found
        return AuditRow(
            notion=notion,
            metric=metric,
            attribute=groups.attribute,
            group=label,
            value=value,
            low=low,
            high=high,
            n=n,
            reason=reason,
            note=f"fewer than {SMALL_GROUP} rows" if 0 < n < SMALL_GROUP else "",
        )

    independence, separation = str(Notion.INDEPENDENCE), str(Notion.SEPARATION)
    positive, decisions = treatment.positive, treatment.decisions
    yield mean(independence, "mean score", treatment.scores[rows])
    if decisions is not None:
        yield rate(independence, "decision rate", decisions[rows])
    if positive is not None:
        yield rate("", "outcome rate", positive[rows])
    if decisions is not None and positive is not None:
        reason = "no row of this group has the {} outcome"
        yield rate(
            separation, "true positive rate", decisions[rows & positive], reason.format("positive")
        )
        yield rate(
            separation,
            "false positive rate",
            decisions[rows & ~positive],
            reason.format("negative"),
        )
    if treatment.errors is not None:
        yield mean(separation, "mean error", treatment.errors[rows])


def wilson_interval(successes: int, n: int, level: float) -> tuple[float, float, float]:
    """Rate and its Wilson score interval; n at least 1.

    >>> [round(x, 3) for x in wilson_interval(0, 3, 0.95)]
    [0.0, 0.0, 0.561]
    """
    z = float(norm.isf((1 - level) / 2))
    rate = successes / n
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z * math.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    # Rounding must not leave a rate of 0 or 1 outside.
    low = 0.0 if successes == 0 else centre - reach
    high = 1.0 if successes == n else centre + reach
    return rate, low, high


def mean_interval(values: Floats, level: float) -> tuple[float, float, float]:
    """Mean of at least one value and its t interval; one value has no spread and no interval.

    >>> [round(x, 3) for x in mean_interval(np.array([1.0, 2.0, 3.0]), 0.95)]
    [2.0, -0.484, 4.484]
    """
    n = len(values)
    small, power = reduced(values)
    mean = float(np.ldexp(small.mean(), power))
    if n == 1:
        return mean, NAN, NAN
    spread = float(np.ldexp(small.std(ddof=1), power))
    reach = float(stdtrit(n - 1, (1 + level) / 2)) * spread / math.sqrt(n)
    return mean, mean - reach, mean + reach


_BINS = 40
_MOST_POSITIONS = 25
#: Quantiles of the score that bands show.
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
_NAMES = tuple(f"q{100 * level:.0f}" for level in LEVELS)


def by_group(data: AuditData) -> pd.DataFrame:
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
        groups = grouping(column)
        for code, label in enumerate(groups.labels):
            rows = groups.codes == code
            tables.append(
                pd.DataFrame(
                    {
                        "attribute": column.name,
                        "group": label,
                        "n": int(rows.sum()),
                        "low": edges[:-1],
                        "high": edges[1:],
                        "share": np.bincount(place[rows], minlength=_BINS) / rows.sum(),
                        **_quantiles(data.scores[rows]),
                    }
                )
            )
    columns = ["attribute", "group", "n", "low", "high", "share", *_NAMES]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def along_attribute(data: AuditData) -> pd.DataFrame:
    """Quantiles of the score at positions along every continuous column.

    Columns: attribute, position, n, and one per level such as q10. Positions are medians of ranges
    of equal frequency, so few that each has about `SMALL_GROUP` rows.
    """
    tables = [
        _along(data.scores, column) for column in data.table.columns if column.values is not None
    ]
    columns = ["attribute", "position", "n", *_NAMES]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def _along(scores: Floats, column: SensitiveColumn) -> pd.DataFrame:
    assert column.values is not None
    known = ~column.missing
    values, scores = column.values[known], scores[known]
    count = int(np.clip(len(values) // SMALL_GROUP, 2, _MOST_POSITIONS))
    cuts = np.quantile(values, np.arange(1, count) / count)
    place = np.searchsorted(cuts, values, side="left")
    rows = []
    for number in np.unique(place):
        inside = place == number
        rows.append(
            {
                "attribute": column.name,
                "position": float(np.median(values[inside])),
                "n": int(inside.sum()),
                **_quantiles(scores[inside]),
            }
        )
    return pd.DataFrame(rows)


def _quantiles(scores: Floats) -> dict[str, float]:
    return dict(zip(_NAMES, np.quantile(scores, LEVELS).tolist(), strict=True))
