"""Whether a limit on unfairness is kept: four verdicts, one rule each, and the sentence for people.

For a value with an interval and a limit, the first rule that applies decides:

1. `UNKNOWN`, too few rows to say: the value is undefined, or it is within the limit although no
   group is large enough for a difference of the limit's size to stand out from chance.
2. `BEYOND`, not within the limit: the value on these rows is above it.
3. `CERTAIN`, within the limit with 95 % confidence: the upper end of the interval is within it.
4. `WITHIN`, within the limit on these rows, not certain: all else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal, get_args

from equipoise.errors import InputError, check_choice, check_number, did_you_mean
from equipoise.inference.estimate import Estimate
from equipoise.metrics.gap import GAPS
from equipoise.metrics.outcome import OutcomeKind
from equipoise.metrics.sample import SMALL_GROUP
from equipoise.notions import Notion
from equipoise.words import capital, percent, points

Favourable = Literal["high", "low"]
# More rows than this many times those at hand are not asked for.
_MOST_TIMES_THE_ROWS = 100
#: A limit on the gap where none is asked for: 10 percentage points.
DEFAULT_LIMIT = 0.1


class State(StrEnum):
    """What can be said about a limit."""

    CERTAIN = "certain"
    WITHIN = "within"
    BEYOND = "beyond"
    UNKNOWN = "unknown"


def judge(found: Estimate, limit: float) -> State:
    """Apply the rules of this module to a number of unfairness and its limit.

    >>> judge(Estimate(value=0.04, high=0.09), 0.1), judge(Estimate(value=0.04, high=0.2), 0.1)
    (<State.CERTAIN: 'certain'>, <State.WITHIN: 'within'>)
    """
    if math.isnan(found.value):
        return State.UNKNOWN
    if found.value > limit:
        return State.BEYOND
    if found.high <= limit:
        return State.CERTAIN
    # An undefined resolution, of a number that is not compared with chance, hides nothing.
    return State.UNKNOWN if found.resolution > limit else State.WITHIN


def in_words(state: State, limit: str, level: float) -> str:
    """The verdict on a limit, which is text already.

    >>> in_words(State.BEYOND, "10 points", 0.95)
    'not within the limit of 10 points'
    """
    limit = f"the limit of {limit}"
    return {
        State.CERTAIN: f"within {limit} with {percent(level)} confidence",
        State.WITHIN: f"within {limit} on these rows, not certain",
        State.BEYOND: f"not within {limit}",
        State.UNKNOWN: f"too few rows to say whether {limit} is kept",
    }[state]


@dataclass(frozen=True)
class Decisions:
    """What a positive decision means for the person it is about."""

    favourable: Favourable = "high"  # whether a high or a low score is good for the person
    words: str = ""  # such as "are invited"; "" for the words below

    def __post_init__(self) -> None:
        check_choice(
            "favourable",
            self.favourable,
            get_args(Favourable),
            "; it says whether a high score is good for the person it is about",
        )
        if not isinstance(self.words, str):
            raise InputError(
                "decision must be words that say what a positive decision means, got "
                f"{self.words!r}; for example decision='are invited'"
            )

    @property
    def verb(self) -> str:
        """What happens to people with a positive decision."""
        return self.words or ("are selected" if self.favourable == "high" else "are flagged")


@dataclass(frozen=True)
class Yardstick:
    """The number of a group by which groups are ranked from the worst off to the best off."""

    measure: str
    among: str  # whom the number is about; "" for everybody
    lowest_is_worst: bool
    verb: str  # what a positive decision means; "" for means

    @classmethod
    def of(
        cls, notion: Notion, outcome: OutcomeKind | None, decisions: Decisions, *, decided: bool
    ) -> Yardstick:
        """Return the yardstick of a notion; ``decided``: whether there is a threshold."""
        good, verb = decisions.favourable == "high", decisions.verb
        if notion is Notion.INDEPENDENCE:
            if decided:
                return cls("selection rate", "", good, verb)
            return cls("mean score", "", good, "")
        if outcome == "continuous":
            return cls("mean error", "", good, "")
        # The people whom a wrong decision harms.
        if good:
            return cls("true positive rate", "the positive outcome", good, verb)
        return cls("false positive rate", "the negative outcome", good, verb)

    def ranked(self, groups: Sequence[Estimate]) -> list[int]:
        """Positions of the groups from the worst off to the best off.

        Groups with fewer than `SMALL_GROUP` rows are left out if two others remain.
        """
        known = [g for g, each in enumerate(groups) if not math.isnan(each.value)]
        large = [g for g in known if groups[g].n >= SMALL_GROUP]
        ranked = large if len(large) > 1 else known
        return sorted(ranked, key=lambda g: groups[g].value, reverse=not self.lowest_is_worst)

    def rates(self, names: Sequence[str], groups: Sequence[Estimate]) -> Rates | None:
        """How the worst and the best group fare; None where fewer than two can be compared."""
        order = self.ranked(groups)
        if len(order) < 2:
            return None
        worst, best = (Fared(names[g], groups[g].value, groups[g].n) for g in (order[0], order[-1]))
        certain = told_apart(groups[order[0]], groups[order[-1]])
        return Rates(self.measure, self.among, worst, best, self.verb, certain)


def told_apart(one: Estimate, other: Estimate) -> bool:
    """Whether a number of two groups differs with confidence, whichever groups were picked.

    It does if their intervals, which hold for all groups of the attribute at once, do not overlap.
    """
    return bool(one.high < other.low or other.high < one.low)


@dataclass(frozen=True)
class Fared:
    """How a group fares."""

    group: str  # in words, such as "sex = F" or "age 17 to 22"
    value: float
    n: int


@dataclass(frozen=True)
class Rates:
    """The groups that fare worst and best, by a rate of decisions or a mean."""

    measure: str  # such as "selection rate" or "mean score"
    among: str  # whom the rate is about, such as "y = 1"; "" for everybody
    worst: Fared
    best: Fared
    decides: str = ""  # what a positive decision means, such as "are selected"; "" for means
    certain: bool = True  # whether the two groups differ with confidence

    def __str__(self) -> str:
        """One sentence.

        >>> worst, best = Fared("sex = F", 0.31, 200), Fared("sex = M", 0.38, 300)
        >>> print(Rates("selection rate", "", worst, best, "are selected"))
        31 % of people with sex = F and 38 % of those with sex = M are selected
        >>> print(Rates("mean score", "", worst, best))
        the mean score is 0.31 for people with sex = F and 0.38 for those with sex = M
        """
        worst, best = self.worst, self.best
        if not self.decides:
            return (
                f"the {self.measure} is {worst.value:.4g} for people with {worst.group} and "
                f"{best.value:.4g} for those with {best.group}"
            )
        among = f"among people with {self.among}, " if self.among else ""
        return (
            f"{among}{percent(worst.value)} of people with {worst.group} and "
            f"{percent(best.value)} of those with {best.group} {self.decides}"
        )


@dataclass(frozen=True)
class Verdict:
    """What a person can act on: one attribute, one notion, one limit."""

    notion: str
    attribute: str
    metric: str  # what the limit is on
    limit: float  # as it was asked for
    estimate: Estimate
    rates: Rates | None  # None where fewer than two groups can be compared
    ratio: Estimate | None = None  # of the worst and the best selection rate
    caveat: str = ""  # what the limit does not ask, such as "but the model is useless"

    @property
    def state(self) -> State:
        """Which of the four verdicts it is."""
        return judge(self.estimate, self.limit)

    @property
    def words(self) -> str:
        """The verdict in words, such as "not within the limit of 10 points"."""
        found = in_words(self.state, self._amount(self.limit), self.estimate.level)
        return f"{found}, {self.caveat}" if self.caveat else found

    @property
    def in_points(self) -> bool:
        """Whether value and limit are read as percentage points."""
        return self.metric in GAPS

    @property
    def sentences(self) -> tuple[str, ...]:
        """How groups fare, and how far apart they are."""
        return tuple(capital(f"{each}.") for each in (*self._fared(), *self._apart()))

    def __str__(self) -> str:
        return " ".join([f"{self.attribute}: {self.words}.", *self.sentences])

    def _fared(self) -> list[str]:
        if self.rates is None:
            return []
        if self.rates.worst.value == self.rates.best.value:
            return [f"every group has the same {self.rates.measure}"]
        doubt = "" if self.rates.certain else "; too few rows to be sure that these two differ"
        return [f"{self.rates}{doubt}"]

    def _apart(self) -> list[str]:
        found = self.estimate
        if math.isnan(found.value):
            return [found.reason]
        if not self.in_points:
            said = [f"{self.metric} is {found.value:.3f}"]
            sure = f"with {percent(found.level)} confidence it is at most {found.high:.3f}"
            return said if math.isnan(found.high) else [f"{said[0]}; {sure}"]
        at = "" if GAPS[self.metric] else " at any threshold"
        said = [f"the largest difference beyond chance{at}: {found.where}"]
        if found.value == 0:
            said = [f"no group differs beyond chance{at}; the nearest is {found.where}"]
        if self.state is State.UNKNOWN:
            said.append(
                f"differences below {points(found.resolution)} points cannot be told from chance "
                "on these rows"
            )
        said.append(
            f"with {percent(found.level)} confidence no group differs from all others by more than "
            f"{points(found.high)} points"
        )
        if found.unjudged:
            said.append(f"too few rows to judge by themselves: {found.unjudged}")
        return said

    def _amount(self, value: float) -> str:
        return f"{points(value)} points" if self.in_points else f"{self.metric} {value:g}"

    def to_document(self) -> dict[str, Any]:
        """The verdict as JSON has it."""
        rates = self.rates
        return {
            "notion": self.notion,
            "attribute": self.attribute,
            "metric": self.metric,
            "limit": self.limit,
            "verdict": str(self.state),
            "words": self.words,
            "sentences": list(self.sentences),
            "value": self.estimate.value,
            "low": self.estimate.low,
            "high": self.estimate.high,
            "level": self.estimate.level,
            "chance": self.estimate.chance,
            "where": self.estimate.where,
            "measure": "" if rates is None else rates.measure,
            "worst": None if rates is None else asdict(rates.worst),
            "best": None if rates is None else asdict(rates.best),
            "ratio": None if self.ratio is None else self.ratio.value,
        }


def rows_needed(found: Verdict) -> int | None:
    """Rows from which on the interval would end at the limit, two digits; None if never.

    The interval's length falls with the square root of the rows. Very near to the limit that would
    take more rows than anybody has.
    """
    estimate, limit = found.estimate, found.limit
    if math.isnan(estimate.value + estimate.high) or estimate.value >= limit:
        return None
    times = ((estimate.high - estimate.value) / (limit - estimate.value)) ** 2
    return int(float(f"{estimate.n * times:.1e}")) if times <= _MOST_TIMES_THE_ROWS else None


def rows_needed_in_words(uncertain: Sequence[Verdict]) -> str:
    """How many rows would make all of these verdicts certain, as far as that is known."""
    needed = [rows_needed(each) for each in uncertain]
    known = [each for each in needed if each is not None]
    return f"some {max(known):,} rows" if known and len(known) == len(needed) else "more rows"


def limits_of(
    option: str, wished: float | Mapping[str, float], attributes: Sequence[str]
) -> dict[str, float]:
    """Limits on the gap by attribute: the same for all, or those named, each in [0, 1].

    >>> limits_of("max_gap", 0.1, ["age", "sex"])
    {'age': 0.1, 'sex': 0.1}
    """
    given = wished if isinstance(wished, Mapping) else dict.fromkeys(attributes, wished)
    if not given:
        raise InputError(f"{option} must name at least one attribute, got {{}}")
    for name, limit in given.items():
        if name not in attributes:
            raise InputError(
                f"{option} must name sensitive columns ({', '.join(map(repr, attributes))}), got "
                f"{name!r}{did_you_mean(name, attributes)}"
            )
        rule = "must lie in [0, 1], 0.05 being 5 points"
        remedy = f" for {name}; leave out attributes without a limit"
        check_number(option, limit, rule, lambda limit: 0 <= limit <= 1, remedy)
    return {name: float(limit) for name, limit in given.items()}
