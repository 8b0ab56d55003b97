"""Selects a snapshot: what the user asks for, the best snapshot, and its report on test rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError, NoSuchModel, check_flag, check_number
from equipoise.estimators import Classifies, Regresses
from equipoise.estimators.fitting import learned_inputs
from equipoise.frontier.judging import Criteria, Floats, ReportSettings, estimates, rates
from equipoise.frontier.snapshots import Curve, Entry, Snapshots
from equipoise.inference import Estimate
from equipoise.inference.estimate import notes
from equipoise.inference.verdict import Decisions, Verdict
from equipoise.metrics import find_metric
from equipoise.notions import Notion
from equipoise.pareto import choose
from equipoise.words import listed, wrapped


@dataclass(frozen=True)
class Wish:
    """What the user asks for."""

    utility: str
    metric: str
    # Largest unfairness for each attribute that counts; infinite without a limit.
    limits: Mapping[str, float]
    min_utility: float  # minus infinity without a limit
    allow_nearest: bool = False  # whether to take the nearest snapshot if none keeps the limits
    allow_useless: bool = False  # whether to take snapshots that are no better than chance

    @property
    def seeks_utility(self) -> bool:
        """Whether to pick the best utility; else the least unfairness."""
        return any(math.isfinite(limit) for limit in self.limits.values())

    def by_measure(self) -> dict[tuple[str, str], float]:
        """Return finite limits by metric and attribute; utility has the attribute ""."""
        limits = {(self.metric, attribute): limit for attribute, limit in self.limits.items()}
        limits[self.utility, ""] = self.min_utility
        return {name: limit for name, limit in limits.items() if math.isfinite(limit)}

    def describe(self) -> str:
        """Return the limits in words."""
        return " and ".join(
            f"{metric} by {attribute} <= {limit:g}" if attribute else f"{metric} >= {limit:g}"
            for (metric, attribute), limit in self.by_measure().items()
        )

    def aim(self) -> str:
        """Return in words what is optimized within the limits."""
        if self.seeks_utility:
            return f"the best {self.utility}"
        return f"the least {self.metric} by {' and '.join(self.limits)}"


def read_wish(
    criteria: Criteria,
    *,
    max_gap: float | Mapping[str, float] | None = None,
    max_unfairness: float | Mapping[str, float] | None = None,
    min_utility: float | None = None,
    metric: str | None = None,
    attribute: str | None = None,
    allow_nearest: bool = False,
    allow_useless: bool = False,
) -> Wish:
    """Check the limits. A single limit is for ``attribute``, or for all if that is None."""
    if max_gap is None and max_unfairness is None and min_utility is None:
        raise InputError(
            "select needs a limit, got none; pass max_gap to get the best utility within it, or "
            "min_utility to get the least unfairness at that utility, for example max_gap=0.05"
        )
    option, given, rule = "max_unfairness", max_unfairness, "must be a finite number of at least 0"
    if max_gap is not None:
        option, given, rule = "max_gap", max_gap, "must lie in [0, 1], 0.05 being 5 points"
        metric = _gap_of(criteria, max_unfairness=max_unfairness, metric=metric)
    name = criteria.find(metric)
    caveat = find_metric(name).caveat(criteria.outcome)
    if caveat:
        raise InputError(
            f"metric must be one that a fair score can satisfy, got {name!r}; {caveat}"
        )
    known = "attribute must be a sensitive column"
    if isinstance(given, Mapping):
        known = f"{option} must name sensitive columns"
        if attribute is not None:
            raise InputError(
                f"attribute must not be given when {option} names attributes, got {attribute!r}; "
                "leave it out"
            )
        if not given:
            raise InputError(f"{option} must name at least one attribute, got {{}}")
        attributes, limits = list(given), list(given.values())
    else:
        attributes = list(criteria.by_attribute(name)) if attribute is None else [attribute]
        limits = [math.inf if given is None else given] * len(attributes)
    most = math.inf if max_gap is None else 1
    for each, limit in zip(attributes, limits, strict=True):
        criteria.find_attribute(name, each, rule=known)
        if given is not None:
            remedy = f" for {each}; leave out attributes without a limit"
            check_number(option, limit, rule, lambda limit: 0 <= limit <= most, remedy)
    if min_utility is not None:
        check_number(
            "min_utility",
            min_utility,
            f"must be a finite number of at most 1, the {criteria.utility} of perfect scores",
            lambda least: least <= 1,
        )
    return Wish(
        criteria.utility,
        name,
        dict(zip(attributes, map(float, limits), strict=True)),
        -math.inf if min_utility is None else float(min_utility),
        check_flag("allow_nearest", allow_nearest),
        check_flag("allow_useless", allow_useless),
    )


def _gap_of(criteria: Criteria, *, max_unfairness: object, metric: str | None) -> str:
    """Return the gap by which the frontier was judged."""
    if max_unfairness is not None or metric is not None:
        other = "max_unfairness" if max_unfairness is not None else f"metric={metric!r}"
        raise InputError(
            f"max_gap must stand alone, got {other}, too; for a limit on another metric pass "
            "max_unfairness and metric"
        )
    for name in criteria.metrics:
        if name in ("gap", "gap given Y"):
            return name
    raise InputError(
        "max_gap needs a frontier that was judged by 'gap' or 'gap given Y', got one judged by "
        f"{', '.join(criteria.metrics)}; add the gap to metrics= and fit again, or pass "
        "max_unfairness"
    )


@dataclass(frozen=True)
class Picked:
    """A snapshot, and what it falls short of."""

    number: int
    nearest: bool  # whether no snapshot keeps the limits, and this one is the nearest
    useless: bool  # whether it is no better than chance


def pick(
    snapshots: Snapshots, entries: Sequence[Entry], wish: Wish, *, chance: float = -math.inf
) -> Picked:
    """Return the best snapshot within the limits; if there is none, an error names the nearest.

    A utility up to ``chance`` is no better than chance.
    """
    criteria = snapshots.criteria
    columns = [criteria.find_attribute(wish.metric, attribute) for attribute in wish.limits]
    kept, utility, unfairness = _candidates(snapshots, columns)
    if len(kept) == 0:
        raise NoSuchModel(
            f"no snapshot has a defined {wish.metric} by {' and '.join(wish.limits)}",
            "the table of snapshots shows where it is undefined",
        )
    useful = utility > chance
    among = np.flatnonzero(useful | wish.allow_useless)
    costs = np.column_stack([-utility, unfairness])
    limits = [-wish.min_utility, *wish.limits.values()]
    idle = ~useful & (costs <= limits).all(axis=1)
    reach = f"where a useless score reaches up to {chance:.4f}"
    if len(among) == 0:
        raise NoSuchModel(
            f"no snapshot is better than chance on the validation rows: the best {wish.utility} is "
            f"{utility.max():.4f}, {reach}",
            "look for features that tell more about the outcome, give it more rows, or pass "
            "allow_useless=True",
            useless=True,
        )
    aim = -utility if wish.seeks_utility else unfairness.max(axis=1)
    choice = choose(aim[among], costs[among], limits)
    row = among[choice.row]
    number = int(kept[row])
    if choice.feasible or wish.allow_nearest:
        return Picked(number, not choice.feasible, not useful[row])
    entry = entries[snapshots.entry[number]]
    # Rounded so that asking for the printed numbers gives this snapshot.
    reached = dict(zip(wish.limits, map(rounded_up, unfairness[row]), strict=True))
    reached_utility = -rounded_up(-utility[row])
    told = [f"{wish.metric} by {name} {value:.4f}" for name, value in reached.items()]
    worst = " of the worst class" if criteria.utility == "macro AUC" else ""
    only, remedy = "", "ask for these values, pass allow_nearest=True"
    if idle.any():
        only = (
            f", except some that are no better than chance ({wish.utility} at most "
            f"{utility[idle].max():.4f}, {reach})"
        )
        remedy += " or allow_useless=True"
    raise NoSuchModel(
        f"no snapshot has {wish.describe()} on the validation rows{only}; the nearest is "
        f"snapshot {number} ({entry.describe(int(snapshots.iteration[number]))}) with "
        f"{criteria.utility} {reached_utility:.4f} and {', '.join(told)}{worst}",
        f"{remedy}, train longer, or add strengths nearer to 1",
        nearest={"snapshot": number, "utility": reached_utility, "unfairness": reached},
        useless=bool(idle.any()),
    )


def stricter(
    curve: Curve, selection: Selection, attributes: Collection[str]
) -> dict[str, float] | None:
    """Limits that give a less unfair model for these attributes, of those with a limit.

    Of all such models it is the one of best utility that is within the other limits. None if there
    is none.
    """
    snapshots, least = curve.snapshots, selection.rows[0].limit
    given = {each.attribute: each.limit for each in selection.verdicts}
    columns = [snapshots.criteria.find_attribute(selection.metric, each) for each in given]
    _, utility, unfairness = _candidates(snapshots, columns)
    own, limits = snapshots.unfairness[selection.snapshot, columns], list(given.values())
    tightened = np.array([name in attributes for name in given])
    if tightened.all() and len(set(limits)) == 1:  # one limit for all stays one
        unfairness, own = (
            np.broadcast_to(each.max(axis=-1, keepdims=True), each.shape)
            for each in (unfairness, own)
        )
    reached = np.vectorize(rounded_up, otypes=[np.float64])(unfairness)
    fits = np.where(tightened, reached < own, unfairness <= limits).all(axis=1)
    fits &= (utility > curve.chance) & ~(utility < least)
    if not fits.any():
        return None
    best = reached[np.flatnonzero(fits)[utility[fits].argmax()]]
    return dict(zip(given, np.where(tightened, best, limits).tolist(), strict=True))


def _candidates(
    snapshots: Snapshots, columns: Sequence[int]
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Positions, utility and unfairness of kept snapshots for which these measures are defined.

    Kept snapshots suffice: within any limits, no other snapshot is better.
    """
    unfairness = snapshots.unfairness[:, columns]
    kept = np.flatnonzero(snapshots.kept & ~np.isnan(unfairness).any(axis=1))
    return kept, snapshots.utility[kept], unfairness[kept]


