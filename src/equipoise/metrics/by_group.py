"""Numbers by group: rates, means, errors, calibration, and user-defined functions.

`by_group` gives values; `equipoise.inference.group_estimates` adds intervals. A group is a level of
a discrete column, a combination of levels of several columns, or a range of a continuous column.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError, check_choice, check_count, check_number, did_you_mean
from equipoise.metrics.arrays import Floats, Integers, Mask, as_numbers
from equipoise.metrics.outcome import (
    OutcomeKind,
    crossed,
    equal_frequency,
    outcome_array,
    outcome_kind,
    range_label,
)
from equipoise.metrics.sample import even_ranges
from equipoise.notions import Notion
from equipoise.scales import reduced
from equipoise.tables import SensitiveColumn, SensitiveTable, check_aligned

Method = Literal["between_groups", "to_overall"]

#: Most ranges of a continuous attribute, in tables and figures.
MOST_RANGES = 10
#: A selection rate below this share of the highest is regarded as evidence of adverse impact
#: (Uniform Guidelines on Employee Selection Procedures 1978, 29 CFR 1607.4 D).
FOUR_FIFTHS = 0.8
_DECILES = 10


class GroupMean(NamedTuple):
    """A mean over the rows of a group, or over some of them.

    `of` takes scores, decisions (0 or 1) and outcomes (0 or 1, or numbers), as arrays or tensors
    that broadcast. It returns a value for each row, and 1 for rows that count and 0 for others, or
    None if all rows count. Inputs that it does not use may be None.
    """

    name: str
    notion: Notion | None  # None: neither
    of: Callable[[Any, Any, Any], tuple[Any, Any]]
    formula: str  # for group a, in plain text
    counted: str = ""  # what a row must have to count, in words
    uses: Literal["scores", "decisions"] | None = "decisions"
    outcome: OutcomeKind | None = "binary"  # the kind of y that it needs; None if it needs no y
    kind: Literal["rate", "mean", "root mean square"] = "rate"
    limits: tuple[float, float] = (0.0, 1.0)
    needs_probabilities: bool = False


_ANY_NUMBER = (-np.inf, np.inf)
_NOT_NEGATIVE = (0.0, np.inf)

MEANS = {
    mean.name: mean
    for mean in (
        GroupMean(
            "mean score",
            Notion.INDEPENDENCE,
            lambda s, d, y: (s, None),
            "E(score | A=a)",
            uses="scores",
            outcome=None,
            kind="mean",
            limits=_ANY_NUMBER,
        ),
        GroupMean(
            "selection rate",
            Notion.INDEPENDENCE,
            lambda s, d, y: (d, None),
            "P(D=1 | A=a)",
            outcome=None,
        ),
        GroupMean("outcome rate", None, lambda s, d, y: (y, None), "P(Y=1 | A=a)", uses=None),
        GroupMean(
            "true positive rate",
            Notion.SEPARATION,
            lambda s, d, y: (d, y),
            "P(D=1 | A=a, Y=1)",
            "the positive outcome",
        ),
        GroupMean(
            "false positive rate",
            Notion.SEPARATION,
            lambda s, d, y: (d, 1 - y),
            "P(D=1 | A=a, Y=0)",
            "the negative outcome",
        ),
        GroupMean(
            "false negative rate",
            Notion.SEPARATION,
            lambda s, d, y: (1 - d, y),
            "P(D=0 | A=a, Y=1)",
            "the positive outcome",
        ),
        GroupMean(
            "precision", None, lambda s, d, y: (y, d), "P(Y=1 | A=a, D=1)", "a positive decision"
        ),
        GroupMean(
            "accuracy", None, lambda s, d, y: (d * y + (1 - d) * (1 - y), None), "P(D=Y | A=a)"
        ),
        GroupMean(
            "calibration gap",
            None,
            lambda s, d, y: (s - y, None),
            "(E(score | A=a) - P(Y=1 | A=a))",
            uses="scores",
            kind="mean",
            limits=(-1.0, 1.0),
            needs_probabilities=True,
        ),
        GroupMean(
            "mean error",
            None,
            lambda s, d, y: (s - y, None),
            "E(score - Y | A=a)",
            uses="scores",
            outcome="continuous",
            kind="mean",
            limits=_ANY_NUMBER,
        ),
        GroupMean(
            "mean absolute error",
            None,
            lambda s, d, y: (abs(s - y), None),
            "E(|score - Y| | A=a)",
            uses="scores",
            outcome="continuous",
            kind="mean",
            limits=_NOT_NEGATIVE,
        ),
        GroupMean(
            "RMSE",
            None,
            lambda s, d, y: (s - y, None),
            "sqrt(E((score - Y)^2 | A=a))",
            uses="scores",
            outcome="continuous",
            kind="root mean square",
            limits=_NOT_NEGATIVE,
        ),
    )
}


@dataclass(frozen=True, eq=False)
class Quantity:
    """One number that can be computed for any set of rows."""

    name: str
    counted: Mask  # (n,): rows that count
    notion: Notion | None = None
    kind: Literal["rate", "mean", "root mean square", "function"] = "function"
    rule: str = ""  # what a row must have to count, in words
    limits: tuple[float, float] = _ANY_NUMBER
    selects: bool = False  # whether it is a selection rate, to which the four-fifths line applies
    values: Floats | None = None  # (n,), unless it is a function
    call: Callable[[Integers], float] | None = None  # if it is a function: its value for rows

    def rows_of(self, rows: Integers, weights: Floats | None) -> Integers:
        """Those of the rows (positions) that count and have a positive weight."""
        counted = rows[self.counted[rows]]
        return counted if weights is None else counted[weights[counted] > 0]

    def of(self, rows: Integers, weights: Floats | None) -> tuple[float, str]:
        """Value for these rows (positions), and the reason if it is undefined.

        weights: (n,) of all rows.
        """
        counted = self.rows_of(rows, weights)
        if len(counted) == 0:
            missing = f"no row of this group has {self.rule}" if self.rule else "there is no row"
            return np.nan, missing
        if self.call is not None:
            try:
                value = float(self.call(counted))
            except (ValueError, ZeroDivisionError) as impossible:
                return np.nan, f"the function says: {impossible}"
            return value, "" if np.isfinite(value) else f"the function returned {value}"
        assert self.values is not None
        shares = None if weights is None else weights[counted]
        values, power = reduced(self.values[counted])
        if self.kind == "root mean square":
            mean = float(np.sqrt(np.average(values**2, weights=shares)))
        else:
            mean = weighted_mean(values, shares)
        return float(np.ldexp(mean, power)), ""


def weighted_mean(values: Floats, weights: Floats | None) -> float:
    """Mean of values (n,); rounding must not move the mean of equal values past them."""
    return float(np.clip(np.average(values, weights=weights), values.min(), values.max()))


@dataclass(frozen=True, eq=False)
class ByGroup:
    """Numbers by group, as in fairlearn's MetricFrame; `by_group` makes it.

    Attributes
    ----------
    attribute : str
        Name of the column; names of crossed columns are joined by " x ".
    groups : tuple of str
    codes : array (n,)
        Group of every row; -1 for rows without a group.
    quantities : tuple of Quantity
    weights : array (n,) or None
    people : array (n,) or None
        How many equal rows each row stands for, where it is not one; each has the row's weight.
    """

    attribute: str
    groups: tuple[str, ...]
    codes: Integers
    quantities: tuple[Quantity, ...]
    weights: Floats | None = None
    people: Floats | None = None

    @property
    def shares(self) -> Floats | None:
        """How much each row counts in a mean, (n,); None where all count the same."""
        if self.people is None or self.weights is None:
            return self.weights if self.people is None else self.people
        return self.weights * self.people

    @cached_property
    def rows(self) -> tuple[Integers, ...]:
        """Positions of the rows of every group."""
        order = np.argsort(self.codes, kind="stable")
        ends = np.searchsorted(self.codes[order], np.arange(len(self.groups) + 1))
        return tuple(order[a:b] for a, b in pairwise(ends))

    @cached_property
    def _found(self) -> dict[str, list[tuple[float, str]]]:
        return {q.name: [q.of(rows, self.shares) for rows in self.rows] for q in self.quantities}

    @property
    def by_group(self) -> pd.DataFrame:
        """The value of each number (columns) in each group (rows); NaN if undefined."""
        return self._table(lambda found: found[0])

    @property
    def reasons(self) -> pd.DataFrame:
        """Why a value is undefined; "" if it is defined."""
        return self._table(lambda found: found[1])

    def _table(self, part: Callable[[tuple[float, str]], Any]) -> pd.DataFrame:
        columns = {name: [part(each) for each in found] for name, found in self._found.items()}
        return pd.DataFrame(columns, index=pd.Index(self.groups, name=self.attribute))

    @property
    def counts(self) -> pd.DataFrame:
        """Number of rows that count, such as those with the positive outcome for a TPR."""
        one = np.ones(len(self.codes)) if self.people is None else self.people
        columns = {
            q.name: [int(one[r][q.counted[r]].sum()) for r in self.rows] for q in self.quantities
        }
        return pd.DataFrame(columns, index=pd.Index(self.groups, name=self.attribute))

    @property
    def overall(self) -> pd.Series[float]:
        """The value of each number among all rows that have a group."""
        known = np.flatnonzero(self.codes >= 0)
        return pd.Series({q.name: q.of(known, self.shares)[0] for q in self.quantities})

    def difference(self, method: Method = "between_groups") -> pd.Series[float]:
        """Highest minus lowest group, or the largest distance of a group from all rows.

        Groups with an undefined number are left out.
        """
        check_choice("method", method, get_args(Method))
        values = self.by_group
        base = values.min() if method == "between_groups" else self.overall
        return (values - base).abs().max()

    def ratio(self, method: Method = "between_groups") -> pd.Series[float]:
        """Lowest over highest group, or the ratio of a group to all rows that is farthest from 1.

        The smaller number is divided by the larger. NaN if a value is negative or all are 0.
        """
        check_choice("method", method, get_args(Method))
        values = self.by_group
        if method == "between_groups":
            found = values.min() / values.max().replace(0, np.nan)
        else:
            ratios = values / self.overall.replace(0, np.nan)
            found = ratios.where(ratios <= 1, 1 / ratios).min()
        return found.where(values.min() >= 0)

    @property
    def below_four_fifths(self) -> pd.Series[bool]:
        """Whether the ratio of every selection rate is below 0.8."""
        names = [q.name for q in self.quantities if q.selects]
        return self.ratio()[names] < FOUR_FIFTHS


def by_group(
    y: Any = None,
    scores: Any = None,
    *,
    sensitive_features: Any,
    decisions: Any = None,
    threshold: float | None = None,
    metrics: Sequence[str] | None = None,
    functions: Mapping[str, Callable[..., float]] | None = None,
    on: Literal["decisions", "scores"] | None = None,
    sample_weight: Any = None,
    positive: Hashable | None = None,
    outcome: OutcomeKind | None = None,
) -> ByGroup:
    """Rates, means, errors and functions by group.

    Parameters
    ----------
    y : array, shape (n,), optional
        Outcomes. Without them there are only selection rates and mean scores.
    scores : array, shape (n,), optional
        Probabilities or predictions.
    sensitive_features : one or several columns, or a SensitiveTable, n rows
        Several columns are crossed. Continuous columns are divided into ranges of equal frequency.
    decisions : array, shape (n,), optional
        0 and 1, booleans, or values of y: the predicted class.
    threshold : float, optional
        Decision = score > threshold, if no decisions are given.
    metrics : sequence of str, optional
        Names in `equipoise.metrics.by_group.MEANS`; by default all that apply.
    functions : mapping of name to function, optional
        Each is called as f(y, decisions) or f(y, scores) with the rows of a group, and with
        ``sample_weight=`` if weights are given.
    on : {"decisions", "scores"}, optional
        What functions get; by default decisions if there are any, else scores.
    sample_weight : array, shape (n,), optional
    positive : value of y, optional
        The positive outcome, which is compared with all others. Functions then get 0 and 1. Without
        it, a y of several classes gives rates for each class.
    outcome : {"binary", "multiclass", "continuous"}, optional
        Kind of y; by default the rules of `equipoise.metrics.outcome` decide.

    Returns
    -------
    ByGroup

    Examples
    --------
    >>> found = by_group(
    ...     [1, 0, 1, 0],
    ...     decisions=[1, 1, 0, 0],
    ...     sensitive_features={"sex": ["F", "F", "M", "M"]},
    ...     metrics=["selection rate", "true positive rate"],
    ... )
    >>> found.by_group
         selection rate  true positive rate
    sex
    F               1.0                 1.0
    M               0.0                 0.0
    >>> found.counts["true positive rate"].tolist()
    [1, 1]
    """
    check_aligned(
        y=y,
        scores=scores,
        decisions=decisions,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
    )
    given = _read(y, scores, decisions, threshold, positive, outcome)
    n = given.n
    name, labels, codes = _groups(sensitive_features, n)
    weights = None if sample_weight is None else _weights(sample_weight, n)
    found = [*given.quantities(metrics), *given.own(functions, on, weights)]
    return ByGroup(name, labels, codes, tuple(found), weights)


@dataclass(frozen=True, eq=False)
class Given:
    """Scores, decisions and outcomes of the same rows, read and checked."""

    scores: Floats | None
    decisions: NDArray[Any] | None  # 0 and 1, or values of y if there are several classes
    y: NDArray[Any] | None  # 0 and 1 if binary
    outcome: OutcomeKind | None
    seen: tuple[NDArray[Any] | None, NDArray[Any] | None]  # y and decisions that functions get

    @property
    def n(self) -> int:
        """Number of rows."""
        return next(len(each) for each in (self.scores, self.decisions) if each is not None)

    def why_not(self, mean: GroupMean) -> str:
        """Why a number is not defined for these data; "" if it is defined."""
        if mean.uses is not None and getattr(self, mean.uses) is None:
            return f"needs {mean.uses}, got none"
        if mean.outcome is not None and self.y is None:
            return "needs y, got none"
        if mean.outcome is not None and self.outcome != mean.outcome:
            return f"is defined for a {mean.outcome} y, got a {self.outcome} one"
        if mean.needs_probabilities and self.scores is not None:
            outside = self.scores[(self.scores < 0) | (self.scores > 1)]
            if len(outside):
                return f"needs probabilities in [0, 1] as scores, got {outside[0]:g}"
        return ""

    def quantities(self, names: Sequence[str] | None = None) -> list[Quantity]:
        """The numbers with these names, or all that are defined; for each of several classes."""
        if self.outcome == "multiclass" and self.decisions is not None and self.y is not None:
            return self._of_classes(names)
        found = []
        for name in MEANS if names is None else names:
            if name not in MEANS:
                raise InputError(
                    f"metrics must be among {', '.join(MEANS)}, got {name!r}"
                    f"{did_you_mean(name, MEANS)}; functions of your own go into functions="
                )
            problem = self.why_not(MEANS[name])
            if not problem:
                found.append(self._quantity(MEANS[name]))
            elif names is not None:
                raise InputError(f"metrics: {name} {problem}")
        return found

    def _quantity(self, mean: GroupMean) -> Quantity:
        d = None if self.decisions is None else self.decisions.astype(np.float64)
        y = None if self.y is None or mean.outcome is None else self.y.astype(np.float64)
        values, counted = mean.of(self.scores, d, y)
        return Quantity(
            name=mean.name,
            notion=mean.notion,
            kind=mean.kind,
            counted=np.full(self.n, True) if counted is None else counted > 0,
            rule=mean.counted,
            limits=mean.limits,
            selects=mean.name == "selection rate",
            values=values,
        )

    def _of_classes(self, names: Sequence[str] | None) -> list[Quantity]:
        """Numbers for each class against the rest, and one accuracy for all classes."""
        assert self.y is not None and self.decisions is not None
        found = []
        for level in np.unique(self.y):
            y, decisions = (
                np.asarray(each == level, np.int64) for each in (self.y, self.decisions)
            )
            one = replace(self, scores=None, decisions=decisions, y=y, outcome="binary")
            found += [replace(q, name=f"{q.name} ({level})") for q in one.quantities(names)]
        right = np.asarray(self.y == self.decisions, np.int64)
        whole = replace(self, scores=None, decisions=right, y=np.ones_like(right), outcome="binary")
        kept = [q for q in found if not q.name.startswith("accuracy (")]
        return kept + (whole.quantities(["accuracy"]) if len(kept) < len(found) else [])

    def own(
        self,
        functions: Mapping[str, Callable[..., float]] | None,
        on: Literal["decisions", "scores"] | None,
        weights: Floats | None,
    ) -> list[Quantity]:
        """Numbers from user-defined functions."""
        if on is not None:
            check_choice("on", on, ("decisions", "scores"))
        y, decisions = self.seen
        used = on or ("decisions" if decisions is not None else "scores")
        responses = decisions if used == "decisions" else self.scores
        found = []
        for name, function in (functions or {}).items():
            if y is None:
                raise InputError(f"functions need y, got {name!r} without y; pass y")
            if responses is None:
                raise InputError(f"on={used!r} needs {used}, got none; pass {used}")
            if weights is not None and not _takes_weights(function):
                raise InputError(
                    f"functions must take sample_weight if it is given, got {name!r} that does "
                    "not; leave out sample_weight, or wrap the function"
                )
            call = partial(_called, function, y, responses, weights)
            found.append(Quantity(name, np.full(self.n, True), call=call))
        return found


def _called(
    function: Callable[..., float],
    y: NDArray[Any],
    responses: NDArray[Any],
    weights: Floats | None,
    rows: Integers,
) -> float:
    """Value of a user's function for these rows."""
    more = {} if weights is None else {"sample_weight": weights[rows]}
    return function(y[rows], responses[rows], **more)


