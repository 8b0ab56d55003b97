"""Trains a frontier: from the user's rows to the curve of all snapshots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor
from torch import Tensor

from equipoise.cluster import Cluster, Engine, connected
from equipoise.cores import count_jobs, in_threads
from equipoise.errors import InputError, check_choice, check_flag, check_whole, refuse_unread
from equipoise.estimators import Classifies, FairClassifier, Regresses
from equipoise.estimators.fitting import (
    UTILITIES,
    FitRun,
    Fitting,
    Positions,
    changed_options,
    effective_sizes,
    read_rows,
    read_seed,
    same_form,
    utilities_of,
)
from equipoise.frontier.judging import (
    Criteria,
    Floats,
    HeldOut,
    Judge,
    criteria_for,
    samples_of,
)
from equipoise.frontier.snapshots import (
    Curve,
    Entry,
    Recorder,
    Snapshots,
    TrainedEstimator,
    entries_of,
    gathered,
    joined,
    scores_of,
    table_of,
)
from equipoise.frontier.splitting import GROUPS, numbered, split_rows
from equipoise.methods import parse_method
from equipoise.metrics import find_metric
from equipoise.networks import select_members
from equipoise.predictors import FAMILIES
from equipoise.storage import CheckpointFile
from equipoise.tables import take_rows
from equipoise.tables.columns import check_aligned
from equipoise.training import Health, History, Member, Predictor, Progress
from equipoise.training.data import TrainingData
from equipoise.training.health import HEALTH_ROWS, Utility, compare, judge_health

if TYPE_CHECKING:
    from equipoise.frontier.estimator import FairFrontier

#: An estimator that a frontier can train.
Predicts = Classifies | Regresses
#: Default of ``evaluate_every``, by the unit in which a family of predictors trains.
_EVALUATE_EVERY = {"iteration": 100, "round": 10}
#: Options in which all estimators must agree, since they are measured on the same rows.
_SHARED = ("notion", "sensitive_types", "missing_sensitive")
#: Options of single estimators, with the values that they have in a frontier: it trains one model
#: for each strength and seed on all training rows, and validation rows pick the moment.
_ALONE = {"members": 1, "early_stopping": None}
#: Key of the states of earlier estimators in the checkpoint of a later one.
_EARLIER = "before"


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Rows that were drawn from a larger table."""

    validation: Positions  # positions among these rows
    test: Positions
    numbers: Positions  # the number of each row in the table


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What else the rows of a fit say: the positive label, and what splits them."""

    positive: Any = None  # label of y; None for the last of the sorted labels
    groups: Any = None  # (n,) rows of equal value stay in one part
    times: Any = None  # (n,) the latest rows are test rows
    drawn: DrawnRows | None = None  # if the parts were drawn before


def check_options(frontier: FairFrontier) -> None:
    """Refuse options that no rows can be trained with, before there are any rows."""
    seed = read_seed(frontier.random_state)
    check_choice("engine", frontier.engine, get_args(Engine))
    _members(frontier, seed)
    _fittings(frontier, seed)
    metrics: Any = frontier.metrics
    for metric in metrics if isinstance(metrics, list | tuple) else ():
        find_metric(metric)


def fit_curve(
    frontier: FairFrontier,
    run: FitRun,
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: Any,
    roles: Roles,
) -> Curve:
    """Train all members of every estimator and keep the snapshots on a front."""
    seed = read_seed(frontier.random_state)
    check_choice("engine", frontier.engine, get_args(Engine))
    members = _members(frontier, seed)
    fittings = _fittings(frontier, seed)
    if sensitive_features is None:
        raise InputError(
            "sensitive_features is required to measure unfairness, got None; call "
            "fit(X, y, sensitive_features=A)"
        )
    if frontier.engine == "ray":
        _check_spreadable(run, fittings)
    if run.file is not None:
        for fitting in fittings.values():
            fitting.recipe.check_resumable()
    models = [fitting.model for fitting in fittings.values()]
    check_aligned(X=X, groups=roles.groups, times=roles.times)
    rows = read_rows(models, X, y, sensitive_features, sample_weight, positive=roles.positive)
    assert rows.table is not None
    of_parts = frontier if roles.drawn is None else roles.drawn
    split = split_rows(
        len(rows),
        validation=of_parts.validation,
        test=of_parts.test,
        seed=seed,
        counted=rows.counted,
        groups=roles.groups,
        times=roles.times,
    )
    # All encode the rows before any is trained, so that errors come before the long training.
    train = rows.alone(split.train)
    if roles.groups is not None:
        groups, _ = numbered(GROUPS, roles.groups, rows.counted)
        train = replace(train, groups=groups[split.train])
    for fitting in fittings.values():
        fitting.learn(train, penalized=any(member.strength > 0 for member in members))
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
    criteria = criteria_for(frontier.metrics, first.model.notion, first.utility, validation, test)
    trainings = [
        _Training(
            name,
            fitting,
            members,
            entries_of(members, ensemble=frontier.ensemble, predictor=name),
            criteria,
            validation,
            test,
            fitting.encode(take_rows(rows.X, split.validation), validation.table, split.validation),
            fitting.encode(take_rows(rows.X, split.test), test.table, split.test),
        )
        for name, fitting in fittings.items()
    ]
    entries = [entry for training in trainings for entry in training.entries]
    trained: dict[str, TrainedEstimator] = {}
    parts: list[Snapshots] = []
    with connected() if frontier.engine == "ray" else nullcontext() as cluster:
        for training in trainings:
            if cluster is None:
                own = replace(
                    run,
                    store=None if run.file is None else _CheckpointPart(run.file, len(parts)),
                )
                work = partial(_train_all, training, entries, tuple(parts))
                ran = own.carry_out(work, training.fitting, frontier.verbose)
                training.fitting.warn_if_interrupted(ran, run)
                trained[training.name], part, ended = ran.estimator, ran.snapshots, ran.ended
            else:
                (trained[training.name], part), ended = training.spread(cluster), False
            parts.append(part)
            if ended:
                break
    snapshots = joined(parts)

    def assessed(number: int) -> tuple[Health, Floats]:
        entry = entries[snapshots.entry[number]]
        (training,) = (each for each in trainings if each.name == entry.predictor)
        return training.assess(trained[training.name], snapshots, number, entry)

    on_cpu = all(fitting.device.type == "cpu" for fitting in fittings.values())
    jobs = count_jobs(frontier.n_jobs) if on_cpu else 1
    found = dict(zip(snapshots.weights, in_threads(assessed, snapshots.weights, jobs), strict=True))
    return Curve(
        trained=tuple(trained.values()),
        snapshots=snapshots,
        health={number: health for number, (health, _) in found.items()},
        scores={number: scores for number, (_, scores) in found.items()},
        split=split if roles.drawn is None else split.numbered(roles.drawn.numbers),
        sensitive=rows.table.take(rows.counted).describe(),
        test=test,
        chance=_validation_utility(criteria, validation, math.nan).chance,
    )


def _validation_utility(criteria: Criteria, validation: HeldOut, value: float) -> Utility:
    """A utility on the validation rows; its chance level depends on these rows alone."""
    y, counts = (
        torch.from_numpy(values.astype(np.float64)) for values in (validation.y, validation.counts)
    )
    columns = int(y.max()) + 1 if validation.outcome == "multiclass" else 1
    sizes = effective_sizes(y, counts, validation.outcome, columns)
    return Utility(criteria.utility, value, sizes)


def _members(frontier: FairFrontier, seed: int) -> tuple[Member, ...]:
    """Combine every strength with the seeds ``seed``, ``seed`` + 1, ..."""
    given = frontier.strengths
    strengths = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(strengths, list | tuple):
        raise InputError(f"strengths must be a tuple of numbers in [0, 1), got {given!r}")
    if not strengths or any(each in strengths[:place] for place, each in enumerate(strengths)):
        raise InputError(f"strengths must be distinct numbers, at least one, got {given!r}")
    check_whole("seeds", frontier.seeds)
    if check_flag("ensemble", frontier.ensemble) and frontier.seeds < 2:
        raise InputError(
            f"seeds must be at least 2 for ensemble=True, which averages over seeds, got "
            f"{frontier.seeds}; raise seeds, or leave out ensemble"
        )
    return tuple(
        Member(strength, seed + number)
        for number in range(frontier.seeds)
        for strength in strengths
    )


def _fittings(frontier: FairFrontier, seed: int) -> dict[str, Fitting[Predicts]]:
    """Copy the estimators, check their options and name them "network", "network 2", ..."""
    models = estimators_of(frontier.estimator)
    _check_estimators(models)
    fittings: dict[str, Fitting[Predicts]] = {}
    for model, every in zip(models, _evaluate_every(frontier, len(models)), strict=True):
        read = parse_method(model.method).reads
        alone = {
            name: _ALONE[name]
            for name in _ALONE
            if name in model.get_params(deep=False) and read(name)
        }
        copied = clone(model).set_params(
            strength=max(frontier.strengths),
            random_state=seed,
            n_jobs=frontier.n_jobs,
            verbose=frontier.verbose,
            **alone,
        )
        fitting = Fitting(copied)
        if isinstance(every, str):
            every = _EVALUATE_EVERY[FAMILIES[model.family].unit]
        training = replace(fitting.recipe.training, check_every=every)
        fitting.recipe = replace(fitting.recipe, training=training)
        alike = sum(name.partition(" ")[0] == model.family for name in fittings)
        fittings[f"{model.family} {alike + 1}" if alike else model.family] = fitting
    _refuse_several_utilities([fitting.model.loss for fitting in fittings.values()])
    return fittings


def _refuse_several_utilities(losses: Sequence[str]) -> None:
    """Refuse regressors whose losses are measured differently; classifiers have one loss."""
    by_utility = {UTILITIES[loss]: loss for loss in losses}
    if len(by_utility) > 1:
        found = " and ".join(f"loss={loss!r} ({name})" for name, loss in by_utility.items())
        raise InputError(
            "estimator must be a list of regressors whose losses have the same utility, got "
            f"{found}; give all the same loss, or fit a frontier of each"
        )


def _evaluate_every(frontier: FairFrontier, count: int) -> list[Any]:
    """Return ``evaluate_every`` for each of the estimators."""
    given: Any = frontier.evaluate_every
    listed = all(isinstance(each, list | tuple) for each in (given, frontier.estimator))
    values = list(given) if listed else [given] * count
    if len(values) != count:
        raise InputError(
            f"evaluate_every must have one value for each of the {count} estimators, got "
            f"{given!r}; a single number is for all"
        )
    for value in values:
        if not (isinstance(value, str) and value == "default"):
            check_whole("evaluate_every", value)
    return values


def estimators_of(estimator: Any) -> list[Any]:
    """Return the option ``estimator`` of a frontier as a list."""
    if estimator is None:
        return [FairClassifier()]
    return list(estimator) if isinstance(estimator, list | tuple) else [estimator]


def _check_estimators(models: Sequence[Any]) -> None:
    """Refuse what cannot be trained, and estimators that cannot compete on one front."""
    if not models:
        raise InputError("estimator must be an estimator or a list of them, got an empty list")
    first, remedy = models[0], "fit a frontier of each"
    for model in models:
        if not isinstance(model, Classifies | Regresses):
            raise InputError(
                "estimator must be a FairClassifier, FairRegressor, FairBoostingClassifier, "
                "FairBoostingRegressor or FairAdjuster, or a list of them, got "
                f"{model!r}; for example FairFrontier(FairClassifier())"
            )
        options, name = model.get_params(deep=False), type(model).__name__
        if options["random_state"] is not None:
            raise InputError(
                f"estimator must leave random_state to the frontier, got {name}"
                f"(random_state={options['random_state']!r}); set FairFrontier(random_state=...)"
            )
        changed = changed_options(model)
        for option, alone in _ALONE.items():
            if changed.get(option, alone) != alone:
                raise InputError(
                    f"estimator must leave out {option}, got {name}"
                    f"({option}={changed[option]!r}); a frontier has seeds, averages and snapshots "
                    "of its own"
                )
        if is_regressor(model) != is_regressor(first):
            raise InputError(
                "estimator must be a list of classifiers or of regressors, got both: "
                f"{type(first).__name__} and {name}; {remedy}"
            )
        for shared in _SHARED:
            one, other = getattr(first, shared), getattr(model, shared)
            if same_form(one) != same_form(other):
                raise InputError(
                    f"estimator must be a list of estimators with the same {shared}, got {one!r} "
                    f"and {other!r}; {remedy}"
                )


def flat_options(frontier: FairFrontier) -> dict[str, Any]:
    """Return the options of a frontier and, such as ``estimator__hidden``, of its estimators."""
    options: dict[str, Any] = frontier.get_params(deep=False)
    given = options.pop("estimator")
    for place, model in enumerate(estimators_of(given)):
        prefix = f"estimator__{place}__" if isinstance(given, list | tuple) else "estimator__"
        if isinstance(model, Classifies | Regresses):  # anything else is refused before training
            options[f"{prefix}class"] = type(model).__name__
            options |= {f"{prefix}{name}": v for name, v in model.get_params(deep=False).items()}
    return options


@dataclass(frozen=True, eq=False)
class _TrainedPart:
    """One estimator of a frontier after training, and how that ended."""

    estimator: TrainedEstimator
    snapshots: Snapshots
    interrupted_at: int
    interrupted_in: str
    called_off: bool

    @property
    def ended(self) -> bool:
        """Whether the user ended training."""
        return bool(self.interrupted_at) or self.called_off


@dataclass(frozen=True, eq=False)
class _Training:
    """The training of one estimator of a frontier, and the held-out rows for its snapshots."""

    name: str  # "network", "network 2", ...
    fitting: Fitting[Predicts]
    members: Sequence[Member]
    entries: tuple[Entry, ...]
    criteria: Criteria
    validation: HeldOut
    test: HeldOut
    validation_x: Tensor
    test_x: Tensor

    def run(
        self, all_entries: Sequence[Entry], earlier: Sequence[Snapshots], run: FitRun, verbose: int
    ) -> _TrainedPart:
        """Train all members together.

        all_entries: those of all estimators; earlier: snapshots of the estimators trained before.
        """
        judge = Judge(samples_of(self.validation, self.validation_x.device), self.criteria)
        recorder = Recorder(
            lambda predictor: judge(self.scores(predictor, self.validation_x, self.entries)),
            self.criteria,
            self.entries,
        )

        def snapshots() -> Snapshots:
            return joined([*earlier, recorder.snapshots()])

        def callback(progress: Progress) -> bool | None:
            """Call the user's callback, with the rows that this evaluation adds to the table."""
            assert run.callback is not None
            if progress.phase:
                return run.callback(progress)
            rows = table_of(snapshots(), all_entries).tail(len(self.entries))
            return run.callback(replace(progress, snapshots=rows))

        trained = self.fitting.train(
            self.members,
            replace(
                run,
                callback=None if run.callback is None else callback,
                rows={
                    "validation rows": [self.validation_x, *self.validation.tensors()],
                    "test rows": [self.test_x, *self.test.tensors()],
                },
                parts={"snapshots": recorder},
            ),
            verbose=verbose,
            note=lambda _: _best_in_words(snapshots()),
            on_check=recorder,
        )
        recorded = recorder.snapshots()
        # The last evaluation measured the members as they are now; averages come after them.
        last = recorded.utility[-len(self.entries) :][: len(self.members)]
        members = self.entries[: len(self.members)]
        estimator = TrainedEstimator(
            name=self.name,
            entries=self.entries,
            prototype=select_members(trained.predictor, [0]),
            history=trained.history,
            member_health=self.compared(trained.health, trained.predictor, members, last),
            template=self.fitting.model,
            failures=trained.failures,
        )
        return _TrainedPart(
            estimator,
            recorded,
            trained.interrupted_at,
            trained.interrupted_in,
            trained.called_off,
        )

    def spread(self, cluster: Cluster) -> tuple[TrainedEstimator, Snapshots]:
        """Train members on the workers of a cluster, those of one strength on the same one."""
        strengths = list(dict.fromkeys(member.strength for member in self.members))
        # Plain members go with others: by themselves they would have no penalty to record.
        plain = [strength for strength in strengths if strength == 0]
        penalized = [strength for strength in strengths if strength > 0]
        count = max(1, min(len(penalized), cluster.cores))
        dealt = [penalized[first::count] for first in range(count)]
        dealt[-1] += plain
        found = list(cluster.in_order(partial(_train_some, self), dealt))
        # An average comes after the members, and is named by its strength.
        places = [
            [place for place, entry in enumerate(self.entries) if entry.strength in some]
            for some in dealt
        ]
        order = np.argsort(
            np.concatenate([[p for p in some if p < len(self.members)] for some in places])
        )
        estimators = [estimator for estimator, _ in found]
        healths = [each for estimator in estimators for each in estimator.member_health]
        failures = [each for estimator in estimators for each in estimator.failures]
        whole = replace(
            estimators[0],
            entries=self.entries,
            history=_side_by_side([estimator.history for estimator in estimators], order),
            member_health=tuple(healths[place] for place in order),
            template=self.fitting.model,
            failures=tuple(failures[place] for place in order),
        )
        return whole, gathered([snapshots for _, snapshots in found], places)

    def of_strengths(self, some: Sequence[float]) -> _Training:
        """The training of the members of these strengths alone."""
        members = [member for member in self.members if member.strength in some]
        ensemble = any(entry.is_average for entry in self.entries)
        entries = entries_of(members, ensemble=ensemble, predictor=self.name)
        return replace(self, members=members, entries=entries)

    def assess(
        self, trained: TrainedEstimator, snapshots: Snapshots, number: int, entry: Entry
    ) -> tuple[Health, Floats]:
        """Return the health of a kept snapshot and its scores (n, s) on the test rows."""
        recipe = self.fitting.recipe
        predictor = trained.predictor(entry, snapshots.weights[number])
        judged = judge_health(
            predictor,
            self.health_rows,
            [Member(entry.strength, entry.seeds[0])],
            trained.history_until(entry, int(snapshots.iteration[number])),
            given_outcome=recipe.notion.conditions_on_outcome,
            has_critic=parse_method(recipe.method).has_critic,
            failures=[[each for member in entry.members for each in trained.failures[member]]],
        )
        predictor = predictor.settled()
        alone = [Entry(entry.strength, (0,), entry.seeds[:1])]
        (health,) = self.compared(judged, predictor, alone, snapshots.utility[[number]])
        return health, self.scores(predictor, self.test_x, alone)[0].cpu().numpy()

    def scores(self, predictor: Predictor, x: Tensor, entries: Sequence[Entry]) -> Tensor:
        """Return the scores of entries in the user's units."""
        outcome = self.fitting.outcome
        return scores_of(predictor, x, entries, center=outcome.center, scale=outcome.scale)

    def compared(
        self,
        healths: Sequence[Health],
        predictor: Predictor,
        entries: Sequence[Entry],
        utilities: Floats,
    ) -> tuple[Health, ...]:
        """Add to each health how utility on training rows compares with that on validation rows.

        ``utilities`` are those of the entries on the validation rows.
        """
        scores = scores_of(predictor, self.health_rows.x.to(self.validation_x), entries)
        on_training_rows = utilities_of(scores, self.health_rows, self.criteria.utility)
        return tuple(
            compare(
                health,
                entry.strength,
                trained,
                _validation_utility(self.criteria, self.validation, float(utility)),
                part="validation",
                remedy=self.fitting.remedy,
            )
            for health, entry, trained, utility in zip(
                healths, entries, on_training_rows, utilities, strict=True
            )
        )

    @cached_property
    def health_rows(self) -> TrainingData:
        """The training rows on which health is measured."""
        return self.fitting.data.sample(HEALTH_ROWS)