def rounded_up(unfairness: float) -> float:
    """Round up to four decimals, so that a snapshot of this unfairness is within the result.

    >>> rounded_up(0.12345), rounded_up(0.0009000000000000001)
    (0.1235, 0.001)
    """
    steps = math.ceil(1e4 * unfairness)
    # The product may be rounded down to a whole number.
    return steps / 1e4 if steps / 1e4 >= unfairness else (steps + 1) / 1e4


@dataclass(frozen=True)
class LimitStep:
    """A snapshot, and the smallest limit at which it is picked."""

    unfairness: float  # on the validation rows; the largest over several attributes
    snapshot: int


def steps(snapshots: Snapshots, metric: str, attribute: str | None = None) -> tuple[LimitStep, ...]:
    """Return every snapshot that ``select(max_unfairness=limit)`` picks at some limit, ascending.

    A limit between two steps picks the lower one. If ``attribute`` is None the limit is on all
    attributes.
    """
    places = snapshots.criteria.by_attribute(metric)
    columns = list(places.values()) if attribute is None else [places[attribute]]
    kept, utility, unfairness = _candidates(snapshots, columns)
    costs = np.column_stack([-utility, unfairness])
    found: list[LimitStep] = []
    for limit in np.unique(unfairness.max(axis=1, initial=0.0)):
        picked = kept[choose(-utility, costs, [math.inf] + [limit] * len(columns)).row]
        if not found or found[-1].snapshot != picked:
            found.append(LimitStep(float(limit), int(picked)))
    return tuple(found)