def _weights(sample_weight: Any, n: int) -> Floats:
    weights = as_numbers("sample_weight", sample_weight).cpu().numpy()
    if weights.shape != (n,):
        raise InputError(
            f"sample_weight must have shape ({n},), got {weights.shape}; pass one weight per row"
        )
    if (weights < 0).any() or not (weights > 0).any():
        raise InputError(
            "sample_weight must not be negative, and positive in some row, got weights from "
            f"{weights.min():g} to {weights.max():g}; leave out rows that do not count"
        )
    return weights


def _takes_weights(function: Callable[..., float]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return True
    return any(p.name == "sample_weight" or p.kind is p.VAR_KEYWORD for p in parameters)


def _read(
    y: Any,
    scores: Any,
    decisions: Any,
    threshold: float | None,
    positive: Hashable | None,
    outcome: OutcomeKind | None,
) -> Given:
    """Check the arguments of a user."""
    if scores is None and decisions is None:
        raise InputError("scores or decisions must be given, got neither; pass one of them")
    if threshold is not None:
        if decisions is not None or scores is None:
            found = "decisions" if decisions is not None else "no scores"
            raise InputError(
                f"threshold makes decisions from scores, got {found} with it; leave it out"
            )
        check_number("threshold", threshold)
    numbers = None
    if scores is not None:
        numbers = as_numbers("scores", scores).cpu().numpy()
        if numbers.ndim != 1 or len(numbers) == 0:
            raise InputError(
                f"scores must have shape (n,) with at least one row, got {numbers.shape}; for "
                "several classes pass decisions, or the scores of one class and positive="
            )
    decided = None if decisions is None else outcome_array(decisions, "decisions")
    if threshold is not None and numbers is not None:
        decided = numbers > threshold
    n = len(numbers) if numbers is not None else len(decided) if decided is not None else 0
    for argument, values in (("decisions", decided), ("y", y)):
        if values is not None:
            check_count(argument, len(values), n, "rows")
    if y is None:
        if positive is not None or outcome is not None:
            option = "positive" if positive is not None else "outcome"
            raise InputError(
                f"{option} describes y and must not be given without y, got y=None; leave it out"
            )
        return Given(numbers, _as_binary(decided), None, None, (None, decided))
    return _with_outcome(outcome_array(y), numbers, decided, positive, outcome)


def _with_outcome(
    y: NDArray[Any],
    scores: Floats | None,
    decided: NDArray[Any] | None,
    positive: Hashable | None,
    outcome: OutcomeKind | None,
) -> Given:
    levels = np.unique(y)
    if positive is not None and positive not in levels.tolist():
        listed = ", ".join(map(repr, levels[:10].tolist()))
        raise InputError(f"positive must be a value of y ({listed}), got {positive!r}")
    kind = outcome_kind(y, outcome) if positive is None else "binary"
    if kind == "continuous":
        return Given(scores, _as_binary(decided), y.astype(np.float64), kind, (y, decided))
    if kind == "multiclass":
        if decided is not None and not set(decided.tolist()) <= set(levels.tolist()):
            raise InputError(
                "decisions must be values of y if y has several classes, got "
                f"{min(set(decided.tolist()) - set(levels.tolist()))!r}; or name one class by "
                "positive="
            )
        return Given(scores, decided, y, kind, (y, decided))
    if positive is None:
        if y.dtype.kind not in "biuf":
            raise InputError(
                "positive must be given if y is text, since its order has no meaning, got "
                f"{str(levels[0])!r} and {str(levels[-1])!r}; name the positive outcome"
            )
        seen, target = y, levels[-1]
    else:
        seen, target = np.asarray([each == positive for each in y.tolist()], np.int64), positive
    truth = np.asarray([each == target for each in y.tolist()], np.int64)
    binary = _as_binary(decided, levels.tolist(), target)
    return Given(scores, binary, truth, "binary", (seen, decided if positive is None else binary))


def _as_binary(
    decided: NDArray[Any] | None, levels: Sequence[Any] = (), positive: Any = None
) -> Integers | None:
    """Turn decisions, given as 0 and 1 or as values of y (its `levels`), into 0 and 1."""
    if decided is None:
        return None
    values = set(decided.tolist())
    if values <= set(levels) and (len(levels) != 2 or not values <= {0, 1}):
        return np.asarray([each == positive for each in decided.tolist()], np.int64)
    if not values <= {0, 1}:
        wrong = next(iter(values - {0, 1}))
        or_values = f", or values of y ({', '.join(map(str, levels[:10]))})" if len(levels) else ""
        raise InputError(f"decisions must be 0 and 1{or_values}, got {wrong!r}; convert them")
    return decided.astype(np.int64)


def _groups(sensitive_features: Any, n: int) -> tuple[str, tuple[str, ...], Integers]:
    """Name, labels and codes of the groups of one column, or of several that are crossed."""
    if isinstance(sensitive_features, SensitiveTable):
        table = sensitive_features
    elif isinstance(sensitive_features, SensitiveColumn):
        table = SensitiveTable((sensitive_features,))
    else:
        table = SensitiveTable.from_data(sensitive_features)
    check_count("sensitive_features", table.n_rows, n, "rows", each="row")
    parts = [grouping(column) for column in table.columns]
    if len(parts) == 1:
        return table.names[0], *parts[0]
    known = np.flatnonzero(table.known)
    cells, combinations = crossed([codes[known] for _, codes in parts])
    codes = np.full(n, -1, dtype=np.int64)
    codes[known] = cells
    labels = tuple(
        ", ".join(part[0][code] for part, code in zip(parts, each, strict=True))
        for each in combinations
    )
    return " x ".join(table.names), labels, codes


def grouping(
    column: SensitiveColumn, people: Floats | None = None
) -> tuple[tuple[str, ...], Integers]:
    """Groups of a discrete column; ranges of equal frequency of a continuous one.

    Returns their labels and the group (n,) of every row, -1 where the attribute is missing. There
    are at most `MOST_RANGES` ranges, and so few that each has about `SMALL_GROUP` rows. The label
    of a range is its smallest and its largest value. Rows stand for as many as `people` (n,) says.

    >>> grouping(SensitiveTable.from_data({"age": range(20, 80)})["age"])[0]
    ('20 to 49', '50 to 79')
    """
    if column.codes is not None:
        return tuple(map(group_label, column.categories)), column.codes
    assert column.values is not None
    known = column.values[~column.missing]
    inside = even_ranges(known, MOST_RANGES, None if people is None else people[~column.missing])
    codes = np.full(len(column.values), -1, dtype=np.int64)
    codes[~column.missing] = inside
    return _range_labels([known[inside == band] for band in range(inside.max() + 1)]), codes


def group_in_words(column: SensitiveColumn, label: str) -> str:
    """A group by its attribute: "sex = F", or "age 17 to 22" for a range."""
    return f"{column.name} {label}" if column.codes is None else f"{column.name} = {label}"


def _range_labels(ranges: Sequence[Floats]) -> tuple[str, ...]:
    """Smallest to largest value of every range, with enough digits to make the labels differ."""
    labels: tuple[str, ...] = ()
    for digits in range(4, 18):
        labels = tuple(range_label(v.min(), v.max(), digits) for v in ranges)
        if len(set(labels)) == len(labels):
            break
    return labels


def group_label(category: object) -> str:
    """A category as text; combinations of several columns are tuples."""
    return ", ".join(map(str, category)) if isinstance(category, tuple) else str(category)


class CalibrationCell(NamedTuple):
    """Rows of one group whose scores are in the same tenth of all scores."""

    group: int
    low: float  # smallest and largest score of the tenth, among all rows
    high: float
    rows: Integers  # positions


def calibration_cells(
    scores: Floats, codes: Integers, n_groups: int, people: Floats | None = None
) -> list[CalibrationCell]:
    """Rows by group and tenth of the score; equal scores share a tenth, empty cells are left out.

    scores, codes: (n,); rows with code -1 have no group. Rows stand for as many as `people` says.
    """
    tenths = equal_frequency(scores, _DECILES, people)
    cells = []
    for tenth in range(int(tenths.max()) + 1):
        inside = np.flatnonzero(tenths == tenth)
        low, high = float(scores[inside].min()), float(scores[inside].max())
        for group in range(n_groups):
            rows = inside[codes[inside] == group]
            if len(rows):
                cells.append(CalibrationCell(group, low, high, rows))
    return sorted(cells, key=lambda cell: (cell.group, cell.low))
