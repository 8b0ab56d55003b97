"""Training a frontier: from the user's rows to the curve of all snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sklearn.base import clone
from torch import Tensor

from equipoise.errors import InputError, check_flag, check_whole
from equipoise.estimators import Classifies, FairClassifier, Regresses
from equipoise.estimators.fitting import Fitting, Run, read_rows, same_form
from equipoise.estimators.inputs import read_seed
from equipoise.frontier.curve import Curve, Strand, table_of
from equipoise.frontier.rows import HeldOut, split_rows
from equipoise.frontier.snapshots import (
    Criteria,
    Entry,
    Floats,
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
from equipoise.predictors import FAMILIES
from equipoise.storage import CheckpointFile
from equipoise.tables import take_rows
from equipoise.training import Health, Member, Progress
from equipoise.training.health import HEALTH_ROWS, judge_health

if TYPE_CHECKING:
    from equipoise.frontier.estimator import FairFrontier

#: An estimator that a frontier can train.
Predicts = Classifies | Regresses
#: Units of training between snapshots unless the user says otherwise.
_EVALUATE_EVERY = {"iteration": 100, "round": 20}
#: Options that all estimators of a frontier share, since they are judged on the same rows.
_SHARED = ("notion", "sensitive_types", "missing_sensitive")
#: Limit on unfairness of the best model that progress tells of.
_LIMIT = 0.1
#: Under what name the state of an estimator holds those of the ones trained before it.
_BEFORE = "before"


def fit_curve(
    frontier: FairFrontier, run: Run, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> Curve:
    """Train all members of every estimator and keep the snapshots on a front."""
    seed = read_seed(frontier.random_state)
    members = _members(frontier, seed)
    fittings = _fittings(frontier, seed)
    if sensitive_features is None:
        raise InputError(
            "sensitive_features is required to judge snapshots: call "
            "fit(X, y, sensitive_features=A)"
        )
    if run.file is not None:
        for fitting in fittings.values():
            fitting.recipe.check_resumable()
    models = [fitting.model for fitting in fittings.values()]
    rows = read_rows(models, X, y, sensitive_features, sample_weight)
    assert rows.table is not None
    split = split_rows(
        len(rows),
        validation=frontier.validation,
        test=frontier.test,
        seed=seed,
        counted=rows.counted,
    )
    # All learn before any is trained: what is wrong for one estimator is told at once.
    train = rows.alone(split.train)
    for fitting in fittings.values():
        fitting.learn(train)
    first = next(iter(fittings.values()))
    validation, test = (
        HeldOut.read(
            part,
            rows.y[positions],
            rows.table.take(positions),
            None if rows.weights is None else rows.weights[positions],
            first.outcome,
        )
        for part, positions in (("validation", split.validation), ("test", split.test))
    )
    criteria = criteria_for(frontier.metrics, first.model.notion, validation, test)
    trainings = [
        _Training(
            criteria,
            validation,
            test,
            predictor,
            fitting,
            members,
            entries_of(members, ensemble=frontier.ensemble, predictor=predictor),
            fitting.encode(take_rows(rows.X, split.validation), validation.table),
            fitting.encode(take_rows(rows.X, split.test), test.table),
        )
        for predictor, fitting in fittings.items()
    ]
    everybody = [entry for each in trainings for entry in each.entries]
    strands: list[Strand] = []
    found: list[Snapshots] = []
    for training in trainings:
        strand, snapshots, ended = training.run(everybody, found, run, frontier.verbose)
        strands.append(strand)
        found.append(snapshots)
        if ended:
            break
    snapshots = joined(found)
    health, scores = _evidence(trainings, strands, everybody, snapshots)
    return Curve(
        strands=tuple(strands),
        snapshots=snapshots,
        health=health,
        scores=scores,
        split=split,
        sensitive=rows.table.take(rows.counted).describe(),
        test=test,
    )


def _members(frontier: FairFrontier, seed: int) -> tuple[Member, ...]:
    """Every strength with every seed: seed, seed + 1, ..."""
    given = frontier.strengths
    strengths = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(strengths, list | tuple):
        raise InputError(f"strengths must be a tuple of numbers in [0, 1), got {given!r}")
    if not strengths or any(each in strengths[:place] for place, each in enumerate(strengths)):
        raise InputError(f"strengths must be distinct numbers, at least one, got {given!r}")
    check_whole("seeds", frontier.seeds)
    if check_flag("ensemble", frontier.ensemble) and frontier.seeds < 2:
        raise InputError(
            f"ensemble=True averages over seeds and needs at least 2, got seeds={frontier.seeds}"
        )
    return tuple(
        Member(strength, seed + number)
        for number in range(frontier.seeds)
        for strength in strengths
    )


def _fittings(frontier: FairFrontier, seed: int) -> dict[str, Fitting[Predicts]]:
    """Check the options of copies of the estimators, and name them: "network", "network 2"."""
    models = _checked_estimators(frontier.estimator)
    found: dict[str, Fitting[Predicts]] = {}
    for model, every in zip(models, _evaluations(frontier), strict=True):
        copied = clone(model).set_params(
            strength=max(frontier.strengths), random_state=seed, verbose=frontier.verbose
        )
        fitting = Fitting(copied)
        wanted = _EVALUATE_EVERY[FAMILIES[model.family].unit] if isinstance(every, str) else every
        training = replace(fitting.recipe.training, check_every=wanted)
        fitting.recipe = replace(fitting.recipe, training=training)
        alike = sum(other.partition(" ")[0] == model.family for other in found)
        found[f"{model.family} {alike + 1}" if alike else model.family] = fitting
    return found


def _evaluations(frontier: FairFrontier) -> list[Any]:
    """How many units of training pass between snapshots of each estimator."""
    given: Any = frontier.evaluate_every
    count = len(estimators_of(frontier.estimator))
    listed = all(isinstance(each, list | tuple) for each in (given, frontier.estimator))
    every = list(given) if listed else [given] * count
    if len(every) != count:
        raise InputError(
            f"evaluate_every must have one value for each of the {count} estimators, got "
            f"{given!r}; a single number is for all"
        )
    for each in every:
        if not (isinstance(each, str) and each == "default"):
            check_whole("evaluate_every", each)
    return every


def estimators_of(estimator: Any) -> list[Any]:
    """Return the estimators that a frontier is given, as a list."""
    if estimator is None:
        return [FairClassifier()]
    return list(estimator) if isinstance(estimator, list | tuple) else [estimator]


def _checked_estimators(estimator: Any) -> list[Predicts]:
    models = estimators_of(estimator)
    if not models:
        raise InputError("estimator must be an estimator or a list of them, got an empty list")
    for model in models:
        if not isinstance(model, Classifies | Regresses):
            raise InputError(
                "estimator must be a FairClassifier, FairRegressor, FairBoostingClassifier or "
                f"FairBoostingRegressor, or a list of them, got {model!r}; for example "
                "FairFrontier(FairClassifier())"
            )
        options = model.get_params(deep=False)
        if options["random_state"] is not None:
            raise InputError(
                f"estimator must leave random_state to the frontier, got {type(model).__name__}"
                f"(random_state={options['random_state']!r}); set FairFrontier(random_state=...)"
            )
        if options.get("early_stopping") is not None:
            raise InputError(
                f"estimator must leave out early_stopping, got {type(model).__name__}"
                f"(early_stopping={options['early_stopping']!r}): a frontier keeps the best rounds "
                "for every wish as it is"
            )
        if isinstance(model, Regresses) != isinstance(models[0], Regresses):
            raise InputError(
                "estimator must be a list of classifiers or of regressors, got both: "
                f"{type(models[0]).__name__} and {type(model).__name__}; fit a frontier of each"
            )
        for name in _SHARED:
            one, other = (getattr(each, name) for each in (models[0], model))
            if same_form(one) != same_form(other):
                raise InputError(
                    f"estimator must be a list of estimators with the same {name}, which compete "
                    f"on one front, got {one!r} and {other!r}; fit a frontier of each"
                )
    return models


def flat_options(frontier: FairFrontier) -> dict[str, Any]:
    """Return the options of a frontier and of its estimators, none of which is an estimator."""
    options: dict[str, Any] = frontier.get_params(deep=False)
    given = options.pop("estimator")
    models = estimators_of(given)
    numbered = isinstance(given, list | tuple)
    for place, model in enumerate(models):
        prefix = f"estimator__{place}__" if numbered else "estimator__"
        if not isinstance(model, Classifies | Regresses):
            continue  # refused before anything is trained
        options[f"{prefix}class"] = type(model).__name__
        options |= {f"{prefix}{name}": v for name, v in model.get_params(deep=False).items()}
    return options


@dataclass(frozen=True, eq=False)
class _Training:
    """One estimator before training: its members and their averages, inputs of held-out rows."""

    criteria: Criteria
    validation: HeldOut
    test: HeldOut
    predictor: str
    fitting: Fitting[Predicts]
    members: Sequence[Member]
    entries: tuple[Entry, ...]
    validation_x: Tensor
    test_x: Tensor

    def run(
        self,
        everybody: Sequence[Entry],
        before: Sequence[Snapshots],
        run: Run,
        verbose: int,
    ) -> tuple[Strand, Snapshots, bool]:
        """Train all members together; the last value is whether the user ended training.

        everybody: entries of all estimators; before: snapshots of those already trained.
        """
        fitting = self.fitting
        judge = Judge(self.validation, self.criteria, self.validation_x.device)
        recorder = Recorder(
            lambda predictor: judge(
                scores_of(predictor, self.validation_x, self.entries, **self.units)
            ),
            self.criteria,
            self.entries,
        )

        def so_far() -> Snapshots:
            return joined([*before, recorder.snapshots()])

        def tell(progress: Progress) -> bool | None:
            """Pass on the progress, with the rows of the table that its evaluation adds."""
            assert run.callback is not None
            if progress.phase:
                return run.callback(progress)
            rows = table_of(so_far(), everybody).tail(len(self.entries))
            return run.callback(replace(progress, snapshots=rows))

        trained = fitting.train(
            self.members,
            replace(
                run,
                store=None if run.file is None else Stage(run.file, len(before)),
                callback=None if run.callback is None else tell,
                rows={
                    "validation rows": [self.validation_x, *self.validation.tensors()],
                    "test rows": [self.test_x, *self.test.tensors()],
                },
                parts={"snapshots": recorder},
            ),
            verbose=verbose,
            note=lambda _: _best_in_words(so_far()),
            on_check=recorder,
        )
        fitting.warn_if_interrupted(trained, run)
        strand = Strand(
            predictor=self.predictor,
            entries=self.entries,
            prototype=select_members(trained.predictor, [0]),
            history=trained.history,
            member_health=trained.health,
            template=fitting.model,
            failures=trained.failures,
        )
        return strand, recorder.snapshots(), bool(trained.interrupted_at) or trained.called_off

    @property
    def units(self) -> dict[str, float]:
        """A continuous outcome is trained on as (y - center) / scale."""
        return {"center": self.fitting.outcome.center, "scale": self.fitting.outcome.scale}


def _evidence(
    trainings: Sequence[_Training],
    strands: Sequence[Strand],
    everybody: Sequence[Entry],
    snapshots: Snapshots,
) -> tuple[dict[int, Health], dict[int, Floats]]:
    """Return health and scores (n, s) on the test rows of every kept snapshot."""
    healths, scores = {}, {}
    alone = [Entry(0.0, (0,), (0,))]
    by_name = {
        strand.predictor: (strand, training, training.fitting.data.sample(HEALTH_ROWS))
        for strand, training in zip(strands, trainings, strict=False)
    }
    for number, weights in snapshots.weights.items():
        entry = everybody[snapshots.entry[number]]
        strand, training, seen = by_name[entry.predictor]
        recipe = training.fitting.recipe
        predictor = strand.filled(entry, weights)
        (healths[number],) = judge_health(
            predictor,
            seen,
            [Member(entry.strength, entry.seeds[0])],
            strand.history_until(entry, int(snapshots.iteration[number])),
            given_outcome=recipe.notion.conditions_on_outcome,
            has_critic=parse_method(recipe.method).has_critic,
            failures=[[each for member in entry.members for each in strand.failures[member]]],
        )
        found = scores_of(predictor.settled(), training.test_x, alone, **training.units)
        scores[number] = found[0].cpu().numpy()
    return healths, scores


@dataclass(frozen=True)
class Stage:
    """The part of a checkpoint that is of one of several estimators; printed, it names the file.

    The file holds the state of the estimator in training, so that any other run that is given the
    file finds out what wrote it; inside it are the states of those that were trained before.
    """

    file: CheckpointFile
    number: int

    def __str__(self) -> str:
        return str(self.file)

    def read(self) -> dict[str, Any] | None:
        """Return the state of this estimator, or None."""
        states = self._states()
        return states[self.number] if self.number < len(states) else None

    def refuse(self, error: Exception) -> NoReturn:
        """Say that the file holds no state of a run."""
        self.file.refuse(error)

    def write(self, state: dict[str, Any]) -> None:
        """Replace the state of this estimator."""
        before = self._states()[: self.number]
        self.file.write({**state, _BEFORE: before} if before else state)

    def _states(self) -> list[dict[str, Any]]:
        kept = self.file.read()
        if kept is None:
            return []
        before = kept.get(_BEFORE, [])
        # A version of before kept one state here, which its identity refuses in words.
        earlier = before if isinstance(before, list) else [before]
        return [*earlier, {name: part for name, part in kept.items() if name != _BEFORE}]


def _best_in_words(snapshots: Snapshots) -> str:
    """Say how good the best snapshot is whose unfairness is within a limit."""
    criteria = snapshots.criteria
    metric = criteria.metrics[0]
    counted = snapshots.unfairness[:, list(criteria.by_attribute(metric).values())]
    # An undefined value is within no limit.
    within = (counted <= _LIMIT).all(axis=1) & ~np.isnan(snapshots.utility)
    if not within.any():
        return f"No model is within {metric} {_LIMIT:g} yet"
    best = snapshots.utility[within].max()
    return f"best {criteria.utility} {best:.3f} within {metric} {_LIMIT:g}"