@dataclass(frozen=True)
class SelectionRow:
    """One number about the chosen model.

    Attributes
    ----------
    metric, attribute : str
        The attribute is empty for utility.
    limit : float
        Largest unfairness or least utility that was asked for; NaN for no limit.
    validation : float
        Value on the validation rows. It is too favorable, as the model is the best of many there.
    estimate : Estimate
        Value on the test rows, with interval and certificate. Its parts are also columns: `test`
        (the value), `low`, `high`, `chance`, `certificate`, `where` and `note`.
    """

    metric: str
    attribute: str
    limit: float
    validation: float
    estimate: Estimate

    COLUMNS: ClassVar = (
        "metric", "attribute", "limit", "validation", "test", "low", "high", "chance",
        "certificate", "where", "note",
    )  # fmt: skip
    test = property(attrgetter("estimate.value"))
    low = property(attrgetter("estimate.low"))
    high = property(attrgetter("estimate.high"))
    chance = property(attrgetter("estimate.chance"))
    where = property(attrgetter("estimate.where"))
    certificate = property(attrgetter("estimate.certificate"))

    @property
    def note(self) -> str:
        """Why a number is undefined, which groups it leaves out, and what else to know about it."""
        found = self.estimate
        left_out = f"too few rows to judge by themselves: {found.unjudged}"
        return notes(found.reason, found.note, left_out if found.unjudged else "")

    def columns(self) -> dict[str, Any]:
        """Return the row as a mapping, for tables and JSON."""
        return {name: getattr(self, name) for name in self.COLUMNS}

    @property
    def name(self) -> str:
        """Metric and attribute in words."""
        return f"{self.metric} by {self.attribute}" if self.attribute else self.metric


