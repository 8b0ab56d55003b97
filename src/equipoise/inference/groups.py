"""Intervals for numbers by group, and for the distance between the lowest and the highest group.

One group
---------
* A rate has the score interval of Wilson (1927). With weights, Wilson's formula takes the effective
  number of rows of Kish (1965), (sum of w)^2 / sum of w^2, in place of n. Near 0 and 1 Wilson's
  interval misses too often where the level is high or rows are few. So the exact interval of
  Clopper and Pearson (1934) takes its place where several intervals share a level, and up to
  `FEW_ROWS` rows.
* A mean has Student's t interval; with weights, likewise on the effective number of rows. With at
  most `FEW_ROWS` rows, or where all values are equal, the spread of a handful of values says too
  little. The interval of Hoeffding (1963) takes its place: it holds for every distribution between
  the smallest and the largest value among the rows of all groups, at every number of rows.
* A root mean square error has the root of the interval of the mean square.
* A function of one's own has value plus and minus Student's t times its bootstrap standard error.

All groups at once
------------------
``simultaneous=True`` gives every group the level 1 - (1 - level) / G, G being the number of groups:
all intervals hold together with probability `level` (Bonferroni). Two groups whose intervals do not
overlap differ with that confidence, whichever two one picks after looking.

Lowest and highest
------------------
The difference between two groups has the interval that Newcombe (1998, method 10) and Zou and
Donner (2008) build from the intervals of the two. With values p and q in [l, u] and [m, v] it
reaches from p - q - sqrt((p - l)^2 + (v - q)^2) to p - q + sqrt((u - p)^2 + (q - m)^2). A ratio has
the same on the scale of logarithms. Each of the G (G - 1) / 2 pairs gets the level
1 - (1 - level) / pairs, so all hold together. The range of the true values then lies between the
largest lower and the largest upper end over all pairs, although the two groups were picked for
being lowest and highest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtrit

from equipoise.errors import check_flag, check_level, check_whole
from equipoise.inference.estimate import Estimate, notes
from equipoise.metrics.by_group import FOUR_FIFTHS, ByGroup, Integers, Quantity
from equipoise.metrics.sample import SMALL_GROUP
from equipoise.scales import exponent, reduced

Floats = NDArray[np.float64]
Interval = tuple[float, float]
#: Up to so many values, a t interval rests on a spread that nobody can know.
FEW_ROWS = 10
_NONE = (math.nan, math.nan)


def rate_interval(rate: float, n: float, level: float, shared: int = 1) -> Interval:
    """Interval of a rate on n rows, one of so many that share a level.

    >>> rate_interval(0.5, 3, 0.95) == exact_interval(0.5, 3, 0.95)
    True
    >>> rate_interval(0.5, 40, 0.95) == wilson(0.5, 40, 0.95)
    True
    """
    return (exact_interval if shared > 1 or n <= FEW_ROWS else wilson)(rate, n, level)


def wilson(rate: float, n: float, level: float) -> Interval:
    """Score interval of a rate on n rows, or on an effective number of rows (Wilson 1927).

    >>> low, high = wilson(0.0, 3, 0.95)
    >>> low, round(high, 3)
    (0.0, 0.561)
    """
    z2 = float(ndtri((1 + level) / 2)) ** 2
    middle = (rate + z2 / (2 * n)) / (1 + z2 / n)
    reach = math.sqrt(z2 * (rate * (1 - rate) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    low = 0.0 if rate <= 0 else max(0.0, middle - reach)
    return low, 1.0 if rate >= 1 else min(1.0, middle + reach)


def exact_interval(rate: float, n: float, level: float) -> Interval:
    """Interval of a rate that holds at every rate and number of rows (Clopper and Pearson 1934).

    >>> low, high = exact_interval(0.0, 3, 0.95)
    >>> low, round(high, 3)
    (0.0, 0.708)
    """
    tail = (1 - level) / 2
    hits = rate * n
    low = 0.0 if rate <= 0 else float(betaincinv(hits, n - hits + 1, tail))
    return low, 1.0 if rate >= 1 else float(betaincinv(hits + 1, n - hits, 1 - tail))


def effective_rows(weights: Floats) -> float:
    """Rows of equal weight that carry as much information: (sum of w)^2 / sum of w^2 (Kish 1965).

    >>> effective_rows(np.array([2.0, 2.0, 2.0])), effective_rows(np.array([1.0, 0.5, 0.5]))
    (3.0, 2.66...)
    """
    shares = weights / weights.max()
    return float(shares.sum() ** 2 / (shares**2).sum())


def mean_interval(
    values: Floats, weights: Floats | None, level: float, limits: Interval
) -> Interval:
    """Student's t, or Hoeffding's for a handful of values, or all equal; cut to `limits`.

    values, weights: (n,); limits: the smallest and largest value among the rows of all groups.

    >>> mean_interval(np.array([0.5]), None, 0.95, (0.0, 1.0))
    (0.0, 1.0)
    >>> low, high = mean_interval(np.arange(12.0), None, 0.95, (0.0, 20.0))
    >>> round(low, 3), round(high, 3)
    (3.209, 7.791)
    """
    # Limits belong to the numbers, so that one power of two reduces all of them.
    small, power = reduced(np.concatenate([values, limits]))
    small, (low, high) = small[:-2], small[-2:].tolist()
    n = float(len(small)) if weights is None else effective_rows(weights)
    # Rounding must not carry a mean of equal values past them.
    mean = float(np.clip(np.average(small, weights=weights), small.min(), small.max()))
    if n <= FEW_ROWS or bool((small == small[0]).all()):
        reach = (high - low) * math.sqrt(math.log(2 / (1 - level)) / (2 * n))
    else:
        variance = float(np.average((small - mean) ** 2, weights=weights)) * n / (n - 1)
        reach = float(stdtrit(n - 1, (1 + level) / 2)) * math.sqrt(variance / n)
        low, high = -math.inf, math.inf
    ends = max(low, mean - reach), min(high, mean + reach)
    return float(np.ldexp(ends[0], power)), float(np.ldexp(ends[1], power))


class Known(NamedTuple):
    """A number of one group, and its interval at any level."""

    value: float
    n: int
    reason: str
    at: Callable[[float, int], Interval]  # level of each, and how many share it
    note: str = ""

    def interval(self, level: float, shared: int) -> Interval:
        """One of so many intervals that hold all at once with probability `level`."""
        return self.at(1 - (1 - level) / shared, shared)


@dataclass(frozen=True, eq=False)
class GroupEstimates:
    """Numbers by group with intervals; each a dictionary by name of the number."""

    attribute: str
    groups: tuple[str, ...]
    by_group: dict[str, tuple[Estimate, ...]]  # in the order of the groups
    overall: dict[str, Estimate]
    difference: dict[str, Estimate]  # highest minus lowest group
    ratio: dict[str, Estimate]  # lowest over highest group
    extremes: dict[str, tuple[str, str]]  # the lowest and the highest group; "" where undefined

    def to_frame(self) -> pd.DataFrame:
        """One number a row: metric, group ("overall", "difference", "ratio" too), and interval."""
        rows = []
        for name, found in self.by_group.items():
            ends = (("overall", self.overall), ("difference", self.difference))
            rest = [(word, each[name]) for word, each in (*ends, ("ratio", self.ratio))]
            for group, e in [*zip(self.groups, found, strict=True), *rest]:
                number = {"value": e.value, "low": e.low, "high": e.high, "n": e.n}
                rows.append({"metric": name, "group": group, **number, "reason": e.reason})
                rows[-1]["note"] = e.note
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
        Whether the intervals of the groups of one number hold all at once.
    least : int
        Groups with fewer rows are not compared, as long as two others are left.
    draws : int
        Bootstrap draws, for functions of one's own.
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
        know = _Knowing(quantity, found.weights, everybody, draws, random)
        known = [know(rows) for rows in found.rows]
        of_groups[name] = tuple(_estimate(one, level, shared) for one in known)
        overall[name] = _estimate(know(everybody), level, 1)
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
class _Knowing:
    """Makes what is known about one number in any set of rows."""

    quantity: Quantity
    weights: Floats | None
    everybody: Integers
    draws: int
    random: np.random.Generator

    def __call__(self, rows: Integers) -> Known:
        quantity, weights = self.quantity, self.weights
        value, reason = quantity.of(rows, weights)
        counted = rows[quantity.counted[rows]]
        if weights is not None:
            counted = counted[weights[counted] > 0]
        n = len(counted)
        if reason:
            return Known(math.nan, n, reason, _no_interval)
        if quantity.call is not None:
            return self._function(value, counted)
        assert quantity.values is not None
        shares = None if weights is None else weights[counted]
        worth = float(n) if shares is None else effective_rows(shares)
        note = "" if shares is None else f"weighted, worth {worth:.4g} rows of equal weight"
        if quantity.kind == "rate":

            def of_rate(level: float, shared: int) -> Interval:
                return rate_interval(value, worth, level, shared)

            return Known(value, n, "", of_rate, note)
        if quantity.kind == "mean":
            values, limits = quantity.values[counted], self._limits

            def of_mean(level: float, _shared: int) -> Interval:
                low, high = mean_interval(values, shares, level, limits)
                return max(low, quantity.limits[0]), min(high, quantity.limits[1])

            return Known(value, n, "", of_mean, note)
        # Squares of numbers below 1 in size, so that none overflows.
        power = exponent(np.array(self._limits))
        squares = np.ldexp(quantity.values[counted], -power) ** 2
        largest = float(np.square(np.ldexp(self._limits, -power)).max())

        def of_root(level: float, _shared: int) -> Interval:
            low, high = mean_interval(squares, shares, level, (0.0, largest))
            ends = np.ldexp(np.sqrt([max(0.0, low), max(0.0, high)]), power)
            return float(ends[0]), float(ends[1])

        return Known(value, n, "", of_root, note)

    @cached_property
    def _limits(self) -> Interval:
        """Smallest and largest value among the rows of all groups."""
        assert self.quantity.values is not None
        values = self.quantity.values[self.everybody[self.quantity.counted[self.everybody]]]
        return float(values.min()), float(values.max())

    def _function(self, value: float, counted: Integers) -> Known:
        n = len(counted)
        if n <= FEW_ROWS:
            return Known(value, n, "", _no_interval, f"no interval for {n} rows")
        drawn = [
            self.quantity.of(counted[self.random.integers(n, size=n)], self.weights)[0]
            for _ in range(self.draws)
        ]
        defined = np.array([each for each in drawn if math.isfinite(each)])
        if len(defined) < self.draws / 2 or (defined == defined[0]).all():
            note = "no interval: the bootstrap draws are undefined or all equal"
            return Known(value, n, "", _no_interval, note)
        error = float(defined.std(ddof=1))

        def around(level: float, _shared: int) -> Interval:
            reach = float(stdtrit(n - 1, (1 + level) / 2)) * error
            return value - reach, value + reach

        return Known(value, n, "", around)


def _no_interval(_level: float, _shared: int) -> Interval:
    return _NONE


def _estimate(known: Known, level: float, shared: int) -> Estimate:
    """The number with its interval, one of so many that share the level."""
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


def _left_out(known: Sequence[Known], compared: int, least: int) -> str:
    """Which groups a comparison leaves out, in words."""
    undefined = sum(bool(one.reason) for one in known)
    small = len(known) - undefined - compared
    parts = [
        f"{undefined} of {len(known)} groups left out, where it is undefined" if undefined else "",
        f"{small} of {len(known)} groups with fewer than {least} rows left out" if small else "",
    ]
    return notes(*parts)


def _limits_of_pairs(known: Sequence[Known], level: float) -> tuple[Floats, Floats, Floats]:
    """Values and ends of intervals (G,) of the groups at the level of each pair."""
    pairs = len(known) * (len(known) - 1) // 2
    ends = np.array([one.interval(level, pairs) for one in known])
    return np.array([one.value for one in known]), ends[:, 0], ends[:, 1]


def _difference(known: Sequence[Known], quantity: Quantity, level: float, remark: str) -> Estimate:
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
    """Largest lower and upper end of the differences of all pairs, the lower one at least 0."""
    if np.isnan(lows).any():
        return _NONE
    low, high = 0.0, 0.0
    below, above = values - lows, highs - values
    for g in range(len(values)):  # one group against all others: (G,) is all that is in memory
        others = np.arange(len(values)) != g
        distance = values[g] - values[others]
        low = max(low, float((distance - np.hypot(below[g], above[others])).max()))
        high = max(high, float((distance + np.hypot(above[g], below[others])).max()))
    return low, high


def _ratio(known: Sequence[Known], quantity: Quantity, level: float, remark: str) -> Estimate:
    """Lowest over highest value."""
    n = sum(one.n for one in known)
    values = np.array([one.value for one in known])
    reason = ""
    if len(known) < 2:
        reason = "fewer than two groups have the number"
    elif (values < 0).any():
        reason = "a group has a negative value, so that a ratio means nothing"
    elif values.max() == 0:
        reason = "every group has the value 0, so the ratio has no denominator"
    if reason:
        return Estimate(level=level, n=n, reason=reason, note=remark)
    value = float(values.min() / values.max())
    below = "below the four-fifths line of 0.8" if quantity.selects and value < FOUR_FIFTHS else ""
    low, high = _narrowest_ratio(*_limits_of_pairs(known, level))
    return Estimate(value=value, low=low, high=high, level=level, n=n, note=notes(below, remark))


def _narrowest_ratio(values: Floats, lows: Floats, highs: Floats) -> Interval:
    """Smallest lower and upper end of the ratios of all pairs, the upper one at most 1."""
    if np.isnan(lows).any():
        return _NONE
    with np.errstate(divide="ignore"):
        middle, down, up = (np.log(np.maximum(each, 0.0)) for each in (values, lows, highs))
    low, high = 0.0, 0.0
    for g in range(len(values)):
        others = (np.arange(len(values)) != g) & (values > 0)
        if values[g] == 0:
            # The logarithm has no middle: the ends of both intervals bound the ratio.
            low, high = -math.inf, min(high, float((up[g] - down[others]).min(initial=math.inf)))
            continue
        distance = middle[g] - middle[others]
        lower = distance - np.hypot(middle[g] - down[g], up[others] - middle[others])
        upper = distance + np.hypot(up[g] - middle[g], middle[others] - down[others])
        low = min(low, float(lower.min(initial=math.inf)))
        high = min(high, float(upper.min(initial=math.inf)))
    return math.exp(low), math.exp(high)