def _train_some(
    training: _Training, strengths: Sequence[float]
) -> tuple[TrainedEstimator, Snapshots]:
    """Train the members of some strengths, on a worker of a cluster."""
    some = training.of_strengths(strengths)
    found = some.run(some.entries, [], FitRun(callback=None, options={}), verbose=0)
    return found.estimator, found.snapshots


def _train_all(
    training: _Training,
    all_entries: Sequence[Entry],
    earlier: Sequence[Snapshots],
    fitting: Fitting[Predicts],
    run: FitRun,
    *,
    verbose: int,
) -> _TrainedPart:
    """Train the members of one estimator on the rows of ``fitting``."""
    return replace(training, fitting=fitting).run(all_entries, earlier, run, verbose)


def _side_by_side(histories: Sequence[History], order: NDArray[np.intp]) -> History:
    """The history of members that trained apart, in this order."""
    longest = max(histories, key=lambda history: len(history.iterations))
    checks = len(longest.iterations)

    def joined_columns(name: str) -> Any:
        # Members that all stopped have no later checks; their losses stay as they were.
        padded = [
            np.pad(values, ((0, checks - len(values)), (0, 0)), mode="edge")
            for values in (getattr(history, name) for history in histories)
        ]
        return np.concatenate(padded, axis=1)[:, order]

    stopped_at = np.concatenate([history.stopped_at for history in histories])[order]
    return History(
        longest.iterations, joined_columns("task"), joined_columns("penalty"), stopped_at
    )


