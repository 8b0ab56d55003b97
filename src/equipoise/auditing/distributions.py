"""Small tables of the score's distribution, by group and along a continuous attribute, to draw."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.auditing.groups import grouping
from equipoise.auditing.inputs import AuditData
from equipoise.metrics.groups import SMALL_GROUP
from equipoise.tables import SensitiveColumn

Floats = NDArray[np.float64]

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
