"""Intervals for numbers by group, and for the distance between the lowest and the highest group.

One group
---------
* A rate has the score interval of Wilson (1927). With weights, the effective number of rows of Kish
  (1965), (sum of w)^2 / sum of w^2, replaces n. Near 0 and 1 Wilson's interval misses too often if
  the level is high or rows are few. So the exact interval of Clopper and Pearson (1934) replaces it
  if several intervals share a level, and up to `FEW_ROWS` rows.
* A mean has Student's t interval, with weights also on the effective number of rows. The standard
  deviation of at most `FEW_ROWS` values, or of equal values, is too uncertain. Then the interval of
  Hoeffding (1963) replaces it, which holds for every number of rows and every distribution between
  the smallest and the largest value among the rows of all groups.
* A root mean square error has the root of the interval of the mean square.
* A user-defined function has value plus and minus Student's t times its bootstrap standard error.

All groups at once
------------------
With ``simultaneous=True`` each of the G groups gets the level 1 - (1 - level) / G, so that all
intervals hold together with probability `level` (Bonferroni). Two groups whose intervals do not
overlap differ with this confidence, even if they were picked after looking at all groups.

Lowest and highest
------------------
The difference between two groups has the interval of Newcombe (1998, method 10) and Zou and Donner
(2008), which is made from the intervals of the two. With values p and q in [l, u] and [m, v] it
reaches from p - q - sqrt((p - l)^2 + (v - q)^2) to p - q + sqrt((u - p)^2 + (q - m)^2). A ratio has
the same interval for its logarithm. Each of the G (G - 1) / 2 pairs gets the level
1 - (1 - level) / pairs, so that all intervals hold together. The range of the true values then lies
between the largest lower and the largest upper end over all pairs, although the two groups were
picked because they are lowest and highest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import betaincinv, ndtri, stdtrit

from equipoise.errors import check_flag, check_level, check_whole
from equipoise.inference.estimate import Estimate, notes
from equipoise.metrics.arrays import Floats, Integers
from equipoise.metrics.by_group import FOUR_FIFTHS, ByGroup, Quantity, weighted_mean
from equipoise.metrics.sample import SMALL_GROUP
from equipoise.scales import exponent, reduced

Interval = tuple[float, float]
#: Up to this number of values, the standard deviation is too uncertain for a t interval.
FEW_ROWS = 10
_NO_INTERVAL = (math.nan, math.nan)


def rate_interval(rate: float, n: float, level: float, shared: int = 1) -> Interval:
    """Interval of a rate on n rows; `shared` is the number of intervals that share a level.

    >>> rate_interval(0.5, 3, 0.95) == exact_interval(0.5, 3, 0.95)
    True
    >>> rate_interval(0.5, 40, 0.95) == wilson(0.5, 40, 0.95)
    True
    """
    return (exact_interval if shared > 1 or n <= FEW_ROWS else wilson)(rate, n, level)


def wilson(rate: float, n: float, level: float) -> Interval:
    """Score interval of a rate on n rows, or on n effective rows (Wilson 1927)."""
    z2 = float(ndtri((1 + level) / 2)) ** 2
    middle = (rate + z2 / (2 * n)) / (1 + z2 / n)
    reach = math.sqrt(z2 * (rate * (1 - rate) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    low = 0.0 if rate <= 0 else max(0.0, middle - reach)
    return low, 1.0 if rate >= 1 else min(1.0, middle + reach)


def exact_interval(rate: float, n: float, level: float) -> Interval:
    """Interval of a rate that holds at every rate and number of rows (Clopper and Pearson 1934)."""
    tail = (1 - level) / 2
    hits = rate * n
    low = 0.0 if rate <= 0 else float(betaincinv(hits, n - hits + 1, tail))
    return low, 1.0 if rate >= 1 else float(betaincinv(hits + 1, n - hits, 1 - tail))


def effective_rows(weights: Floats, people: Floats | None = None) -> float:
    """Number of rows of equal weight with the same information: (sum w)^2 / sum w^2 (Kish 1965).

    A weight stands for that of as many rows as `people` (n,) says.
    """
    shares = weights / weights.max()
    rows = np.ones_like(shares) if people is None else people
    return float((rows * shares).sum() ** 2 / (rows * shares**2).sum())


def mean_interval(
    values: Floats,
    weights: Floats | None,
    level: float,
    limits: Interval,
    n: float | None = None,
) -> Interval:
    """Student's t interval, or Hoeffding's within `limits` if values are few or all equal.

    values, weights: (m,); limits: the smallest and largest value among the rows of all groups; n:
    the effective number of rows, by default that of the weights.
    """
    # One power of two reduces values and limits.
    small, power = reduced(np.concatenate([values, limits]))
    small, (low, high) = small[:-2], small[-2:].tolist()
    if n is None:
        n = float(len(small)) if weights is None else effective_rows(weights)
    mean = weighted_mean(small, weights)
    if n <= FEW_ROWS or bool((small == small[0]).all()):
        reach = (high - low) * math.sqrt(math.log(2 / (1 - level)) / (2 * n))
    else:
        variance = float(np.average((small - mean) ** 2, weights=weights)) * n / (n - 1)
        reach = float(stdtrit(n - 1, (1 + level) / 2)) * math.sqrt(variance / n)
        low, high = -math.inf, math.inf
    ends = max(low, mean - reach), min(high, mean + reach)
    return float(np.ldexp(ends[0], power)), float(np.ldexp(ends[1], power))


class _Known(NamedTuple):
    """A number of one group, and its interval at any level."""

    value: float
    n: int  # rows that count
    reason: str  # why it is undefined
    at: Callable[[float, int], Interval]  # takes a level and how many intervals share it
    note: str = ""

    def interval(self, level: float, shared: int) -> Interval:
        """One of `shared` intervals that hold together with probability `level`."""
        return self.at(1 - (1 - level) / shared, shared)


@dataclass(frozen=True, eq=False)
class GroupEstimates:
    """Numbers by group with intervals; dictionaries have the names of the numbers as keys."""

    attribute: str
    groups: tuple[str, ...]
    by_group: dict[str, tuple[Estimate, ...]]  # in the order of the groups
    overall: dict[str, Estimate]
    difference: dict[str, Estimate]  # highest minus lowest group
    ratio: dict[str, Estimate]  # lowest over highest group
    extremes: dict[str, tuple[str, str]]  # the lowest and the highest group; "" if undefined

    def to_frame(self) -> pd.DataFrame:
        """One row for each number and group; also for "overall", "difference" and "ratio"."""
        fields = ("value", "low", "high", "n", "reason", "note")
        comparisons = ("overall", "difference", "ratio")
        rows = []
        for name, of_groups in self.by_group.items():
            found = [*of_groups, *(getattr(self, word)[name] for word in comparisons)]
            for group, estimate in zip((*self.groups, *comparisons), found, strict=True):
                values = {field: getattr(estimate, field) for field in fields}
                rows.append({"metric": name, "group": group, **values})
        return pd.DataFrame(rows)


def group_estimates(
    found: ByGroup,
    *,
    level: float = 0.95,
    simultaneous: bool = False,
    least: int = 1,
    draws: int = 200,
    random_state: int = 0,
) -> GroupEstimates:
    """Put intervals around numbers by group, and around their differences and ratios.

    Parameters
    ----------
    found : ByGroup
        From `equipoise.metrics.by_group`.
    level : float
    simultaneous : bool
        Whether the intervals of all groups hold together, for each number.
    least : int
        Groups with fewer rows are not compared, if two other groups are left.
    draws : int
        Bootstrap draws, for user-defined functions.
    random_state : int

    Examples
    --------
    >>> from equipoise.metrics import by_group
    >>> found = by_group(
    ...     decisions=[1, 1, 1, 0] * 30 + [1, 0] * 50,
    ...     sensitive_features={"sex": ["F"] * 120 + ["M"] * 100},
    ... )
    >>> difference = group_estimates(found).difference["selection rate"]
    >>> round(difference.low, 3), difference.value, round(difference.high, 3)
    (0.122, 0.25, 0.368)
    """
    check_level(level)
    check_flag("simultaneous", simultaneous)
    check_whole("least", least, least=1)
    check_whole("draws", draws, least=2)
    shared = len(found.groups) if simultaneous else 1
    everybody = np.flatnonzero(found.codes >= 0)
    of_groups, overall, differences, ratios, extremes = {}, {}, {}, {}, {}
    for quantity in found.quantities:
        name = quantity.name
        random = np.random.default_rng(random_state)
        inference = _Inference(quantity, found, everybody, draws, random)
        known = [inference.on(rows) for rows in found.rows]
        of_groups[name] = tuple(_estimate(one, level, shared) for one in known)
        overall[name] = _estimate(inference.on(everybody), level, 1)
        compared = [g for g, one in enumerate(known) if one.n >= least and not one.reason]
        if len(compared) < 2:
            compared = [g for g, one in enumerate(known) if not one.reason]
        remark = _left_out(known, len(compared), least)
        pair = [known[g] for g in compared]
        differences[name] = _difference(pair, quantity, level, remark)
        ratios[name] = _ratio(pair, quantity, level, remark)
        order = sorted(compared, key=lambda g: known[g].value)
        both = len(order) > 1
        extremes[name] = (found.groups[order[0]], found.groups[order[-1]]) if both else ("", "")
    return GroupEstimates(
        found.attribute, found.groups, of_groups, overall, differences, ratios, extremes
    )


@dataclass(frozen=True, eq=False)
class _Inference:
    """Values and intervals of one quantity on any set of rows."""

    quantity: Quantity
    data: ByGroup
    everybody: Integers
    draws: int
    random: np.random.Generator

    def on(self, rows: Integers) -> _Known:
        quantity, weights, people = self.quantity, self.data.shares, self.data.people
        own = self.data.weights
        value, reason = quantity.of(rows, weights)
        counted = quantity.rows_of(rows, weights)
        n = len(counted) if people is None else int(people[counted].sum())
        if reason:
            return _Known(math.nan, n, reason, _no_interval)
        if quantity.call is not None:
            return self._function(value, counted)
        assert quantity.values is not None
        values = quantity.values[counted]
        shares = None if weights is None else weights[counted]
        effective, note = float(n), ""
        if own is not None:
            effective = effective_rows(own[counted], None if people is None else people[counted])
            note = f"weighted, like {effective:.4g} rows of equal weight"

        def of_rate(level: float, shared: int) -> Interval:
            return rate_interval(value, effective, level, shared)

        def of_mean(level: float, _shared: int) -> Interval:
            low, high = mean_interval(values, shares, level, self._limits, effective)
            return max(low, quantity.limits[0]), min(high, quantity.limits[1])

        def of_root_mean_square(level: float, _shared: int) -> Interval:
            # Numbers are scaled to at most 1, so that no square overflows.
            power = exponent(np.array(self._limits))
            largest = float(np.square(np.ldexp(self._limits, -power)).max())
            squares = np.ldexp(values, -power) ** 2
            limits = (0.0, largest)
            ends = np.maximum(mean_interval(squares, shares, level, limits, effective), 0.0)
            low, high = np.ldexp(np.sqrt(ends), power).tolist()
            return low, high

        intervals = {"rate": of_rate, "mean": of_mean, "root mean square": of_root_mean_square}
        return _Known(value, n, "", intervals[quantity.kind], note)

    @cached_property
    def _limits(self) -> Interval:
        """Smallest and largest value among the rows of all groups."""
        assert self.quantity.values is not None
        values = self.quantity.values[self.everybody[self.quantity.counted[self.everybody]]]
        return float(values.min()), float(values.max())

    def _function(self, value: float, counted: Integers) -> _Known:
        n = len(counted)
        if n <= FEW_ROWS:
            return _Known(value, n, "", _no_interval, f"no interval for {n} rows")
        drawn = [
            self.quantity.of(counted[self.random.integers(n, size=n)], self.data.weights)[0]
            for _ in range(self.draws)
        ]
        defined = np.array([each for each in drawn if math.isfinite(each)])
        if len(defined) < self.draws / 2 or (defined == defined[0]).all():
            note = "no interval: the bootstrap draws are undefined or all equal"
            return _Known(value, n, "", _no_interval, note)
        error = float(defined.std(ddof=1))

        def around(level: float, _shared: int) -> Interval:
            reach = float(stdtrit(n - 1, (1 + level) / 2)) * error
            return value - reach, value + reach

        return _Known(value, n, "", around)


def _no_interval(_level: float, _shared: int) -> Interval:
    return _NO_INTERVAL


def _estimate(known: _Known, level: float, shared: int) -> Estimate:
    """The number with its interval, one of `shared` that share the level."""
    low, high = known.interval(level, shared)
    few = f"fewer than {SMALL_GROUP} rows" if 0 < known.n < SMALL_GROUP else ""
    return Estimate(
        value=known.value,
        low=low,
        high=high,
        level=level,
        n=known.n,
        reason=known.reason,
        note=notes(few, known.note),
    )


def _left_out(known: Sequence[_Known], compared: int, least: int) -> str:
    """Which groups a comparison leaves out, in words."""
    undefined = sum(bool(one.reason) for one in known)
    small = len(known) - undefined - compared
    return notes(
        f"{undefined} of {len(known)} groups left out, where it is undefined" if undefined else "",
        f"{small} of {len(known)} groups with fewer than {least} rows left out" if small else "",
    )


def _limits_of_pairs(known: Sequence[_Known], level: float) -> tuple[Floats, Floats, Floats]:
    """Values and ends of the intervals (G,) of the groups, at the level of each pair."""
    pairs = len(known) * (len(known) - 1) // 2
    ends = np.array([one.interval(level, pairs) for one in known])
    return np.array([one.value for one in known]), ends[:, 0], ends[:, 1]


def _difference(known: Sequence[_Known], quantity: Quantity, level: float, remark: str) -> Estimate:
    """Highest minus lowest value."""
    n = sum(one.n for one in known)
    if len(known) < 2:
        reason = "fewer than two groups have the number"
        return Estimate(level=level, n=n, reason=reason, note=remark)
    values, lows, highs = _limits_of_pairs(known, level)
    most = quantity.limits[1] - quantity.limits[0]
    low, high = _widest_difference(values, lows, highs)
    return Estimate(
        value=float(values.max() - values.min()),
        low=low,
        high=min(high, most),
        level=level,
        n=n,
        note=remark,
    )


def _widest_difference(values: Floats, lows: Floats, highs: Floats) -> Interval:
    """Largest lower and largest upper end of the differences of all pairs, both at least 0."""
    if np.isnan(lows).any():
        return _NO_INTERVAL
    low, high = 0.0, 0.0
    below, above = values - lows, highs - values
    for g in range(len(values)):  # one group at a time, so that memory does not grow as G^2
        others = np.arange(len(values)) != g
        distance = values[g] - values[others]
        low = max(low, float((distance - np.hypot(below[g], above[others])).max()))
        high = max(high, float((distance + np.hypot(above[g], below[others])).max()))
    return low, high


def _ratio(known: Sequence[_Known], quantity: Quantity, level: float, remark: str) -> Estimate:
    """Lowest over highest value."""
    n = sum(one.n for one in known)
    values = np.array([one.value for one in known])
    reason = ""
    if len(known) < 2:
        reason = "fewer than two groups have the number"
    elif (values < 0).any():
        reason = "a group has a negative value, so a ratio has no meaning"
    elif values.max() == 0:
        reason = "every group has the value 0, so the ratio has no denominator"
    if reason:
        return Estimate(level=level, n=n, reason=reason, note=remark)
    value = float(values.min() / values.max())
    below = "below the four-fifths line of 0.8" if quantity.selects and value < FOUR_FIFTHS else ""
    low, high = _narrowest_ratio(*_limits_of_pairs(known, level))
    return Estimate(value=value, low=low, high=high, level=level, n=n, note=notes(below, remark))


def _narrowest_ratio(values: Floats, lows: Floats, highs: Floats) -> Interval:
    """Smallest lower and smallest upper end of the ratios of all pairs, both at most 1."""
    if np.isnan(lows).any():
        return _NO_INTERVAL
    with np.errstate(divide="ignore"):
        middle, down, up = (np.log(np.maximum(each, 0.0)) for each in (values, lows, highs))
    low, high = 0.0, 0.0
    for g in range(len(values)):
        others = (np.arange(len(values)) != g) & (values > 0)
        if values[g] == 0:
            # 0 has no logarithm, so the ends of both intervals bound the ratio.
            low, high = -math.inf, min(high, float((up[g] - down[others]).min(initial=math.inf)))
            continue
        distance = middle[g] - middle[others]
        lower = distance - np.hypot(middle[g] - down[g], up[others] - middle[others])
        upper = distance + np.hypot(up[g] - middle[g], middle[others] - down[others])
        low = min(low, float(lower.min(initial=math.inf)))
        high = min(high, float(upper.min(initial=math.inf)))
    return math.exp(low), math.exp(high)
