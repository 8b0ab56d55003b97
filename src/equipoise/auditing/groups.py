"""How each group, or range of a continuous attribute, fares: rates, means, distributions.

`equipoise.inference.groups` says how intervals are made. Those of the groups of one attribute hold
all at once, so that one may say who is worst and who is best off after looking at all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.auditing.inputs import AuditData
from equipoise.auditing.result import MISSING, AuditRow
from equipoise.inference.groups import group_estimates, rate_interval
from equipoise.metrics.by_group import ByGroup, Given, calibration_cells, grouping
from equipoise.metrics.outcome import repeated_quantiles
from equipoise.metrics.sample import SMALL_GROUP, even_ranges
from equipoise.tables import SensitiveColumn

Floats = NDArray[np.float64]

_MOST_POSITIONS = 25
_BINS = 40
#: Quantiles of the score that bands show.
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
QUANTILES = tuple(f"q{100 * level:.0f}" for level in LEVELS)


def group_rows(
    column: SensitiveColumn, data: AuditData, threshold: float | None, level: float
) -> Iterator[AuditRow]:
    """Rows of every group, those with a missing attribute last, then of lowest against highest.

    Intervals of the groups hold all at once with probability `level`. A comparison is named after
    its number ("selection rate difference", "selection rate ratio") and after its two groups
    ("F vs M"): the lowest and the highest of those with at least `SMALL_GROUP` rows, or of all
    where fewer than two are so large.
    """
    people = None if data.repeats is None else data.people
    labels, codes = grouping(column, people)
    given = _given(data, threshold)
    quantities = tuple(given.quantities())
    notions = {quantity.name: str(quantity.notion or "") for quantity in quantities}
    known = ByGroup(column.name, labels, codes, quantities, data.weights, people)
    found = group_estimates(known, level=level, simultaneous=True, least=SMALL_GROUP)
    listed = [found]
    if bool((codes < 0).any()):
        where = np.where(codes < 0, 0, -1)
        without = ByGroup(column.name, (MISSING,), where, quantities, data.weights, people)
        listed.append(group_estimates(without, level=level))
    for some in listed:
        for g, label in enumerate(some.groups):
            for name, estimates in some.by_group.items():
                yield AuditRow(notions[name], name, column.name, label, estimates[g])
    for name, (lowest, highest) in found.extremes.items():
        for word, estimate in (("difference", found.difference), ("ratio", found.ratio)):
            if not estimate[name].reason:
                pair = f"{lowest} vs {highest}"
                yield AuditRow(notions[name], f"{name} {word}", column.name, pair, estimate[name])


def _given(data: AuditData, threshold: float | None) -> Given:
    """The rows of an audit as numbers by group take them."""
    decisions = None if threshold is None else np.asarray(data.scores > threshold, np.int64)
    y = None if data.outcome == "multiclass" else data.y
    outcome = None if y is None else data.outcome
    return Given(data.scores, decisions, y, outcome, (y, decisions))


def calibration(data: AuditData, level: float) -> pd.DataFrame:
    """Expected against observed outcomes of every group, by tenth of the score.

    Columns: attribute, group, score_low, score_high, n, expected (mean score), observed (outcome
    rate), and low, high: the interval of what was observed. No rows unless y is binary and
    all scores lie in [0, 1].
    """
    columns = ["attribute", "group", "score_low", "score_high", "n", "expected", "observed"]
    tables, people = [], data.people
    positive = data.positive
    if positive is not None and data.scores.min() >= 0 and data.scores.max() <= 1:
        for column in data.table.columns:
            labels, codes = grouping(column, people)
            for cell in calibration_cells(data.scores, codes, len(labels), people):
                n = people[cell.rows].sum()
                observed = float(np.average(positive[cell.rows], weights=people[cell.rows]))
                low, high = rate_interval(observed, n, level)
                tables.append(
                    {
                        "attribute": column.name,
                        "group": labels[cell.group],
                        "score_low": cell.low,
                        "score_high": cell.high,
                        "n": int(n),
                        "expected": float(
                            np.average(data.scores[cell.rows], weights=people[cell.rows])
                        ),
                        "observed": observed,
                        "low": low,
                        "high": high,
                    }
                )
    return pd.DataFrame(tables, columns=[*columns, "low", "high"])


def histograms(data: AuditData) -> pd.DataFrame:
    """Histogram of the score in every group of every discrete column.

    Columns: attribute, group, n, low, high, share, and quantiles such as q10. Bins are the same for
    all groups and reach from the 0.1 % to the 99.9 % quantile; what lies beyond counts in the
    outermost bins.
    """
    people = data.people
    low, high = repeated_quantiles(data.scores, people, [0.001, 0.999])
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
                "n": int(people[rows].sum()),
                "low": edges[:-1],
                "high": edges[1:],
                "share": np.bincount(place[rows], people[rows], _BINS) / people[rows].sum(),
                **_quantiles(data.scores[rows], people[rows]),
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
        values, scores, people = column.values[known], data.scores[known], data.people[known]
        ranges = even_ranges(values, _MOST_POSITIONS, people)
        for inside in (ranges == number for number in range(ranges.max() + 1)):
            (middle,) = repeated_quantiles(values[inside], people[inside], [0.5]).tolist()
            place = {"attribute": column.name, "position": middle}
            n = int(people[inside].sum())
            rows.append({**place, "n": n, **_quantiles(scores[inside], people[inside])})
    return pd.DataFrame(rows, columns=["attribute", "position", "n", *QUANTILES])


def joined(tables: Iterable[pd.DataFrame], attributes: Sequence[str]) -> pd.DataFrame:
    """Tables of these attributes as one, in their order."""
    all_of_them = list(tables)
    filled = [table for table in all_of_them if len(table)]  # an empty one has no types
    found = pd.concat(filled or all_of_them[:1], ignore_index=True)
    order = found["attribute"].map(list(attributes).index)
    return found.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)


def _quantiles(scores: Floats, people: Floats) -> dict[str, float]:
    found = repeated_quantiles(scores, people, LEVELS)
    return dict(zip(QUANTILES, found.tolist(), strict=True))