@dataclass(frozen=True, eq=False)
class Selection:
    """A model picked on validation rows, and its report on test rows; print it to read both.

    Attributes
    ----------
    model : FairClassifier, FairRegressor, or their boosted counterparts
        The selected snapshot as a fitted estimator.
    snapshot, origin : int, str
        Its row in ``FairFrontier.table()``, and a description of it.
    strength, seed, predictor, averaged, iteration
        As in that table: the seed of an average is -1, an iteration of boosted trees is a round,
        and ``averaged`` counts the members whose scores are averaged.
    threshold : float or None
        Threshold of decisions, Youden's on the validation rows; None unless there are two classes.
    wish, aim : str
        The limits, and what was optimized within them.
    metric, attributes : str, tuple of str
        The metric of the limits on unfairness, and the attributes that counted.
    candidates : int
        Number of selections for which the certificates hold together.
    picked_among : int
        Number of snapshots on a front, among which this one was picked.
    level : float
        Level of intervals and certificates.
    validation_rows, test_rows : int
        Numbers of rows. Without test rows (see ``FairFrontier.save``) ``test_rows`` is 0.
    rows : tuple of SelectionRow
        Utility first, then every metric by attribute; with three or more classes that of the worst.
    verdicts : tuple of Verdict
        Whether each limit on unfairness is kept, on the test rows.
    nearest : bool
        Whether no snapshot keeps the limits on the validation rows, and this one is the nearest.
    useless : bool
        Whether its utility on the validation rows is no better than chance.
    decisions : Decisions
        What a positive decision means for people, as it was given.
    """

    model: Classifies | Regresses
    snapshot: int
    origin: str
    strength: float
    seed: int
    predictor: str
    averaged: int
    iteration: int
    threshold: float | None
    wish: str
    aim: str
    metric: str
    attributes: tuple[str, ...]
    candidates: int
    picked_among: int
    level: float
    validation_rows: int
    test_rows: int
    rows: tuple[SelectionRow, ...]
    verdicts: tuple[Verdict, ...]
    nearest: bool = False
    useless: bool = False
    decisions: Decisions = field(default_factory=Decisions)

    @property
    def holds_on_test(self) -> bool | None:
        """Whether the values on the test rows are within all limits; None without test rows."""
        if self.test_rows == 0:
            return None
        utility, *unfairness = self.rows
        enough = math.isnan(utility.limit) or utility.test >= utility.limit
        # An undefined value is within no limit.
        return enough and all(
            row.test <= row.limit for row in unfairness if not math.isnan(row.limit)
        )

    @property
    def sensitive_use(self) -> str:
        """A sentence that names the sensitive columns the model sees at prediction, or ""."""
        names = learned_inputs(self.model).names
        return f"This model uses {listed(names)} at prediction." if names else ""

    def to_frame(self) -> pd.DataFrame:
        """Return the report as a pandas DataFrame, with the columns of `SelectionRow`."""
        return pd.DataFrame(
            [row.columns() for row in self.rows], columns=list(SelectionRow.COLUMNS)
        )

    @property
    def headlines(self) -> tuple[str, ...]:
        """What to read first: whether each limit is kept, a line for each, and what is wrong."""
        lines = [f"{each.attribute}: {each.words}." for each in self.verdicts]
        utility = self.rows[0]
        if not math.isnan(utility.limit):
            value, rows = utility.test, "test"
            if self.test_rows == 0:
                value, rows = utility.validation, "validation"
            asked = "at least {:g} was" if value >= utility.limit else "below the {:g} that was"
            lines.append(
                f"{utility.metric}: {value:.4f} on the {rows} rows, {asked.format(utility.limit)} "
                "asked for."
            )
        if self.nearest:
            lines.append(
                f"This model does not keep the limit: it is the nearest, as no model that may be "
                f"chosen has {self.wish} on the validation rows."
            )
        if self.useless:
            lines.append(
                "This model is no better than chance: its "
                f"{utility.metric} on the validation rows is {utility.validation:.4f}."
            )
        return (*lines, *filter(None, [self.sensitive_use]))

    @property
    def sentences(self) -> tuple[str, ...]:
        """How groups fare, and how far apart they are: a line for each limit on unfairness."""
        return tuple(" ".join(each.sentences) for each in self.verdicts)

    @property
    def details(self) -> tuple[str, ...]:
        """How the model was picked, and every number about it, a line each."""
        head = (
            f"Snapshot {self.snapshot} ({self.origin}) has {self.aim} with {self.wish}, among "
            f"{self.picked_among} snapshots on a front, on {self.validation_rows} validation rows."
        )
        within = "within the limits" if self.holds_on_test else "not within the limits"
        basis = (
            f"On {self.test_rows} test rows, used neither to train nor to pick, it is {within} "
            f"({100 * self.level:g} % intervals in brackets):"
        )
        if self.test_rows == 0:
            basis = (
                "There are no test rows any more. These values are from the validation rows, on "
                "which it was picked, so they are too favorable:"
            )
        lines = [head, basis, *(f"  {_row_in_words(row)}" for row in self.rows)]
        if self.threshold is not None:
            lines.append(f"Decisions: score > {self.threshold:.4g}, set on the validation rows.")
        # Not a warning: the test rows have measured what health warns about.
        lines += [f"Training: {message}" for message in self.model.health_.messages]
        return (*lines, *filter(None, (self._about_classes(), self._about_picking())))

    def __str__(self) -> str:
        blocks = (self.headlines, self.sentences, self.details)
        return wrapped("\n\n".join("\n".join(block) for block in blocks if block))

    def _about_classes(self) -> str:
        """Say which class is reported if there are several."""
        classes = len(getattr(self.model, "classes_", ()))
        if classes < 3:
            return ""
        together = f"; intervals and certificates hold for all {classes} together"
        return (
            f"Unfairness is that of the worst of the {classes} classes, each assessed by its own "
            f"probability{together if self.test_rows else ''}."
        )

    def _about_picking(self) -> str:
        """Say how comparing several reports affects the numbers."""
        if self.test_rows == 0:
            return ""
        further = "Each further model you compare on these test rows"
        if all(math.isnan(row.certificate) for row in self.rows):
            return f"{further} makes the best of them look better than it is."
        of = "this selection" if self.candidates == 1 else f"{self.candidates} selections"
        return (
            f"Each certificate holds by itself, for {of}. {further} weakens it; candidates counts "
            "them."
        )