def _check_spreadable(run: FitRun, fittings: Mapping[str, Fitting[Predicts]]) -> None:
    """Refuse what needs all members in one process."""
    for option, value in (("checkpoint", run.file), ("callback", run.callback)):
        if value is not None:
            remedy = "set engine='local'; what a lost worker trained is trained again"
            refuse_unread(option, value, "engine='ray'", remedy)
    for fitting in fittings.values():
        family = FAMILIES[fitting.model.family]
        if not family.weights_suffice:
            raise InputError(
                f"estimator must be networks for engine='ray', got {family.many}, which stay in "
                "the process that grows them; set engine='local'"
            )
    devices = {fitting.device.type for fitting in fittings.values()}
    if devices != {"cpu"}:
        raise InputError(
            f"device must be 'cpu' for engine='ray', which spreads members over cores, got "
            f"{', '.join(sorted(devices))}; set device='cpu', or engine='local'"
        )


def _best_in_words(snapshots: Snapshots) -> str:
    """Describe the most useful snapshot and the least unfair one."""
    criteria = snapshots.criteria
    metric = criteria.metrics[0]
    worst = snapshots.unfairness[:, list(criteria.by_attribute(metric).values())].max(axis=1)
    defined = ~np.isnan(worst + snapshots.utility)
    if not defined.any():
        return f"{metric} is undefined so far"
    utility, worst = snapshots.utility[defined], worst[defined]
    fairest = worst.argmin()
    return (
        f"best {criteria.utility} {utility.max():.3f}; least {metric} {worst[fairest]:.3f} with "
        f"{criteria.utility} {utility[fairest]:.3f}"
    )


@dataclass(frozen=True)
class _CheckpointPart:
    """The part of a checkpoint file that belongs to one of several estimators.

    The file holds the state of the estimator in training. That state includes the states of the
    estimators trained before it. Printed, it names the file.
    """

    file: CheckpointFile
    number: int  # of the estimator, from 0

    def __str__(self) -> str:
        return str(self.file)

    def read(self) -> dict[str, Any] | None:
        states = self._states()
        return states[self.number] if self.number < len(states) else None

    def refuse(self, error: Exception) -> NoReturn:
        self.file.refuse(error)

    def write(self, state: dict[str, Any]) -> None:
        earlier = self._states()[: self.number]
        self.file.write({**state, _EARLIER: earlier} if earlier else state)

    def _states(self) -> list[dict[str, Any]]:
        """Return the states of the estimators in the file, in the order of training."""
        state = self.file.read()
        if state is None:
            return []
        earlier = state.pop(_EARLIER, [])
        # An older version kept a single state here; its identity is refused with a message.
        return [*(earlier if isinstance(earlier, list) else [earlier]), state]
