"""A wish: limits on unfairness and utility, and the snapshot that meets them best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.errors import InputError
from equipoise.frontier.criteria import Criteria
from equipoise.frontier.entries import Entry
from equipoise.frontier.snapshots import Snapshots
from equipoise.pareto import choose


@dataclass(frozen=True)
class Wish:
    """What a user wants of a snapshot.

    Attributes
    ----------
    metric : str
    limits : mapping of attribute to float
        Largest unfairness allowed; infinite where it should be small but has no limit.
    min_utility : float
        Smallest utility allowed; minus infinity where there is none.
    """

    metric: str
    limits: Mapping[str, float]
    min_utility: float

    @property
    def seeks_utility(self) -> bool:
        """Whether the best utility is wanted; else the least unfairness."""
        return any(math.isfinite(limit) for limit in self.limits.values())

    def describe(self, utility: str) -> str:
        """Put the limits in words."""
        parts = [
            f"{self.metric} by {attribute} <= {limit:g}"
            for attribute, limit in self.limits.items()
            if math.isfinite(limit)
        ]
        if math.isfinite(self.min_utility):
            parts.append(f"{utility} >= {self.min_utility:g}")
        return " and ".join(parts)

    def aim(self, utility: str) -> str:
        """Say what is as good as possible within the limits."""
        if self.seeks_utility:
            return f"the best {utility}"
        return f"the least {self.metric} by {' and '.join(self.limits)}"


def read_wish(
    criteria: Criteria,
    *,
    max_unfairness: float | Mapping[str, float] | None,
    min_utility: float | None,
    metric: str | None,
    attribute: str | None,
) -> Wish:
    """Check what the user asks for; a single limit is for every attribute, or for the one named."""
    name = criteria.find(metric)
    if max_unfairness is None and min_utility is None:
        raise InputError(
            "select needs a wish, got none: pass max_unfairness for the best utility within it, "
            "or min_utility for the least unfairness that keeps it"
        )
    rule = "attribute must be a sensitive column"
    if isinstance(max_unfairness, Mapping):
        rule = "max_unfairness must name sensitive columns"
        if attribute is not None:
            raise InputError(
                "attribute must not be given when max_unfairness names attributes, got "
                f"{attribute!r}"
            )
        if not max_unfairness:
            raise InputError("max_unfairness must name at least one attribute, got {}")
        attributes, limits = list(max_unfairness), list(max_unfairness.values())
    else:
        attributes = list(criteria.by_attribute(name)) if attribute is None else [attribute]
        limits = [math.inf if max_unfairness is None else max_unfairness] * len(attributes)
    for each, limit in zip(attributes, limits, strict=True):
        criteria.find_attribute(name, each, rule=rule)
        if max_unfairness is not None and not (_is_finite(limit) and limit >= 0):
            raise InputError(
                f"max_unfairness must be a finite number of at least 0, got {limit!r} for {each}; "
                "leave out attributes without a limit"
            )
    if min_utility is not None and not (_is_finite(min_utility) and min_utility <= 1):
        raise InputError(
            f"min_utility must be a finite number of at most 1, the {criteria.utility} of perfect "
            f"scores, got {min_utility!r}"
        )
    return Wish(
        name,
        dict(zip(attributes, map(float, limits), strict=True)),
        -math.inf if min_utility is None else float(min_utility),
    )


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return False
    return math.isfinite(value)


def pick(snapshots: Snapshots, entries: Sequence[Entry], wish: Wish) -> int:
    """Number of the snapshot that meets the wish best; InputError that names the nearest if none.

    Only snapshots with weights are looked at: whatever the limits, no other whose metric is defined
    for every attribute does better.
    """
    criteria = snapshots.criteria
    columns = [criteria.find_attribute(wish.metric, attribute) for attribute in wish.limits]
    kept = np.flatnonzero(snapshots.kept)
    kept = kept[~np.isnan(snapshots.unfairness[kept][:, columns]).any(axis=1)]
    if len(kept) == 0:
        raise InputError(
            f"no snapshot has a defined {wish.metric} by {' and '.join(wish.limits)}; "
            "table() shows where it is undefined"
        )
    utility = snapshots.utility[kept]
    unfairness = snapshots.unfairness[kept][:, columns]
    objective = -utility if wish.seeks_utility else unfairness.max(axis=1)
    choice = choose(
        objective,
        np.column_stack([-utility, unfairness]),
        [-wish.min_utility, *wish.limits.values()],
    )
    number = int(kept[choice.row])
    if choice.feasible:
        return number
    entry = entries[snapshots.entry[number]]
    # Rounded to the side on which asking for the numbers said is granted.
    found = [
        f"{wish.metric} by {attribute} {granted(value):.4f}"
        for attribute, value in zip(wish.limits, unfairness[choice.row], strict=True)
    ]
    reached = -granted(-utility[choice.row])
    worst = " of the worst class" if criteria.utility == "macro AUC" else ""
    raise InputError(
        f"no snapshot has {wish.describe(criteria.utility)} on the validation rows; the nearest is "
        f"snapshot {number} ({entry.describe(int(snapshots.iteration[number]))}) with "
        f"{criteria.utility} {reached:.4f} and {', '.join(found)}{worst}; ask for these values, "
        "train longer, or add strengths nearer to 1"
    )


def granted(unfairness: float) -> float:
    """Rounded up to four digits, so that asking for the number said is granted.

    >>> granted(0.12345), granted(0.0009000000000000001)
    (0.1235, 0.001)
    """
    steps = math.ceil(1e4 * unfairness)
    # The product may have lost the last digit of a number just above a round one.
    return steps / 1e4 if steps / 1e4 >= unfairness else (steps + 1) / 1e4