def _row_in_words(row: SelectionRow) -> str:
    parts = []
    if not math.isnan(row.test):
        parts.append(f"{row.name} {row.test:.4f} ({row.low:.4f} to {row.high:.4f})")
    if not math.isnan(row.certificate):
        parts.append(f"certified to be at most {row.certificate:.4f}")
    validation = f"{row.validation:.4f} on validation rows"
    parts.append(validation if parts else f"{row.name} {validation}")
    if not math.isnan(row.limit):
        parts.append(f"limit: {'at most' if row.attribute else 'at least'} {row.limit:g}")
    # A row with a limit has a verdict, which names the groups that it leaves out.
    note = row.note if math.isnan(row.limit) else notes(row.estimate.reason, row.estimate.note)
    return notes(", ".join(parts), row.where, note)


def select(curve: Curve, wish: Wish, settings: ReportSettings) -> Selection:
    """Pick a snapshot by its values on the validation rows, then report on the test rows."""
    snapshots = curve.snapshots
    picked = pick(snapshots, curve.entries, wish, chance=curve.chance)
    number = picked.number
    _, entry = curve.owner(number)
    iteration = int(snapshots.iteration[number])
    (rows,) = reports(curve, [number], settings, wish)
    return Selection(
        model=curve.model(number),
        snapshot=number,
        origin=entry.describe(iteration),
        strength=entry.strength,
        seed=entry.seed,
        predictor=entry.predictor,
        averaged=len(entry.members),
        iteration=iteration,
        threshold=curve.threshold(number),
        wish=wish.describe(),
        aim="the smallest excess over the limits of a model" if picked.nearest else wish.aim(),
        metric=wish.metric,
        attributes=tuple(wish.limits),
        candidates=settings.candidates,
        picked_among=len(snapshots.weights),
        level=settings.level,
        validation_rows=len(curve.split.validation),
        test_rows=0 if curve.test is None else len(curve.test),
        rows=rows,
        verdicts=tuple(
            replace(each, caveat="but the model is no better than chance" * picked.useless)
            for each in verdicts(curve, number, rows, settings)
        ),
        nearest=picked.nearest,
        useless=picked.useless,
        decisions=settings.decisions,
    )


