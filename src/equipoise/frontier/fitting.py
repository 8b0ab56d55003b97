"""Training a frontier: from the user's rows to the curve of all snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from sklearn.utils import _safe_indexing
from torch import Tensor

from equipoise.errors import InputError, check_flag, check_number, check_whole
from equipoise.estimators import Classifies, Regresses
from equipoise.estimators.fitting import Fitting, Run, read_rows
from equipoise.estimators.inputs import (
    read_seed,
)
from equipoise.frontier.curve import Curve, FromRows, Strand, table_of
from equipoise.frontier.families import families_of, template_of
from equipoise.frontier.rows import HeldOut, Split, split_rows
from equipoise.frontier.snapshots import (
    Criteria,
    Entry,
    Judge,
    Recorder,
    Snapshots,
    criteria_for,
    entries_of,
    joined,
    scores_of,
)
from equipoise.methods import parse_method
from equipoise.networks import select_members
from equipoise.predictors.boosting.library import refuse_draws
from equipoise.storage import CheckpointFile
from equipoise.training import Callback, Member, Progress
from equipoise.training.engine import HEALTH_ROWS


@dataclass(frozen=True, eq=False)
class Fitted:
    """The curve, which rows it came from, and how sensitive columns were typed, as text."""

    curve: Curve
    split: Split
    sensitive: str


def fit_curve(
    options: Mapping[str, Any],
    defaults: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any,
    run: Run,
) -> Fitted:
    """Train all members of every family and keep the snapshots on a front; see `FairFrontier.fit`.

    ``defaults`` are what the options are where nobody has set them.
    """
    families = families_of(options, defaults)
    seed = read_seed(options["random_state"])
    members = read_members(options, seed)
    fittings = {family: _fitting(options, family, seed) for family in families}
    if run.file is not None and "boosting" in families:
        refuse_draws(fittings["boosting"].model.get_params()["lightgbm"])
    if sensitive_features is None:
        raise InputError(
            "sensitive_features is required to judge snapshots: call "
            "fit(X, y, sensitive_features=A)"
        )
    rows = read_rows(
        [fitting.model for fitting in fittings.values()],
        X,
        y,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
    )
    assert rows.table is not None
    split = split_rows(
        len(rows),
        validation=options["validation"],
        test=options["test"],
        seed=seed,
        counted=rows.counted,
    )
    # All learn before any is trained: what is wrong for one family is told at once.
    train = rows.alone(split.train)
    for fitting in fittings.values():
        fitting.learn(train)
    outcome = next(iter(fittings.values())).outcome
    validation, test = (
        HeldOut.read(
            part,
            rows.y[positions],
            rows.table.take(positions),
            None if rows.weights is None else rows.weights[positions],
            outcome,
        )
        for part, positions in (("validation", split.validation), ("test", split.test))
    )
    criteria = criteria_for(options["metrics"], options["notion"], validation, test)
    strands = [
        _Training(
            family,
            fitting,
            entries_of(members, ensemble=options["ensemble"], predictor=family),
            fitting.encode(_safe_indexing(rows.X, split.validation), validation.table),
            fitting.encode(_safe_indexing(rows.X, split.test), test.table),
        )
        for family, fitting in fittings.items()
    ]
    everybody = [entry for each in strands for entry in each.entries]
    found: list[_Found] = []
    for each in strands:
        before = [earlier.snapshots for earlier in found]
        found.append(
            _fit_strand(each, options, members, criteria, validation, test, everybody, before, run)
        )
        if found[-1].cut_short:
            break
    curve = Curve(
        strands=tuple(each.strand for each in found),
        snapshots=joined([each.snapshots for each in found]),
        validation_rows=len(validation),
        test=test,
    )
    return Fitted(curve, split, rows.table.take(rows.counted).describe())


@dataclass(frozen=True, eq=False)
class _Training:
    """One family before training: its members and their averages, and inputs of held-out rows."""

    family: str
    fitting: Fitting[Classifies | Regresses]
    entries: tuple[Entry, ...]
    validation_x: Tensor
    test_x: Tensor


@dataclass(frozen=True, eq=False)
class _Found:
    """A strand, its snapshots, and whether Ctrl-C or a callback ended training."""

    strand: Strand
    snapshots: Snapshots
    cut_short: bool


def _fitting(options: Mapping[str, Any], family: str, seed: int) -> Fitting[Classifies | Regresses]:
    """Check the options of a family, which is judged as often as its snapshots are wanted."""
    fitting = Fitting(template_of(options, family, seed))
    rounds = fitting.recipe.unit == "round"
    every = options["evaluate_every_rounds" if rounds else "evaluate_every"]
    training = replace(fitting.recipe.training, check_every=every)
    fitting.recipe = replace(fitting.recipe, training=training)
    return fitting


def _fit_strand(
    ready: _Training,
    options: Mapping[str, Any],
    members: Sequence[Member],
    criteria: Criteria,
    validation: HeldOut,
    test: HeldOut,
    everybody: Sequence[Entry],
    before: Sequence[Snapshots],
    run: Run,
) -> _Found:
    """Train all members of one family together.

    everybody: entries of all families; before: snapshots of those already trained.
    """
    fitting, entries = ready.fitting, ready.entries
    judge = Judge(validation, criteria, ready.validation_x.device)
    units = {"center": fitting.outcome.center, "scale": fitting.outcome.scale}
    recorder = Recorder(
        lambda predictor: judge(scores_of(predictor, ready.validation_x, entries, **units)),
        criteria,
        entries,
    )

    def so_far() -> Snapshots:
        return joined([*before, recorder.snapshots()])

    note = best_within(so_far, options["progress_budget"])
    told = None
    if run.callback is not None:
        told = with_snapshots(run.callback, so_far, everybody, len(entries))
    own_run = replace(
        run,
        store=None if run.file is None else Stage(run.file, later=bool(before)),
        callback=told,
        rows={
            "validation rows": [ready.validation_x, *validation.tensors()],
            "test rows": [ready.test_x, *test.tensors()],
        },
        parts={"snapshots": recorder},
    )
    trained = fitting.train(
        members, own_run, verbose=options["verbose"], note=note, on_check=recorder
    )
    fitting.warn_if_interrupted(trained, run)
    prototype = select_members(trained.predictor, [0])
    strand = Strand(
        predictor=ready.family,
        entries=entries,
        prototype=prototype,
        history=trained.history,
        member_health=trained.health,
        template=fitting.model,
        evidence=FromRows(
            seen=fitting.data.sample(HEALTH_ROWS),
            given_outcome=fitting.recipe.notion.conditions_on_outcome,
            has_critic=parse_method(options["method"]).has_critic,
            test=ready.test_x,
            **units,
        ),
    )
    cut_short = bool(trained.interrupted_at) or trained.called_off
    return _Found(strand, recorder.snapshots(), cut_short)


def read_members(options: Mapping[str, Any], seed: int) -> tuple[Member, ...]:
    """Every strength with every seed: seed, seed + 1, ..."""
    given = options["strengths"]
    strengths = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(strengths, list | tuple):
        raise InputError(f"strengths must be a tuple of numbers in [0, 1), got {given!r}")
    if not strengths or any(each in strengths[:place] for place, each in enumerate(strengths)):
        raise InputError(f"strengths must be distinct numbers, at least one, got {given!r}")
    for name in ("seeds", "evaluate_every", "evaluate_every_rounds"):
        check_whole(name, options[name])
    if check_flag("ensemble", options["ensemble"]) and options["seeds"] < 2:
        raise InputError(
            f"ensemble=True averages over seeds and needs at least 2, got seeds={options['seeds']}"
        )
    return tuple(
        Member(strength, seed + number)
        for number in range(options["seeds"])
        for strength in strengths
    )


#: Under what name the state of a later family holds that of the finished one before it.
_BEFORE = "before"


@dataclass(frozen=True)
class Stage:
    """The part of a checkpoint that is of one family; printed, it names the file.

    The file holds the state of the family in training, so that any other run that is given the file
    finds out what wrote it; the state of the family before is inside it.

    Attributes
    ----------
    file : CheckpointFile
    later : bool
        Whether another family was trained before, the only one.
    """

    file: CheckpointFile
    later: bool

    def __str__(self) -> str:
        return str(self.file)

    def read(self) -> dict[str, Any] | None:
        """Return the state of this family, or None."""
        kept = self.file.read()
        if kept is None or not self.later:
            return None if kept is None else kept.get(_BEFORE, kept)
        return kept if _BEFORE in kept else None

    def refuse(self, error: Exception) -> NoReturn:
        """Say that the file holds no state of a run."""
        self.file.refuse(error)

    def write(self, state: dict[str, Any]) -> None:
        """Replace the state of this family."""
        if self.later:
            kept = self.file.read()
            assert kept is not None
            state = {**state, _BEFORE: kept.get(_BEFORE, kept)}
        self.file.write(state)


#: What returns all snapshots so far, those of families trained before included.
SoFar = Callable[[], Snapshots]


def with_snapshots(
    callback: Callback, so_far: SoFar, entries: Sequence[Entry], evaluated: int
) -> Callback:
    """Return a callback that passes on the progress with the rows of its evaluation.

    entries: of all families; evaluated: how many of them each evaluation judges.
    """

    def tell(progress: Progress) -> bool | None:
        rows = table_of(so_far(), entries).tail(evaluated)
        return callback(replace(progress, snapshots=rows))

    return tell


def best_within(so_far: SoFar, budget: float) -> Callable[[Progress], str]:
    """Return what says how good the best snapshot is whose unfairness is within the budget."""
    check_number(
        "progress_budget", budget, "must be a number of at least 0", lambda most: most >= 0
    )
    return lambda _: _best_in_words(so_far(), budget)


def _best_in_words(snapshots: Snapshots, budget: float) -> str:
    criteria = snapshots.criteria
    metric = criteria.metrics[0]
    counted = snapshots.unfairness[:, list(criteria.by_attribute(metric).values())]
    # An undefined value is within no budget.
    within = (counted <= budget).all(axis=1) & ~np.isnan(snapshots.utility)
    if not within.any():
        return f"nothing with {metric} <= {budget:g} yet"
    best = snapshots.utility[within].max()
    return f"best {criteria.utility} {best:.3f} with {metric} <= {budget:g}"
