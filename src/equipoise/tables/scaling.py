"""How numbers are scaled for a network: by rank, linearly, or not at all.

What a scaling has learned is a mapping of arrays. "rank": "knots_0" and "scores_0" (k,) for the
first column and so on; "minmax": "scale_" and "min_" (m,); "standard": "mean_" and "scale_" (m,).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from equipoise.scales import center_and_spread, exponent

Scaling = Literal["rank", "minmax", "standard", "none"]
Floats = NDArray[np.float64]

_LINEAR = {"minmax": ("scale_", "min_"), "standard": ("mean_", "scale_"), "none": ()}
_MAX_SCORE = 3.5
_MAX_STRETCH = 2.0
_STEPS = 1000


def learn_scaling(scaling: Scaling, matrix: Floats) -> dict[str, Floats]:
    """Return what a scaling learns from numbers (n, m), NaN left out.

    scikit-learn's scalers take a column of small spread for a constant, and one of 1e200 for
    infinite. Its QuantileTransformer puts the ends of every column at +-5.2.
    """
    known = [column[~np.isnan(column)] for column in matrix.T]
    if scaling == "rank":
        maps = [rank_map(values) for values in known]
        return {
            f"{name}_{position}": array
            for position, pair in enumerate(maps)
            for name, array in zip(("knots", "scores"), pair, strict=True)
        }
    if scaling == "standard":
        mean, spread = np.array([center_and_spread(values) for values in known]).T
        return {"mean_": mean, "scale_": np.where(spread > 0, spread, 1.0)}
    if scaling == "minmax":
        low = np.array([values.min() for values in known])
        high = np.array([values.max() for values in known])
        scale = 1 / np.where(high > low, high / 2 - low / 2, 1.0)
        return {"scale_": scale, "min_": -1 - low * scale}
    return {}


def scale(scaling: Scaling, learned: Mapping[str, Floats], matrix: Floats) -> Floats:
    """Scale numbers (n, m) without NaN by what `learn_scaling` returned."""
    if scaling == "rank":
        columns = [
            rank_scores(values, learned[f"knots_{position}"], learned[f"scores_{position}"])
            for position, values in enumerate(matrix.T)
        ]
        return np.column_stack(columns)
    if scaling == "minmax":
        return np.asarray(matrix * learned["scale_"] + learned["min_"])
    if scaling == "standard":
        return np.asarray((matrix - learned["mean_"]) / learned["scale_"])
    return matrix


def check_scaling(scaling: Scaling, learned: Mapping[str, Floats], columns: int) -> None:
    """Refuse what `learn_scaling` cannot have returned for so many columns (ValueError)."""
    pairs = [(f"knots_{position}", f"scores_{position}") for position in range(columns)]
    ranks = scaling == "rank"
    names = {name for pair in pairs for name in pair} if ranks else {*_LINEAR[scaling]}
    if set(learned) != (names if columns else set()):
        raise ValueError("the scaler has other columns")
    if not ranks:
        if any(array.shape != (columns,) for array in learned.values()):
            raise ValueError("the scaler has other columns")
        return
    for knots, scores in pairs:
        if learned[knots].ndim != 1 or learned[knots].shape != learned[scores].shape:
            raise ValueError("knots and scores differ in number")
        if not len(learned[knots]) or not (np.diff(learned[knots]) > 0).all():
            raise ValueError("knots must ascend")


def rank_map(values: Floats) -> tuple[Floats, Floats]:
    """Distinct values and their rank scores, (k,) each, for values (n,) without NaN.

    A value gets the normal quantile of the share of rows up to it, counting half of its ties (the
    plotting position of Hazen, 1914), clamped to +-3.5. These scores are centered and divided by
    their standard deviation. A column ruled by one tied value has little spread; it is stretched
    by at most a factor of two, so that its rare values stay moderate. Two values become -1 and 1,
    a constant 0.

    Strictly increasing maps of a column leave its scores as they are, exactly so up to 2000
    distinct values. Beyond, the map is kept at both sides of 1000 even steps in the share of rows.

    >>> rank_map(np.array([3.0, 1000.0, 1.0]))[1].round(3)
    array([-1.225,  0.   ,  1.225])
    """
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) == 1:
        return distinct, np.zeros(1)
    if len(distinct) == 2:
        return distinct, np.array([-1.0, 1.0])
    share = (np.cumsum(counts) - counts / 2) / len(values)
    scores = np.clip(ndtri(share), -_MAX_SCORE, _MAX_SCORE)
    scores -= np.average(scores, weights=counts)
    spread = np.sqrt(np.average(scores**2, weights=counts))
    scores *= min(1 / spread, _MAX_STRETCH)
    if len(distinct) > 2 * _STEPS:
        # Even in share, not in value: knots where the rows are. Both neighbors of a step are
        # kept, so that a large group of ties does not blur into the values beside it.
        above = np.searchsorted(share, np.linspace(share[0], share[-1], _STEPS))
        kept = np.unique([above, np.maximum(above - 1, 0)])
        distinct, scores = distinct[kept], scores[kept]
    return distinct, scores


def rank_scores(values: Floats, knots: Floats, scores: Floats) -> Floats:
    """Scores of values (n,): linear between knots, that of the nearest knot beyond them."""
    power = -exponent(knots)  # between the smallest numbers no gradient is a number
    with np.errstate(over="ignore"):
        values = np.ldexp(values, power)
    return np.interp(values, np.ldexp(knots, power), scores)