def verdicts(
    curve: Curve, number: int, rows: Sequence[SelectionRow], settings: ReportSettings
) -> tuple[Verdict, ...]:
    """Judge a kept snapshot by the limits of these rows, on the test rows."""
    found = []
    for row in rows[1:]:
        if math.isnan(row.limit):
            continue
        notion = find_metric(row.metric).notion or Notion.INDEPENDENCE
        estimate, about, ratio = row.estimate, None, None
        if curve.test is None or curve.scores is None:
            estimate = Estimate(level=settings.level, reason="there are no test rows any more")
        else:
            about, ratio = rates(
                curve.scores[number][:, -1],
                curve.test,
                row.attribute,
                notion,
                curve.threshold(number),
                settings.decisions,
                settings.level,
            )
        if notion.conditions_on_outcome:
            ratio = None
        found.append(
            Verdict(str(notion), row.attribute, row.metric, row.limit, estimate, about, ratio)
        )
    return tuple(found)


def reports(
    curve: Curve, numbers: Sequence[int], settings: ReportSettings, wish: Wish | None = None
) -> list[tuple[SelectionRow, ...]]:
    """Return the rows that ``select`` reports for each of these kept snapshots."""
    snapshots, scores = curve.snapshots, curve.test_scores(numbers)
    criteria = snapshots.criteria
    found = [(Estimate(),) * (1 + len(criteria.measures))] * len(numbers)
    if scores is not None and curve.test is not None:
        thresholds = [curve.threshold(number) for number in numbers]
        found = estimates(scores, curve.test, criteria, thresholds, settings)
    caveats = ["", *(find_metric(name).caveat(criteria.outcome) for name, _ in criteria.measures)]
    found = [
        tuple(
            replace(estimate, note=notes(caveat, estimate.note))
            for estimate, caveat in zip(each, caveats, strict=True)
        )
        for each in found
    ]
    named = [(criteria.utility, ""), *criteria.measures]
    limits = {} if wish is None else wish.by_measure()
    return [
        tuple(
            SelectionRow(*name, limits.get(name, math.nan), float(value), estimate)
            for name, value, estimate in zip(
                named, [snapshots.utility[number], *snapshots.unfairness[number]], each, strict=True
            )
        )
        for number, each in zip(numbers, found, strict=True)
    ]
